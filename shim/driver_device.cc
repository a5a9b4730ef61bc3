// The driver's interface: devices, contexts, limits. One device, one context that never goes.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "shim/api.h"

namespace tilec::shim {
namespace {

int context_object, pool_object;
thread_local std::vector<void*> contexts;

void* Current() { return contexts.empty() ? nullptr : contexts.back(); }

Code Put(int* to, int value) {
  if (to == nullptr) return kInvalidValue;
  *to = value;
  return kOk;
}

constexpr Uuid kUuid = {{'t', 'i', 'l', 'e', 'c', ' ', 'c', 'h', 'e', 'c', 'k', 0, 0, 0, 0, 1}};
constexpr char kBus[] = "0000:01:00.0";

}  // namespace

void* TheContext() { return &context_object; }
void* ThePool() { return &pool_object; }
bool IsPool(const void* handle) { return handle == &pool_object; }

Code DeviceAttribute(const Process& process, int attribute, int* value) {
  const runtime::MachineLimits& m = process.machine();
  auto small = [](uint64_t n) { return static_cast<int>(std::min<uint64_t>(n, 0x7fffffff)); };
  const int cc = process.capability();
  if (attribute < 1 || attribute > 147) return kInvalidValue;
  *value = 0;
  switch (attribute) {
#define ROW(number, what) \
  case number:            \
    *value = what;        \
    break;
#include "shim/device_attributes.def"
#undef ROW
    default: break;  // textures, surfaces, interoperation: not there
  }
  return kOk;
}

}  // namespace tilec::shim

using namespace tilec::shim;  // NOLINT: entries have C names

SHIM_API int cuInit(unsigned) {
  Call c;
  return kOk;
}
SHIM_API int cuDriverGetVersion(int* version) { return Put(version, kVersion); }
SHIM_API int cuDeviceGet(int* device, int ordinal) {
  return ordinal == 0 ? Put(device, 0) : kInvalidDevice;
}
SHIM_API int cuDeviceGetCount(int* count) { return Put(count, 1); }
SHIM_API int cuDeviceGetName(char* name, int length, int device) {
  Call c;
  if (device != 0) return kInvalidDevice;
  if (name == nullptr || length <= 0) return kInvalidValue;
  snprintf(name, static_cast<size_t>(length), "%s, emulated by tilec check",
           c->machine().name.c_str());
  return kOk;
}
SHIM_API int cuDeviceGetUuid(Uuid* uuid, int device) {
  if (device != 0) return kInvalidDevice;
  if (uuid == nullptr) return kInvalidValue;
  *uuid = kUuid;
  return kOk;
}
SHIM_API int cuDeviceGetUuid_v2(Uuid* uuid, int device) { return cuDeviceGetUuid(uuid, device); }
SHIM_API int cuDeviceTotalMem_v2(size_t* bytes, int device) {
  Call c;
  if (device != 0) return kInvalidDevice;
  if (bytes == nullptr) return kInvalidValue;
  *bytes = c->memory_bytes();
  return kOk;
}
SHIM_API int cuDeviceGetAttribute(int* value, int attribute, int device) {
  Call c;
  if (device != 0) return kInvalidDevice;
  if (value == nullptr) return kInvalidValue;
  return DeviceAttribute(*c, attribute, value);
}
SHIM_API int cuDeviceComputeCapability(int* major, int* minor, int device) {
  Call c;
  if (device != 0) return kInvalidDevice;
  if (major == nullptr || minor == nullptr) return kInvalidValue;
  *major = c->capability() / 10;
  *minor = c->capability() % 10;
  return kOk;
}
SHIM_API int cuDeviceGetPCIBusId(char* id, int length, int device) {
  if (device != 0) return kInvalidDevice;
  if (id == nullptr || length <= 0) return kInvalidValue;
  snprintf(id, static_cast<size_t>(length), "%s", kBus);
  return kOk;
}
SHIM_API int cuDeviceGetByPCIBusId(int* device, const char* id) {
  if (id == nullptr || strcmp(id, kBus) != 0) return kInvalidDevice;
  return Put(device, 0);
}
SHIM_API int cuDeviceGetP2PAttribute(int* value, int, int, int) { return Put(value, 0); }
SHIM_API int cuDeviceCanAccessPeer(int* can, int, int) { return Put(can, 0); }
SHIM_API int cuDeviceGetDefaultMemPool(void** pool, int device) {
  if (device != 0) return kInvalidDevice;
  if (pool == nullptr) return kInvalidValue;
  *pool = ThePool();
  return kOk;
}
SHIM_API int cuDeviceGetMemPool(void** pool, int device) {
  return cuDeviceGetDefaultMemPool(pool, device);
}
SHIM_API int cuDeviceSetMemPool(int, void* pool) { return IsPool(pool) ? kOk : kNotSupported; }

// ---- contexts ----
SHIM_API int cuDevicePrimaryCtxRetain(void** context, int device) {
  if (device != 0) return kInvalidDevice;
  if (context == nullptr) return kInvalidValue;
  *context = TheContext();
  return kOk;
}
SHIM_API int cuDevicePrimaryCtxRelease(int device) { return device == 0 ? kOk : kInvalidDevice; }
SHIM_API int cuDevicePrimaryCtxRelease_v2(int device) { return device == 0 ? kOk : kInvalidDevice; }
SHIM_API int cuDevicePrimaryCtxReset_v2(int device) { return device == 0 ? kOk : kInvalidDevice; }
SHIM_API int cuDevicePrimaryCtxSetFlags_v2(int device, unsigned) {
  return device == 0 ? kOk : kInvalidDevice;
}
SHIM_API int cuDevicePrimaryCtxGetState(int device, unsigned* flags, int* active) {
  if (device != 0) return kInvalidDevice;
  if (flags != nullptr) *flags = 0;
  return Put(active, 1);
}
SHIM_API int cuCtxCreate_v2(void** context, unsigned, int device) {
  const int code = cuDevicePrimaryCtxRetain(context, device);
  if (code == kOk) contexts.push_back(TheContext());
  return code;
}
SHIM_API int cuCtxCreate_v4(void** context, void*, unsigned flags, int device) {
  return cuCtxCreate_v2(context, flags, device);
}
SHIM_API int cuCtxDestroy_v2(void* context) {
  if (context != TheContext()) return kInvalidContext;
  if (!contexts.empty()) contexts.pop_back();
  return kOk;
}
SHIM_API int cuCtxPushCurrent_v2(void* context) {
  if (context != TheContext()) return kInvalidContext;
  contexts.push_back(context);
  return kOk;
}
SHIM_API int cuCtxPopCurrent_v2(void** context) {
  if (contexts.empty()) return kInvalidContext;
  if (context != nullptr) *context = contexts.back();
  contexts.pop_back();
  return kOk;
}
SHIM_API int cuCtxSetCurrent(void* context) {
  if (context != nullptr && context != TheContext()) return kInvalidContext;
  if (!contexts.empty()) contexts.pop_back();
  if (context != nullptr) contexts.push_back(context);
  return kOk;
}
SHIM_API int cuCtxGetCurrent(void** context) {
  if (context == nullptr) return kInvalidValue;
  *context = Current();
  return kOk;
}
SHIM_API int cuCtxGetDevice(int* device) {
  return Current() == nullptr ? static_cast<int>(kInvalidContext) : Put(device, 0);
}
SHIM_API int cuCtxGetDevice_v2(int* device, void*) { return Put(device, 0); }
SHIM_API int cuCtxGetFlags(unsigned* flags) {
  return flags == nullptr ? kInvalidValue : (*flags = 0, kOk);
}
SHIM_API int cuCtxGetApiVersion(void*, unsigned* version) {
  return version == nullptr ? kInvalidValue : (*version = 3020, kOk);
}
SHIM_API int cuCtxSynchronize() {
  Call c;
  return c->sticky();
}
SHIM_API int cuCtxSynchronize_v2(void*) { return cuCtxSynchronize(); }
SHIM_API int cuCtxGetLimit(size_t* value, int limit) {
  if (value == nullptr || limit < 0 || limit > 7) return kInvalidValue;
  *value = limit == 0 ? 1024 : limit == 1 ? 1 << 20 : limit == 2 ? 8 << 20 : 0;
  return kOk;
}
SHIM_API int cuCtxSetLimit(int limit, size_t) {
  return limit < 0 || limit > 7 ? kInvalidValue : kOk;
}
SHIM_API int cuCtxGetCacheConfig(int* config) { return Put(config, 0); }
SHIM_API int cuCtxSetCacheConfig(int) { return kOk; }
SHIM_API int cuCtxGetSharedMemConfig(int* config) { return Put(config, 1); }
SHIM_API int cuCtxSetSharedMemConfig(int) { return kOk; }
SHIM_API int cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  if (least != nullptr) *least = 0;
  if (greatest != nullptr) *greatest = -5;
  return kOk;
}
SHIM_API int cuCtxResetPersistingL2Cache() { return kOk; }
SHIM_API int cuCtxEnablePeerAccess(void*, unsigned) { return 217; }  // peer access unsupported
SHIM_API int cuCtxDisablePeerAccess(void*) { return 705; }           // … not enabled
SHIM_API int cuCtxGetId(void*, unsigned long long* id) {
  return id == nullptr ? kInvalidValue : (*id = 1, kOk);
}
SHIM_API int cuProfilerStart() { return kOk; }
SHIM_API int cuProfilerStop() { return kOk; }
SHIM_API int cuGetErrorString(int code, const char** text) {
  if (text == nullptr) return kInvalidValue;
  *text = ErrorText(code);
  return *text == nullptr ? kInvalidValue : kOk;
}
SHIM_API int cuGetErrorName(int code, const char** text) {
  if (text == nullptr) return kInvalidValue;
  *text = ErrorName(code);
  return *text == nullptr ? kInvalidValue : kOk;
}
