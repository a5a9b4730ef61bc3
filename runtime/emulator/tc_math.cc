// Prepares operands for the kernels of tc_kernels.inc, and does what they do not: infinities and
// NaN (exact), f16 accumulators, the choice of instruction set.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/emulator/tc_math.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "runtime/emulator/dispatch.h"
#include "runtime/emulator/floats.h"
#include "runtime/emulator/tc_kernels.h"
#include "runtime/emulator/tc_operands.h"
#include "support/check.h"

namespace tilec::runtime::emulator {

namespace {

const TcKernels& Kernels() {
#if defined(__x86_64__)
  switch (Cpu()) {
    case CpuLevel::kAvx512: return kTcKernelsAvx512;
    case CpuLevel::kAvx2: return kTcKernelsAvx2;
    case CpuLevel::kBase: return kTcKernelsBase;
  }
#endif
  return kTcKernelsBase;
}

struct Codes {
  alignas(64) uint32_t a[kMaxRows * kMaxK];
  alignas(64) uint32_t b[kMaxColumns * kMaxK];
};

// --- specials of the exact mode ---------------------------------------------------------------

bool IsSpecial(Element e, uint32_t code) {
  if (e == Element::kE4m3) return (code & 0x7f) == 0x7f;
  const CodeLayout f = LayoutOf(e);
  const uint32_t ones = (1u << f.exponent_bits) - 1;
  return (code >> f.drop >> f.mantissa_bits & ones) == ones;
}

float FloatOfCode(Element e, bool negate, uint32_t code) {
  ToF32(e, negate, &code, 1);
  return FloatOf(code);
}

// Result of an output with an infinity or a NaN among its inputs.
uint32_t SpecialOutput(const TileMath& t, const uint32_t* a, const uint32_t* b, uint32_t c) {
  bool plus = false, minus = false, nan = false;
  auto see = [&](float v) {
    nan |= std::isnan(v);
    plus |= std::isinf(v) && v > 0;
    minus |= std::isinf(v) && v < 0;
  };
  for (int i = 0; i < t.k; i++) {
    if (!IsSpecial(t.a, a[i]) && !IsSpecial(t.b, b[i])) continue;
    see(FloatOfCode(t.a, t.negate_a, a[i]) * FloatOfCode(t.b, t.negate_b, b[i]));
  }
  see(FloatOf(c));
  if (nan || (plus && minus)) return kCanonicalNan32;
  return plus ? 0x7f800000u : 0xff800000u;
}

struct Patch {
  uint32_t* cell;
  uint32_t value;
};

// Outputs the kernel gets wrong, with their values: to be stored after it ran.
std::vector<Patch> FindSpecials(const TileMath& t, const Codes& codes,
                                uint32_t* const (*acc)[kMaxAccumulators]) {
  bool row[kMaxRows] = {}, column[kMaxColumns] = {};
  bool any = false;
  for (int r = 0; r < t.warps * 16; r++) {
    for (int i = 0; i < t.k; i++) row[r] |= IsSpecial(t.a, codes.a[r * t.k + i]);
    any |= row[r];
  }
  for (int c = 0; c < t.n; c++) {
    for (int i = 0; i < t.k; i++) column[c] |= IsSpecial(t.b, codes.b[c * t.k + i]);
    any |= column[c];
  }
  std::vector<Patch> patches;
  for (int w = 0; w < t.warps; w++) {
    for (int i = 0; i < t.n / 2; i++) {
      uint32_t* cells = acc[w][i];
      uint32_t c_special = 0;
      if (t.accumulate) {
        for (int l = 0; l < kLanes; l++) c_special |= (cells[l] & 0x7f800000u) == 0x7f800000u;
      }
      if (!any && !c_special) continue;
      for (int l = 0; l < kLanes; l++) {
        const int r = 16 * w + l / 4 + 8 * (i / 2 % 2);
        const int c = 8 * (i / 4) + 2 * (l % 4) + i % 2;
        const uint32_t c_bits = t.accumulate ? cells[l] : 0;
        if (!row[r] && !column[c] && (c_bits & 0x7f800000u) != 0x7f800000u) continue;
        patches.push_back(
            {&cells[l], SpecialOutput(t, codes.a + r * t.k, codes.b + c * t.k, c_bits)});
      }
    }
  }
  return patches;
}

// --- the three arithmetics ----------------------------------------------------------------------

void RunFast(const TileMath& t, Codes& codes, uint32_t* const (*acc)[kMaxAccumulators]) {
  const TcKernels& kernels = Kernels();
  alignas(64) uint32_t a[kMaxRows * kMaxK * 4];
  alignas(64) uint32_t b[kMaxColumns * kMaxK];
  ToF32(t.a, t.negate_a, codes.a, t.warps * 16 * t.k);
  ToF32(t.b, t.negate_b, codes.b, t.n * t.k);
  ExpandA(codes.a, t.warps, t.k, kernels.lanes, a);
  ArrangeB(codes.b, t.n, t.k, b);
  kernels.fast(reinterpret_cast<const float*>(a), reinterpret_cast<const float*>(b), t.warps,
               t.n / 8, t.k, t.accumulate, acc);
}

struct PartsBuffer {
  alignas(64) int32_t flat[3][kMaxColumns * kMaxK];
  alignas(64) int32_t a[3][kMaxRows * kMaxK * 4];
  alignas(64) int32_t b[3][kMaxColumns * kMaxK];
};

struct PlainBuffer {
  alignas(64) int16_t flat_a[kMaxRows * kMaxK];
  alignas(64) int16_t flat_b[kMaxColumns * kMaxK];
  alignas(64) int16_t a[kMaxRows * kMaxK * 4];
  alignas(64) int16_t b[kMaxColumns * kMaxK];
  alignas(64) uint32_t a_value[kMaxRows * kMaxK * 4];
  alignas(64) uint32_t b_value[kMaxColumns * kMaxK];
};

bool SpecialC(const TileMath& t, uint32_t* const (*acc)[kMaxAccumulators]) {
  if (!t.accumulate) return false;
  uint32_t any = 0;
  for (int w = 0; w < t.warps; w++) {
    for (int i = 0; i < t.n / 2; i++) {
      // The exponent's lowest bit carries into the sign's place if all are set.
      for (int l = 0; l < kLanes; l++) any |= (acc[w][i][l] & 0x7f800000u) + 0x00800000u;
    }
  }
  return any >> 31 != 0;
}

ExactRule RuleOf(const TileMath& t, bool to_f16) {
  const bool fp8 = ElementBytes(t.a) == 1;
  const int f = fp8 ? 13 : 25;
  return {.product_shift = f - LayoutOf(t.a).mantissa_bits - LayoutOf(t.b).mantissa_bits,
          .c_left = std::max(f - 23, 0),
          .c_right = std::max(23 - f, 0),
          .fraction_bits = f,
          .result_bits = fp8 ? 13 : 23,
          .to_f16 = to_f16};
}

// False, and nothing done, unless all numbers are of ordinary size.
bool RunPlain(const TileMath& t, Codes& codes, bool to_f16,
              uint32_t* const (*acc)[kMaxAccumulators]) {
  const TcKernels& kernels = Kernels();
  const int a_count = t.warps * 16 * t.k, b_count = t.n * t.k;
  if (SpecialC(t, acc)) return false;
  PlainBuffer p;
  // Whole vectors are read: what lies behind the last column is zero.
  for (int i = b_count; i % kernels.lanes != 0; i++) codes.b[i] = 0;
  if (!kernels.narrow(LayoutOf(t.a), codes.a, a_count, p.flat_a) ||
      !kernels.narrow(LayoutOf(t.b), codes.b, b_count, p.flat_b))
    return false;
  ToF32(t.a, t.negate_a, codes.a, a_count);
  ToF32(t.b, t.negate_b, codes.b, b_count);
  ExpandA(p.flat_a, t.warps, t.k, 2 * kernels.lanes, p.a);
  ArrangeB(p.flat_b, t.n, t.k, p.b);
  ExpandA(codes.a, t.warps, t.k, kernels.lanes, p.a_value);
  ArrangeB(codes.b, t.n, t.k, p.b_value);
  kernels.exact({.value = reinterpret_cast<const float*>(p.a_value), .narrow = p.a},
                {.value = reinterpret_cast<const float*>(p.b_value), .narrow = p.b},
                RuleOf(t, to_f16), true, t.warps, t.n / 8, t.k, t.accumulate, acc);
  return true;
}

void RunExact(const TileMath& t, Codes& codes, bool to_f16,
              uint32_t* const (*acc)[kMaxAccumulators]) {
  if (RunPlain(t, codes, to_f16, acc)) return;
  const TcKernels& kernels = Kernels();
  const std::vector<Patch> patches = FindSpecials(t, codes, acc);
  PartsBuffer p;
  ToParts(t.b, t.negate_b, codes.b, t.n * t.k, {p.flat[0], p.flat[1], p.flat[2]});
  for (int i = 0; i < 3; i++) ArrangeB(p.flat[i], t.n, t.k, p.b[i]);
  ToParts(t.a, t.negate_a, codes.a, t.warps * 16 * t.k, {p.flat[0], p.flat[1], p.flat[2]});
  for (int i = 0; i < 3; i++) ExpandA(p.flat[i], t.warps, t.k, kernels.lanes, p.a[i]);
  kernels.exact({.magnitude = p.a[0], .exponent = p.a[1], .sign = p.a[2]},
                {.magnitude = p.b[0], .exponent = p.b[1], .sign = p.b[2]}, RuleOf(t, to_f16), false,
                t.warps, t.n / 8, t.k, t.accumulate, acc);
  for (const Patch& patch : patches) *patch.cell = patch.value;
}

void RunInteger(const TileMath& t, const Codes& codes, uint32_t* const (*acc)[kMaxAccumulators]) {
  const TcKernels& kernels = Kernels();
  alignas(64) uint32_t a[kMaxRows * kMaxK * 4];
  alignas(64) uint32_t b[kMaxColumns * kMaxK];
  ExpandA(codes.a, t.warps, t.k, kernels.lanes, a);
  ArrangeB(codes.b, t.n, t.k, b);
  kernels.integer(reinterpret_cast<const int32_t*>(a), reinterpret_cast<const int32_t*>(b), t.warps,
                  t.n / 8, t.k, t.accumulate, t.satfinite, acc);
}

void RunFloat(const TileMath& t, Codes& codes, bool to_f16,
              uint32_t* const (*acc)[kMaxAccumulators]) {
  if (t.arithmetic == Arithmetic::kExact) return RunExact(t, codes, to_f16, acc);
  RunFast(t, codes, acc);
}

// f16 accumulators: unpacked to f32 registers, computed, rounded once, packed. Register i of the
// packed form holds registers 2i (low half) and 2i + 1 of the f32 form.
void RunHalf(const TileMath& t, Codes& codes, uint32_t* const (*acc)[kMaxAccumulators]) {
  std::vector<uint32_t> cells(static_cast<size_t>(t.warps) * t.n / 2 * kLanes);
  uint32_t* wide[4][kMaxAccumulators] = {};
  for (int w = 0; w < t.warps; w++) {
    for (int i = 0; i < t.n / 2; i++) {
      wide[w][i] = cells.data() + (static_cast<size_t>(w) * t.n / 2 + i) * kLanes;
      if (!t.accumulate) continue;
      for (int l = 0; l < kLanes; l++) {
        wide[w][i][l] = acc[w][i / 2][l] >> (16 * (i % 2)) & 0xffff;
      }
      ToF32(Element::kF16, false, wide[w][i], kLanes);
    }
  }
  RunFloat(t, codes, true, wide);
  for (int w = 0; w < t.warps; w++) {
    for (int i = 0; i < t.n / 4; i++) {
      CvtF16x2Warp(reinterpret_cast<const float*>(wide[w][2 * i + 1]),
                   reinterpret_cast<const float*>(wide[w][2 * i]), acc[w][i], false);
      // A result that rounds to zero is +0 on the hardware, whatever its sign was.
      for (int l = 0; l < kLanes; l++) {
        uint32_t& v = acc[w][i][l];
        v &= (v & 0xffffu) == 0x8000u ? 0xffff0000u : ~0u;
        v &= v >> 16 == 0x8000u ? 0xffffu : ~0u;
      }
    }
  }
}

}  // namespace

void MultiplyTile(const TileMath& t, const uint8_t* a, const uint8_t* b,
                  uint32_t* const (*acc)[kMaxAccumulators]) {
  CHECK(t.warps >= 1 && t.warps <= 4 && t.n % 8 == 0 && t.n >= 8 && t.n <= kMaxColumns);
  CHECK(t.k >= 1 && t.k * static_cast<int>(ElementBytes(t.a)) <= kTileRowBytes);
  Codes codes;
  WidenElements(t.a, a, t.warps * 16, t.k, codes.a);
  WidenElements(t.b, b, t.n, t.k, codes.b);
  if (t.d == Element::kS32) return RunInteger(t, codes, acc);
  if (t.d == Element::kF16) return RunHalf(t, codes, acc);
  RunFloat(t, codes, false, acc);
}

}  // namespace tilec::runtime::emulator
