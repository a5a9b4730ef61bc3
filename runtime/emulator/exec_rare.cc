// Carries, bit fields, 24-bit products, tests of floats, doubles with directed rounding: one loop
// over the lanes each.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/emulator/exec_rare.h"

#include <algorithm>
#include <bit>
#include <cfenv>
#include <cmath>

#include "runtime/emulator/floats.h"
#include "runtime/emulator/handlers.h"

namespace tilec::runtime::emulator {
namespace {

template <typename U, typename S, typename Wide>
void Carry(Warp& w, const Inst& i, uint32_t mask) {
  const auto op = static_cast<CarryOp>(i.u[0]);
  const bool mad = op == CarryOp::kMadLo || op == CarryOp::kMadHi;
  const uint32_t in = i.u[1] ? Predicate(w, i.o[4]) : 0;
  uint32_t out = 0;
  U* d = Row<U>(w, i.o[0]);
  const U *a = Row<U>(w, i.o[1]), *b = Row<U>(w, i.o[2]), *c = mad ? Row<U>(w, i.o[3]) : nullptr;
  ForLanes(mask, [&](int l) {
    U x = a[l], y = b[l];
    if (mad) {
      const Wide product =
          i.u[4] ? static_cast<Wide>(static_cast<S>(x)) * static_cast<Wide>(static_cast<S>(y))
                 : static_cast<Wide>(x) * static_cast<Wide>(y);
      x = static_cast<U>(op == CarryOp::kMadHi ? product >> (8 * sizeof(U)) : product);
      y = c[l];
    }
    const U carry = in >> l & 1;
    U sum = 0;
    bool over = false;
    if (op == CarryOp::kSub) {  // the flag is a borrow
      over = __builtin_sub_overflow(x, y, &sum);
      over |= __builtin_sub_overflow(sum, carry, &sum);
    } else {
      over = __builtin_add_overflow(x, y, &sum);
      over |= __builtin_add_overflow(sum, carry, &sum);
    }
    d[l] = sum;
    out |= over ? 1u << l : 0;
  });
  if (i.u[2]) Predicate(w, i.o[5]) = (Predicate(w, i.o[5]) & ~mask) | out;
}

}  // namespace

Step RunCarry(Warp& w, const Inst& i, uint32_t mask) {
  if (i.u[3])
    Carry<uint64_t, int64_t, unsigned __int128>(w, i, mask);
  else
    Carry<uint32_t, int32_t, uint64_t>(w, i, mask);
  return Step::kNext;
}

namespace {

// d = op(a, b) of 32 bits. `.wrap` takes numbers of bits modulo 32, `.clamp` 32 at most.
template <typename Op>
Step OfBits(Warp& w, const Inst& i, uint32_t mask, Op op) {
  uint32_t* d = Row<uint32_t>(w, i.o[0]);
  const uint32_t *a = Row<uint32_t>(w, i.o[1]), *b = Row<uint32_t>(w, i.o[2]);
  const auto bits = [&](uint32_t n) { return i.u[0] ? n & 31 : std::min(n, 32u); };
  ForLanes(mask, [&](int l) { d[l] = op(a[l], b[l], bits); });
  return Step::kNext;
}

uint32_t Ones(uint32_t n) { return static_cast<uint32_t>((uint64_t{1} << n) - 1); }

}  // namespace

// `b` ones from bit `a` on.
Step RunBmsk(Warp& w, const Inst& i, uint32_t mask) {
  return OfBits(w, i, mask, [](uint32_t a, uint32_t b, auto bits) {
    return static_cast<uint32_t>(uint64_t{Ones(bits(b))} << bits(a));
  });
}

// The low `b` bits, extended by zeros or their sign.
Step RunSzext(Warp& w, const Inst& i, uint32_t mask) {
  return OfBits(w, i, mask, [&](uint32_t a, uint32_t b, auto bits) {
    const uint32_t n = bits(b), low = Ones(n);
    const bool negative = i.u[1] && n > 0 && (a >> (n - 1) & 1) != 0;
    return negative ? a | ~low : a & low;
  });
}

Step RunMul24(Warp& w, const Inst& i, uint32_t mask) {
  uint32_t* d = Row<uint32_t>(w, i.o[0]);
  const uint32_t *a = Row<uint32_t>(w, i.o[1]), *b = Row<uint32_t>(w, i.o[2]);
  const uint32_t* c = i.u[0] ? Row<uint32_t>(w, i.o[3]) : nullptr;
  ForLanes(mask, [&](int l) {
    // The low 32 bits of the product do not depend on how bit 23 is extended beyond them … but its
    // low 32 bits do take part of the sign.
    auto extend = [&](uint32_t x) {
      return i.u[1] ? static_cast<uint32_t>(static_cast<int32_t>(x << 8) >> 8) : x & 0xffffff;
    };
    uint32_t product = extend(a[l]) * extend(b[l]);
    if (i.u[2]) {  // bits 47 to 16 of the 48
      const auto wide = [&](uint32_t x) {
        return i.u[1] ? static_cast<int64_t>(static_cast<int32_t>(extend(x))) : int64_t{extend(x)};
      };
      product = static_cast<uint32_t>(static_cast<uint64_t>(wide(a[l]) * wide(b[l])) >> 16);
    }
    d[l] = product + (c != nullptr ? c[l] : 0);
  });
  return Step::kNext;
}

// Two 16-bit values of `a` by two bytes of `b`.
Step RunDp2a(Warp& w, const Inst& i, uint32_t mask) {
  uint32_t* d = Row<uint32_t>(w, i.o[0]);
  const uint32_t *a = Row<uint32_t>(w, i.o[1]), *b = Row<uint32_t>(w, i.o[2]);
  const uint32_t* c = Row<uint32_t>(w, i.o[3]);
  ForLanes(mask, [&](int l) {
    uint32_t sum = c[l];
    for (int k = 0; k < 2; ++k) {
      const uint32_t x = a[l] >> 16 * k & 0xffff, y = b[l] >> (8 * k + (i.u[0] ? 16 : 0)) & 0xff;
      const int32_t p = i.u[1] ? static_cast<int16_t>(x) : static_cast<int32_t>(x);
      const int32_t q = i.u[2] ? static_cast<int8_t>(y) : static_cast<int32_t>(y);
      sum += static_cast<uint32_t>(p * q);
    }
    d[l] = sum;
  });
  return Step::kNext;
}

// Two or four lanes of 16 or 8 bits in a word; `.add` sums them up.
Step RunVideo(Warp& w, const Inst& i, uint32_t mask) {
  uint32_t* d = Row<uint32_t>(w, i.o[0]);
  const uint32_t *a = Row<uint32_t>(w, i.o[1]), *b = Row<uint32_t>(w, i.o[2]);
  const uint32_t* c = Row<uint32_t>(w, i.o[3]);
  const uint32_t bits = i.u[1] ? 8 : 16, low = (1u << bits) - 1;
  auto part = [&](uint32_t x, uint32_t at, bool is_signed) -> int64_t {
    const uint32_t v = x >> at & low;
    return is_signed && (v >> (bits - 1) & 1) != 0 ? int64_t{v} - (int64_t{1} << bits) : v;
  };
  ForLanes(mask, [&](int l) {
    uint32_t out = 0, sum = c[l];
    for (uint32_t at = 0; at < 32; at += bits) {
      const int64_t x = part(a[l], at, i.u[3]), y = part(b[l], at, i.u[4]);
      int64_t r = i.u[0] == 0   ? x + y
                  : i.u[0] == 1 ? x - y
                  : i.u[0] == 2 ? std::abs(x - y)
                  : i.u[0] == 3 ? std::min(x, y)
                                : std::max(x, y);
      const int64_t most = i.u[2] ? low >> 1 : low, least = i.u[2] ? -most - 1 : 0;
      if (i.u[5] & 1) r = std::clamp(r, least, most);
      out |= (static_cast<uint32_t>(r) & low) << at;
      sum += static_cast<uint32_t>(r);
    }
    d[l] = i.u[5] & 2 ? sum : out;
  });
  return Step::kNext;
}

// The n-th set bit from `base` on: up where n > 0, down where n < 0; base itself where n = 0.
Step RunFns(Warp& w, const Inst& i, uint32_t mask) {
  uint32_t* d = Row<uint32_t>(w, i.o[0]);
  const uint32_t *a = Row<uint32_t>(w, i.o[1]), *base = Row<uint32_t>(w, i.o[2]);
  const uint32_t* n = Row<uint32_t>(w, i.o[3]);
  ForLanes(mask, [&](int l) {
    const auto offset = static_cast<int32_t>(n[l]);
    int64_t at = base[l], left = offset == 0 ? 1 : std::abs(int64_t{offset});
    const int step = offset < 0 ? -1 : 1;
    d[l] = ~0u;
    for (; at >= 0 && at < 32; at += step) {
      left -= a[l] >> at & 1;
      if (left == 0) break;
      if (offset == 0) return;
    }
    if (left == 0 && at >= 0 && at < 32) d[l] = static_cast<uint32_t>(at);
  });
  return Step::kNext;
}

Step RunTestp(Warp& w, const Inst& i, uint32_t mask) {
  uint32_t& d = Predicate(w, i.o[0]);
  ForLanes(mask, [&](int l) {
    int kind = 0;
    if (i.u[1])
      kind = std::fpclassify(DoubleOf(Row<uint64_t>(w, i.o[1])[l]));
    else
      kind = std::fpclassify(FloatOf(Row<uint32_t>(w, i.o[1])[l]));
    const bool is[] = {
        kind != FP_NAN && kind != FP_INFINITE, kind == FP_INFINITE, kind != FP_NAN, kind == FP_NAN,
        kind == FP_NORMAL || kind == FP_ZERO,  kind == FP_SUBNORMAL};
    d = is[i.u[0]] ? d | 1u << l : d & ~(1u << l);
  });
  return Step::kNext;
}

// 1/x or 1/√x of a double in its upper 32 bits, as the ISA has it: the lower half of the operand is
// not looked at and that of the result is 0. The last bits are the emulator's own.
Step RunApprox64(Warp& w, const Inst& i, uint32_t mask) {
  uint64_t* d = Row<uint64_t>(w, i.o[0]);
  const uint64_t* a = Row<uint64_t>(w, i.o[1]);
  ForLanes(mask, [&](int l) {
    double x = DoubleOf(i.u[0] ? a[l] : a[l] & 0xffffffff00000000ull);
    if (std::fpclassify(x) == FP_SUBNORMAL) x = std::copysign(0.0, x);
    double r = i.u[0] ? 1 / std::sqrt(x) : 1 / x;
    if (std::fpclassify(r) == FP_SUBNORMAL) r = std::copysign(0.0, r);
    d[l] =
        std::isnan(r) ? 0x7fffffff00000000ull : Bits(r) & (i.u[0] ? ~0ull : 0xffffffff00000000ull);
  });
  return Step::kNext;
}

// The host rounds as it is told; `volatile` keeps the compiler from doing it earlier.
Step RunRounded64(Warp& w, const Inst& i, uint32_t mask) {
  static constexpr int kModes[] = {FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};
  uint64_t* d = Row<uint64_t>(w, i.o[0]);
  const int before = std::fegetround();
  std::fesetround(kModes[i.u[1]]);
  ForLanes(mask, [&](int l) {
    auto operand = [&](int k) { return DoubleOf(Row<uint64_t>(w, i.o[k])[l]); };
    volatile double a = operand(1), r = 0;
    switch (i.u[0]) {
      case 0: r = a + operand(2); break;
      case 1: r = a - operand(2); break;
      case 2: r = a * operand(2); break;
      case 3: r = a / operand(2); break;
      case 4: r = std::fma(static_cast<double>(a), operand(2), operand(3)); break;
      case 5: r = 1 / a; break;
      case 6: r = std::sqrt(static_cast<double>(a)); break;
    }
    const double result = r;
    d[l] = std::isnan(result) ? kInvalid64 : Bits(result);
  });
  std::fesetround(before);
  return Step::kNext;
}

// Two numbers, saturated, to the low end of `d`; what `c` has there goes up.
Step RunCvtSat(Warp& w, const Inst& i, uint32_t mask) {
  uint32_t* d = Row<uint32_t>(w, i.o[0]);
  const uint32_t *a = Row<uint32_t>(w, i.o[1]), *b = Row<uint32_t>(w, i.o[2]);
  const uint32_t* c = i.u[2] ? Row<uint32_t>(w, i.o[3]) : nullptr;
  const int bits = i.u[1];
  const int64_t low = i.u[0] ? -(int64_t{1} << (bits - 1)) : 0;
  const int64_t high = (int64_t{1} << (i.u[0] ? bits - 1 : bits)) - 1;
  const auto narrow = [&](uint32_t x) {
    const int64_t v = std::clamp<int64_t>(static_cast<int32_t>(x), low, high);
    return static_cast<uint32_t>(v) & ((1u << bits) - 1);
  };
  ForLanes(mask, [&](int l) {
    const uint32_t both = narrow(a[l]) << bits | narrow(b[l]);
    d[l] = c != nullptr ? c[l] << 2 * bits | both : both;
  });
  return Step::kNext;
}

Step RunLop3Bool(Warp& w, const Inst& i, uint32_t mask) {
  const uint32_t *a = Row<uint32_t>(w, i.o[1]), *b = Row<uint32_t>(w, i.o[2]);
  const uint32_t* c = Row<uint32_t>(w, i.o[3]);
  uint32_t* d = Row<uint32_t>(w, i.o[0]);
  const uint32_t q = i.u[1] ? ~Predicate(w, i.o[5]) : Predicate(w, i.o[5]);
  uint32_t some = 0;
  ForLanes(mask, [&](int l) {
    uint32_t r = 0;
    for (uint32_t k = 0; k < 8; ++k) {
      if ((i.imm >> k & 1) == 0) continue;
      r |= (k & 4 ? a[l] : ~a[l]) & (k & 2 ? b[l] : ~b[l]) & (k & 1 ? c[l] : ~c[l]);
    }
    d[l] = r;
    some |= r != 0 ? 1u << l : 0;
  });
  const uint32_t p = i.u[0] == 0 ? some & q : i.u[0] == 1 ? some | q : some ^ q;
  uint32_t& out = Predicate(w, i.o[4]);
  out = (out & ~mask) | (p & mask);
  return Step::kNext;
}

}  // namespace tilec::runtime::emulator
