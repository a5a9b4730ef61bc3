// The windows of the scaled kinds of 4 bits, as published for a B200 (sf-tensor/tcgen05, MODEL.md,
// section 5). Exponents are those that codes name; "scaled" ones have the scales' added.
//
//   P  largest of the nonzero products, S  largest of their scale pairs, c  of C
//   C outranks all (c >= P):  unit 2^(c − 35); each 16 products are added exactly, then cut
//   else:                     unit 2^max(P − 39, c − 39, S − 35)
//     ue4m3: each 4 products are added exactly, then cut
//     ue8m0: each 16; where C outranks those 16, they are cut at 2^(c − 35) first; and if the
//            result is subnormal, groups of smaller scales count from 2^−174 on
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdlib>

#include "runtime/emulator/tcgen05_window.h"

namespace tilec::runtime::emulator {
namespace {

struct Group {
  int64_t sum = 0;  // of products without their scales, in quarters (e2m1 has one fraction bit)
  int64_t scaled = 0;
  int32_t exponent = 0;             // of `scaled`: its units are 2^exponent
  int32_t top = kNoExponent;        // scaled exponent of its largest product
  int32_t scale_top = kNoExponent;  // exponent of its scale pair, if a product is not zero
};

// value · 2^exponent in units of 2^unit, cut toward zero.
int64_t Cut(int64_t value, int32_t exponent, int32_t unit) {
  if (value == 0) return 0;
  const int32_t shift = exponent - unit;
  if (shift >= 0) return value << std::min(shift, 46);
  if (-shift >= 63) return 0;
  const int64_t magnitude = std::llabs(value) >> -shift;
  return value < 0 ? -magnitude : magnitude;
}

struct Output {
  const MmaProduct& p;
  uint32_t row, column;

  MmaValue A(uint32_t k) const { return Operand(p.task->a, p.a[size_t{k} * p.rows + row], true); }
  MmaValue B(uint32_t k) const {
    return Operand(p.task->b, p.b[size_t{column} * p.task->k() + k], false);
  }
  MmaValue Operand(MmaFormat f, uint32_t code, bool a) const {
    MmaValue v = DecodeValue(f, code);
    v.negative = v.negative != (a ? p.task->negate_a : p.task->negate_b);
    return v;
  }

  // Products [first, first + count), which have one pair of scales.
  Group Of(uint32_t first, uint32_t count, const MmaValue& sa, const MmaValue& sb) const {
    const int fraction = p.task->scale_ue4m3 ? 3 : 0;
    Group g;
    const int32_t scale = sa.exponent + sb.exponent;
    for (uint32_t k = first; k < first + count; ++k) {
      const MmaValue x = A(k), y = B(k);
      // Exponents of e2m1 are 0 to 2: in quarters a product is an integer.
      const int64_t product = (int64_t{x.magnitude} * y.magnitude) << (x.exponent + y.exponent);
      g.sum += x.negative != y.negative ? -product : product;
      if (product == 0 || sa.magnitude == 0 || sb.magnitude == 0) continue;
      g.top = std::max(g.top, x.exponent + y.exponent + scale);
      g.scale_top = scale;
    }
    g.scaled = g.sum * sa.magnitude * sb.magnitude;
    g.exponent = scale - 2 * fraction - 2;
    return g;
  }
};

int64_t UnitsOf(const MmaValue& c, int32_t unit) {
  const int64_t units = Cut(c.magnitude, c.exponent - 23, unit);
  return c.negative ? -units : units;
}

struct Tops {
  int32_t product = kNoExponent, scale = kNoExponent;
};
Tops TopsOf(const std::vector<Group>& groups) {
  Tops t;
  for (const Group& g : groups)
    t.product = std::max(t.product, g.top), t.scale = std::max(t.scale, g.scale_top);
  return t;
}

// C outranks every product: groups of 16 in its window.
uint32_t BehindC(const std::vector<Group>& sixteens, const MmaValue& c) {
  const int32_t unit = c.exponent - 35;
  int64_t units = UnitsOf(c, unit);
  for (const Group& g : sixteens) units += Cut(g.scaled, g.exponent, unit);
  return UnitsToF32(units, unit);
}

uint32_t Ue8m0Sum(const std::vector<Group>& sixteens, const MmaValue& c, const Tops& tops,
                  int32_t unit) {
  constexpr int32_t kFloor = -174;
  const bool has_c = c.magnitude != 0;
  std::vector<int64_t> units;
  int64_t all = UnitsOf(c, unit);
  for (const Group& g : sixteens) {
    int32_t own = unit;
    if (has_c && g.top != kNoExponent && c.exponent >= g.top) own = std::max(unit, c.exponent - 35);
    units.push_back(Cut(g.scaled, g.exponent, own) << (own - unit));
    all += units.back();
  }
  const uint32_t result = UnitsToF32(all, unit);
  const uint32_t magnitude = result & 0x7fffffffu;
  if (magnitude == 0 || magnitude >= 1u << 23) return result;
  const int64_t least = unit < kFloor ? int64_t{1} << std::min(kFloor - unit, 62) : 1;
  all = UnitsOf(c, unit);
  for (size_t k = 0; k < units.size(); ++k) {
    const bool small = sixteens[k].scale_top != kNoExponent && sixteens[k].scale_top < tops.scale &&
                       std::llabs(units[k]) < least;
    if (!small) all += units[k];
  }
  return UnitsToF32(all, unit);
}

uint32_t OutputOf(const Output& o, uint32_t c_bits) {
  const MmaProduct& p = o.p;
  const MmaTask& t = *p.task;
  const uint32_t scales = t.form.scales, block = t.k() / scales;
  std::vector<Group> sixteens, fours;
  for (uint32_t k = 0; k < t.k(); k += 16) {
    const uint32_t s = k / block;
    const MmaValue sa = DecodeScale(t.scale_ue4m3, p.scales_a[o.row * scales + s]);
    const MmaValue sb = DecodeScale(t.scale_ue4m3, p.scales_b[o.column * scales + s]);
    if (sa.kind == ValueClass::kNan || sb.kind == ValueClass::kNan) return kCanonicalNan32;
    sixteens.push_back(o.Of(k, 16, sa, sb));
    for (uint32_t j = k; t.scale_ue4m3 && j < k + 16; j += 4) fours.push_back(o.Of(j, 4, sa, sb));
  }
  const MmaValue c = p.accumulate ? DecodeF32(c_bits) : MmaValue{};
  SpecialTerms special;
  special.Add(c);
  if (const uint32_t result = special.Result(false); result != 0) return result;
  const Tops tops = TopsOf(sixteens);
  if (tops.product == kNoExponent) return p.accumulate ? c_bits : 0;
  if (c.magnitude != 0 && c.exponent >= tops.product) return BehindC(sixteens, c);
  const int32_t top = c.magnitude != 0 ? std::max(tops.product, c.exponent) : tops.product;
  const int32_t unit = std::max(top - 39, tops.scale - 35);
  if (!t.scale_ue4m3) return Ue8m0Sum(sixteens, c, tops, unit);
  int64_t units = UnitsOf(c, unit);
  for (const Group& g : fours) units += Cut(g.scaled, g.exponent, unit);
  return UnitsToF32(units, unit);
}

}  // namespace

void MultiplyFourBits(MmaProduct& p) {
  for (uint32_t c = 0; c < p.columns; ++c)
    for (uint32_t r = 0; r < p.rows; ++r) {
      uint32_t& d = p.d[c * p.stride + r];
      d = OutputOf({p, r, c}, d);
    }
}

}  // namespace tilec::runtime::emulator
