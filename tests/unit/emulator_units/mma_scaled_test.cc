// mma.sync with block scaling: the fragment tables of the ISA spelled out per shape, formats by
// their definitions, scales where the selectors say and NaN everywhere else.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/emulator/mma_scaled.h"

#include <bit>
#include <cmath>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "runtime/emulator/floats.h"

namespace tilec::runtime::emulator {
namespace {

uint32_t Of(float x) { return std::bit_cast<uint32_t>(x); }

struct Format {
  MmaFormat format;
  int exponent_bits, fraction_bits, bias;
  uint32_t codes;  // how many, with signs
};
constexpr Format kE4M3 = {MmaFormat::kE4m3, 4, 3, 7, 256},
                 kE5M2 = {MmaFormat::kE5m2, 5, 2, 15, 256}, kE3M2 = {MmaFormat::kE3m2, 3, 2, 3, 64},
                 kE2M3 = {MmaFormat::kE2m3, 2, 3, 1, 64}, kE2M1 = {MmaFormat::kE2m1, 2, 1, 1, 16};

double ValueOf(const Format& f, uint32_t code) {
  const uint32_t fraction = code & ((1u << f.fraction_bits) - 1);
  const uint32_t exponent = code >> f.fraction_bits & ((1u << f.exponent_bits) - 1);
  const double one = exponent == 0 ? 0 : 1;
  const double m = one + fraction / static_cast<double>(1u << f.fraction_bits);
  const double v = std::ldexp(m, static_cast<int>(exponent == 0 ? 1 : exponent) - f.bias);
  return code >> (f.fraction_bits + f.exponent_bits) & 1 ? -v : v;
}
double ScaleOf(bool ue4m3, uint32_t code) {
  return ue4m3 ? ValueOf(kE4M3, code) : std::ldexp(1.0, static_cast<int>(code) - 127);
}

// What a warp brings, and the matrices it stands for.
struct Warp {
  uint32_t a[4][32] = {}, b[2][32] = {}, c[4][32] = {}, scales_a[32] = {}, scales_b[32] = {};
  double value_a[16][64] = {}, value_b[64][8] = {}, scale_a[16][4] = {}, scale_b[4][8] = {};

  std::vector<uint32_t> Run(const ScaledShape& s, const ScaleSelectors& by, Arithmetic how) {
    const uint32_t *pa[] = {a[0], a[1], a[2], a[3]}, *pb[] = {b[0], b[1]},
                   *pc[] = {c[0], c[1], c[2], c[3]};
    uint32_t d[4][32];
    uint32_t* pd[] = {d[0], d[1], d[2], d[3]};
    MmaScaled(s, {pa, pb, pc, scales_a, scales_b, pd}, by, how);
    std::vector<uint32_t> out(16 * 8);
    for (int lane = 0; lane < 32; ++lane)
      for (int i = 0; i < 4; ++i) {
        const int row = i < 2 ? lane >> 2 : (lane >> 2) + 8, col = lane % 4 * 2 + (i & 1);
        out[static_cast<size_t>(row * 8 + col)] = d[i][lane];
      }
    return out;
  }
};

class Maker {
 public:
  explicit Maker(uint32_t seed) : random_(seed) {}
  uint32_t Below(uint32_t n) { return static_cast<uint32_t>(random_() % n); }
  // A code of a finite number of moderate size, so that sums of doubles are exact.
  uint32_t Code(const Format& f) {
    for (;;) {
      const uint32_t code = Below(f.codes);
      const double v = std::fabs(ValueOf(f, code));
      if (f.codes < 256 || (v < 32 && (v == 0 || v >= 0.0625))) return code;
    }
  }

  // Elements as the ISA numbers a0, a1, … and b0, b1, … (9.7.14.5.10 and .11).
  void Fill(Warp& w, const ScaledShape& s, const Format& fa, const Format& fb) {
    const int bits = s.four_bits ? 4 : 8, each = 32 / bits;
    for (int lane = 0; lane < 32; ++lane) {
      const int group = lane >> 2, of_group = lane % 4;
      for (int i = 0; i < 4 * each; ++i) {
        int row = 0, col = 0;
        if (s.four_bits) {
          row = (0 <= i && i < 8) || (16 <= i && i < 24) ? group : group + 8;
          col = i < 16 ? of_group * 8 + (i & 7) : of_group * 8 + (i & 7) + 32;
        } else {
          row = (0 <= i && i < 4) || (8 <= i && i < 12) ? group : group + 8;
          col = i < 8 ? of_group * 4 + (i & 3) : of_group * 4 + (i & 3) + 16;
        }
        const uint32_t code = Code(fa);
        w.value_a[row][col] = ValueOf(fa, code);
        w.a[i / each][lane] |= Contained(s, fa, code) << (bits * (i % each));
      }
      for (int i = 0; i < 2 * each; ++i) {
        const int row = s.four_bits ? of_group * 8 + (i & 7) + (i < 8 ? 0 : 32)
                                    : of_group * 4 + (i & 3) + (i < 4 ? 0 : 16);
        const uint32_t code = Code(fb);
        w.value_b[row][group] = ValueOf(fb, code);
        w.b[i / each][lane] |= Contained(s, fb, code) << (bits * (i % each));
      }
    }
  }

  // Scales where the selectors look; NaN, of either type, where they do not.
  void FillScales(Warp& w, const ScaledShape& s, const ScaleSelectors& by) {
    for (int lane = 0; lane < 32; ++lane) w.scales_a[lane] = w.scales_b[lane] = ~0u;
    const auto put = [&](uint32_t& word, int byte, uint32_t code) {
      word = (word & ~(0xffu << 8 * byte)) | code << 8 * byte;
    };
    const auto code = [&] { return s.ue4m3 ? 0x20 + Below(0x30) : 124 + Below(6); };
    for (int i = 0; i < s.scales; ++i) {
      for (int row = 0; row < 16; ++row) {
        const uint32_t x = code();
        w.scale_a[row][i] = ScaleOf(s.ue4m3, x);
        put(w.scales_a[row % 8 * 4 + 2 * by.thread_a + row / 8], by.byte_a + i, x);
      }
      for (int col = 0; col < 8; ++col) {
        const uint32_t x = code();
        w.scale_b[i][col] = ScaleOf(s.ue4m3, x);
        put(w.scales_b[col * 4 + by.thread_b], by.byte_b + i, x);
      }
    }
  }

 private:
  // In containers of 8 bits, padding is filled: nobody looks at it.
  uint32_t Contained(const ScaledShape& s, const Format& f, uint32_t code) {
    if (s.four_bits || f.codes == 256) return code;
    return f.codes == 16 ? code << 2 | 0xc3 : code | 0xc0;
  }
  std::mt19937 random_;
};

void Check(const ScaledShape& s, const Format& fa, const Format& fb, const ScaleSelectors& by) {
  std::string error;
  ASSERT_TRUE(ValidateSelectors(s, by, &error)) << error;
  Maker make(17 + by.byte_a + 4u * by.thread_a + 16u * by.byte_b + 64u * by.thread_b);
  Warp w;
  make.Fill(w, s, fa, fb);
  make.FillScales(w, s, by);
  double want[16][8];
  const int block = s.k() / s.scales;
  for (int lane = 0; lane < 32; ++lane)
    for (int i = 0; i < 4; ++i) {
      const int row = i < 2 ? lane >> 2 : (lane >> 2) + 8, col = lane % 4 * 2 + (i & 1);
      const float c = static_cast<float>(make.Below(4096)) / 64 - 32;
      w.c[i][lane] = Of(c);
      double sum = static_cast<double>(c);
      for (int k = 0; k < s.k(); ++k)
        sum += w.value_a[row][k] * w.scale_a[row][k / block] * w.value_b[k][col] *
               w.scale_b[k / block][col];
      want[row][col] = sum;  // exact: few bits apart
    }
  const auto exact = w.Run(s, by, Arithmetic::kExact), fast = w.Run(s, by, Arithmetic::kFast);
  for (int row = 0; row < 16; ++row)
    for (int col = 0; col < 8; ++col) {
      const auto at = static_cast<size_t>(row * 8 + col);
      EXPECT_EQ(exact[at], Of(static_cast<float>(want[row][col]))) << row << ", " << col;
      EXPECT_NEAR(FloatOf(fast[at]), want[row][col], 1e-5 * (1e3 + std::fabs(want[row][col])));
    }
}

TEST(MmaScaled, EveryKindTypeAndSelector) {
  const Format* const formats[] = {&kE4M3, &kE5M2, &kE3M2, &kE2M3, &kE2M1};
  for (const Format* a : formats)
    for (const Format* b : formats) Check({.a = a->format, .b = b->format}, *a, *b, {1, 1, 2, 3});
  for (uint16_t byte : {0, 1, 2, 3})
    for (uint16_t thread : {0, 1, 2, 3}) {
      const auto pair = static_cast<uint16_t>(thread % 2);
      Check({}, kE4M3, kE4M3, {byte, pair, static_cast<uint16_t>(3 - byte), thread});
      const ScaledShape mxf4 = {
          .a = MmaFormat::kE2m1, .b = MmaFormat::kE2m1, .four_bits = true, .scales = 2};
      ScaledShape nvf4 = mxf4;
      nvf4.ue4m3 = true, nvf4.scales = 4;
      if (byte % 2 == 0)
        Check(mxf4, kE2M1, kE2M1, {byte, pair, static_cast<uint16_t>(2 - byte), thread});
      if (byte == 0) Check(nvf4, kE2M1, kE2M1, {0, pair, 0, thread});
    }
}

TEST(MmaScaled, SelectorsThatTheIsaLeavesUndefined) {
  std::string error;
  const ScaledShape one, two = {.four_bits = true, .scales = 2},
                         four = {.four_bits = true, .ue4m3 = true, .scales = 4};
  EXPECT_FALSE(ValidateSelectors(one, {4, 0, 0, 0}, &error));
  EXPECT_FALSE(ValidateSelectors(one, {0, 2, 0, 0}, &error));
  EXPECT_FALSE(ValidateSelectors(one, {0, 0, 0, 4}, &error));
  EXPECT_FALSE(ValidateSelectors(two, {1, 0, 0, 0}, &error));
  EXPECT_FALSE(ValidateSelectors(two, {0, 0, 3, 0}, &error));
  EXPECT_FALSE(ValidateSelectors(four, {0, 0, 2, 0}, &error));
  EXPECT_EQ(error,
            "selectors {0, 0} and {2, 0}: with .scale_vec::4X bytes are 0, thread-id-a is 0 or 1, "
            "thread-id-b 0 to 3");
}

// Sums over more bits than any integer has, rounded once.
TEST(MmaScaled, RoundsOnce) {
  const ScaledShape s;
  const auto run = [&](uint32_t a, uint32_t b, uint32_t scale_a, uint32_t scale_b, float c,
                       Arithmetic how = Arithmetic::kExact) {
    Warp w;
    w.a[0][0] = a, w.b[0][0] = b, w.c[0][0] = Of(c);  // row 0, column 0, k = 0 … 3
    for (int lane = 0; lane < 32; ++lane) w.scales_a[lane] = scale_a, w.scales_b[lane] = scale_b;
    return w.Run(s, {}, how)[0];
  };
  constexpr uint32_t kOne = 0x38, kMinus = 0xb8, kNan = 0x7f;  // of e4m3
  const float next = std::nextafterf(1, 2);
  // Half of the last place of 1: to the even neighbour, which 1 is and `next` is not.
  EXPECT_EQ(run(kOne, kOne, 127 - 24, 127, 1), Of(1));
  EXPECT_EQ(run(kOne, kOne, 127 - 24, 127, next), Of(std::nextafterf(next, 2)));
  // A product far below half of it decides: 1 + 2^-24 + 2^-33 (2^-9 is the least e4m3).
  EXPECT_EQ(run(kOne | 0x01 << 8, kOne | kOne << 8, 127 - 24, 127, 1), Of(next));
  EXPECT_EQ(run(kOne | 0x81 << 8, kOne | kOne << 8, 127 - 24, 127, 1), Of(1));
  // Everything goes but C; nothing goes.
  EXPECT_EQ(run(kOne | kMinus << 8, kOne | kOne << 8, 254, 254, 1), Of(1));
  EXPECT_EQ(run(kOne | kMinus << 8, kOne | kOne << 8, 127, 127, 0), 0u);
  // Subnormal results, the least of them, and its half.
  EXPECT_EQ(run(kOne, kOne, 1, 127 - 20, 0), 0x8u);
  EXPECT_EQ(run(kOne, kOne, 1, 127 - 23, 0), 1u);
  EXPECT_EQ(run(kOne, kOne, 1, 127 - 24, 0), 0u);
  EXPECT_EQ(run(kOne, kOne, 0, 0, -1), Of(-1));
  // Beyond f32.
  EXPECT_EQ(run(kOne, kOne, 254, 254, 1), 0x7f800000u);
  EXPECT_EQ(run(kMinus, kOne, 254, 254, 1), 0xff800000u);
  // NaN, of elements and of scales; C's infinity.
  for (Arithmetic how : {Arithmetic::kExact, Arithmetic::kFast}) {
    EXPECT_EQ(run(kNan, kOne, 127, 127, 1, how), kCanonicalNan32);
    EXPECT_EQ(run(0, 0, 255, 127, 1, how), kCanonicalNan32);
    EXPECT_EQ(run(kOne, kOne, 127, 127, -INFINITY, how), 0xff800000u);
  }
}

}  // namespace
}  // namespace tilec::runtime::emulator
