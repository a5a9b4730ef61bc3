// SPDX-License-Identifier: Apache-2.0
#include "api/kernel_programs.h"

#include <algorithm>
#include <utility>

#include "api/ahead.h"
#include "api/diagnostics.h"
#include "api/divided.h"
#include "api/kernel_tunes.h"
#include "api/status.h"
#include "ir/text.h"
#include "runtime/diagnostics.h"
#include "support/nearest.h"

namespace tilec {

namespace {

runtime::TensorView ViewOf(const Tensor& t) { return {Name(t.dtype), t.data, t.dims, t.strides}; }

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

// Compiles unless somebody has. `waits`: a launch does, and other threads are free.
Result<const backend::KernelImage*> ImageOf(const KernelState& k, Specialisation& s,
                                            const api::Call& call, bool waits, DiagSink& diags) {
  if (!s.image) {
    const CompilerState& c = *k.compiler;
    api::PipelineOptions options = c.options;
    if (waits) options.choosing_threads = api::ChoosingThreads();
    TRY(s.image, api::CompileCall(k.loaded, k.signature.kernel, call, options,
                                  {.cache = c.cache ? &*c.cache : nullptr}, diags));
    api::ShowPaths(k.loaded, &*s.image);
  }
  return &*s.image;
}

}  // namespace

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
    TRY(image, ImageOf(k, *s, call, !where.spent, diags));
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

namespace {

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
  if (what == "json" && api::MayBeSeveral(fn, options)) {
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
