// Scaled products by the definition of OCP MX 1.0 (6.2) and nvfp4: the sum over k of
// a·sa · b·sb, each factor and each product exact, and the bound on what executors may make of it.
//
// Executors differ in where they round. A matrix unit that has such products aligns all terms of an
// instruction to the largest exponent that their codes *name*, cut at 25 bits below it: of a
// subnormal code, or of a zero, that is more than the term itself, so bounds take each element to
// be at least the least normal number of its type. Elsewhere a·sa is rounded to nothing (bf16 holds
// it) and summed in f32; but beyond bf16's range it overflows, or is flushed to zero.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ir/e2m1.h"
#include "ir/interpret_internal.h"

namespace tilec::ir::interpret_internal {
namespace {

constexpr double kLeast = 0x1p-126, kMost = 0x1.FEp127;  // of bf16

double LeastNormal(DType d) { return d == DType::kE2M1X2 ? 1.0 : FormatOf(d).min_normal; }

// One side: rows along `k_axis`'s other dim. `t` [m, k] (or [k, n]) times its scales, as numbers.
struct Side {
  Tile product;  // dtype bf16: what a sum in f32 is bounded for
  std::vector<float> named;
};

Side Scaled(const Tile& t, const Tile& scales, size_t k_axis) {
  const bool pairs = t.dtype == DType::kE2M1X2;
  Side out;
  out.product.dtype = DType::kBF16;
  out.product.shape = t.shape;
  if (pairs) out.product.shape[k_axis] *= 2;
  const auto rows = static_cast<size_t>(out.product.shape[0]),
             cols = static_cast<size_t>(out.product.shape[1]);
  const auto from_cols = static_cast<size_t>(t.shape[1]),
             scale_cols = static_cast<size_t>(scales.shape[1]);
  const size_t k = k_axis == 1 ? cols : rows;
  const size_t block = k / static_cast<size_t>(scales.shape[k_axis]);
  const double least = LeastNormal(t.dtype);
  out.product.v.resize(rows * cols);
  out.named.resize(rows * cols);
  for (size_t r = 0; r < rows; ++r)
    for (size_t c = 0; c < cols; ++c) {
      const size_t at = r * cols + c, along = k_axis == 1 ? c : r;
      const size_t from =
          k_axis == 1 ? r * from_cols + (pairs ? c / 2 : c) : (pairs ? r / 2 : r) * from_cols + c;
      const size_t scale = k_axis == 1 ? r * scale_cols + c / block : (r / block) * scale_cols + c;
      const double s = scales.v[scale];
      const double x = pairs ? E2M1Value(along % 2 ? t.n[from] >> 4 : t.n[from]) : t.v[from];
      const double v = x * s, size = std::fabs(v);
      out.product.v[at] = v;
      out.named[at] = static_cast<float>(std::max(std::fabs(x), least) * s);
      double e = 0;
      if (t.error(from) > 0 || scales.error(scale) > 0)
        e = std::fabs(x) * scales.error(scale) + t.error(from) * (s + scales.error(scale));
      if (size > 0 && size < kLeast) e += size;
      if (e > 0) {
        if (out.product.e.empty()) out.product.e.assign(rows * cols, 0.0f);
        out.product.e[at] = Up(e);
      }
      out.product.Mark(at, t.flags(from) | scales.flags(scale));
      if (size > kMost && std::isfinite(size)) out.product.Mark(at, kUnbounded);
    }
  return out;
}

}  // namespace

void EvalScaledDot(const Tile& a, const Tile& b, const Tile& acc, const Tile& sa, const Tile& sb,
                   Tile& out) {
  Side left = Scaled(a, sa, 1), right = Scaled(b, sb, 0);
  EvalDot(left.product, right.product, acc, 0, out, {left.named, right.named});
}

}  // namespace tilec::ir::interpret_internal
