// A second model of tcgen05.mma for tcgen05_test.cc.
//
// Written from the tables of PTX ISA 9.1 (9.7.16) and from the published rule of accumulation;
// shares nothing with the unit but the words for formats and kinds. It finds one output at a time,
// addresses elements by the canonical layouts of 9.7.16.3.3 as CuTe writes them, and adds terms as
// 128-bit integers.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstring>
#include <optional>
#include <vector>

#include "runtime/emulator/tcgen05_descriptor.h"
#include "runtime/emulator/tensor_memory.h"

namespace tilec::runtime::emulator::model {

using Big = __int128;
constexpr uint32_t kSharedBytes = 64 << 10;

// ---- numbers ----

struct Term {
  Big mantissa = 0;
  int exponent = 0;  // of the mantissa's lowest bit
  int raw = 0;       // that the code names
  int special = 0;   // 1 NaN, 2 +inf, 3 −inf
};

inline Term Number(uint32_t code, int exponent_bits, int fraction_bits, int bias, int top) {
  const int sign = code >> (exponent_bits + fraction_bits) & 1 ? -1 : 1;
  const int e = static_cast<int>(code >> fraction_bits) & ((1 << exponent_bits) - 1);
  const int f = static_cast<int>(code) & ((1 << fraction_bits) - 1);
  Term t;
  if (e == (1 << exponent_bits) - 1) {
    if (top == 2 && f != 0) t.special = 1;
    if (top == 2 && f == 0) t.special = sign < 0 ? 3 : 2;
    if (top == 1 && f == (1 << fraction_bits) - 1) t.special = 1;
    if (t.special != 0) return t;
  }
  t.raw = (e == 0 ? 1 : e) - bias;
  t.mantissa = sign * (e == 0 ? f : f + (1 << fraction_bits));
  t.exponent = t.raw - fraction_bits;
  return t;
}

inline Term Decoded(MmaFormat f, uint32_t code) {
  switch (f) {
    case MmaFormat::kF16: return Number(code, 5, 10, 15, 2);
    case MmaFormat::kBf16: return Number(code, 8, 7, 127, 2);
    case MmaFormat::kTf32: return Number(code >> 13, 8, 10, 127, 2);
    case MmaFormat::kE4m3: return Number(code, 4, 3, 7, 1);
    case MmaFormat::kE5m2: return Number(code, 5, 2, 15, 2);
    case MmaFormat::kE2m3: return Number(code, 2, 3, 1, 0);
    case MmaFormat::kE3m2: return Number(code, 3, 2, 3, 0);
    case MmaFormat::kE2m1: return Number(code, 2, 1, 1, 0);
    case MmaFormat::kU8: return {static_cast<Big>(code), 0, 0, 0};
    case MmaFormat::kS8: return {static_cast<Big>(static_cast<int8_t>(code)), 0, 0, 0};
  }
  return {};
}

// Units of 2^quantum, toward zero.
inline Big Truncated(Big mantissa, int exponent, int quantum) {
  int shift = exponent - quantum;
  if (mantissa == 0 || shift < -120) return 0;
  if (shift >= 0) return mantissa << shift;
  return mantissa < 0 ? -(-mantissa >> -shift) : mantissa >> -shift;
}

inline uint32_t Single(Big units, int exponent) {
  if (units == 0) return 0;
  const uint32_t sign = units < 0 ? 1u << 31 : 0;
  Big m = units < 0 ? -units : units;
  while (m >= Big{1} << 24) m >>= 1, ++exponent;
  while (m < Big{1} << 23) m <<= 1, --exponent;
  if (exponent + 23 > 127) return sign | 0x7f800000u;
  while (exponent < -149) m >>= 1, ++exponent;
  if (m == 0) return 0;
  if (m < Big{1} << 23) return sign | static_cast<uint32_t>(m);
  return sign | static_cast<uint32_t>(exponent + 150) << 23 | (static_cast<uint32_t>(m) & 0x7fffff);
}

inline uint32_t Half(Big units, int exponent) {
  if (units == 0) return 0;
  const uint32_t sign = units < 0 ? 0x8000 : 0;
  // Through a double, which holds what is left after a sticky bit.
  Big m = units < 0 ? -units : units;
  bool sticky = false;
  while (m >= Big{1} << 50) sticky |= (m & 1) != 0, m >>= 1, ++exponent;
  double x =
      std::ldexp(static_cast<double>(static_cast<int64_t>(m * 2 + (sticky ? 1 : 0))), exponent - 1);
  if (x >= 65520) return sign | 0x7c00;
  int e = 0;
  std::frexp(x, &e);
  const int last = std::max(e - 11, -24);
  const double q = std::ldexp(x, -last);
  double r = std::floor(q);
  if (q - r > 0.5 || (q - r == 0.5 && std::fmod(r, 2) != 0)) r += 1;
  if (r == 0) return 0;
  const auto k = static_cast<uint32_t>(r);
  if (last == -24) return sign | k;  // also 1024: the smallest normal number
  return sign | ((static_cast<uint32_t>(last + 25) << 10) + (k - 1024));
}

// ---- the rule for one output ----

struct Dot {
  std::vector<Term> a, b, scale_a, scale_b;  // scales: one per block
  uint32_t c = 0;
  bool has_c = false;
  int c_scale = 0;
};

inline uint32_t Infinite(int special, bool half) {
  if (special == 1) return half ? 0x7fff : 0x7fffffff;
  return (special == 2 ? 0u : half ? 0x8000u : 0x80000000u) | (half ? 0x7c00u : 0x7f800000u);
}

inline Term Product(const Term& x, const Term& y) {
  Term t;
  if (x.special == 1 || y.special == 1) t.special = 1;
  if (t.special == 0 && (x.special != 0 || y.special != 0)) {
    auto negative = [](const Term& v) { return v.special == 3 || (!v.special && v.mantissa < 0); };
    const bool zero = (!x.special && x.mantissa == 0) || (!y.special && y.mantissa == 0);
    t.special = zero ? 1 : negative(x) != negative(y) ? 3 : 2;
  }
  t.mantissa = x.mantissa * y.mantissa;
  t.exponent = x.exponent + y.exponent;
  t.raw = x.raw + y.raw;
  return t;
}

inline uint32_t Window25(const Dot& d, MmaResult result) {
  const bool half = result == MmaResult::kF16;
  Term c;
  if (d.has_c) c = half ? Decoded(MmaFormat::kF16, d.c & 0xffff) : Number(d.c, 8, 23, 127, 2);
  c.exponent -= d.c_scale, c.raw -= d.c_scale;
  std::vector<Term> terms = {c};
  for (size_t k = 0; k < d.a.size(); ++k) {
    Term t = Product(d.a[k], d.b[k]);
    if (!d.scale_a.empty()) {
      if (d.scale_a[0].special || d.scale_b[0].special) return Infinite(1, half);
      t.exponent += d.scale_a[0].exponent + d.scale_b[0].exponent;
      t.raw += d.scale_a[0].raw + d.scale_b[0].raw;
    }
    terms.push_back(t);
  }
  int special = 0, top = -1000000;
  for (const Term& t : terms) {
    if (t.special != 0) special = special == 0 || special == t.special ? t.special : 1;
    if (t.special == 0 && t.mantissa != 0) top = std::max(top, t.raw);
  }
  if (special != 0) return Infinite(special, half);
  if (top == -1000000) return !d.scale_a.empty() && d.has_c ? d.c : 0;
  Big sum = 0;
  for (const Term& t : terms) sum += Truncated(t.mantissa, t.exponent, top - 25);
  return half ? Half(sum, top - 25) : Single(sum, top - 25);
}

// Sums of neighbouring products: exact, relative to the smallest exponent among them.
inline Term SumOf(const std::vector<Term>& terms, size_t first, size_t count) {
  Term s;
  int low = 1000000;
  for (size_t k = first; k < first + count; ++k)
    if (terms[k].mantissa != 0) low = std::min(low, terms[k].exponent);
  if (low == 1000000) return s;
  s.exponent = low;
  for (size_t k = first; k < first + count; ++k)
    s.mantissa += Truncated(terms[k].mantissa, terms[k].exponent, low);
  return s;
}

inline uint32_t FourBits(const Dot& d, bool ue4m3) {
  const size_t k_count = d.a.size(), block = k_count / d.scale_a.size();
  std::vector<Term> products;
  std::vector<int> scale_of;
  int top = -1000000, scale_top = -1000000;
  for (size_t k = 0; k < k_count; ++k) {
    const Term &sa = d.scale_a[k / block], &sb = d.scale_b[k / block];
    if (sa.special || sb.special) return 0x7fffffff;
    products.push_back(Product(Product(d.a[k], d.b[k]), Product(sa, sb)));
    scale_of.push_back(sa.raw + sb.raw);
    if (products.back().mantissa == 0) continue;
    top = std::max(top, products.back().raw);
    scale_top = std::max(scale_top, scale_of.back());
  }
  Term c;
  if (d.has_c) c = Number(d.c, 8, 23, 127, 2);
  if (c.special != 0) return Infinite(c.special, false);
  if (top == -1000000) return d.has_c ? d.c : 0;
  const bool has_c = c.mantissa != 0;
  if (has_c && c.raw >= top) {
    const int q = c.raw - 35;
    Big sum = Truncated(c.mantissa, c.exponent, q);
    for (size_t k = 0; k < k_count; k += 16) {
      const Term s = SumOf(products, k, 16);
      sum += Truncated(s.mantissa, s.exponent, q);
    }
    return Single(sum, q);
  }
  const int q = std::max((has_c ? std::max(top, c.raw) : top) - 39, scale_top - 35);
  const Big c_units = Truncated(c.mantissa, c.exponent, q);
  const size_t merge = ue4m3 ? 4 : 16;
  std::vector<Big> units;
  Big sum = c_units;
  for (size_t k = 0; k < k_count; k += merge) {
    int group_top = -1000000;
    for (size_t j = k; j < k + merge; ++j)
      if (products[j].mantissa != 0) group_top = std::max(group_top, products[j].raw);
    int own = q;
    if (!ue4m3 && has_c && group_top != -1000000 && c.raw >= group_top)
      own = std::max(q, c.raw - 35);
    const Term s = SumOf(products, k, merge);
    units.push_back(Truncated(s.mantissa, s.exponent, own) << (own - q));
    sum += units.back();
  }
  const uint32_t result = Single(sum, q);
  const uint32_t magnitude = result & 0x7fffffff;
  if (ue4m3 || magnitude == 0 || magnitude >= 1u << 23) return result;
  // Subnormal results: groups of smaller scales count from 2^−174 on.
  const Big least = q < -174 ? Big{1} << (-174 - q) : 1;
  sum = c_units;
  for (size_t g = 0; g < units.size(); ++g) {
    bool any = false;
    for (size_t j = g * 16; j < g * 16 + 16; ++j) any = any || products[j].mantissa != 0;
    const Big size = units[g] < 0 ? -units[g] : units[g];
    if (any && scale_of[g * 16] < scale_top && size < least) continue;
    sum += units[g];
  }
  return Single(sum, q);
}

// ---- memory ----

struct Machine {
  std::vector<uint8_t> shared[2] = {std::vector<uint8_t>(kSharedBytes),
                                    std::vector<uint8_t>(kSharedBytes)};
  TensorMemory tensor[2];
};

// An instruction as bits, and as the model reads them.
struct Instruction {
  MmaForm form;
  uint32_t idesc = 0;
  uint64_t a_desc = 0, b_desc = 0;
  uint32_t d = 0, a = 0, sfa = 0, sfb = 0;
  bool add = false;
  uint32_t c_scale = 0;
  uint32_t M() const {
    return IsScaled(form.kind) ? (idesc >> 27 & 3) * 128 : (idesc >> 24 & 31) * 16;
  }
  uint32_t N() const { return (idesc >> 17 & 63) * 8; }
};

inline int BitsOfFormat(MmaFormat f) {
  switch (f) {
    case MmaFormat::kTf32: return 32;
    case MmaFormat::kF16:
    case MmaFormat::kBf16: return 16;
    case MmaFormat::kE2m3:
    case MmaFormat::kE3m2: return 6;
    case MmaFormat::kE2m1: return 4;
    case MmaFormat::kE4m3:
    case MmaFormat::kE5m2:
    case MmaFormat::kU8:
    case MmaFormat::kS8: break;
  }
  return 8;
}

// Element (mn, k) in shared memory, by ((T, n, m), (8, k)) and ((8, m), (T, 2k)).
struct InShared {
  const std::vector<uint8_t>& shared;
  uint64_t desc;
  bool mn_major;
  MmaFormat f;
  bool packed4;
};
inline std::optional<uint32_t> ElementAt(const InShared& of, uint32_t mn, uint32_t k) {
  const auto& [shared, desc, mn_major, f, packed4] = of;
  const uint64_t start = (desc & 0x3fff) * 16, lbo = (desc >> 16 & 0x3fff) * 16;
  const uint64_t sbo = (desc >> 32 & 0x3fff) * 16, mode = desc >> 61;
  const int bits = BitsOfFormat(f);
  const uint32_t t = bits >= 8 ? 128 / static_cast<uint32_t>(bits) : packed4 ? 32 : 16;
  const uint32_t n = mode == 0 ? 1 : mode == 6 ? 2 : mode == 4 ? 4 : 8;  // chunks of a row
  uint64_t byte = 0;
  uint32_t inside = 0;
  if (mn_major) {
    const uint32_t chunk = mn / t, group = mode == 1 ? 4 : 8;
    inside = mn % t;
    byte = chunk % n * 16 + chunk / n * (mode == 0 ? sbo : lbo) + k % group * n * 16 +
           k / group * (mode == 0 ? lbo : sbo);
  } else {
    inside = k % t;
    byte = mn % 8 * n * 16 + mn / 8 * sbo + k / t * (mode == 0 ? lbo : 16);
  }
  uint64_t at = (start + byte) & 0x3ffff;
  const uint64_t line = at - ((desc >> 49 & 7) << 7);
  if (mode == 1)
    at ^= (line >> 2) & 0x60;  // Swizzle<2, 5, 2>
  else
    at ^= (line >> 3) & (n == 8 ? 0x70 : n == 4 ? 0x30 : n == 2 ? 0x10 : 0);  // Swizzle<B, 4, 3>
  if (at + 16 > kSharedBytes) return std::nullopt;
  uint64_t low = 0, high = 0;
  std::memcpy(&low, &shared[at], 8);
  std::memcpy(&high, &shared[at + 8], 8);
  const uint32_t bit = inside * static_cast<uint32_t>(bits);
  unsigned __int128 word = static_cast<unsigned __int128>(high) << 64 | low;
  return static_cast<uint32_t>(word >> bit) & (bits == 32 ? ~0u : (1u << bits) - 1);
}

// Where result (r, n) lies: CTA, lane, column relative to D.
struct Place {
  uint32_t cta, lane, column;
};
inline Place PlaceOf(const Instruction& i, uint32_t r, uint32_t n) {
  const uint32_t m = i.M(), half = i.N() / 2, base = i.d >> 16;
  if (i.form.group == 2 && m == 256) return {r / 128, r % 128, n};
  if (i.form.group == 2) return {r / 64, r % 64 + (n >= half ? 64 : 0), n % half};
  if (m == 128) return {0, r, n};
  if (m == 64 && i.form.ws) return {0, r + (n >= half ? 64 : 0), n % half};
  if (m == 64) return {0, r / 16 * 32 + r % 16 + base, n};
  return {0, r + n / (i.N() / 4) * 32, n % (i.N() / 4)};
}

inline MmaFormat FormatOfCode(MmaKind kind, uint32_t code) {
  constexpr MmaFormat k8[] = {MmaFormat::kE4m3, MmaFormat::kE5m2, MmaFormat::kE5m2,
                              MmaFormat::kE2m3, MmaFormat::kE3m2, MmaFormat::kE2m1};
  switch (kind) {
    case MmaKind::kF16: return code ? MmaFormat::kBf16 : MmaFormat::kF16;
    case MmaKind::kTf32: return MmaFormat::kTf32;
    case MmaKind::kF8f6f4:
    case MmaKind::kMxf8f6f4: return k8[code % 6];
    case MmaKind::kI8: return code ? MmaFormat::kS8 : MmaFormat::kU8;
    case MmaKind::kMxf4:
    case MmaKind::kMxf4nvf4: return MmaFormat::kE2m1;
  }
  return {};
}

inline std::optional<uint32_t> Expected(const Instruction& i, const Machine& before, uint32_t r,
                                        uint32_t n) {
  const bool four = i.form.kind == MmaKind::kMxf4 || i.form.kind == MmaKind::kMxf4nvf4;
  const bool i8 = i.form.kind == MmaKind::kI8, scaled = IsScaled(i.form.kind);
  const MmaFormat fa = FormatOfCode(i.form.kind, i.idesc >> 7 & 7);
  const MmaFormat fb = FormatOfCode(i.form.kind, i.idesc >> 10 & (four ? 3 : 7));
  const uint32_t k_count = i.form.kind == MmaKind::kTf32  ? 8
                           : i.form.kind == MmaKind::kF16 ? 16
                           : four                         ? 64
                                                          : 32;
  const Place p = PlaceOf(i, r, n);
  const uint32_t a_rows = i.M() / i.form.group, b_rows = i.N() / i.form.group;
  Dot d;
  for (uint32_t k = 0; k < k_count; ++k) {
    std::optional<uint32_t> a, b;
    if (i.form.a_in_tensor) {
      const auto bits = static_cast<uint32_t>(BitsOfFormat(fa));
      const uint32_t bit = k * bits;
      const uint32_t word = before.tensor[p.cta].Column((i.a & 0xffff) + bit / 32)[p.lane];
      a = word >> (bit % 32) & (bits == 32 ? ~0u : (1u << bits) - 1);
    } else {
      a = ElementAt({before.shared[r / a_rows], i.a_desc, (i.idesc >> 15 & 1) != 0, fa, four},
                    r % a_rows, k);
    }
    b = ElementAt({before.shared[n / b_rows], i.b_desc, (i.idesc >> 16 & 1) != 0, fb, four},
                  n % b_rows, k);
    if (!a || !b) return std::nullopt;
    Term x = Decoded(fa, *a), y = Decoded(fb, *b);
    if (i.idesc >> 13 & 1)
      x.mantissa = -x.mantissa, x.special = x.special > 1 ? 5 - x.special : x.special;
    if (i.idesc >> 14 & 1)
      y.mantissa = -y.mantissa, y.special = y.special > 1 ? 5 - y.special : y.special;
    d.a.push_back(x), d.b.push_back(y);
  }
  d.c = before.tensor[p.cta].Column((i.d & 0xffff) + p.column)[p.lane];
  d.has_c = i.add;
  d.c_scale = static_cast<int>(i.c_scale);
  if (i8) {
    Big sum = i.add ? static_cast<int32_t>(d.c) : 0;
    for (size_t k = 0; k < d.a.size(); ++k) sum += d.a[k].mantissa * d.b[k].mantissa;
    if (i.idesc >> 3 & 1) sum = sum > INT32_MAX ? INT32_MAX : sum < INT32_MIN ? INT32_MIN : sum;
    return static_cast<uint32_t>(sum);
  }
  const bool ue4m3 = scaled && !(i.idesc >> 23 & 1);
  for (uint32_t s = 0; scaled && s < i.form.scales; ++s) {
    auto scale = [&](uint32_t at, uint32_t row, uint32_t id) {
      const uint32_t word = before.tensor[p.cta].Column((at & 0xffff) + row / 32)[row % 32];
      const uint32_t code = word >> 8 * (id + s) & 0xff;
      if (ue4m3) return Number(code & 0x7f, 4, 3, 7, 1);
      Term t;
      t.special = code == 255, t.mantissa = 1;
      t.raw = t.exponent = static_cast<int>(code) - 127;
      return t;
    };
    d.scale_a.push_back(scale(i.sfa, r % 128, i.idesc >> 29 & 3));
    d.scale_b.push_back(scale(i.sfb, n, i.idesc >> 4 & 3));
  }
  if (four) return FourBits(d, ue4m3);
  const bool half = !scaled && (i.idesc >> 4 & 3) == 0;
  return Window25(d, half ? MmaResult::kF16 : MmaResult::kF32);
}

}  // namespace tilec::runtime::emulator::model
