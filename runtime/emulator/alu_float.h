// Floating-point operations, selection and comparison; part of alu_impl.h.
//
// NaN results are canonical. max and min return the operand that is no NaN and order the zeros.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

// ---- floats ----
ALWAYS float F(uint32_t x) { return __builtin_bit_cast(float, x); }
ALWAYS uint32_t B(float x) { return __builtin_bit_cast(uint32_t, x); }
ALWAYS double Df(uint64_t x) { return __builtin_bit_cast(double, x); }
ALWAYS uint64_t Db(double x) { return __builtin_bit_cast(uint64_t, x); }
ALWAYS bool Nan32(uint32_t x) { return (x & 0x7fffffffu) > 0x7f800000u; }
ALWAYS uint32_t Ftz(uint32_t x) { return (x & 0x7f800000u) == 0 ? x & 0x80000000u : x; }
template <bool kFtz>
ALWAYS uint32_t In(uint32_t x) {
  return kFtz ? Ftz(x) : x;
}
// Canonical NaN, then .ftz, then .sat (which maps NaN to 0).
template <bool kFtz, bool kSat>
ALWAYS uint32_t Out(float r) {
  uint32_t b = r != r ? 0x7fffffffu : B(r);
  if (kFtz) b = Ftz(b);
  if (kSat) b = r > 1.0f ? 0x3f800000u : r > 0.0f ? b : 0u;
  return b;
}
template <bool Z, bool S>
struct FAdd {
  static ALWAYS uint32_t f(uint32_t a, uint32_t b) { return Out<Z, S>(F(In<Z>(a)) + F(In<Z>(b))); }
};
template <bool Z, bool S>
struct FSub {
  static ALWAYS uint32_t f(uint32_t a, uint32_t b) { return Out<Z, S>(F(In<Z>(a)) - F(In<Z>(b))); }
};
template <bool Z, bool S>
struct FMul {
  static ALWAYS uint32_t f(uint32_t a, uint32_t b) {
    float x = F(In<Z>(a)), y = F(In<Z>(b)), r = x * y;
    // .ftz looks at the exact product: what rounding lifts to the smallest normal is flushed.
    if (Z && (B(r) & 0x7fffffffu) == 0x00800000u) {
      float rest = __builtin_fmaf(F(B(x) & 0x7fffffffu), F(B(y) & 0x7fffffffu), -0x1p-126f);
      r = (B(rest) & 0x80000000u) != 0 ? F(B(r) & 0x80000000u) : r;
    }
    return Out<Z, S>(r);
  }
};
template <bool Z, bool S>
struct FFma {
  static ALWAYS uint32_t f(uint32_t a, uint32_t b, uint32_t c) {
    return Out<Z, S>(__builtin_fmaf(F(In<Z>(a)), F(In<Z>(b)), F(In<Z>(c))));
  }
};
template <bool Z>
struct FDiv {
  static ALWAYS uint32_t f(uint32_t a, uint32_t b) {
    return Out<Z, false>(F(In<Z>(a)) / F(In<Z>(b)));
  }
};
template <bool kMax, bool kNan>
ALWAYS uint32_t MinMax32(uint32_t a, uint32_t b) {
  float x = F(a), y = F(b);
  uint32_t ordered = kMax ? (x > y ? a : b) : (x < y ? a : b);
  uint32_t tie = kMax ? a & b : a | b;  // only the sign of zero can differ
  uint32_t r = x == y ? tie : ordered;
  bool an = Nan32(a), bn = Nan32(b);
  if (kNan) return an || bn ? 0x7fffffffu : r;
  r = an ? b : bn ? a : r;
  return an && bn ? 0x7fffffffu : r;
}
template <bool Z, bool N>
struct FMax {
  static ALWAYS uint32_t f(uint32_t a, uint32_t b) { return MinMax32<true, N>(In<Z>(a), In<Z>(b)); }
};
template <bool Z, bool N>
struct FMin {
  static ALWAYS uint32_t f(uint32_t a, uint32_t b) {
    return MinMax32<false, N>(In<Z>(a), In<Z>(b));
  }
};
// The result takes the sign a⊕b; magnitudes are compared.
template <bool kMax, bool N>
struct FXorSign {
  static ALWAYS uint32_t f(uint32_t a, uint32_t b) {
    uint32_t r = MinMax32<kMax, N>(a & 0x7fffffffu, b & 0x7fffffffu);
    return Nan32(r) ? r : (r & 0x7fffffffu) | ((a ^ b) & 0x80000000u);
  }
};
template <bool Z>
struct FNeg {
  static ALWAYS uint32_t f(uint32_t a) { return Nan32(a) ? 0x7fffffffu : In<Z>(a) ^ 0x80000000u; }
};
template <bool Z>
struct FAbs {
  static ALWAYS uint32_t f(uint32_t a) { return Nan32(a) ? 0x7fffffffu : In<Z>(a) & 0x7fffffffu; }
};
// copysign d, a, b: magnitude of b, sign of a.
struct FCopysign {
  static ALWAYS uint32_t f(uint32_t a, uint32_t b) { return (a & 0x80000000u) | (b & 0x7fffffffu); }
};
struct DCopysign {
  static ALWAYS uint64_t f(uint64_t a, uint64_t b) {
    return (a & (1ull << 63)) | (b & ~(1ull << 63));
  }
};

// f64 keeps NaNs: the second operand's, else the first's, made quiet; an invalid operation gives
// the negative quiet one.
constexpr uint64_t kQuiet = 1ull << 51;
ALWAYS bool Nan64(uint64_t x) { return (x & ~(1ull << 63)) > 0x7ff0000000000000ull; }
ALWAYS uint64_t OutD(double r, uint64_t a, uint64_t b) {
  if (r == r) return Db(r);
  return Nan64(b) ? b | kQuiet : Nan64(a) ? a | kQuiet : 0xfff8000000000000ull;
}
struct DAdd {
  static ALWAYS uint64_t f(uint64_t a, uint64_t b) { return OutD(Df(a) + Df(b), a, b); }
};
struct DSub {
  static ALWAYS uint64_t f(uint64_t a, uint64_t b) { return OutD(Df(a) - Df(b), a, b); }
};
struct DMul {
  static ALWAYS uint64_t f(uint64_t a, uint64_t b) { return OutD(Df(a) * Df(b), a, b); }
};
struct DDiv {  // the first operand's NaN, else the second's
  static ALWAYS uint64_t f(uint64_t a, uint64_t b) { return OutD(Df(a) / Df(b), b, a); }
};
struct DFma {  // b's, c's, a's
  static ALWAYS uint64_t f(uint64_t a, uint64_t b, uint64_t c) {
    return OutD(__builtin_fma(Df(a), Df(b), Df(c)), a, Nan64(b) ? b : c);
  }
};
template <bool kMax>
struct DMinMax {
  static ALWAYS uint64_t f(uint64_t a, uint64_t b) {
    double x = Df(a), y = Df(b);
    if (x != x && y != y) return b | kQuiet;
    if (x != x) return b;
    if (y != y) return a;
    if (x == y) return kMax ? a & b : a | b;
    return (kMax ? x > y : x < y) ? a : b;
  }
};
struct DNeg {
  static ALWAYS uint64_t f(uint64_t a) { return Nan64(a) ? a | kQuiet : a ^ (1ull << 63); }
};
struct DAbs {
  static ALWAYS uint64_t f(uint64_t a) { return Nan64(a) ? a | kQuiet : a & ~(1ull << 63); }
};

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
struct Bf {
  static ALWAYS uint32_t from(uint32_t x) { return FromBf(x); }
  static ALWAYS uint32_t to(uint32_t x) { return ToBf(x); }
  static constexpr uint64_t kMin = 1;
};
struct Hf {
  static ALWAYS uint32_t from(uint32_t x) { return FromHalf(x); }
  static ALWAYS uint32_t to(uint32_t x) { return ToHalf(x); }
};
ALWAYS uint32_t FtzHalf(uint32_t h) { return (h & 0x7c00u) == 0 ? h & 0x8000u : h; }
template <class K, bool Z>
ALWAYS uint32_t InH(uint32_t h) {
  return Z ? FtzHalf(h) : h;
}
template <class K, bool Z, bool S>
ALWAYS uint32_t OutH(uint32_t h) {
  if (Z) h = FtzHalf(h);
  if (S) {
    float x = F(K::from(h));
    h = x > 1.0f ? K::to(0x3f800000u) : x > 0.0f ? h : 0u;
  }
  return h;
}
template <class K, bool Z, bool S>
struct HAdd {
  static ALWAYS uint32_t f(uint32_t a, uint32_t b) {
    return OutH<K, Z, S>(K::to(B(F(K::from(InH<K, Z>(a))) + F(K::from(InH<K, Z>(b))))));
  }
};
template <class K, bool Z, bool S>
struct HSub {
  static ALWAYS uint32_t f(uint32_t a, uint32_t b) {
    return OutH<K, Z, S>(K::to(B(F(K::from(InH<K, Z>(a))) - F(K::from(InH<K, Z>(b))))));
  }
};
template <class K, bool Z, bool S>
struct HMul {
  static ALWAYS uint32_t f(uint32_t a, uint32_t b) {
    float p = F(K::from(InH<K, Z>(a))) * F(K::from(InH<K, Z>(b)));
    if (Z && __builtin_fabsf(p) < 0x1p-14f) p = F(B(p) & 0x80000000u);  // before it is rounded
    return OutH<K, Z, S>(K::to(B(p)));
  }
};
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
template <class K, bool Z, bool S, bool R>
struct HFma {
  static ALWAYS uint32_t f(uint32_t a, uint32_t b, uint32_t c) {
    double p = double{F(K::from(InH<K, Z>(a)))} * double{F(K::from(InH<K, Z>(b)))};
    uint32_t r = OutH<K, Z, S>(K::to(StickyF32(p, double{F(K::from(InH<K, Z>(c)))})));
    if (R && (r & 0x8000u) && !Nan32(K::from(r))) r = 0;
    return r;
  }
};
template <class K, bool kMax, bool N, bool Z>
struct HMinMax {
  static ALWAYS uint32_t f(uint32_t a, uint32_t b) {
    return K::to(MinMax32<kMax, N>(K::from(InH<K, Z>(a)), K::from(InH<K, Z>(b))));
  }
};
template <class K, bool Z>
struct HNeg {
  static ALWAYS uint32_t f(uint32_t a) {
    return Nan32(K::from(a)) ? 0x7fffu : InH<K, Z>(a) ^ 0x8000u;
  }
};
template <class K, bool Z>
struct HAbs {
  static ALWAYS uint32_t f(uint32_t a) {
    return Nan32(K::from(a)) ? 0x7fffu : InH<K, Z>(a) & 0x7fffu;
  }
};
// The result takes the sign a⊕b; magnitudes are compared.
template <class K, bool kMax, bool N>
struct HXorSign {
  static ALWAYS uint32_t f(uint32_t a, uint32_t b) {
    uint32_t r = K::to(MinMax32<kMax, N>(K::from(a & 0x7fffu), K::from(b & 0x7fffu)));
    return Nan32(K::from(r)) ? r : (r & 0x7fffu) | ((a ^ b) & 0x8000u);
  }
};

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
template <Compare C>
ALWAYS bool Holds(bool lt, bool eq, bool unordered) {
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
template <class T>
struct CmpInt {
  using L = Lane<T>;
  template <Compare C>
  static ALWAYS bool f(L a, L b) {
    return Holds<C>(Get<T>(a) < Get<T>(b), a == b, false);
  }
};
template <bool Z>
struct CmpF32 {
  using L = uint32_t;
  template <Compare C>
  static ALWAYS bool f(L a, L b) {
    float x = F(In<Z>(a)), y = F(In<Z>(b));
    return Holds<C>(x < y, x == y, x != x || y != y);
  }
};
struct CmpF64 {
  using L = uint64_t;
  template <Compare C>
  static ALWAYS bool f(L a, L b) {
    double x = Df(a), y = Df(b);
    return Holds<C>(x < y, x == y, x != x || y != y);
  }
};
template <class K, bool Z = false>
struct CmpHalf {
  using L = uint32_t;
  template <Compare C>
  static ALWAYS bool f(L a, L b) {
    float x = F(K::from(InH<K, Z>(a))), y = F(K::from(InH<K, Z>(b)));
    return Holds<C>(x < y, x == y, x != x || y != y);
  }
};

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
template <class K, bool Z, Compare C>
Step SetpPacked(Warp& w, const Inst& i, uint32_t mask) {
  const uint32_t *a = Row<uint32_t>(w, i.o[2]), *b = Row<uint32_t>(w, i.o[3]);
  uint32_t p = 0, q = 0;
  for (int l = 0; l < 32; ++l) {
    if (CmpHalf<K, Z>::template f<C>(a[l] & 0xffff, b[l] & 0xffff)) p |= 1u << l;
    if (CmpHalf<K, Z>::template f<C>(a[l] >> 16, b[l] >> 16)) q |= 1u << l;
  }
  WritePredicates(w, i, mask, p, q);
  return Step::kNext;
}
