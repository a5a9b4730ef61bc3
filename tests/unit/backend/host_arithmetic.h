// What the host knows of numbers that the tests of elementwise ops and of casts compare with: all
// types, special values, units in the last place, integers that wrap.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

namespace tilec::backend {

constexpr DType kAll[] = {DType::kBool, DType::kI8,  DType::kI16,  DType::kI32,
                          DType::kI64,  DType::kU8,  DType::kU16,  DType::kU32,
                          DType::kU64,  DType::kF16, DType::kBF16, DType::kTF32,
                          DType::kF32,  DType::kF64, DType::kE4M3, DType::kE5M2};
constexpr double kInf = std::numeric_limits<double>::infinity();
inline const double kNan = std::nan("");
constexpr int64_t kCount = 512;

inline double Ulp(DType d) {
  switch (d) {
    case DType::kF16: return 0x1p-10;
    case DType::kBF16: return 0x1p-7;
    case DType::kE4M3: return 0x1p-3;
    case DType::kE5M2: return 0x1p-2;
    case DType::kF64: return 0x1p-52;
    default: return 0x1p-23;
  }
}

// An integer as its dtype holds it.
inline double Wrap(DType d, double v) {
  if (d == DType::kU64) return v < 0 ? v + 0x1p64 : v;
  if (!ir::IsInteger(d) || d == DType::kI64) return v;
  const double span = std::ldexp(1.0, ir::Info(d).bits);
  v = v - std::floor(v / span) * span;
  if (ir::IsSigned(d) && v >= span / 2) v -= span;
  return v;
}

inline double FloorMod(double a, double b) { return b == 0 ? 0 : a - std::floor(a / b) * b; }

}  // namespace tilec::backend
