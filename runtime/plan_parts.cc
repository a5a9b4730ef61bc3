// How a scalar of a launch becomes bytes, and which dims may be large.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/plan_parts.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace tilec::runtime {

namespace {

// IEEE half and bfloat16 words, round to nearest even.
uint16_t ToBf16(float f) {
  uint32_t u = 0;
  std::memcpy(&u, &f, 4);
  if ((u & 0x7fffffff) > 0x7f800000) return static_cast<uint16_t>(u >> 16 | 0x40);
  return static_cast<uint16_t>((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

uint16_t ToF16(double d) {
  const float f = static_cast<float>(d);
  uint32_t u = 0;
  std::memcpy(&u, &f, 4);
  const uint16_t sign = static_cast<uint16_t>(u >> 16 & 0x8000);
  const double a = std::fabs(d);
  if (std::isnan(d)) return sign | 0x7e00;
  if (a >= 65520.0) return sign | 0x7c00;
  int exponent = 0;
  std::frexp(a, &exponent);                                   // a = m · 2^exponent, m in [0.5, 1)
  const int e = std::max(exponent - 1, -14);                  // subnormals share the exponent −14
  const double ulps = std::nearbyint(std::ldexp(a, 10 - e));  // in units of 2^(e − 10)
  return static_cast<uint16_t>(sign + (static_cast<int>(ulps) + ((e + 14) << 10)));
}

}  // namespace

bool IsWideDim(const Expr& dim, const std::vector<std::string>& wide) {
  const std::vector<std::string> names = NamesIn(dim);
  return !names.empty() && std::all_of(names.begin(), names.end(), [&](const std::string& name) {
    return std::find(wide.begin(), wide.end(), name) != wide.end();
  });
}

bool PackScalar(const ScalarValue& value, std::string_view t, KernelArg* arg) {
  const double d = std::holds_alternative<double>(value)
                       ? std::get<double>(value)
                       : static_cast<double>(std::get<int64_t>(value));
  const auto put = [&](auto v) { return *arg = KernelArg::Of(v), true; };
  if (t == "f32" || t == "tf32") return put(static_cast<float>(d));
  if (t == "f64") return put(d);
  if (t == "f16") return put(ToF16(d));
  if (t == "bf16") return put(ToBf16(static_cast<float>(d)));
  const int bytes = DTypeBytes(t);
  const bool is_unsigned = t.starts_with('u'), is_bool = t == "bool";
  int64_t i = 0;
  bool fits = bytes != 0 && (is_bool || is_unsigned || t.starts_with('i'));
  if (const auto* whole = std::get_if<int64_t>(&value)) {
    i = *whole;
  } else {
    fits = fits && d == std::floor(d) && std::fabs(d) < 9.2e18;
    i = fits ? static_cast<int64_t>(d) : 0;
  }
  if (is_bool) {
    fits = fits && (i == 0 || i == 1);
  } else if (bytes > 0 && bytes < 8) {  // 0: an image may name a dtype that there is not
    const int64_t high = (int64_t{1} << (8 * bytes - (is_unsigned ? 0 : 1))) - 1;
    const int64_t low = is_unsigned ? 0 : -high - 1;
    fits = fits && i >= low && i <= high;
  } else if (is_unsigned) {
    fits = fits && i >= 0;
  }
  arg->bytes.resize(static_cast<size_t>(std::max(1, bytes)));
  std::memcpy(arg->bytes.data(), &i, arg->bytes.size());  // little-endian truncation
  return fits;
}

}  // namespace tilec::runtime
