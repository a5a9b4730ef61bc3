// What each element type can represent: rounding to it, the size of an ulp, bits in memory. Exact
// and branch-free enough to vectorise; the interpreter's values are doubles rounded by these.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "ir/type.h"

namespace tilec::ir {

// A float type as numbers: `mantissa` bits after the point, smallest normal 2^min_exponent,
// largest finite value, and whether overflow saturates (fp8) or becomes infinite.
struct FloatFormat {
  int mantissa = 23;
  int min_exponent = -126;
  double min_normal = 0x1p-126;  // 2^min_exponent
  double half_ulp = 0x1p-24;     // of 1: 2^(-mantissa - 1)
  double max_finite = 0;
  bool saturates = false;
  bool flushes = false;  // executors may replace subnormals of f32's exponent range by 0
};
// Of a float dtype. tf32 is stored as f32 words, so it rounds like f32.
const FloatFormat& FormatOf(DType d);

// Nearest representable value, ties to even; overflow as the format says; NaN stays.
// Scales differ: ue8m0 is the largest power of two not above |x|, within 2^-127 … 2^127 (OCP
// MX 1.0, 6.3); ue4m3 is rounded as e4m3 is, and what is negative becomes 0.
double Round(DType d, double x);
double RoundScale(DType d, double x);  // of these two
void RoundAll(DType d, std::span<double> x);
// Half the distance between neighbours at |x| (at least that of the subnormals).
inline double HalfUlp(const FloatFormat& f, double x) {
  // 2^exponent of |x|, from its bits; subnormal doubles count as 0.
  const double power =
      std::bit_cast<double>(std::bit_cast<uint64_t>(x) & uint64_t{0x7FF0000000000000});
  return (power > f.min_normal ? power : f.min_normal) * f.half_ulp;
}
inline double HalfUlp(DType d, double x) { return HalfUlp(FormatOf(d), x); }

// A tf32 operand of a product: the low 13 bits of the f32 word are ignored.
double DropTf32Bits(double x);

// The low bits of `n` as an integer of the type (bool: 0 or 1).
int64_t WrapInt(DType d, int64_t n);
// Smallest and largest value of an integer type of at most 32 bits, or i64.
int64_t MinInt(DType d);
int64_t MaxInt(DType d);  // u64: −1, whose bits are the largest

// One element in memory, little-endian; floats and integers apart.
double LoadFloat(DType d, const std::byte* p);
void StoreFloat(DType d, double x, std::byte* p);  // rounds first
int64_t LoadInt(DType d, const std::byte* p);
void StoreInt(DType d, int64_t n, std::byte* p);

}  // namespace tilec::ir
