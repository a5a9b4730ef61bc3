// Included by alu_base.cc and alu_avx2.cc with TILEC_ALU naming the namespace. Everything is local
// to the including file, because the two are compiled with different instruction sets.
//
// The loops have a fixed trip count of 32 and rows never overlap partly (a result row may *be* an
// operand row), so `ivdep` holds and the compiler vectorises them.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace tilec::runtime::emulator {
namespace {

#define ALWAYS __attribute__((always_inline)) inline

template <class F, class D, class A>
Step Map1(Warp& w, const Inst& i, uint32_t mask) {
  D* d = Row<D>(w, i.o[0]);
  const A* a = Row<A>(w, i.o[1]);
  if (mask == ~0u) {
#pragma GCC ivdep
    for (int l = 0; l < 32; ++l) d[l] = F::f(a[l]);
  } else {
    for (uint32_t m = mask; m != 0; m &= m - 1) {
      int l = __builtin_ctz(m);
      d[l] = F::f(a[l]);
    }
  }
  return Step::kNext;
}

template <class F, class D, class A, class B>
Step Map2(Warp& w, const Inst& i, uint32_t mask) {
  D* d = Row<D>(w, i.o[0]);
  const A* a = Row<A>(w, i.o[1]);
  const B* b = Row<B>(w, i.o[2]);
  if (mask == ~0u) {
#pragma GCC ivdep
    for (int l = 0; l < 32; ++l) d[l] = F::f(a[l], b[l]);
  } else {
    for (uint32_t m = mask; m != 0; m &= m - 1) {
      int l = __builtin_ctz(m);
      d[l] = F::f(a[l], b[l]);
    }
  }
  return Step::kNext;
}

template <class F, class D, class A, class B, class C>
Step Map3(Warp& w, const Inst& i, uint32_t mask) {
  D* d = Row<D>(w, i.o[0]);
  const A* a = Row<A>(w, i.o[1]);
  const B* b = Row<B>(w, i.o[2]);
  const C* c = Row<C>(w, i.o[3]);
  if (mask == ~0u) {
#pragma GCC ivdep
    for (int l = 0; l < 32; ++l) d[l] = F::f(a[l], b[l], c[l]);
  } else {
    for (uint32_t m = mask; m != 0; m &= m - 1) {
      int l = __builtin_ctz(m);
      d[l] = F::f(a[l], b[l], c[l]);
    }
  }
  return Step::kNext;
}

template <class T>
struct LaneOf {
  using type = uint32_t;
};
template <>
struct LaneOf<uint64_t> {
  using type = uint64_t;
};
template <>
struct LaneOf<int64_t> {
  using type = uint64_t;
};
template <>
struct LaneOf<double> {
  using type = uint64_t;
};
template <class T>
using Lane = typename LaneOf<T>::type;
template <class T>
struct UnsignedOf {
  using type = T;
};
template <>
struct UnsignedOf<int16_t> {
  using type = uint16_t;
};
template <>
struct UnsignedOf<int32_t> {
  using type = uint32_t;
};
template <>
struct UnsignedOf<int64_t> {
  using type = uint64_t;
};
template <class T>
using Unsigned = typename UnsignedOf<T>::type;
template <class T>
struct WideOf;
template <>
struct WideOf<uint16_t> {
  using type = uint32_t;
};
template <>
struct WideOf<int16_t> {
  using type = int32_t;
};
template <>
struct WideOf<uint32_t> {
  using type = uint64_t;
};
template <>
struct WideOf<int32_t> {
  using type = int64_t;
};
template <>
struct WideOf<uint64_t> {
  using type = unsigned __int128;
};
template <>
struct WideOf<int64_t> {
  using type = __int128;
};
template <class T>
using Wide = typename WideOf<T>::type;
template <class T>
constexpr int kBits = sizeof(T) * 8;
template <class T>
constexpr bool kSigned = T(-1) < T(0);

// Lane ↔ value of an integer type: the upper bits of a 32-bit lane are zero.
template <class T>
ALWAYS T Get(Lane<T> x) {
  return static_cast<T>(x);
}
template <class T>
ALWAYS Lane<T> Put(T x) {
  return static_cast<Lane<T>>(static_cast<Unsigned<T>>(x));
}

// ---- integers ----
template <class T>
struct IMov {
  static ALWAYS Lane<T> f(Lane<T> a) { return a; }
};
template <class T>
struct IAdd {
  static ALWAYS Lane<T> f(Lane<T> a, Lane<T> b) {
    return Put<T>(static_cast<T>(Unsigned<T>(a) + Unsigned<T>(b)));
  }
};
template <class T>
struct ISub {
  static ALWAYS Lane<T> f(Lane<T> a, Lane<T> b) {
    return Put<T>(static_cast<T>(Unsigned<T>(a) - Unsigned<T>(b)));
  }
};
template <class T>
struct IMul {
  static ALWAYS Lane<T> f(Lane<T> a, Lane<T> b) {
    return Put<T>(static_cast<T>(static_cast<Unsigned<T>>(a * b)));
  }
};
template <class T>
struct IMulHi {
  static ALWAYS Lane<T> f(Lane<T> a, Lane<T> b) {
    return Put<T>(static_cast<T>(
        (static_cast<Wide<T>>(Get<T>(a)) * static_cast<Wide<T>>(Get<T>(b))) >> kBits<T>));
  }
};
template <class T>
struct IMulWide {
  static ALWAYS Lane<Wide<T>> f(Lane<T> a, Lane<T> b) {
    return Put<Wide<T>>(static_cast<Wide<T>>(Get<T>(a)) * static_cast<Wide<T>>(Get<T>(b)));
  }
};
template <class T>
struct IMad {
  static ALWAYS Lane<T> f(Lane<T> a, Lane<T> b, Lane<T> c) {
    return IAdd<T>::f(IMul<T>::f(a, b), c);
  }
};
template <class T>
struct IMadHi {
  static ALWAYS Lane<T> f(Lane<T> a, Lane<T> b, Lane<T> c) {
    return IAdd<T>::f(IMulHi<T>::f(a, b), c);
  }
};
template <class T>
struct IMadWide {
  static ALWAYS Lane<Wide<T>> f(Lane<T> a, Lane<T> b, Lane<Wide<T>> c) {
    return IAdd<Wide<T>>::f(IMulWide<T>::f(a, b), c);
  }
};
// Division by zero yields all ones; the most negative value by −1 yields itself, remainder 0.
template <class T>
struct IDiv {
  static ALWAYS Lane<T> f(Lane<T> a, Lane<T> b) {
    T x = Get<T>(a), y = Get<T>(b);
    if (y == 0) return Put<T>(static_cast<T>(-1));
    if (kSigned<T> && y == static_cast<T>(-1))
      return Put<T>(static_cast<T>(Unsigned<T>(0) - Unsigned<T>(x)));
    return Put<T>(static_cast<T>(x / y));
  }
};
template <class T>
struct IRem {
  static ALWAYS Lane<T> f(Lane<T> a, Lane<T> b) {
    T x = Get<T>(a), y = Get<T>(b);
    if (y == 0) return Put<T>(x);
    if (kSigned<T> && y == static_cast<T>(-1)) return 0;
    return Put<T>(static_cast<T>(x % y));
  }
};
template <class T>
struct IMin {
  static ALWAYS Lane<T> f(Lane<T> a, Lane<T> b) { return Get<T>(a) < Get<T>(b) ? a : b; }
};
template <class T>
struct IMax {
  static ALWAYS Lane<T> f(Lane<T> a, Lane<T> b) { return Get<T>(a) > Get<T>(b) ? a : b; }
};
template <class T>
struct IMinRelu {
  static ALWAYS Lane<T> f(Lane<T> a, Lane<T> b) { return IMax<T>::f(IMin<T>::f(a, b), 0); }
};
template <class T>
struct IMaxRelu {
  static ALWAYS Lane<T> f(Lane<T> a, Lane<T> b) { return IMax<T>::f(IMax<T>::f(a, b), 0); }
};
template <class T>
struct INeg {
  static ALWAYS Lane<T> f(Lane<T> a) {
    return Put<T>(static_cast<T>(Unsigned<T>(0) - Unsigned<T>(a)));
  }
};
template <class T>
struct IAbs {
  static ALWAYS Lane<T> f(Lane<T> a) { return Get<T>(a) < 0 ? INeg<T>::f(a) : a; }
};
template <class T>
struct IAnd {
  static ALWAYS Lane<T> f(Lane<T> a, Lane<T> b) { return a & b; }
};
template <class T>
struct IOr {
  static ALWAYS Lane<T> f(Lane<T> a, Lane<T> b) { return a | b; }
};
template <class T>
struct IXor {
  static ALWAYS Lane<T> f(Lane<T> a, Lane<T> b) { return a ^ b; }
};
template <class T>
struct INot {
  static ALWAYS Lane<T> f(Lane<T> a) { return Put<T>(static_cast<T>(~a)); }
};
template <class T>
struct ICnot {
  static ALWAYS Lane<T> f(Lane<T> a) { return a == 0 ? 1 : 0; }
};
template <class T>
struct IShl {
  static ALWAYS Lane<T> f(Lane<T> a, uint32_t b) {
    return b >= kBits<T> ? 0 : Put<T>(static_cast<T>(a << (b & (kBits<T> - 1))));
  }
};
template <class T>
struct IShr {
  static ALWAYS Lane<T> f(Lane<T> a, uint32_t b) {
    uint32_t n = b >= kBits<T> ? kBits<T> - 1 : b;
    T r = static_cast<T>(Get<T>(a) >> n);
    return !kSigned<T> && b >= kBits<T> ? 0 : Put<T>(r);
  }
};
template <class T>
struct ISad {
  static ALWAYS Lane<T> f(Lane<T> a, Lane<T> b, Lane<T> c) {
    T x = Get<T>(a), y = Get<T>(b);
    return IAdd<T>::f(c, x < y ? ISub<T>::f(b, a) : ISub<T>::f(a, b));
  }
};
struct AddSat32 {
  static ALWAYS uint32_t f(uint32_t a, uint32_t b) {
    int64_t r = int64_t{int32_t(a)} + int32_t(b);
    return static_cast<uint32_t>(r > INT32_MAX ? INT32_MAX : r < INT32_MIN ? INT32_MIN : r);
  }
};
struct SubSat32 {
  static ALWAYS uint32_t f(uint32_t a, uint32_t b) {
    int64_t r = int64_t{int32_t(a)} - int32_t(b);
    return static_cast<uint32_t>(r > INT32_MAX ? INT32_MAX : r < INT32_MIN ? INT32_MIN : r);
  }
};
// Packed 16-bit integers.
template <class T>
struct Add16x2 {
  static ALWAYS uint32_t f(uint32_t a, uint32_t b) {
    return ((a + b) & 0xffff) | (((a >> 16) + (b >> 16)) << 16);
  }
};
template <class H>
struct Halves2 {
  static ALWAYS uint32_t f(uint32_t a, uint32_t b) {
    return H::f(a & 0xffff, b & 0xffff) | H::f(a >> 16, b >> 16) << 16;
  }
};
template <class H>
struct Halves1 {
  static ALWAYS uint32_t f(uint32_t a) { return H::f(a & 0xffff) | H::f(a >> 16) << 16; }
};
template <class H>
struct Halves3 {
  static ALWAYS uint32_t f(uint32_t a, uint32_t b, uint32_t c) {
    return H::f(a & 0xffff, b & 0xffff, c & 0xffff) | H::f(a >> 16, b >> 16, c >> 16) << 16;
  }
};
template <bool kWrap>
struct ShfL {
  static ALWAYS uint32_t f(uint32_t a, uint32_t b, uint32_t c) {
    uint32_t n = kWrap ? c & 31 : c > 32 ? 32 : c;
    return n == 32 ? a : static_cast<uint32_t>(((uint64_t{b} << 32 | a) << n) >> 32);
  }
};
template <bool kWrap>
struct ShfR {
  static ALWAYS uint32_t f(uint32_t a, uint32_t b, uint32_t c) {
    uint32_t n = kWrap ? c & 31 : c > 32 ? 32 : c;
    return static_cast<uint32_t>((uint64_t{b} << 32 | a) >> n);
  }
};
template <class T>
struct Bfe {
  static ALWAYS Lane<T> f(Lane<T> a, uint32_t pos, uint32_t len) {
    constexpr uint32_t n = kBits<T>;
    if (n == 32) pos &= 0xff, len &= 0xff;  // 64-bit fields take all bits of both
    if (len == 0) return 0;
    if (pos >= n) return kSigned<T> && Get<T>(a) < 0 ? Put<T>(static_cast<T>(-1)) : 0;
    if (len > n - pos) {  // the sign fills what lies beyond the register
      return Put<T>(static_cast<T>(Get<T>(a) >> pos));
    }
    return Put<T>(static_cast<T>(static_cast<T>(a << (n - pos - len)) >> (n - len)));
  }
};
template <class T>
struct Bfi {
  static ALWAYS Lane<T> f(Lane<T> a, Lane<T> b, uint32_t pos, uint32_t len) {
    constexpr uint32_t n = kBits<T>;
    if (n == 32) pos &= 0xff, len &= 0xff;
    if (len == 0 || pos >= n) return b;
    T ones = len >= n ? static_cast<T>(-1) : static_cast<T>((T(1) << len) - 1);
    T m = static_cast<T>(ones << pos);
    return (b & ~m) | ((a << pos) & m);
  }
};
template <class T>
struct Popc {
  static ALWAYS uint32_t f(Lane<T> a) { return static_cast<uint32_t>(__builtin_popcountll(a)); }
};
template <class T>
struct Clz {
  static ALWAYS uint32_t f(Lane<T> a) {
    return a == 0 ? kBits<T> : static_cast<uint32_t>(__builtin_clzll(a)) - (64 - kBits<T>);
  }
};
template <class T, bool kAmount>
struct Bfind {
  static ALWAYS uint32_t f(Lane<T> a) {
    Lane<T> x = Get<T>(a) < 0 ? static_cast<Lane<T>>(~a) : a;
    if (x == 0) return ~0u;
    uint32_t at = 63u - static_cast<uint32_t>(__builtin_clzll(x));
    return kAmount ? kBits<T> - 1 - at : at;
  }
};
template <class T>
struct Brev {
  static ALWAYS Lane<T> f(Lane<T> a) {
    uint64_t x = a;
    x = (x >> 1 & 0x5555555555555555ull) | (x & 0x5555555555555555ull) << 1;
    x = (x >> 2 & 0x3333333333333333ull) | (x & 0x3333333333333333ull) << 2;
    x = (x >> 4 & 0x0f0f0f0f0f0f0f0full) | (x & 0x0f0f0f0f0f0f0f0full) << 4;
    x = __builtin_bswap64(x);
    return static_cast<Lane<T>>(x >> (64 - kBits<T>));
  }
};
struct PrmtLane {
  static ALWAYS uint32_t f(uint32_t a, uint32_t b, uint32_t c) {
    uint64_t ab = uint64_t{b} << 32 | a;
    uint32_t r = 0;
    for (int k = 0; k < 4; ++k) {
      uint32_t s = c >> (4 * k) & 15;
      uint32_t byte = static_cast<uint32_t>(ab >> (8 * (s & 7))) & 0xff;
      if (s & 8) byte = byte & 0x80 ? 0xff : 0;
      r |= byte << (8 * k);
    }
    return r;
  }
};
// Lanes of a selector under the modes f4e b4e rc8 ecl ecr rc16.
ALWAYS uint32_t PrmtSelector(int mode, uint32_t c) {
  uint32_t s = c & 3;
  switch (mode) {
    case 1: return 0x3210u + s * 0x1111u;                                             // f4e
    case 2: return s == 0 ? 0x5670u : s == 1 ? 0x6701u : s == 2 ? 0x7012u : 0x0123u;  // b4e
    case 3: return s * 0x1111u;                                                       // rc8
    case 4: return s == 0 ? 0x3210u : s == 1 ? 0x3211u : s == 2 ? 0x3222u : 0x3333u;  // ecl
    case 5: return s == 0 ? 0x0000u : s == 1 ? 0x1110u : s == 2 ? 0x2210u : 0x3210u;  // ecr
    case 6: return s & 1 ? 0x3232u : 0x1010u;                                         // rc16
  }
  return c;
}
Step Prmt(Warp& w, const Inst& i, uint32_t mask) {
  if (i.u[0] == 0) return Map3<PrmtLane, uint32_t, uint32_t, uint32_t, uint32_t>(w, i, mask);
  uint32_t *d = Row<uint32_t>(w, i.o[0]), *a = Row<uint32_t>(w, i.o[1]);
  uint32_t *b = Row<uint32_t>(w, i.o[2]), *c = Row<uint32_t>(w, i.o[3]);
  for (uint32_t m = mask; m != 0; m &= m - 1) {
    int l = __builtin_ctz(m);
    d[l] = PrmtLane::f(a[l], b[l], PrmtSelector(i.u[0], c[l]));
  }
  return Step::kNext;
}
template <class T>
Step BfiStep(Warp& w, const Inst& i, uint32_t mask) {
  Lane<T>*d = Row<Lane<T>>(w, i.o[0]), *a = Row<Lane<T>>(w, i.o[1]), *b = Row<Lane<T>>(w, i.o[2]);
  uint32_t *c = Row<uint32_t>(w, i.o[3]), *n = Row<uint32_t>(w, i.o[4]);
  for (uint32_t m = mask; m != 0; m &= m - 1) {
    int l = __builtin_ctz(m);
    d[l] = Bfi<T>::f(a[l], b[l], c[l], n[l]);
  }
  return Step::kNext;
}
Step Lop3(Warp& w, const Inst& i, uint32_t mask) {
  uint32_t *d = Row<uint32_t>(w, i.o[0]), *a = Row<uint32_t>(w, i.o[1]);
  uint32_t *b = Row<uint32_t>(w, i.o[2]), *c = Row<uint32_t>(w, i.o[3]);
  uint32_t k[8];
  for (int t = 0; t < 8; ++t) k[t] = i.imm >> t & 1 ? ~0u : 0u;
  uint32_t r[32];
  for (int l = 0; l < 32; ++l) {
    uint32_t x = a[l], y = b[l], z = c[l];
    r[l] = (k[0] & ~x & ~y & ~z) | (k[1] & ~x & ~y & z) | (k[2] & ~x & y & ~z) |
           (k[3] & ~x & y & z) | (k[4] & x & ~y & ~z) | (k[5] & x & ~y & z) | (k[6] & x & y & ~z) |
           (k[7] & x & y & z);
  }
  for (int l = 0; l < 32; ++l) d[l] = mask >> l & 1 ? r[l] : d[l];
  return Step::kNext;
}
// dp4a: four byte products and a sum; signedness in u[0] (bit 0: a, bit 1: b).
Step Dp4a(Warp& w, const Inst& i, uint32_t mask) {
  uint32_t *d = Row<uint32_t>(w, i.o[0]), *a = Row<uint32_t>(w, i.o[1]);
  uint32_t *b = Row<uint32_t>(w, i.o[2]), *c = Row<uint32_t>(w, i.o[3]);
  for (uint32_t m = mask; m != 0; m &= m - 1) {
    int l = __builtin_ctz(m);
    int64_t sum = 0;
    for (int k = 0; k < 32; k += 8) {
      uint8_t x = static_cast<uint8_t>(a[l] >> k), y = static_cast<uint8_t>(b[l] >> k);
      sum += (i.u[0] & 1 ? int32_t{int8_t(x)} : int32_t{x}) *
             (i.u[0] & 2 ? int32_t{int8_t(y)} : int32_t{y});
    }
    d[l] = c[l] + static_cast<uint32_t>(sum);
  }
  return Step::kNext;
}

#include "runtime/emulator/alu_float.h"
#include "runtime/emulator/alu_tables.h"

}  // namespace

namespace TILEC_ALU {
Handler Find(AluOp op, Type type, AluFlags flags) { return FindAlu(op, type, flags); }
Handler FindSetp(Compare cmp, Type type, bool ftz) { return FindCompare(cmp, type, ftz); }
}  // namespace TILEC_ALU

}  // namespace tilec::runtime::emulator
