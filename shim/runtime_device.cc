// The runtime's interface: devices, errors, functions, occupancy, entries of the driver.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "shim/occupancy.h"
#include "shim/properties.h"
#include "shim/runtime_state.h"

using namespace tilec::shim;  // NOLINT: entries have C names

namespace {

struct RuntimeError {
  int number;
  const char *name, *text;
};
const RuntimeError kRuntimeErrors[] = {
#define ERROR(number, driver, runtime, text) {number, #runtime, text},
#include "shim/errors.def"
#undef ERROR
};

int PutInt(int* to, int value) {
  if (to == nullptr) return Last(kInvalidValue);
  *to = value;
  return kOk;
}

}  // namespace

// ---- errors ----
SHIM_API int cudaGetLastError() { return std::exchange(LastError(), static_cast<int>(kOk)); }
SHIM_API int cudaPeekAtLastError() { return LastError(); }
SHIM_API const char* cudaGetErrorString(int code) {
  for (const RuntimeError& row : kRuntimeErrors)
    if (row.number == code) return row.text;
  return "unrecognized error code";
}
SHIM_API const char* cudaGetErrorName(int code) {
  for (const RuntimeError& row : kRuntimeErrors)
    if (row.number == code) return row.name;
  return "unrecognized error code";
}

// ---- devices ----
SHIM_API int cudaGetDeviceCount(int* count) { return PutInt(count, 1); }
SHIM_API int cudaGetDevice(int* device) { return PutInt(device, 0); }
SHIM_API int cudaSetDevice(int device) { return Last(device == 0 ? kOk : kInvalidDevice); }
SHIM_API int cudaInitDevice(int device, unsigned, unsigned) { return cudaSetDevice(device); }
SHIM_API int cudaSetValidDevices(int*, int) { return kOk; }
SHIM_API int cudaChooseDevice(int* device, const void*) { return PutInt(device, 0); }
SHIM_API int cudaSetDeviceFlags(unsigned) { return kOk; }
SHIM_API int cudaGetDeviceFlags(unsigned* flags) {
  return flags == nullptr ? Last(kInvalidValue) : (*flags = 0, kOk);
}
SHIM_API int cudaDeviceReset() { return kOk; }
SHIM_API int cudaDeviceSynchronize() {
  Call c;
  return Last(c->sticky());
}
SHIM_API int cudaDeviceGetAttribute(int* value, int attribute, int device) {
  Call c;
  if (device != 0) return Last(kInvalidDevice);
  if (value == nullptr) return Last(kInvalidValue);
  return Last(DeviceAttribute(*c, attribute, value));
}
SHIM_API int cudaGetDeviceProperties(DeviceProperties* out, int device) {
  Call c;
  if (device != 0) return Last(kInvalidDevice);
  if (out == nullptr) return Last(kInvalidValue);
  *out = PropertiesOf(*c);
  return kOk;
}
SHIM_API int cudaDriverGetVersion(int* version) { return PutInt(version, kVersion); }
SHIM_API int cudaRuntimeGetVersion(int* version) { return PutInt(version, kVersion); }
SHIM_API int cudaDeviceGetPCIBusId(char* id, int length, int device) {
  if (device != 0) return Last(kInvalidDevice);
  if (id == nullptr || length <= 0) return Last(kInvalidValue);
  snprintf(id, static_cast<size_t>(length), "0000:01:00.0");
  return kOk;
}
SHIM_API int cudaDeviceGetByPCIBusId(int* device, const char*) { return PutInt(device, 0); }
SHIM_API int cudaDeviceCanAccessPeer(int* can, int, int) { return PutInt(can, 0); }
SHIM_API int cudaDeviceEnablePeerAccess(int, unsigned) { return Last(217); }
SHIM_API int cudaDeviceDisablePeerAccess(int) { return Last(705); }
SHIM_API int cudaDeviceGetP2PAttribute(int* value, int, int, int) { return PutInt(value, 0); }
SHIM_API int cudaDeviceGetLimit(size_t* value, int limit) {
  if (value == nullptr || limit < 0 || limit > 7) return Last(kInvalidValue);
  *value = limit == 0 ? 1024 : limit == 1 ? 1 << 20 : limit == 2 ? 8 << 20 : 0;
  return kOk;
}
SHIM_API int cudaDeviceSetLimit(int, size_t) { return kOk; }
SHIM_API int cudaDeviceGetCacheConfig(int* config) { return PutInt(config, 0); }
SHIM_API int cudaDeviceSetCacheConfig(int) { return kOk; }
SHIM_API int cudaDeviceGetSharedMemConfig(int* config) { return PutInt(config, 1); }
SHIM_API int cudaDeviceSetSharedMemConfig(int) { return kOk; }
SHIM_API int cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  if (least != nullptr) *least = 0;
  if (greatest != nullptr) *greatest = -5;
  return kOk;
}
SHIM_API int cudaCtxResetPersistingL2Cache() { return kOk; }
SHIM_API int cudaProfilerStart() { return kOk; }
SHIM_API int cudaProfilerStop() { return kOk; }

// ---- functions ----
SHIM_API int cudaFuncSetAttribute(const void* handle, int attribute, int value) {
  Call c;
  Function* f = nullptr;
  if (Code e = KernelOf(c, handle, &f)) return Last(e);
  return Last(c->SetAttribute(f, attribute, value));
}
SHIM_API int cudaKernelSetAttributeForDevice(void* kernel, int attribute, int value, int) {
  return cudaFuncSetAttribute(kernel, attribute, value);
}
SHIM_API int cudaFuncSetCacheConfig(const void*, int) { return kOk; }
SHIM_API int cudaFuncSetSharedMemConfig(const void*, int) { return kOk; }
SHIM_API int cudaFuncGetAttributes(RuntimeFunctionAttributes* out, const void* handle) {
  Call c;
  if (out == nullptr) return Last(kInvalidValue);
  Function* f = nullptr;
  if (Code e = KernelOf(c, handle, &f)) return Last(e);
  *out = {};
  int v[16] = {};
  for (int k = 0; k < 16; ++k) c->GetAttribute(f, k, &v[k]);
  out->shared_bytes = static_cast<size_t>(v[1]);
  out->local_bytes = static_cast<size_t>(v[3]);
  out->most_threads = v[0];
  out->registers = v[4];
  out->ptx_version = v[5];
  out->binary_version = v[6];
  out->most_dynamic_shared = v[8];
  out->carveout = v[9];
  out->cluster_must_be_set = v[10];
  out->cluster_width = v[11];
  out->cluster_height = v[12];
  out->cluster_depth = v[13];
  out->non_portable = v[14];
  return kOk;
}
SHIM_API int cudaFuncGetName(const char** name, const void* handle) {
  Call c;
  Function* f = nullptr;
  if (name == nullptr) return Last(kInvalidValue);
  if (Code e = KernelOf(c, handle, &f)) return Last(e);
  *name = f->name.c_str();
  return kOk;
}
SHIM_API int cudaFuncGetParamInfo(const void* handle, size_t index, size_t* offset, size_t* bytes) {
  Call c;
  Function* f = nullptr;
  if (Code e = KernelOf(c, handle, &f)) return Last(e);
  if (index >= f->facts.parameters.size()) return Last(kInvalidValue);
  if (offset != nullptr) *offset = f->facts.parameters[index].first;
  if (bytes != nullptr) *bytes = f->facts.parameters[index].second;
  return kOk;
}

// ---- occupancy ----
SHIM_API int cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void* handle,
                                                                    int threads, size_t dynamic,
                                                                    unsigned) {
  Call c;
  Function* f = nullptr;
  if (blocks == nullptr) return Last(kInvalidValue);
  if (Code e = KernelOf(c, handle, &f)) return Last(e);
  *blocks = c->BlocksPerSm(f, threads, dynamic);
  return kOk;
}
SHIM_API int cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* handle,
                                                           int threads, size_t dynamic) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, handle, threads, dynamic,
                                                                0);
}
SHIM_API int cudaOccupancyAvailableDynamicSMemPerBlock(size_t* bytes, const void* handle,
                                                       int blocks, int) {
  Call c;
  Function* f = nullptr;
  if (bytes == nullptr || blocks <= 0) return Last(kInvalidValue);
  if (Code e = KernelOf(c, handle, &f)) return Last(e);
  *bytes = DynamicFor(*c, f, blocks);
  return kOk;
}
SHIM_API int cudaOccupancyMaxActiveClusters(int* clusters, const void* handle,
                                            const RuntimeLaunchConfig* config) {
  Call c;
  Function* f = nullptr;
  if (clusters == nullptr || config == nullptr) return Last(kInvalidValue);
  if (Code e = KernelOf(c, handle, &f)) return Last(e);
  KernelWork work;
  if (Code e = c->Attributes(config->attributes, config->attribute_count, &work)) return Last(e);
  *clusters = ClustersAtATime(*c, f, config->block, config->smem_bytes, work);
  return kOk;
}
SHIM_API int cudaOccupancyMaxPotentialClusterSize(int* size, const void* handle, const void*) {
  Call c;
  Function* f = nullptr;
  if (size == nullptr) return Last(kInvalidValue);
  if (Code e = KernelOf(c, handle, &f)) return Last(e);
  *size = f->non_portable ? 16 : 8;
  return kOk;
}

// A description, not a call that could fail; arrays are refused where they are made.
struct ChannelDesc {
  int x, y, z, w, kind;
};
SHIM_API ChannelDesc cudaCreateChannelDesc(int x, int y, int z, int w, int kind) {
  return {x, y, z, w, kind};
}

// ---- entries of the driver ----
SHIM_API int cudaGetDriverEntryPointByVersion(const char* name, void** entry, unsigned version,
                                              unsigned long long, int* status) {
  if (name == nullptr || entry == nullptr) return Last(kInvalidValue);
  *entry = DriverEntry(name, static_cast<int>(std::min(version, 0x7fffffffu)));
  if (status != nullptr)
    *status = *entry != nullptr ? 0 : DriverEntry(name, 0x7fffffff) != nullptr ? 2 : 1;
  return *entry != nullptr || status != nullptr ? kOk : Last(kNotFound);
}
SHIM_API int cudaGetDriverEntryPoint(const char* name, void** entry, unsigned long long flags,
                                     int* status) {
  return cudaGetDriverEntryPointByVersion(name, entry, kVersion, flags, status);
}
