// Tensor-core arithmetic: one tile D = A·B (+ C) in the two fidelities of the emulator.
//
//   fast   products in f32, one fused multiply-add after the other along k. The same bits on every
//          host: the vector versions only do several outputs at once.
//   exact  the accumulation rule published for Hopper: exact products and C aligned to the largest
//          exponent, each cut toward zero F bits below it, added exactly, normalised, cut (an f16
//          result is rounded from the whole sum instead). F is 25; for fp8 13, and an f32 result
//          keeps 13 mantissa bits. Compared with an H200 for every wgmma type, in- and outside
//          the normal range, with infinities and NaN: no bit differed.
//
// Accumulators stay in the layout of the registers: register i of warp w holds, in lane l, row
// 16·w + l/4 + 8·((i/2)%2) and column 8·(i/4) + 2·(l%4) + i%2. So 32 lanes are eight rows of four
// columns, and a vector of the host multiplies an A column, each element repeated four times, by
// four B values repeated: nothing is transposed but the (small) operands.
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
  int warps = 4;              // 16 rows each
  int n = 0;                  // multiple of 8, up to 256
  int k = 0;                  // k · element size ≤ 32 bytes
  bool accumulate = true;     // false: C counts as zero and is not read
  bool negate_a = false;
  bool negate_b = false;
  bool satfinite = false;  // integer accumulators only
  Arithmetic arithmetic = Arithmetic::kFast;
};

inline constexpr int kTileRowBytes = 32;  // distance of operand rows below
inline constexpr int kMaxAccumulators = 128;

// a: 16·warps rows, b: n rows (columns of B), each of k elements as they lie in memory, rows
// kTileRowBytes apart. acc[w][i]: 32 lanes of accumulator register i, C on entry, D on return.
void MultiplyTile(const TileMath& t, const uint8_t* a, const uint8_t* b,
                  uint32_t* const (*acc)[kMaxAccumulators]);

}  // namespace tilec::runtime::emulator
