// Conversions against tables of all values of the narrow format: the neighbours of a number are
// found by search, so nothing here shares a formula with the code under test.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/emulator/floats.h"

#include <algorithm>
#include <cfenv>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace tilec::runtime::emulator {
namespace {

// A format described by its value function; codes 0 … max_code are the non-negative finite ones.
struct Table {
  std::vector<double> value;
  uint32_t inf_code;
  uint32_t sign_bit;
};

double Decode(uint32_t code, int mantissa_bits, int exponent_bits, int bias) {
  const uint32_t fraction = code & ((1u << mantissa_bits) - 1);
  const uint32_t field = code >> mantissa_bits & ((1u << exponent_bits) - 1);
  const double m = static_cast<double>(fraction) / (1u << mantissa_bits);
  if (field == 0) return std::ldexp(m, 1 - bias);
  return std::ldexp(1 + m, static_cast<int>(field) - bias);
}

Table MakeTable(int mantissa_bits, int exponent_bits, int bias, uint32_t max_code,
                uint32_t inf_code) {
  Table t;
  for (uint32_t c = 0; c <= max_code; c++) {
    t.value.push_back(Decode(c, mantissa_bits, exponent_bits, bias));
  }
  t.inf_code = inf_code;
  t.sign_bit = 1u << (mantissa_bits + exponent_bits);
  return t;
}

const Table& F16Table() {
  static const Table t = MakeTable(10, 5, 15, 0x7bff, 0x7c00);
  return t;
}
const Table& Bf16Table() {
  static const Table t = MakeTable(7, 8, 127, 0x7f7f, 0x7f80);
  return t;
}
const Table& E4m3Table() {
  static const Table t = MakeTable(3, 4, 7, 0x7e, 0x7f);
  return t;
}
const Table& E5m2Table() {
  static const Table t = MakeTable(2, 5, 15, 0x7b, 0x7c);
  return t;
}

uint32_t Expected(const Table& t, double x, Round round, bool satfinite) {
  const uint32_t sign = std::signbit(x) ? t.sign_bit : 0;
  const double m = std::fabs(x);
  const uint32_t last = static_cast<uint32_t>(t.value.size()) - 1;
  // Index of the largest value not above m.
  const auto it = std::upper_bound(t.value.begin(), t.value.end(), m);
  const auto below = static_cast<uint32_t>(it - t.value.begin()) - 1;
  const double low = t.value[below];
  if (std::isinf(x)) return sign | (satfinite ? last : t.inf_code);
  if (m == low) return sign | below;
  // The step above the largest finite value is as wide as the one below it.
  const double high = below == last ? low + (low - t.value[last - 1]) : t.value[below + 1];
  bool up = false;
  const bool even_is_above = (below & 1) != 0;
  switch (round) {
    case Round::kNearestEven:
      up = m - low > high - m || (m - low == high - m && even_is_above);
      break;
    case Round::kNearestAway: up = m - low >= high - m; break;
    case Round::kZero: up = false; break;
    case Round::kDown: up = sign != 0; break;
    case Round::kUp: up = sign == 0; break;
  }
  if (m > high) up = round == Round::kNearestEven || round == Round::kNearestAway || up;
  const uint32_t code = below + (up ? 1 : 0);
  if (code > last) return sign | (satfinite ? last : t.inf_code);
  return sign | code;
}

std::vector<float> Samples() {
  std::vector<float> v = {0.0f,
                          -0.0f,
                          1.0f,
                          -1.0f,
                          65504.0f,
                          65519.99f,
                          65520.0f,
                          65536.0f,
                          448.0f,
                          463.9f,
                          464.0f,
                          465.0f,
                          480.0f,
                          57344.0f,
                          61439.0f,
                          61440.0f,
                          3.0e38f,
                          3.4028235e38f,
                          0x1p-24f,
                          0x1p-25f,
                          0x1.000002p-25f,
                          0x1p-14f,
                          0x1.ffep-15f,
                          0x1p-149f,
                          0x1p-133f,
                          0x1p-134f,
                          0x1p-9f,
                          0x1p-10f,
                          0x1.8p-10f,
                          0x1p-16f,
                          0x1p-17f,
                          std::numeric_limits<float>::infinity()};
  std::mt19937 random(7);
  for (int i = 0; i < 30000; i++) v.push_back(FloatOf(random()));
  for (int i = 0; i < 30000; i++) {  // near the formats' own range, many ties
    const uint32_t b = random();
    v.push_back(FloatOf((b & 0x80000000u) | (96 + b % 50) << 23 |
                        (random() & 0x7fffffu & (~0u << (b >> 8) % 24))));
  }
  const size_t n = v.size();
  for (size_t i = 0; i < n; i++) v.push_back(-v[i]);
  return v;
}

constexpr Round kRounds[] = {Round::kNearestEven, Round::kZero, Round::kDown, Round::kUp,
                             Round::kNearestAway};

TEST(Floats, AllCodesWiden) {
  for (uint32_t c = 0; c < 0x10000; c++) {
    const double sign = c & 0x8000 ? -1 : 1;
    const float f16 = F16ToF32(static_cast<uint16_t>(c));
    const float bf16 = Bf16ToF32(static_cast<uint16_t>(c));
    const uint32_t m = c & 0x7fff;
    if (m > 0x7c00) {
      EXPECT_EQ(Bits(f16), kCanonicalNan32);
    } else {
      EXPECT_EQ(double{f16}, m == 0x7c00 ? sign * INFINITY : sign * F16Table().value[m]) << c;
      EXPECT_EQ(std::signbit(f16), c >= 0x8000);
      EXPECT_EQ(F32ToF16(f16), c);
    }
    if (m > 0x7f80) {
      EXPECT_EQ(Bits(bf16), c << 16);
    } else {
      EXPECT_EQ(double{bf16}, m == 0x7f80 ? sign * INFINITY : sign * Bf16Table().value[m]) << c;
      EXPECT_EQ(F32ToBf16(bf16), c);
    }
  }
  for (uint32_t c = 0; c < 256; c++) {
    const double sign = c & 0x80 ? -1 : 1;
    const uint32_t m = c & 0x7f;
    const float e4m3 = E4m3ToF32(static_cast<uint8_t>(c));
    const float e5m2 = E5m2ToF32(static_cast<uint8_t>(c));
    if (m == 0x7f) {
      EXPECT_EQ(Bits(e4m3), kCanonicalNan32);
      EXPECT_EQ(F32ToE4m3(e4m3), kCanonicalNan8);
    } else {
      EXPECT_EQ(double{e4m3}, sign * E4m3Table().value[m]) << c;
      EXPECT_EQ(F32ToE4m3(e4m3), c);
    }
    if (m > 0x7c) {
      EXPECT_EQ(Bits(e5m2), kCanonicalNan32);
    } else {
      EXPECT_EQ(double{e5m2}, m == 0x7c ? sign * INFINITY : sign * E5m2Table().value[m]) << c;
      if (m != 0x7c) {
        EXPECT_EQ(F32ToE5m2(e5m2), c);
      }
    }
  }
}

TEST(Floats, NarrowingInEveryMode) {
  for (float x : Samples()) {
    for (Round round : kRounds) {
      for (bool satfinite : {false, true}) {
        const Narrow how = {.round = round, .satfinite = satfinite};
        if (std::isnan(x)) {
          EXPECT_EQ(F32ToF16(x, how), kCanonicalNan16);
          EXPECT_EQ(F32ToBf16(x, how), kCanonicalNan16);
          EXPECT_EQ(F32ToE4m3(x, how), kCanonicalNan8);
          EXPECT_EQ(F32ToE5m2(x, how), kCanonicalNan8);
          continue;
        }
        ASSERT_EQ(F32ToF16(x, how), Expected(F16Table(), x, round, satfinite))
            << x << " " << int(round);
        ASSERT_EQ(F32ToBf16(x, how), Expected(Bf16Table(), x, round, satfinite))
            << x << " " << int(round);
        ASSERT_EQ(F32ToE4m3(x, how), Expected(E4m3Table(), x, round, satfinite))
            << x << " " << int(round);
        ASSERT_EQ(F32ToE5m2(x, how), Expected(E5m2Table(), x, round, satfinite))
            << x << " " << int(round);
      }
    }
  }
}

TEST(Floats, Relu) {
  const Narrow how = {.relu = true};
  EXPECT_EQ(F32ToF16(-1.0f, how), 0);
  EXPECT_EQ(F32ToF16(-0.0f, how), 0);
  EXPECT_EQ(F32ToBf16(-INFINITY, how), 0);
  EXPECT_EQ(F32ToBf16(2.0f, how), 0x4000);
  EXPECT_EQ(F32ToF16(NAN, how), kCanonicalNan16);
  EXPECT_EQ(F32ToE4m3(-3.0f, {.satfinite = true, .relu = true}), 0);
}

TEST(Floats, FlushesSubnormalInput) {
  EXPECT_EQ(F32ToBf16(0x1p-130f), 0x0008);
  EXPECT_EQ(F32ToBf16(0x1p-130f, {.ftz = true}), 0x0000);
  EXPECT_EQ(F32ToBf16(-0x1p-130f, {.ftz = true}), 0x8000);
  EXPECT_EQ(Bits(Flush(-0x1p-127f)), 0x80000000u);
  EXPECT_EQ(Flush(0x1p-126f), 0x1p-126f);
}

TEST(Floats, Tf32) {
  EXPECT_EQ(F32ToTf32(FloatOf(0x3f800fff)), 0x3f800000u);
  EXPECT_EQ(F32ToTf32(FloatOf(0x3f801000)), 0x3f802000u);  // a tie goes away from zero
  EXPECT_EQ(F32ToTf32(FloatOf(0xbf801000)), 0xbf802000u);
  EXPECT_EQ(F32ToTf32(FloatOf(0x3f801000), {.round = Round::kNearestEven}), 0x3f800000u);
  EXPECT_EQ(F32ToTf32(FloatOf(0x3f803000), {.round = Round::kNearestEven}), 0x3f804000u);
  EXPECT_EQ(F32ToTf32(FloatOf(0x3fffffff), {.round = Round::kZero}), 0x3fffe000u);
  EXPECT_EQ(F32ToTf32(FloatOf(0x7f7fffff)), 0x7f800000u);
  EXPECT_EQ(F32ToTf32(FloatOf(0x7f7fffff), {.round = Round::kNearestAway, .satfinite = true}),
            0x7f7fe000u);
  EXPECT_EQ(F32ToTf32(FloatOf(0xffc12345)), 0xffc12000u);
  EXPECT_EQ(F32ToTf32(FloatOf(0xffc12345), {.round = Round::kZero}), 0x7fffe000u);
  EXPECT_EQ(F32ToTf32(FloatOf(0x7f800001), {.round = Round::kNearestEven}), 0x7fffe000u);
  EXPECT_EQ(F32ToTf32(FloatOf(0x00001000)), 0x00002000u);  // a subnormal
}

// The host's own directed rounding is the reference.
template <typename F>
float Directed(Round round, F f) {
  const int mode = round == Round::kZero   ? FE_TOWARDZERO
                   : round == Round::kDown ? FE_DOWNWARD
                   : round == Round::kUp   ? FE_UPWARD
                                           : FE_TONEAREST;
  std::fesetround(mode);
  volatile float r = f();
  std::fesetround(FE_TONEAREST);
  return r;
}

// What was computed of what.
struct Operation {
  const char* what;
  float a = 0, b = 0, c = 0;
  Round round;
};
std::ostream& operator<<(std::ostream& out, const Operation& o) {
  return out << o.what << " " << o.a << " " << o.b << " " << o.c << " mode " << int(o.round);
}

// NaN results of arithmetic are canonical; the conversion from f64 keeps sign and payload.
void ExpectSame(float got, float want, const Operation& of) {
  ASSERT_EQ(Bits(got), std::isnan(want) && of.what[0] != 'c' ? kCanonicalNan32 : Bits(want)) << of;
}

TEST(Floats, ArithmeticInEveryMode) {
  std::mt19937 random(3);
  std::vector<float> pool = {0.0f,       -0.0f,     1.0f,          -1.0f,          0x1p-149f,
                             -0x1p-149f, 0x1p-126f, 3.4028235e38f, -3.4028235e38f, INFINITY,
                             -INFINITY,  NAN,       1.5f,          3.0f,           0x1p-75f};
  auto draw = [&] {
    const uint32_t b = random();
    if (b % 8 == 0) return pool[random() % pool.size()];
    if (b % 8 < 4) return FloatOf(random());
    return FloatOf((b & 0x80000000u) | (120 + b % 16) << 23 | (random() & 0x7fffffu));
  };
  for (int i = 0; i < 200000; i++) {
    volatile float a = draw(), b = draw(), c = draw();
    if (i % 5 == 0) c = -(a * b);  // cancellation
    if (i % 7 == 0) b = -a;
    for (Round round : {Round::kNearestEven, Round::kZero, Round::kDown, Round::kUp}) {
      ExpectSame(AddF32(a, b, round), Directed(round, [&] { return a + b; }),
                 {"add", a, b, 0, round});
      ExpectSame(MulF32(a, b, round), Directed(round, [&] { return a * b; }),
                 {"mul", a, b, 0, round});
      ExpectSame(FmaF32(a, b, c, round), Directed(round, [&] { return std::fma(a, b, c); }),
                 {"fma", a, b, c, round});
      ExpectSame(DivF32(a, b, round), Directed(round, [&] { return a / b; }),
                 {"div", a, b, 0, round});
      ExpectSame(SqrtF32(a, round), Directed(round, [&] { return std::sqrt(a); }),
                 {"sqrt", a, 0, 0, round});
      volatile double d = double{a} * 1.000000123;
      ExpectSame(F64ToF32(d, {.round = round}),
                 Directed(round, [&] { return static_cast<float>(d); }), {"cvt", a, 0, 0, round});
      volatile int64_t n =
          static_cast<int64_t>(uint64_t{random()} << 32 | random()) >> (random() % 64);
      ExpectSame(S64ToF32(n, round), Directed(round, [&] { return static_cast<float>(n); }),
                 {"s64", 0, 0, 0, round});
    }
    if (HasFatalFailure()) return;
  }
}

TEST(Floats, HalfFmaRoundsOnce) {
  // 1 + 2^-11 (a tie in f16) nudged by a product far below it.
  const uint16_t one = 0x3c00, tiny = 0x0001;
  EXPECT_EQ(FmaF16(0x1000, one, one), F32ToF16(1.0f + F16ToF32(0x1000)));
  EXPECT_EQ(FmaF16(tiny, tiny, 0x3c01), 0x3c01);
  // c = 1, a·b = 2^-11 + 2^-21: above the tie, by less than f32 could hold next to larger terms.
  EXPECT_EQ(FmaF16(F32ToF16(0x1p-11f), F32ToF16(1.0f + 0x1p-10f), one), 0x3c01);
  EXPECT_EQ(FmaF16(F32ToF16(0x1p-11f), one, one), 0x3c00);
  // bf16: 2^120 + tie at its last bit + something 200 binades below.
  EXPECT_EQ(FmaBf16(F32ToBf16(0x1p60f), F32ToBf16(0x1p52f), F32ToBf16(0x1p120f)),
            F32ToBf16(0x1p120f));
  EXPECT_EQ(FmaBf16(F32ToBf16(1.0f), F32ToBf16(0x1p-126f), F32ToBf16(1.0f)), 0x3f80);
}

TEST(Floats, FloatToInteger) {
  EXPECT_EQ(F64ToS64(2.5, Round::kNearestEven, INT32_MIN, INT32_MAX), 2);
  EXPECT_EQ(F64ToS64(3.5, Round::kNearestEven, INT32_MIN, INT32_MAX), 4);
  EXPECT_EQ(F64ToS64(-2.5, Round::kZero, INT32_MIN, INT32_MAX), -2);
  EXPECT_EQ(F64ToS64(-2.5, Round::kDown, INT32_MIN, INT32_MAX), -3);
  EXPECT_EQ(F64ToS64(2.1, Round::kUp, INT32_MIN, INT32_MAX), 3);
  EXPECT_EQ(F64ToS64(1e30, Round::kZero, INT32_MIN, INT32_MAX), INT32_MAX);
  EXPECT_EQ(F64ToS64(-1e30, Round::kZero, INT64_MIN, INT64_MAX), INT64_MIN);
  EXPECT_EQ(F64ToS64(NAN, Round::kZero, INT32_MIN, INT32_MAX), 0);
  EXPECT_EQ(F64ToU64(-1, Round::kZero, UINT32_MAX), 0u);
  EXPECT_EQ(F64ToU64(0x1p64, Round::kZero, UINT64_MAX), UINT64_MAX);
  EXPECT_EQ(F64ToU64(0x1p63, Round::kZero, UINT64_MAX), 1ull << 63);
  EXPECT_EQ(F64ToU64(300.7, Round::kZero, 255), 255u);
  EXPECT_EQ(U64ToF32(UINT64_MAX, Round::kZero), 0x1.fffffep63f);
  EXPECT_EQ(U64ToF32(UINT64_MAX), 0x1p64f);
  EXPECT_EQ(U64ToF64(UINT64_MAX, Round::kDown), 0x1.fffffffffffffp63);
  EXPECT_EQ(Bits(RoundToInteger(-0.3f, Round::kNearestEven)), 0x80000000u);
  EXPECT_EQ(RoundToInteger(-0.3f, Round::kDown), -1.0f);
}

}  // namespace
}  // namespace tilec::runtime::emulator
