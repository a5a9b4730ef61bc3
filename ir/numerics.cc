// Rounding works on the bits of a double, once, straight to the target type: going through f32
// would round twice.
//
// SPDX-License-Identifier: Apache-2.0
#include "ir/numerics.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "support/check.h"

namespace tilec::ir {
namespace {

constexpr FloatFormat kF16{10, -14, 0x1p-14, 0x1p-11, 65504.0, false, false};
constexpr FloatFormat kBF16{7, -126, 0x1p-126, 0x1p-8, 0x1.FEp127, false, true};
constexpr FloatFormat kF32{23, -126, 0x1p-126, 0x1p-24, 0x1.FFFFFEp127, false, true};
constexpr FloatFormat kF64{52,    -1022, 0x1p-1022, 0x1p-53, std::numeric_limits<double>::max(),
                           false, false};
constexpr FloatFormat kE4M3{3, -6, 0x1p-6, 0x1p-4, 448.0, true, false};
// Scales have no negative values; ue8m0 has no zero either, and is rounded down (RoundScale).
constexpr FloatFormat kUE8M0{0, -127, 0x1p-127, 0.5, 0x1p127, true, false};
constexpr FloatFormat kE5M2{2, -14, 0x1p-14, 0x1p-3, 57344.0, true, false};

// Of a normal double.
constexpr double PowerOfTwo(int e) {
  return std::bit_cast<double>(static_cast<uint64_t>(e + 1023) << 52);
}

// Rounding constants of one format, for a loop.
struct Rounder {
  uint64_t mask, half;
  int drop;
  double min_normal, magic, max_finite, overflow;
  explicit Rounder(const FloatFormat& f)
      : mask(~((uint64_t{1} << (52 - f.mantissa)) - 1)),
        half((uint64_t{1} << (51 - f.mantissa)) - 1),
        drop(52 - f.mantissa),
        min_normal(f.min_normal),
        // Adding 1.5 · 2^(52 + exponent of the least subnormal) leaves multiples of it.
        magic(1.5 * PowerOfTwo(52 + f.min_exponent - f.mantissa)),
        max_finite(f.max_finite),
        overflow(f.saturates ? f.max_finite : std::numeric_limits<double>::infinity()) {}
  double operator()(double x) const {
    const uint64_t bits = std::bit_cast<uint64_t>(x);
    const double normal = std::bit_cast<double>((bits + half + ((bits >> drop) & 1)) & mask);
    const double small = std::copysign((std::fabs(x) + magic) - magic, x);
    double r = std::fabs(x) < min_normal ? small : normal;
    r = std::fabs(r) > max_finite ? std::copysign(overflow, x) : r;
    return x != x ? x : r;
  }
};

template <typename T>
T Raw(const std::byte* p) {
  T x;
  std::memcpy(&x, p, sizeof(T));
  return x;
}
template <typename T>
void Put(T x, std::byte* p) {
  std::memcpy(p, &x, sizeof(T));
}

// Bits of a small float (sign, exponent, mantissa) as a value.
double Decode(uint32_t bits, int exponent_bits, int mantissa, int bias) {
  const uint32_t top = (1u << exponent_bits) - 1;
  const uint32_t e = (bits >> mantissa) & top;
  const uint32_t m = bits & ((1u << mantissa) - 1);
  const double sign = (bits >> (exponent_bits + mantissa)) & 1 ? -1.0 : 1.0;
  if (e == 0) return sign * static_cast<double>(m) * PowerOfTwo(1 - bias - mantissa);
  return sign * static_cast<double>(m | (1u << mantissa)) *
         PowerOfTwo(static_cast<int>(e) - bias - mantissa);
}

// Inverse of Decode for a representable finite value.
uint32_t Encode(double x, int exponent_bits, int mantissa, int bias) {
  const uint32_t sign = std::signbit(x) ? 1u << (exponent_bits + mantissa) : 0;
  x = std::fabs(x);
  if (x == 0) return sign;
  int e = std::ilogb(x);
  if (e < 1 - bias) return sign | static_cast<uint32_t>(x * PowerOfTwo(mantissa + bias - 1));
  const auto m = static_cast<uint32_t>(x * PowerOfTwo(mantissa - e)) & ((1u << mantissa) - 1);
  return sign | static_cast<uint32_t>(e + bias) << mantissa | m;
}

}  // namespace

const FloatFormat& FormatOf(DType d) {
  switch (d) {
    case DType::kF16: return kF16;
    case DType::kBF16: return kBF16;
    case DType::kTF32:
    case DType::kF32: return kF32;
    case DType::kF64: return kF64;
    case DType::kE4M3: return kE4M3;
    case DType::kE5M2: return kE5M2;
    case DType::kUE8M0: return kUE8M0;
    case DType::kUE4M3: return kE4M3;
    case DType::kBool:
    case DType::kI8:
    case DType::kI16:
    case DType::kI32:
    case DType::kI64:
    case DType::kU8:
    case DType::kU16:
    case DType::kU32:
    case DType::kU64:
    case DType::kE2M1X2: break;
  }
  UNREACHABLE("FormatOf: not a float type");
}

double RoundScale(DType d, double x) {
  if (x != x) return x;
  if (d == DType::kUE4M3) return x > 0 ? Rounder(kE4M3)(x) : 0.0;
  x = std::clamp(std::fabs(x), 0x1p-127, 0x1p127);
  return PowerOfTwo(std::ilogb(x));
}

double Round(DType d, double x) {
  if (d == DType::kF64) return x;
  if (IsScale(d)) return RoundScale(d, x);
  if (d == DType::kF32 || d == DType::kTF32) return static_cast<double>(static_cast<float>(x));
  return Rounder(FormatOf(d))(x);
}

__attribute__((target_clones("avx2", "default"))) static void RoundF32(double* x, size_t n) {
  for (size_t i = 0; i < n; ++i) x[i] = static_cast<double>(static_cast<float>(x[i]));
}

void RoundAll(DType d, std::span<double> x) {
  if (d == DType::kF64) return;
  if (d == DType::kF32 || d == DType::kTF32) {
    RoundF32(x.data(), x.size());
    return;
  }
  if (IsScale(d)) {
    for (double& v : x) v = RoundScale(d, v);
    return;
  }
  const Rounder round(FormatOf(d));
  for (double& v : x) v = round(v);
}

double DropTf32Bits(double x) {
  const auto bits = std::bit_cast<uint32_t>(static_cast<float>(x));
  return static_cast<double>(std::bit_cast<float>(bits & ~uint32_t{0x1FFF}));
}

int64_t WrapInt(DType d, int64_t n) {
  switch (d) {
    case DType::kBool: return n != 0;
    case DType::kI8: return static_cast<int8_t>(n);
    case DType::kI16: return static_cast<int16_t>(n);
    case DType::kI32: return static_cast<int32_t>(n);
    case DType::kE2M1X2:
    case DType::kU8: return static_cast<uint8_t>(n);
    case DType::kU16: return static_cast<uint16_t>(n);
    case DType::kU32: return static_cast<uint32_t>(n);
    case DType::kI64:
    case DType::kU64: return n;
    case DType::kF16:
    case DType::kBF16:
    case DType::kTF32:
    case DType::kF32:
    case DType::kF64:
    case DType::kE4M3:
    case DType::kE5M2:
    case DType::kUE8M0:
    case DType::kUE4M3: break;
  }
  UNREACHABLE("WrapInt: not an integer type");
}

int64_t MinInt(DType d) {
  if (!IsSigned(d)) return 0;
  return INT64_MIN >> (64 - Info(d).bits);
}
int64_t MaxInt(DType d) {
  if (d == DType::kBool) return 1;
  if (IsSigned(d)) return ~MinInt(d);
  return Info(d).bits == 64 ? -1 : (int64_t{1} << Info(d).bits) - 1;
}

double LoadFloat(DType d, const std::byte* p) {
  switch (d) {
    case DType::kF16: {
      const uint32_t bits = Raw<uint16_t>(p);
      if ((bits & 0x7C00) == 0x7C00)
        return bits & 0x3FF ? std::nan("") : (bits >> 15 ? -1.0 : 1.0) * INFINITY;
      return Decode(bits, 5, 10, 15);
    }
    case DType::kBF16:
      return static_cast<double>(std::bit_cast<float>(uint32_t{Raw<uint16_t>(p)} << 16));
    case DType::kTF32:
    case DType::kF32: return static_cast<double>(Raw<float>(p));
    case DType::kF64: return Raw<double>(p);
    case DType::kE4M3: {
      const uint32_t bits = Raw<uint8_t>(p);
      return (bits & 0x7F) == 0x7F ? std::nan("") : Decode(bits, 4, 3, 7);
    }
    case DType::kUE8M0: {
      const uint32_t bits = Raw<uint8_t>(p);
      return bits == 0xFF ? std::nan("") : PowerOfTwo(static_cast<int>(bits) - 127);
    }
    case DType::kUE4M3: {
      const uint32_t bits = Raw<uint8_t>(p) & 0x7Fu;
      return bits == 0x7F ? std::nan("") : Decode(bits, 4, 3, 7);
    }
    case DType::kE5M2: {
      const uint32_t bits = Raw<uint8_t>(p);
      if ((bits & 0x7C) == 0x7C)
        return bits & 3 ? std::nan("") : (bits >> 7 ? -1.0 : 1.0) * INFINITY;
      return Decode(bits, 5, 2, 15);
    }
    case DType::kBool:
    case DType::kI8:
    case DType::kI16:
    case DType::kI32:
    case DType::kI64:
    case DType::kU8:
    case DType::kU16:
    case DType::kU32:
    case DType::kU64:
    case DType::kE2M1X2: break;
  }
  UNREACHABLE("LoadFloat: not a float type");
}

void StoreFloat(DType d, double x, std::byte* p) {
  x = Round(d, x);
  switch (d) {
    case DType::kF16:
      if (std::isnan(x)) return Put<uint16_t>(0x7FFF, p);
      if (std::isinf(x)) return Put<uint16_t>(x < 0 ? 0xFC00 : 0x7C00, p);
      return Put(static_cast<uint16_t>(Encode(x, 5, 10, 15)), p);
    case DType::kBF16:
      if (std::isnan(x)) return Put<uint16_t>(0x7FFF, p);
      return Put(static_cast<uint16_t>(std::bit_cast<uint32_t>(static_cast<float>(x)) >> 16), p);
    case DType::kTF32:
    case DType::kF32: return Put(static_cast<float>(x), p);
    case DType::kF64: return Put(x, p);
    case DType::kE4M3:
      if (std::isnan(x)) return Put<uint8_t>(0x7F, p);
      return Put(static_cast<uint8_t>(Encode(x, 4, 3, 7)), p);
    case DType::kUE8M0:
      if (std::isnan(x)) return Put<uint8_t>(0xFF, p);
      return Put(static_cast<uint8_t>(std::ilogb(x) + 127), p);
    case DType::kUE4M3:
      if (std::isnan(x)) return Put<uint8_t>(0x7F, p);
      return Put(static_cast<uint8_t>(Encode(x, 4, 3, 7)), p);
    case DType::kE5M2:
      if (std::isnan(x)) return Put<uint8_t>(0x7F, p);
      return Put(static_cast<uint8_t>(Encode(x, 5, 2, 15)), p);
    case DType::kBool:
    case DType::kI8:
    case DType::kI16:
    case DType::kI32:
    case DType::kI64:
    case DType::kU8:
    case DType::kU16:
    case DType::kU32:
    case DType::kU64:
    case DType::kE2M1X2: break;
  }
  UNREACHABLE("StoreFloat: not a float type");
}

int64_t LoadInt(DType d, const std::byte* p) {
  uint64_t bits = 0;
  std::memcpy(&bits, p, static_cast<size_t>(ByteSize(d)));
  return WrapInt(d, static_cast<int64_t>(bits));
}

void StoreInt(DType d, int64_t n, std::byte* p) {
  n = WrapInt(d, n);
  std::memcpy(p, &n, static_cast<size_t>(ByteSize(d)));
}

}  // namespace tilec::ir
