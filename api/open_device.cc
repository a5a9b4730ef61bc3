// SPDX-License-Identifier: Apache-2.0
#include "api/open_device.h"

#include <charconv>

#include "api/diagnostics.h"
#include "support/architecture.h"
#include "support/nearest.h"

namespace tilec::api {

namespace {

constexpr char kOldest[] = "sm_80";  // that code is made for

Result<std::unique_ptr<runtime::Device>> Emulator(const runtime::EmulatorOptions& options,
                                                  DiagSink& diags) {
#ifdef TILEC_NO_EMULATOR
  (void)options;
  return diags.Report(kNoEmulator, Span{}).Help("link libtilec_rt, or open `cuda`");
#else
  (void)diags;
  return runtime::OpenEmulator(options);
#endif
}

}  // namespace

Result<std::unique_ptr<runtime::Device>> OpenDevice(const std::string& name,
                                                    const runtime::EmulatorOptions& emulator,
                                                    const std::string& arch, std::string* why,
                                                    DiagSink& diags) {
  if (name == "emulator") return Emulator(emulator, diags);
  if (name == "auto") {
    DiagSink quiet;
    auto cuda = runtime::OpenCuda(0, quiet);
    const std::string needed = arch.empty() ? kOldest : arch;
    if (cuda.ok() && RunsOn(needed, (*cuda)->isa())) return std::move(*cuda);
    if (why) {
      if (cuda.ok())
        *why = fmt::format("{} does not run code for {}", (*cuda)->description(), needed);
      else
        *why = quiet.all().empty() ? "no GPU" : quiet.all().front().message;
    }
    return Emulator(emulator, diags);
  }
  if (name == "cuda") return runtime::OpenCuda(0, diags);
  if (name.substr(0, 5) == "cuda:") {
    int ordinal = -1;
    const char* end = name.data() + name.size();
    const auto parsed = std::from_chars(name.data() + 5, end, ordinal);
    if (parsed.ec == std::errc() && parsed.ptr == end && ordinal >= 0)
      return runtime::OpenCuda(ordinal, diags);
  }
  DiagBuilder d = diags.Report(kUnknownDevice, Span{}, name);
  const std::string near = NearestName(name, {"auto", "emulator", "cuda", "interpreter"});
  if (!near.empty())
    d.Help(fmt::format("did you mean `{}`?", near));
  else
    d.Help("use auto, emulator, cuda or cuda:N");
  return d;
}

}  // namespace tilec::api
