// The runtime's interface: memory and copies. The direction that a program names is checked where
// it can be: a side that should be the device's must be memory of the device.
//
// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "shim/copies.h"
#include "shim/runtime_state.h"

using namespace tilec::shim;  // NOLINT: entries have C names

namespace {

// cudaMemcpyKind: host to host 0, to device 1, to host 2, device to device 3, as it is 4.
bool Sides(int kind, Side* to, Side* from) {
  if (kind < 0 || kind > 4) return false;
  *to = kind == 1 || kind == 3 ? Side::kDevice : Side::kAny;
  *from = kind == 2 || kind == 3 ? Side::kDevice : Side::kAny;
  return true;
}

int CopyBy(uint64_t to, uint64_t from, size_t bytes, int kind, void* stream) {
  Call c;
  Run run{to, from, bytes};
  if (!Sides(kind, &run.to_side, &run.from_side))
    return Last(21);  // cudaErrorInvalidMemcpyDirection
  return Last(CopyRun(*c, run, stream));
}

int CopySymbol(const void* symbol, uint64_t other, size_t bytes, size_t offset, bool to_symbol,
               void* stream) {
  Call c;
  uint64_t address = 0, size = 0;
  if (Code e = SymbolOf(c, symbol, &address, &size)) return Last(e);
  if (offset > size || bytes > size - offset) {
    c->Note(fmt::format("a copy of {} bytes at byte {} of a variable of {} bytes", bytes, offset,
                        size));
    return Last(kInvalidValue);
  }
  const uint64_t at = address + offset;
  return Last(CopyRun(*c, {to_symbol ? at : other, to_symbol ? other : at, bytes}, stream));
}

}  // namespace

SHIM_API int cudaMalloc(uint64_t* address, size_t bytes) {
  Call c;
  if (address == nullptr) return Last(kInvalidValue);
  return Last(c->Alloc(bytes, Place::kDevice, address));
}
SHIM_API int cudaMallocManaged(uint64_t* address, size_t bytes, unsigned) {
  Call c;
  if (address == nullptr || bytes == 0) return Last(kInvalidValue);
  return Last(c->Alloc(bytes, Place::kManaged, address));
}
SHIM_API int cudaMalloc3D(PitchedPointer* out, Extent extent) {
  Call c;
  if (out == nullptr) return Last(kInvalidValue);
  uint64_t address = 0;
  size_t pitch = 0, rows = 0;
  if (__builtin_mul_overflow(extent.height, extent.depth, &rows)) return Last(kInvalidValue);
  const Code code = AllocPitch(*c, &address, &pitch, extent.width, rows);
  *out = {reinterpret_cast<void*>(address), pitch, extent.width, extent.height};
  return Last(code);
}
SHIM_API int cudaMemcpy(uint64_t to, uint64_t from, size_t bytes, int kind) {
  return CopyBy(to, from, bytes, kind, nullptr);
}
SHIM_API int cudaMemcpyAsync(uint64_t to, uint64_t from, size_t bytes, int kind, void* stream) {
  return CopyBy(to, from, bytes, kind, stream);
}
SHIM_API int cudaMemcpy2DAsync(uint64_t to, size_t to_pitch, uint64_t from, size_t from_pitch,
                               size_t width, size_t height, int kind, void* stream) {
  Call c;
  if (kind < 0 || kind > 4) return Last(21);
  if (width > to_pitch || width > from_pitch) return Last(12);  // cudaErrorInvalidPitchValue
  CopyWork work;
  work.to = to;
  work.from = from;
  work.to_pitch = to_pitch;
  work.from_pitch = from_pitch;
  work.width = width;
  work.height = height;
  return Last(c->Submit(stream, work));
}
SHIM_API int cudaMemcpy2D(uint64_t to, size_t to_pitch, uint64_t from, size_t from_pitch,
                          size_t width, size_t height, int kind) {
  return cudaMemcpy2DAsync(to, to_pitch, from, from_pitch, width, height, kind, nullptr);
}
SHIM_API int cudaMemcpy3DAsync(const RuntimeCopy3D* copy, void* stream) {
  Call c;
  CopyWork work;
  if (Code e = FromRuntime(*c, copy, &work)) return Last(e);
  return Last(c->Submit(stream, work));
}
SHIM_API int cudaMemcpy3D(const RuntimeCopy3D* copy) { return cudaMemcpy3DAsync(copy, nullptr); }

// ---- variables ----
SHIM_API int cudaMemcpyToSymbolAsync(const void* symbol, const void* from, size_t bytes,
                                     size_t offset, int, void* stream) {
  return CopySymbol(symbol, reinterpret_cast<uint64_t>(from), bytes, offset, true, stream);
}
SHIM_API int cudaMemcpyToSymbol(const void* symbol, const void* from, size_t bytes, size_t offset,
                                int kind) {
  return cudaMemcpyToSymbolAsync(symbol, from, bytes, offset, kind, nullptr);
}
SHIM_API int cudaMemcpyFromSymbolAsync(void* to, const void* symbol, size_t bytes, size_t offset,
                                       int, void* stream) {
  return CopySymbol(symbol, reinterpret_cast<uint64_t>(to), bytes, offset, false, stream);
}
SHIM_API int cudaMemcpyFromSymbol(void* to, const void* symbol, size_t bytes, size_t offset,
                                  int kind) {
  return cudaMemcpyFromSymbolAsync(to, symbol, bytes, offset, kind, nullptr);
}
SHIM_API int cudaGetSymbolAddress(void** out, const void* symbol) {
  Call c;
  if (out == nullptr) return Last(kInvalidValue);
  uint64_t address = 0, bytes = 0;
  if (Code e = SymbolOf(c, symbol, &address, &bytes)) return Last(e);
  *out = reinterpret_cast<void*>(address);
  return kOk;
}
SHIM_API int cudaGetSymbolSize(size_t* out, const void* symbol) {
  Call c;
  if (out == nullptr) return Last(kInvalidValue);
  uint64_t address = 0, bytes = 0;
  if (Code e = SymbolOf(c, symbol, &address, &bytes)) return Last(e);
  *out = bytes;
  return kOk;
}
SHIM_API int cudaPointerGetAttributes(RuntimePointerAttributes* out, const void* pointer) {
  Call c;
  if (out == nullptr) return Last(kInvalidValue);
  *out = {};
  const Block* block = c->FindBlock(reinterpret_cast<uint64_t>(pointer));
  auto* p = const_cast<void*>(pointer);
  if (block == nullptr) {
    out->host_pointer = p;
    out->device = -2;
    return kOk;
  }
  const bool host = block->place == Place::kPinned || block->place == Place::kManaged;
  out->type = block->place == Place::kPinned ? 1 : block->place == Place::kManaged ? 3 : 2;
  out->device_pointer = p;
  out->host_pointer = host ? p : nullptr;
  return kOk;
}
