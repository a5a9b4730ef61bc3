// The public Compiler and Kernel: specialisations by key, compiled once, loaded once per device.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "api/diagnostics.h"
#include "api/divided.h"
#include "api/environment.h"
#include "api/size_classes.h"
#include "api/size_ranges.h"
#include "api/solution_cache.h"
#include "api/split.h"
#include "api/state.h"
#include "api/status.h"
#include "api/tune.h"
#include "ir/text.h"
#include "support/nearest.h"

namespace tilec {

namespace {

runtime::TensorView ViewOf(const Tensor& t) { return {Name(t.dtype), t.data, t.dims, t.strides}; }

std::string FactsText(const api::Call& call) {
  std::string text;
  for (const auto& [name, f] : call.facts)
    text += fmt::format("{} {} {} {} {} ", name, f.base_align_bytes, f.stride_align_bytes,
                        f.last_contiguous, f.last_dim_align);
  for (const auto& [name, value] : call.statics)
    text += fmt::format("{} {}={} ", name, value.index(), frontend::ToText(value));
  return text;
}

// What was found out of such tensors with such values compiled in; null: that is not kept.
std::shared_ptr<KernelState::Memory> MemoryFor(KernelState& k, const std::string& facts) {
  if (k.compiler->options.tune != "classes") return nullptr;
  std::lock_guard<std::mutex> lock(k.mutex);
  if (k.memories.size() >= KernelState::kMemories && k.memories.count(facts) == 0)
    k.memories.clear();
  std::shared_ptr<KernelState::Memory>& memory = k.memories[facts];
  if (!memory) memory = std::make_shared<KernelState::Memory>();
  return memory;
}

KernelState::Tuned Choose(KernelState& k, const api::Call& call, const std::string& facts,
                          DiagSink& diags) {
  const api::PipelineOptions& options = k.compiler->options;
  std::optional<api::SolutionCache> store;
  if (k.compiler->cache) store.emplace(*k.compiler->cache, diags);
  const std::shared_ptr<KernelState::Memory> memory = MemoryFor(k, facts);
  std::unique_lock<std::mutex> lock;
  if (memory) lock = std::unique_lock<std::mutex>(memory->mutex);
  KernelState::Tuned tuned;
  tuned.values = api::TunesFor(k.loaded, k.signature, options, store ? &*store : nullptr, call,
                               diags, memory ? &memory->tunes : nullptr);
  api::Call with = call;
  for (const auto& [name, value] : tuned.values) with.statics[name] = with.all[name] = value;
  const scheduler::SplitChoice form = api::SplitFor(k.loaded, k.signature, options, with);
  tuned.split = form.ctas;
  tuned.pack = form.pack;
  tuned.share_copies = form.share_copies;
  tuned.stays = form.stays;
  return tuned;
}

// What is chosen for a launch holds for all of its sizes, or of their class, and alignments. A
// class is found by rounding; its representative is asked for only where it is new, or where not
// all dims can be rounded.
void Tune(KernelState& k, api::Call* call, DiagSink& diags) {
  const api::PipelineOptions& options = k.compiler->options;
  if (options.tune == "default" && options.schedule != "solve") return;
  const bool classes = options.tune == "classes";
  const std::string facts = FactsText(*call);
  std::string same = facts;
  for (const auto& [name, start] : call->row_starts) same += std::to_string(start) + " ";
  std::optional<KernelState::Tuned> known;
  const auto find = [&](const std::string& sizes) {
    std::lock_guard<std::mutex> lock(k.mutex);
    if (const auto found = k.tunes.find(sizes); found != k.tunes.end()) known = found->second;
  };
  if (classes) find(same + api::TextOfClass(k.signature, *call));
  if (!known) {
    std::optional<api::Call> of_class;
    if (classes) of_class = api::Representative(*k.loaded.program, k.signature, *call);
    const api::Call& sized = of_class ? *of_class : *call;
    std::string sizes = same + api::TextOfSizes(sized);
    if (!classes)  // facts may be about others, too
      for (const auto& [name, value] : sized.all)
        if (!std::holds_alternative<int64_t>(value)) sizes += frontend::ToText(value) + " ";
    find(sizes);
    if (!known) {
      known = Choose(k, sized, facts, diags);
      std::lock_guard<std::mutex> lock(k.mutex);
      known = k.tunes.emplace(std::move(sizes), *known).first->second;
    }
  }
  for (const auto& [name, value] : known->values) call->statics[name] = call->all[name] = value;
  call->split = known->split;
  call->pack = known->pack;
  call->share_copies = known->share_copies;
  call->stays = known->stays;
}

Result<api::Call> Bind(KernelState& k, const Args& args, DiagSink& diags) {
  api::Given given;
  for (const auto& [name, value] : args.values())
    std::visit([&, &name = name](auto v) { given[name] = v; }, value);
  api::Tensors tensors;
  for (const auto& [name, tensor] : args.tensors()) tensors[name] = ViewOf(tensor);
  TRY(const frontend::Values values, api::CheckValues(k.signature, given, diags));
  TRY(api::Call call,
      api::BindCall(*k.loaded.program, k.signature, k.runtime_signature, values, tensors, diags));
  Tune(k, &call, diags);
  return call;
}

// Within one kernel an image is told by what is compiled in; its key, which other processes know it
// by, has the texts of all files in it.
std::shared_ptr<Specialisation> FindSpecialisation(KernelState& k, const api::Call& call) {
  const std::string compiled_in = FactsText(call) + std::to_string(call.split) + " " +
                                  std::to_string(call.pack) + " " +
                                  std::to_string(call.share_copies) + std::to_string(call.stays);
  std::lock_guard<std::mutex> lock(k.mutex);
  std::shared_ptr<Specialisation>& s = k.specialisations[compiled_in];
  if (!s) s = std::make_shared<Specialisation>();
  return s;
}

// Compiles unless somebody has.
Result<const backend::KernelImage*> ImageOf(const KernelState& k, Specialisation& s,
                                            const api::Call& call, DiagSink& diags) {
  if (!s.image) {
    const CompilerState& c = *k.compiler;
    TRY(s.image, api::CompileCall(k.loaded, k.signature.kernel, call, c.options,
                                  c.cache ? &*c.cache : nullptr, nullptr, nullptr, diags));
    api::ShowPaths(k.loaded, &*s.image);
  }
  return &*s.image;
}

Result<ResolvedPtr> Resolve(KernelState& k, const Device& device, const Args& args,
                            DiagSink& diags) {
  const DeviceState* on = device.state().get();
  const auto hashes = ResolvedStore::Hash("", on, args);
  {
    std::lock_guard<std::mutex> lock(k.mutex);
    TRY(ResolvedPtr found, FindOrMove(k.resolved, hashes, "", on, args, diags));
    if (found) return found;
  }
  TRY(api::Call call, Bind(k, args, diags));
  const std::shared_ptr<Specialisation> s = FindSpecialisation(k, call);
  auto made = std::make_shared<Resolved>();
  {
    std::lock_guard<std::mutex> lock(s->mutex);
    TRY(const backend::KernelImage* image, ImageOf(k, *s, call, diags));
    Specialisation::On& place = s->loaded[on];
    if (!place.kernel) {
      place.device = device.state();
      TRY(place.kernel, runtime::LoadedKernel::Load(*on->device, *image, diags));
    }
    made->loaded = place.kernel.get();
  }
  TRY(made->ready, made->loaded->Prepare(call.launch, diags));
  made->args = args;
  made->device = on;
  std::lock_guard<std::mutex> lock(k.mutex);
  k.resolved.KeepKind(hashes, made);
  return ResolvedPtr(std::move(made));
}

Result<> RunLaunch(KernelState& k, const Device& device, const Args& args, Stream stream,
                   runtime::LaunchStats* stats, DiagSink& diags) {
  TRY(const ResolvedPtr r, Resolve(k, device, args, diags));
  return r->loaded->Launch(*r->ready, stream, stats, diags);
}

Result<std::string> EmitText(KernelState& k, const std::string& what, const Args& args,
                             DiagSink& diags) {
  const std::vector<std::string> known = {"tile-ir", "plan", "warp-ir", "llvm", "ptx", "json"};
  if (std::find(known.begin(), known.end(), what) == known.end()) {
    DiagBuilder d = diags.Report(api::kUnknownEmit, Span{}, what);
    const std::string near = NearestName(what, known);
    if (!near.empty()) d.Help(fmt::format("did you mean `{}`?", near));
    return d;
  }
  TRY(const api::Call call, Bind(k, args, diags));
  const api::PipelineOptions options = k.compiler->options.For(call);
  TRY(ir::Function fn, api::MakeTileIr(k.loaded, k.signature.kernel, call, nullptr, diags));
  if (what == "tile-ir") return ir::Print(fn);
  if (what == "json" && api::GroupsOf(options) > 1) {
    TRY(const auto divided, api::DividedImage(k.loaded, fn, options, nullptr, diags));
    if (divided) return backend::ToJson(*divided);
  }
  std::string llvm, plan;
  api::Observation look;
  if (what == "plan") look.plan = &plan;
  TRY(fn, api::LowerToWarps(k.loaded, std::move(fn), options, &look, diags));
  if (what == "plan") return plan;
  if (what == "warp-ir") return ir::Print(fn);
  if (what == "llvm") look.llvm_ir = &llvm;
  TRY(const backend::KernelImage image, api::MakeImage(k.loaded, fn, options, &look, diags));
  if (what == "llvm") return llvm;
  return what == "ptx" ? image.ptx : backend::ToJson(image);
}

Expected<Kernel> Fail(const DiagSink& diags, const SourceMap& sources) {
  return Expected<Kernel>(api::MakeStatus(diags, sources));
}

}  // namespace

Expected<Compiler> Compiler::Create(CompilerOptions options) {
  DiagSink diags;
  SourceMap sources;
  auto state = std::make_shared<CompilerState>();
  const Result<api::Machine> machine = api::ReadMachine(options.target, sources, diags);
  if (!machine.ok() || !api::CheckCompiles(**machine, diags).ok() ||
      !api::CheckSchedule(options.schedule, diags).ok() ||
      !api::CheckTune(options.tune, diags).ok())
    return api::MakeStatus(diags, sources);
  state->options = {options.target, options.schedule, "", options.tune};
  state->options.machine = *machine;
  state->library = api::StandardLibrary(options.stdlib_dir);
  if (options.disk_cache) {
    std::string dir =
        options.cache_dir.empty() ? api::CacheDirectoryFromEnvironment() : options.cache_dir;
    if (!dir.empty()) state->cache.emplace(std::move(dir));
  }
  return Compiler(std::move(state));
}

namespace {

// The rest of compiling, once the texts are loaded.
Result<> FinishLoading(KernelState& k, const std::string& kernel, DiagSink& diags) {
  TRY_VOID(api::LoadScheduleFile(k.loaded, k.compiler->options.schedule, diags));
  TRY(k.signature, frontend::SignatureOf(*k.loaded.program, kernel, diags));
  k.runtime_signature = api::ForRuntime(k.signature);
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
  return Expected<Kernel>(Kernel(std::move(k)), std::move(status));
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
  return Expected<Kernel>(Kernel(std::move(k)), std::move(status));
}

std::string Kernel::name() const { return state_->signature.kernel; }

std::vector<Parameter> Kernel::parameters() const {
  std::vector<Parameter> out;
  const frontend::Signature& s = state_->signature;
  for (const frontend::ParamInfo& p : s.params) {
    Parameter q;
    q.name = p.name;
    q.dtype = ir::Spelling(p.dtype);
    q.is_static = s.IsStatic(p.name);
    if (p.default_value) q.default_value = frontend::ToText(*p.default_value);
    switch (p.role) {
      case frontend::ParamRole::kTensor: {
        q.kind = Parameter::Kind::kTensor;
        const char* const directions[] = {"in", "out", "inout"};
        q.direction = directions[static_cast<int>(p.direction)];
        for (const Expr& e : p.dims) q.dims.push_back(ToText(e));
        break;
      }
      case frontend::ParamRole::kScalar: q.kind = Parameter::Kind::kScalar; break;
      case frontend::ParamRole::kConst: q.kind = Parameter::Kind::kConst; break;
    }
    out.push_back(std::move(q));
  }
  for (const frontend::DimInfo& d : s.dims) {
    Parameter q;
    q.kind = Parameter::Kind::kDim;
    q.name = d.name;
    q.is_static = d.is_static;
    out.push_back(std::move(q));
  }
  for (const frontend::TuneInfo& t : s.tunes) {
    Parameter q;
    q.kind = Parameter::Kind::kTune;
    q.name = t.name;
    q.is_static = true;
    if (t.default_value) q.default_value = frontend::ToText(*t.default_value);
    out.push_back(std::move(q));
  }
  return out;
}

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
  (void)Resolve(*state_, device, args, diags).ok();
  return api::MakeStatus(diags, state_->loaded.sources);
}

Status Kernel::Prepare(Device& device, const Args& args, const std::vector<SizeRange>& ranges) {
  DiagSink diags;
  const auto all = [&]() -> Result<> {
    const api::PipelineOptions& options = state_->compiler->options;
    if (options.tune == "model")
      return diags.Report(api::kRangesOfEach, Span{}, state_->signature.kernel);
    TRY(const std::vector<Args> each, api::ArgsOfRanges(state_->signature, args, ranges, diags));
    for (const Args& one : each) TRY_VOID(Resolve(*state_, device, one, diags));
    return Done();
  };
  (void)all().ok();
  return api::MakeStatus(diags, state_->loaded.sources);
}

Expected<Bound> Kernel::Bind(Device& device, const Args& args) {
  DiagSink diags;
  auto resolved = Resolve(*state_, device, args, diags);
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
