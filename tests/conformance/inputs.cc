// Inputs: for the first half of the threads all pairs of special values, for the second half
// random bits and ordinary numbers, everything a function of thread and operand.
//
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstring>
#include <limits>

#include "tests/conformance/case.h"

namespace tilec::conformance {
namespace {

uint64_t Hash(uint64_t a, uint64_t b) {
  uint64_t h = a * 0x9e3779b97f4a7c15ull ^ (b + 1) * 0xbf58476d1ce4e5b9ull;
  h ^= h >> 29;
  h *= 0x94d049bb133111ebull;
  return h ^ h >> 32;
}

// exponent, mantissa bits
struct Format {
  int e, m;
};
std::optional<Format> FormatOf(std::string_view t) {
  if (t == "f64") return Format{11, 52};
  if (t == "f32" || t == "tf32") return Format{8, 23};
  if (t == "f16" || t == "f16x2") return Format{5, 10};
  if (t == "bf16" || t == "bf16x2") return Format{8, 7};
  if (t == "e4m3" || t == "e4m3x2") return Format{4, 3};
  if (t == "e5m2" || t == "e5m2x2") return Format{5, 2};
  return std::nullopt;
}

// 32 special values of a format, as bits.
uint64_t SpecialFloat(Format f, uint64_t k) {
  const uint64_t one = uint64_t{1} << f.m, bias = (uint64_t{1} << (f.e - 1)) - 1;
  const uint64_t sign = uint64_t{1} << (f.e + f.m), inf = ((uint64_t{1} << f.e) - 1) << f.m;
  auto power = [&](int64_t p) {
    int64_t e = static_cast<int64_t>(bias) + p;
    e = std::min<int64_t>(std::max<int64_t>(e, 0), (int64_t{1} << f.e) - 1);
    return static_cast<uint64_t>(e) << f.m;
  };
  switch (k % 32) {
    case 0: return 0;
    case 1: return sign;
    case 2: return power(0);
    case 3: return sign | power(0);
    case 4: return inf;
    case 5: return sign | inf;
    case 6: return inf | one >> 1;             // quiet NaN
    case 7: return sign | inf | one >> 1 | 1;  // with sign and payload
    case 8: return inf | 1;                    // signalling NaN
    case 9: return 1;                          // smallest subnormal
    case 10: return sign | (one - 1);          // largest subnormal
    case 11: return one;                       // smallest normal
    case 12: return inf - 1;                   // largest
    case 13: return sign | (inf - 1);
    case 14: return power(0) | 1;
    case 15: return power(0) - 1;
    case 16: return power(-1);  // 0.5
    case 17: return sign | power(-1);
    case 18: return power(0) | one >> 1;  // 1.5
    case 19: return power(1) | one >> 2;  // 2.5
    case 20: return sign | power(1) | one >> 2;
    case 21: return power(f.m);  // integers from here on
    case 22: return power(f.m - 1) | 1;
    case 23: return power(7) | (one - 1);  // just below 256
    case 24: return sign | power(7);
    case 25: return power(15) | (one - 1);
    case 26: return power(31);
    case 27: return sign | power(31);
    case 28: return power(32) - 1;
    case 29: return power(63);
    case 30: return sign | power(63) | 1;
    case 31: return power(-f.m / 2) | one >> 1;
  }
  return 0;
}

uint64_t SpecialInteger(int bits, uint64_t k) {
  const uint64_t mask = bits == 64 ? ~0ull : (uint64_t{1} << bits) - 1;
  const uint64_t top = uint64_t{1} << (bits - 1);
  const uint64_t values[32] = {0,
                               1,
                               2,
                               3,
                               ~0ull,
                               ~1ull,
                               top,
                               top - 1,
                               top + 1,
                               top - 2,
                               0x5555555555555555ull,
                               0xaaaaaaaaaaaaaaaaull,
                               7,
                               8,
                               15,
                               16,
                               31,
                               32,
                               33,
                               63,
                               64,
                               65,
                               127,
                               128,
                               255,
                               256,
                               0x0f0f0f0f0f0f0f0full,
                               0x8001,
                               100,
                               1000003,
                               0xfffe,
                               0xfedcba9876543210ull};
  return values[k % 32] & mask;
}

uint64_t Special(std::string_view type, uint64_t k) {
  const int bits = TypeBits(type);
  const auto f = FormatOf(type);
  if (!f) return bits == 1 ? k & 1 : SpecialInteger(bits, k);
  const uint64_t low = SpecialFloat(*f, k);
  if (type.substr(type.size() - 2) != "x2") return low;
  return SpecialFloat(*f, k * 5 + 3) << (bits / 2) | low;
}

uint64_t Ordinary(std::string_view type, uint64_t h) {
  const auto f = FormatOf(type);
  const int bits = TypeBits(type);
  if (!f) return h & (bits == 64 ? ~0ull : (uint64_t{1} << bits) - 1) & 0xff;
  auto one = [&](uint64_t r) {  // magnitudes around 1
    const uint64_t bias = (uint64_t{1} << (f->e - 1)) - 1;
    const uint64_t e = bias + 2 - r % 6;
    return (r >> 60 & 1) << (f->e + f->m) | e << f->m | ((r >> 8) & ((uint64_t{1} << f->m) - 1));
  };
  if (type.substr(type.size() - 2) != "x2") return one(h);
  return one(Hash(h, 1)) << (bits / 2) | one(h);
}

}  // namespace

std::vector<uint8_t> Inputs(const Case& c) {
  const uint32_t threads = c.ctas * c.threads;
  std::vector<uint8_t> bytes(size_t{threads} * 32);
  const bool divides = c.name.substr(0, 4) == "div." || c.name.substr(0, 4) == "rem.";
  for (uint32_t t = 0; t < threads; ++t) {
    for (size_t k = 0; k < c.inputs.size(); ++k) {
      std::string_view type = c.inputs[k];
      const bool plain = type.substr(0, 1) == "~";  // no specials: sums stay finite
      if (plain) type.remove_prefix(1);
      const int bits = TypeBits(type);
      const uint64_t mask = bits == 64 ? ~0ull : (uint64_t{1} << bits) - 1;
      const uint64_t h = Hash(t, k);
      uint64_t v = 0;
      if (plain)
        v = Ordinary(type, h);
      else if (t < 1024)
        v = Special(type, k == 0 ? t / 32 : k == 1 ? t % 32 : h >> 20);
      else if (t % 4 < 2)
        v = h & mask;
      else
        v = t % 4 == 2 ? Ordinary(type, h) : k == 0 ? h & mask : Special(type, h >> 20);
      if (divides && k == 1 && !FormatOf(type) && (v == 0 || v == mask)) v = 3;
      std::memcpy(&bytes[t * 32 + k * 8], &v, 8);
    }
  }
  return bytes;
}

std::vector<uint8_t> Memory() {
  std::vector<uint8_t> bytes(kMemoryBytes);
  for (size_t k = 0; k < bytes.size(); k += 8) {
    const uint64_t h = Hash(k, 99);
    std::memcpy(&bytes[k], &h, 8);
  }
  return bytes;
}

}  // namespace tilec::conformance
