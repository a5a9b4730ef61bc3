// Values of the small floats that tensor cores of the fifth generation multiply: fields of each
// kind, and a table of all codes.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cmath>
#include <cstdint>

#include "runtime/emulator/dispatch.h"
#include "runtime/emulator/floats.h"
#include "runtime/emulator/tcgen05_math.h"

namespace tilec::runtime::emulator {

// Sign, exponent and fraction of a code; what its largest exponent means.
struct Fields {
  int exponent_bits, fraction_bits, bias;
  enum Top : uint8_t { kIeee, kOneNan, kFinite } top;
  int low;  // bits of the code below the fraction
};

constexpr Fields FieldsOf(MmaFormat f) {
  switch (f) {
    case MmaFormat::kF16: return {5, 10, 15, Fields::kIeee, 0};
    case MmaFormat::kBf16: return {8, 7, 127, Fields::kIeee, 0};
    case MmaFormat::kTf32: return {8, 10, 127, Fields::kIeee, 13};
    case MmaFormat::kE4m3: return {4, 3, 7, Fields::kOneNan, 0};
    case MmaFormat::kE5m2: return {5, 2, 15, Fields::kIeee, 0};
    case MmaFormat::kE2m3: return {2, 3, 1, Fields::kFinite, 0};
    case MmaFormat::kE3m2: return {3, 2, 3, Fields::kFinite, 0};
    case MmaFormat::kE2m1: return {2, 1, 1, Fields::kFinite, 0};
    case MmaFormat::kU8:
    case MmaFormat::kS8: break;
  }
  return {};
}

inline MmaValue Decode(const Fields& f, uint32_t code) {
  code >>= f.low;
  const uint32_t ones = (1u << f.exponent_bits) - 1, cut = (1u << f.fraction_bits) - 1;
  const uint32_t exponent = code >> f.fraction_bits & ones, fraction = code & cut;
  MmaValue v;
  v.negative = code >> (f.fraction_bits + f.exponent_bits) & 1;
  const bool top = exponent == ones;
  if (top && f.top == Fields::kIeee) {
    v.kind = fraction != 0 ? ValueClass::kNan : ValueClass::kInfinite;
    return v;
  }
  if (top && f.top == Fields::kOneNan && fraction == cut) {
    v.kind = ValueClass::kNan;
    return v;
  }
  v.magnitude = static_cast<int32_t>(fraction | (exponent != 0 ? cut + 1 : 0));
  v.exponent = static_cast<int32_t>(exponent != 0 ? exponent : 1) - f.bias;
  return v;
}

inline bool Small(MmaFormat f) {
  return f != MmaFormat::kF16 && f != MmaFormat::kBf16 && f != MmaFormat::kTf32;
}

inline const std::array<float, 256>& FloatTable(MmaFormat f) {
  static const auto tables = [] {
    std::array<std::array<float, 256>, 10> t{};
    for (int k = 0; k < 10; ++k) {
      const auto format = static_cast<MmaFormat>(k);
      if (!Small(format)) continue;
      for (uint32_t c = 0; c < 256; ++c) {
        const MmaValue v = DecodeValue(format, c);
        float x = std::ldexp(static_cast<float>(v.magnitude), v.exponent - FractionBits(format));
        if (v.kind == ValueClass::kNan) x = FloatOf(kCanonicalNan32);
        if (v.kind == ValueClass::kInfinite) x = INFINITY;
        t[static_cast<size_t>(k)][c] = v.negative ? -x : x;
      }
    }
    return t;
  }();
  return tables[static_cast<size_t>(f)];
}

}  // namespace tilec::runtime::emulator
