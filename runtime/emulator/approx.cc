// The special-function unit: ex2, lg2, rcp, rsqrt, sqrt, tanh, sin, cos and their 32-lane forms.
//
// One body serves one lane and 32 lanes, so both give the same bits. ex2 is a degree-6 polynomial
// in f32 (below 0.9 ulp, exact for integers); lg2, rsqrt and tanh are computed in f64 and rounded
// once. The hardware documents error bounds only, all of them wider than these.
//
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "runtime/emulator/dispatch.h"
#include "runtime/emulator/floats.h"

namespace tilec::runtime::emulator {
namespace {

TILEC_BODY float FlushIf(float x, bool ftz) {
  const uint32_t b = Bits(x);
  return FloatOf(ftz && (b & 0x7f800000u) == 0 ? b & 0x80000000u : b);
}

TILEC_BODY float CanonicalNan(float x) { return x != x ? FloatOf(kCanonicalNan32) : x; }

TILEC_BODY float Ex2Lane(float x, bool ftz) {
  // Clamped so that the scale below stays in range; NaN passes both comparisons.
  float c = x < -160.0f ? -160.0f : x;
  c = c > 130.0f ? 130.0f : c;
  constexpr float kMagic = 0x1.8p23f;  // adding it rounds to an integer
  const float shifted = c + kMagic;
  const float f = c - (shifted - kMagic);
  const int32_t n = static_cast<int32_t>(Bits(shifted)) - static_cast<int32_t>(Bits(kMagic));
  float p = 0x1.44138ap-13f;
  p = std::fma(p, f, 0x1.5f089p-10f);
  p = std::fma(p, f, 0x1.3b2a54p-7f);
  p = std::fma(p, f, 0x1.c6af6cp-5f);
  p = std::fma(p, f, 0x1.ebfbep-3f);
  p = std::fma(p, f, 0x1.62e43p-1f);
  p = std::fma(p, f, 1.0f);
  // 2^n in two steps: the first is exact, the second rounds a subnormal result once.
  const int32_t half = n >> 1;
  p *= FloatOf(static_cast<uint32_t>(half + 127) << 23);
  p *= FloatOf(static_cast<uint32_t>(n - half + 127) << 23);
  return CanonicalNan(FlushIf(p, ftz));
}

// Exponent and mantissa of a positive double as x = m·2^e, m in [√½, √2).
TILEC_BODY double Lg2Double(double x) {
  const uint64_t b = Bits(x);
  const uint64_t shifted = b - 0x3fe6a09e667f3bcdull;  // √½
  const auto e = static_cast<int32_t>(static_cast<uint32_t>(shifted >> 32)) >> 20;
  const double m = DoubleOf(b - (static_cast<uint64_t>(static_cast<int64_t>(e)) << 52));
  const double s = (m - 1.0) / (m + 1.0);
  const double s2 = s * s;
  double p = 1.0 / 21;
  p = p * s2 + 1.0 / 19;
  p = p * s2 + 1.0 / 17;
  p = p * s2 + 1.0 / 15;
  p = p * s2 + 1.0 / 13;
  p = p * s2 + 1.0 / 11;
  p = p * s2 + 1.0 / 9;
  p = p * s2 + 1.0 / 7;
  p = p * s2 + 1.0 / 5;
  p = p * s2 + 1.0 / 3;
  p = p * s2 + 1.0;
  constexpr double kTwoOverLn2 = 0x1.71547652b82fep+1;
  return static_cast<double>(e) + s * p * kTwoOverLn2;
}

TILEC_BODY float Lg2Lane(float x, bool ftz) {
  const float v = FlushIf(x, ftz);
  float r = static_cast<float>(Lg2Double(static_cast<double>(v)));
  r = v > 3.4028234663852886e38f ? v : r;           // +inf
  r = v == 0.0f ? FloatOf(0xff800000u) : r;         // ±0 gives −inf
  r = !(v >= 0.0f) ? FloatOf(kCanonicalNan32) : r;  // negative or NaN
  return r;
}

TILEC_BODY float RcpLane(float x, bool ftz) {
  return CanonicalNan(FlushIf(1.0f / FlushIf(x, ftz), ftz));
}

TILEC_BODY float RsqrtLane(float x, bool ftz) {
  const float v = FlushIf(x, ftz);
  return CanonicalNan(static_cast<float>(1.0 / std::sqrt(static_cast<double>(v))));
}

TILEC_BODY float SqrtLane(float x, bool ftz) { return CanonicalNan(std::sqrt(FlushIf(x, ftz))); }

// e^(2x) for x in [0, 10] through 2^y with y = 2x·log2(e), then (e − 1)/(e + 1); near zero, where
// that cancels, the first terms of the series.
TILEC_BODY float TanhLane(float x) {
  const float magnitude = FloatOf(Bits(x) & 0x7fffffffu);
  const double a = static_cast<double>(magnitude < 10.0f ? magnitude : 10.0f);
  const double y = a * 0x1.71547652b82fep+1;
  constexpr double kMagic = 0x1.8p52;
  const double shifted = y + kMagic;
  const double f = y - (shifted - kMagic);
  double p = 0x1.c4a29324a1038p-36;
  p = p * f + 0x1.e9ec1fcb69a7fp-32;
  p = p * f + 0x1.e4cf10dec0f59p-28;
  p = p * f + 0x1.b524ebd13a55fp-24;
  p = p * f + 0x1.62c02242b879cp-20;
  p = p * f + 0x1.ffcbfc6da6ed1p-17;
  p = p * f + 0x1.430912f86b7dbp-13;
  p = p * f + 0x1.5d87fe78a3f9cp-10;
  p = p * f + 0x1.3b2ab6fba4e79p-7;
  p = p * f + 0x1.c6b08d704a0c6p-5;
  p = p * f + 0x1.ebfbdff82c58fp-3;
  p = p * f + 0x1.62e42fefa39efp-1;
  p = p * f + 1.0;
  const uint64_t n = Bits(shifted) - Bits(kMagic);
  const double e = DoubleOf(Bits(p) + (n << 52));
  const double a2 = a * a;
  const double series = a - a * a2 * (1.0 / 3 - a2 * (2.0 / 15));
  const double t = a < 0x1p-9 ? series : (e - 1.0) / (e + 1.0);
  const float r = FloatOf(Bits(static_cast<float>(t)) | (Bits(x) & 0x80000000u));
  return x != x ? FloatOf(kCanonicalNan32) : r;
}

TILEC_BODY float MaxLane(float a, float b, bool ftz, bool nan) {
  a = FlushIf(a, ftz);
  b = FlushIf(b, ftz);
  float r = a > b ? a : b;
  r = a == b ? FloatOf(Bits(a) & Bits(b)) : r;
  r = a != a ? b : r;
  r = b != b ? a : r;
  const bool bad = nan ? (a != a) | (b != b) : (a != a) & (b != b);
  return bad ? FloatOf(kCanonicalNan32) : r;
}

TILEC_BODY float MinLane(float a, float b, bool ftz, bool nan) {
  a = FlushIf(a, ftz);
  b = FlushIf(b, ftz);
  float r = a < b ? a : b;
  r = a == b ? FloatOf(Bits(a) | Bits(b)) : r;
  r = a != a ? b : r;
  r = b != b ? a : r;
  const bool bad = nan ? (a != a) | (b != b) : (a != a) & (b != b);
  return bad ? FloatOf(kCanonicalNan32) : r;
}

TILEC_BODY uint32_t Bf16Lane(float x, bool relu) {
  const uint32_t b = Bits(x);
  uint32_t r = (b + 0x7fffu + (b >> 16 & 1)) >> 16;
  r = relu && (b >> 31) ? 0u : r;
  return x != x ? uint32_t{kCanonicalNan16} : r;
}

TILEC_BODY uint32_t F16Lane(float x, bool relu) {
  const uint32_t b = Bits(x);
  const uint32_t m = b & 0x7fffffffu;
  const uint32_t normal = (m + 0xfffu + (m >> 13 & 1) - (112u << 23)) >> 13;
  // Adding one half makes the last mantissa bit weigh 2^-24, the smallest f16.
  const uint32_t tiny = Bits(FloatOf(m) + 0.5f) - Bits(0.5f);
  uint32_t r = m < 0x38800000u ? tiny : normal;
  r = m >= 0x47800000u ? 0x7c00u : r;
  r |= b >> 16 & 0x8000u;
  r = relu && (b >> 31) ? 0u : r;
  return x != x ? uint32_t{kCanonicalNan16} : r;
}

// rn.satfinite to an 8-bit format with kMantissa mantissa bits and exponent bias kBias.
template <int kMantissa, int kBias, uint32_t kMax>
TILEC_BODY uint32_t F8Lane(float x, bool relu) {
  const uint32_t b = Bits(x);
  const uint32_t m = b & 0x7fffffffu;
  constexpr int kShift = 23 - kMantissa;
  constexpr uint32_t kRebias = static_cast<uint32_t>(127 - kBias) << 23;
  const uint32_t normal = (m + ((1u << (kShift - 1)) - 1) + (m >> kShift & 1) - kRebias) >> kShift;
  constexpr uint32_t kStep = static_cast<uint32_t>(127 + 1 - kBias - kMantissa + 23) << 23;
  const uint32_t tiny = Bits(FloatOf(m) + FloatOf(kStep)) - kStep;
  uint32_t r = m < kRebias + (1u << 23) ? tiny : normal;
  r = m >= 0x48000000u || r > kMax ? kMax : r;
  r |= b >> 24 & 0x80u;
  r = relu && (b >> 31) ? 0u : r;
  return x != x ? uint32_t{kCanonicalNan8} : r;
}

}  // namespace

float Ex2Approx(float x, bool ftz) { return Ex2Lane(x, ftz); }
float Lg2Approx(float x, bool ftz) { return Lg2Lane(x, ftz); }
float RcpApprox(float x, bool ftz) { return RcpLane(x, ftz); }
float RsqrtApprox(float x, bool ftz) { return RsqrtLane(x, ftz); }
float SqrtApprox(float x, bool ftz) { return SqrtLane(x, ftz); }
float TanhApprox(float x) { return TanhLane(x); }
float SinApprox(float x, bool ftz) {
  return CanonicalNan(FlushIf(static_cast<float>(std::sin(double{FlushIf(x, ftz)})), ftz));
}
float CosApprox(float x, bool ftz) {
  return CanonicalNan(FlushIf(static_cast<float>(std::cos(double{FlushIf(x, ftz)})), ftz));
}
float DivApprox(float a, float b, bool ftz) {
  return CanonicalNan(FlushIf(FlushIf(a, ftz) / FlushIf(b, ftz), ftz));
}

#define TILEC_UNARY(Name)                                                \
  TILEC_BODY void Name##WarpBody(const float* x, float* out, bool ftz) { \
    float r[kLanes];                                                     \
    for (int i = 0; i < kLanes; i++) r[i] = Name##Lane(x[i], ftz);       \
    for (int i = 0; i < kLanes; i++) out[i] = r[i];                      \
  }                                                                      \
  TILEC_LANES(Name##Warp, (const float* x, float* out, bool ftz), (x, out, ftz))

TILEC_UNARY(Ex2)
TILEC_UNARY(Lg2)
TILEC_UNARY(Rcp)
TILEC_UNARY(Rsqrt)
TILEC_UNARY(Sqrt)
#undef TILEC_UNARY

TILEC_BODY void TanhWarpBody(const float* x, float* out) {
  float r[kLanes];
  for (int i = 0; i < kLanes; i++) r[i] = TanhLane(x[i]);
  for (int i = 0; i < kLanes; i++) out[i] = r[i];
}
TILEC_LANES(TanhWarp, (const float* x, float* out), (x, out))

#define TILEC_BINARY(Name)                                                                         \
  TILEC_BODY void Name##WarpBody(const float* a, const float* b, float* out, bool ftz, bool nan) { \
    float r[kLanes];                                                                               \
    for (int i = 0; i < kLanes; i++) r[i] = Name##Lane(a[i], b[i], ftz, nan);                      \
    for (int i = 0; i < kLanes; i++) out[i] = r[i];                                                \
  }                                                                                                \
  TILEC_LANES(Name##Warp, (const float* a, const float* b, float* out, bool ftz, bool nan),        \
              (a, b, out, ftz, nan))

TILEC_BINARY(Max)
TILEC_BINARY(Min)
#undef TILEC_BINARY

TILEC_BODY void FmaWarpBody(const float* a, const float* b, const float* c, float* out, bool ftz) {
  float r[kLanes];
  for (int i = 0; i < kLanes; i++) {
    const float v = std::fma(FlushIf(a[i], ftz), FlushIf(b[i], ftz), FlushIf(c[i], ftz));
    r[i] = CanonicalNan(FlushIf(v, ftz));
  }
  for (int i = 0; i < kLanes; i++) out[i] = r[i];
}
TILEC_LANES(FmaWarp, (const float* a, const float* b, const float* c, float* out, bool ftz),
            (a, b, c, out, ftz))

#define TILEC_PACK(Name, Type, Lane, kShift)                                           \
  TILEC_BODY void Name##Body(const float* hi, const float* lo, Type* out, bool relu) { \
    Type r[kLanes];                                                                    \
    for (int i = 0; i < kLanes; i++) {                                                 \
      r[i] = static_cast<Type>(Lane(hi[i], relu) << kShift | Lane(lo[i], relu));       \
    }                                                                                  \
    for (int i = 0; i < kLanes; i++) out[i] = r[i];                                    \
  }                                                                                    \
  TILEC_LANES(Name, (const float* hi, const float* lo, Type* out, bool relu), (hi, lo, out, relu))

TILEC_PACK(CvtBf16x2Warp, uint32_t, Bf16Lane, 16)
TILEC_PACK(CvtF16x2Warp, uint32_t, F16Lane, 16)
TILEC_PACK(CvtE4m3x2Warp, uint16_t, (F8Lane<3, 7, 0x7e>), 8)
TILEC_PACK(CvtE5m2x2Warp, uint16_t, (F8Lane<2, 15, 0x7b>), 8)
#undef TILEC_PACK

}  // namespace tilec::runtime::emulator
