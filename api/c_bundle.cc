// The C interface: thin words around the C++ one. No exception leaves it: what can throw here is
// allocation only, which ends the process as everywhere else.
//
// This part needs no compiler: bundles.
//
// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <mutex>

#include "api/c_handles.h"

struct tilec_bundle {
  explicit tilec_bundle(tilec::Bundle of) : bundle(std::move(of)), kernels(bundle.kernels()) {}

  tilec::Bundle bundle;
  const std::vector<std::string> kernels;
  mutable std::mutex mutex;  // of the tables, which are made when they are asked for
  mutable std::map<std::string, tilec::api::ParameterTable> tables;
};

namespace {

tilec_status* Open(tilec::Expected<tilec::Bundle> bundle, tilec_bundle** out) {
  if (!bundle.ok()) return Give(bundle.status());
  *out = new tilec_bundle(*std::move(bundle));
  return nullptr;
}

}  // namespace

extern "C" {

tilec_status* tilec_bundle_open(const char* path, tilec_bundle** bundle) {
  if (!path || !bundle) return Null(path ? "bundle" : "path");
  return Open(tilec::Bundle::Open(path), bundle);
}
tilec_status* tilec_bundle_open_bytes(const void* bytes, size_t size, const char* name,
                                      tilec_bundle** bundle) {
  if ((!bytes && size) || !bundle) return Null(bundle ? "bytes" : "bundle");
  return Open(tilec::Bundle::FromBytes(bytes, size, name ? name : "bundle"), bundle);
}
tilec_status* tilec_bundle_open_static(const void* bytes, size_t size, const char* name,
                                       tilec_bundle** bundle) {
  if ((!bytes && size) || !bundle) return Null(bundle ? "bytes" : "bundle");
  return Open(tilec::Bundle::FromStatic(bytes, size, name ? name : "bundle"), bundle);
}
tilec_status* tilec_bundle_verify(const tilec_bundle* bundle) {
  return bundle ? Give(bundle->bundle.Verify()) : Null("bundle");
}
void tilec_bundle_free(tilec_bundle* bundle) { delete bundle; }

size_t tilec_bundle_count(const tilec_bundle* bundle) {
  return bundle ? bundle->kernels.size() : 0;
}
const char* tilec_bundle_kernel(const tilec_bundle* bundle, size_t i) {
  return i < tilec_bundle_count(bundle) ? bundle->kernels[i].c_str() : "";
}

namespace {
const tilec::api::ParameterTable* TableOf(const tilec_bundle* bundle, const char* kernel) {
  if (!bundle || !kernel) return nullptr;
  const std::lock_guard<std::mutex> lock(bundle->mutex);
  const auto at = bundle->tables.find(kernel);
  if (at != bundle->tables.end()) return &at->second;
  std::vector<tilec::Parameter> parameters = bundle->bundle.parameters(kernel);
  if (parameters.empty()) return nullptr;
  return &bundle->tables.try_emplace(kernel, std::move(parameters)).first->second;
}
}  // namespace
size_t tilec_bundle_parameter_count(const tilec_bundle* bundle, const char* kernel) {
  const auto* table = TableOf(bundle, kernel);
  return table ? table->parameters.size() : 0;
}
const tilec_parameter* tilec_bundle_parameter(const tilec_bundle* bundle, const char* kernel,
                                              size_t i) {
  const auto* table = TableOf(bundle, kernel);
  return table ? table->At(i) : nullptr;
}

tilec_status* tilec_bundle_prepare(tilec_bundle* bundle, const char* kernel, tilec_device* device,
                                   const tilec_args* args) {
  if (!bundle || !kernel || !device || !args)
    return Null(!bundle ? "bundle" : !kernel ? "kernel" : !device ? "device" : "args");
  return Give(bundle->bundle.Prepare(kernel, device->device, args->args));
}
tilec_status* tilec_bundle_launch(tilec_bundle* bundle, const char* kernel, tilec_device* device,
                                  const tilec_args* args, int32_t stream) {
  if (!bundle || !kernel || !device || !args)
    return Null(!bundle ? "bundle" : !kernel ? "kernel" : !device ? "device" : "args");
  return Give(bundle->bundle.Launch(kernel, device->device, args->args, stream));
}
tilec_status* tilec_bundle_bind(tilec_bundle* bundle, const char* kernel, tilec_device* device,
                                const tilec_args* args, tilec_bound** bound) {
  if (!bundle || !kernel || !device)
    return Null(!bundle ? "bundle" : !kernel ? "kernel" : "device");
  if (!args || !bound) return Null(args ? "bound" : "args");
  return Hand(bundle->bundle.Bind(kernel, device->device, args->args), bound);
}

}  // extern "C"
