// The exact arithmetic against a re-implementation in 128-bit integers, written from the rule and
// not from the kernels; and all instruction sets against each other.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/emulator/tc_math.h"

#include <cmath>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "runtime/emulator/dispatch.h"
#include "runtime/emulator/floats.h"
#include "runtime/emulator/tc_kernels.h"
#include "tests/unit/emulator_units/tc_math_model.h"

namespace tilec::runtime::emulator {

namespace {

TEST(TcMath, ExactAgreesWithIntegers) {
  struct Types {
    Element a, b, d;
    int k;
  };
  const Types types[] = {{Element::kBf16, Element::kBf16, Element::kF32, 16},
                         {Element::kF16, Element::kF16, Element::kF32, 16},
                         {Element::kF16, Element::kF16, Element::kF16, 16},
                         {Element::kTf32, Element::kTf32, Element::kF32, 8},
                         {Element::kE4m3, Element::kE4m3, Element::kF32, 32},
                         {Element::kE4m3, Element::kE5m2, Element::kF32, 32},
                         {Element::kE5m2, Element::kE5m2, Element::kF16, 32},
                         {Element::kBf16, Element::kBf16, Element::kF32, 8}};
  uint32_t seed = 0;
  for (const Types& ty : types) {
    for (Kind kind :
         {Kind::kNear, Kind::kWide, Kind::kCancel, Kind::kTiny, Kind::kHuge, Kind::kApart}) {
      for (bool accumulate : {true, false}) {
        const bool fp8 = ElementBytes(ty.a) == 1;
        const int f = fp8 ? 13 : 25;
        Tile t = MakeTile({.a = ty.a,
                           .b = ty.b,
                           .d = ty.d,
                           .warps = seed % 3 ? 4 : 1,
                           .n = 8 + 8 * static_cast<int>(seed % 5),
                           .k = ty.k,
                           .accumulate = accumulate,
                           .negate_b = seed % 4 == 3,
                           .arithmetic = Arithmetic::kExact},
                          kind, ++seed);
        MultiplyTile(t.math, t.a.data(), t.b.data(), t.acc);
        for (int r = 0; r < t.rows(); r++) {
          for (int col = 0; col < t.math.n; col++) {
            std::vector<uint32_t> b(t.cb.begin() + col * ty.k, t.cb.begin() + (col + 1) * ty.k);
            if (t.math.negate_b) {
              for (auto& x : b) x ^= 1u << (8 * ElementBytes(ty.b) - 1);
            }
            uint32_t c = accumulate ? t.c[r * t.math.n + col] : 0;
            if (ty.d == Element::kF16) c = Bits(F16ToF32(static_cast<uint16_t>(c)));
            const auto [sum, unit] = ExactSum({ty.a, ty.b, &t.ca[r * ty.k], b.data(), ty.k}, c, f);
            if (ty.d == Element::kF16) {
              // f16 results are rounded from the whole sum, for fp8 too.
              const double v = std::ldexp(static_cast<double>(static_cast<int64_t>(sum)), unit);
              uint16_t want = F64ToF16(v);
              if (want == 0x8000) want = 0;  // seen on an H200: zero results are +0
              ASSERT_EQ(t.Result(r, col), want) << ElementName(ty.a) << " " << int(kind);
            } else {
              ASSERT_EQ(t.Result(r, col), TruncatedF32(sum, unit, fp8 ? 13 : 23))
                  << ElementName(ty.a) << " " << int(kind) << " at " << r << "," << col;
            }
          }
        }
      }
    }
  }
}

TEST(TcMath, ExactOverflowGivesInfinity) {
  Tile t = MakeTile({.n = 8, .k = 16, .arithmetic = Arithmetic::kExact}, Kind::kNear, 1);
  for (auto& x : t.ca) x = 0x7f00;  // 2^127
  for (auto& x : t.cb) x = 0x4000;  // 2
  t.Store();
  MultiplyTile(t.math, t.a.data(), t.b.data(), t.acc);
  EXPECT_EQ(t.Cell(5, 3), 0x7f800000u);
}

TEST(TcMath, SpecialsInBothModes) {
  for (Arithmetic mode : {Arithmetic::kFast, Arithmetic::kExact}) {
    Tile t = MakeTile({.n = 16, .k = 16, .arithmetic = mode}, Kind::kNear, 3);
    for (auto& x : t.ca) x = 0x3f80;
    for (auto& x : t.cb) x = 0x3f80;
    for (auto& x : t.c) x = Bits(1.0f);
    t.ca[3 * 16 + 5] = 0x7f80;      // row 3: +inf
    t.ca[4 * 16 + 1] = 0x7fc1;      // row 4: NaN
    t.ca[6 * 16 + 2] = 0xff80;      // row 6: −inf
    t.cb[2 * 16 + 5] = 0x0000;      // column 2: 0 against row 3's infinity
    t.cb[7 * 16 + 5] = 0xbf80;      // column 7: −1 there
    t.c[6 * 16 + 9] = 0x7f800000u;  // −inf + inf
    t.c[10 * 16 + 1] = 0x7f800000u;
    t.c[11 * 16 + 1] = 0xffc00001u;
    t.Store();
    MultiplyTile(t.math, t.a.data(), t.b.data(), t.acc);
    EXPECT_EQ(t.Cell(0, 0), Bits(17.0f));
    EXPECT_EQ(t.Cell(3, 0), 0x7f800000u);
    EXPECT_EQ(t.Cell(3, 2), kCanonicalNan32);
    EXPECT_EQ(t.Cell(3, 7), 0xff800000u);
    EXPECT_EQ(t.Cell(4, 0), kCanonicalNan32);
    EXPECT_EQ(t.Cell(6, 0), 0xff800000u);
    EXPECT_EQ(t.Cell(6, 9), kCanonicalNan32);
    EXPECT_EQ(t.Cell(10, 1), 0x7f800000u);
    EXPECT_EQ(t.Cell(11, 1), kCanonicalNan32);
    EXPECT_EQ(t.Cell(11, 0), Bits(17.0f));
    // e4m3 has NaN but no infinity; its largest codes are ordinary numbers.
    Tile q =
        MakeTile({.a = Element::kE4m3, .b = Element::kE4m3, .n = 8, .k = 32, .arithmetic = mode},
                 Kind::kNear, 3);
    for (auto& x : q.ca) x = 0x00;
    for (auto& x : q.cb) x = 0x38;
    for (auto& x : q.c) x = 0;
    q.ca[2 * 32] = 0x7e;
    q.ca[3 * 32] = 0x7f;
    q.Store();
    MultiplyTile(q.math, q.a.data(), q.b.data(), q.acc);
    EXPECT_EQ(q.Cell(2, 1), Bits(448.0f));
    EXPECT_EQ(q.Cell(3, 1), kCanonicalNan32);
    EXPECT_EQ(q.Cell(0, 1), 0u);
  }
}

TEST(TcMath, IntegersWrapOrSaturate) {
  for (bool satfinite : {false, true}) {
    Tile t = MakeTile({.a = Element::kS8,
                       .b = Element::kU8,
                       .d = Element::kS32,
                       .n = 8,
                       .k = 32,
                       .satfinite = satfinite},
                      Kind::kNear, 5);
    for (auto& x : t.ca) x = 0x80;  // −128
    for (auto& x : t.cb) x = 0xff;  // 255
    const int32_t dot = -128 * 255 * 32;
    t.c[0] = 5;
    t.c[1] = static_cast<uint32_t>(INT32_MIN);
    t.c[2] = static_cast<uint32_t>(INT32_MIN - dot);
    t.Store();
    MultiplyTile(t.math, t.a.data(), t.b.data(), t.acc);
    EXPECT_EQ(t.Cell(0, 0), static_cast<uint32_t>(5 + dot));
    EXPECT_EQ(t.Cell(0, 1), satfinite ? 0x80000000u : 0x80000000u + static_cast<uint32_t>(dot));
    EXPECT_EQ(t.Cell(0, 2), 0x80000000u);
    for (auto& x : t.ca) x = 0x7f;
    t.c[0] = 0x7fffffff;
    t.Store();
    MultiplyTile(t.math, t.a.data(), t.b.data(), t.acc);
    EXPECT_EQ(t.Cell(0, 0), satfinite ? 0x7fffffffu : 0x7fffffffu + 127u * 255u * 32u);
  }
}

#if defined(__x86_64__)
// Random operands in every kernel set's own arrangement; results must be equal bit for bit.
struct ProductOfWarps {
  int warps, n8, k;
  bool accumulate, saturate;
};
void RunKernels(const TcKernels& kernels, const ProductOfWarps& product,
                std::vector<uint32_t>* out) {
  const auto [warps, n8, k, accumulate, saturate] = product;
  std::mt19937 random(99);
  const int lanes = kernels.lanes, groups = 64 / lanes;
  alignas(64) static float fa[64 * 32 * 4], fb[256 * 32];
  alignas(64) static int32_t a[3][64 * 32 * 4], b[3][256 * 32];
  for (int r = 0; r < warps * 16; r++) {
    for (int i = 0; i < k; i++) {
      const auto f = static_cast<float>(random() % 2048) / 256.0f - 4.0f;
      const auto magnitude = static_cast<int32_t>(random() % 256);
      const auto exponent = static_cast<int32_t>(random() % 40) - 20;
      const int32_t sign = -static_cast<int32_t>(random() % 2);
      for (int q = 0; q < 4; q++) {
        const int at = ((r / (lanes / 4)) * k + i) * lanes + r % (lanes / 4) * 4 + q;
        fa[at] = f;
        a[0][at] = magnitude, a[1][at] = magnitude ? exponent : kZeroExponent, a[2][at] = sign;
      }
    }
  }
  ASSERT_EQ(groups * lanes, 64);
  for (int i = 0; i < n8 * 8 * k; i++) {
    fb[i] = static_cast<float>(random() % 2048) / 256.0f - 4.0f;
    b[0][i] = static_cast<int32_t>(random() % 256);
    b[1][i] = b[0][i] ? static_cast<int32_t>(random() % 40) - 20 : kZeroExponent;
    b[2][i] = -static_cast<int32_t>(random() % 2);
  }
  // The same operands as numbers.
  alignas(64) static float va[64 * 32 * 4], vb[256 * 32];
  auto numbers = [](const auto& parts, size_t count, float* to) {
    for (size_t i = 0; i < count; i++)
      to[i] = parts[0][i] == 0 ? 0
                               : std::ldexp(static_cast<float>(parts[0][i]), parts[1][i] - 7) *
                                     static_cast<float>(parts[2][i] < 0 ? -1 : 1);
  };
  numbers(a, std::size(va), va);
  numbers(b, std::size(vb), vb);
  // Their exponents once more, of 16 bits, of A in groups of twice the rows.
  alignas(64) static int16_t na[64 * 32 * 4], nb[256 * 32];
  for (int at = 0; at < 64 * k * 4; at++) {
    const int group = at / (k * lanes), i = at / lanes % k, lane = at % lanes;
    na[(group / 2 * k + i) * 2 * lanes + group % 2 * lanes + lane] = static_cast<int16_t>(a[1][at]);
  }
  for (int at = 0; at < n8 * 8 * k; at++) nb[at] = static_cast<int16_t>(b[1][at]);
  std::vector<uint32_t> cells(4 * 128 * 32);
  uint32_t* acc[4][kMaxAccumulators];
  for (int w = 0; w < 4; w++) {
    for (int i = 0; i < 128; i++) acc[w][i] = &cells[(w * 128 + i) * 32];
  }
  auto fill = [&](bool integers) {
    std::mt19937 values(5);
    for (auto& c : cells)
      c = integers ? values() : Bits(static_cast<float>(values() % 4096) / 64.0f - 20.0f);
  };
  fill(false);
  kernels.fast(fa, fb, warps, n8, k, accumulate, acc);
  out->insert(out->end(), cells.begin(), cells.end());
  std::vector<uint32_t> exact[2];
  for (bool plain : {false, true}) {
    fill(false);
    kernels.exact({a[0], a[1], a[2], va, na}, {b[0], b[1], b[2], vb, nb}, {11, 2, 0, 25, 23, false},
                  plain, warps, n8, k, accumulate, acc);
    exact[plain] = cells;
  }
  EXPECT_EQ(exact[0], exact[1]);
  out->insert(out->end(), cells.begin(), cells.end());
  fill(true);
  kernels.integer(a[0], b[0], warps, n8, k, accumulate, saturate, acc);
  out->insert(out->end(), cells.begin(), cells.end());
}

TEST(TcMath, InstructionSetsAgree) {
  std::vector<const TcKernels*> sets = {&kTcKernelsBase};
  if (Cpu() != CpuLevel::kBase) sets.push_back(&kTcKernelsAvx2);
  if (Cpu() == CpuLevel::kAvx512) sets.push_back(&kTcKernelsAvx512);
  for (int n8 : {1, 2, 3, 32}) {
    for (int k : {4, 8, 16, 32}) {
      for (int warps : {1, 4}) {
        for (bool flag : {false, true}) {
          std::vector<uint32_t> want;
          const ProductOfWarps product{warps, n8, k, flag, n8 % 2 == 0};
          RunKernels(*sets[0], product, &want);
          for (size_t i = 1; i < sets.size(); i++) {
            std::vector<uint32_t> got;
            RunKernels(*sets[i], product, &got);
            ASSERT_EQ(got, want) << "set " << i << " n8 " << n8 << " k " << k << " warps " << warps;
          }
        }
      }
    }
  }
}
#endif

}  // namespace

}  // namespace tilec::runtime::emulator
