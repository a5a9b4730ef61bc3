// Functions of one number with the bound of what an executor may give in their place: how far the
// exact result may spread where the operand is known within a bound, and how far an approximation
// of the hardware's may be off. Here so that they are compiled into the loops over elements.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "ir/interpret_internal.h"

namespace tilec::ir::interpret_internal {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kLn2 = 0.6931471805599453;
constexpr double kLog2E = 1.4426950408889634;

// Bounds of approximate functions in f32 and narrower types, which executors compute in f32:
// |approximation − exact| <= rel·|result| + arg·|x|·|result| + abs + arg_abs·|x|.
// Sources: the PTX ISA's error of ex2, lg2, rsqrt, sqrt, tanh, sin, cos .approx and div.full, plus
// the roundings of the arguments' scaling. In f64 every function is good to kF64Rel.
struct Approx {
  double rel = 0, arg = 0, abs = 0, arg_abs = 0;
};
constexpr Approx kExp2Bound{0x1p-22, 0, 0, 0};           // ex2.approx, 2 ulp
constexpr Approx kExpBound{0x1p-22, 0x1p-22, 0, 0};      // ex2(x · log2 e)
constexpr Approx kLog2Bound{0x1p-22, 0, 0x1p-22, 0};     // lg2.approx
constexpr Approx kLogBound{0x1p-21, 0, 0x1p-22, 0};      // lg2(x) · ln 2
constexpr Approx kSqrtBound{0x1p-22, 0, 0, 0};           // 2 ulp
constexpr Approx kRsqrtBound{0x1p-22, 0, 0, 0};          // rsqrt.approx
constexpr Approx kTanhBound{0x1.8p-11, 0, 0, 0};         // tanh.approx
constexpr Approx kSigmoidBound{0x1p-21, 0x1p-22, 0, 0};  // 1 / (1 + ex2(−x · log2 e))
constexpr Approx kErfBound{0x1p-21, 0, 0x1p-20, 0};      // a polynomial
constexpr Approx kSinCosBound{0, 0, 0x1p-20, 0x1p-22};   // sin.approx, cos.approx
constexpr double kDivUlps = 2;
constexpr double kF64Rel = 0x1p-50;

inline double ApproxError(DType d, const Approx& a, double x, double r) {
  const double m = std::fabs(r);
  if (IsWide(d))
    return (1 + (a.arg > 0 ? std::fabs(x) : 0)) * m * kF64Rel + (a.abs > 0 ? kF64Rel : 0);
  const double scaled = m == 0 ? 0 : a.arg * std::fabs(x) * m;  // inf · 0
  return a.rel * m + scaled + a.abs + (a.arg_abs > 0 ? a.arg_abs * std::fabs(x) : 0);
}

// r, p of one approximate function; e: the operand's error.
struct MathResult {
  double r;
  double p;
};
// Error of e^{t}-like growth: |exp(e) − 1| for a small or large e.
inline double Growth(double e) { return e < 0.5 ? e * (1 + e) : std::expm1(e); }

inline MathResult Exp2Of(DType d, double x, double e) {
  const double r = std::exp2(x);
  return {r, (e > 0 && r > 0 ? r * Growth(e * kLn2) : 0) + ApproxError(d, kExp2Bound, x, r)};
}
inline MathResult ExpOf(DType d, double x, double e) {
  const double r = std::exp(x);
  return {r, (e > 0 && r > 0 ? r * Growth(e) : 0) + ApproxError(d, kExpBound, x, r)};
}
inline double LogSlope(double x, double e) { return e == 0 ? 0 : x - e <= 0 ? kInf : e / (x - e); }
// Executors read a subnormal operand as 0; its e covers that, and the logarithm is then undecided.
inline MathResult Log2Of(DType d, double x, double e) {
  const double r = std::log2(x);
  return {r, kLog2E * LogSlope(x, e) + (x > 0 ? ApproxError(d, kLog2Bound, x, r) : 0)};
}
inline MathResult LogOf(DType d, double x, double e) {
  const double r = std::log(x);
  return {r, LogSlope(x, e) + (x > 0 ? ApproxError(d, kLogBound, x, r) : 0)};
}
inline double SqrtSpread(double x, double e) {
  if (e == 0) return 0;
  if (x - e < 0) return x + e < 0 ? 0 : kInf;
  return e / (std::sqrt(x) + std::sqrt(x - e));
}
inline MathResult SqrtOf(DType d, double x, double e) {
  const double r = std::sqrt(x);
  return {r, SqrtSpread(x, e) + ApproxError(d, kSqrtBound, x, r)};
}
inline MathResult SqrtRnOf(DType, double x, double e) { return {std::sqrt(x), SqrtSpread(x, e)}; }
inline MathResult RsqrtOf(DType d, double x, double e) {
  const double r = 1 / std::sqrt(x);
  const double spread = e == 0 ? 0 : x - e <= 0 ? kInf : 1 / std::sqrt(x - e) - r;
  return {r, spread + (x > 0 ? ApproxError(d, kRsqrtBound, x, r) : 0)};
}
// Steepest point of a curve that is steepest at 0 and even in slope.
inline double Nearest0(double x, double e) { return std::max(std::fabs(x) - e, 0.0); }
inline MathResult TanhOf(DType d, double x, double e) {
  const double r = std::tanh(x);
  double spread = 0;
  if (e > 0) {
    const double t = std::tanh(Nearest0(x, e));
    spread = std::min(e * (1 - t * t), 2.0);
  }
  return {r, spread + ApproxError(d, kTanhBound, x, r)};
}
inline MathResult SigmoidOf(DType d, double x, double e) {
  const double r = 1 / (1 + std::exp(-x));
  double spread = 0;
  if (e > 0) {
    const double s = 1 / (1 + std::exp(-Nearest0(x, e)));
    spread = std::min(e * s * (1 - s), 1.0);
  }
  return {r, spread + ApproxError(d, kSigmoidBound, x, r)};
}
inline MathResult ErfOf(DType d, double x, double e) {
  const double r = std::erf(x);
  double spread = 0;
  if (e > 0) {
    const double m = Nearest0(x, e);
    spread = std::min(e * 1.1283791670955126 * std::exp(-m * m), 2.0);
  }
  return {r, spread + ApproxError(d, kErfBound, x, r)};
}
inline MathResult SinOf(DType d, double x, double e) {
  const double r = std::sin(x);
  return {r, std::min(e, 2.0) + ApproxError(d, kSinCosBound, x, r)};
}
inline MathResult CosOf(DType d, double x, double e) {
  const double r = std::cos(x);
  return {r, std::min(e, 2.0) + ApproxError(d, kSinCosBound, x, r)};
}

}  // namespace tilec::ir::interpret_internal
