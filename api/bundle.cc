// The public Bundle: images by name and fit, loaded once per device, launches that are repeated
// resolved once.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/bundle.h"

#include <map>
#include <mutex>

#include "api/device_state.h"
#include "api/diagnostics.h"
#include "api/status.h"
#include "include/tilec/tilec.h"
#include "support/file.h"

namespace tilec {

struct BundleState {
  runtime::Bundle bundle;

  struct On {
    std::shared_ptr<DeviceState> device;  // before the kernel: outlives it
    std::unique_ptr<runtime::LoadedKernel> kernel;
  };
  // A launch like one before skips the choice, the checks and the packing.
  struct Resolved {
    std::string kernel;
    const DeviceState* device = nullptr;
    Args args;
    runtime::LoadedKernel* loaded = nullptr;
    std::shared_ptr<const runtime::LoadedKernel::Ready> ready;
  };
  static constexpr size_t kKept = 4096;  // then all are forgotten

  std::mutex mutex;  // of what follows
  std::map<std::pair<const DeviceState*, size_t>, On> loaded;
  std::multimap<uint64_t, std::shared_ptr<const Resolved>> resolved;  // by Hash
};

namespace {

constexpr uint64_t kMostBytes = uint64_t{1} << 31;

uint64_t Hash(const std::string& kernel, const Args& args) {
  uint64_t h = std::hash<std::string>()(kernel);
  const auto mix = [&h](uint64_t v) { h = (h ^ v) * 0xff51afd7ed558ccd, h ^= h >> 32; };
  for (const auto& [name, t] : args.tensors()) {
    mix(t.data);
    for (const int64_t d : t.dims) mix(static_cast<uint64_t>(d));
  }
  for (const auto& [name, value] : args.values())
    mix(std::visit([](auto v) { return static_cast<uint64_t>(std::hash<decltype(v)>()(v)); },
                   value));
  return h;
}

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

const backend::KernelImage* AnyImage(const runtime::Bundle& bundle, const std::string& kernel) {
  for (const backend::KernelImage& image : bundle.images)
    if (image.name == kernel) return &image;
  return nullptr;
}

// The caller holds the lock.
Result<std::shared_ptr<const BundleState::Resolved>> Resolve(BundleState& b,
                                                             const std::string& kernel,
                                                             const Device& device, const Args& args,
                                                             DiagSink& diags) {
  const uint64_t hash = Hash(kernel, args);
  const DeviceState* on = device.state().get();
  const auto [first, last] = b.resolved.equal_range(hash);
  for (auto it = first; it != last; ++it)
    if (it->second->device == on && it->second->kernel == kernel && it->second->args == args)
      return it->second;
  runtime::LaunchArgs launch;
  if (const backend::KernelImage* image = AnyImage(b.bundle, kernel))
    launch = LaunchArgsOf(*image, args, diags);
  if (diags.has_errors()) return DiagSink::Propagate();
  TRY(const size_t index, runtime::ChooseImage(b.bundle, kernel, on->device->isa(), launch, diags));
  BundleState::On& place = b.loaded[{on, index}];
  if (!place.kernel) {
    place.device = device.state();
    TRY(place.kernel, runtime::LoadedKernel::Load(*on->device, b.bundle.images[index], diags));
  }
  auto made = std::make_shared<BundleState::Resolved>();
  TRY(made->ready, place.kernel->Prepare(launch, diags));
  made->kernel = kernel;
  made->device = on;
  made->args = args;
  made->loaded = place.kernel.get();
  if (b.resolved.size() >= BundleState::kKept) b.resolved.clear();
  b.resolved.emplace(hash, made);
  return std::shared_ptr<const BundleState::Resolved>(std::move(made));
}

Status StatusOf(const DiagSink& diags) { return api::MakeStatus(diags, SourceMap()); }

}  // namespace

Expected<Bundle> Bundle::FromBytes(const void* bytes, size_t size, const std::string& name) {
  DiagSink diags;
  auto bundle =
      runtime::ReadBundle({static_cast<const char*>(bytes), bytes ? size : 0}, name, diags);
  if (!bundle.ok()) return StatusOf(diags);
  auto state = std::make_shared<BundleState>();
  state->bundle = *std::move(bundle);
  return Bundle(std::move(state));
}

Expected<Bundle> Bundle::Open(const std::string& path) {
  std::string bytes, why;
  if (ReadFile(path, &bytes, &why, kMostBytes)) return FromBytes(bytes.data(), bytes.size(), path);
  DiagSink diags;
  diags.Report(api::kBundleUnreadable, Span{}, path, why);
  return StatusOf(diags);
}

std::vector<std::string> Bundle::kernels() const { return runtime::KernelsOf(state_->bundle); }

Status Bundle::Prepare(const std::string& kernel, Device& device, const Args& args) {
  DiagSink diags;
  std::lock_guard<std::mutex> lock(state_->mutex);
  (void)Resolve(*state_, kernel, device, args, diags).ok();
  return StatusOf(diags);
}

Status Bundle::Launch(const std::string& kernel, Device& device, const Args& args, Stream stream) {
  DiagSink diags;
  std::shared_ptr<const BundleState::Resolved> r;
  {
    std::lock_guard<std::mutex> lock(state_->mutex);
    auto resolved = Resolve(*state_, kernel, device, args, diags);
    if (!resolved.ok()) return StatusOf(diags);
    r = *std::move(resolved);
  }
  (void)r->loaded->Launch(*r->ready, stream, nullptr, diags).ok();
  return StatusOf(diags);
}

}  // namespace tilec
