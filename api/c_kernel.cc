// The C interface of kernels that are compiled as they are needed: thin words around the C++ one.
// No exception leaves it: what can throw here is allocation only, which ends the process as
// everywhere else.
//
// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <utility>
#include <vector>

#include "api/c_compiler.h"

struct tilec_kernel {
  tilec::Kernel kernel;
  std::string name, warnings;
  tilec::api::ParameterTable table;
  std::mutex mutex;  // of `said`
  std::string said = {};
  // NULL for success, whose warnings are kept for who asks.
  tilec_status* Done(const tilec::Status& status) {
    const std::lock_guard<std::mutex> lock(mutex);
    for (const tilec::Problem& p : status.problems())
      if (p.kind == tilec::Problem::Kind::kWarning && said.find(p.text) == std::string::npos)
        said += p.text;
    return Give(status);
  }
};

namespace {

tilec_status* Made(tilec::Expected<tilec::Kernel> compiled, tilec_kernel** out) {
  if (!compiled.ok()) return Give(compiled.status());
  *out = new tilec_kernel{*compiled,
                          compiled->name(),
                          compiled.status().text(),
                          tilec::api::ParameterTable(compiled->parameters()),
                          {}};
  return nullptr;
}

char* Copied(const std::string& text) {
  char* out = static_cast<char*>(std::malloc(text.size() + 1));
  if (!out) std::abort();  // as every failed allocation
  std::memcpy(out, text.c_str(), text.size() + 1);
  return out;
}

// NULL, or what is missing of the arguments that every launch has.
tilec_status* Missing(const tilec_kernel* kernel, const tilec_device* device,
                      const tilec_args* args) {
  if (kernel && device && args) return nullptr;
  return Null(!kernel ? "kernel" : !device ? "device" : "args");
}

}  // namespace

extern "C" {

tilec_status* tilec_compile(tilec_compiler* compiler, const char* path, const char* kernel,
                            tilec_kernel** out) {
  if (!compiler || !path || !out) return Null(!compiler ? "compiler" : !path ? "path" : "out");
  return Made(compiler->compiler.Compile(path, kernel ? kernel : ""), out);
}
tilec_status* tilec_compile_text(tilec_compiler* compiler, const char* text, const char* name,
                                 const char* kernel, tilec_kernel** out) {
  if (!compiler || !text || !out) return Null(!compiler ? "compiler" : !text ? "text" : "out");
  return Made(
      compiler->compiler.CompileText(text, name ? name : "kernel.tile", kernel ? kernel : ""), out);
}
void tilec_kernel_free(tilec_kernel* kernel) { delete kernel; }

const char* tilec_kernel_warnings(const tilec_kernel* k) { return k ? k->warnings.c_str() : ""; }
const char* tilec_kernel_name(const tilec_kernel* k) { return k ? k->name.c_str() : ""; }
size_t tilec_kernel_parameter_count(const tilec_kernel* k) {
  return k ? k->table.parameters.size() : 0;
}
const tilec_parameter* tilec_kernel_parameter(const tilec_kernel* k, size_t i) {
  return k ? k->table.At(i) : nullptr;
}

tilec_status* tilec_launch(tilec_kernel* kernel, tilec_device* device, const tilec_args* args,
                           int32_t stream) {
  if (tilec_status* missing = Missing(kernel, device, args)) return missing;
  return kernel->Done(kernel->kernel.Launch(device->device, args->args, stream));
}
tilec_status* tilec_prepare(tilec_kernel* kernel, tilec_device* device, const tilec_args* args) {
  if (tilec_status* missing = Missing(kernel, device, args)) return missing;
  return kernel->Done(kernel->kernel.Prepare(device->device, args->args));
}
tilec_status* tilec_prepare_ranges(tilec_kernel* kernel, tilec_device* device,
                                   const tilec_args* args, const tilec_size_range* ranges,
                                   size_t count) {
  if (tilec_status* missing = Missing(kernel, device, args)) return missing;
  if (count > 0 && !ranges) return Null("ranges");
  std::vector<tilec::SizeRange> each;
  for (size_t i = 0; i < count; ++i) {
    tilec::SizeRange range{{}, ranges[i].first, ranges[i].last};
    for (size_t d = 0; d < ranges[i].count; ++d) {
      if (!ranges[i].dims || !ranges[i].dims[d]) return Null("dims");
      range.dims.emplace_back(ranges[i].dims[d]);
    }
    each.push_back(std::move(range));
  }
  return kernel->Done(kernel->kernel.Prepare(device->device, args->args, each));
}
tilec_status* tilec_launch_timed(tilec_kernel* kernel, tilec_device* device, const tilec_args* args,
                                 int32_t stream, double* milliseconds) {
  if (tilec_status* missing = Missing(kernel, device, args)) return missing;
  if (!milliseconds) return Null("milliseconds");
  const auto timed = kernel->kernel.LaunchTimed(device->device, args->args, stream);
  if (tilec_status* failed = kernel->Done(timed.status())) return failed;
  *milliseconds = *timed;
  return nullptr;
}
tilec_status* tilec_kernel_bind(tilec_kernel* kernel, tilec_device* device, const tilec_args* args,
                                tilec_bound** bound) {
  if (tilec_status* missing = Missing(kernel, device, args)) return missing;
  if (!bound) return Null("bound");
  auto made = kernel->kernel.Bind(device->device, args->args);
  if (made.ok()) (void)kernel->Done(made.status());
  return Hand(std::move(made), bound);
}
tilec_status* tilec_emit(tilec_kernel* kernel, const char* what, const tilec_args* args,
                         char** text) {
  if (!kernel || !what || !args || !text)
    return Null(!kernel ? "kernel" : !what ? "what" : !args ? "args" : "text");
  const auto emitted = kernel->kernel.Emit(what, args->args);
  if (!emitted.ok()) return Give(emitted.status());
  *text = Copied(*emitted);
  return nullptr;
}
char* tilec_kernel_said(tilec_kernel* kernel) {
  if (!kernel) return nullptr;
  const std::lock_guard<std::mutex> lock(kernel->mutex);
  return kernel->said.empty() ? nullptr : Copied(std::exchange(kernel->said, {}));
}
void tilec_text_free(char* text) { std::free(text); }

}  // extern "C"
