// Finding the driver: dlopen, then cuGetProcAddress for each function in the version we declare,
// then dlsym for drivers (and stubs) whose cuGetProcAddress does not answer.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda_api.h"

#include <dlfcn.h>

#include "runtime/diagnostics.h"

namespace tilec::runtime::cuda {

namespace {

using GetProcAddress = CUresult (*)(const char*, void**, int, uint64_t, int*);

// "cuMemAlloc_v2" is asked of cuGetProcAddress as "cuMemAlloc".
std::string BaseName(const std::string& symbol) {
  const size_t at = symbol.rfind("_v");
  return at == std::string::npos ? symbol : symbol.substr(0, at);
}

void* Bind(void* library, GetProcAddress get, const char* symbol, int version) {
  void* found = nullptr;
  int status = 0;
  if (get && get(BaseName(symbol).c_str(), &found, version, 0, &status) == kSuccess && found)
    return found;
  return dlsym(library, symbol);
}

}  // namespace

Api::~Api() = default;  // the driver stays loaded: unloading it with threads alive is not safe

std::string Api::ErrorName(CUresult error) const {
  const char* text = nullptr;
  if (cuGetErrorName && cuGetErrorName(error, &text) == kSuccess && text) return text;
  if (error == kErrorStubLibrary) return "CUDA_ERROR_STUB_LIBRARY";
  return fmt::format("error {}", error);
}

std::string Api::ErrorText(CUresult error) const {
  const char* text = nullptr;
  if (cuGetErrorString && cuGetErrorString(error, &text) == kSuccess && text) return text;
  return fmt::format("driver error {}", error);
}

Result<std::unique_ptr<Api>> LoadDriver(const std::vector<std::string>& names, DiagSink& diags) {
  auto api = std::make_unique<Api>();
  std::string why;
  for (const std::string& name : names) {
    api->library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (api->library) {
      api->path = name;
      break;
    }
    if (why.empty())
      if (const char* text = dlerror()) why = text;
  }
  if (!api->library)
    return diags.Report(kNoDriver, Span{}, why.empty() ? "no name to look for" : why)
        .Help("use --device=emulator to run the same PTX on the CPU");
  const auto get = reinterpret_cast<GetProcAddress>(dlsym(api->library, "cuGetProcAddress_v2"));
#define CUDA_FN(name, symbol, version, params)                                                \
  api->name = reinterpret_cast<CUresult(*) params>(Bind(api->library, get, symbol, version)); \
  if (!api->name)                                                                             \
    return diags.Report(kDriverSymbol, Span{}, symbol, api->path)                             \
        .Help("update the NVIDIA driver, or use --device=emulator");
#include "runtime/cuda_functions.def"
#undef CUDA_FN
  api->cuFuncLoad =
      reinterpret_cast<decltype(api->cuFuncLoad)>(Bind(api->library, get, "cuFuncLoad", 12040));
  const CUresult init = api->cuInit(0);
  if (init == kErrorStubLibrary)
    return diags.Report(kStubDriver, Span{}, api->path).Help("use --device=emulator");
  if (init == kErrorNoDevice)
    return diags.Report(kNoDevice, Span{}, 0, "the driver sees no GPU")
        .Help("use --device=emulator");
  if (init != kSuccess)
    return diags.Report(kDriverCall, Span{}, "cuInit", api->ErrorText(init), api->ErrorName(init))
        .Help("use --device=emulator");
  if (const CUresult r = api->cuDriverGetVersion(&api->driver_version); r != kSuccess)
    return diags.Report(kDriverCall, Span{}, "cuDriverGetVersion", api->ErrorText(r),
                        api->ErrorName(r));
  return api;
}

Result<std::unique_ptr<Api>> LoadDriver(DiagSink& diags) {
  return LoadDriver({"libcuda.so.1", "libcuda.so"}, diags);
}

}  // namespace tilec::runtime::cuda
