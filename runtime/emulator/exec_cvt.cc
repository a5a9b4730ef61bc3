// cvt: every pair of types the table admits. The general handler goes through a wide integer or
// f64 value per lane; the frequent pairs have loops of their own.
//
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstring>

#include "runtime/emulator/floats.h"
#include "runtime/emulator/handlers.h"

namespace tilec::runtime::emulator {
namespace {

constexpr uint8_t kFtz = 1, kSat = 2, kRelu = 4, kSatfinite = 8, kRounds = 16;

int64_t MinOf(Type t) { return IsSigned(t) ? static_cast<int64_t>(~0ull << (TypeBits(t) - 1)) : 0; }
int64_t MaxOfSigned(Type t) { return static_cast<int64_t>((1ull << (TypeBits(t) - 1)) - 1); }
uint64_t MaxOfUnsigned(Type t) { return TypeBits(t) == 64 ? ~0ull : (1ull << TypeBits(t)) - 1; }

uint64_t Load(Warp& w, uint32_t row, int bits, int l) {
  return bits == 64 ? Row<uint64_t>(w, row)[l] : Row<uint32_t>(w, row)[l];
}
void Store(Warp& w, uint32_t row, int bits, int l, uint64_t v) {
  if (bits == 64)
    Row<uint64_t>(w, row)[l] = v;
  else
    Row<uint32_t>(w, row)[l] = static_cast<uint32_t>(bits == 16 ? v & 0xffff : v);
}

// The integer of type `t` in the low bits of `raw`, sign- or zero-extended to 64 bits.
uint64_t Extend(Type t, uint64_t raw) {
  int bits = TypeBits(t);
  if (bits == 64) return raw;
  raw &= (1ull << bits) - 1;
  if (IsSigned(t) && (raw >> (bits - 1) & 1)) raw |= ~0ull << bits;
  return raw;
}

double FloatValue(Type t, uint64_t raw, bool ftz) {
  switch (t) {
    case Type::kF16: return F16ToF32(static_cast<uint16_t>(raw));
    case Type::kBF16: return Bf16ToF32(static_cast<uint16_t>(raw));
    case Type::kF64: return DoubleOf(raw);
    case Type::kF32: {
      float x = FloatOf(static_cast<uint32_t>(raw));
      return ftz ? Flush(x) : x;
    }
    default: return 0;
  }
}

uint64_t IntToInt(Type d, Type a, uint64_t raw, bool sat) {
  uint64_t v = Extend(a, raw);
  if (sat) {
    if (IsSigned(a)) {
      int64_t x = static_cast<int64_t>(v);
      if (IsSigned(d)) {
        x = std::min(std::max(x, MinOf(d)), MaxOfSigned(d));
      } else {
        x = std::max<int64_t>(x, 0);
        if (static_cast<uint64_t>(x) > MaxOfUnsigned(d)) x = static_cast<int64_t>(MaxOfUnsigned(d));
      }
      v = static_cast<uint64_t>(x);
    } else {
      uint64_t hi = IsSigned(d) ? static_cast<uint64_t>(MaxOfSigned(d)) : MaxOfUnsigned(d);
      v = std::min(v, hi);
    }
  }
  return Extend(d, v);
}

uint64_t FloatToInt(Type d, Type a, uint64_t raw, Round round, bool ftz) {
  double x = FloatValue(a, raw, ftz);
  // NaN becomes 0, or the top bit alone when one side has 64 bits.
  uint64_t nan = a == Type::kF64 || TypeBits(d) == 64 ? 1ull << (TypeBits(d) - 1) : 0;
  if (IsSigned(d)) {
    int64_t as_signed = static_cast<int64_t>(Extend(d, nan));
    return Extend(d,
                  static_cast<uint64_t>(F64ToS64(x, round, MinOf(d), MaxOfSigned(d), as_signed)));
  }
  return F64ToU64(x, round, MaxOfUnsigned(d), nan);
}

float SatF32(float x) { return x > 1.0f ? 1.0f : x > 0.0f ? x : 0.0f; }

uint64_t IntToFloat(Type d, Type a, uint64_t raw, Round round, bool sat) {
  uint64_t v = Extend(a, raw);
  bool negative = IsSigned(a);
  switch (d) {
    case Type::kF64: {
      double r = negative ? S64ToF64(static_cast<int64_t>(v), round) : U64ToF64(v, round);
      if (sat) r = r > 1 ? 1 : r > 0 ? r : 0;
      return Bits(r);
    }
    case Type::kF32: {
      float r = negative ? S64ToF32(static_cast<int64_t>(v), round) : U64ToF32(v, round);
      return Bits(sat ? SatF32(r) : r);
    }
    case Type::kF16:
    case Type::kBF16: {
      // Through f64 rounded to odd, so that the second rounding is the only one that counts.
      double r =
          negative ? S64ToF64(static_cast<int64_t>(v), Round::kZero) : U64ToF64(v, Round::kZero);
      bool exact = negative
                       ? std::abs(r) < 9.3e18 && static_cast<int64_t>(r) == static_cast<int64_t>(v)
                       : r < 1.8e19 && static_cast<uint64_t>(r) == v;
      if (!exact) r = DoubleOf(Bits(r) | 1);
      Narrow how{.round = round};
      uint16_t h = d == Type::kF16 ? F64ToF16(r, how) : F64ToBf16(r, how);
      if (sat) {
        float f = SatF32(d == Type::kF16 ? F16ToF32(h) : Bf16ToF32(h));
        h = d == Type::kF16 ? F32ToF16(f) : F32ToBf16(f);
      }
      return h;
    }
    default: return 0;
  }
}

// A NaN as f64: sign and payload are kept, and it becomes quiet. 0: no NaN.
uint64_t NanAsF64(Type a, uint64_t raw) {
  uint64_t sign = 0, payload = 0;
  switch (a) {
    case Type::kF16: sign = raw >> 15, payload = raw << 42; break;
    case Type::kBF16: sign = raw >> 15, payload = raw << 45; break;
    case Type::kF32: sign = raw >> 31, payload = raw << 29; break;
    default: sign = raw >> 63, payload = raw; break;
  }
  if (!std::isnan(FloatValue(a, raw, false))) return 0;
  return (sign & 1) << 63 | 0x7ff0000000000000ull | kQuiet64 | (payload & (kQuiet64 - 1));
}

// What an H200 makes of a NaN, where that is not the canonical one. False: it is.
bool NanToFloat(Type d, Type a, uint64_t raw, uint8_t flags, uint64_t* out) {
  const uint64_t wide = NanAsF64(a, raw);
  if (wide == 0 || (flags & kSat)) return false;
  const bool ftz = flags & kFtz, rounds = flags & kRounds;
  if (d == Type::kF64) {
    *out = a == Type::kF64 && !rounds ? raw : ftz ? NanAsF64(a, kCanonicalNan32) : wide;
    return true;
  }
  if (a == Type::kF64 && (d == Type::kF16 || d == Type::kBF16)) {
    const int kept = d == Type::kF16 ? 10 : 7;
    *out = wide >> 63 << 15 | (wide << 1 >> (53 - kept) & 0x7fff);
    return true;
  }
  if (d != Type::kF32 || a == Type::kF64 || a == Type::kF16) return false;
  if (!ftz && (a != Type::kF32 || rounds)) return false;
  *out = ftz ? kCanonicalNan32 : raw;
  return true;
}

uint64_t FloatToFloat(Type d, Type a, uint64_t raw, Round round, uint8_t flags) {
  if (uint64_t nan = 0; NanToFloat(d, a, raw, flags, &nan)) return nan;
  bool ftz = flags & kFtz, sat = flags & kSat;
  Narrow how{.round = round,
             .satfinite = (flags & kSatfinite) != 0,
             .relu = (flags & kRelu) != 0,
             .ftz = ftz};
  if (d == Type::kTF32) return F32ToTf32(FloatOf(static_cast<uint32_t>(raw)), how);
  double x = FloatValue(a, raw, ftz);
  if (flags & kRounds) x = RoundToInteger(x, round), how.round = Round::kNearestEven;
  if (sat) x = x > 1 ? 1 : x > 0 ? x : 0;
  switch (d) {
    case Type::kF64: return Bits(x);
    case Type::kF32: return Bits(F64ToF32(x, how));
    case Type::kF16: return F64ToF16(x, how);
    case Type::kBF16: return F64ToBf16(x, how);
    default: return 0;
  }
}

}  // namespace

Step RunCvt(Warp& w, const Inst& i, uint32_t mask) {
  Type d = static_cast<Type>(i.u[0]), a = static_cast<Type>(i.u[1]);
  Round round = static_cast<Round>(i.u[2]);
  bool to_float = IsFloat(d), from_float = IsFloat(a);
  ForLanes(mask, [&](int l) {
    uint64_t raw = Load(w, i.o[1], i.u[5], l), r = 0;
    if (from_float && to_float)
      r = FloatToFloat(d, a, raw, round, i.u[3]);
    else if (from_float)
      r = FloatToInt(d, a, raw, round, i.u[3] & kFtz);
    else if (to_float)
      r = IntToFloat(d, a, raw, round, i.u[3] & kSat);
    else
      r = IntToInt(d, a, raw, i.u[3] & kSat);
    Store(w, i.o[0], i.u[4], l, r);
  });
  return Step::kNext;
}

Step RunCvtPack(Warp& w, const Inst& i, uint32_t mask) {
  Type d = static_cast<Type>(i.u[0]), a = static_cast<Type>(i.u[1]);
  Narrow how{.round = static_cast<Round>(i.u[2]),
             .satfinite = (i.u[3] & kSatfinite) != 0,
             .relu = (i.u[3] & kRelu) != 0};
  uint32_t *out = Row<uint32_t>(w, i.o[0]), *x = Row<uint32_t>(w, i.o[1]);
  auto narrow8 = [&](float v) -> uint32_t {
    return d == Type::kE4M3x2 ? F32ToE4m3(v, how) : F32ToE5m2(v, how);
  };
  if (a == Type::kF32) {
    uint32_t* y = Row<uint32_t>(w, i.o[2]);
    ForLanes(mask, [&](int l) {
      float hi = FloatOf(x[l]), lo = FloatOf(y[l]);
      switch (d) {
        case Type::kF16x2: out[l] = uint32_t{F32ToF16(hi, how)} << 16 | F32ToF16(lo, how); break;
        case Type::kBF16x2: out[l] = uint32_t{F32ToBf16(hi, how)} << 16 | F32ToBf16(lo, how); break;
        default: out[l] = narrow8(hi) << 8 | narrow8(lo);
      }
    });
  } else if (a == Type::kF16x2) {
    ForLanes(mask, [&](int l) {
      out[l] = narrow8(F16ToF32(static_cast<uint16_t>(x[l] >> 16))) << 8 |
               narrow8(F16ToF32(static_cast<uint16_t>(x[l])));
    });
  } else {
    auto widen = [&](uint32_t code) -> uint32_t {
      uint8_t c = static_cast<uint8_t>(code);
      return F32ToF16(a == Type::kE4M3x2 ? E4m3ToF32(c) : E5m2ToF32(c), how);
    };
    ForLanes(mask, [&](int l) { out[l] = widen(x[l] >> 8) << 16 | widen(x[l]); });
  }
  return Step::kNext;
}

Step RunCvtBf16x2(Warp& w, const Inst& i, uint32_t mask) {
  uint32_t* d = Row<uint32_t>(w, i.o[0]);
  uint32_t out[32];
  CvtBf16x2Warp(Row<float>(w, i.o[1]), Row<float>(w, i.o[2]), out, i.u[3] & kRelu);
  if (mask == ~0u)
    memcpy(d, out, sizeof out);
  else
    ForLanes(mask, [&](int l) { d[l] = out[l]; });
  return Step::kNext;
}

Step RunCvtF16x2(Warp& w, const Inst& i, uint32_t mask) {
  uint32_t* d = Row<uint32_t>(w, i.o[0]);
  uint32_t out[32];
  CvtF16x2Warp(Row<float>(w, i.o[1]), Row<float>(w, i.o[2]), out, i.u[3] & kRelu);
  if (mask == ~0u)
    memcpy(d, out, sizeof out);
  else
    ForLanes(mask, [&](int l) { d[l] = out[l]; });
  return Step::kNext;
}

#define SIMPLE(name, D, A, expr)                          \
  Step name(Warp& w, const Inst& i, uint32_t mask) {      \
    D* d = Row<D>(w, i.o[0]);                             \
    const A* a = Row<A>(w, i.o[1]);                       \
    if (mask == ~0u) {                                    \
      _Pragma("GCC ivdep") for (int l = 0; l < 32; ++l) { \
        A x = a[l];                                       \
        d[l] = expr;                                      \
      }                                                   \
    } else {                                              \
      ForLanes(mask, [&](int l) {                         \
        A x = a[l];                                       \
        d[l] = expr;                                      \
      });                                                 \
    }                                                     \
    return Step::kNext;                                   \
  }
SIMPLE(RunCvtU32U64, uint32_t, uint64_t, static_cast<uint32_t>(x))
SIMPLE(RunCvtU64U32, uint64_t, uint32_t, uint64_t{x})
SIMPLE(RunCvtS64S32, int64_t, int32_t, int64_t{x})
SIMPLE(RunCvtF32Bf16, float, uint32_t, Bf16ToF32(static_cast<uint16_t>(x)))
SIMPLE(RunCvtF32F16, float, uint32_t, F16ToF32(static_cast<uint16_t>(x)))
#undef SIMPLE

}  // namespace tilec::runtime::emulator
