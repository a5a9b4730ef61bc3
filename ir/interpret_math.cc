// Elementwise ops: value, carried error and own error of each. An op here gives the exact result r
// of the interpreter's operands and p, how far the exact result of an executor's operands (plus the
// executor's approximation, before its rounding) may lie from r. Finish does the rest once.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ir/interpret_functions.h"
#include "ir/interpret_internal.h"
#include "support/check.h"
#include "support/expr.h"

namespace tilec::ir::interpret_internal {

namespace {

template <typename F>
void MapFloat(const Tile& a, Tile& out, F&& f) {
  Numbers p(out.v.size());
  for (size_t i = 0; i < out.v.size(); ++i) {
    const MathResult r = f(a.dtype, a.v[i], static_cast<double>(a.error(i)));
    out.v[i] = r.r;
    p[i] = r.p;
  }
  Finish(out, p);
}

// A step function: undecided if the operand's interval, or one without bound, holds a step.
template <typename F>
void MapSteps(const Tile& a, Tile& out, F&& step) {
  for (size_t i = 0; i < out.v.size(); ++i) {
    const double x = a.v[i], e = a.error(i), r = step(x);
    out.v[i] = r;
    if (a.undecided(i) || (e > 0 && (step(x - e) != r || step(x + e) != r))) out.MarkUndecided(i);
  }
  Finish(out, {});
}

// Ops that need no rounding: an executor's error is the operand's.
template <typename F>
void MapExactFloat(const Tile& a, Tile& out, F&& f) {
  for (size_t i = 0; i < out.v.size(); ++i) out.v[i] = f(a.v[i]);
  out.e = a.e;
}

template <typename F>
void MapInt(const Tile& a, Tile& out, F&& f) {
  for (size_t i = 0; i < out.n.size(); ++i) out.n[i] = WrapInt(out.dtype, f(a.n[i]));
}

int64_t AbsInt(int64_t x) {
  const auto u = static_cast<uint64_t>(x);
  return static_cast<int64_t>(x < 0 ? 0 - u : u);
}

// Unsigned values of 64 bits compare and divide as unsigned; narrower ones are nonnegative.
bool LessInt(DType d, int64_t a, int64_t b) {
  return d == DType::kU64 ? static_cast<uint64_t>(a) < static_cast<uint64_t>(b) : a < b;
}

// ---- two operands

template <typename F>
void MapInt2(const Tile& a, const Tile& b, Tile& out, F&& f) {
  for (size_t i = 0; i < out.n.size(); ++i) out.n[i] = WrapInt(out.dtype, f(a.n[i], b.n[i]));
}

void AddFloats(const Tile& a, const Tile& b, Tile& out, double sign) {
  const size_t n = out.v.size();
  for (size_t i = 0; i < n; ++i) out.v[i] = a.v[i] + sign * b.v[i];
  if (a.e.empty() && b.e.empty()) return Finish(out, {});
  Numbers p(n);
  for (size_t i = 0; i < n; ++i) p[i] = static_cast<double>(a.error(i)) + b.error(i);
  Finish(out, p);
}

double ProductSpread(double a, double ea, double b, double eb) {
  double p = 0;  // no 0 · inf
  if (eb > 0) p += std::fabs(a) * eb;
  if (ea > 0) p += std::fabs(b) * ea + ea * eb;
  return p;
}

void MulFloats(const Tile& a, const Tile& b, Tile& out) {
  const size_t n = out.v.size();
  for (size_t i = 0; i < n; ++i) out.v[i] = a.v[i] * b.v[i];
  const bool spreads = !a.e.empty() || !b.e.empty() || IsWide(out.dtype);
  Numbers p(spreads ? n : 0);
  if (spreads) {
    for (size_t i = 0; i < n; ++i) {
      p[i] = ProductSpread(a.v[i], a.error(i), b.v[i], b.error(i));
      // The product of doubles is itself rounded, and an executor may not round it.
      if (IsWide(out.dtype) && std::isfinite(out.v[i])) p[i] += std::fabs(out.v[i]) * 0x1p-53;
    }
  }
  Finish(out, p, true);
}

void DivFloats(const Tile& a, const Tile& b, Tile& out, bool correctly_rounded) {
  const size_t n = out.v.size();
  Numbers p(n);
  for (size_t i = 0; i < n; ++i) {
    const double q = a.v[i] / b.v[i];
    const double ea = a.error(i), eb = b.error(i);
    out.v[i] = q;
    if (ea > 0 || eb > 0) {
      const double least = std::fabs(b.v[i]) - eb;
      p[i] = least <= 0 ? kInf : (ea + (eb > 0 ? std::fabs(q) * eb : 0)) / least;
    }
    if (!correctly_rounded && std::isfinite(q)) p[i] += 2 * kDivUlps * HalfUlp(out.dtype, q);
  }
  Finish(out, p);
}

// sign = 1: max, −1: min. A NaN operand gives the other one.
void MinMaxFloats(const Tile& a, const Tile& b, Tile& out, double sign) {
  const size_t n = out.v.size();
  const bool exact = a.e.empty() && b.e.empty();
  if (!exact) out.e.assign(n, 0.0f);
  for (size_t i = 0; i < n; ++i) {
    const double x = a.v[i], y = b.v[i];
    const bool first = std::isnan(y) || sign * x >= sign * y;
    out.v[i] = first ? x : y;
    if (exact) continue;
    if (std::isnan(x) || std::isnan(y)) {
      out.e[i] = first ? a.error(i) : b.error(i);
      continue;
    }
    const double high = std::max(sign * x + a.error(i), sign * y + b.error(i));
    const double low = std::max(sign * x - a.error(i), sign * y - b.error(i));
    const double v = sign * out.v[i];
    out.e[i] = std::isinf(v) ? 0.0f : Up(std::max(high - v, v - low));
  }
  out.DropZeroErrors();
}

enum class Pred { kEq, kNe, kLt, kLe, kGt, kGe };
Pred PredOf(const std::string& s) {
  if (s == "eq") return Pred::kEq;
  if (s == "ne") return Pred::kNe;
  if (s == "lt") return Pred::kLt;
  if (s == "le") return Pred::kLe;
  if (s == "gt") return Pred::kGt;
  return Pred::kGe;
}
template <typename T, typename Less>
bool Holds(Pred pred, T a, T b, Less&& less) {
  switch (pred) {
    case Pred::kEq: return a == b;
    case Pred::kNe: return !(a == b);
    case Pred::kLt: return less(a, b);
    case Pred::kLe: return less(a, b) || a == b;
    case Pred::kGt: return less(b, a);
    case Pred::kGe: return less(b, a) || a == b;
  }
  return false;
}

void Cmp(Pred pred, const Tile& a, const Tile& b, Tile& out) {
  if (!a.is_float()) {
    const DType d = a.dtype;
    for (size_t i = 0; i < out.n.size(); ++i)
      out.n[i] =
          Holds(pred, a.n[i], b.n[i], [d](int64_t x, int64_t y) { return LessInt(d, x, y); });
    return;
  }
  for (size_t i = 0; i < out.n.size(); ++i) {
    out.n[i] = Holds(pred, a.v[i], b.v[i], [](double x, double y) { return x < y; });
    const double e = static_cast<double>(a.error(i)) + b.error(i);
    if (e > 0 && std::fabs(a.v[i] - b.v[i]) <= e) out.MarkUndecided(i);
  }
}

void Shift(const Tile& a, const Tile& b, Tile& out, bool left) {
  const int bits = Info(a.dtype).bits;
  for (size_t i = 0; i < out.n.size(); ++i) {
    const uint64_t by = static_cast<uint64_t>(b.n[i]);
    int64_t r = 0;
    if (by < static_cast<uint64_t>(bits)) {
      if (left)
        r = static_cast<int64_t>(static_cast<uint64_t>(a.n[i]) << by);
      else if (IsSigned(a.dtype))
        r = a.n[i] >> by;
      else
        r = static_cast<int64_t>(static_cast<uint64_t>(a.n[i]) >> by);
    } else if (!left && IsSigned(a.dtype)) {
      r = a.n[i] < 0 ? -1 : 0;
    }
    out.n[i] = WrapInt(out.dtype, r);
  }
}

void DivInts(const Tile& a, const Tile& b, Tile& out, bool modulus) {
  for (size_t i = 0; i < out.n.size(); ++i) {
    const int64_t x = a.n[i], y = b.n[i];
    int64_t r = 0;
    if (y == 0) {  // no meaning; executors do not stop either
      out.MarkUndecided(i);
    } else if (a.dtype == DType::kU64) {
      const auto ux = static_cast<uint64_t>(x), uy = static_cast<uint64_t>(y);
      r = static_cast<int64_t>(modulus ? ux % uy : ux / uy);
    } else if (y == -1) {
      r = modulus ? 0 : static_cast<int64_t>(0 - static_cast<uint64_t>(x));
    } else {
      r = modulus ? FloorMod(x, y) : FloorDiv(x, y);
    }
    out.n[i] = WrapInt(out.dtype, r);
  }
}

// and: a decided false decides; or: a decided true.
void Logic(OpKind kind, const Tile& a, const Tile& b, Tile& out) {
  for (size_t i = 0; i < out.n.size(); ++i) {
    const int64_t x = a.n[i], y = b.n[i];
    out.n[i] = kind == OpKind::kAnd ? (x & y) : kind == OpKind::kOr ? (x | y) : (x ^ y);
    const bool ux = a.undecided(i), uy = b.undecided(i);
    if (!ux && !uy) continue;
    const bool decides_x = !ux && out.dtype == DType::kBool &&
                           ((kind == OpKind::kAnd && !x) || (kind == OpKind::kOr && x));
    const bool decides_y = !uy && out.dtype == DType::kBool &&
                           ((kind == OpKind::kAnd && !y) || (kind == OpKind::kOr && y));
    if (!decides_x && !decides_y) out.Mark(i, a.flags(i) | b.flags(i));
  }
}

// ---- three operands

void Select(const Tile& c, const Tile& a, const Tile& b, Tile& out) {
  const size_t n = out.size();
  const bool errors = !a.e.empty() || !b.e.empty();
  if (out.is_float() && errors) out.e.assign(n, 0.0f);
  for (size_t i = 0; i < n; ++i) {
    const Tile& chosen = c.n[i] ? a : b;
    const Tile& other = c.n[i] ? b : a;
    if (out.is_float())
      out.v[i] = chosen.v[i];
    else
      out.n[i] = chosen.n[i];
    if (errors) out.e[i] = chosen.error(i);
    out.Mark(i, chosen.flags(i));
    if (!c.undecided(i)) continue;
    if (!out.is_float() || other.undecided(i)) {
      if (out.is_float() || a.n[i] != b.n[i] || other.undecided(i)) out.MarkUndecided(i);
      continue;
    }
    // Either value is right: cover both.
    out.Mark(i, kCovers | other.flags(i));
    const double apart = chosen.v[i] == other.v[i] ? 0 : std::fabs(chosen.v[i] - other.v[i]);
    const double e = std::max<double>(chosen.error(i), apart + other.error(i));
    if (!std::isfinite(e)) {
      out.MarkUndecided(i);
    } else if (e > 0) {
      if (out.e.empty()) out.e.assign(n, 0.0f);
      out.e[i] = Up(e);
    }
  }
  out.DropZeroErrors();
}

void Fma(const Tile& a, const Tile& b, const Tile& c, Tile& out) {
  const size_t n = out.v.size();
  const DType d = out.dtype;
  const bool narrow = Info(d).bits < 32;
  const bool spreads = !a.e.empty() || !b.e.empty() || !c.e.empty() || narrow;
  Numbers p(spreads ? n : 0);
  for (size_t i = 0; i < n; ++i) {
    out.v[i] =
        d == DType::kF32 || d == DType::kTF32
            ? static_cast<double>(std::fmaf(static_cast<float>(a.v[i]), static_cast<float>(b.v[i]),
                                            static_cast<float>(c.v[i])))
            : std::fma(a.v[i], b.v[i], c.v[i]);
    if (!spreads) continue;
    p[i] = ProductSpread(a.v[i], a.error(i), b.v[i], b.error(i)) + c.error(i);
    if (p[i] > 0 && !narrow) p[i] += HalfUlp(d, out.v[i]);  // v is rounded already
    if (narrow && std::isfinite(out.v[i]))  // executors may round an f32 fma once more
      p[i] += std::fabs(out.v[i]) * 0x1p-24;
  }
  Finish(out, p);
}

}  // namespace

void EvalElementwise(const Op& op, std::span<const Tile* const> in, Tile& out) {
  const Tile& a = *in[0];
  const bool flt = a.is_float();
  // Ops with their own rule for undecided operands return early; the rest join them at the end.
  switch (op.kind) {
    case OpKind::kNeg:
      if (flt)
        MapExactFloat(a, out, [](double x) { return -x; });
      else
        MapInt(a, out,
               [](int64_t x) { return static_cast<int64_t>(0 - static_cast<uint64_t>(x)); });
      break;
    case OpKind::kNot:
      MapInt(a, out, [&](int64_t x) { return a.dtype == DType::kBool ? int64_t{!x} : ~x; });
      break;
    case OpKind::kAbs:
      if (flt)
        MapExactFloat(a, out, [](double x) { return std::fabs(x); });
      else
        MapInt(a, out, AbsInt);
      break;
    case OpKind::kFloor: MapSteps(a, out, [](double x) { return std::floor(x); }); break;
    case OpKind::kCeil: MapSteps(a, out, [](double x) { return std::ceil(x); }); break;
    case OpKind::kRound: MapSteps(a, out, [](double x) { return std::nearbyint(x); }); break;
    case OpKind::kExp2: MapFloat(a, out, Exp2Of); break;
    case OpKind::kExp: MapFloat(a, out, ExpOf); break;
    case OpKind::kLog2: MapFloat(a, out, Log2Of); break;
    case OpKind::kLog: MapFloat(a, out, LogOf); break;
    case OpKind::kSqrt: MapFloat(a, out, SqrtOf); break;
    case OpKind::kSqrtRn: MapFloat(a, out, SqrtRnOf); break;
    case OpKind::kRsqrt: MapFloat(a, out, RsqrtOf); break;
    case OpKind::kTanh: MapFloat(a, out, TanhOf); break;
    case OpKind::kSigmoid: MapFloat(a, out, SigmoidOf); break;
    case OpKind::kErf: MapFloat(a, out, ErfOf); break;
    case OpKind::kSin: MapFloat(a, out, SinOf); break;
    case OpKind::kCos: MapFloat(a, out, CosOf); break;
    case OpKind::kCast: Cast(a, out); break;
    case OpKind::kBitcast: Bitcast(a, out); break;
    case OpKind::kAdd:
      if (flt)
        AddFloats(a, *in[1], out, 1);
      else
        MapInt2(a, *in[1], out, [](uint64_t x, uint64_t y) { return static_cast<int64_t>(x + y); });
      break;
    case OpKind::kSub:
      if (flt)
        AddFloats(a, *in[1], out, -1);
      else
        MapInt2(a, *in[1], out, [](uint64_t x, uint64_t y) { return static_cast<int64_t>(x - y); });
      break;
    case OpKind::kMul:
      if (flt)
        MulFloats(a, *in[1], out);
      else
        MapInt2(a, *in[1], out, [](uint64_t x, uint64_t y) { return static_cast<int64_t>(x * y); });
      break;
    case OpKind::kDiv:
      if (flt)
        DivFloats(a, *in[1], out, false);
      else
        DivInts(a, *in[1], out, false);
      break;
    case OpKind::kDivRn: DivFloats(a, *in[1], out, true); break;
    case OpKind::kMod: DivInts(a, *in[1], out, true); break;
    case OpKind::kMin:
      if (flt)
        MinMaxFloats(a, *in[1], out, -1);
      else
        MapInt2(a, *in[1], out,
                [&](int64_t x, int64_t y) { return LessInt(a.dtype, y, x) ? y : x; });
      break;
    case OpKind::kMax:
      if (flt)
        MinMaxFloats(a, *in[1], out, 1);
      else
        MapInt2(a, *in[1], out,
                [&](int64_t x, int64_t y) { return LessInt(a.dtype, x, y) ? y : x; });
      break;
    case OpKind::kAnd:
    case OpKind::kOr:
    case OpKind::kXor: return Logic(op.kind, a, *in[1], out);
    case OpKind::kShl: Shift(a, *in[1], out, true); break;
    case OpKind::kShr: Shift(a, *in[1], out, false); break;
    case OpKind::kCmp: Cmp(PredOf(op.s("pred")), a, *in[1], out); break;
    case OpKind::kSelect: return Select(a, *in[1], *in[2], out);
    case OpKind::kFma: Fma(a, *in[1], *in[2], out); break;
    case OpKind::kConstant:  // not elementwise
    case OpKind::kIota:
    case OpKind::kBroadcast:
    case OpKind::kReshape:
    case OpKind::kTranspose:
    case OpKind::kRearrange:
    case OpKind::kReduce:
    case OpKind::kArgReduce:
    case OpKind::kScan:
    case OpKind::kDot:
    case OpKind::kLoad:
    case OpKind::kStore:
    case OpKind::kAtomic:
    case OpKind::kParallel:
    case OpKind::kFor:
    case OpKind::kWhile:
    case OpKind::kIf:
    case OpKind::kYield:
    case OpKind::kClusterReduce:
    case OpKind::kAssert:
    case OpKind::kPrint:
#define OP(Name, ...) case OpKind::k##Name:
#include "ir/warp_ops.def"
#undef OP
      UNREACHABLE("EvalElementwise");
  }
  JoinUndecided(out, in);
}

}  // namespace tilec::ir::interpret_internal
