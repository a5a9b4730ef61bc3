// SPDX-License-Identifier: Apache-2.0
#include "tools/session.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "api/diagnostics.h"
#include "api/measure.h"
#include "api/solution_cache.h"
#include "api/split.h"
#include "api/tune.h"
#include "api/tune_file.h"
#include "api/tune_word.h"
#include "backend/ptxas.h"
#include "support/file.h"
#include "support/nearest.h"
#include "tools/diagnostics.h"
#include "tools/random_contents.h"

namespace tilec::tools {

namespace {

// Errors that are the device's rather than the input's: R50x and the emulator's E6xx.
bool IsDeviceError(const Diagnostic& d) {
  const std::string_view code = d.def->code;
  return d.def->severity == Severity::kError &&
         (code.substr(0, 3) == "R50" || code.substr(0, 2) == "E6");
}

Result<> CheckChoice(const char* flag, const std::string& value,
                     const std::vector<std::string>& choices, DiagSink& diags) {
  if (std::find(choices.begin(), choices.end(), value) != choices.end()) return Done();
  DiagBuilder d = diags.Report(kBadChoice, Span{}, flag, value).Place("command line");
  const std::string near = NearestName(value, choices);
  if (!near.empty())
    d.Help(fmt::format("did you mean `{}`?", near));
  else
    d.Help(fmt::format("use {}", fmt::join(choices, ", ")));
  return d;
}

}  // namespace

Session::Session(const Options& options) : options_(options), library_(options.stdlib_dir) {
  if (!options_.machine.empty()) options_.target = options_.machine;
  look_.print_after = options.print_after;
  look_.stop_after = options.stop_after;
  look_.time_passes = options.time_passes;
  const std::string directory = CacheDirectory(options);
  if (!options.no_cache && !look_.looks() && !directory.empty()) cache_.emplace(directory);
  if (!cache_ && !look_.looks() && !options.solutions.empty()) solved_.emplace(options.solutions);
  solutions_.emplace(cache_ ? &*cache_ : solved_ ? &*solved_ : nullptr, diags_);
}

Session::~Session() { PrintDiagnostics(); }

Result<> Session::CheckOptions() {
  TRY_VOID(CheckChoice("--diagnostics", options_.diagnostics, {"text", "json"}, diags_));
  TRY_VOID(CheckChoice("--arith", options_.arith, {"fast", "exact"}, diags_));
  TRY_VOID(CheckChoice("--policy", options_.policy, runtime::PolicyNames(), diags_));
  TRY_VOID(CheckChoice("--async", options_.async, runtime::LandingNames(), diags_));
  TRY_VOID(CheckTuneWord());
  TRY_VOID(CheckChoice("--ptxas", options_.ptxas, {"auto", "report", "refine", "off"}, diags_));
  TRY(const api::Machine machine, Machine());
  TRY_VOID(api::CheckCompiles(*machine, diags_));
  return api::CheckSchedule(options_.schedule, diags_);
}

Result<> Session::CheckTuneWord() {
  const auto word = api::TuneWordOf(options_.tune);
  if (options_.tune.rfind("measure=", 0) == 0) TRY_VOID(api::CheckTune(options_.tune, diags_));
  if (!word || word->kind == api::TuneWord::Kind::kClasses)
    TRY_VOID(CheckChoice("--tune", options_.tune, {"default", "model", "measure"}, diags_));
  return Done();
}

Result<api::Machine> Session::Machine() {
  if (machine_ == nullptr) {
    TRY(machine_, api::ReadMachine(options_.target, loaded_.sources, diags_));
  }
  return machine_;
}

Result<> Session::Tune(const frontend::Signature& signature, api::Call* call,
                       runtime::Device* device) {
  const auto start = std::chrono::steady_clock::now();
  api::MeasureBy by;
  std::unique_ptr<runtime::Device> own;
  if (api::Measures(options_.tune) && options_.device == "interpreter") {
    by.why_none = "the interpreter has no clock of its own";
  } else if (api::Measures(options_.tune) && device == nullptr) {
    TRY(own, OpenNamed(options_.device, &by.why_none));
    if (by.why_none.empty()) device = own.get();
  }
  std::string why;
  std::optional<api::Call> full;
  if (api::Measures(options_.tune) && call->launch.tensors.empty())
    full = api::WithTensors(loaded_, signature, *call, &why);
  const api::Call& of = full ? *full : *call;
  by.device = device;
  by.cache = cache();
  by.compiler = Compiler();
  by.contents = RandomContents(*this, signature, of);
  DiagSink said;
  by.remembered.store = cache() ? &*solutions_ : nullptr;
  by.say = true;
  const auto tuning = api::TuningFor(loaded_, signature, of, pipeline(), by, said);
  for (const Diagnostic& d : said.all()) {
    if (!said_.insert(d.message).second) continue;
    DiagBuilder again = diags_.ReportText(*d.def, d.span, d.message);
    for (const std::string& help : d.helps) again.Help(help);
  }
  if (!tuning.ok()) return DiagSink::Propagate();
  for (const auto& [name, value] : tuning->values) call->statics[name] = call->all[name] = value;
  call->schedule = tuning->schedule;
  ChooseForm(signature, call);
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  look_.times.push_back({"choice of tiles and splits", took.count()});
  return Done();
}

std::string Session::Compiler() const {
  return api::CompilerVersion() + (options_.commit.empty() ? "" : ", commit " + options_.commit);
}

void Session::ChooseForm(const frontend::Signature& signature, api::Call* call) {
  const scheduler::SplitChoice split = api::ChooseForm(loaded_, signature, pipeline(), call);
  const std::string which = fmt::format("{} {} {}", signature.kernel, split.ctas, split.ms);
  if (split.ctas > 1 && said_.insert(which).second)
    diags_.Report(api::kSplitChosen, Span{}, signature.kernel, split.ctas, 1e3 * split.ms,
                  1e3 * split.alone_ms);
}

std::pair<std::string, std::string> SplitKernel(const std::string& text) {
  // The name behind the last colon, unless the whole is a file's name.
  const size_t colon = text.rfind(':');
  struct stat s = {};
  if (colon == std::string::npos || ::stat(text.c_str(), &s) == 0) return {text, ""};
  return {text.substr(0, colon), text.substr(colon + 1)};
}

Result<> Session::LoadFile(const std::string& path) {
  TRY(frontend::Program program, api::LoadProgram(loaded_.sources, path, library_, diags_));
  loaded_.program.emplace(std::move(program));
  Warn();
  if (!options_.plan.empty() && loaded_.plan_file < 0)
    TRY_VOID(api::LoadPlanFile(loaded_, options_.plan, diags_));
  TRY_VOID(api::LoadTunes(loaded_, options_.tune, diags_));
  if (loaded_.schedule_file >= 0) return Done();
  return api::LoadScheduleFile(loaded_, options_.schedule, diags_);
}

// What the front end finds odd in any kernel of the file. Errors wait until somebody uses the
// kernel that has them.
void Session::Warn() {
  DiagSink found;
  (void)frontend::Check(*loaded_.program, found);
  for (const Diagnostic& d : found.all()) {
    if (d.def->severity != Severity::kWarning) continue;
    DiagBuilder again = diags_.ReportText(*d.def, d.span, d.message);
    for (const DiagLabel& label : d.labels) again.Label(label.span, label.text);
    for (const std::string& note : d.notes) again.Note(note);
    for (const std::string& help : d.helps) again.Help(help);
  }
}

Result<std::string> Session::LoadKernel(const std::string& file_and_kernel) {
  const auto [file, kernel] = SplitKernel(file_and_kernel);
  TRY_VOID(LoadFile(file));
  if (kernel.empty()) {
    const std::vector<std::string> all = loaded_.program->own_kernels();
    if (all.empty()) return diags_.Report(kNoKernel, Span{}, file).Place("command line");
    if (all.size() > 1)
      return diags_
          .Report(kNeedsKernel, Span{}, file, all.size(), fmt::format("{}", fmt::join(all, ", ")))
          .Place("command line")
          .Help(fmt::format("write {}:{}", file, all.front()));
    return all.front();
  }
  TRY(const frontend::Signature s, frontend::SignatureOf(*loaded_.program, kernel, diags_));
  return s.kernel;
}

Result<std::unique_ptr<runtime::Device>> Session::OpenNamed(const std::string& name,
                                                            std::string* why) {
  TRY(const runtime::EmulatorOptions emulator, Emulator());
  TRY(const api::Machine said, Machine());
  TRY(std::unique_ptr<runtime::Device> device,
      api::OpenDevice(name, emulator, options_.target_said ? said->arch : "", why, diags_));
  if (options_.target_said || device->kind() != "cuda") return device;
  TRY(ir::Target machine, ir::TargetOfDevice(device->isa(), device->description(), diags_));
  machine_ = std::make_shared<const ir::Target>(std::move(machine));
  return device;
}

Result<runtime::EmulatorOptions> Session::Emulator() {
  runtime::EmulatorOptions emulator;
  emulator.arithmetic = options_.arith == "exact" ? runtime::EmulatorOptions::Arithmetic::kExact
                                                  : runtime::EmulatorOptions::Arithmetic::kFast;
  emulator.seed = options_.policy_seed;
  emulator.policy = *runtime::PolicyFromName(options_.policy);
  emulator.landing = *runtime::LandingFromName(options_.async);
  emulator.spurious_try_wait = options_.spurious;
  emulator.instruction_limit = options_.max_instructions;
  emulator.memory_limit_bytes = options_.max_memory << 20;
  TRY(const api::Machine machine, Machine());
  emulator.machine = api::LimitsOf(*machine);
  if (!options_.target_said) emulator.machine.arch.clear();  // PTX of any architecture may be run
  if (!options_.record.empty()) emulator.record = recorded_;
  if (options_.replay.empty()) return emulator;
  std::string text, why;
  if (!ReadFile(options_.replay, &text, &why))
    return diags_.Report(kFileUnreadable, Span{}, options_.replay, why).Place("command line");
  auto execution = runtime::ParseExecution(text, &why);
  if (!execution)
    return diags_.Report(kBadExecution, Span{}, options_.replay, why).Place("command line");
  emulator.seed = execution->seed;
  emulator.policy = execution->policy;
  emulator.landing = execution->landing;
  emulator.spurious_try_wait = execution->spurious;
  emulator.replay = std::make_shared<const runtime::Execution>(std::move(*execution));
  return emulator;
}

void Session::PrintDiagnostics() {
  std::fflush(stdout);
  for (Diagnostic d : diags_.all()) {
    if (!context_.empty()) d.notes.push_back(context_);
    const std::string text = options_.diagnostics == "json"
                                 ? RenderJson(d, loaded_.sources) + "\n"
                                 : Render(d, loaded_.sources, options_.color);
    std::fwrite(text.data(), 1, text.size(), stderr);  // damaged files bring zero bytes
  }
  diags_.Clear();
}

int Session::Finish() {
  int code = kOk;
  for (const Diagnostic& d : diags_.all())
    if (d.def->severity == Severity::kError)
      code = code == kOk && IsDeviceError(d) ? kDeviceFailed : IsDeviceError(d) ? code : kBadInput;
  PrintDiagnostics();
  return code;
}

std::string CacheDirectory(const Options& options) {
  if (!options.cache_dir.empty()) return options.cache_dir;
  return runtime::DefaultCacheDirectory(std::getenv("XDG_CACHE_HOME"), std::getenv("HOME"));
}

std::string Ptxas() {
  const auto text = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value ? value : "");
  };
  return backend::FindPtxas({text("PTXAS"), text("CUDA_HOME"), text("PATH")});
}

bool WriteOutput(const std::string& path, const std::string& text, std::string* why) {
  if (!path.empty() && path != "-") return WriteFileAtomically(path, text, why);
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0)
    return true;
  *why = "standard output is closed";
  return false;
}

std::string Duration(double ms) {
  if (ms < 1) return fmt::format("{:.0f} us", ms * 1000);
  if (ms < 1000) return fmt::format("{:.1f} ms", ms);
  return fmt::format("{:.2f} s", ms / 1000);
}

}  // namespace tilec::tools
