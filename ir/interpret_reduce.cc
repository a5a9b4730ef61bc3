// Reductions and scans. A sum may be made in any order, in f32 (f64 for f64): n terms give at most
// (n − 1)·u·Σ|x| of rounding. Sums of integers small enough for f32 are exact in every order.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ir/interpret_internal.h"
#include "support/check.h"

namespace tilec::ir::interpret_internal {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

// A tile seen as [outer, length, inner] around the axis.
struct Lines {
  int64_t outer = 1, length = 1, inner = 1;
  Lines(const std::vector<int64_t>& shape, int64_t axis) {
    for (size_t d = 0; d < shape.size(); ++d) {
      const auto at = static_cast<int64_t>(d);
      (at < axis ? outer : at == axis ? length : inner) *= shape[d];
    }
  }
  // Calls f(result index, index of the line's first element).
  template <typename F>
  void ForEach(F&& f) const {
    for (int64_t o = 0; o < outer; ++o)
      for (int64_t i = 0; i < inner; ++i)
        f(static_cast<size_t>(o * inner + i), static_cast<size_t>(o * length * inner + i));
  }
};

// Unit roundoff of the accumulation; in f64 the interpreter's own sum errs as well.
double SumUnit(DType d) { return d == DType::kF64 ? 0x1p-52 : 0x1p-24; }
double ExactSumLimit(DType d) { return d == DType::kF64 ? 0x1p53 : 0x1p24; }

struct Sum {
  DType type;
  double unit, limit;
  double r = 0, magnitude = 0, spread = 0;
  int64_t terms = 0;
  bool integral = true;
  explicit Sum(DType d) : type(d), unit(SumUnit(d)), limit(ExactSumLimit(d)) {}
  void Add(double x, double e) {
    r += x;
    magnitude += std::fabs(x);
    spread += e;
    ++terms;
    integral &= x == std::floor(x);
  }
  double Spread() const {
    if (terms < 2 || (integral && spread == 0 && magnitude <= limit) || !std::isfinite(r))
      return spread;
    return spread + static_cast<double>(terms - 1) * unit * (magnitude + spread);
  }
  bool Jumps() const {
    return terms > 1 && OrdersDiffer(type, (magnitude + r) / 2, (magnitude - r) / 2, r, Spread());
  }
};

struct Product {
  DType type;
  double unit;
  double r = 1, spread = 0;
  double high = 1, low = 1;  // what only its large factors make, and only its small ones
  int64_t terms = 0;
  explicit Product(DType d) : type(d), unit(SumUnit(d)) {}
  void Add(double x, double e) {
    spread = spread * (std::fabs(x) + e) + (e > 0 ? std::fabs(r) * e : 0);
    r *= x;
    high *= std::max(std::fabs(x) + e, 1.0);
    low *= std::min(std::fabs(x), 1.0);
    if (++terms > 1 && std::isfinite(r)) spread += unit * (std::fabs(r) + spread);
  }
  double Spread() const { return spread; }
  // One order overflows, or comes to zero, and another does not.
  bool Jumps() const {
    const FloatFormat& f = FormatOf(DType::kF32);
    return type != DType::kF64 && low < 1 && high > 1 && std::isfinite(high) &&
           (high > f.max_finite || (low > 0 && low < f.min_normal));
  }
};

// The extreme of a line, sign = 1: max, −1: min; NaNs are dropped. The hull of what an executor
// may see gives the error.
struct Extreme {
  double sign;
  double best = -kInfinite, high = -kInfinite, low = -kInfinite;
  bool any = false;
  void Add(double x, double e) {
    if (std::isnan(x)) return;
    any = true;
    x *= sign;
    best = std::max(best, x);
    high = std::max(high, x + e);
    low = std::max(low, x - e);
  }
  double Value() const { return any ? sign * best : std::nan(""); }
  double Error() const { return std::isinf(best) ? 0 : std::max(high - best, best - low); }
};

template <typename Acc>
void AccumulateFloats(const Tile& in, const Lines& lines, bool scan, Acc fresh, Tile& out) {
  std::vector<double> p(out.v.size());
  std::vector<size_t> jumps;
  lines.ForEach([&](size_t result, size_t first) {
    Acc acc = fresh;
    for (int64_t i = 0; i < lines.length; ++i) {
      const size_t at = first + static_cast<size_t>(i * lines.inner);
      acc.Add(in.v[at], in.error(at));
      if (scan) {
        out.v[at] = acc.r;
        p[at] = acc.Spread();
        if (acc.Jumps()) jumps.push_back(at);
      }
    }
    if (scan) return;
    out.v[result] = acc.r;
    p[result] = acc.Spread();
    if (acc.Jumps()) jumps.push_back(result);
  });
  Finish(out, p);
  for (size_t i : jumps) MarkJump(out, i, out.dice);
}

void ExtremeFloats(const Tile& in, const Lines& lines, bool scan, double sign, Tile& out) {
  if (!in.e.empty()) out.e.assign(out.v.size(), 0.0f);
  lines.ForEach([&](size_t result, size_t first) {
    Extreme acc{sign};
    auto put = [&](size_t at) {
      out.v[at] = acc.Value();
      if (!out.e.empty()) out.e[at] = Up(acc.Error());
    };
    for (int64_t i = 0; i < lines.length; ++i) {
      const size_t at = first + static_cast<size_t>(i * lines.inner);
      acc.Add(in.v[at], in.error(at));
      if (scan) put(at);
    }
    if (!scan) put(result);
  });
  out.DropZeroErrors();
}

int64_t CombineInts(std::string_view kind, DType d, int64_t a, int64_t b) {
  const auto ua = static_cast<uint64_t>(a), ub = static_cast<uint64_t>(b);
  const bool less = d == DType::kU64 ? ua < ub : a < b;
  int64_t r = 0;
  if (kind == "sum") r = static_cast<int64_t>(ua + ub);
  if (kind == "prod") r = static_cast<int64_t>(ua * ub);
  if (kind == "max") r = less ? b : a;
  if (kind == "min") r = less ? a : b;
  if (kind == "any") r = a | b;
  if (kind == "all") r = a & b;
  return WrapInt(d, r);
}

void AccumulateInts(std::string_view kind, const Tile& in, const Lines& lines, bool scan,
                    Tile& out) {
  lines.ForEach([&](size_t result, size_t first) {
    int64_t acc = in.n[first];
    for (int64_t i = 0; i < lines.length; ++i) {
      const size_t at = first + static_cast<size_t>(i * lines.inner);
      if (i > 0) acc = CombineInts(kind, in.dtype, acc, in.n[at]);
      if (scan) out.n[at] = acc;
    }
    if (!scan) out.n[result] = acc;
  });
}

// A result is undecided if something it depends on is. any and all may be decided regardless.
void SpreadUndecidedLines(std::string_view kind, const Tile& in, const Lines& lines, bool scan,
                          Tile& out) {
  if (in.und.empty()) return;
  lines.ForEach([&](size_t result, size_t first) {
    uint8_t flags = 0;
    bool settled = false;
    for (int64_t i = 0; i < lines.length; ++i) {
      const size_t at = first + static_cast<size_t>(i * lines.inner);
      flags |= in.und[at];
      if (!in.undecided(at) && ((kind == "any" && in.n[at]) || (kind == "all" && !in.n[at])))
        settled = true;
      if (scan) out.Mark(at, flags);
    }
    if (!scan && !settled) out.Mark(result, flags);
    if (!scan && settled) out.n[result] = kind == "any";
  });
}

void Accumulate(std::string_view kind, int64_t axis, const Tile& in, bool scan, Tile& out) {
  const Lines lines(in.shape, axis);
  if (!in.is_float()) {
    AccumulateInts(kind, in, lines, scan, out);
  } else if (kind == "sum") {
    AccumulateFloats(in, lines, scan, Sum(in.dtype), out);
  } else if (kind == "prod") {
    AccumulateFloats(in, lines, scan, Product(in.dtype), out);
  } else {
    ExtremeFloats(in, lines, scan, kind == "max" ? 1 : -1, out);
  }
  SpreadUndecidedLines(kind, in, lines, scan, out);
}

}  // namespace

void EvalReduce(std::string_view kind, int64_t axis, const Tile& in, Tile& out) {
  Accumulate(kind, axis, in, false, out);
}

void EvalScan(std::string_view kind, int64_t axis, const Tile& in, Tile& out) {
  Accumulate(kind, axis, in, true, out);
}

void EvalArgReduce(std::string_view kind, int64_t axis, const Tile& in, Tile& out) {
  const Lines lines(in.shape, axis);
  const bool max = kind == "argmax";
  lines.ForEach([&](size_t result, size_t first) {
    auto at = [&](int64_t i) { return first + static_cast<size_t>(i * lines.inner); };
    int64_t best = -1;
    bool undecided = false;
    for (int64_t i = 0; i < lines.length; ++i) {
      undecided |= in.undecided(at(i));
      if (in.is_float()) {
        if (std::isnan(in.v[at(i)])) continue;
        if (best < 0 || (max ? in.v[at(i)] > in.v[at(best)] : in.v[at(i)] < in.v[at(best)]))
          best = i;
      } else {
        const int64_t x = in.n[at(i)];
        const int64_t y = best < 0 ? x : in.n[at(best)];
        const bool less =
            in.dtype == DType::kU64 ? static_cast<uint64_t>(x) < static_cast<uint64_t>(y) : x < y;
        const bool greater = x != y && !less;
        if (best < 0 || (max ? greater : less)) best = i;
      }
    }
    best = std::max<int64_t>(best, 0);
    if (!in.e.empty())
      for (int64_t i = 0; i < lines.length; ++i) {
        const double e = static_cast<double>(in.e[at(i)]) + in.e[at(best)];
        undecided |= i != best && e > 0 && std::fabs(in.v[at(i)] - in.v[at(best)]) <= e;
      }
    out.n[result] = best;
    if (undecided) out.MarkUndecided(result);
  });
}

}  // namespace tilec::ir::interpret_internal
