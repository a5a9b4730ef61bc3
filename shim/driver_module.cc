// The driver's interface: modules, libraries, kernels, functions. A module is a library that is
// loaded at once; kernels and functions are one thing here.
//
// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "shim/api.h"
#include "shim/occupancy.h"
#include "support/file.h"

using namespace tilec::shim;  // NOLINT: entries have C names

namespace {

Code LoadNow(Call& c, void** out, const void* image) {
  if (out == nullptr) return kInvalidValue;
  Library* library = nullptr;
  if (const Code code = c->NewLibrary(image, &library); code != kOk) return code;
  if (const Code code = c->Load(library); code != kOk) {
    c->RemoveLibrary(library);
    return code;
  }
  *out = library;
  return kOk;
}

Code FromFile(Call& c, void** out, const char* path, bool now) {
  if (path == nullptr || out == nullptr) return kInvalidValue;
  std::string bytes, why;
  if (!tilec::ReadFile(path, &bytes, &why)) return static_cast<Code>(301);  // file not found
  // An image says its own length: what it says must be there.
  const std::string padded = bytes + std::string(64, '\0');
  if (KindOfImage(padded.data()) == ImageKind::kFatbin &&
      BytesOfFatbin(padded.data()) > bytes.size())
    return kInvalidImage;
  Library* library = nullptr;
  if (now) return LoadNow(c, out, padded.data());
  const Code code = c->NewLibrary(padded.data(), &library);
  if (code == kOk) *out = library;
  return code;
}

Code Named(Call& c, void** out, void* library_handle, const char* name) {
  Library* library = c->FindLibrary(library_handle);
  if (library == nullptr) return kInvalidHandle;
  if (out == nullptr || name == nullptr) return kInvalidValue;
  Function* f = nullptr;
  const Code code = c->FindFunction(library, name, &f);
  if (code == kOk) *out = f;
  return code;
}

Code Variable(Call& c, uint64_t* address, size_t* bytes, void* library_handle, const char* name) {
  Library* library = c->FindLibrary(library_handle);
  if (library == nullptr) return kInvalidHandle;
  if (name == nullptr) return kInvalidValue;
  uint64_t at = 0, size = 0;
  const Code code = c->FindVariable(library, name, &at, &size);
  if (code != kOk) return code;
  if (address != nullptr) *address = at;
  if (bytes != nullptr) *bytes = size;
  return kOk;
}

}  // namespace

SHIM_API int cuModuleLoadData(void** module, const void* image) {
  Call c;
  return LoadNow(c, module, image);
}
SHIM_API int cuModuleLoadDataEx(void** module, const void* image, unsigned count, int* options,
                                void** values) {
  Call c;
  // Buffers for logs get an empty text.
  for (unsigned k = 0; options != nullptr && values != nullptr && k < count; ++k)
    if ((options[k] == 3 || options[k] == 5) && values[k] != nullptr)
      *static_cast<char*>(values[k]) = '\0';
  return LoadNow(c, module, image);
}
SHIM_API int cuModuleLoadFatBinary(void** module, const void* image) {
  return cuModuleLoadData(module, image);
}
SHIM_API int cuModuleLoad(void** module, const char* path) {
  Call c;
  return FromFile(c, module, path, true);
}
SHIM_API int cuModuleUnload(void* module) {
  Call c;
  return c->RemoveLibrary(module);
}
SHIM_API int cuModuleGetFunction(void** function, void* module, const char* name) {
  Call c;
  return Named(c, function, module, name);
}
SHIM_API int cuModuleGetGlobal_v2(uint64_t* address, size_t* bytes, void* module,
                                  const char* name) {
  Call c;
  return Variable(c, address, bytes, module, name);
}
SHIM_API int cuModuleGetFunctionCount(unsigned* count, void* module) {
  Call c;
  Library* library = c->FindLibrary(module);
  if (library == nullptr || count == nullptr) return kInvalidValue;
  if (const Code code = c->Load(library); code != kOk) return code;
  *count = static_cast<unsigned>(library->functions.size());
  return kOk;
}
SHIM_API int cuModuleGetLoadingMode(int* mode) {
  return mode == nullptr ? kInvalidValue : (*mode = 2, kOk);  // lazy
}
SHIM_API int cuLibraryLoadData(void** library, const void* image, int*, void**, unsigned, int*,
                               void**, unsigned) {
  Call c;
  if (library == nullptr) return kInvalidValue;
  Library* made = nullptr;
  const Code code = c->NewLibrary(image, &made);
  if (code == kOk) *library = made;
  return code;
}
SHIM_API int cuLibraryLoadFromFile(void** library, const char* path, int*, void**, unsigned, int*,
                                   void**, unsigned) {
  Call c;
  return FromFile(c, library, path, false);
}
SHIM_API int cuLibraryUnload(void* library) { return cuModuleUnload(library); }
SHIM_API int cuLibraryGetKernel(void** kernel, void* library, const char* name) {
  Call c;
  return Named(c, kernel, library, name);
}
SHIM_API int cuLibraryGetModule(void** module, void* handle) {
  Call c;
  Library* library = c->FindLibrary(handle);
  if (library == nullptr || module == nullptr) return kInvalidHandle;
  if (const Code code = c->Load(library); code != kOk) return code;
  *module = library;
  return kOk;
}
SHIM_API int cuLibraryGetGlobal(uint64_t* address, size_t* bytes, void* library, const char* name) {
  Call c;
  return Variable(c, address, bytes, library, name);
}
SHIM_API int cuLibraryGetManaged(uint64_t* address, size_t* bytes, void* library,
                                 const char* name) {
  Call c;
  return Variable(c, address, bytes, library, name);
}
SHIM_API int cuLibraryGetKernelCount(unsigned* count, void* library) {
  return cuModuleGetFunctionCount(count, library);
}
SHIM_API int cuLibraryEnumerateKernels(void** kernels, unsigned count, void* handle) {
  Call c;
  Library* library = c->FindLibrary(handle);
  if (library == nullptr || (kernels == nullptr && count != 0)) return kInvalidHandle;
  if (const Code code = c->Load(library); code != kOk) return code;
  unsigned k = 0;
  for (const auto& [name, f] : library->functions)
    if (k < count) kernels[k++] = f.get();
  return kOk;
}

// ---- functions ----
SHIM_API int cuFuncGetAttribute(int* value, int attribute, void* function) {
  Call c;
  Function* f = c->FunctionOf(function);
  if (f == nullptr) return kInvalidHandle;
  return value == nullptr ? kInvalidValue : c->GetAttribute(f, attribute, value);
}
SHIM_API int cuFuncSetAttribute(void* function, int attribute, int value) {
  Call c;
  Function* f = c->FunctionOf(function);
  return f == nullptr ? kInvalidHandle : c->SetAttribute(f, attribute, value);
}
SHIM_API int cuKernelGetAttribute(int* value, int attribute, void* kernel, int) {
  return cuFuncGetAttribute(value, attribute, kernel);
}
SHIM_API int cuKernelSetAttribute(int attribute, int value, void* kernel, int) {
  return cuFuncSetAttribute(kernel, attribute, value);
}
SHIM_API int cuFuncSetCacheConfig(void*, int) { return kOk; }
SHIM_API int cuFuncSetSharedMemConfig(void*, int) { return kOk; }
SHIM_API int cuKernelSetCacheConfig(void*, int, int) { return kOk; }
SHIM_API int cuFuncLoad(void*) { return kOk; }
SHIM_API int cuFuncIsLoaded(int* state, void*) {
  return state == nullptr ? kInvalidValue : (*state = 1, kOk);
}
SHIM_API int cuFuncGetModule(void** module, void* function) {
  Call c;
  Function* f = c->FunctionOf(function);
  if (f == nullptr || module == nullptr) return kInvalidHandle;
  *module = f->library;
  return kOk;
}
SHIM_API int cuKernelGetLibrary(void** library, void* kernel) {
  return cuFuncGetModule(library, kernel);
}
SHIM_API int cuKernelGetFunction(void** function, void* kernel) {
  Call c;
  if (function == nullptr || c->FunctionOf(kernel) == nullptr) return kInvalidHandle;
  *function = kernel;
  return kOk;
}
SHIM_API int cuFuncGetName(const char** name, void* function) {
  Call c;
  Function* f = c->FunctionOf(function);
  if (f == nullptr || name == nullptr) return kInvalidHandle;
  *name = f->name.c_str();
  return kOk;
}
SHIM_API int cuKernelGetName(const char** name, void* kernel) {
  return cuFuncGetName(name, kernel);
}
SHIM_API int cuFuncGetParamInfo(void* function, size_t index, size_t* offset, size_t* bytes) {
  Call c;
  Function* f = c->FunctionOf(function);
  if (f == nullptr) return kInvalidHandle;
  if (index >= f->facts.parameters.size()) return kInvalidValue;
  if (offset != nullptr) *offset = f->facts.parameters[index].first;
  if (bytes != nullptr) *bytes = f->facts.parameters[index].second;
  return kOk;
}
SHIM_API int cuKernelGetParamInfo(void* kernel, size_t index, size_t* offset, size_t* bytes) {
  return cuFuncGetParamInfo(kernel, index, offset, bytes);
}

// ---- occupancy ----
SHIM_API int cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, void* function,
                                                                  int threads, size_t dynamic,
                                                                  unsigned) {
  Call c;
  Function* f = c->FunctionOf(function);
  if (f == nullptr) return kInvalidHandle;
  if (blocks == nullptr) return kInvalidValue;
  *blocks = c->BlocksPerSm(f, threads, dynamic);
  return kOk;
}
SHIM_API int cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, void* function, int threads,
                                                         size_t dynamic) {
  return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, threads, dynamic,
                                                              0);
}
SHIM_API int cuOccupancyMaxPotentialBlockSizeWithFlags(int* grid, int* block, void* function,
                                                       size_t (*bytes)(int), size_t dynamic,
                                                       int limit, unsigned) {
  Call c;
  Function* f = c->FunctionOf(function);
  if (f == nullptr) return kInvalidHandle;
  if (grid == nullptr || block == nullptr) return kInvalidValue;
  return BestBlock(*c, {f, bytes, dynamic, limit}, grid, block);
}
SHIM_API int cuOccupancyMaxPotentialBlockSize(int* grid, int* block, void* function,
                                              size_t (*bytes)(int), size_t dynamic, int limit) {
  return cuOccupancyMaxPotentialBlockSizeWithFlags(grid, block, function, bytes, dynamic, limit, 0);
}
SHIM_API int cuOccupancyAvailableDynamicSMemPerBlock(size_t* bytes, void* function, int blocks,
                                                     int threads) {
  Call c;
  Function* f = c->FunctionOf(function);
  if (f == nullptr) return kInvalidHandle;
  if (bytes == nullptr || blocks <= 0 || threads <= 0) return kInvalidValue;
  *bytes = DynamicFor(*c, f, blocks);
  return kOk;
}
SHIM_API int cuOccupancyMaxActiveClusters(int* clusters, void* function,
                                          const DriverLaunchConfig* config) {
  Call c;
  Function* f = c->FunctionOf(function);
  if (f == nullptr) return kInvalidHandle;
  if (clusters == nullptr || config == nullptr) return kInvalidValue;
  KernelWork work;
  if (Code e = c->Attributes(config->attributes, config->attribute_count, &work)) return e;
  *clusters = ClustersAtATime(*c, f, config->block, config->smem_bytes, work);
  return kOk;
}
SHIM_API int cuOccupancyMaxPotentialClusterSize(int* size, void* function,
                                                const DriverLaunchConfig*) {
  Call c;
  Function* f = c->FunctionOf(function);
  if (f == nullptr) return kInvalidHandle;
  return size == nullptr ? kInvalidValue : (*size = f->non_portable ? 16 : 8, kOk);
}
