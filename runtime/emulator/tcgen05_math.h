// Arithmetic of the fifth-generation tensor core, one instruction's K at a time.
//
//   fast   products in f32, one fused multiply-add after the other along k, starting from C; scaled
//          kinds sum a block that way and scale the sum. The same bits on every host.
//   exact  the rule published for a B200 by sf-tensor/tcgen05 (and, but for the scaled kinds of 4
//          bits, by MMA-Sim): products and C are exact, are cut toward zero 25 bits below the
//          largest exponent that operands' codes name, are added exactly; an f32 result is cut
//          toward zero, an f16 one rounded to nearest even. Kinds of 4 bits have wider windows and
//          add groups first (tcgen05_math.cc). Not compared with silicon by us.
//
// Formats are decoded by their definitions: IEEE 754 for f16, bf16 and tf32, OCP OFP8 for e4m3 and
// e5m2, OCP MX 1.0 for e2m3, e3m2, e2m1 and ue8m0; ue4m3 is e4m3 without its sign.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/emulator/element.h"
#include "runtime/emulator/tcgen05_descriptor.h"

namespace tilec::runtime::emulator {

enum class ValueClass : uint8_t { kFinite, kInfinite, kNan };

// value = ±magnitude · 2^(exponent − fraction bits of the format); `exponent` is the one the code
// names, that of the smallest normal number for subnormal ones.
struct MmaValue {
  int32_t magnitude = 0;
  int32_t exponent = 0;
  bool negative = false;
  ValueClass kind = ValueClass::kFinite;
};
MmaValue DecodeValue(MmaFormat format, uint32_t code);
int FractionBits(MmaFormat format);
float ValueAsFloat(MmaFormat format, uint32_t code);

// Scale factors: magnitude · 2^(exponent − fraction bits), 3 for ue4m3 and 0 for ue8m0.
MmaValue DecodeScale(bool ue4m3, uint32_t code);

// A part of D = A·B + C whose rows lie side by side in tensor memory.
struct MmaProduct {
  const MmaTask* task = nullptr;
  uint32_t rows = 0;  // multiple of 16, up to 128
  uint32_t columns = 0;
  std::vector<uint32_t> a;        // [k][rows], codes
  std::vector<uint32_t> b;        // [columns][k]
  std::vector<uint8_t> scales_a;  // [rows][scales]
  std::vector<uint8_t> scales_b;  // [columns][scales]
  bool accumulate = false;
  uint32_t scale_c = 0;  // C counts as C · 2^−scale_c
  // d[c · stride + r]: C on entry, D on return.
  uint32_t* d = nullptr;
  uint32_t stride = 0;
};
void Multiply(MmaProduct& p, Arithmetic arithmetic);

}  // namespace tilec::runtime::emulator
