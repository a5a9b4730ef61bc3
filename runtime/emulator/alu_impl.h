// Included by alu_base.cc and alu_avx2.cc with TILEC_ALU naming the namespace. Everything is local
// to the including file, because the two are compiled with different instruction sets.
//
// The loops have a fixed trip count of 32 and rows never overlap partly (a result row may *be* an
// operand row), so `ivdep` holds and the compiler vectorises them.
//
// SPDX-License-Identifier: Apache-2.0

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

template <class T> struct LaneOf { using type = uint32_t; };
template <> struct LaneOf<uint64_t> { using type = uint64_t; };
template <> struct LaneOf<int64_t> { using type = uint64_t; };
template <> struct LaneOf<double> { using type = uint64_t; };
template <class T> using Lane = typename LaneOf<T>::type;
template <class T> struct UnsignedOf { using type = T; };
template <> struct UnsignedOf<int16_t> { using type = uint16_t; };
template <> struct UnsignedOf<int32_t> { using type = uint32_t; };
template <> struct UnsignedOf<int64_t> { using type = uint64_t; };
template <class T> using Unsigned = typename UnsignedOf<T>::type;
template <class T> struct WideOf;
template <> struct WideOf<uint16_t> { using type = uint32_t; };
template <> struct WideOf<int16_t> { using type = int32_t; };
template <> struct WideOf<uint32_t> { using type = uint64_t; };
template <> struct WideOf<int32_t> { using type = int64_t; };
template <> struct WideOf<uint64_t> { using type = unsigned __int128; };
template <> struct WideOf<int64_t> { using type = __int128; };
template <class T> using Wide = typename WideOf<T>::type;
template <class T> constexpr int kBits = sizeof(T) * 8;
template <class T> constexpr bool kSigned = T(-1) < T(0);

// Lane ↔ value of an integer type: the upper bits of a 32-bit lane are zero.
template <class T> ALWAYS T Get(Lane<T> x) { return static_cast<T>(x); }
template <class T> ALWAYS Lane<T> Put(T x) { return static_cast<Lane<T>>(static_cast<Unsigned<T>>(x)); }

// ---- integers ----
template <class T> struct IMov { static ALWAYS Lane<T> f(Lane<T> a) { return a; } };
template <class T> struct IAdd { static ALWAYS Lane<T> f(Lane<T> a, Lane<T> b) { return Put<T>(static_cast<T>(Unsigned<T>(a) + Unsigned<T>(b))); } };
template <class T> struct ISub { static ALWAYS Lane<T> f(Lane<T> a, Lane<T> b) { return Put<T>(static_cast<T>(Unsigned<T>(a) - Unsigned<T>(b))); } };
template <class T> struct IMul { static ALWAYS Lane<T> f(Lane<T> a, Lane<T> b) { return Put<T>(static_cast<T>(static_cast<Unsigned<T>>(a * b))); } };
template <class T> struct IMulHi { static ALWAYS Lane<T> f(Lane<T> a, Lane<T> b) {
  return Put<T>(static_cast<T>((static_cast<Wide<T>>(Get<T>(a)) * static_cast<Wide<T>>(Get<T>(b))) >> kBits<T>)); } };
template <class T> struct IMulWide { static ALWAYS Lane<Wide<T>> f(Lane<T> a, Lane<T> b) {
  return Put<Wide<T>>(static_cast<Wide<T>>(Get<T>(a)) * static_cast<Wide<T>>(Get<T>(b))); } };
template <class T> struct IMad { static ALWAYS Lane<T> f(Lane<T> a, Lane<T> b, Lane<T> c) { return IAdd<T>::f(IMul<T>::f(a, b), c); } };
template <class T> struct IMadHi { static ALWAYS Lane<T> f(Lane<T> a, Lane<T> b, Lane<T> c) { return IAdd<T>::f(IMulHi<T>::f(a, b), c); } };
template <class T> struct IMadWide { static ALWAYS Lane<Wide<T>> f(Lane<T> a, Lane<T> b, Lane<Wide<T>> c) {
  return IAdd<Wide<T>>::f(IMulWide<T>::f(a, b), c); } };
// Division by zero yields all ones; the most negative value by −1 yields itself, remainder 0.
template <class T> struct IDiv { static ALWAYS Lane<T> f(Lane<T> a, Lane<T> b) {
  T x = Get<T>(a), y = Get<T>(b);
  if (y == 0) return Put<T>(static_cast<T>(-1));
  if (kSigned<T> && y == static_cast<T>(-1)) return Put<T>(static_cast<T>(Unsigned<T>(0) - Unsigned<T>(x)));
  return Put<T>(static_cast<T>(x / y)); } };
template <class T> struct IRem { static ALWAYS Lane<T> f(Lane<T> a, Lane<T> b) {
  T x = Get<T>(a), y = Get<T>(b);
  if (y == 0) return Put<T>(x);
  if (kSigned<T> && y == static_cast<T>(-1)) return 0;
  return Put<T>(static_cast<T>(x % y)); } };
template <class T> struct IMin { static ALWAYS Lane<T> f(Lane<T> a, Lane<T> b) { return Get<T>(a) < Get<T>(b) ? a : b; } };
template <class T> struct IMax { static ALWAYS Lane<T> f(Lane<T> a, Lane<T> b) { return Get<T>(a) > Get<T>(b) ? a : b; } };
template <class T> struct IMinRelu { static ALWAYS Lane<T> f(Lane<T> a, Lane<T> b) { return IMax<T>::f(IMin<T>::f(a, b), 0); } };
template <class T> struct IMaxRelu { static ALWAYS Lane<T> f(Lane<T> a, Lane<T> b) { return IMax<T>::f(IMax<T>::f(a, b), 0); } };
template <class T> struct INeg { static ALWAYS Lane<T> f(Lane<T> a) { return Put<T>(static_cast<T>(Unsigned<T>(0) - Unsigned<T>(a))); } };
template <class T> struct IAbs { static ALWAYS Lane<T> f(Lane<T> a) { return Get<T>(a) < 0 ? INeg<T>::f(a) : a; } };
template <class T> struct IAnd { static ALWAYS Lane<T> f(Lane<T> a, Lane<T> b) { return a & b; } };
template <class T> struct IOr { static ALWAYS Lane<T> f(Lane<T> a, Lane<T> b) { return a | b; } };
template <class T> struct IXor { static ALWAYS Lane<T> f(Lane<T> a, Lane<T> b) { return a ^ b; } };
template <class T> struct INot { static ALWAYS Lane<T> f(Lane<T> a) { return Put<T>(static_cast<T>(~a)); } };
template <class T> struct ICnot { static ALWAYS Lane<T> f(Lane<T> a) { return a == 0 ? 1 : 0; } };
template <class T> struct IShl { static ALWAYS Lane<T> f(Lane<T> a, uint32_t b) {
  return b >= kBits<T> ? 0 : Put<T>(static_cast<T>(a << (b & (kBits<T> - 1)))); } };
template <class T> struct IShr { static ALWAYS Lane<T> f(Lane<T> a, uint32_t b) {
  uint32_t n = b >= kBits<T> ? kBits<T> - 1 : b;
  T r = static_cast<T>(Get<T>(a) >> n);
  return !kSigned<T> && b >= kBits<T> ? 0 : Put<T>(r); } };
template <class T> struct ISad { static ALWAYS Lane<T> f(Lane<T> a, Lane<T> b, Lane<T> c) {
  T x = Get<T>(a), y = Get<T>(b);
  return IAdd<T>::f(c, x < y ? ISub<T>::f(b, a) : ISub<T>::f(a, b)); } };
struct AddSat32 { static ALWAYS uint32_t f(uint32_t a, uint32_t b) {
  int64_t r = int64_t{int32_t(a)} + int32_t(b);
  return static_cast<uint32_t>(r > INT32_MAX ? INT32_MAX : r < INT32_MIN ? INT32_MIN : r); } };
struct SubSat32 { static ALWAYS uint32_t f(uint32_t a, uint32_t b) {
  int64_t r = int64_t{int32_t(a)} - int32_t(b);
  return static_cast<uint32_t>(r > INT32_MAX ? INT32_MAX : r < INT32_MIN ? INT32_MIN : r); } };
// Packed 16-bit integers.
template <class T> struct Add16x2 { static ALWAYS uint32_t f(uint32_t a, uint32_t b) {
  return ((a + b) & 0xffff) | (((a >> 16) + (b >> 16)) << 16); } };
template <class H> struct Halves2 { static ALWAYS uint32_t f(uint32_t a, uint32_t b) {
  return H::f(a & 0xffff, b & 0xffff) | H::f(a >> 16, b >> 16) << 16; } };
template <class H> struct Halves1 { static ALWAYS uint32_t f(uint32_t a) {
  return H::f(a & 0xffff) | H::f(a >> 16) << 16; } };
template <class H> struct Halves3 { static ALWAYS uint32_t f(uint32_t a, uint32_t b, uint32_t c) {
  return H::f(a & 0xffff, b & 0xffff, c & 0xffff) | H::f(a >> 16, b >> 16, c >> 16) << 16; } };
template <bool kWrap> struct ShfL { static ALWAYS uint32_t f(uint32_t a, uint32_t b, uint32_t c) {
  uint32_t n = kWrap ? c & 31 : c > 32 ? 32 : c;
  return n == 32 ? a : static_cast<uint32_t>(((uint64_t{b} << 32 | a) << n) >> 32); } };
template <bool kWrap> struct ShfR { static ALWAYS uint32_t f(uint32_t a, uint32_t b, uint32_t c) {
  uint32_t n = kWrap ? c & 31 : c > 32 ? 32 : c;
  return static_cast<uint32_t>((uint64_t{b} << 32 | a) >> n); } };
template <class T> struct Bfe { static ALWAYS Lane<T> f(Lane<T> a, uint32_t pos, uint32_t len) {
  pos &= 0xff, len &= 0xff;
  if (len == 0) return 0;
  constexpr uint32_t n = kBits<T>;
  if (pos >= n) return kSigned<T> && Get<T>(a) < 0 ? Put<T>(static_cast<T>(-1)) : 0;
  if (len > n - pos) {  // the sign fills what lies beyond the register
    return Put<T>(static_cast<T>(Get<T>(a) >> pos));
  }
  return Put<T>(static_cast<T>(static_cast<T>(a << (n - pos - len)) >> (n - len))); } };
template <class T> struct Bfi { static ALWAYS Lane<T> f(Lane<T> a, Lane<T> b, uint32_t pos, uint32_t len) {
  pos &= 0xff, len &= 0xff;
  constexpr uint32_t n = kBits<T>;
  if (len == 0 || pos >= n) return b;
  T ones = len >= n ? static_cast<T>(-1) : static_cast<T>((T(1) << len) - 1);
  T m = static_cast<T>(ones << pos);
  return (b & ~m) | ((a << pos) & m); } };
template <class T> struct Popc { static ALWAYS uint32_t f(Lane<T> a) { return static_cast<uint32_t>(__builtin_popcountll(a)); } };
template <class T> struct Clz { static ALWAYS uint32_t f(Lane<T> a) {
  return a == 0 ? kBits<T> : static_cast<uint32_t>(__builtin_clzll(a)) - (64 - kBits<T>); } };
template <class T, bool kAmount> struct Bfind { static ALWAYS uint32_t f(Lane<T> a) {
  Lane<T> x = Get<T>(a) < 0 ? static_cast<Lane<T>>(~a) : a;
  if (x == 0) return ~0u;
  uint32_t at = 63u - static_cast<uint32_t>(__builtin_clzll(x));
  return kAmount ? kBits<T> - 1 - at : at; } };
template <class T> struct Brev { static ALWAYS Lane<T> f(Lane<T> a) {
  uint64_t x = a;
  x = (x >> 1 & 0x5555555555555555ull) | (x & 0x5555555555555555ull) << 1;
  x = (x >> 2 & 0x3333333333333333ull) | (x & 0x3333333333333333ull) << 2;
  x = (x >> 4 & 0x0f0f0f0f0f0f0f0full) | (x & 0x0f0f0f0f0f0f0f0full) << 4;
  x = __builtin_bswap64(x);
  return static_cast<Lane<T>>(x >> (64 - kBits<T>)); } };
struct PrmtLane { static ALWAYS uint32_t f(uint32_t a, uint32_t b, uint32_t c) {
  uint64_t ab = uint64_t{b} << 32 | a;
  uint32_t r = 0;
  for (int k = 0; k < 4; ++k) {
    uint32_t s = c >> (4 * k) & 15;
    uint32_t byte = static_cast<uint32_t>(ab >> (8 * (s & 7))) & 0xff;
    if (s & 8) byte = byte & 0x80 ? 0xff : 0;
    r |= byte << (8 * k);
  }
  return r; } };
// Lanes of a selector under the modes f4e b4e rc8 ecl ecr rc16.
ALWAYS uint32_t PrmtSelector(int mode, uint32_t c) {
  uint32_t s = c & 3;
  switch (mode) {
    case 1: return 0x3210u + s * 0x1111u;                                        // f4e
    case 2: return s == 0 ? 0x5670u : s == 1 ? 0x6701u : s == 2 ? 0x7012u : 0x0123u;  // b4e
    case 3: return s * 0x1111u;                                                  // rc8
    case 4: return s == 0 ? 0x3210u : s == 1 ? 0x3211u : s == 2 ? 0x3222u : 0x3333u;  // ecl
    case 5: return s == 0 ? 0x0000u : s == 1 ? 0x1110u : s == 2 ? 0x2210u : 0x3210u;  // ecr
    case 6: return s & 1 ? 0x3232u : 0x1010u;                                    // rc16
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
           (k[3] & ~x & y & z) | (k[4] & x & ~y & ~z) | (k[5] & x & ~y & z) |
           (k[6] & x & y & ~z) | (k[7] & x & y & z);
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

// ---- floats ----
ALWAYS float F(uint32_t x) { return __builtin_bit_cast(float, x); }
ALWAYS uint32_t B(float x) { return __builtin_bit_cast(uint32_t, x); }
ALWAYS double Df(uint64_t x) { return __builtin_bit_cast(double, x); }
ALWAYS uint64_t Db(double x) { return __builtin_bit_cast(uint64_t, x); }
ALWAYS bool Nan32(uint32_t x) { return (x & 0x7fffffffu) > 0x7f800000u; }
ALWAYS uint32_t Ftz(uint32_t x) { return (x & 0x7f800000u) == 0 ? x & 0x80000000u : x; }
template <bool kFtz> ALWAYS uint32_t In(uint32_t x) { return kFtz ? Ftz(x) : x; }
// Canonical NaN, then .ftz, then .sat (which maps NaN to 0).
template <bool kFtz, bool kSat> ALWAYS uint32_t Out(float r) {
  uint32_t b = r != r ? 0x7fffffffu : B(r);
  if (kFtz) b = Ftz(b);
  if (kSat) b = r > 1.0f ? 0x3f800000u : r > 0.0f ? b : 0u;
  return b;
}
template <bool Z, bool S> struct FAdd { static ALWAYS uint32_t f(uint32_t a, uint32_t b) { return Out<Z, S>(F(In<Z>(a)) + F(In<Z>(b))); } };
template <bool Z, bool S> struct FSub { static ALWAYS uint32_t f(uint32_t a, uint32_t b) { return Out<Z, S>(F(In<Z>(a)) - F(In<Z>(b))); } };
template <bool Z, bool S> struct FMul { static ALWAYS uint32_t f(uint32_t a, uint32_t b) { return Out<Z, S>(F(In<Z>(a)) * F(In<Z>(b))); } };
template <bool Z, bool S> struct FFma { static ALWAYS uint32_t f(uint32_t a, uint32_t b, uint32_t c) {
  return Out<Z, S>(__builtin_fmaf(F(In<Z>(a)), F(In<Z>(b)), F(In<Z>(c)))); } };
template <bool Z> struct FDiv { static ALWAYS uint32_t f(uint32_t a, uint32_t b) { return Out<Z, false>(F(In<Z>(a)) / F(In<Z>(b))); } };
template <bool kMax, bool kNan> ALWAYS uint32_t MinMax32(uint32_t a, uint32_t b) {
  float x = F(a), y = F(b);
  uint32_t ordered = kMax ? (x > y ? a : b) : (x < y ? a : b);
  uint32_t tie = kMax ? a & b : a | b;          // only the sign of zero can differ
  uint32_t r = x == y ? tie : ordered;
  bool an = Nan32(a), bn = Nan32(b);
  if (kNan) return an || bn ? 0x7fffffffu : r;
  r = an ? b : bn ? a : r;
  return an && bn ? 0x7fffffffu : r;
}
template <bool Z, bool N> struct FMax { static ALWAYS uint32_t f(uint32_t a, uint32_t b) { return MinMax32<true, N>(In<Z>(a), In<Z>(b)); } };
template <bool Z, bool N> struct FMin { static ALWAYS uint32_t f(uint32_t a, uint32_t b) { return MinMax32<false, N>(In<Z>(a), In<Z>(b)); } };
// The result takes the sign a⊕b; magnitudes are compared.
template <bool kMax, bool N> struct FXorSign { static ALWAYS uint32_t f(uint32_t a, uint32_t b) {
  uint32_t r = MinMax32<kMax, N>(a & 0x7fffffffu, b & 0x7fffffffu);
  return Nan32(r) ? r : (r & 0x7fffffffu) | ((a ^ b) & 0x80000000u); } };
template <bool Z> struct FNeg { static ALWAYS uint32_t f(uint32_t a) { return In<Z>(a) ^ 0x80000000u; } };
template <bool Z> struct FAbs { static ALWAYS uint32_t f(uint32_t a) { return In<Z>(a) & 0x7fffffffu; } };
// copysign d, a, b: magnitude of b, sign of a.
struct FCopysign { static ALWAYS uint32_t f(uint32_t a, uint32_t b) { return (a & 0x80000000u) | (b & 0x7fffffffu); } };
struct DCopysign { static ALWAYS uint64_t f(uint64_t a, uint64_t b) { return (a & (1ull << 63)) | (b & ~(1ull << 63)); } };

ALWAYS uint64_t OutD(double r) { return r != r ? 0x7fffffffffffffffull : Db(r); }
struct DAdd { static ALWAYS uint64_t f(uint64_t a, uint64_t b) { return OutD(Df(a) + Df(b)); } };
struct DSub { static ALWAYS uint64_t f(uint64_t a, uint64_t b) { return OutD(Df(a) - Df(b)); } };
struct DMul { static ALWAYS uint64_t f(uint64_t a, uint64_t b) { return OutD(Df(a) * Df(b)); } };
struct DDiv { static ALWAYS uint64_t f(uint64_t a, uint64_t b) { return OutD(Df(a) / Df(b)); } };
struct DFma { static ALWAYS uint64_t f(uint64_t a, uint64_t b, uint64_t c) { return OutD(__builtin_fma(Df(a), Df(b), Df(c))); } };
template <bool kMax> struct DMinMax { static ALWAYS uint64_t f(uint64_t a, uint64_t b) {
  double x = Df(a), y = Df(b);
  if (x != x && y != y) return 0x7fffffffffffffffull;
  if (x != x) return b;
  if (y != y) return a;
  if (x == y) return kMax ? a & b : a | b;
  return (kMax ? x > y : x < y) ? a : b; } };
struct DNeg { static ALWAYS uint64_t f(uint64_t a) { return a ^ (1ull << 63); } };
struct DAbs { static ALWAYS uint64_t f(uint64_t a) { return a & ~(1ull << 63); } };

// bf16 and f16 through f32: sums, differences and products of two 11-bit significands are exact
// or rounded innocuously in f32's 24 bits, so rounding twice equals rounding once. FMA is not so
// lucky and goes through f64, whose 53 bits hold the exact product and, rounded to odd, the sum.
ALWAYS uint32_t FromBf(uint32_t x) { return x << 16; }
ALWAYS uint32_t ToBf(uint32_t b) {
  uint32_t r = (b + 0x7fffu + (b >> 16 & 1)) >> 16;
  return Nan32(b) ? 0x7fffu : r;
}
ALWAYS uint32_t FromHalf(uint32_t h) {  // exact, without branches
  uint32_t magnitude = (h & 0x7fffu) << 13;
  float scaled = F(magnitude) * F(0x77800000u);  // 2^112 moves the bias; subnormals normalise
  uint32_t b = (h & 0x7c00u) == 0x7c00u ? magnitude | 0x7f800000u : B(scaled);
  return b | (h & 0x8000u) << 16;
}
ALWAYS uint32_t ToHalf(uint32_t b) {
  uint32_t sign = b >> 16 & 0x8000u, m = b & 0x7fffffffu;
  // Subnormal results: adding 0.5 aligns the f16 unit with the f32 unit and rounds to even.
  uint32_t small = B(F(m) + 0.5f) - 0x3f000000u;
  uint32_t normal = (m - 0x38000000u + 0xfffu + (m >> 13 & 1)) >> 13;
  uint32_t r = m < 0x38800000u ? small : m >= 0x47800000u ? 0x7c00u : normal;
  return m > 0x7f800000u ? 0x7fffu : r | sign;
}
struct Bf { static ALWAYS uint32_t from(uint32_t x) { return FromBf(x); } static ALWAYS uint32_t to(uint32_t x) { return ToBf(x); } static constexpr uint64_t kMin = 1; };
struct Hf { static ALWAYS uint32_t from(uint32_t x) { return FromHalf(x); } static ALWAYS uint32_t to(uint32_t x) { return ToHalf(x); } };
ALWAYS uint32_t FtzHalf(uint32_t h) { return (h & 0x7c00u) == 0 ? h & 0x8000u : h; }
template <class K, bool Z> ALWAYS uint32_t InH(uint32_t h) { return Z ? FtzHalf(h) : h; }
template <class K, bool Z, bool S> ALWAYS uint32_t OutH(uint32_t h) {
  if (Z) h = FtzHalf(h);
  if (S) { float x = F(K::from(h)); h = x > 1.0f ? K::to(0x3f800000u) : x > 0.0f ? h : 0u; }
  return h;
}
template <class K, bool Z, bool S> struct HAdd { static ALWAYS uint32_t f(uint32_t a, uint32_t b) { return OutH<K, Z, S>(K::to(B(F(K::from(InH<K, Z>(a))) + F(K::from(InH<K, Z>(b)))))); } };
template <class K, bool Z, bool S> struct HSub { static ALWAYS uint32_t f(uint32_t a, uint32_t b) { return OutH<K, Z, S>(K::to(B(F(K::from(InH<K, Z>(a))) - F(K::from(InH<K, Z>(b)))))); } };
template <class K, bool Z, bool S> struct HMul { static ALWAYS uint32_t f(uint32_t a, uint32_t b) { return OutH<K, Z, S>(K::to(B(F(K::from(InH<K, Z>(a))) * F(K::from(InH<K, Z>(b)))))); } };
// f64 sum rounded to odd, then to f32 by truncation keeping a sticky bit, then to 16 bits: the
// 24-bit intermediate with a sticky last bit rounds like the exact value.
ALWAYS uint32_t StickyF32(double p, double c) {
  double s = p + c;
  double bb = s - p, e = (p - (s - bb)) + (c - bb);  // exact error of the sum
  uint64_t sb = Db(s);
  bool finite = (sb & 0x7ff0000000000000ull) != 0x7ff0000000000000ull;
  if (finite && e != 0 && (sb & 1) == 0) sb += ((e > 0) == (s > 0)) ? 1 : -1;
  s = Df(sb);
  float r = static_cast<float>(s);
  uint32_t rb = B(r);
  double back = r;
  if (finite && back != s) {
    if ((r < 0 ? -back : back) > (s < 0 ? -s : s)) rb -= 1;  // toward zero
    rb |= 1;
  }
  return rb;
}
template <class K, bool Z, bool S, bool R> struct HFma { static ALWAYS uint32_t f(uint32_t a, uint32_t b, uint32_t c) {
  double p = double{F(K::from(InH<K, Z>(a)))} * double{F(K::from(InH<K, Z>(b)))};
  uint32_t r = OutH<K, Z, S>(K::to(StickyF32(p, double{F(K::from(InH<K, Z>(c)))})));
  if (R && (r & 0x8000u) && !Nan32(K::from(r))) r = 0;
  return r; } };
template <class K, bool kMax, bool N, bool Z> struct HMinMax { static ALWAYS uint32_t f(uint32_t a, uint32_t b) {
  return K::to(MinMax32<kMax, N>(K::from(InH<K, Z>(a)), K::from(InH<K, Z>(b)))); } };
struct HNeg { static ALWAYS uint32_t f(uint32_t a) { return a ^ 0x8000u; } };
struct HAbs { static ALWAYS uint32_t f(uint32_t a) { return a & 0x7fffu; } };

template <class T>
Step Selp(Warp& w, const Inst& i, uint32_t mask) {
  T *d = Row<T>(w, i.o[0]), *a = Row<T>(w, i.o[1]), *b = Row<T>(w, i.o[2]);
  uint32_t p = *Row<uint32_t>(w, i.o[3]);
  if (i.u[0]) p = ~p;
  if (mask == ~0u) {
#pragma GCC ivdep
    for (int l = 0; l < 32; ++l) d[l] = p >> l & 1 ? a[l] : b[l];
  } else {
    for (uint32_t m = mask; m != 0; m &= m - 1) {
      int l = __builtin_ctz(m);
      d[l] = p >> l & 1 ? a[l] : b[l];
    }
  }
  return Step::kNext;
}

// ---- predicates ----
template <Compare C> ALWAYS bool Holds(bool lt, bool eq, bool unordered) {
  switch (C) {
    case Compare::kEq: return eq;
    case Compare::kNe: return !eq && !unordered;
    case Compare::kLt: return lt;
    case Compare::kLe: return lt || eq;
    case Compare::kGt: return !lt && !eq && !unordered;
    case Compare::kGe: return !lt && !unordered;
    case Compare::kEqu: return eq || unordered;
    case Compare::kNeu: return !eq;
    case Compare::kLtu: return lt || unordered;
    case Compare::kLeu: return lt || eq || unordered;
    case Compare::kGtu: return !lt && !eq;
    case Compare::kGeu: return !lt;
    case Compare::kNum: return !unordered;
    case Compare::kNan: return unordered;
  }
  return false;
}
template <class T> struct CmpInt { using L = Lane<T>; template <Compare C> static ALWAYS bool f(L a, L b) {
  return Holds<C>(Get<T>(a) < Get<T>(b), a == b, false); } };
template <bool Z> struct CmpF32 { using L = uint32_t; template <Compare C> static ALWAYS bool f(L a, L b) {
  float x = F(In<Z>(a)), y = F(In<Z>(b)); return Holds<C>(x < y, x == y, x != x || y != y); } };
struct CmpF64 { using L = uint64_t; template <Compare C> static ALWAYS bool f(L a, L b) {
  double x = Df(a), y = Df(b); return Holds<C>(x < y, x == y, x != x || y != y); } };
template <class K> struct CmpHalf { using L = uint32_t; template <Compare C> static ALWAYS bool f(L a, L b) {
  float x = F(K::from(a)), y = F(K::from(b)); return Holds<C>(x < y, x == y, x != x || y != y); } };

ALWAYS void WritePredicates(Warp& w, const Inst& i, uint32_t mask, uint32_t r, uint32_t q) {
  if (i.u[3] != 0) {
    uint32_t c = *Row<uint32_t>(w, i.o[4]);
    if (i.u[4]) c = ~c;
    r = i.u[3] == 1 ? r & c : i.u[3] == 2 ? r | c : r ^ c;
    q = i.u[3] == 1 ? q & c : i.u[3] == 2 ? q | c : q ^ c;
  }
  if (i.u[1]) {
    uint32_t& d = *Row<uint32_t>(w, i.o[0]);
    d = (d & ~mask) | (r & mask);
  }
  if (i.u[2]) {
    uint32_t& d = *Row<uint32_t>(w, i.o[1]);
    d = (d & ~mask) | (q & mask);
  }
}
template <class K, Compare C>
Step Setp(Warp& w, const Inst& i, uint32_t mask) {
  using L = typename K::L;
  const L *a = Row<L>(w, i.o[2]), *b = Row<L>(w, i.o[3]);
  L bits[32];
  for (int l = 0; l < 32; ++l) bits[l] = K::template f<C>(a[l], b[l]) ? L(1) << (l & 31) : 0;
  L r = 0;
  for (int l = 0; l < 32; ++l) r |= bits[l];
  uint32_t p = static_cast<uint32_t>(r);
  WritePredicates(w, i, mask, p, ~p);
  return Step::kNext;
}
// Packed: p from the low halves, q from the high ones.
template <class K, Compare C>
Step SetpPacked(Warp& w, const Inst& i, uint32_t mask) {
  const uint32_t *a = Row<uint32_t>(w, i.o[2]), *b = Row<uint32_t>(w, i.o[3]);
  uint32_t p = 0, q = 0;
  for (int l = 0; l < 32; ++l) {
    if (CmpHalf<K>::template f<C>(a[l] & 0xffff, b[l] & 0xffff)) p |= 1u << l;
    if (CmpHalf<K>::template f<C>(a[l] >> 16, b[l] >> 16)) q |= 1u << l;
  }
  WritePredicates(w, i, mask, p, q);
  return Step::kNext;
}

#include "runtime/emulator/alu_tables.h"

}  // namespace

namespace TILEC_ALU {
Handler Find(AluOp op, Type type, AluFlags flags) { return FindAlu(op, type, flags); }
Handler FindSetp(Compare cmp, Type type, bool ftz) { return FindCompare(cmp, type, ftz); }
}  // namespace TILEC_ALU

}  // namespace tilec::runtime::emulator
