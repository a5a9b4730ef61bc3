// The driver's interface: memory, copies, pointers, tensor maps.
//
// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "shim/api.h"
#include "shim/copies.h"

using namespace tilec::shim;  // NOLINT: entries have C names

// ---- allocation ----
SHIM_API int cuMemAlloc_v2(uint64_t* address, size_t bytes) {
  Call c;
  if (address == nullptr || bytes == 0) return kInvalidValue;
  return c->Alloc(bytes, Place::kDevice, address);
}
SHIM_API int cuMemAllocPitch_v2(uint64_t* address, size_t* pitch, size_t width, size_t height,
                                unsigned) {
  Call c;
  return AllocPitch(*c, address, pitch, width, height);
}
SHIM_API int cuMemAllocManaged(uint64_t* address, size_t bytes, unsigned) {
  Call c;
  if (address == nullptr || bytes == 0) return kInvalidValue;
  return c->Alloc(bytes, Place::kManaged, address);
}
SHIM_API int cuMemAllocAsync(uint64_t* address, size_t bytes, void*) {
  Call c;
  if (address == nullptr) return kInvalidValue;
  return c->Alloc(bytes, Place::kDevice, address);
}
SHIM_API int cuMemAllocFromPoolAsync(uint64_t* address, size_t bytes, void* pool, void* stream) {
  return IsPool(pool) ? cuMemAllocAsync(address, bytes, stream) : kInvalidHandle;
}
SHIM_API int cuMemFree_v2(uint64_t address) {
  Call c;
  return c->Free(address);
}
SHIM_API int cuMemFreeAsync(uint64_t address, void*) { return cuMemFree_v2(address); }
SHIM_API int cuMemHostAlloc(void** out, size_t bytes, unsigned) {
  Call c;
  if (out == nullptr) return kInvalidValue;
  uint64_t address = 0;
  const Code code = c->Alloc(bytes, Place::kPinned, &address);
  *out = reinterpret_cast<void*>(address);
  return code;
}
SHIM_API int cuMemAllocHost_v2(void** out, size_t bytes) { return cuMemHostAlloc(out, bytes, 0); }
SHIM_API int cuMemFreeHost(void* address) {
  return cuMemFree_v2(reinterpret_cast<uint64_t>(address));
}
SHIM_API int cuMemHostGetDevicePointer_v2(uint64_t* out, void* host, unsigned) {
  Call c;
  const auto address = reinterpret_cast<uint64_t>(host);
  if (out == nullptr || c->FindBlock(address) == nullptr) return kInvalidValue;
  *out = address;
  return kOk;
}
SHIM_API int cuMemHostGetFlags(unsigned* flags, void*) {
  return flags == nullptr ? kInvalidValue : (*flags = 0, kOk);
}
// Page-locking changes no result; kernels cannot reach the memory, though.
SHIM_API int cuMemHostRegister_v2(void*, size_t, unsigned) { return kOk; }
SHIM_API int cuMemHostUnregister(void*) { return kOk; }
SHIM_API int cuMemGetInfo_v2(size_t* free, size_t* total) {
  Call c;
  if (free != nullptr) *free = c->free_bytes();
  if (total != nullptr) *total = c->memory_bytes();
  return kOk;
}
SHIM_API int cuMemGetAddressRange_v2(uint64_t* begin, size_t* bytes, uint64_t address) {
  Call c;
  uint64_t at = 0;
  const Block* block = c->FindBlock(address, &at);
  if (block == nullptr) return kNotFound;
  if (begin != nullptr) *begin = at;
  if (bytes != nullptr) *bytes = block->bytes;
  return kOk;
}
SHIM_API int cuMemPrefetchAsync(uint64_t, size_t, int, void*) { return kOk; }
SHIM_API int cuMemPrefetchAsync_v2(uint64_t, size_t, uint64_t, unsigned, void*) { return kOk; }
SHIM_API int cuMemAdvise(uint64_t, size_t, int, int) { return kOk; }
SHIM_API int cuMemAdvise_v2(uint64_t, size_t, int, uint64_t) { return kOk; }
SHIM_API int cuMemPoolTrimTo(void* pool, size_t) { return IsPool(pool) ? kOk : kInvalidHandle; }
SHIM_API int cuMemPoolSetAttribute(void* pool, int, void*) {
  return IsPool(pool) ? kOk : kInvalidHandle;
}
SHIM_API int cuMemPoolGetAttribute(void* pool, int attribute, void* value) {
  if (!IsPool(pool) || value == nullptr) return kInvalidValue;
  if (attribute <= 3)
    memset(value, 0, sizeof(int));
  else
    memset(value, 0, sizeof(uint64_t));
  return kOk;
}
SHIM_API int cuMemPoolSetAccess(void* pool, const void*, size_t) {
  return IsPool(pool) ? kOk : kInvalidHandle;
}
SHIM_API int cuMemPoolCreate(void** pool, const void*) {
  if (pool == nullptr) return kInvalidValue;
  *pool = ThePool();  // it never holds anything back
  return kOk;
}
SHIM_API int cuMemPoolDestroy(void* pool) { return IsPool(pool) ? kOk : kInvalidHandle; }

// ---- pointers ----
SHIM_API int cuPointerGetAttribute(void* value, int attribute, uint64_t address) {
  Call c;
  if (value == nullptr) return kInvalidValue;
  uint64_t begin = 0;
  const Block* block = c->FindBlock(address, &begin);
  if (block == nullptr) return kInvalidValue;
  auto put = [&](auto v) { return memcpy(value, &v, sizeof v), kOk; };
  switch (attribute) {
    case 1: return put(TheContext());
    case 2: return put(uint32_t{block->place == Place::kPinned ? 1u : 2u});
    case 3: return put(address);
    case 4:
      return block->place == Place::kDevice || block->place == Place::kVariable ? kInvalidValue
                                                                                : put(address);
    case 6:
    case 10:
    case 15: return put(0);
    case 7: return put(begin);
    case 8: return put(uint32_t{block->place == Place::kManaged});
    case 9: return put(0);
    case 11:
    case 19: return put(begin);
    case 12:
    case 18: return put(block->bytes);
    case 13: return put(1);
    case 14: return put(uint64_t{0});
    case 16: return put(3);
    case 17: return put(static_cast<void*>(nullptr));
    default: return kInvalidValue;
  }
}
SHIM_API int cuPointerGetAttributes(unsigned count, int* attributes, void** values,
                                    uint64_t address) {
  if (attributes == nullptr || values == nullptr) return kInvalidValue;
  for (unsigned k = 0; k < count; ++k) {
    if (values[k] == nullptr) return kInvalidValue;
    const size_t bytes = attributes[k] == 2 || attributes[k] == 8 || attributes[k] == 9 ? 4 : 8;
    if (cuPointerGetAttribute(values[k], attributes[k], address) != kOk)
      memset(values[k], 0, bytes);  // of memory that nobody registered
  }
  return kOk;
}
SHIM_API int cuPointerSetAttribute(const void*, int, uint64_t) { return kOk; }

// ---- copies ----
SHIM_API int cuMemcpy(uint64_t to, uint64_t from, size_t bytes) {
  Call c;
  return CopyRun(*c, {to, from, bytes}, nullptr);
}
SHIM_API int cuMemcpyAsync(uint64_t to, uint64_t from, size_t bytes, void* stream) {
  Call c;
  return CopyRun(*c, {to, from, bytes}, stream);
}
SHIM_API int cuMemcpyHtoDAsync_v2(uint64_t to, const void* from, size_t bytes, void* stream) {
  Call c;
  return CopyRun(*c, {to, reinterpret_cast<uint64_t>(from), bytes, Side::kDevice, Side::kAny},
                 stream);
}
SHIM_API int cuMemcpyHtoD_v2(uint64_t to, const void* from, size_t bytes) {
  return cuMemcpyHtoDAsync_v2(to, from, bytes, nullptr);
}
SHIM_API int cuMemcpyDtoHAsync_v2(void* to, uint64_t from, size_t bytes, void* stream) {
  Call c;
  return CopyRun(*c, {reinterpret_cast<uint64_t>(to), from, bytes, Side::kAny, Side::kDevice},
                 stream);
}
SHIM_API int cuMemcpyDtoH_v2(void* to, uint64_t from, size_t bytes) {
  return cuMemcpyDtoHAsync_v2(to, from, bytes, nullptr);
}
SHIM_API int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, void* stream) {
  Call c;
  return CopyRun(*c, {to, from, bytes, Side::kDevice, Side::kDevice}, stream);
}
SHIM_API int cuMemcpyDtoD_v2(uint64_t to, uint64_t from, size_t bytes) {
  return cuMemcpyDtoDAsync_v2(to, from, bytes, nullptr);
}
SHIM_API int cuMemcpyPeerAsync(uint64_t to, void*, uint64_t from, void*, size_t bytes,
                               void* stream) {
  return cuMemcpyDtoDAsync_v2(to, from, bytes, stream);
}
SHIM_API int cuMemcpyPeer(uint64_t to, void*, uint64_t from, void*, size_t bytes) {
  return cuMemcpyDtoDAsync_v2(to, from, bytes, nullptr);
}
SHIM_API int cuMemcpy2DAsync_v2(const DriverCopy2D* copy, void* stream) {
  Call c;
  CopyWork work;
  const Code code = FromDriver(*c, copy, &work);
  return code != kOk ? code : c->Submit(stream, work);
}
SHIM_API int cuMemcpy2D_v2(const DriverCopy2D* copy) { return cuMemcpy2DAsync_v2(copy, nullptr); }
SHIM_API int cuMemcpy2DUnaligned_v2(const DriverCopy2D* copy) {
  return cuMemcpy2DAsync_v2(copy, nullptr);
}
SHIM_API int cuMemcpy3DAsync_v2(const DriverCopy3D* copy, void* stream) {
  Call c;
  CopyWork work;
  const Code code = FromDriver(*c, copy, &work);
  return code != kOk ? code : c->Submit(stream, work);
}
SHIM_API int cuMemcpy3D_v2(const DriverCopy3D* copy) { return cuMemcpy3DAsync_v2(copy, nullptr); }

// ---- fills ----
#define FILL(bits, type, name)                                                               \
  SHIM_API int cuMemsetD##bits##Async(uint64_t to, type value, size_t count, void* stream) { \
    Call c;                                                                                  \
    return c->Submit(stream, FillWork{to, 0, count, 1, value, bits / 8});                    \
  }                                                                                          \
  SHIM_API int cuMemsetD##bits##_v2(uint64_t to, type value, size_t count) {                 \
    return cuMemsetD##bits##Async(to, value, count, nullptr);                                \
  }                                                                                          \
  SHIM_API int cuMemsetD2D##bits##Async(uint64_t to, size_t pitch, type value, size_t width, \
                                        size_t height, void* stream) {                       \
    Call c;                                                                                  \
    return c->Submit(stream, FillWork{to, pitch, width, height, value, bits / 8});           \
  }                                                                                          \
  SHIM_API int cuMemsetD2D##bits##_v2(uint64_t to, size_t pitch, type value, size_t width,   \
                                      size_t height) {                                       \
    return cuMemsetD2D##bits##Async(to, pitch, value, width, height, nullptr);               \
  }
FILL(8, unsigned char, )
FILL(16, unsigned short, )
FILL(32, unsigned, )
#undef FILL

// ---- tensor maps ----
SHIM_API int cuTensorMapEncodeTiled(void* map, int type, uint32_t rank, void* base,
                                    const uint64_t* dims, const uint64_t* strides,
                                    const uint32_t* box, const uint32_t* element_strides,
                                    int interleave, int swizzle, int promotion, int fill) {
  Call c;
  return EncodeMap(*c, map,
                   {type, rank, base, dims, strides, box, element_strides, interleave, swizzle,
                    promotion, fill});
}
SHIM_API int cuTensorMapReplaceAddress(void* map, void* base) {
  Call c;
  return MoveMap(*c, map, base);
}
