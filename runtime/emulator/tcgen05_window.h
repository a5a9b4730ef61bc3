// Sums of exact products in a window of bits, for tcgen05_math*.cc: terms as integers, the
// conversion of a sum to its result, and what infinities and NaN do.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>

#include "runtime/emulator/floats.h"
#include "runtime/emulator/tcgen05_math.h"

namespace tilec::runtime::emulator {

inline constexpr int32_t kNoExponent = -100000;  // of a term that is zero

MmaValue DecodeF32(uint32_t bits);  // 23 fraction bits

// units · 2^exponent, cut toward zero.
inline uint32_t UnitsToF32(int64_t units, int32_t exponent) {
  if (units == 0) return 0;
  const uint32_t sign = units < 0 ? 0x80000000u : 0;
  const uint64_t m = units < 0 ? 0 - static_cast<uint64_t>(units) : static_cast<uint64_t>(units);
  const int32_t top = std::bit_width(m) - 1 + exponent;  // of the value
  if (top > 127) return sign | 0x7f800000u;
  const int32_t lowest = top >= -126 ? top - 23 : -149;  // exponent of the last bit kept
  const int32_t drop = lowest - exponent;
  const uint64_t kept = drop >= 64 ? 0 : drop >= 0 ? m >> drop : m << -drop;
  if (kept == 0) return 0;
  const auto low = static_cast<uint32_t>(kept);
  return sign | (top >= -126 ? (static_cast<uint32_t>(top + 127) << 23 | (low & 0x7fffffu)) : low);
}

// units · 2^exponent, to the nearest, ties to even; a zero has no sign.
inline uint32_t UnitsToF16(int64_t units, int32_t exponent) {
  if (units == 0) return 0;
  const uint32_t sign = units < 0 ? 0x8000u : 0;
  const uint64_t m = units < 0 ? 0 - static_cast<uint64_t>(units) : static_cast<uint64_t>(units);
  const int32_t top = std::bit_width(m) - 1 + exponent;
  if (top > 15) return sign | 0x7c00u;
  const int32_t lowest = top >= -14 ? top - 10 : -24;
  const int32_t drop = lowest - exponent;
  uint64_t kept = 0;
  if (drop <= 0) {
    kept = m << -drop;
  } else if (drop < 64) {
    const uint64_t half = 1ull << (drop - 1), rest = m & ((half << 1) - 1);
    kept = m >> drop;
    if (rest > half || (rest == half && (kept & 1))) ++kept;
  }
  if (kept == 0) return 0;
  // A carry out of the fraction goes into the exponent by itself.
  const uint64_t base = top >= -14 ? (static_cast<uint64_t>(top + 14) << 10) : 0;
  const uint64_t bits = base + kept;
  return sign | static_cast<uint32_t>(bits >= 0x7c00 ? 0x7c00 : bits);
}

// What infinities and NaN among the terms of a sum make of it.
struct SpecialTerms {
  bool plus = false, minus = false, nan = false;

  void Add(const MmaValue& v) {
    nan |= v.kind == ValueClass::kNan;
    if (v.kind == ValueClass::kInfinite) (v.negative ? minus : plus) = true;
  }
  void AddProduct(const MmaValue& x, const MmaValue& y) {
    nan |= x.kind == ValueClass::kNan || y.kind == ValueClass::kNan;
    const bool x_inf = x.kind == ValueClass::kInfinite, y_inf = y.kind == ValueClass::kInfinite;
    if (!x_inf && !y_inf) return;
    if ((!x_inf && x.magnitude == 0) || (!y_inf && y.magnitude == 0)) {
      nan = true;
      return;
    }
    (x.negative != y.negative ? minus : plus) = true;
  }
  // 0: the sum is finite.
  uint32_t Result(bool half) const {
    if (nan || (plus && minus)) return half ? kCanonicalNan16 : kCanonicalNan32;
    if (plus) return half ? 0x7c00u : 0x7f800000u;
    if (minus) return half ? 0xfc00u : 0xff800000u;
    return 0;
  }
};

// `exact` of kind::mxf4 and kind::mxf4nvf4 (tcgen05_math4.cc).
void MultiplyFourBits(MmaProduct& p);

}  // namespace tilec::runtime::emulator
