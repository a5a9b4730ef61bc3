// The shared memory descriptor of tcgen05 (PTX ISA, "Shared memory descriptor").
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "backend/shared_operand.h"

namespace tilec::backend {

// Without its address: leading offset at bit 16, stride offset at 32, both in units of 16 bytes,
// version 1 at 46, swizzle at 61.
inline uint64_t DescriptorOf(const SharedOperand& o) {
  const uint64_t mode = o.swizzle == 128 ? 2 : o.swizzle == 64 ? 4 : o.swizzle == 32 ? 6 : 0;
  return static_cast<uint64_t>(o.lbo >> 4 & 0x3fff) << 16 |
         static_cast<uint64_t>(o.sbo >> 4 & 0x3fff) << 32 | uint64_t{1} << 46 | mode << 61;
}

}  // namespace tilec::backend
