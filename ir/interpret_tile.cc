// Tiles: rounding with error bounds in one place, and the ops that only move elements.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ir/interpret_internal.h"
#include "support/check.h"

namespace tilec::ir::interpret_internal {

void Tile::Reset(const Type& type) {
  dtype = type.dtype;
  shape = type.shape;
  const auto count = static_cast<size_t>(type.elements());
  const bool floats = IsFloat(dtype);
  v.resize(floats ? count : 0);
  n.resize(floats ? 0 : count);
  e.clear();
  und.clear();
}

void Tile::DropZeroErrors() {
  if (!e.empty() && std::all_of(e.begin(), e.end(), [](float x) { return x == 0.0f; })) e.clear();
}

namespace {

bool AllZero(std::span<const double> p) {
  return std::all_of(p.begin(), p.end(), [](double x) { return x == 0; });
}

bool HasSubnormal(const std::vector<double>& v, double min_normal) {
  bool found = false;
  for (double x : v) found |= x != 0 && std::fabs(x) < min_normal;
  return found;
}

struct Bound {
  double e = 0;
  uint8_t undecided = 0;
};

// The exact result r of one element, its rounding v, the spread p of an executor's exact result and
// the roundings of r − p and r + p: rounding keeps order, so an executor's value lies between them.
struct Rounded {
  double r, v, p, low, high;
};

Bound BoundOf(const FloatFormat& f, const Rounded& x, bool contracts) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  Bound b;
  if (!std::isfinite(x.v)) {
    // Infinite for the interpreter; finite, perhaps, for an executor, or infinite the other way.
    if (contracts && std::isfinite(x.r))
      b.undecided = kJump;  // what it is added to may bring it back
    else if (x.p > 0 && std::isfinite(x.r) && !(x.low == x.v && x.high == x.v))
      b.undecided = kUnbounded;
    return b;
  }
  if (x.p > 0) b.e = std::max(x.high - x.v, x.v - x.low);
  if (contracts && !f.saturates) b.e = std::max(b.e, x.p + std::fabs(x.v - x.r));
  if (f.flushes && std::fabs(x.r) - x.p < f.min_normal)
    b.e += std::min(std::fabs(x.r) + x.p, f.min_normal);
  if (!(b.e < kInf)) {
    b.undecided = kUnbounded;
    b.e = 0;
  }
  return b;
}

}  // namespace

// One of the results that an executor may come to: each r moved by a random part of its spread.
static void Perturb(Tile& out, std::span<const double> p, bool contracts) {
  const FloatFormat& f = FormatOf(out.dtype);
  // An operand has strayed already where the op itself adds nothing. f16 and the types of eight
  // bits overflow at numbers that kernels make; masks of f32 near its largest are exact.
  const bool soon = f.max_finite < 0x1p100;
  for (size_t i = 0; i < out.v.size(); ++i) {
    double& r = out.v[i];
    if (!std::isfinite(r)) continue;
    const bool strays = soon || contracts || (!p.empty() && p[i] > 0);
    if (strays && std::fabs(r) > f.max_finite / 2 && !f.saturates) {
      MarkJump(out, i, out.dice);  // an executor's may overflow, and four runs need not show it
      continue;
    }
    if (!p.empty() && p[i] > 0 && std::isfinite(p[i])) r += p[i] * out.dice->Next();
    if (contracts) r += HalfUlp(f, r) * out.dice->Next();
    if (f.flushes && std::fabs(r) < f.min_normal && out.dice->Next() < 0) r = 0;
  }
  RoundAll(out.dtype, out.v);
}

void Finish(Tile& out, std::span<const double> p, bool contracts) {
  if (out.dice) return Perturb(out, p, contracts);
  const FloatFormat& f = FormatOf(out.dtype);
  const bool subnormal = f.flushes && HasSubnormal(out.v, f.min_normal);
  const bool exact = AllZero(p);
  if (!contracts && !subnormal && exact) {
    RoundAll(out.dtype, out.v);
    return;
  }
  const Numbers r{std::span<const double>(out.v)};
  const size_t n = r.size();
  RoundAll(out.dtype, out.v);
  if (exact && !subnormal && std::equal(out.v.begin(), out.v.end(), r.data()))
    return;  // every product was exact
  Numbers low(exact ? 0 : n), high(exact ? 0 : n);
  if (!exact) {
    std::copy_n(r.data(), n, low.data());
    std::copy_n(r.data(), n, high.data());
    const bool wide = out.dtype == DType::kF64;
    for (size_t i = 0; i < n; ++i) {
      if (p[i] == 0) continue;
      // r was computed in f64, not exactly; and in f64 an executor's rounding is not covered by
      // rounding the ends.
      const double reach = p[i] + std::fabs(r[i]) * 0x1p-51 + (wide ? HalfUlp(f, r[i]) : 0);
      low[i] -= reach;
      high[i] += reach;
    }
    RoundAll(out.dtype, low);
    RoundAll(out.dtype, high);
  }
  out.e.resize(n);
  for (size_t i = 0; i < n; ++i) {
    const Rounded x{r[i], out.v[i], exact ? 0 : p[i], exact ? r[i] : low[i],
                    exact ? r[i] : high[i]};
    const Bound b = BoundOf(f, x, contracts);
    out.e[i] = Up(b.e);
    if (b.undecided || std::isinf(out.e[i])) {
      out.e[i] = 0;
      out.Mark(i, b.undecided ? b.undecided : kUnbounded);
    }
  }
  out.DropZeroErrors();
}

void JoinUndecided(Tile& out, std::span<const Tile* const> operands) {
  for (const Tile* t : operands) {
    if (t->und.empty()) continue;
    if (out.und.empty()) out.und.assign(out.size(), 0);
    const bool jumps = t->is_float() && !out.is_float();
    for (size_t i = 0; i < out.und.size(); ++i)
      out.und[i] |= jumps && (t->und[i] & kUnbounded) ? kJump : t->und[i];
  }
}

std::vector<int64_t> RowMajorStrides(const std::vector<int64_t>& shape) {
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t d = shape.size(); d-- > 1;) strides[d - 1] = strides[d] * shape[d];
  return strides;
}

namespace {

template <typename T>
void GatherArray(const std::vector<T>& src, const std::vector<int64_t>& shape,
                 const std::vector<int64_t>& strides, size_t count, std::vector<T>& dst) {
  if (src.empty()) {
    dst.clear();
    return;
  }
  dst.resize(count);
  if (shape.empty()) {
    dst[0] = src[0];
    return;
  }
  const size_t last = shape.size() - 1;
  std::vector<int64_t> at(shape.size(), 0);
  int64_t base = 0;
  for (size_t out = 0; out < count; out += static_cast<size_t>(shape[last])) {
    const int64_t step = strides[last];
    for (int64_t i = 0; i < shape[last]; ++i)
      dst[out + static_cast<size_t>(i)] = src[static_cast<size_t>(base + i * step)];
    for (size_t d = last; d-- > 0;) {
      base += strides[d];
      if (++at[d] < shape[d]) break;
      base -= strides[d] * shape[d];
      at[d] = 0;
    }
  }
}

}  // namespace

void GatherStrided(const Tile& src, const std::vector<int64_t>& strides, Tile& dst) {
  const size_t count = dst.size();
  GatherArray(src.v, dst.shape, strides, count, dst.v);
  GatherArray(src.n, dst.shape, strides, count, dst.n);
  GatherArray(src.e, dst.shape, strides, count, dst.e);
  GatherArray(src.und, dst.shape, strides, count, dst.und);
}

void EvalConstant(const Op& op, Tile& out) {
  const AttrValue& value = *op.attr("value");
  if (out.is_float()) {
    const double v = Round(out.dtype, op.number("value"));
    std::fill(out.v.begin(), out.v.end(), v);
    return;
  }
  std::fill(out.n.begin(), out.n.end(), WrapInt(out.dtype, std::get<int64_t>(value)));
}

void EvalIota(const Tile& start, Tile& out) {
  for (size_t i = 0; i < out.n.size(); ++i)
    out.n[i] = WrapInt(out.dtype, start.n[0] + static_cast<int64_t>(i));
  if (start.undecided(0)) out.und.assign(out.size(), kJump);
}

void EvalBroadcast(const Tile& in, const std::vector<int64_t>& axes, Tile& out) {
  const std::vector<int64_t> from = RowMajorStrides(in.shape);
  std::vector<int64_t> strides(out.shape.size(), 0);
  for (size_t i = 0; i < axes.size(); ++i)
    strides[static_cast<size_t>(axes[i])] = in.shape[i] == 1 ? 0 : from[i];
  GatherStrided(in, strides, out);
}

void EvalTranspose(const Tile& in, const std::vector<int64_t>& perm, Tile& out) {
  const std::vector<int64_t> from = RowMajorStrides(in.shape);
  std::vector<int64_t> strides;
  for (int64_t p : perm) strides.push_back(from[static_cast<size_t>(p)]);
  GatherStrided(in, strides, out);
}

void EvalReshape(const Tile& in, Tile& out) {
  out.v = in.v;
  out.n = in.n;
  out.e = in.e;
  out.und = in.und;
}

namespace {

template <typename T>
void PickArray(const std::vector<T>& src, const std::vector<int64_t>& numbers,
               std::vector<T>& dst) {
  if (src.empty()) return dst.clear();
  dst.resize(numbers.size());
  for (size_t i = 0; i < numbers.size(); ++i)
    dst[i] = numbers[i] < 0 ? T{} : src[static_cast<size_t>(numbers[i])];
}

}  // namespace

void EvalRearrange(const Tile& in, int64_t first, const std::vector<int64_t>& strides, Tile& out) {
  const auto count = static_cast<int64_t>(in.size());
  std::vector<int64_t> numbers(out.size()), at(out.shape.size(), 0);
  for (int64_t& number : numbers) {
    number = first;
    for (size_t d = 0; d < at.size(); ++d) number += at[d] * strides[d];
    if (number < 0 || number >= count) number = -1;
    for (size_t d = at.size(); d-- > 0;) {
      if (++at[d] < out.shape[d]) break;
      at[d] = 0;
    }
  }
  PickArray(in.v, numbers, out.v);
  PickArray(in.n, numbers, out.n);
  PickArray(in.e, numbers, out.e);
  PickArray(in.und, numbers, out.und);
}

}  // namespace tilec::ir::interpret_internal
