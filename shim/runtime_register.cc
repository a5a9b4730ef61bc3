// The runtime's interface: what nvcc's host code calls before and around a launch.
//
// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "shim/runtime_state.h"

namespace tilec::shim {

RuntimeState& RuntimeState::Get() {
  static auto* state = new RuntimeState();  // as long as the program
  return *state;
}

int& LastError() {
  static thread_local int last = kOk;
  return last;
}
int Last(int code) {
  if (code != kOk) LastError() = code;
  return code;
}

namespace {

Code LibraryOf(Call& c, Registered* r, Library** out) {
  if (r->library == nullptr)
    if (const Code code = c->NewLibrary(r->image, &r->library); code != kOk) return code;
  *out = r->library;
  return kOk;
}

struct Configuration {
  Dim3 grid, block;
  size_t smem_bytes;
  void* stream;
};
thread_local std::vector<Configuration> configurations;

}  // namespace

Code KernelOf(Call& c, const void* handle, Function** out) {
  *out = c->FunctionOf(handle);
  if (*out != nullptr) return kOk;
  RuntimeState& state = RuntimeState::Get();
  const auto it = state.functions.find(handle);
  if (it == state.functions.end()) return kInvalidDeviceFunction;
  Library* library = nullptr;
  if (const Code code = LibraryOf(c, it->second.from, &library); code != kOk) return code;
  const Code code = c->FindFunction(library, it->second.name, out);
  return code == kNotFound ? kInvalidDeviceFunction : code;
}

Code SymbolOf(Call& c, const void* host, uint64_t* address, uint64_t* bytes) {
  RuntimeState& state = RuntimeState::Get();
  const auto it = state.variables.find(host);
  if (it == state.variables.end()) return kInvalidSymbol;
  Library* library = nullptr;
  if (const Code code = LibraryOf(c, it->second.from, &library); code != kOk) return code;
  const Code code = c->FindVariable(library, it->second.name, address, bytes);
  return code == kNotFound ? kInvalidSymbol : code;
}

}  // namespace tilec::shim

using namespace tilec::shim;  // NOLINT: entries have C names

SHIM_API void** __cudaRegisterFatBinary(void* image) {
  Call c;
  auto made = std::make_unique<Registered>();
  made->image = image;
  void* handle = made.get();
  RuntimeState::Get().fatbins[handle] = std::move(made);
  return static_cast<void**>(handle);
}
SHIM_API void __cudaRegisterFatBinaryEnd(void**) {}
SHIM_API void __cudaUnregisterFatBinary(void** handle) {
  Call c;
  RuntimeState& state = RuntimeState::Get();
  const auto it = state.fatbins.find(handle);
  if (it == state.fatbins.end()) return;
  Registered* gone = it->second.get();
  if (gone->library != nullptr) c->RemoveLibrary(gone->library);
  std::erase_if(state.functions, [&](const auto& f) { return f.second.from == gone; });
  std::erase_if(state.variables, [&](const auto& v) { return v.second.from == gone; });
  state.fatbins.erase(it);
}
SHIM_API void __cudaRegisterFunction(void** handle, const char* host, char*, const char* name, int,
                                     void*, void*, void*, void*, int*) {
  Call c;
  RuntimeState& state = RuntimeState::Get();
  const auto it = state.fatbins.find(handle);
  if (it == state.fatbins.end() || name == nullptr) return;
  state.functions[host] = {it->second.get(), name};
}
SHIM_API void __cudaRegisterVar(void** handle, char* host, char*, const char* name, int, size_t,
                                int, int) {
  Call c;
  RuntimeState& state = RuntimeState::Get();
  const auto it = state.fatbins.find(handle);
  if (it == state.fatbins.end() || name == nullptr) return;
  state.variables[host] = {it->second.get(), name};
}
SHIM_API void __cudaRegisterManagedVar(void** handle, void** host, char*, const char* name, int,
                                       size_t, int, int) {
  Call c;
  RuntimeState& state = RuntimeState::Get();
  const auto it = state.fatbins.find(handle);
  if (it == state.fatbins.end() || name == nullptr || host == nullptr) return;
  it->second->managed.emplace_back(host, name);
  state.variables[host] = {it->second.get(), name};
}
SHIM_API void __cudaRegisterHostVar(void**, const char*, char*, size_t) {}
SHIM_API char __cudaInitModule(void** handle) {
  Call c;
  RuntimeState& state = RuntimeState::Get();
  const auto it = state.fatbins.find(handle);
  if (it == state.fatbins.end()) return 0;
  for (const auto& [host, name] : it->second->managed) {
    Library* library = nullptr;
    uint64_t address = 0, bytes = 0;
    if (LibraryOf(c, it->second.get(), &library) == kOk &&
        c->FindVariable(library, name, &address, &bytes) == kOk)
      *host = reinterpret_cast<void*>(address);
  }
  return 1;
}
SHIM_API unsigned __cudaPushCallConfiguration(Dim3 grid, Dim3 block, size_t smem_bytes,
                                              void* stream) {
  configurations.push_back({grid, block, smem_bytes, stream});
  return 0;
}
SHIM_API int __cudaPopCallConfiguration(Dim3* grid, Dim3* block, size_t* smem_bytes, void* stream) {
  if (configurations.empty()) return Last(9);
  const Configuration last = configurations.back();
  configurations.pop_back();
  *grid = last.grid;
  *block = last.block;
  *smem_bytes = last.smem_bytes;
  memcpy(stream, &last.stream, sizeof last.stream);
  return kOk;
}

namespace {

int LaunchBy(const void* handle, const RuntimeLaunchConfig& config, bool cooperative,
             void** arguments) {
  Call c;
  Function* f = nullptr;
  if (const Code code = KernelOf(c, handle, &f); code != kOk) return Last(code);
  KernelWork work;
  const uint32_t grid[3] = {config.grid.x, config.grid.y, config.grid.z};
  const uint32_t block[3] = {config.block.x, config.block.y, config.block.z};
  memcpy(work.config.grid, grid, sizeof grid);
  memcpy(work.config.block, block, sizeof block);
  work.config.smem_bytes = config.smem_bytes;
  if (Code e = c->Attributes(config.attributes, config.attribute_count, &work)) return Last(e);
  work.cooperative = work.cooperative || cooperative;
  if (Code e = c->Arguments(f, arguments, nullptr, &work)) return Last(e);
  const int code = c->Submit(config.stream, std::move(work));
  return Last(code == kInvalidValue ? static_cast<int>(kInvalidConfiguration) : code);
}

}  // namespace

SHIM_API int cudaLaunchKernel(const void* f, Dim3 grid, Dim3 block, void** arguments,
                              size_t smem_bytes, void* stream) {
  return LaunchBy(f, {grid, block, smem_bytes, stream, nullptr, 0}, false, arguments);
}
SHIM_API int __cudaLaunchKernel(void* f, Dim3 grid, Dim3 block, void** arguments, size_t smem_bytes,
                                void* stream) {
  return cudaLaunchKernel(f, grid, block, arguments, smem_bytes, stream);
}
SHIM_API int __cudaLaunchKernel_ptsz(void* f, Dim3 grid, Dim3 block, void** arguments,
                                     size_t smem_bytes, void* stream) {
  return cudaLaunchKernel(f, grid, block, arguments, smem_bytes, stream);
}
SHIM_API int cudaLaunchCooperativeKernel(const void* f, Dim3 grid, Dim3 block, void** arguments,
                                         size_t smem_bytes, void* stream) {
  return LaunchBy(f, {grid, block, smem_bytes, stream, nullptr, 0}, true, arguments);
}
SHIM_API int cudaLaunchKernelExC(const RuntimeLaunchConfig* config, const void* f,
                                 void** arguments) {
  if (config == nullptr) return Last(kInvalidValue);
  return LaunchBy(f, *config, false, arguments);
}
SHIM_API int __cudaGetKernel(void** kernel, const void* host) {
  Call c;
  if (kernel == nullptr) return Last(kInvalidValue);
  Function* f = nullptr;
  const Code code = KernelOf(c, host, &f);
  *kernel = f;
  return Last(code);
}
SHIM_API int cudaGetKernel(void** kernel, const void* host) {
  return __cudaGetKernel(kernel, host);
}
SHIM_API int cudaGetFuncBySymbol(void** function, const void* host) {
  return __cudaGetKernel(function, host);
}
