// SPDX-License-Identifier: Apache-2.0
#include "shim/copies.h"

#include <cstring>

#include "runtime/emulator/tensor_map.h"

namespace tilec::shim {

Code CopyRun(Process& p, const Run& run, const void* stream) {
  for (const auto& [address, side, what] :
       {std::tuple{run.to, run.to_side, "to"}, std::tuple{run.from, run.from_side, "from"}}) {
    if (run.bytes == 0 || side == Side::kAny || p.FindBlock(address) != nullptr) continue;
    p.Note(fmt::format("a copy of {} bytes {} {:#x}, which is no memory of the device", run.bytes,
                       what, address));
    return kInvalidValue;
  }
  CopyWork work;
  work.to = run.to;
  work.from = run.from;
  work.width = run.bytes;
  return p.Submit(stream, work);
}

namespace {

// The address of a side, or an error.
Code SideOf(Process& p, int type, const void* host, uint64_t device, uint64_t* out,
            bool* of_device) {
  *of_device = type == kTypeDevice;
  if (type == kTypeArray) return p.Refuse("a copy with an array");
  if (type == kTypeHost)
    *out = reinterpret_cast<uint64_t>(host);
  else if (type == kTypeDevice || type == kTypeUnified)
    *out = device;
  else
    return kInvalidValue;
  return kOk;
}

// x + y·pitch + z·slice behind `at`; false: no number.
bool Move(uint64_t* at, uint64_t x, uint64_t y, uint64_t pitch, uint64_t z, uint64_t slice) {
  uint64_t rows = 0, slices = 0;
  return !__builtin_mul_overflow(y, pitch, &rows) && !__builtin_mul_overflow(z, slice, &slices) &&
         !__builtin_add_overflow(*at, x, at) && !__builtin_add_overflow(*at, rows, at) &&
         !__builtin_add_overflow(*at, slices, at);
}

}  // namespace

Code FromDriver(Process& p, const DriverCopy2D* copy, CopyWork* out) {
  if (copy == nullptr) return kInvalidValue;
  DriverCopy2D c;
  memcpy(&c, copy, sizeof c);
  if (Code e = SideOf(p, c.from_type, c.from_host, c.from_device, &out->from, &out->from_device))
    return e;
  if (Code e = SideOf(p, c.to_type, c.to_host, c.to_device, &out->to, &out->to_device)) return e;
  out->from_pitch = c.from_pitch != 0 ? c.from_pitch : c.width;
  out->to_pitch = c.to_pitch != 0 ? c.to_pitch : c.width;
  out->width = c.width;
  out->height = c.height;
  if (!Move(&out->from, c.from_x, c.from_y, out->from_pitch, 0, 0) ||
      !Move(&out->to, c.to_x, c.to_y, out->to_pitch, 0, 0))
    return kInvalidValue;
  return kOk;
}

Code FromDriver(Process& p, const DriverCopy3D* copy, CopyWork* out) {
  if (copy == nullptr) return kInvalidValue;
  DriverCopy3D c;
  memcpy(&c, copy, sizeof c);
  if (Code e = SideOf(p, c.from_type, c.from_host, c.from_device, &out->from, &out->from_device))
    return e;
  if (Code e = SideOf(p, c.to_type, c.to_host, c.to_device, &out->to, &out->to_device)) return e;
  out->from_pitch = c.from_pitch != 0 ? c.from_pitch : c.width;
  out->to_pitch = c.to_pitch != 0 ? c.to_pitch : c.width;
  const uint64_t from_height = c.from_height != 0 ? c.from_height : c.height;
  const uint64_t to_height = c.to_height != 0 ? c.to_height : c.height;
  if (__builtin_mul_overflow(out->from_pitch, from_height, &out->from_slice) ||
      __builtin_mul_overflow(out->to_pitch, to_height, &out->to_slice))
    return kInvalidValue;
  out->width = c.width;
  out->height = c.height;
  out->depth = c.depth;
  if (!Move(&out->from, c.from_x, c.from_y, out->from_pitch, c.from_z, out->from_slice) ||
      !Move(&out->to, c.to_x, c.to_y, out->to_pitch, c.to_z, out->to_slice))
    return kInvalidValue;
  return kOk;
}

Code FromRuntime(Process& p, const RuntimeCopy3D* copy, CopyWork* out) {
  if (copy == nullptr) return kInvalidValue;
  RuntimeCopy3D c;
  memcpy(&c, copy, sizeof c);
  if (c.from_array != nullptr || c.to_array != nullptr) return p.Refuse("a copy with an array");
  out->from = reinterpret_cast<uint64_t>(c.from.address);
  out->to = reinterpret_cast<uint64_t>(c.to.address);
  out->from_pitch = c.from.pitch;
  out->to_pitch = c.to.pitch;
  if (__builtin_mul_overflow(c.from.pitch, c.from.height, &out->from_slice) ||
      __builtin_mul_overflow(c.to.pitch, c.to.height, &out->to_slice))
    return kInvalidValue;
  out->width = c.extent.width;
  out->height = c.extent.height;
  out->depth = c.extent.depth;
  if (!Move(&out->from, c.from_at[0], c.from_at[1], out->from_pitch, c.from_at[2],
            out->from_slice) ||
      !Move(&out->to, c.to_at[0], c.to_at[1], out->to_pitch, c.to_at[2], out->to_slice))
    return kInvalidValue;
  return kOk;
}

Code AllocPitch(Process& p, uint64_t* address, size_t* pitch, size_t width, size_t height) {
  if (address == nullptr || pitch == nullptr || width == 0 || height == 0) return kInvalidValue;
  constexpr size_t kPitch = 512;
  size_t bytes = 0;
  if (width > SIZE_MAX - kPitch) return kInvalidValue;
  *pitch = (width + kPitch - 1) / kPitch * kPitch;
  if (__builtin_mul_overflow(*pitch, height, &bytes)) return kInvalidValue;
  return p.Alloc(bytes, Place::kDevice, address);
}

namespace {

// By the numbers of CUtensorMapDataType; null: not there.
const char* TypeName(int type) {
  constexpr const char* kNames[] = {"u8",  "u16", "u32",  "s32", "u64",  "s64", "f16",
                                    "f32", "f64", "bf16", "f32", "tf32", "tf32"};
  return type >= 0 && type < 13 ? kNames[type] : nullptr;
}

}  // namespace

Code EncodeMap(Process& p, void* map, const MapWords& w) {
  if (map == nullptr || w.dims == nullptr || w.box == nullptr || w.rank < 1 || w.rank > 5 ||
      (w.rank > 1 && w.strides == nullptr))
    return kInvalidValue;
  if (w.interleave != 0) return p.Refuse("cuTensorMapEncodeTiled with an interleaved layout");
  constexpr int kPackedFour = 13, kAtoms32 = 4;  // 16U4_ALIGN8B, 128B_ATOM_32B
  if (w.type == 14 || w.type == 15)
    return p.Refuse("cuTensorMapEncodeTiled with elements of four or six bits that are padded");
  if (w.swizzle > kAtoms32)
    return p.Refuse("cuTensorMapEncodeTiled with atoms of 64 bytes, or with flips");
  const char* type = w.type == kPackedFour ? "u4" : TypeName(w.type);
  if (type == nullptr || w.swizzle < 0 || w.promotion < 0 || w.promotion > 3) return kInvalidValue;
  runtime::TensorMapDesc desc;
  desc.dtype = type;
  desc.base = reinterpret_cast<uint64_t>(w.base);
  desc.dims.assign(w.dims, w.dims + w.rank);
  if (w.rank > 1) desc.strides_bytes.assign(w.strides, w.strides + w.rank - 1);
  desc.box.assign(w.box, w.box + w.rank);
  if (w.element_strides != nullptr)
    desc.element_strides.assign(w.element_strides, w.element_strides + w.rank);
  desc.swizzle_bytes = w.swizzle == 0 ? 0 : w.swizzle == kAtoms32 ? 128 : 16 << w.swizzle;
  desc.swizzle_atom = w.swizzle == kAtoms32 ? 32 : 16;
  desc.l2_promotion_bytes = w.promotion == 0 ? 0 : 32 << w.promotion;
  desc.fill_nan = w.fill != 0;
  DiagSink diags;
  const auto made = runtime::emulator::EncodeTensorMap(desc, diags);
  if (!made.ok()) {
    for (const Diagnostic& d : diags.all())
      p.Note(fmt::format("cuTensorMapEncodeTiled: {}", d.message));
    return kInvalidValue;
  }
  memcpy(map, made->bytes, sizeof made->bytes);
  return kOk;
}

Code MoveMap(Process& p, void* map, void* base) {
  if (map == nullptr) return kInvalidValue;
  uint8_t bytes[128];
  memcpy(bytes, map, sizeof bytes);
  runtime::emulator::TensorMapInfo info;
  if (!runtime::emulator::DecodeTensorMap(bytes, &info)) return kInvalidValue;
  runtime::TensorMapDesc desc;
  desc.dtype = info.packed == 2 ? "u4" : std::string(runtime::emulator::ElementName(info.element));
  desc.base = reinterpret_cast<uint64_t>(base);
  desc.dims.assign(info.dims, info.dims + info.rank);
  desc.strides_bytes.assign(info.strides + 1, info.strides + info.rank);
  desc.box.assign(info.box, info.box + info.rank);
  desc.element_strides.assign(info.element_strides, info.element_strides + info.rank);
  if (info.packed == 2) desc.dims[0] *= 2, desc.box[0] *= 2;
  desc.swizzle_bytes = static_cast<int>(info.swizzle_bytes);
  desc.swizzle_atom = static_cast<int>(info.swizzle_atom);
  desc.fill_nan = info.fill_nan;
  DiagSink diags;
  const auto made = runtime::emulator::EncodeTensorMap(desc, diags);
  if (!made.ok()) {
    for (const Diagnostic& d : diags.all())
      p.Note(fmt::format("cuTensorMapReplaceAddress: {}", d.message));
    return kInvalidValue;
  }
  memcpy(map, made->bytes, sizeof bytes);
  return kOk;
}

}  // namespace tilec::shim
