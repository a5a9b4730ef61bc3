// Tensor-core arithmetic: one tile D = A·B (+ C) in the two fidelities of the emulator.
//
//   fast   products in f32, one fused multiply-add after the other along k. The same bits on every
//          host: the vector versions only do several columns at once.
//   exact  the accumulation rule published for Hopper: exact products and C aligned to the largest
//          exponent, each cut toward zero F bits below it, added exactly, normalised, cut.
//
// Operands come as *codes* (element bit patterns widened to 32 bits) in plain row-major arrays;
// who fetches them from shared memory or registers is wgmma.h and mma_sync.h.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "runtime/emulator/element.h"

namespace tilec::runtime::emulator {

struct TileMath {
  Element a = Element::kBf16;
  Element b = Element::kBf16;
  Element d = Element::kF32;  // kF32, kF16 or kS32
  int m = 0;
  int n = 0;
  int k = 0;
  bool accumulate = true;  // false: C counts as zero and is not read
  bool negate_a = false;
  bool negate_b = false;
  bool satfinite = false;  // integer accumulators only
  Arithmetic arithmetic = Arithmetic::kFast;
};

// a[m·k], b[k·n] (k-major rows of n columns), c[m·n]: C on entry, D on return. For kF16 a cell of
// c holds one f16 code in its low half; for kS32 and kF32 the 32-bit pattern.
// m ≤ 64, n ≤ 256, k ≤ 32.
void MultiplyTile(const TileMath& t, const uint32_t* a, const uint32_t* b, uint32_t* c);

// The f32 value of a code, as the tensor core reads it (tf32 drops the 13 low bits).
float CodeToF32(Element e, uint32_t code);

}  // namespace tilec::runtime::emulator
