// The public Compiler and Kernel: what they are asked for, as a Status and a value.
//
// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "api/diagnostics.h"
#include "api/environment.h"
#include "api/kernel_programs.h"
#include "api/prepare_ranges.h"
#include "api/size_ranges.h"
#include "api/state.h"
#include "api/status.h"
#include "api/tune_file.h"
#include "api/tune_word.h"

namespace tilec {

namespace {

Expected<Kernel> Fail(const DiagSink& diags, const SourceMap& sources) {
  return Expected<Kernel>(api::MakeStatus(diags, sources));
}

}  // namespace

Expected<Compiler> Compiler::Create(CompilerOptions options) {
  DiagSink diags;
  SourceMap sources;
  auto state = std::make_shared<CompilerState>();
  const bool improve = api::TakeImprove(&options.tune);
  const Result<api::Machine> machine = api::ReadMachine(options.target, sources, diags);
  if (!machine.ok() || !api::CheckCompiles(**machine, diags).ok() ||
      !api::CheckSchedule(options.schedule, diags).ok() ||
      !api::CheckTune(options.tune, diags).ok() || !state->assembler.Use(options.ptxas, diags).ok())
    return api::MakeStatus(diags, sources);
  state->options = {options.target, options.schedule, "", options.tune};
  state->options.machine = *machine;
  state->library = api::StandardLibrary(options.stdlib_dir);
  if (options.disk_cache) {
    std::string dir =
        options.cache_dir.empty() ? api::CacheDirectoryFromEnvironment() : options.cache_dir;
    if (!dir.empty()) state->cache.emplace(std::move(dir));
  }
  if (improve) state->improver = std::make_unique<api::Improver>();
  return Compiler(std::move(state));
}

namespace {

// With an improver the handles of a kernel keep it by this: no work of it is left when they are
// gone.
struct Keeper {
  explicit Keeper(std::shared_ptr<KernelState> of) : state(std::move(of)) {}
  ~Keeper() { state->compiler->improver->Finish(state.get()); }
  Keeper(const Keeper&) = delete;
  Keeper& operator=(const Keeper&) = delete;
  const std::shared_ptr<KernelState> state;
};
std::shared_ptr<KernelState> Kept(std::shared_ptr<KernelState> k) {
  if (!k->compiler->improver) return k;
  const auto keeper = std::make_shared<Keeper>(std::move(k));
  return {keeper, keeper->state.get()};
}

// The rest of compiling, once the texts are loaded.
Result<> FinishLoading(KernelState& k, const std::string& kernel, DiagSink& diags) {
  TRY_VOID(api::LoadScheduleFile(k.loaded, k.compiler->options.schedule, diags));
  TRY_VOID(api::LoadTunes(k.loaded, k.compiler->options.tune, diags));
  TRY(k.signature, frontend::SignatureOf(*k.loaded.program, kernel, diags));
  k.runtime_signature = api::ForRuntime(k.signature);
  if (k.compiler->options.tune == "classes" && !k.compiler->improver) k.reader.emplace(k.signature);
  return Done();
}

}  // namespace

Expected<Kernel> Compiler::Compile(const std::string& path, const std::string& kernel) {
  DiagSink diags;
  auto k = std::make_shared<KernelState>();
  k->compiler = state_;
  auto program = api::LoadProgram(k->loaded.sources, path, state_->library, diags);
  if (!program.ok()) return Fail(diags, k->loaded.sources);
  k->loaded.program.emplace(std::move(*program));
  if (!FinishLoading(*k, kernel, diags).ok()) return Fail(diags, k->loaded.sources);
  Status status = api::MakeStatus(diags, k->loaded.sources);
  return Expected<Kernel>(Kernel(Kept(std::move(k))), std::move(status));
}

Expected<Kernel> Compiler::CompileText(const std::string& text, const std::string& name,
                                       const std::string& kernel) {
  DiagSink diags;
  auto k = std::make_shared<KernelState>();
  k->compiler = state_;
  auto program =
      frontend::Program::LoadText(k->loaded.sources, name, text, state_->library.Resolver(), diags);
  if (!program.ok()) return Fail(diags, k->loaded.sources);
  k->loaded.program.emplace(std::move(*program));
  if (!FinishLoading(*k, kernel, diags).ok()) return Fail(diags, k->loaded.sources);
  Status status = api::MakeStatus(diags, k->loaded.sources);
  return Expected<Kernel>(Kernel(Kept(std::move(k))), std::move(status));
}

std::string Kernel::name() const { return state_->signature.kernel; }

Status Kernel::Launch(Device& device, const Args& args, Stream stream) {
  DiagSink diags;
  (void)RunLaunch(*state_, device, args, stream, nullptr, diags).ok();
  return diags.all().empty() ? Status() : api::MakeStatus(diags, state_->loaded.sources);
}

Expected<double> Kernel::LaunchTimed(Device& device, const Args& args, Stream stream) {
  DiagSink diags;
  runtime::LaunchStats stats;
  const bool ok = RunLaunch(*state_, device, args, stream, &stats, diags).ok();
  Status status = api::MakeStatus(diags, state_->loaded.sources);
  if (!ok) return status;
  return Expected<double>(stats.milliseconds, std::move(status));
}

Status Kernel::Prepare(Device& device, const Args& args) {
  DiagSink diags;
  (void)Resolve(*state_, {&device}, args, diags).ok();
  return api::MakeStatus(diags, state_->loaded.sources);
}

Status Kernel::Prepare(Device& device, const Args& args, const std::vector<SizeRange>& ranges,
                       const PrepareOptions& how) {
  DiagSink diags;
  const auto all = [&]() -> Result<> {
    const api::PipelineOptions& options = state_->compiler->options;
    if (options.tune != "classes" && options.tune != "default")
      return diags.Report(api::kRangesOfEach, Span{}, state_->signature.kernel, options.tune);
    TRY(const std::vector<Args> each, api::ArgsOfRanges(state_->signature, args, ranges, diags));
    api::Spent spent;
    const Where where{&device, 0, false, false, &spent};
    std::vector<const Specialisation*> programs(each.size());
    const auto choose = [&](size_t i, DiagSink& sink) -> Result<> {
      TRY(programs[i], ProgramOf(*state_, each[i], where, sink));
      return Done();
    };
    const auto one = [&](size_t i, DiagSink& sink) -> Result<> {
      TRY_VOID(Resolve(*state_, where, each[i], sink));
      return Done();
    };
    return api::PrepareInTwo(each.size(), how, spent, {choose, programs, one}, diags);
  };
  (void)all().ok();
  return api::MakeStatus(diags, state_->loaded.sources);
}

Expected<Bound> Kernel::Bind(Device& device, const Args& args) {
  DiagSink diags;
  auto resolved = Resolve(*state_, {&device, 0, true}, args, diags);
  Status status = api::MakeStatus(diags, state_->loaded.sources);
  if (!resolved.ok()) return status;
  auto state =
      std::make_shared<const BoundState>(BoundState{state_, device.state(), *std::move(resolved)});
  return Expected<Bound>(Bound(std::move(state)), std::move(status));
}

Expected<std::string> Kernel::Emit(const std::string& what, const Args& args) {
  DiagSink diags;
  auto text = EmitText(*state_, what, args, diags);
  Status status = api::MakeStatus(diags, state_->loaded.sources);
  if (!text.ok()) return status;
  return Expected<std::string>(std::move(*text), std::move(status));
}

}  // namespace tilec
