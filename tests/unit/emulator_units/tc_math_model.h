// The exact arithmetic of tensor cores once more, in 128-bit integers: written from the rule and
// not from the kernels, so that what agrees with it is not a mistake made twice. And tiles of
// random values to try it on.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "runtime/emulator/floats.h"
#include "runtime/emulator/tc_math.h"

namespace tilec::runtime::emulator {

using I128 = __int128;

struct Number {
  bool negative;
  int64_t significand;  // integer
  int exponent;         // of the significand's unit in the first place: value = s · 2^(e − bits)
  int bits;             // fraction bits of s
};

inline Number Split(Element e, uint32_t code) {
  int bits = 0, width = 0, bias = 0;
  if (e == Element::kF16) bits = 10, width = 5, bias = 15;
  if (e == Element::kBf16) bits = 7, width = 8, bias = 127;
  if (e == Element::kTf32) bits = 10, width = 8, bias = 127, code >>= 13;
  if (e == Element::kE4m3) bits = 3, width = 4, bias = 7;
  if (e == Element::kE5m2) bits = 2, width = 5, bias = 15;
  if (e == Element::kF32) bits = 23, width = 8, bias = 127;
  const int field = static_cast<int>(code >> bits & ((1u << width) - 1));
  int64_t s = code & ((1u << bits) - 1);
  if (field != 0) s += int64_t{1} << bits;
  return {(code >> (bits + width) & 1) != 0, s, (field == 0 ? 1 : field) - bias, bits};
}

// value · 2^shift toward zero.
inline I128 Shift(I128 magnitude, int shift) {
  if (shift >= 0) return magnitude << shift;
  return shift < -120 ? 0 : magnitude >> -shift;
}

// A row of A and a column of B, as codes.
struct Factors {
  Element ea, eb;
  const uint32_t *a, *b;
  int k;
};
// A sum, and the weight of its unit as a power of two.
struct Aligned {
  I128 sum = 0;
  int unit = 0;
};
// Of the terms of a product and `c`, aligned to `f` bits below the largest.
inline Aligned ExactSum(const Factors& of, uint32_t c, int f) {
  struct Term {
    bool negative;
    int64_t s;
    int exponent, bits;
  };
  std::vector<Term> terms;
  for (int i = 0; i < of.k; i++) {
    const Number x = Split(of.ea, of.a[i]), y = Split(of.eb, of.b[i]);
    if (x.significand == 0 || y.significand == 0) continue;
    terms.push_back({x.negative != y.negative, x.significand * y.significand,
                     x.exponent + y.exponent, x.bits + y.bits});
  }
  const Number z = Split(Element::kF32, c);
  if (z.significand != 0) terms.push_back({z.negative, z.significand, z.exponent, 23});
  Aligned out;
  if (terms.empty()) return out;
  int top = terms[0].exponent;
  for (const Term& t : terms) top = std::max(top, t.exponent);
  out.unit = top - f;
  for (const Term& t : terms) {
    // s · 2^(exponent − bits), in units of 2^(top − f).
    const I128 aligned = Shift(t.s, t.exponent - t.bits - out.unit);
    out.sum += t.negative ? -aligned : aligned;
  }
  return out;
}

inline uint32_t TruncatedF32(I128 sum, int unit, int mantissa_bits) {
  if (sum == 0) return 0;
  const bool negative = sum < 0;
  I128 m = negative ? -sum : sum;
  int top = 0;
  while (m >> (top + 1)) top++;
  int last = unit + top - mantissa_bits;  // weight of the last bit kept
  if (unit + top < -126) last = -149;
  m = Shift(m, unit - last);
  const double v = std::ldexp(static_cast<double>(static_cast<int64_t>(m)), last);
  const float r = static_cast<float>(v);
  return Bits(negative ? -r : r);
}

struct Tile {
  TileMath math;
  std::vector<uint32_t> ca, cb, c;  // codes, row-major; c as [m][n]
  std::vector<uint8_t> a, b;
  std::vector<uint32_t> cells;
  uint32_t* acc[4][kMaxAccumulators] = {};

  explicit Tile(const TileMath& t)
      : math(t), a(64 * kTileRowBytes), b(256 * kTileRowBytes), cells(4 * 128 * 32) {
    for (int w = 0; w < 4; w++) {
      for (int i = 0; i < 128; i++) acc[w][i] = &cells[(w * 128 + i) * 32];
    }
  }
  int rows() const { return math.warps * 16; }
  uint32_t& Cell(int r, int col) {
    return acc[r / 16][col / 8 * 4 + r % 16 / 8 * 2 + col % 2][r % 8 * 4 + col % 8 / 2];
  }
  void Store() {
    const int size = static_cast<int>(ElementBytes(math.a));
    for (int r = 0; r < rows(); r++) {
      for (int i = 0; i < math.k; i++)
        std::memcpy(&a[r * kTileRowBytes + i * size], &ca[r * math.k + i], size);
    }
    for (int r = 0; r < math.n; r++) {
      for (int i = 0; i < math.k; i++)
        std::memcpy(&b[r * kTileRowBytes + i * size], &cb[r * math.k + i], size);
    }
    for (int r = 0; r < rows(); r++) {
      for (int col = 0; col < math.n; col++) {
        const uint32_t v = c[r * math.n + col];
        if (math.d != Element::kF16) {
          Cell(r, col) = v;
          continue;
        }
        uint32_t& cell = acc[r / 16][col / 8 * 2 + r % 16 / 8][r % 8 * 4 + col % 8 / 2];
        cell = col % 2 ? (cell & 0xffff) | v << 16 : (cell & 0xffff0000u) | v;
      }
    }
  }
  uint32_t Result(int r, int col) {
    if (math.d != Element::kF16) return Cell(r, col);
    return acc[r / 16][col / 8 * 2 + r % 16 / 8][r % 8 * 4 + col % 8 / 2] >> (16 * (col % 2)) &
           0xffff;
  }
};

// kApart: C is of another size than the products.
enum class Kind { kNear, kWide, kCancel, kTiny, kHuge, kApart };

inline uint32_t Code(Element e, Kind kind, std::mt19937& random) {
  const uint32_t b = random();
  float v = (static_cast<float>(b % 65536) - 32768.0f) / 8192.0f;
  if (b % 19 == 0) v = 0;
  switch (kind) {
    case Kind::kNear:
    case Kind::kApart:
    case Kind::kCancel: break;
    case Kind::kWide: v = std::ldexp(v, static_cast<int>(random() % 60) - 30); break;
    case Kind::kTiny: v = std::ldexp(v, -60 - static_cast<int>(random() % 20)); break;
    case Kind::kHuge: v = std::ldexp(v, 62); break;
  }
  switch (e) {
    case Element::kF16:
      return kind == Kind::kTiny ? (b & 0x83ff) : F32ToF16(v, {.satfinite = true});
    case Element::kBf16: return F32ToBf16(v);
    case Element::kTf32: return F32ToTf32(v);
    case Element::kE4m3: return kind == Kind::kTiny ? (b & 0x87) : F32ToE4m3(v);
    case Element::kE5m2: return kind == Kind::kTiny ? (b & 0x83) : F32ToE5m2(v);
    default: return b;
  }
}

inline Tile MakeTile(const TileMath& math, Kind kind, uint32_t seed) {
  Tile t(math);
  std::mt19937 random(seed);
  t.ca.resize(t.rows() * math.k);
  t.cb.resize(math.n * math.k);
  t.c.resize(t.rows() * math.n);
  for (auto& x : t.ca) x = Code(math.a, kind, random);
  for (auto& x : t.cb) x = Code(math.b, kind, random);
  for (auto& x : t.c) {
    float v = FloatOf(Code(Element::kTf32, kind, random)) * 1.2345f;
    if (kind == Kind::kApart) v = std::ldexp(v, static_cast<int>(random() % 270) - 148);
    x = math.d == Element::kF16 ? F32ToF16(v, {.satfinite = true}) : Bits(v);
    if (random() % 11 == 0) x = 0;
  }
  if (kind == Kind::kCancel) {
    // C is close to minus the sum, so that the truncated bits decide.
    for (int r = 0; r < t.rows(); r++) {
      for (int col = 0; col < math.n; col++) {
        double sum = 0;
        for (int i = 0; i < math.k; i++) {
          const Number x = Split(math.a, t.ca[r * math.k + i]),
                       y = Split(math.b, t.cb[col * math.k + i]);
          sum += std::ldexp(static_cast<double>(x.significand * y.significand),
                            x.exponent + y.exponent - x.bits - y.bits) *
                 (x.negative != y.negative ? -1 : 1);
        }
        const auto v = static_cast<float>(-sum);
        t.c[r * math.n + col] =
            math.d == Element::kF16 ? F32ToF16(v, {.satfinite = true}) : Bits(v);
      }
    }
  }
  t.Store();
  return t;
}

}  // namespace tilec::runtime::emulator
