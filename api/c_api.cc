// The C interface of the compiler and of kernels compiled as they are needed: thin words around the
// C++ one. The rest of it is in c_device.cc and c_bundle.cc.
//
// SPDX-License-Identifier: Apache-2.0
#include "api/c_handles.h"
#include "api/diagnostics.h"
#include "api/status.h"
#include "support/nearest.h"

struct tilec_compiler {
  tilec::Compiler compiler;
};
struct tilec_kernel {
  tilec::Kernel kernel;
};

using tilec::api::Give;
using tilec::api::Hand;
using tilec::api::Null;

namespace {

tilec_status* UnknownOption(const std::string& name, const std::string& detail) {
  tilec::DiagSink diags;
  tilec::DiagBuilder d = diags.Report(tilec::api::kUnknownOption, tilec::Span{}, name, detail);
  const std::string near =
      tilec::NearestName(name, {"target", "schedule", "tune", "cache", "cache_dir", "stdlib_dir"});
  if (!near.empty() && near != name) d.Help("did you mean `" + near + "`?");
  return Give(tilec::api::MakeStatus(diags, tilec::SourceMap()));
}

}  // namespace

extern "C" {

tilec_status* tilec_compiler_create(const char* const* names, const char* const* values,
                                    size_t count, tilec_compiler** compiler) {
  if (!compiler) return Null("compiler");
  if (count && (!names || !values)) return Null(names ? "values" : "names");
  tilec::CompilerOptions options;
  for (size_t i = 0; i < count; ++i) {
    if (!names[i] || !values[i]) return Null(names[i] ? "a value" : "a name");
    const std::string name = names[i], value = values[i];
    if (name == "target")
      options.target = value;
    else if (name == "schedule")
      options.schedule = value;
    else if (name == "tune")
      options.tune = value;
    else if (name == "cache_dir")
      options.cache_dir = value;
    else if (name == "stdlib_dir")
      options.stdlib_dir = value;
    else if (name == "cache" && (value == "on" || value == "off"))
      options.disk_cache = value == "on";
    else
      return UnknownOption(name, name == "cache" ? " with value `" + value + "`" : "");
  }
  return Hand(tilec::Compiler::Create(std::move(options)), compiler);
}
void tilec_compiler_free(tilec_compiler* compiler) { delete compiler; }
tilec_status* tilec_compile(tilec_compiler* compiler, const char* path, const char* kernel,
                            tilec_kernel** out) {
  if (!compiler || !path || !out) return Null(!compiler ? "compiler" : !path ? "path" : "out");
  return Hand(compiler->compiler.Compile(path, kernel ? kernel : ""), out);
}
tilec_status* tilec_compile_text(tilec_compiler* compiler, const char* text, const char* name,
                                 const char* kernel, tilec_kernel** out) {
  if (!compiler || !text || !out) return Null(!compiler ? "compiler" : !text ? "text" : "out");
  return Hand(
      compiler->compiler.CompileText(text, name ? name : "kernel.tile", kernel ? kernel : ""), out);
}
void tilec_kernel_free(tilec_kernel* kernel) { delete kernel; }

tilec_status* tilec_launch(tilec_kernel* kernel, tilec_device* device, const tilec_args* args,
                           int32_t stream) {
  if (!kernel || !device || !args) return Null(!kernel ? "kernel" : !device ? "device" : "args");
  return Give(kernel->kernel.Launch(device->device, args->args, stream));
}

}  // extern "C"
