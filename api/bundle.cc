// The public Bundle: images by name and fit, loaded once per device, launches that are repeated
// resolved once.
//
// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <mutex>
#include <set>

#include "api/device_state.h"
#include "api/diagnostics.h"
#include "api/resolved.h"
#include "api/status.h"
#include "include/tilec/tilec.h"
#include "runtime/bundle_file.h"

namespace tilec {

struct BundleState {
  std::unique_ptr<const runtime::BundleFile> bundle;

  struct On {
    std::shared_ptr<DeviceState> device;  // before the kernel: outlives it
    std::unique_ptr<runtime::LoadedKernel> kernel;
  };

  std::mutex mutex;  // of what follows
  std::map<std::pair<const DeviceState*, size_t>, On> loaded;
  ResolvedStore resolved;
};

namespace {

// Numbers go where the image has them: scalars of the kernel, else dims and what was compiled in.
runtime::LaunchArgs LaunchArgsOf(const backend::KernelImage& image, const Args& args,
                                 DiagSink& diags) {
  runtime::LaunchArgs out;
  for (const auto& [name, t] : args.tensors())
    out.tensors[name] = {Name(t.dtype), t.data, t.dims, t.strides};
  for (const auto& [name, value] : args.values()) {
    const bool scalar = std::any_of(image.scalars.begin(), image.scalars.end(),
                                    [&, &name = name](const auto& s) { return s.name == name; });
    const auto* real = std::get_if<double>(&value);
    const auto* flag = std::get_if<bool>(&value);
    const int64_t whole = flag ? *flag : real ? 0 : std::get<int64_t>(value);
    if (scalar && real)
      out.scalars[name] = *real;
    else if (scalar)
      out.scalars[name] = whole;
    else if (!real)
      out.dims[name] = whole;
    else
      diags.Report(api::kValueType, Span{}, name, image.name, *real, "a dim of a build");
  }
  return out;
}

// Of the first build of the kernel; null if it has none that can be read. Builds of one kernel have
// one signature.
const backend::KernelImage* AnyImage(const runtime::BundleFile& bundle, const std::string& kernel,
                                     const std::string& target = "") {
  const size_t first = bundle.First(kernel, target);
  if (first == bundle.size()) return nullptr;
  DiagSink quiet;
  const auto build = bundle.Get(first, quiet);
  return build.ok() ? &(*build)->image : nullptr;
}

// Takes the lock.
Result<ResolvedPtr> ResolveIn(BundleState& b, const std::string& kernel, const Device& device,
                              const Args& args, DiagSink& diags) {
  const DeviceState* on = device.state().get();
  const auto hashes = ResolvedStore::Hash(kernel, on, args);
  std::lock_guard<std::mutex> lock(b.mutex);
  TRY(ResolvedPtr found, FindOrMove(b.resolved, hashes, kernel, on, args, diags));
  if (found) return found;
  runtime::LaunchArgs launch;
  const std::string target = on->device->isa();
  if (const backend::KernelImage* image = AnyImage(*b.bundle, kernel, target))
    launch = LaunchArgsOf(*image, args, diags);
  if (diags.has_errors()) return DiagSink::Propagate();
  TRY(const size_t index, runtime::ChooseBuild(*b.bundle, kernel, target, launch, diags));
  BundleState::On& place = b.loaded[{on, index}];
  if (!place.kernel) {
    TRY(const runtime::Build* build, b.bundle->Get(index, diags));
    place.device = device.state();
    TRY(place.kernel, runtime::LoadedKernel::Load(*on->device, build->image, diags, build->cubin,
                                                  build->cubins_before));
  }
  auto made = std::make_shared<Resolved>();
  TRY(made->ready, place.kernel->Prepare(launch, diags));
  made->kernel = kernel;
  made->device = on;
  made->args = args;
  made->loaded = place.kernel.get();
  b.resolved.KeepKind(hashes, made);
  return ResolvedPtr(std::move(made));
}

// Null, and why, if it is no bundle.
std::shared_ptr<BundleState> StateOf(ByteSource bytes, const std::string& name, DiagSink& diags) {
  auto bundle = runtime::BundleFile::Open(std::move(bytes), name, diags);
  if (!bundle.ok()) return nullptr;
  auto state = std::make_shared<BundleState>();
  state->bundle = *std::move(bundle);
  return state;
}

}  // namespace

Expected<Bundle> Bundle::FromBytes(const void* bytes, size_t size, const std::string& name) {
  DiagSink diags;
  auto state =
      StateOf(ByteSource::Owned({static_cast<const char*>(bytes), bytes ? size : 0}), name, diags);
  if (!state) return api::MakeStatus(diags);
  return Bundle(std::move(state));
}

Expected<Bundle> Bundle::FromStatic(const void* bytes, size_t size, const std::string& name) {
  DiagSink diags;
  auto state =
      StateOf(ByteSource::In({static_cast<const char*>(bytes), bytes ? size : 0}), name, diags);
  if (!state) return api::MakeStatus(diags);
  return Bundle(std::move(state));
}

Expected<Bundle> Bundle::Open(const std::string& path) {
  DiagSink diags;
  std::string why;
  auto bytes = ByteSource::OfFile(path, &why);
  if (!bytes) diags.Report(api::kBundleUnreadable, Span{}, path, why);
  auto state = bytes ? StateOf(*std::move(bytes), path, diags) : nullptr;
  if (!state) return api::MakeStatus(diags);
  return Bundle(std::move(state));
}

Status Bundle::Verify() const {
  DiagSink diags;
  for (size_t i = 0; i < state_->bundle->size(); ++i) (void)state_->bundle->Get(i, diags).ok();
  return api::MakeStatus(diags);
}

std::vector<std::string> Bundle::kernels() const { return state_->bundle->kernels(); }

std::vector<Parameter> Bundle::parameters(const std::string& kernel) const {
  std::vector<Parameter> out;
  const backend::KernelImage* image = AnyImage(*state_->bundle, kernel);
  if (!image) return out;
  const auto add = [&](Parameter::Kind kind, const std::string& name, const std::string& dtype) {
    out.emplace_back();
    out.back().kind = kind;
    out.back().name = name;
    out.back().dtype = dtype;
    return &out.back();
  };
  std::set<std::string> dims;
  for (const backend::TensorArg& t : image->tensors) {
    Parameter* p = add(Parameter::Kind::kTensor, t.name, t.dtype);
    const char* const directions[] = {"in", "out", "inout"};
    p->direction = directions[static_cast<int>(t.direction)];
    for (const Expr& e : t.dims) {
      p->dims.push_back(ToText(e));
      for (const std::string& name : NamesIn(e)) dims.insert(name);
    }
  }
  for (const backend::ScalarArg& s : image->scalars)
    dims.erase(add(Parameter::Kind::kScalar, s.name, s.dtype)->name);
  for (const auto& [name, value] : image->statics) {
    dims.erase(name);
    add(Parameter::Kind::kDim, name, "")->is_static = true;
  }
  for (const std::string& name : dims) add(Parameter::Kind::kDim, name, "");
  return out;
}

Status Bundle::Prepare(const std::string& kernel, Device& device, const Args& args) {
  DiagSink diags;
  (void)ResolveIn(*state_, kernel, device, args, diags).ok();
  return api::MakeStatus(diags);
}

Expected<Bound> Bundle::Bind(const std::string& kernel, Device& device, const Args& args) {
  DiagSink diags;
  auto resolved = ResolveIn(*state_, kernel, device, args, diags);
  Status status = api::MakeStatus(diags);
  if (!resolved.ok()) return status;
  auto state =
      std::make_shared<const BoundState>(BoundState{state_, device.state(), *std::move(resolved)});
  return Expected<Bound>(Bound(std::move(state)), std::move(status));
}

Status Bundle::Launch(const std::string& kernel, Device& device, const Args& args, Stream stream) {
  DiagSink diags;
  const auto r = ResolveIn(*state_, kernel, device, args, diags);
  if (r.ok()) (void)(*r)->loaded->Launch(*(*r)->ready, stream, nullptr, diags).ok();
  return diags.all().empty() ? Status() : api::MakeStatus(diags);
}

}  // namespace tilec
