// Matrix products: the value in f64 and the bound on what f32 accumulation may make of it.
//
// The bound of acc + a·b over K terms is
//   u · K' · (|acc| + Σ|a·b|)  +  e_acc  +  Σ(e_a·|b| + |a|·e_b + e_a·e_b)
// with K' = K rounded up to a multiple of 16 (32 for 8-bit floats). u covers two executors:
//   - f32 multiply-adds one after the other, each rounded to nearest: at most 2^-24 per term;
//   - Hopper's tensor cores: an instruction takes 16 (tf32: 8) products and the accumulator, aligns
//     them to the largest exponent and truncates each at 2^-25 of it, then truncates the f32
//     result: (17·2^-25 + 2^-23) per 16 terms < 16·2^-24. (tf32: (9·2^-25 + 2^-23) < 8·2^-24.)
//   - 8-bit floats keep 13 bits below the largest of 32 products and the accumulator, and as many
//     of the result: 34·2^-13 per 32 terms < 32·kUnitFp8.
// `promote` = n > 0: the unit's precision applies within n terms only, f32's between them.
// Products of integers whose sum of magnitudes the accumulation holds exactly have no error at all;
// nor have scaled products of multiples of some power of two whose sum it holds.
// In f64, 2^-52 covers the executor's sum and the interpreter's.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <limits>

#include "ir/interpret_internal.h"
#include "support/check.h"
#include "support/expr.h"

namespace tilec::ir::interpret_internal {
namespace {

constexpr double kUnitF32 = 0x1p-24;
constexpr double kUnitFp8 = 0x1.2p-13;
constexpr double kUnitF64 = 0x1p-52;

constexpr int64_t kRows = 4;  // of a, together
constexpr int64_t kCols = 8;  // of b: two vectors of 4 doubles, one of 8 floats

using Double4 = double __attribute__((vector_size(32)));
using Float8 = float __attribute__((vector_size(32)));

// b as column panels: panel j holds rows 0 … k−1 of columns j·kCols …, zero-padded.
template <typename T, typename Get>
std::vector<T> PackColumns(int64_t k, int64_t n, Get&& get) {
  const int64_t panels = CeilDiv(n, kCols);
  std::vector<T> out(static_cast<size_t>(panels * k * kCols), T(0));
  for (int64_t p = 0; p < panels; ++p) {
    const int64_t width = std::min(kCols, n - p * kCols);
    for (int64_t i = 0; i < k; ++i) {
      T* to = out.data() + (p * k + i) * kCols;
      for (int64_t j = 0; j < width; ++j) to[j] = get(static_cast<size_t>(i * n + p * kCols + j));
    }
  }
  return out;
}

// a as row panels: panel i holds columns 0 … k−1 of kRows rows, zero-padded.
template <typename T, typename Get>
std::vector<T> PackRows(int64_t m, int64_t k, Get&& get) {
  const int64_t panels = CeilDiv(m, kRows);
  std::vector<T> out(static_cast<size_t>(panels * k * kRows), T(0));
  for (int64_t p = 0; p < panels; ++p)
    for (int64_t r = 0; r < std::min(kRows, m - p * kRows); ++r)
      for (int64_t i = 0; i < k; ++i)
        out[static_cast<size_t>((p * k + i) * kRows + r)] =
            get(static_cast<size_t>((p * kRows + r) * k + i));
  return out;
}

// Sums in k order, whatever the vector width: the result is the same on every machine.
__attribute__((target_clones("avx2", "default"))) void BlockDouble(const double* a, const double* b,
                                                                   int64_t k, double* out) {
  Double4 c00{}, c01{}, c10{}, c11{}, c20{}, c21{}, c30{}, c31{};
  for (int64_t i = 0; i < k; ++i, a += kRows, b += kCols) {
    Double4 b0, b1;
    std::memcpy(&b0, b, sizeof b0);
    std::memcpy(&b1, b + 4, sizeof b1);
    c00 += a[0] * b0;
    c01 += a[0] * b1;
    c10 += a[1] * b0;
    c11 += a[1] * b1;
    c20 += a[2] * b0;
    c21 += a[2] * b1;
    c30 += a[3] * b0;
    c31 += a[3] * b1;
  }
  const Double4 all[8] = {c00, c01, c10, c11, c20, c21, c30, c31};
  std::memcpy(out, all, sizeof all);
}

__attribute__((target_clones("avx2", "default"))) void BlockFloat(const float* a, const float* b,
                                                                  int64_t k, float* out) {
  Float8 c0{}, c1{}, c2{}, c3{};
  for (int64_t i = 0; i < k; ++i, a += kRows, b += kCols) {
    Float8 b0;
    std::memcpy(&b0, b, sizeof b0);
    c0 += a[0] * b0;
    c1 += a[1] * b0;
    c2 += a[2] * b0;
    c3 += a[3] * b0;
  }
  const Float8 all[4] = {c0, c1, c2, c3};
  std::memcpy(out, all, sizeof all);
}

// a [m, k] times b [k, n].
struct DotShape {
  int64_t m, n, k;
};

// out[m, n] += a·b for packed operands; `block` is one of the two above.
template <typename T, typename Block>
void Multiply(const std::vector<T>& a, const std::vector<T>& b, const DotShape& shape,
              Block&& block, std::vector<double>& out) {
  const auto [m, n, k] = shape;
  T c[kRows * kCols];
  for (int64_t i = 0; i < m; i += kRows)
    for (int64_t j = 0; j < n; j += kCols) {
      block(a.data() + i * k, b.data() + (j / kCols) * k * kCols, k, c);
      const int64_t rows = std::min(kRows, m - i), cols = std::min(kCols, n - j);
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t q = 0; q < cols; ++q)
          out[static_cast<size_t>((i + r) * n + j + q)] += static_cast<double>(c[r * kCols + q]);
    }
}

// Σ x·y of two nonnegative matrices in f32, for bounds. Its own rounding: a factor 1 + k·2^-23.
template <typename GetX, typename GetY>
void MultiplyBounds(const DotShape& shape, GetX&& x, GetY&& y, std::vector<double>& out) {
  const std::vector<float> a = PackRows<float>(shape.m, shape.k, x);
  const std::vector<float> b = PackColumns<float>(shape.k, shape.n, y);
  Multiply(
      a, b, shape, [](auto... args) { BlockFloat(args...); }, out);
}

DotShape ShapeOfDot(const Tile& a, const Tile& b) { return {a.shape[0], b.shape[1], a.shape[1]}; }

void DotInts(const Tile& a, const Tile& b, const Tile& acc, Tile& out) {
  const auto [m, n, k] = ShapeOfDot(a, b);
  std::vector<uint64_t> row(static_cast<size_t>(n));
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j)
      row[static_cast<size_t>(j)] = static_cast<uint64_t>(acc.n[static_cast<size_t>(i * n + j)]);
    for (int64_t q = 0; q < k; ++q) {
      const auto x = static_cast<uint64_t>(a.n[static_cast<size_t>(i * k + q)]);
      const int64_t* y = b.n.data() + q * n;
      for (int64_t j = 0; j < n; ++j)
        row[static_cast<size_t>(j)] += x * static_cast<uint64_t>(y[j]);
    }
    for (int64_t j = 0; j < n; ++j)
      out.n[static_cast<size_t>(i * n + j)] =
          WrapInt(out.dtype, static_cast<int64_t>(row[static_cast<size_t>(j)]));
  }
}

void SpreadUndecided(const Tile& a, const Tile& b, const Tile& acc, Tile& out) {
  const auto [m, n, k] = ShapeOfDot(a, b);
  std::vector<uint8_t> rows(static_cast<size_t>(m), 0), cols(static_cast<size_t>(n), 0);
  for (size_t i = 0; i < a.und.size(); ++i) rows[i / static_cast<size_t>(k)] |= a.und[i];
  for (size_t i = 0; i < b.und.size(); ++i) cols[i % static_cast<size_t>(n)] |= b.und[i];
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      const auto at = static_cast<size_t>(i * n + j);
      out.Mark(at, rows[static_cast<size_t>(i)] | cols[static_cast<size_t>(j)] | acc.flags(at));
    }
}

// The largest power of two of which all are multiples; 0: some are not finite.
double GridOfValues(const std::vector<double>& v) {
  double grid = std::numeric_limits<double>::infinity();
  for (double x : v) {
    if (x == 0) continue;
    if (!std::isfinite(x)) return 0;
    int exponent = 0;
    const auto digits = static_cast<int64_t>(std::ldexp(std::frexp(x, &exponent), 53));
    const int64_t last = digits & -digits;
    grid = std::min(grid, std::ldexp(static_cast<double>(last), exponent - 53));
  }
  return std::isinf(grid) ? 1 : grid;
}

bool Integral(const std::vector<double>& v) {
  return std::all_of(v.begin(), v.end(), [](double x) { return x == std::floor(x); });
}

// How a unit rounds a sum of products: within so many of them with its own precision, and with
// f32's on top; sums of whole numbers below a limit not at all.
struct SumRounding {
  SumRounding(DType operands, DType result, int64_t k, int64_t promote) {
    const bool fp8 = Info(operands).bits == 8;
    const bool f64 = result == DType::kF64;
    promotes = fp8 && promote > 0;
    // Terms within which the unit's precision applies, and how often f32's does on top.
    const double inner =
        static_cast<double>(RoundUp(promotes ? std::min(promote, k) : k, fp8 ? 32 : 16));
    unit = (f64 ? kUnitF64 : fp8 ? kUnitFp8 : kUnitF32) * inner;
    outer = promotes ? kUnitF32 * (static_cast<double>(CeilDiv(k, promote)) + 1) : 0;
    exact_limit = f64 ? 0x1p52 : fp8 ? 0x1p13 : 0x1p24;
  }
  bool promotes = false;  // into sums in f32, every so many products
  double unit = 0, outer = 0, exact_limit = 0;
};

}  // namespace

double AccumulatorRoundings(DType d, int64_t k, int64_t promote) {
  const bool fp8 = Info(d).bits == 8;
  if (fp8 && promote > 0) return static_cast<double>(CeilDiv(k, promote)) + 1;
  return (fp8 ? kUnitFp8 : kUnitF32) / kUnitF32 * static_cast<double>(RoundUp(k, fp8 ? 32 : 16));
}

void EvalDot(const Tile& a, const Tile& b, const Tile& acc, int64_t promote, Tile& out,
             const Magnitudes& named) {
  if (!out.is_float()) {
    DotInts(a, b, acc, out);
    return SpreadUndecided(a, b, acc, out);
  }
  const DotShape shape = ShapeOfDot(a, b);
  const int64_t k = shape.k;
  const bool tf32 = a.dtype == DType::kTF32;
  auto value = [tf32](const Tile& t) {
    return [&t, tf32](size_t i) { return tf32 ? DropTf32Bits(t.v[i]) : t.v[i]; };
  };
  auto magnitude = [&](const Tile& t) {
    const std::vector<float>& least = &t == &a ? named.a : named.b;
    return [&t, &least](size_t i) {
      const auto size = static_cast<float>(std::fabs(t.v[i]));
      return least.empty() ? size : std::max(size, least[i]);
    };
  };
  // An operand's error, which truncation to tf32 may carry over a step of 2^-10 of the value.
  auto error = [tf32](const Tile& t) {
    return [&t, tf32](size_t i) {
      const float e = t.e[i];
      return tf32 && e > 0 ? e + static_cast<float>(std::fabs(t.v[i])) * 0x1p-10f : e;
    };
  };

  std::fill(out.v.begin(), out.v.end(), 0.0);
  Multiply(
      PackRows<double>(shape.m, k, value(a)), PackColumns<double>(k, shape.n, value(b)), shape,
      [](auto... args) { BlockDouble(args...); }, out.v);
  std::vector<double> sum(out.v.size(), 0.0);  // Σ|a·b|
  MultiplyBounds(shape, magnitude(a), magnitude(b), sum);
  std::vector<double> carried;  // from errors of a and b
  if (!a.e.empty() || !b.e.empty()) carried.assign(out.v.size(), 0.0);
  if (!a.e.empty())
    MultiplyBounds(
        shape, error(a),
        [&](size_t i) {
          return static_cast<float>(std::fabs(b.v[i])) + (b.e.empty() ? 0.0f : error(b)(i));
        },
        carried);
  if (!b.e.empty()) MultiplyBounds(shape, magnitude(a), error(b), carried);

  const SumRounding rounding(a.dtype, out.dtype, k, promote);
  const bool integral = carried.empty() && Integral(a.v) && Integral(b.v);
  // Numbers of few bits with scales: multiples of a power of two that is no whole number.
  const double grid =
      carried.empty() && !named.a.empty() ? GridOfValues(a.v) * GridOfValues(b.v) : 0;
  const double inflate = 1 + static_cast<double>(k) * 0x1p-22;
  std::vector<double> p(out.v.size());
  std::vector<size_t> jumps;
  for (size_t i = 0; i < p.size(); ++i) {
    const double start = acc.v[i];
    const double s = sum[i] * inflate;
    const double held = rounding.promotes ? 0 : std::fabs(start) + acc.error(i);
    out.v[i] += start;
    double spread = rounding.unit * (held + s) + (carried.empty() ? 0 : carried[i] * inflate);
    if (rounding.outer > 0) spread += rounding.outer * (std::fabs(start) + acc.error(i) + s);
    if (integral && start == std::floor(start) && std::fabs(start) + s <= rounding.exact_limit)
      spread = 0;
    if (grid > 0 && start / grid == std::floor(start / grid) &&
        std::fabs(start) + s <= rounding.exact_limit * grid)
      spread = 0;
    if (s == 0 && (carried.empty() || carried[i] == 0)) spread = 0;  // nothing was added
    p[i] = spread + acc.error(i);
    const double products = out.v[i] - start;  // of s, as many come from above as from below
    if (OrdersDiffer(out.dtype, (s + products) / 2 + std::max(start, 0.0),
                     (s - products) / 2 + std::max(-start, 0.0), out.v[i], p[i]))
      jumps.push_back(i);
  }
  Finish(out, p);
  for (size_t i : jumps) MarkJump(out, i, out.dice);
  if (!a.und.empty() || !b.und.empty() || !acc.und.empty()) SpreadUndecided(a, b, acc, out);
}

}  // namespace tilec::ir::interpret_internal
