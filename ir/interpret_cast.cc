// Conversions of the interpreter: between types of numbers, and of bits. As in interpret_math.cc, e
// of what comes out is how far an executor may be off, and Finish rounds once.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "ir/interpret_internal.h"
#include "support/expr.h"

namespace tilec::ir::interpret_internal {
namespace {

void WrapAll(const Tile& a, Tile& out) {
  for (size_t i = 0; i < out.n.size(); ++i) out.n[i] = WrapInt(out.dtype, a.n[i]);
}

void CastFloatToInt(const Tile& a, Tile& out) {
  const DType d = out.dtype;
  auto convert = [&](double x) -> int64_t {
    if (std::isnan(x)) return 0;
    if (d == DType::kBool) return x != 0;
    x = std::trunc(x);
    if (d == DType::kU64) {
      if (x <= 0) return 0;
      return x >= 0x1p64 ? -1 : static_cast<int64_t>(static_cast<uint64_t>(x));
    }
    const int64_t low = MinInt(d);
    const int64_t high = MaxInt(d);
    if (x <= static_cast<double>(low)) return low;
    if (x >= static_cast<double>(high)) return high;
    return static_cast<int64_t>(x);
  };
  for (size_t i = 0; i < out.n.size(); ++i) {
    out.n[i] = convert(a.v[i]);
    const double e = a.error(i);
    if (e > 0 && (convert(a.v[i] - e) != out.n[i] || convert(a.v[i] + e) != out.n[i] ||
                  (d == DType::kBool && std::fabs(a.v[i]) <= e)))
      out.MarkUndecided(i);
  }
}

void CastIntToFloat(const Tile& a, Tile& out) {
  const DType d = out.dtype;
  const bool narrow = Info(d).bits < 32;
  std::vector<double> p;
  for (size_t i = 0; i < out.v.size(); ++i) {
    const double x = IntAsDouble(a.dtype, a.n[i]);
    // Straight to f32: through a double it would round twice.
    out.v[i] = d == DType::kF32 || d == DType::kTF32
                   ? static_cast<double>(a.dtype == DType::kU64
                                             ? static_cast<float>(static_cast<uint64_t>(a.n[i]))
                                             : static_cast<float>(a.n[i]))
                   : x;
    // Executors may pass through f32 on the way to a narrower type.
    if (narrow && std::fabs(x) > 0x1p24) {
      if (p.empty()) p.assign(out.v.size(), 0.0);
      p[i] = std::fabs(x) * 0x1p-24;
    }
  }
  Finish(out, p);
}

}  // namespace

void Cast(const Tile& a, Tile& out) {
  if (!a.is_float() && !out.is_float()) return WrapAll(a, out);
  if (a.is_float() && !out.is_float()) return CastFloatToInt(a, out);
  if (!a.is_float()) return CastIntToFloat(a, out);
  out.v = a.v;
  const bool through = IsWide(a.dtype) && Info(out.dtype).bits < 32;  // executors may, through f32
  Numbers p(through ? a.v.size() : a.e.size());
  std::copy(a.e.begin(), a.e.end(), p.data());
  if (through) {
    for (size_t i = 0; i < p.size(); ++i)
      if (static_cast<double>(static_cast<float>(a.v[i])) != a.v[i])
        p[i] += std::fabs(a.v[i]) * 0x1p-24;
  }
  Finish(out, p);
}

void Bitcast(const Tile& a, Tile& out) {
  std::byte raw[8];
  for (size_t i = 0; i < a.size(); ++i) {
    if (a.is_float())
      StoreFloat(a.dtype, a.v[i], raw);
    else
      StoreInt(a.dtype, a.n[i], raw);
    if (out.is_float())
      out.v[i] = LoadFloat(out.dtype, raw);
    else
      out.n[i] = LoadInt(out.dtype, raw);
    if (a.error(i) > 0) out.MarkUndecided(i);
  }
}

}  // namespace tilec::ir::interpret_internal
