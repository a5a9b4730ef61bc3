// Copies and tensor maps as the two interfaces describe them, as work of ours.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "shim/process.h"

namespace tilec::shim {

enum class Side : uint8_t { kAny, kDevice };

// A run of bytes, and on which sides the caller says that memory of the device lies.
struct Run {
  uint64_t to, from, bytes;
  Side to_side = Side::kAny, from_side = Side::kAny;
};
Code CopyRun(Process& p, const Run& run, const void* stream);
Code FromDriver(Process& p, const DriverCopy2D* copy, CopyWork* out);
Code FromDriver(Process& p, const DriverCopy3D* copy, CopyWork* out);
Code FromRuntime(Process& p, const RuntimeCopy3D* copy, CopyWork* out);
Code AllocPitch(Process& p, uint64_t* address, size_t* pitch, size_t width, size_t height);

struct MapWords {
  int type;
  uint32_t rank;
  void* base;
  const uint64_t* dims;
  const uint64_t* strides;
  const uint32_t* box;
  const uint32_t* element_strides;
  int interleave, swizzle, promotion, fill;
};
Code EncodeMap(Process& p, void* map, const MapWords& words);
Code MoveMap(Process& p, void* map, void* base);

}  // namespace tilec::shim
