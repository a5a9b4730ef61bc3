// A tile in shared memory as the descriptors of matrix units see it: panels of rows, each row as
// wide as the swizzle (hopper.md of the design notes; PTX ISA, "Shared Memory Matrix Layout"). The
// units put these numbers into descriptors of their own form.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "ir/type.h"

namespace tilec::backend {

struct SharedOperand {
  int64_t span = 16;  // bytes of a panel's row
  int64_t panel_bytes = 0;
  int64_t element_bytes = 2;
  bool mn_major = false;
  int64_t lbo = 16, sbo = 0;  // bytes: leading and stride offset of a descriptor
  int swizzle = 0;            // bytes

  // Bytes from the buffer's start to row `mn` (of M or N), column `k` of the contracted dim.
  int64_t Offset(int64_t mn, int64_t k) const {
    const int64_t across = (mn_major ? mn : k) * element_bytes, down = mn_major ? k : mn;
    return across / span * panel_bytes + down * span + across % span;
  }
  // Panels that a descriptor can name: without a swizzle they are as wide as a core matrix.
  bool Regular() const { return span == (swizzle ? swizzle : 16); }
};

inline SharedOperand SharedOperandOf(const ir::Type& buffer, bool mn_major) {
  SharedOperand o;
  o.element_bytes = ir::ByteSize(buffer.dtype);
  o.span = buffer.smem.panel_cols * o.element_bytes;
  o.panel_bytes = buffer.smem.rows * o.span;
  o.mn_major = mn_major;
  o.swizzle = buffer.smem.swizzle_bytes;
  o.sbo = 8 * o.span;
  if (mn_major || !o.swizzle) o.lbo = o.panel_bytes;
  if (mn_major && !o.swizzle) {
    o.lbo = 8 * o.span;
    o.sbo = o.panel_bytes;
  }
  return o;
}

}  // namespace tilec::backend
