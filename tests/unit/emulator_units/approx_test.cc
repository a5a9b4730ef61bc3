// Error bounds against f64, special values, and 32 lanes against one.
//
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>
#include <random>

#include "gtest/gtest.h"
#include "runtime/emulator/floats.h"

namespace tilec::runtime::emulator {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

// Distance in units of the last place of the correctly rounded result.
double Ulps(float got, double want) {
  const float rounded = static_cast<float>(want);
  if (Bits(got) == Bits(rounded))
    return std::fabs(got - want) / (std::nextafterf(std::fabs(rounded), kInf) - std::fabs(rounded));
  if (!std::isfinite(rounded) || !std::isfinite(got)) return 1e9;
  return std::fabs(got - want) / (std::nextafterf(std::fabs(rounded), kInf) - std::fabs(rounded));
}

TEST(Approx, Ex2) {
  double worst = 0;
  for (float x = -149.0f; x < 128.0f; x += 0.0007f) {
    worst = std::max(worst, Ulps(Ex2Approx(x, false), std::exp2(double{x})));
  }
  EXPECT_LT(worst, 0.9);
  for (int i = -149; i < 128; i++) {
    EXPECT_EQ(Ex2Approx(static_cast<float>(i), false), std::ldexp(1.0f, i)) << i;
    EXPECT_EQ(Ex2Approx(static_cast<float>(i), true), i < -126 ? 0.0f : std::ldexp(1.0f, i)) << i;
  }
  EXPECT_EQ(Ex2Approx(-kInf, true), 0.0f);
  EXPECT_EQ(Ex2Approx(kInf, true), kInf);
  EXPECT_EQ(Ex2Approx(128.0f, true), kInf);
  EXPECT_EQ(Ex2Approx(1e30f, true), kInf);
  EXPECT_EQ(Ex2Approx(-1e30f, false), 0.0f);
  EXPECT_EQ(Ex2Approx(0x1p-140f, true), 1.0f);
  EXPECT_EQ(Bits(Ex2Approx(NAN, true)), kCanonicalNan32);
}

TEST(Approx, Lg2RcpRsqrtSqrtTanh) {
  std::mt19937 random(11);
  double lg2 = 0, rcp = 0, rsqrt = 0, root = 0, tanh = 0;
  for (int i = 0; i < 300000; i++) {
    const float x = std::fabs(FloatOf(random() & 0x7fffffffu));
    if (!std::isfinite(x) || x == 0) continue;
    lg2 = std::max(lg2, Ulps(Lg2Approx(x, false), std::log2(double{x})));
    if (x < 0x1p126f && x > 0x1p-126f) rcp = std::max(rcp, Ulps(RcpApprox(x, false), 1.0 / x));
    rsqrt = std::max(rsqrt, Ulps(RsqrtApprox(x, false), 1.0 / std::sqrt(double{x})));
    root = std::max(root, Ulps(SqrtApprox(x, false), std::sqrt(double{x})));
    const float t =
        FloatOf((random() & 0x80000000u) | (100 + random() % 32) << 23 | (random() & 0x7fffff));
    tanh = std::max(tanh, Ulps(TanhApprox(t), std::tanh(double{t})));
  }
  for (float x = 0.99f; x < 1.01f; x += 1e-6f) {
    lg2 = std::max(lg2, Ulps(Lg2Approx(x, false), std::log2(double{x})));
  }
  EXPECT_LT(lg2, 0.51);
  EXPECT_LT(rcp, 0.51);
  EXPECT_LT(rsqrt, 0.51);
  EXPECT_LT(root, 0.51);
  EXPECT_LT(tanh, 0.51);
}

TEST(Approx, Specials) {
  EXPECT_EQ(Lg2Approx(0.0f, false), -kInf);
  EXPECT_EQ(Lg2Approx(-0.0f, false), -kInf);
  EXPECT_EQ(Lg2Approx(kInf, false), kInf);
  EXPECT_EQ(Lg2Approx(0x1p-149f, false), -149.0f);
  EXPECT_EQ(Lg2Approx(0x1p-149f, true), -kInf);
  EXPECT_EQ(Lg2Approx(1.0f, true), 0.0f);
  EXPECT_EQ(Lg2Approx(8.0f, true), 3.0f);
  EXPECT_EQ(Bits(Lg2Approx(-1.0f, false)), kCanonicalNan32);
  EXPECT_EQ(Bits(Lg2Approx(NAN, false)), kCanonicalNan32);
  EXPECT_EQ(Bits(RcpApprox(-0.0f, false)), 0xff800000u);
  EXPECT_EQ(RcpApprox(0x1p-127f, true), kInf);
  EXPECT_EQ(RcpApprox(0x1p-127f, false), 0x1p127f);
  EXPECT_EQ(RcpApprox(0x1p127f, true), 0.0f);
  EXPECT_EQ(RcpApprox(0x1p127f, false), 0x1p-127f);
  EXPECT_EQ(Bits(RcpApprox(-kInf, false)), 0x80000000u);
  EXPECT_EQ(Bits(RsqrtApprox(-0.0f, false)), 0xff800000u);
  EXPECT_EQ(RsqrtApprox(0x1p-140f, true), kInf);
  EXPECT_EQ(RsqrtApprox(0x1p-140f, false), 0x1p70f);
  EXPECT_EQ(RsqrtApprox(kInf, false), 0.0f);
  EXPECT_EQ(Bits(RsqrtApprox(-1.0f, false)), kCanonicalNan32);
  EXPECT_EQ(Bits(SqrtApprox(-0.0f, false)), 0x80000000u);
  EXPECT_EQ(Bits(SqrtApprox(-1.0f, false)), kCanonicalNan32);
  EXPECT_EQ(TanhApprox(kInf), 1.0f);
  EXPECT_EQ(TanhApprox(-kInf), -1.0f);
  EXPECT_EQ(Bits(TanhApprox(-0.0f)), 0x80000000u);
  EXPECT_EQ(TanhApprox(0x1p-149f), 0x1p-149f);
  EXPECT_EQ(Bits(TanhApprox(NAN)), kCanonicalNan32);
  EXPECT_EQ(Bits(SinApprox(kInf, false)), kCanonicalNan32);
  EXPECT_EQ(Bits(SinApprox(-0x1p-130f, true)), 0x80000000u);
  EXPECT_EQ(CosApprox(0x1p-130f, true), 1.0f);
  EXPECT_EQ(DivApprox(1.0f, 0x1p-130f, true), kInf);
}

TEST(Approx, LanesAgreeWithOneLane) {
  std::mt19937 random(5);
  const float pool[] = {0.0f,       -0.0f,    kInf,    -kInf,    NAN,        0x1p-140f,
                        -0x1p-140f, 1.0f,     -1.0f,   448.0f,   464.0f,     65519.0f,
                        65520.0f,   61440.0f, 0x1p-9f, 0x1p-10f, 0x1.8p-25f, 3e38f};
  alignas(64) float x[kLanes], y[kLanes], z[kLanes], out[kLanes];
  uint32_t packed[kLanes];
  uint16_t bytes[kLanes];
  for (int round = 0; round < 5000; round++) {
    for (float* v : {x, y, z}) {
      for (int i = 0; i < kLanes; i++) {
        const uint32_t b = random();
        v[i] = b % 4 == 0 ? pool[random() % std::size(pool)]
               : b % 4 == 1
                   ? FloatOf(random())
                   : FloatOf((b & 0x80000000u) | (100 + b % 48) << 23 | (random() & 0x7fffff));
      }
    }
    for (bool ftz : {false, true}) {
      Ex2Warp(x, out, ftz);
      for (int i = 0; i < kLanes; i++) ASSERT_EQ(Bits(out[i]), Bits(Ex2Approx(x[i], ftz))) << x[i];
      Lg2Warp(x, out, ftz);
      for (int i = 0; i < kLanes; i++) ASSERT_EQ(Bits(out[i]), Bits(Lg2Approx(x[i], ftz))) << x[i];
      RcpWarp(x, out, ftz);
      for (int i = 0; i < kLanes; i++) ASSERT_EQ(Bits(out[i]), Bits(RcpApprox(x[i], ftz))) << x[i];
      RsqrtWarp(x, out, ftz);
      for (int i = 0; i < kLanes; i++)
        ASSERT_EQ(Bits(out[i]), Bits(RsqrtApprox(x[i], ftz))) << x[i];
      SqrtWarp(x, out, ftz);
      for (int i = 0; i < kLanes; i++) ASSERT_EQ(Bits(out[i]), Bits(SqrtApprox(x[i], ftz))) << x[i];
      FmaWarp(x, y, z, out, ftz);
      for (int i = 0; i < kLanes; i++) {
        const float want =
            ftz ? Flush(FmaF32(Flush(x[i]), Flush(y[i]), Flush(z[i]))) : FmaF32(x[i], y[i], z[i]);
        ASSERT_EQ(Bits(out[i]), Bits(want));
      }
    }
    TanhWarp(x, out);
    for (int i = 0; i < kLanes; i++) ASSERT_EQ(Bits(out[i]), Bits(TanhApprox(x[i]))) << x[i];
    for (bool relu : {false, true}) {
      const Narrow how = {.relu = relu};
      const Narrow sat = {.satfinite = true, .relu = relu};
      CvtBf16x2Warp(x, y, packed, relu);
      for (int i = 0; i < kLanes; i++) {
        ASSERT_EQ(packed[i], uint32_t{F32ToBf16(x[i], how)} << 16 | F32ToBf16(y[i], how))
            << x[i] << " " << y[i];
      }
      CvtF16x2Warp(x, y, packed, relu);
      for (int i = 0; i < kLanes; i++) {
        ASSERT_EQ(packed[i], uint32_t{F32ToF16(x[i], how)} << 16 | F32ToF16(y[i], how))
            << x[i] << " " << y[i];
      }
      CvtE4m3x2Warp(x, y, bytes, relu);
      for (int i = 0; i < kLanes; i++) {
        ASSERT_EQ(bytes[i], F32ToE4m3(x[i], sat) << 8 | F32ToE4m3(y[i], sat))
            << x[i] << " " << y[i];
      }
      CvtE5m2x2Warp(x, y, bytes, relu);
      for (int i = 0; i < kLanes; i++) {
        ASSERT_EQ(bytes[i], F32ToE5m2(x[i], sat) << 8 | F32ToE5m2(y[i], sat))
            << x[i] << " " << y[i];
      }
    }
  }
}

TEST(Approx, HalfPrecision) {
  EXPECT_EQ(Ex2F16(0x7c00), 0x7c00);
  EXPECT_EQ(Ex2F16(F32ToF16(15.0f)), 0x7800);
  EXPECT_EQ(Ex2F16(F32ToF16(16.0f)), 0x7c00);
  EXPECT_EQ(Ex2F16(F32ToF16(-24.0f)), 0x0001);
  EXPECT_EQ(Ex2F16(F32ToF16(-25.0f)), 0x0000);
  EXPECT_EQ(Ex2F16(0x7e00), kCanonicalNan16);
  EXPECT_EQ(Ex2F16(0x3e4d), F32ToF16(std::exp2(F16ToF32(0x3e4d)), {.round = Round::kZero}));
  EXPECT_EQ(Ex2Bf16(0x3f80), 0x4000);
  EXPECT_EQ(Ex2Bf16(0xc2fe), 0x0000);  // 2^-127 is flushed
  EXPECT_EQ(TanhF16(0x1234), 0x1234);
  EXPECT_EQ(TanhF16(0x7c00), 0x3c00);
  EXPECT_EQ(TanhF16(0x3c00), F32ToF16(std::tanh(1.0f), {.round = Round::kZero}));
  EXPECT_EQ(TanhBf16(0xff80), 0xbf80);
  EXPECT_EQ(TanhBf16(0x7fc0), kCanonicalNan16);
}

TEST(Approx, MaxAndMin) {
  alignas(64) float a[kLanes] = {}, b[kLanes] = {}, out[kLanes];
  const float pairs[][2] = {{1, 2},        {2, 1},     {NAN, 3},
                            {3, NAN},      {NAN, NAN}, {0.0f, -0.0f},
                            {-0.0f, 0.0f}, {-kInf, 5}, {-0x1p-140f, -0.0f}};
  for (size_t i = 0; i < std::size(pairs); i++) a[i] = pairs[i][0], b[i] = pairs[i][1];
  auto expect = [&](std::initializer_list<uint32_t> want) {
    int i = 0;
    for (uint32_t w : want) {
      EXPECT_EQ(Bits(out[i]), w) << "lane " << i;
      i++;
    }
  };
  const uint32_t one = Bits(1.0f), two = Bits(2.0f), three = Bits(3.0f), five = Bits(5.0f);
  const uint32_t nan = kCanonicalNan32, minus_zero = 0x80000000u, tiny = Bits(-0x1p-140f);
  MaxWarp(a, b, out, false, false);
  expect({two, two, three, three, nan, 0, 0, five, minus_zero});
  MaxWarp(a, b, out, false, true);
  expect({two, two, nan, nan, nan, 0, 0, five, minus_zero});
  MinWarp(a, b, out, false, false);
  expect({one, one, three, three, nan, minus_zero, minus_zero, 0xff800000u, tiny});
  MinWarp(a, b, out, true, false);
  expect({one, one, three, three, nan, minus_zero, minus_zero, 0xff800000u, minus_zero});
}

}  // namespace
}  // namespace tilec::runtime::emulator
