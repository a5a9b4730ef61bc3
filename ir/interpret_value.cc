// Tensors at the interpreter's border: bytes in and out, random contents, comparison.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "ir/interpret.h"
#include "ir/numerics.h"
#include "support/check.h"

namespace tilec::ir {

int64_t TensorValue::elements() const {
  int64_t n = 1;
  for (int64_t d : dims) n *= d;
  return n;
}

TensorValue TensorValue::Zeros(DType dtype, std::vector<int64_t> dims) {
  TensorValue t;
  t.dtype = dtype;
  t.dims = std::move(dims);
  const auto n = static_cast<size_t>(t.elements());
  if (t.wide())
    t.words.assign(n, 0);
  else
    t.v.assign(n, 0.0);
  return t;
}

TensorValue TensorValue::FromBytes(DType dtype, std::vector<int64_t> dims,
                                   std::span<const std::byte> bytes) {
  TensorValue t = Zeros(dtype, std::move(dims));
  const auto size = static_cast<size_t>(ByteSize(dtype));
  const auto n = static_cast<size_t>(t.elements());
  CHECK(bytes.size() == n * size, "TensorValue::FromBytes: wrong number of bytes");
  for (size_t i = 0; i < n; ++i) {
    const std::byte* p = bytes.data() + i * size;
    if (t.wide())
      t.words[i] = LoadInt(dtype, p);
    else
      t.v[i] = IsFloat(dtype) ? LoadFloat(dtype, p) : static_cast<double>(LoadInt(dtype, p));
  }
  return t;
}

std::vector<std::byte> TensorValue::ToBytes() const {
  const auto size = static_cast<size_t>(ByteSize(dtype));
  const auto n = static_cast<size_t>(elements());
  std::vector<std::byte> bytes(n * size);
  for (size_t i = 0; i < n; ++i) {
    std::byte* p = bytes.data() + i * size;
    if (wide())
      StoreInt(dtype, words[i], p);
    else if (IsFloat(dtype))
      StoreFloat(dtype, v[i], p);
    else
      StoreInt(dtype, static_cast<int64_t>(v[i]), p);
  }
  return bytes;
}

TensorValue TensorValue::Random(DType dtype, std::vector<int64_t> dims, uint64_t seed) {
  TensorValue t = Zeros(dtype, std::move(dims));
  uint64_t state = seed * 0x9E3779B97F4A7C15u + 0x1234567;
  auto next = [&state] {  // splitmix64
    uint64_t z = (state += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  };
  const bool is_signed = IsSigned(dtype);
  for (size_t i = 0; i < static_cast<size_t>(t.elements()); ++i) {
    const uint64_t bits = next();
    if (IsScale(dtype)) {  // of values around 1: powers of two, or 0.5 to 2 in steps
      t.v[i] = dtype == DType::kUE8M0
                   ? std::ldexp(1.0, static_cast<int>(bits >> 62) - 2)
                   : Round(dtype, 0.5 + static_cast<double>(bits >> 11) * 0x1.8p-53);
      continue;
    }
    if (IsFloat(dtype)) {
      t.v[i] = static_cast<double>(bits >> 11) * 0x1p-52 - 1.0;  // rounded below
      continue;
    }
    const int64_t n = dtype == DType::kBool
                          ? static_cast<int64_t>(bits >> 63)
                          : static_cast<int64_t>(bits >> 60) - (is_signed ? 8 : 0);
    if (t.wide())
      t.words[i] = n;
    else
      t.v[i] = static_cast<double>(n);
  }
  if (IsFloat(dtype) && !IsScale(dtype)) RoundAll(dtype, t.v);
  return t;
}

namespace {

struct Comparer {
  const TensorValue& expected;
  const CompareOptions& options;
  CompareResult result;
  double rms = 0;

  void MeasureRms() {
    double sum = 0;
    int64_t n = 0;
    for (size_t i = 0; i < expected.v.size(); ++i) {
      if (!expected.undecided.empty() && expected.undecided[i]) continue;
      if (!std::isfinite(expected.v[i])) continue;
      sum += expected.v[i] * expected.v[i];
      ++n;
    }
    rms = n > 0 ? std::sqrt(sum / static_cast<double>(n)) : 0;
  }

  void Fail(int64_t at, double v, double x, double bound) {
    if (result.failed++ > 0) return;
    result.first_failed = at;
    result.expected = v;
    result.actual = x;
    result.bound = bound;
  }

  void OneFloat(int64_t at, double v, double x) {
    const double e = expected.e.empty() ? 0 : expected.e[static_cast<size_t>(at)];
    double bound = e > 0 ? e + HalfUlp(expected.dtype, v) : 0;  // v is a value of the type
    if (options.tolerance >= 0) bound = std::min(bound, options.tolerance * (std::fabs(v) + rms));
    if (std::isnan(v) || std::isnan(x)) {
      if (std::isnan(v) != std::isnan(x)) Fail(at, v, x, bound);
      return;
    }
    if (std::isinf(v) || std::isinf(x)) {
      if (v != x) Fail(at, v, x, bound);
      return;
    }
    const double error = std::fabs(x - v);
    result.max_error = std::max(result.max_error, error);
    if (error > 0)
      result.max_ratio = std::max(result.max_ratio, bound > 0 ? error / bound : INFINITY);
    if (error > bound) Fail(at, v, x, bound);
  }

  // `actual(i)` is a double, or the bits of a 64-bit integer.
  template <typename GetFloat, typename GetInt>
  CompareResult Run(GetFloat&& actual, GetInt&& actual_word) {
    if (options.tolerance >= 0) MeasureRms();
    for (int64_t i = 0; i < expected.elements(); ++i) {
      const auto at = static_cast<size_t>(i);
      if (!expected.undecided.empty() && expected.undecided[at]) {
        ++result.undecided;
        continue;
      }
      ++result.checked;
      result.sampled += !expected.sampled.empty() && expected.sampled[at] != 0;
      if (expected.wide()) {
        const int64_t v = expected.words[at], x = actual_word(at);
        if (v != x) Fail(i, static_cast<double>(v), static_cast<double>(x), 0);
      } else if (IsFloat(expected.dtype)) {
        OneFloat(i, expected.v[at], actual(at));
      } else if (expected.v[at] != actual(at)) {
        Fail(i, expected.v[at], actual(at), 0);
      }
    }
    return result;
  }
};

}  // namespace

CompareResult Compare(const TensorValue& expected, const TensorValue& actual,
                      const CompareOptions& options) {
  CHECK(expected.dtype == actual.dtype && expected.dims == actual.dims,
        "Compare: tensors of different type or shape");
  return Comparer{expected, options, {}}.Run([&](size_t i) { return actual.v[i]; },
                                             [&](size_t i) { return actual.words[i]; });
}

CompareResult Compare(const TensorValue& expected, std::span<const std::byte> actual,
                      const CompareOptions& options) {
  const DType d = expected.dtype;
  const auto size = static_cast<size_t>(ByteSize(d));
  CHECK(actual.size() == size * static_cast<size_t>(expected.elements()),
        "Compare: wrong number of bytes");
  return Comparer{expected, options, {}}.Run(
      [&](size_t i) {
        const std::byte* p = actual.data() + i * size;
        return IsFloat(d) ? LoadFloat(d, p) : static_cast<double>(LoadInt(d, p));
      },
      [&](size_t i) { return LoadInt(d, actual.data() + i * size); });
}

}  // namespace tilec::ir
