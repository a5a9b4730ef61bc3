// SPDX-License-Identifier: Apache-2.0
#include "ir/numerics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

namespace tilec::ir {
namespace {

constexpr DType kFloats[] = {DType::kF16, DType::kBF16, DType::kTF32, DType::kF32,
                             DType::kF64, DType::kE4M3, DType::kE5M2};

// All values of a small format, from its bits.
std::vector<double> AllValues(DType d) {
  std::vector<double> out;
  const uint32_t count = 1u << Info(d).bits;
  for (uint32_t bits = 0; bits < count; ++bits) {
    std::byte raw[4];
    std::memcpy(raw, &bits, 4);
    out.push_back(LoadFloat(d, raw));
  }
  return out;
}

TEST(Numerics, EveryPatternSurvives) {
  for (DType d : {DType::kF16, DType::kBF16, DType::kE4M3, DType::kE5M2}) {
    const std::vector<double> values = AllValues(d);
    for (uint32_t bits = 0; bits < values.size(); ++bits) {
      const double v = values[bits];
      if (std::isnan(v)) continue;
      if (std::isinf(v) && FormatOf(d).saturates) continue;  // rounding saturates
      EXPECT_EQ(Round(d, v), v) << Spelling(d) << " " << bits;
      std::byte raw[4] = {};
      StoreFloat(d, v, raw);
      uint32_t again = 0;
      std::memcpy(&again, raw, 4);
      EXPECT_EQ(again, bits) << Spelling(d) << " " << v;
    }
  }
}

// Round picks the nearest of all values, ties to the even pattern.
TEST(Numerics, RoundsToNearestEven) {
  std::mt19937_64 random(3);
  for (DType d : {DType::kF16, DType::kBF16, DType::kE4M3, DType::kE5M2}) {
    std::vector<std::pair<double, uint32_t>> values;  // nonnegative finite, with patterns
    const std::vector<double> all = AllValues(d);
    for (uint32_t bits = 0; bits < all.size() / 2; ++bits)
      if (std::isfinite(all[bits])) values.emplace_back(all[bits], bits);
    EXPECT_EQ(values.back().first, FormatOf(d).max_finite) << Spelling(d);
    const auto check = [&](double x, size_t low) {  // values[low] <= x <= values[low + 1]
      const auto& [a, a_bits] = values[low];
      const auto& [b, b_bits] = values[low + 1];
      const double want = x - a < b - x ? a : x - a > b - x ? b : (a_bits % 2 == 0 ? a : b);
      EXPECT_EQ(Round(d, x), want) << Spelling(d) << " " << x;
      EXPECT_EQ(Round(d, -x), -want) << Spelling(d) << " " << -x;
      EXPECT_LE(std::fabs(x - want), HalfUlp(d, x)) << Spelling(d) << " " << x;
    };
    for (size_t i = 0; i + 1 < values.size(); i += 1 + values.size() / 5000) {
      const double a = values[i].first, b = values[i + 1].first;
      check((a + b) / 2, i);  // a tie
      check(std::nextafter((a + b) / 2, a), i);
      check(std::nextafter((a + b) / 2, b), i);
      check(a + (b - a) * static_cast<double>(random() >> 11) * 0x1p-53, i);
    }
  }
}

TEST(Numerics, OverflowAndSpecials) {
  EXPECT_EQ(Round(DType::kF16, 65519.99), 65504);
  EXPECT_EQ(Round(DType::kF16, 65520), INFINITY);
  EXPECT_EQ(Round(DType::kBF16, -3.4e38), -INFINITY);
  EXPECT_EQ(Round(DType::kF32, 1e39), INFINITY);
  EXPECT_EQ(Round(DType::kE4M3, 449), 448);
  EXPECT_EQ(Round(DType::kE4M3, -INFINITY), -448);
  EXPECT_EQ(Round(DType::kE5M2, 1e30), 57344);
  EXPECT_EQ(Round(DType::kF64, 1e308), 1e308);
  for (DType d : kFloats) {
    EXPECT_TRUE(std::isnan(Round(d, std::nan("")))) << Spelling(d);
    EXPECT_TRUE(std::signbit(Round(d, -0.0))) << Spelling(d);
    EXPECT_TRUE(std::signbit(Round(d, -1e-320)) || d == DType::kF64) << Spelling(d);
  }
}

TEST(Numerics, F32AgreesWithTheHost) {
  std::mt19937_64 random(5);
  std::vector<double> x(1000);
  for (double& v : x)
    v = std::ldexp(static_cast<double>(random() >> 11) * 0x1p-52 - 1,
                   static_cast<int>(random() % 320) - 160);
  std::vector<double> rounded = x;
  RoundAll(DType::kF32, rounded);
  for (size_t i = 0; i < x.size(); ++i) {
    EXPECT_EQ(rounded[i], static_cast<double>(static_cast<float>(x[i])));
    if (std::isfinite(rounded[i])) {
      EXPECT_LE(std::fabs(rounded[i] - x[i]), HalfUlp(DType::kF32, x[i]));
    }
  }
  std::vector<double> narrow = x;
  RoundAll(DType::kBF16, narrow);
  for (size_t i = 0; i < x.size(); ++i) EXPECT_EQ(narrow[i], Round(DType::kBF16, x[i]));
}

TEST(Numerics, HalfUlps) {
  EXPECT_EQ(HalfUlp(DType::kF32, 1.0), 0x1p-24);
  EXPECT_EQ(HalfUlp(DType::kF32, -1.999), 0x1p-24);
  EXPECT_EQ(HalfUlp(DType::kF32, 2.0), 0x1p-23);
  EXPECT_EQ(HalfUlp(DType::kF32, 0.0), 0x1p-150);
  EXPECT_EQ(HalfUlp(DType::kBF16, 1.0), 0x1p-8);
  EXPECT_EQ(HalfUlp(DType::kF16, 1.0), 0x1p-11);
  EXPECT_EQ(HalfUlp(DType::kF16, 0x1p-20), 0x1p-25);
  EXPECT_EQ(HalfUlp(DType::kE4M3, 448), 16);
  EXPECT_EQ(HalfUlp(DType::kF64, 1.0), 0x1p-53);
}

TEST(Numerics, Tf32DropsTowardZero) {
  EXPECT_EQ(DropTf32Bits(1 + 0x1p-10), 1 + 0x1p-10);
  EXPECT_EQ(DropTf32Bits(1 + 0x1.FFp-11), 1);
  EXPECT_EQ(DropTf32Bits(-(1 + 0x1.FFp-11)), -1);
}

TEST(Numerics, Integers) {
  EXPECT_EQ(WrapInt(DType::kI8, 200), -56);
  EXPECT_EQ(WrapInt(DType::kU8, -1), 255);
  EXPECT_EQ(WrapInt(DType::kBool, 7), 1);
  EXPECT_EQ(MinInt(DType::kI8), -128);
  EXPECT_EQ(MaxInt(DType::kI64), INT64_MAX);
  EXPECT_EQ(MaxInt(DType::kU32), 4294967295);
  EXPECT_EQ(MinInt(DType::kU16), 0);
  for (DType d : {DType::kBool, DType::kI8, DType::kI16, DType::kI32, DType::kI64, DType::kU8,
                  DType::kU16, DType::kU32, DType::kU64})
    for (int64_t n : {MinInt(d), MaxInt(d), int64_t{1}, int64_t{0}}) {
      std::byte raw[8] = {};
      StoreInt(d, n, raw);
      EXPECT_EQ(LoadInt(d, raw), n) << Spelling(d);
    }
}

}  // namespace
}  // namespace tilec::ir
