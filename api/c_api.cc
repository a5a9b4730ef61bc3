// The C interface of the compiler: its options. The rest of that interface is in c_kernel.cc,
// c_device.cc and c_bundle.cc.
//
// SPDX-License-Identifier: Apache-2.0
#include "api/c_compiler.h"
#include "api/diagnostics.h"
#include "api/status.h"
#include "support/nearest.h"

using tilec::api::Give;
using tilec::api::Hand;
using tilec::api::Null;

namespace {

tilec_status* UnknownOption(const std::string& name, const std::string& detail) {
  tilec::DiagSink diags;
  tilec::DiagBuilder d = diags.Report(tilec::api::kUnknownOption, tilec::Span{}, name, detail);
  const std::string near = tilec::NearestName(
      name, {"target", "schedule", "tune", "cache", "cache_dir", "stdlib_dir", "ptxas"});
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
    else if (name == "ptxas")
      options.ptxas = value;
    else if (name == "cache" && (value == "on" || value == "off"))
      options.disk_cache = value == "on";
    else
      return UnknownOption(name, name == "cache" ? " with value `" + value + "`" : "");
  }
  return Hand(tilec::Compiler::Create(std::move(options)), compiler);
}
void tilec_compiler_free(tilec_compiler* compiler) { delete compiler; }

}  // extern "C"
