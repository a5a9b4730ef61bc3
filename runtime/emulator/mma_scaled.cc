// SPDX-License-Identifier: Apache-2.0
#include "runtime/emulator/mma_scaled.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "runtime/emulator/floats.h"
#include "runtime/emulator/tcgen05_math.h"
#include "runtime/emulator/tcgen05_window.h"

namespace tilec::runtime::emulator {
namespace {

using Wide = __int128;

constexpr int kRows = 16, kColumns = 8, kMostDepth = 64, kMostScales = 4, kLanesOfWarp = 32;

// The elements of A and B by place, and the scales of rows and columns.
struct Fragments {
  MmaValue a[kRows][kMostDepth], b[kColumns][kMostDepth];
  MmaValue scale_a[kRows][kMostScales], scale_b[kColumns][kMostScales];
};

// Element i of a lane's register: 4 bits side by side, or in a container of 8 bits, where those of
// four bits have two of padding below them.
uint32_t Code(const ScaledShape& s, MmaFormat f, uint32_t word, int i) {
  if (s.four_bits) return word >> (4 * i) & 0xf;
  const uint32_t byte = word >> (8 * i) & 0xff;
  if (f == MmaFormat::kE2m1) return byte >> 2 & 0xf;
  return f == MmaFormat::kE2m3 || f == MmaFormat::kE3m2 ? byte & 0x3f : byte;
}

void Unpack(const ScaledShape& s, const uint32_t* const* a, const uint32_t* const* b,
            Fragments* out) {
  const int each = s.four_bits ? 8 : 4;  // elements of a register
  for (int lane = 0; lane < kLanesOfWarp; ++lane) {
    const int group = lane / 4, of_group = lane % 4;
    for (int i = 0; i < 4 * each; ++i) {
      const int q = i / each;
      const int row = group + (q % 2 == 1 ? 8 : 0);
      const int k = of_group * each + i % each + (q >= 2 ? 4 * each : 0);
      out->a[row][k] = DecodeValue(s.a, Code(s, s.a, a[q][lane], i % each));
    }
    for (int i = 0; i < 2 * each; ++i) {
      const int q = i / each;
      const int k = of_group * each + i % each + (q == 1 ? 4 * each : 0);
      out->b[group][k] = DecodeValue(s.b, Code(s, s.b, b[q][lane], i % each));
    }
  }
}

void UnpackScales(const ScaledShape& s, const uint32_t* scales_a, const uint32_t* scales_b,
                  const ScaleSelectors& by, Fragments* out) {
  for (int lane = 0; lane < kLanesOfWarp; ++lane) {
    const int group = lane / 4, of_group = lane % 4;
    for (int i = 0; i < s.scales; ++i) {
      if (of_group / 2 == by.thread_a)
        out->scale_a[group + 8 * (of_group % 2)][i] =
            DecodeScale(s.ue4m3, scales_a[lane] >> (8 * (by.byte_a + i)) & 0xff);
      if (of_group == by.thread_b)
        out->scale_b[group][i] =
            DecodeScale(s.ue4m3, scales_b[lane] >> (8 * (by.byte_b + i)) & 0xff);
    }
  }
}

// Products of numbers are multiples of 2^kUnit (e5m2's least, twice), so that a block's are added
// as integers.
constexpr int kUnit = -32;

struct Block {
  Wide sum = 0;  // in units of 2^(kUnit + exponent)
  int exponent = 0;
};

// A number of two's complement that holds any sum of blocks and C exactly: its bit 0 is 2^kLeast.
// Blocks are multiples of 2^(-32 - 254 - 6) and less than 2^(31 + 254 + 8); C is within that.
class ExactSum {
 public:
  void Add(Wide value, int exponent) {
    const int shift = exponent - kLeast, first = shift / 64, bits = shift % 64;
    const uint64_t sign = value < 0 ? ~uint64_t{0} : 0;
    const auto low = static_cast<uint64_t>(value), high = static_cast<uint64_t>(value >> 64);
    const uint64_t parts[3] = {low << bits, bits == 0 ? high : high << bits | low >> (64 - bits),
                               bits == 0 ? sign : sign << bits | high >> (64 - bits)};
    unsigned carry = 0;
    for (int i = first; i < kWords; ++i) {
      const int part = i - first;
      const auto sum =
          static_cast<unsigned __int128>(words_[i]) + (part < 3 ? parts[part] : sign) + carry;
      words_[i] = static_cast<uint64_t>(sum);
      carry = static_cast<unsigned>(sum >> 64);
    }
  }

  uint32_t ToF32() const {
    uint64_t m[kWords];
    const bool negative = words_[kWords - 1] >> 63;
    uint64_t carry = negative ? 1 : 0;
    int top = -1;
    for (int i = 0; i < kWords; ++i) {
      m[i] = negative ? ~words_[i] + carry : words_[i];
      carry = carry != 0 && m[i] == 0 ? 1 : 0;
      if (m[i] != 0) top = 64 * i + std::bit_width(m[i]) - 1;
    }
    if (top < 0) return 0;
    const uint32_t sign = negative ? 0x80000000u : 0;
    const int exponent = std::max(top + kLeast, -126);
    const int last = exponent - 23 - kLeast;  // the bit that is f32's last
    const auto bit = [&](int at) { return at >= 0 && (m[at / 64] >> (at % 64) & 1) != 0; };
    uint32_t kept = 0;
    for (int i = 23; i >= 0; --i) kept = kept << 1 | (bit(last + i) ? 1u : 0u);
    bool rest = false;
    for (int i = 0; i < last - 1; ++i) rest = rest || bit(i);
    if (bit(last - 1) && (rest || (kept & 1) != 0)) ++kept;
    // A carry out of the fraction goes into the exponent by itself; a subnormal one has none.
    const uint32_t biased = static_cast<uint32_t>(exponent + 126) << 23;
    const uint64_t bits = uint64_t{biased} + kept;
    return sign | static_cast<uint32_t>(std::min<uint64_t>(bits, 0x7f800000u));
  }

 private:
  static constexpr int kLeast = -320, kWords = 11;  // up to 2^383
  uint64_t words_[kWords] = {};
};

// What infinities and NaN make of an output; 0: all is finite.
uint32_t Special(const ScaledShape& s, const Fragments& f, int row, int column, const MmaValue& c) {
  SpecialTerms terms;
  terms.Add(c);
  const int each = s.k() / s.scales;
  for (int k = 0; k < s.k(); ++k) {
    const MmaValue &sa = f.scale_a[row][k / each], &sb = f.scale_b[column][k / each];
    if (sa.kind == ValueClass::kNan || sb.kind == ValueClass::kNan) return kCanonicalNan32;
    terms.AddProduct(f.a[row][k], f.b[column][k]);
  }
  return terms.Result(false);
}

Block BlockOf(const ScaledShape& s, const Fragments& f, int row, int column, int index) {
  const int each = s.k() / s.scales, fractions = FractionBits(s.a) + FractionBits(s.b);
  Block out;
  for (int k = index * each; k < (index + 1) * each; ++k) {
    const MmaValue &x = f.a[row][k], &y = f.b[column][k];
    const Wide product = static_cast<Wide>(x.magnitude) * y.magnitude;
    const Wide units = product << (x.exponent + y.exponent - fractions - kUnit);
    out.sum += x.negative != y.negative ? -units : units;
  }
  const MmaValue &sa = f.scale_a[row][index], &sb = f.scale_b[column][index];
  out.sum *= static_cast<Wide>(sa.magnitude) * sb.magnitude;
  out.exponent = kUnit + sa.exponent + sb.exponent - (s.ue4m3 ? 6 : 0);
  return out;
}

uint32_t ScaledOutput(const ScaledShape& s, const Fragments& f, int row, int column,
                      uint32_t c_bits, Arithmetic arithmetic) {
  const MmaValue c = DecodeF32(c_bits);
  if (const uint32_t special = Special(s, f, row, column, c); special != 0) return special;
  ExactSum exact;
  auto sum = static_cast<double>(FloatOf(c_bits));
  for (int i = 0; i < s.scales; ++i) {
    const Block block = BlockOf(s, f, row, column, i);
    if (arithmetic == Arithmetic::kExact) {
      exact.Add(block.sum, block.exponent);
    } else {
      const double scaled = std::ldexp(static_cast<double>(block.sum), block.exponent);
      sum = static_cast<double>(static_cast<float>(sum + scaled));
    }
  }
  if (arithmetic != Arithmetic::kExact) return Bits(static_cast<float>(sum));
  const Wide magnitude = c.magnitude;
  exact.Add(c.negative ? -magnitude : magnitude, c.exponent - 23);
  return exact.ToF32();
}

}  // namespace

bool ValidateSelectors(const ScaledShape& shape, const ScaleSelectors& s, std::string* error) {
  const auto byte_fits = [&](uint16_t byte) {
    return byte % shape.scales == 0 && byte + shape.scales <= kMostScales;
  };
  if (byte_fits(s.byte_a) && byte_fits(s.byte_b) && s.thread_a <= 1 && s.thread_b <= 3) return true;
  *error = fmt::format(
      "selectors {{{}, {}}} and {{{}, {}}}: with .scale_vec::{}X bytes are {}, thread-id-a is 0 or "
      "1, thread-id-b 0 to 3",
      s.byte_a, s.thread_a, s.byte_b, s.thread_b, shape.scales,
      shape.scales == 1   ? "0 to 3"
      : shape.scales == 2 ? "0 or 2"
                          : "0");
  return false;
}

void MmaScaled(const ScaledShape& shape, const ScaledRegisters& registers,
               const ScaleSelectors& selectors, Arithmetic arithmetic) {
  Fragments f;
  Unpack(shape, registers.a, registers.b, &f);
  UnpackScales(shape, registers.scales_a, registers.scales_b, selectors, &f);
  uint32_t out[4][kLanesOfWarp];
  for (int i = 0; i < 4; ++i)
    for (int lane = 0; lane < kLanesOfWarp; ++lane)
      out[i][lane] = ScaledOutput(shape, f, lane / 4 + (i >= 2 ? 8 : 0), lane % 4 * 2 + i % 2,
                                  registers.c[i][lane], arithmetic);
  for (int i = 0; i < 4; ++i) std::memcpy(registers.d[i], out[i], sizeof out[i]);
}

}  // namespace tilec::runtime::emulator
