// Conversions and single-element arithmetic. All narrowings share one integer rounding routine;
// f32 → f16/bf16 with round-to-nearest, the only hot ones, have short paths of their own.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/emulator/floats.h"

#include <cmath>
#include <limits>

namespace tilec::runtime::emulator {
namespace {

using U128 = unsigned __int128;

// A small binary format. `max_code` is the largest finite magnitude; `inf_code` what an overflow
// gives without satfinite; a format without infinities (e4m3) overflows to NaN.
struct Format {
  int mantissa_bits;
  int min_exponent;  // exponent of the smallest normal number
  uint64_t max_code;
  uint64_t inf_code;
  uint64_t nan_code;
  int sign_shift;
};

constexpr Format kF16 = {10, -14, 0x7bff, 0x7c00, kCanonicalNan16, 15};
constexpr Format kBf16 = {7, -126, 0x7f7f, 0x7f80, kCanonicalNan16, 15};
constexpr Format kTf32 = {10, -126, 0x3fbff, 0x3fc00, 0x3ffff, 18};  // then shifted left by 13
constexpr Format kE4m3 = {3, -6, 0x7e, 0x7f, kCanonicalNan8, 7};
constexpr Format kE5m2 = {2, -14, 0x7b, 0x7c, kCanonicalNan8, 7};
constexpr Format kF32 = {23, -126, 0x7f7fffff, 0x7f800000, kCanonicalNan32, 31};
constexpr Format kF64 = {52, -1022, 0x7fefffffffffffff, 0x7ff0000000000000, kCanonicalNan64, 63};

// Value (−1)^negative · significand · 2^exponent; `sticky` stands for more bits below. significand
// may have up to 127 bits and must be non-zero or sticky set.
struct ExactValue {
  bool negative;
  U128 significand;
  int exponent;
  bool sticky = false;
};

// … rounded to the format.
uint64_t RoundBits(const ExactValue& x, const Format& f, Round round, bool satfinite) {
  const auto [negative, significand, exponent, sticky] = x;
  const uint64_t sign = uint64_t{negative} << f.sign_shift;
  if (significand == 0 && !sticky) return sign;
  int top = -1;  // index of the leading one
  if (significand >> 64) {
    top = 127 - __builtin_clzll(static_cast<uint64_t>(significand >> 64));
  } else if (significand) {
    top = 63 - __builtin_clzll(static_cast<uint64_t>(significand));
  }
  int value_exponent = significand ? exponent + top : f.min_exponent - f.mantissa_bits - 8;
  const bool subnormal = value_exponent < f.min_exponent;
  // Weight of the last bit kept.
  const int last = (subnormal ? f.min_exponent : value_exponent) - f.mantissa_bits;
  const int drop = last - exponent;
  U128 kept;
  bool half = false, rest = sticky;
  if (drop <= 0) {
    kept = significand << -drop;
  } else if (drop > 127) {
    kept = 0;
    rest = rest || significand != 0;
  } else {
    kept = significand >> drop;
    half = (significand >> (drop - 1)) & 1;
    rest = rest || (significand & ((U128{1} << (drop - 1)) - 1)) != 0;
  }
  bool up = false;
  switch (round) {
    case Round::kNearestEven: up = half && (rest || (kept & 1)); break;
    case Round::kNearestAway: up = half; break;
    case Round::kZero: break;
    case Round::kDown: up = negative && (half || rest); break;
    case Round::kUp: up = !negative && (half || rest); break;
  }
  uint64_t code = static_cast<uint64_t>(kept) + up;
  // A carry out of the mantissa lands in the exponent by itself.
  if (!subnormal) {
    const int64_t biased = int64_t{value_exponent} - f.min_exponent;  // 0 for exponent field 1
    if (biased > 4096) {
      code = f.max_code + 1;
    } else {
      code += static_cast<uint64_t>(biased) << f.mantissa_bits;
    }
  }
  if (code > f.max_code) {
    const bool toward_zero = round == Round::kZero || (round == Round::kDown && !negative) ||
                             (round == Round::kUp && negative);
    code = satfinite || toward_zero ? f.max_code : f.inf_code;
  }
  return sign | code;
}

struct FloatParts {
  bool negative;
  uint64_t significand;
  int exponent;  // of the significand's last bit
};

FloatParts Split(double x) {
  const uint64_t b = Bits(x);
  const int field = static_cast<int>(b >> 52 & 0x7ff);
  const uint64_t fraction = b & 0xfffffffffffffull;
  if (field == 0) return {b >> 63 != 0, fraction, -1074};
  return {b >> 63 != 0, fraction | 1ull << 52, field - 1075};
}

uint64_t NarrowTo(double x, const Format& f, Narrow how) {
  const bool negative = std::signbit(x);
  if (std::isnan(x)) return f.nan_code;
  if (how.relu && negative) return 0;
  if (std::isinf(x)) {
    return uint64_t{negative} << f.sign_shift | (how.satfinite ? f.max_code : f.inf_code);
  }
  const FloatParts p = Split(x);
  return RoundBits({p.negative, p.significand, p.exponent}, f, how.round, how.satfinite);
}

double Widen(float x, Narrow how) { return how.ftz ? Flush(x) : x; }

constexpr uint64_t Frac(uint32_t code, int bits) { return code & ((1u << bits) - 1); }

// A finite code of an 8- or 16-bit format as f32, exactly.
float Expand(uint32_t code, int sign_shift, int mantissa_bits, int min_exponent) {
  const uint32_t sign = code >> sign_shift << 31;
  const uint32_t magnitude = code & ((1u << sign_shift) - 1);
  const int field = static_cast<int>(magnitude >> mantissa_bits);
  const auto fraction = static_cast<uint32_t>(Frac(magnitude, mantissa_bits));
  float value;
  if (field == 0) {
    value = fraction == 0 ? 0.0f  // most of them
                          : std::ldexp(static_cast<float>(fraction), min_exponent - mantissa_bits);
  } else {
    const auto biased = static_cast<uint32_t>(field - 1 + min_exponent + 127);
    value = FloatOf(biased << 23 | fraction << (23 - mantissa_bits));
  }
  return FloatOf(Bits(value) | sign);
}

}  // namespace

float F16ToF32(uint16_t x) {
  const uint32_t sign = uint32_t{x & 0x8000u} << 16;
  const uint32_t magnitude = x & 0x7fffu;
  if (magnitude >= 0x7c00)
    return FloatOf(magnitude == 0x7c00 ? sign | 0x7f800000u : kCanonicalNan32);
  // 2^112 rescales the exponent and normalises subnormals in one exact multiplication.
  const float value = FloatOf(magnitude << 13) * 0x1p112f;
  return FloatOf(Bits(value) | sign);
}

float E4m3ToF32(uint8_t x) {
  if ((x & 0x7f) == 0x7f) return FloatOf(kCanonicalNan32);
  return Expand(x, 7, 3, -6);
}

float E5m2ToF32(uint8_t x) { return F16ToF32(static_cast<uint16_t>(x << 8)); }

uint16_t F32ToF16(float x, Narrow how) {
  return static_cast<uint16_t>(NarrowTo(Widen(x, how), kF16, how));
}

uint16_t F32ToBf16(float x, Narrow how) {
  if (how.round == Round::kNearestEven && !how.satfinite && !how.relu && !how.ftz) {
    const uint32_t b = Bits(x);
    if ((b & 0x7fffffffu) > 0x7f800000u) return kCanonicalNan16;
    return static_cast<uint16_t>((b + 0x7fffu + (b >> 16 & 1)) >> 16);
  }
  return static_cast<uint16_t>(NarrowTo(Widen(x, how), kBf16, how));
}

uint32_t F32ToTf32(float x, Narrow how) {
  if (std::isnan(x) && how.round != Round::kNearestAway) return 0x7fffe000u;
  if (std::isnan(x)) return (Bits(x) & 0xffffe000u) - (how.satfinite ? 0x2000 : 0);
  return static_cast<uint32_t>(NarrowTo(Widen(x, how), kTf32, how)) << 13;
}

uint8_t F32ToE4m3(float x, Narrow how) {
  return static_cast<uint8_t>(NarrowTo(Widen(x, how), kE4m3, how));
}

uint8_t F32ToE5m2(float x, Narrow how) {
  return static_cast<uint8_t>(NarrowTo(Widen(x, how), kE5m2, how));
}

uint16_t F64ToF16(double x, Narrow how) { return static_cast<uint16_t>(NarrowTo(x, kF16, how)); }
uint16_t F64ToBf16(double x, Narrow how) { return static_cast<uint16_t>(NarrowTo(x, kBf16, how)); }

float F64ToF32(double x, Narrow how) {
  if (std::isnan(x)) {  // keeps sign and upper payload, quieted
    const uint64_t b = Bits(x);
    return FloatOf(static_cast<uint32_t>(b >> 63) << 31 | 0x7fc00000u |
                   static_cast<uint32_t>(b >> 29 & 0x3fffff));
  }
  const float y = FloatOf(static_cast<uint32_t>(NarrowTo(x, kF32, how)));
  return how.ftz ? Flush(y) : y;
}

namespace {

uint64_t IntegerTo(const Format& f, bool negative, uint64_t magnitude, Round round) {
  return magnitude == 0 ? 0 : RoundBits({negative, magnitude, 0}, f, round, false);
}

uint64_t Magnitude(int64_t x) {
  return x < 0 ? 0 - static_cast<uint64_t>(x) : static_cast<uint64_t>(x);
}

}  // namespace

float S64ToF32(int64_t x, Round round) {
  return FloatOf(static_cast<uint32_t>(IntegerTo(kF32, x < 0, Magnitude(x), round)));
}
float U64ToF32(uint64_t x, Round round) {
  return FloatOf(static_cast<uint32_t>(IntegerTo(kF32, false, x, round)));
}
double S64ToF64(int64_t x, Round round) {
  return DoubleOf(IntegerTo(kF64, x < 0, Magnitude(x), round));
}
double U64ToF64(uint64_t x, Round round) { return DoubleOf(IntegerTo(kF64, false, x, round)); }

double RoundToInteger(double x, Round round) {
  if (std::isnan(x)) return DoubleOf(kCanonicalNan64);
  switch (round) {
    case Round::kNearestEven: return std::nearbyint(x);  // the host never leaves its default mode
    case Round::kZero: return std::trunc(x);
    case Round::kDown: return std::floor(x);
    case Round::kUp: return std::ceil(x);
    case Round::kNearestAway: return std::round(x);
  }
  return x;
}

float RoundToInteger(float x, Round round) {
  if (std::isnan(x)) return FloatOf(kCanonicalNan32);
  return static_cast<float>(RoundToInteger(double{x}, round));
}

int64_t F64ToS64(double x, Round round, int64_t lo, int64_t hi, int64_t nan) {
  if (std::isnan(x)) return nan;
  const double r = RoundToInteger(x, round);
  // 2^63 and −2^63 are doubles; `hi` itself may not be one.
  if (r >= 0x1p63) return hi;
  if (r < -0x1p63) return lo;
  const auto v = static_cast<int64_t>(r);
  return v < lo ? lo : v > hi ? hi : v;
}

uint64_t F64ToU64(double x, Round round, uint64_t hi, uint64_t nan) {
  if (std::isnan(x)) return nan;
  const double r = RoundToInteger(x, round);
  if (r <= 0) return 0;
  if (r >= 0x1p64) return hi;
  const auto v = static_cast<uint64_t>(r);
  return v > hi ? hi : v;
}

namespace {

float Canonical(float x) { return std::isnan(x) ? FloatOf(kCanonicalNan32) : x; }

// Moves a rounded-to-nearest result one step where the directed mode wants it. `residual` has the
// sign of (exact − nearest).
float Direct(float nearest, int residual, Round round) {
  if (residual == 0) return nearest;
  const bool negative = std::signbit(nearest);
  const float down = -std::numeric_limits<float>::infinity();
  switch (round) {
    case Round::kNearestEven:
    case Round::kNearestAway: return nearest;
    case Round::kDown: return residual < 0 ? std::nextafterf(nearest, down) : nearest;
    case Round::kUp: return residual > 0 ? std::nextafterf(nearest, -down) : nearest;
    case Round::kZero:
      if (negative ? residual > 0 : residual < 0) return std::nextafterf(nearest, 0.0f);
      return nearest;
  }
  return nearest;
}

int Sign(double x) { return (x > 0) - (x < 0); }

}  // namespace

float FmaF32(float a, float b, float c, Round round) {
  if (round == Round::kNearestEven) return Canonical(std::fma(a, b, c));
  if (!std::isfinite(a) || !std::isfinite(b) || !std::isfinite(c)) {
    return Canonical(std::fma(a, b, c));
  }
  const double product = double{a} * b;  // exact: 48 bits
  if (product == 0 || c == 0) {
    const double sum = product + c;  // exact
    if (sum == 0) {
      // x + (−x) is −0 when rounding down; equal signs keep theirs.
      const bool np = std::signbit(product), nc = std::signbit(c);
      return (np && nc) || (np != nc && round == Round::kDown) ? -0.0f : 0.0f;
    }
    return F64ToF32(sum, {.round = round});
  }
  // Two-sum: product + c = sum + error exactly; the pair is rounded once through its integers.
  const double sum = product + c;
  const double part = sum - product;
  const double error = (product - (sum - part)) + (c - part);
  if (sum == 0) return round == Round::kDown ? -0.0f : 0.0f;
  if (error == 0) return F64ToF32(sum, {.round = round});
  // Make room below the last bit and put the error there as a sticky bit: one less, if opposite.
  const FloatParts p = Split(sum);
  uint64_t significand = p.significand << 2;
  significand = (error < 0) == p.negative ? significand | 1 : significand - 1;
  return FloatOf(static_cast<uint32_t>(
      RoundBits({p.negative, significand, p.exponent - 2}, kF32, round, false)));
}

float AddF32(float a, float b, Round round) {
  if (round == Round::kNearestEven) return Canonical(a + b);
  return FmaF32(a, 1.0f, b, round);
}

float MulF32(float a, float b, Round round) {
  if (round == Round::kNearestEven) return Canonical(a * b);
  const double p = double{a} * b;
  if (!std::isfinite(p) || p == 0) return Canonical(static_cast<float>(p));
  return F64ToF32(p, {.round = round});
}

float DivF32(float a, float b, Round round) {
  const float q = a / b;
  if (round == Round::kNearestEven || !std::isfinite(a) || !std::isfinite(b) || b == 0 || a == 0) {
    return Canonical(q);
  }
  if (std::isinf(q)) return F64ToF32(double{a} / b, {.round = round});
  // a − q·b in double is exact enough for its sign: q·b has 48 bits and is close to a.
  const double rest = std::fma(-double{q}, double{b}, double{a});
  return Direct(q, Sign(rest) * (std::signbit(b) ? -1 : 1), round);
}

float SqrtF32(float a, Round round) {
  const float r = std::sqrt(a);
  if (round == Round::kNearestEven || !std::isfinite(r) || r == 0) return Canonical(r);
  return Direct(r, Sign(std::fma(-double{r}, double{r}, double{a})), round);
}

namespace {

// product + addend (both exact in f64) rounded to odd, so that narrowing it to at most 24 bits
// rounds only once.
double OddSum(double product, double addend) {
  const double sum = product + addend;
  if (!std::isfinite(sum)) return sum;
  const double part = sum - product;
  const double error = (product - (sum - part)) + (addend - part);
  if (error == 0 || (Bits(sum) & 1)) return sum;
  return DoubleOf((error > 0) == (sum > 0) ? Bits(sum) | 1 : Bits(sum) - 1);
}

}  // namespace

uint16_t Ex2F16(uint16_t x) {
  const float r = Ex2Approx(F16ToF32(x), false);
  if (r >= 65520.0f) return 0x7c00;
  return F32ToF16(r, {.round = Round::kZero});
}

uint16_t Ex2Bf16(uint16_t x) {
  return F32ToBf16(Ex2Approx(Flush(Bf16ToF32(x)), true), {.round = Round::kZero});
}

uint16_t TanhF16(uint16_t x) {
  const float v = F16ToF32(x);
  if (std::fabs(v) < 0x1p-6f) return x;
  return F32ToF16(TanhApprox(v), {.round = Round::kZero});
}

uint16_t TanhBf16(uint16_t x) {
  const float v = Bf16ToF32(x);
  if (std::fabs(v) < 0x1p-4f) return x;
  return F32ToBf16(TanhApprox(v), {.round = Round::kZero});
}

uint16_t FmaF16(uint16_t a, uint16_t b, uint16_t c) {
  return F64ToF16(OddSum(F16ToF64(a) * F16ToF64(b), F16ToF64(c)));
}

uint16_t FmaBf16(uint16_t a, uint16_t b, uint16_t c) {
  return F64ToBf16(OddSum(double{Bf16ToF32(a)} * Bf16ToF32(b), Bf16ToF32(c)));
}

}  // namespace tilec::runtime::emulator
