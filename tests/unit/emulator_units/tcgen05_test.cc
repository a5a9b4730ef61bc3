// tcgen05 instructions, one at a time, against a second model.
//
// The model below was written from the tables of PTX ISA 9.1 (9.7.16) and from the published rule of
// accumulation, and shares nothing with the unit: it finds one output at a time, addresses elements by
// the canonical layouts of 9.7.16.3.3 as CuTe writes them, and adds terms as 128-bit integers.
//
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <optional>
#include <random>
#include <vector>

#include "runtime/emulator/tcgen05_mma.h"

namespace tilec::runtime::emulator {
namespace {

using Big = __int128;
constexpr uint32_t kSharedBytes = 64 << 10;

// ---- numbers ----

struct Term {
  Big mantissa = 0;
  int exponent = 0;  // of the mantissa's lowest bit
  int raw = 0;       // that the code names
  int special = 0;   // 1 NaN, 2 +inf, 3 −inf
};

Term Number(uint32_t code, int exponent_bits, int fraction_bits, int bias, int top) {
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

Term Decoded(MmaFormat f, uint32_t code) {
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
Big Truncated(Big mantissa, int exponent, int quantum) {
  int shift = exponent - quantum;
  if (mantissa == 0 || shift < -120) return 0;
  if (shift >= 0) return mantissa << shift;
  return mantissa < 0 ? -(-mantissa >> -shift) : mantissa >> -shift;
}

uint32_t Single(Big units, int exponent) {
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

uint32_t Half(Big units, int exponent) {
  if (units == 0) return 0;
  const uint32_t sign = units < 0 ? 0x8000 : 0;
  // Through a double, which holds what is left after a sticky bit.
  Big m = units < 0 ? -units : units;
  bool sticky = false;
  while (m >= Big{1} << 50) sticky |= (m & 1) != 0, m >>= 1, ++exponent;
  double x = std::ldexp(static_cast<double>(static_cast<int64_t>(m * 2 + (sticky ? 1 : 0))),
                        exponent - 1);
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

uint32_t Infinite(int special, bool half) {
  if (special == 1) return half ? 0x7fff : 0x7fffffff;
  return (special == 2 ? 0u : half ? 0x8000u : 0x80000000u) | (half ? 0x7c00u : 0x7f800000u);
}

Term Product(const Term& x, const Term& y) {
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

uint32_t Window25(const Dot& d, MmaResult result) {
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
Term SumOf(const std::vector<Term>& terms, size_t first, size_t count) {
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

uint32_t FourBits(const Dot& d, bool ue4m3) {
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
  uint32_t M() const { return IsScaled(form.kind) ? (idesc >> 27 & 3) * 128 : (idesc >> 24 & 31) * 16; }
  uint32_t N() const { return (idesc >> 17 & 63) * 8; }
};

int BitsOfFormat(MmaFormat f) {
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
std::optional<uint32_t> ElementAt(const std::vector<uint8_t>& shared, uint64_t desc, bool mn_major,
                                  MmaFormat f, bool packed4, uint32_t mn, uint32_t k) {
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
Place PlaceOf(const Instruction& i, uint32_t r, uint32_t n) {
  const uint32_t m = i.M(), half = i.N() / 2, base = i.d >> 16;
  if (i.form.group == 2 && m == 256) return {r / 128, r % 128, n};
  if (i.form.group == 2) return {r / 64, r % 64 + (n >= half ? 64 : 0), n % half};
  if (m == 128) return {0, r, n};
  if (m == 64 && i.form.ws) return {0, r + (n >= half ? 64 : 0), n % half};
  if (m == 64) return {0, r / 16 * 32 + r % 16 + base, n};
  return {0, r + n / (i.N() / 4) * 32, n % (i.N() / 4)};
}

MmaFormat FormatOfCode(MmaKind kind, uint32_t code) {
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

std::optional<uint32_t> Expected(const Instruction& i, const Machine& before, uint32_t r,
                                 uint32_t n) {
  const bool four = i.form.kind == MmaKind::kMxf4 || i.form.kind == MmaKind::kMxf4nvf4;
  const bool i8 = i.form.kind == MmaKind::kI8, scaled = IsScaled(i.form.kind);
  const MmaFormat fa = FormatOfCode(i.form.kind, i.idesc >> 7 & 7);
  const MmaFormat fb = FormatOfCode(i.form.kind, i.idesc >> 10 & (four ? 3 : 7));
  const uint32_t k_count = i.form.kind == MmaKind::kTf32 ? 8 : i.form.kind == MmaKind::kF16 ? 16
                           : four                          ? 64
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
      a = ElementAt(before.shared[r / a_rows], i.a_desc, i.idesc >> 15 & 1, fa, four, r % a_rows, k);
    }
    b = ElementAt(before.shared[n / b_rows], i.b_desc, i.idesc >> 16 & 1, fb, four, n % b_rows, k);
    if (!a || !b) return std::nullopt;
    Term x = Decoded(fa, *a), y = Decoded(fb, *b);
    if (i.idesc >> 13 & 1) x.mantissa = -x.mantissa, x.special = x.special > 1 ? 5 - x.special : x.special;
    if (i.idesc >> 14 & 1) y.mantissa = -y.mantissa, y.special = y.special > 1 ? 5 - y.special : y.special;
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

// ---- random instructions ----

class Maker {
 public:
  explicit Maker(uint64_t seed) : rnd_(seed) {}
  uint32_t Pick(uint32_t n) { return static_cast<uint32_t>(rnd_() % n); }
  bool Coin() { return rnd_() & 1; }

  void FillBytes(Machine* m) {
    for (auto& shared : m->shared) {
      // Anything; or numbers of like size, as programs have; or few bits.
      const uint32_t how = Pick(4);
      for (size_t k = 0; k < shared.size(); ++k) {
        uint8_t v = static_cast<uint8_t>(rnd_());
        if (how == 1) v = k % 2 ? static_cast<uint8_t>(0x3a + (v & 0x87)) : v;
        if (how == 2) v &= 0xbb;
        if (how == 3 && k % 4 == 3) v = static_cast<uint8_t>(0x3e + (v & 0x83));
        shared[k] = v;
      }
    }
    for (TensorMemory& t : m->tensor)
      for (uint32_t c = 0; c < kTensorColumns; ++c)
        for (uint32_t l = 0; l < kTensorLanes; ++l) {
          uint32_t v = static_cast<uint32_t>(rnd_());
          // Scale factors: the same in all quarters, of any size or about 1.
          if (c >= 480) v = l < 32 ? (Coin() ? v & 0x7f7f7f7f : 0x7b7b7b7b + (v & 0x07070707))
                                   : t.Column(c)[l % 32];
          if (c < 256 && c % 2) v = (v & 0x83ffffff) | 0x3c000000;
          t.Column(c)[l] = v;
        }
  }

  Instruction Next() {
    Instruction i;
    i.form.kind = static_cast<MmaKind>(Pick(7));
    const bool scaled = IsScaled(i.form.kind), i8 = i.form.kind == MmaKind::kI8;
    const bool four = i.form.kind == MmaKind::kMxf4 || i.form.kind == MmaKind::kMxf4nvf4;
    i.form.group = Pick(3) == 0 ? 2 : 1;
    i.form.ws = !scaled && i.form.group == 1 && Pick(4) == 0;
    uint32_t m = 128;
    if (i.form.group == 2) m = scaled || Coin() ? 256 : 128;
    else if (i.form.ws) m = 32u << Pick(3);
    else if (!scaled && Coin()) m = 64;
    const uint32_t step = i.form.group == 2 ? 32 : 16;
    uint32_t n = i.form.ws ? 64 : step * (1 + Pick(Pick(8) == 0 ? 256 / step : 3));
    i.form.a_in_tensor = !i.form.ws && Pick(4) == 0;
    i.idesc = (n / 8) << 17 | (scaled ? (m / 128) << 27 : (m / 16) << 24);
    const bool f8 = i.form.kind == MmaKind::kF8f6f4 || i.form.kind == MmaKind::kMxf8f6f4;
    uint32_t ca = 0, cb = 0;
    constexpr uint32_t kCodes[] = {0, 1, 3, 4, 5};
    if (i.form.kind == MmaKind::kF16) ca = cb = Pick(2);
    if (i.form.kind == MmaKind::kTf32) ca = cb = 2;
    if (i8) ca = Pick(2), cb = Pick(2);
    if (f8) ca = kCodes[Pick(i.form.a_in_tensor ? 2 : 5)], cb = kCodes[Pick(5)];
    if (four) ca = cb = 1;
    i.idesc |= ca << 7 | cb << 10;
    const bool half = (i.form.kind == MmaKind::kF8f6f4 || (i.form.kind == MmaKind::kF16 && ca == 0)) &&
                      Coin();
    if (!scaled) i.idesc |= (i8 ? 2u : half ? 0u : 1u) << 4;
    if (i8 && Coin()) i.idesc |= 8;
    if (!i8 && Coin()) i.idesc |= Pick(4) << 13;
    if (!four && !i.form.a_in_tensor && Coin()) i.idesc |= 1u << 15;
    if (!four && Coin()) i.idesc |= 1u << 16;
    if (scaled) {
      i.form.scales = i.form.kind == MmaKind::kMxf8f6f4 ? 1
                      : i.form.kind == MmaKind::kMxf4 || Coin() ? 2 : 4;
      const bool ue4m3 = i.form.scales == 4 && Coin();
      if (!ue4m3) i.idesc |= 1u << 23;
      const uint32_t id = i.form.scales == 1 ? Pick(4) : i.form.scales == 2 ? Pick(2) * 2 : 0;
      i.idesc |= id << 29 | (i.form.scales == 1 ? Pick(4) : id) << 4;
    }
    const bool tf32 = i.form.kind == MmaKind::kTf32;
    i.a_desc = Descriptor(i.idesc >> 15 & 1, tf32);
    i.b_desc = Descriptor(i.idesc >> 16 & 1, tf32);
    const bool lane16 = m == 64 && !i.form.ws && i.form.group == 1 && Coin();
    i.d = (lane16 ? 16u << 16 : 0) | Pick(256 - n + 1);
    i.a = (lane16 ? 16u << 16 : 0) | (300 + Pick(100));
    i.sfa = 480 + Pick(8), i.sfb = 492 + Pick(8);
    i.add = Coin();
    i.c_scale = i.form.kind == MmaKind::kF16 || tf32 ? Pick(2) * Pick(16) : 0;
    return i;
  }

 private:
  uint64_t Descriptor(bool mn_major, bool tf32) {
    constexpr uint64_t kModes[] = {0, 2, 4, 6};
    const uint64_t mode = mn_major && tf32 ? 1 : kModes[Pick(4)];
    const uint64_t base = mode == 0 || Pick(4) != 0 ? 0 : Pick(8);
    return Pick(1024) | uint64_t{1 + Pick(160)} << 16 | uint64_t{1 + Pick(100)} << 32 | 1ull << 46 |
           base << 49 | mode << 61;
  }
  std::mt19937_64 rnd_;
};

// Runs it on the unit. False: it reaches outside of shared memory.
bool Run(const Instruction& i, Machine* m) {
  MmaTask task;
  MmaOperands o;
  std::string error;
  EXPECT_TRUE(DecodeMmaTask(i.form, i.idesc, &task, &error)) << error << std::hex << i.idesc;
  EXPECT_TRUE(DecodeTensorDescriptor(i.a_desc, &o.a_desc, &error)) << error;
  EXPECT_TRUE(DecodeTensorDescriptor(i.b_desc, &o.b_desc, &error)) << error;
  EXPECT_TRUE(SwizzleFits(task, task.transpose_b, o.b_desc, &error)) << error;
  o.d = TensorAddress::Of(i.d), o.a = TensorAddress::Of(i.a);
  o.scale_a = TensorAddress::Of(i.sfa), o.scale_b = TensorAddress::Of(i.sfb);
  o.accumulate = i.add, o.scale_c = i.c_scale;
  EXPECT_TRUE(CheckMmaAddresses(task, o, &error)) << error;
  TensorPart parts[2];
  for (int c = 0; c < 2; ++c)
    parts[c] = {&m->tensor[c], m->shared[c].data(), kSharedBytes};
  bool differ = false;
  const bool ok = RunMma(task, o, parts, Arithmetic::kExact, &error, &differ);
  EXPECT_FALSE(differ);
  return ok;
}

void RunMany(uint64_t seed, int instructions) {
  Maker maker(seed);
  Machine m;
  int ran = 0, outputs = 0, finite = 0;
  for (int k = 0; k < instructions; ++k) {
    if (k % 200 == 0) maker.FillBytes(&m);
    const Instruction i = maker.Next();
    struct Sample {
      uint32_t r, n;
      std::optional<uint32_t> want;
    };
    std::vector<Sample> samples;
    for (int s = 0; s < 6; ++s) {
      const uint32_t r = maker.Pick(i.M()), n = maker.Pick(i.N());
      samples.push_back({r, n, Expected(i, m, r, n)});
    }
    if (!Run(i, &m)) continue;
    ++ran;
    for (const Sample& s : samples) {
      const Place p = PlaceOf(i, s.r, s.n);
      const uint32_t got = m.tensor[p.cta].Column((i.d & 0xffff) + p.column)[p.lane];
      ASSERT_TRUE(s.want.has_value()) << "seed " << seed << ", instruction " << k;
      ASSERT_EQ(got, *s.want) << "seed " << seed << ", instruction " << k << ": kind::"
                              << MmaKindName(i.form.kind) << " idesc " << std::hex << i.idesc
                              << " row " << std::dec << s.r << " column " << s.n;
      ++outputs;
      finite += (got & 0x7f800000u) != 0x7f800000u;
    }
  }
  RecordProperty("ran", ran);
  EXPECT_GT(ran, instructions / 2);
  EXPECT_GT(finite, outputs / 3);
}

TEST(Tcgen05, RandomInstructionsAgreeWithASecondModel) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    RunMany(seed, 5000);
    if (HasFatalFailure()) return;
  }
}

// Registers of loads and stores, as CUTLASS' copy traits have them: (thread, register) → (lane, column).
TEST(Tcgen05, LoadsAndStoresMoveTheirWords) {
  for (TensorShape shape : {TensorShape::k32x32b, TensorShape::k16x64b, TensorShape::k16x128b,
                            TensorShape::k16x256b, TensorShape::k16x32bx2})
    for (uint32_t num : {1u, 2u, 4u, 8u, 16u, 32u, 64u, 128u})
      for (bool packed : {false, true}) {
        TensorTransfer t;
        t.shape = shape, t.num = num, t.packed = packed, t.half_split = 0;
        if (!t.Valid()) continue;
        const uint32_t factor = packed ? 2 : 1;
        if (shape == TensorShape::k16x32bx2) t.half_split = num * factor;
        if (t.columns() * t.accesses() > kTensorColumns) continue;
        TensorMemory memory;
        for (uint32_t c = 0; c < kTensorColumns; ++c)
          for (uint32_t l = 0; l < kTensorLanes; ++l) memory.Column(c)[l] = l << 16 | c;
        std::vector<uint32_t> values(size_t{t.registers()} * 32);
        std::vector<uint32_t*> rows;
        for (uint32_t r = 0; r < t.registers(); ++r) rows.push_back(&values[size_t{r} * 32]);
        t.Load(memory, {32, 0}, rows.data());
        std::vector<uint8_t> seen(size_t{kTensorLanes} * kTensorColumns);
        for (uint32_t r = 0; r < t.registers(); ++r)
          for (uint32_t l = 0; l < 32; ++l) {
            uint32_t lane = 0, column = 0;
            if (shape == TensorShape::k32x32b) lane = l, column = r;
            if (shape == TensorShape::k16x64b) lane = l / 4 + l % 2 * 8, column = l / 2 % 2 + 2 * r;
            if (shape == TensorShape::k16x128b)
              lane = l / 4 + r % 2 * 8, column = l % 4 + r / 2 * 4;
            if (shape == TensorShape::k16x256b)
              lane = l / 4 + r / 2 % 2 * 8, column = l % 4 * 2 + r % 2 + r / 4 * 8;
            if (shape == TensorShape::k16x32bx2) lane = l % 16, column = r + l / 16 * num;
            const uint32_t at = column * factor;
            const uint32_t want = packed ? (at & 0xffff) | (at + 1) << 16 : (lane + 32) << 16 | at;
            ASSERT_EQ(rows[r][l], want) << num << " " << r << " " << l;
            ++seen[size_t{lane} * kTensorColumns + at];
          }
        for (uint8_t n : seen) ASSERT_LE(n, 1);
        // And back.
        TensorMemory copy;
        t.Store(&copy, {32, 0}, rows.data());
        for (uint32_t c = 0; c < t.columns() * t.accesses(); ++c)
          for (uint32_t l = 32; l < 32 + t.lanes(); ++l)
            ASSERT_EQ(copy.Column(c)[l], packed ? c : memory.Column(c)[l]);
        ASSERT_TRUE(copy.Written(0, 32, t.lanes()));
        ASSERT_FALSE(copy.Written(0, 0, 128));
      }
}

TEST(Tcgen05, CopiesGoToTheirLanes) {
  std::vector<uint8_t> shared(8192);
  for (size_t k = 0; k < shared.size(); k += 4) std::memcpy(&shared[k], &k, 4);
  TensorMemory memory;
  const TensorPart part = {&memory, shared.data(), 8192};
  TensorDescriptor d;
  d.lbo = 2048, d.sbo = 128;
  std::string error;
  for (CopyShape shape : {CopyShape::k128x256b, CopyShape::k128x128b, CopyShape::k64x128b02,
                          CopyShape::k64x128b01, CopyShape::k32x128b}) {
    TensorCopy copy{shape};
    ASSERT_TRUE(RunCopy(copy, {0, 8}, d, part, &error)) << error;
    for (uint32_t lane = 0; lane < 128; ++lane) {
      uint32_t row = lane;
      if (shape == CopyShape::k32x128b) row = lane % 32;
      if (shape == CopyShape::k64x128b02) row = lane % 64;
      if (shape == CopyShape::k64x128b01) row = lane / 64 * 32 + lane % 32;
      for (uint32_t c = 0; c < copy.columns(); ++c)
        ASSERT_EQ(memory.Column(8 + c)[lane], row * 16 + c % 4 * 4 + c / 4 * 2048);
    }
  }
  d.start = 8192 - 16;
  EXPECT_FALSE(RunCopy({CopyShape::k32x128b}, {0, 0}, d, part, &error));
}

TEST(Tcgen05, AllocationsAreExact) {
  TensorMemory m;
  EXPECT_EQ(m.Allocate(256), 0u);
  EXPECT_EQ(m.Allocate(128), 256u);
  EXPECT_EQ(m.Allocate(256), std::nullopt);
  EXPECT_TRUE(m.Live(200, 100));
  EXPECT_FALSE(m.Live(380, 8));
  EXPECT_FALSE(m.Free(0, 128));
  EXPECT_TRUE(m.Free(0, 256));
  EXPECT_EQ(m.Allocate(128), 0u);
  EXPECT_EQ(m.used(), 256u);
}

// What CUTLASS' InstrDescriptor has for usual products.
TEST(Tcgen05, InstructionDescriptorsOfUsualProducts) {
  MmaTask t;
  std::string error;
  MmaForm f;
  ASSERT_TRUE(DecodeMmaTask(f, 0x08400490, &t, &error)) << error;
  EXPECT_EQ(t.m, 128u), EXPECT_EQ(t.n, 256u), EXPECT_EQ(t.a, MmaFormat::kBf16);
  f.group = 2;
  ASSERT_TRUE(DecodeMmaTask(f, 0x10400490, &t, &error)) << error;
  EXPECT_EQ(t.m, 256u);
  f.group = 1, f.kind = MmaKind::kMxf4nvf4, f.scales = 4;
  ASSERT_TRUE(DecodeMmaTask(f, 0x08200480, &t, &error)) << error;
  EXPECT_TRUE(t.scale_ue4m3), EXPECT_EQ(t.n, 128u);
  f.kind = MmaKind::kMxf8f6f4, f.scales = 1;
  ASSERT_TRUE(DecodeMmaTask(f, 0x08A00000 | 3 << 4 | 3 << 29, &t, &error)) << error;
  EXPECT_EQ(t.scale_id_a, 3);
  // Every single bit more than a right one is refused or means something.
  for (int bit : {2, 3, 6, 24, 25, 26, 31}) {
    EXPECT_FALSE(DecodeMmaTask(f, 0x08A00000 ^ 1u << bit, &t, &error)) << bit;
  }
}

}  // namespace
}  // namespace tilec::runtime::emulator
