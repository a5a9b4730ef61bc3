// SPDX-License-Identifier: Apache-2.0
#include "api/kernel_programs.h"

#include <algorithm>
#include <utility>

#include "api/ahead.h"
#include "api/diagnostics.h"
#include "api/divided.h"
#include "api/measure.h"
#include "api/measure_launches.h"
#include "api/size_classes.h"
#include "api/solution_cache.h"
#include "api/split.h"
#include "api/status.h"
#include "api/tune.h"
#include "api/tune_word.h"
#include "ir/text.h"
#include "runtime/diagnostics.h"
#include "support/nearest.h"

namespace tilec {

namespace {

runtime::TensorView ViewOf(const Tensor& t) { return {Name(t.dtype), t.data, t.dims, t.strides}; }

std::string FactsText(const api::Call& call) {
  std::string text;
  for (const auto& [name, f] : call.facts)
    fmt::format_to(std::back_inserter(text), "{} {} {} {} {} ", name, f.base_align_bytes,
                   f.stride_align_bytes, f.last_contiguous, f.last_dim_align);
  for (const auto& [name, value] : call.statics)
    fmt::format_to(std::back_inserter(text), "{} {}={} ", name, value.index(),
                   frontend::ToText(value));
  return text;
}

// What was found out of such tensors with such values compiled in; null: that is not kept.
std::shared_ptr<api::TuneMemory> MemoryFor(KernelState& k, const std::string& facts) {
  if (k.compiler->options.tune != "classes") return nullptr;
  std::lock_guard<std::mutex> lock(k.mutex);
  if (k.memories.size() >= KernelState::kMemories && k.memories.count(facts) == 0)
    k.memories.clear();
  std::shared_ptr<api::TuneMemory>& memory = k.memories[facts];
  if (!memory) memory = std::make_shared<api::TuneMemory>();
  return memory;
}

// What the caller's tensor holds by then; others hold zeros.
api::ContentsOf ContentsAt(const Where& where) {
  if (!where.real) return nullptr;
  return [where](const frontend::ParamInfo&, const runtime::TensorView& view) {
    runtime::Device& device = *where.device->state()->device;
    const api::Storage storage = api::StorageOf(view);
    std::vector<std::byte> bytes(storage.bytes);
    DiagSink quiet;
    if (!device.Synchronize(where.stream, quiet).ok() ||
        !device.CopyOut(bytes.data(), view.data - storage.before, bytes.size(), quiet).ok())
      bytes.clear();
    return bytes;
  };
}

KernelState::Tuned TunedBy(KernelState& k, const api::Call& call, api::Tuning tuning,
                           api::TuneMemory* memory = nullptr) {
  KernelState::Tuned tuned;
  tuned.values = std::move(tuning.values);
  tuned.schedule = std::move(tuning.schedule);
  api::Call with = call;
  with.schedule = tuned.schedule;
  for (const auto& [name, value] : tuned.values) with.statics[name] = with.all[name] = value;
  const scheduler::SplitChoice form =
      api::SplitFor(k.loaded, k.signature, k.compiler->options, with, memory);
  tuned.split = form.ctas;
  tuned.pack = form.pack;
  tuned.share_copies = form.share_copies;
  tuned.stays = form.stays;
  tuned.schedule = api::ScheduleOf(form, tuned.schedule);
  return tuned;
}

Result<KernelState::Tuned> Choose(KernelState& k, const api::Call& call, const std::string& facts,
                                  const Where& where, DiagSink& diags) {
  api::PipelineOptions options = k.compiler->options;
  if (!where.spent) options.choosing_threads = api::ChoosingThreads();  // else all cores are busy
  std::optional<api::SolutionCache> store;
  if (k.compiler->cache) store.emplace(*k.compiler->cache, diags);
  const std::shared_ptr<api::TuneMemory> memory = MemoryFor(k, facts);
  const api::Spending time(where.spent ? &where.spent->choosing : nullptr);
  api::MeasureBy by;
  if (where.device != nullptr) by.device = where.device->state()->device.get();
  by.why_none = "no launch was, and this is none";
  by.cache = k.compiler->cache ? &*k.compiler->cache : nullptr;
  by.contents = ContentsAt(where);
  TRY(api::Tuning tuning, api::TuningFor(k.loaded, k.signature, options, by, false,
                                         store ? &*store : nullptr, call, diags, memory.get()));
  return TunedBy(k, call, std::move(tuning), memory.get());
}

std::shared_ptr<Specialisation> FindSpecialisation(KernelState& k, const api::Call& call);
Result<runtime::LoadedKernel*> LoadedOn(KernelState& k, const Where& where, const api::Call& call,
                                        DiagSink& diags);

void SetTunes(const KernelState::Tuned& tuned, api::Call* call) {
  for (const auto& [name, value] : tuned.values) call->statics[name] = call->all[name] = value;
  call->split = tuned.split;
  call->pack = tuned.pack;
  call->share_copies = tuned.share_copies;
  call->stays = tuned.stays;
  call->schedule = tuned.schedule;
}

// Measures a call that was launched, on the improver's thread. What is faster than `before`, which
// stands for `key`, is compiled and loaded for `call`, so that nobody waits for it, and takes its
// place. `sized`: of the class.
void Improve(KernelState& k, const Device& device, const api::Call& call, api::Call sized,
             const std::string& key, const KernelState::Tuned& before,
             const std::atomic<bool>& stop) {
  DiagSink quiet;  // what does not work here is not what the host asked for
  DeviceState& on = *device.state();
  if (on.device->NewStopwatch() == nullptr) return;
  const std::lock_guard<std::mutex> alone(k.compiler->measuring);
  api::MeasureBy by;
  {
    const std::lock_guard<std::mutex> lock(on.mutex);
    if (!on.beside) {
      const auto stream = on.device->NewStream(quiet);
      if (!stream.ok()) return;
      on.beside = *stream;
    }
    by.stream = *on.beside;
  }
  std::string why;
  if (k.compiler->options.tune == "classes") {
    const auto full = api::WithTensors(k.loaded, k.signature, sized, &why);
    if (!full) return;
    sized = *full;
  }
  by.device = on.device.get();
  by.seconds = api::kImproveSeconds;
  by.faster = api::kImproveFaster;
  by.beside = true;
  by.threads = 1;
  by.stop = &stop;
  by.cache = k.compiler->cache ? &*k.compiler->cache : nullptr;
  const api::Measured m =
      api::MeasureTunes(k.loaded, k.signature, sized, k.compiler->options, by, quiet);
  if (stop || !m.why_not.empty() || m.row.us > (1 - api::kImproveFaster) * m.row.model_us) return;
  const KernelState::Tuned tuned = TunedBy(k, sized, {m.row.values, m.row.schedule});
  if (tuned == before) return;
  api::Call with = call;
  SetTunes(tuned, &with);
  if (!LoadedOn(k, {&device}, with, quiet).ok()) return;
  const std::lock_guard<std::mutex> lock(k.mutex);
  k.tunes.insert_or_assign(key, tuned);
  k.resolved = ResolvedStore();
  ++k.generation;
  k.improved.push_back({api::TextOfSizes(sized), api::TextOf({m.row.values, m.row.schedule}),
                        m.row.us, m.row.model_us});
}

// Once for each choice; `key` is what it is kept by.
void AskToImprove(KernelState& k, const Device& device, const api::Call& call,
                  const std::string& key, const KernelState::Tuned& before) {
  {
    const std::lock_guard<std::mutex> lock(k.mutex);
    if (!k.asked.insert(key).second) return;
  }
  const bool added =
      k.compiler->improver->Add(&k, [&k, device, call, key, before](const std::atomic<bool>& stop) {
        const bool classes = k.compiler->options.tune == "classes";
        const api::Call sized =
            classes ? api::Representative(*k.loaded.program, k.signature, call) : call;
        Improve(k, device, call, sized, key, before, stop);
      });
  if (added) return;
  const std::lock_guard<std::mutex> lock(k.mutex);
  k.asked.erase(key);  // another time
}

// What is chosen for a launch holds for all of its sizes, or of their class, and alignments. A
// class is found by rounding; its representative is asked for only where it is new, or where not
// all dims can be rounded. What is measured holds for one device. Gives whether all launches of the
// class have this choice.
Result<bool> Tune(KernelState& k, const Where& where, api::Call* call, DiagSink& diags) {
  const api::PipelineOptions& options = k.compiler->options;
  if (options.tune == "default" && options.schedule != "solve") return false;
  const bool classes = options.tune == "classes", measure = api::Measures(options.tune);
  const std::string facts = FactsText(*call);
  std::string same = facts;
  for (const auto& [name, start] : call->row_starts) same += std::to_string(start) + " ";
  std::optional<KernelState::Tuned> known;
  const auto find = [&](const std::string& sizes) {
    std::lock_guard<std::mutex> lock(k.mutex);
    if (const auto found = k.tunes.find(sizes); found != k.tunes.end()) known = found->second;
  };
  std::string key = same + api::TextOfClass(k.signature, *call);
  const std::string of_all = key;
  if (classes) find(key);
  if (!known) {
    std::optional<api::Call> of_class;
    if (classes) of_class = api::Representative(*k.loaded.program, k.signature, *call);
    const api::Call& sized = of_class ? *of_class : *call;
    std::string sizes = same + api::TextOfSizes(sized);
    if (!classes)  // facts may be about others, too
      for (const auto& [name, value] : sized.all)
        if (!std::holds_alternative<int64_t>(value)) sizes += frontend::ToText(value) + " ";
    const std::string anywhere = sizes;
    std::unique_lock<std::mutex> alone;
    if (measure && where.device != nullptr) {
      sizes += where.device->description();
      alone = std::unique_lock<std::mutex>(k.compiler->measuring);
    }
    key = sizes;
    find(sizes);
    if (!known) {
      TRY(known, Choose(k, sized, facts, where, diags));
      std::lock_guard<std::mutex> lock(k.mutex);
      if (measure && where.device != nullptr) k.tunes.insert_or_assign(anywhere, *known);
      if (!measure || where.device != nullptr)
        known = k.tunes.emplace(std::move(sizes), *known).first->second;
    }
  }
  if (k.compiler->improver && where.device != nullptr && where.launched)
    AskToImprove(k, *where.device, *call, key, *known);
  SetTunes(*known, call);
  return classes && key == of_all;
}

Result<frontend::Values> ValuesOf(const KernelState& k, const Args& args, DiagSink& diags) {
  api::Given given;
  for (const auto& [name, value] : args.values())
    std::visit([&, &name = name](auto v) { given[name] = v; }, value);
  return api::CheckValues(k.signature, given, diags);
}
api::Tensors TensorsOf(const Args& args) {
  api::Tensors tensors;
  for (const auto& [name, tensor] : args.tensors()) tensors.emplace(name, ViewOf(tensor));
  return tensors;
}

// `of_all`, if given: does the choice hold for all launches of the class?
Result<api::Call> Bind(KernelState& k, const Args& args, const Where& where, DiagSink& diags,
                       bool* of_all = nullptr) {
  TRY(const frontend::Values values, ValuesOf(k, args, diags));
  TRY(api::Call call, api::BindCall(*k.loaded.program, k.signature, k.runtime_signature, values,
                                    TensorsOf(args), diags));
  TRY(const bool all, Tune(k, where, &call, diags));
  if (of_all) *of_all = all;
  return call;
}

// Within one kernel an image is told by what is compiled in; its key, which other processes know it
// by, has the texts of all files in it.
std::shared_ptr<Specialisation> FindSpecialisation(KernelState& k, const api::Call& call) {
  const std::string compiled_in =
      FactsText(call) + std::to_string(call.split) + " " + std::to_string(call.pack) + " " +
      std::to_string(call.share_copies) + std::to_string(call.stays) + " " + call.schedule;
  std::lock_guard<std::mutex> lock(k.mutex);
  std::shared_ptr<Specialisation>& s = k.specialisations[compiled_in];
  if (!s) s = std::make_shared<Specialisation>();
  return s;
}

}  // namespace

// What a launch runs, chosen and not yet compiled.
Result<const Specialisation*> ProgramOf(KernelState& k, const Args& args, const Where& where,
                                        DiagSink& diags) {
  TRY(const api::Call call, Bind(k, args, where, diags));
  return static_cast<const Specialisation*>(FindSpecialisation(k, call).get());
}

namespace {

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

// Compiled and loaded, unless somebody has.
Result<runtime::LoadedKernel*> LoadedOn(KernelState& k, const Where& where, const api::Call& call,
                                        DiagSink& diags) {
  const DeviceState* on = where.device->state().get();
  const std::shared_ptr<Specialisation> s = FindSpecialisation(k, call);
  std::lock_guard<std::mutex> lock(s->mutex);
  Specialisation::On& place = s->loaded[on];
  if (place.kernel) return place.kernel.get();
  const backend::KernelImage* image = nullptr;
  api::MachineCode code;
  CompilerState& c = *k.compiler;
  {
    const api::Spending time(where.spent ? &where.spent->compiling : nullptr);
    TRY(image, ImageOf(k, *s, call, diags));
    code = c.assembler.CodeOf(*image, *on->device, c.cache ? &*c.cache : nullptr, diags);
  }
  const api::Spending time(where.spent ? &where.spent->loading : nullptr);
  if (where.spent) ++where.spent->programs;
  place.device = where.device->state();
  const size_t said = diags.all().size();
  TRY(place.kernel,
      runtime::LoadedKernel::Load(*on->device, *image, diags, code.cubin, code.before));
  for (size_t i = said; i < diags.all().size(); ++i)
    if (diags.all()[i].def == &runtime::kCubinRefused) c.assembler.Stop();  // nor any other
  return place.kernel.get();
}

// A launch whose class is known; null where that is not, or something is wrong, which binding says.
std::shared_ptr<Resolved> OfKnownClass(KernelState& k, const api::ReadLaunch& launch) {
  auto made = std::make_shared<Resolved>();
  {
    std::lock_guard<std::mutex> lock(k.mutex);
    made->loaded = k.classes.Find(launch.key());
  }
  if (made->loaded == nullptr) return nullptr;
  DiagSink quiet;
  auto ready = made->loaded->Prepare(launch.given(), quiet);
  if (!ready.ok() || !*ready) return nullptr;
  made->ready = *std::move(ready);
  return made;
}

}  // namespace

Result<ResolvedPtr> Resolve(KernelState& k, const Where& where, const Args& args, DiagSink& diags) {
  const DeviceState* on = where.device->state().get();
  const auto hashes = ResolvedStore::Hash("", on, args);
  uint64_t generation = 0;
  {
    std::lock_guard<std::mutex> lock(k.mutex);
    TRY(ResolvedPtr found, FindOrMove(k.resolved, hashes, "", on, args, diags));
    if (found) return found;
    generation = k.generation;
    for (const KernelState::Improved& i : std::exchange(k.improved, {}))
      diags.Report(api::kTuneImproved, Span{}, k.signature.kernel, i.sizes, i.what, i.us,
                   i.before_us);
  }
  api::ReadLaunch launch;
  const bool read = k.reader && k.reader->Read(args, on, &launch);
  std::shared_ptr<Resolved> made = read ? OfKnownClass(k, launch) : nullptr;
  bool of_all = false;
  if (!made) {
    made = std::make_shared<Resolved>();
    TRY(api::Call call, Bind(k, args, where, diags, &of_all));
    TRY(made->loaded, LoadedOn(k, where, call, diags));
    TRY(made->ready, made->loaded->Prepare(std::move(call.launch), diags));
    of_all = of_all && read && k.reader->Fits(made->loaded->image());
  }
  made->args = args;
  made->device = on;
  std::lock_guard<std::mutex> lock(k.mutex);
  if (generation == k.generation) k.resolved.KeepKind(hashes, made);
  if (of_all) k.classes.Keep(launch.key(), made->loaded);
  return ResolvedPtr(std::move(made));
}

Result<> RunLaunch(KernelState& k, const Device& device, const Args& args, Stream stream,
                   runtime::LaunchStats* stats, DiagSink& diags) {
  TRY(const ResolvedPtr r, Resolve(k, {&device, stream, true}, args, diags));
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
  TRY(const api::Call call, Bind(k, args, Where(), diags));
  const api::PipelineOptions options = k.compiler->options.For(call);
  TRY(ir::Function fn, api::MakeTileIr(k.loaded, k.signature.kernel, call, nullptr, diags));
  if (what == "tile-ir") return ir::Print(fn);
  if (what == "json" && api::GroupsOf(options) > 1) {
    TRY(const auto divided, api::DividedImage(k.loaded, fn, options, nullptr, diags));
    if (divided) return backend::ToJson(*divided);
  }
  DiagSink quiet;  // the lowering says of itself that it deals nothing out
  TRY(api::Launches launches, api::LaunchesOf(k.loaded, std::move(fn), options, quiet));
  std::vector<std::string> texts;
  for (api::LaunchProgram& program : launches.programs) {
    std::string llvm, plan;
    api::Observation look;
    if (what == "plan") look.plan = &plan;
    TRY(const ir::Function made,
        api::LowerToWarps(k.loaded, std::move(program.fn), program.options, &look, diags));
    if (what == "llvm") look.llvm_ir = &llvm;
    if (what != "plan" && what != "warp-ir") {
      TRY(const backend::KernelImage image, api::MakeImage(k.loaded, made, options, &look, diags));
      texts.push_back(what == "llvm" ? llvm : what == "ptx" ? image.ptx : backend::ToJson(image));
    } else {
      texts.push_back(what == "plan" ? plan : ir::Print(made));
    }
  }
  return api::BehindTitles(launches, texts, what == "plan" ? "#" : what == "llvm" ? ";" : "//");
}

}  // namespace tilec
