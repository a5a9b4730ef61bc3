// That error bounds are sound: the same mathematics in f32, in another order of operations, stays
// within them; and what a comparison counts.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "ir/interpret.h"
#include "ir/numerics.h"
#include "tests/unit/ir/execute.h"

namespace tilec::ir {
namespace {

// softmax of rows of A, then a product with B: exp2, reductions, division, cast and dot in one.
const char* kSoftmax = R"(func @f tile {
  param tensor %A: tensor<f32, 2> in [16, 64] align=1 stride_align=1 contiguous=1
  param tensor %B: tensor<f32, 2> in [64, 8] align=1 stride_align=1 contiguous=1
  param tensor %R: tensor<f32, 2> out [16, 8] align=1 stride_align=1 contiguous=1
  body {
    %z = constant {value = 0} : i64
    %m = constant {value = 16} : i64
    %n = constant {value = 8} : i64
    %a = load %A, %z, %z {modes = "rr", sizes = [16, 64]} : f32[16, 64]
    %b = load %B, %z, %z {modes = "rr", sizes = [64, 8]} : f32[64, 8]
    %mx = reduce %a {kind = "max", axis = 1} : f32[16]
    %mb = broadcast %mx {axes = [0]} : f32[16, 64]
    %d = sub %a, %mb : f32[16, 64]
    %c = constant {value = 1.4426950408889634} : f32[16, 64]
    %s = mul %d, %c : f32[16, 64]
    %p = exp2 %s : f32[16, 64]
    %l = reduce %p {kind = "sum", axis = 1} : f32[16]
    %acc = constant {value = 0.0} : f32[16, 8]
    %o = dot %p, %b, %acc : f32[16, 8]
    %lb = broadcast %l {axes = [0]} : f32[16, 8]
    %r = div %o, %lb : f32[16, 8]
    store %R, %r, %z, %m, %z, %n {modes = "rr", sizes = [16, 8]}
  }
}
)";

TEST(Soundness, SoftmaxInF32AnyOrder) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    TensorValue a = TensorValue::Random(DType::kF32, {16, 64}, seed);
    for (double& x : a.v) x = Round(DType::kF32, x * 10);
    const TensorValue b = TensorValue::Random(DType::kF32, {64, 8}, seed + 100);
    Ran run = Execute(kSoftmax, {{"A", a}, {"B", b}});
    ASSERT_TRUE(run.ok) << Messages(run.diags);
    std::mt19937 random(static_cast<uint32_t>(seed));
    std::vector<size_t> order(64);
    std::iota(order.begin(), order.end(), size_t{0});
    TensorValue actual = TensorValue::Zeros(DType::kF32, {16, 8});
    for (size_t i = 0; i < 16; ++i) {
      std::shuffle(order.begin(), order.end(), random);
      float mx = -INFINITY;
      for (size_t k = 0; k < 64; ++k) mx = std::max(mx, static_cast<float>(a.v[i * 64 + k]));
      float p[64], l = 0;
      for (size_t k : order) {
        // Contracted or not, and exp2 off by up to 2 ulp.
        const auto x = static_cast<float>(a.v[i * 64 + k]);
        const float s = random() % 2 ? std::fmaf(x - mx, 1.442695f, 0.0f) : (x - mx) * 1.442695f;
        p[k] = std::exp2(s) * (1 + (static_cast<float>(random() % 5) - 2) * 0x1p-24f);
        l += p[k];
      }
      for (size_t j = 0; j < 8; ++j) {
        float sum = 0;
        for (size_t k : order) {
          const auto y = static_cast<float>(b.v[k * 8 + j]);
          sum = random() % 2 ? std::fmaf(p[k], y, sum) : sum + p[k] * y;
        }
        actual.v[i * 8 + j] = sum * (1.0f / l);
      }
    }
    const CompareResult r = Compare(run["R"], actual);
    EXPECT_TRUE(r.ok()) << "seed " << seed << ": " << r.actual << " for " << r.expected << " ± "
                        << r.bound;
    EXPECT_EQ(r.checked, 128);
    EXPECT_LT(*std::max_element(run["R"].e.begin(), run["R"].e.end()), 1e-3)
        << "a bound worth having";
  }
}

// Hopper's accumulation as published: 16 products and the accumulator, aligned to the largest
// exponent, each cut at 25 fractional bits; the f32 result cut as well.
float TensorCoreStep(const std::vector<double>& products, float acc) {
  int top = -1000;
  for (double p : products)
    if (p != 0) top = std::max(top, std::ilogb(p));
  if (acc != 0) top = std::max(top, std::ilogb(static_cast<double>(acc)));
  if (top == -1000) return 0;
  const double unit = std::ldexp(1.0, top - 25);
  double sum = std::trunc(static_cast<double>(acc) / unit);
  for (double p : products) sum += std::trunc(p / unit);
  sum *= unit;
  auto cut = static_cast<float>(sum);
  if (std::fabs(static_cast<double>(cut)) > std::fabs(sum)) cut = std::nextafter(cut, 0.0f);
  return cut;
}

TEST(Soundness, TruncatingAccumulation) {
  const std::string text = R"(func @f tile {
  param tensor %A: tensor<bf16, 2> in [16, 256] align=1 stride_align=1 contiguous=1
  param tensor %B: tensor<bf16, 2> in [256, 8] align=1 stride_align=1 contiguous=1
  param tensor %R: tensor<f32, 2> out [16, 8] align=1 stride_align=1 contiguous=1
  body {
    %z = constant {value = 0} : i64
    %m = constant {value = 16} : i64
    %n = constant {value = 8} : i64
    %a = load %A, %z, %z {modes = "rr", sizes = [16, 256]} : bf16[16, 256]
    %b = load %B, %z, %z {modes = "rr", sizes = [256, 8]} : bf16[256, 8]
    %acc = constant {value = 0.0} : f32[16, 8]
    %r = dot %a, %b, %acc : f32[16, 8]
    store %R, %r, %z, %m, %z, %n {modes = "rr", sizes = [16, 8]}
  }
}
)";
  double worst = 0;
  for (uint64_t seed = 0; seed < 10; ++seed) {
    TensorValue a = TensorValue::Random(DType::kBF16, {16, 256}, seed);
    TensorValue b = TensorValue::Random(DType::kBF16, {256, 8}, seed + 50);
    if (seed % 2)  // all of one sign: truncation pulls one way
      for (TensorValue* t : {&a, &b})
        for (double& x : t->v) x = std::fabs(x);
    Ran run = Execute(text, {{"A", a}, {"B", b}});
    ASSERT_TRUE(run.ok);
    TensorValue actual = TensorValue::Zeros(DType::kF32, {16, 8});
    for (size_t i = 0; i < 16; ++i)
      for (size_t j = 0; j < 8; ++j) {
        float acc = 0;
        for (size_t k = 0; k < 256; k += 16) {
          std::vector<double> products;
          for (size_t q = k; q < k + 16; ++q) products.push_back(a.v[i * 256 + q] * b.v[q * 8 + j]);
          acc = TensorCoreStep(products, acc);
        }
        actual.v[i * 8 + j] = acc;
      }
    const CompareResult r = Compare(run["R"], actual);
    EXPECT_TRUE(r.ok()) << "seed " << seed << ": " << r.actual << " for " << r.expected << " ± "
                        << r.bound;
    worst = std::max(worst, r.max_ratio);
  }
  EXPECT_GT(worst, 0.02) << "a bound this loose would hide mistakes";
}

// Each approximate function, off by what its bound allows of an operand that is itself off.
TEST(Soundness, FunctionsCarryOperandErrors) {
  struct Fn {
    const char* name;
    double (*f)(double);
    double lo, hi;
  };
  const Fn fns[] = {{"exp2", [](double x) { return std::exp2(x); }, -20, 20},
                    {"exp", [](double x) { return std::exp(x); }, -20, 20},
                    {"log2", [](double x) { return std::log2(x); }, 0.01, 50},
                    {"log", [](double x) { return std::log(x); }, 0.01, 50},
                    {"sqrt", [](double x) { return std::sqrt(x); }, 0.01, 50},
                    {"rsqrt", [](double x) { return 1 / std::sqrt(x); }, 0.01, 50},
                    {"tanh", [](double x) { return std::tanh(x); }, -5, 5},
                    {"sigmoid", [](double x) { return 1 / (1 + std::exp(-x)); }, -20, 20},
                    {"erf", [](double x) { return std::erf(x); }, -4, 4},
                    {"sin", [](double x) { return std::sin(x); }, -10, 10},
                    {"cos", [](double x) { return std::cos(x); }, -10, 10}};
  for (const Fn& fn : fns) {
    const std::string text = fmt::format(R"(func @f tile {{
  param tensor %A: tensor<f32, 1> in [256] align=1 stride_align=1 contiguous=1
  param tensor %R: tensor<f32, 1> out [256] align=1 stride_align=1 contiguous=1
  body {{
    %z = constant {{value = 0}} : i64
    %n = constant {{value = 256}} : i64
    %a = load %A, %z {{modes = "r", sizes = [256]}} : f32[256]
    %r = {} %a : f32[256]
    store %R, %r, %z, %n {{modes = "r", sizes = [256]}}
  }}
}}
)",
                                         fn.name);
    TensorValue a = TensorValue::Random(DType::kF32, {256}, 9);
    std::mt19937 random(4);
    a.e.resize(256);
    for (size_t i = 0; i < 256; ++i) {
      a.v[i] = Round(DType::kF32, fn.lo + (fn.hi - fn.lo) * (a.v[i] + 1) / 2);
      a.e[i] = static_cast<float>(std::ldexp(0.005, -static_cast<int>(random() % 12)));
    }
    Ran run = Execute(text, {{"A", a}});
    ASSERT_TRUE(run.ok);
    for (int round = 0; round < 10; ++round) {
      TensorValue actual = TensorValue::Zeros(DType::kF32, {256});
      for (size_t i = 0; i < 256; ++i) {
        const double t = round < 2 ? 2.0 * round - 1 : static_cast<double>(random()) * 0x1p-31 - 1;
        const double exact = fn.f(a.v[i] + t * a.e[i] * 0.9999);
        actual.v[i] = Round(DType::kF32, exact * (1 + t * 0x1p-23));
      }
      const CompareResult r = Compare(run["R"], actual);
      EXPECT_TRUE(r.ok()) << fn.name << ": " << r.actual << " for " << r.expected << " ± "
                          << r.bound << " at "
                          << a.v[static_cast<size_t>(std::max<int64_t>(r.first_failed, 0))];
      EXPECT_GT(r.checked, 200) << fn.name;
    }
  }
}

TEST(Comparison, ToleranceOnlyTightens) {
  TensorValue v = TensorValue::Zeros(DType::kF32, {4});
  v.v = {1, 1, -1, 1};
  v.e = {0.1f, 0.1f, 0.1f, 0.1f};
  TensorValue x = v;
  x.v = {1.05, 1, -1, 1};
  EXPECT_TRUE(Compare(v, x).ok());
  CompareOptions tight;
  tight.tolerance = 0.01;
  EXPECT_EQ(Compare(v, x, tight).failed, 1);
  tight.tolerance = 100;
  x.v[0] = 1.2;
  EXPECT_EQ(Compare(v, x, tight).failed, 1) << "a large tolerance loosens nothing";
  v.undecided = {1, 0, 0, 0};
  const CompareResult r = Compare(v, x, tight);
  EXPECT_TRUE(r.ok());
  EXPECT_EQ(r.undecided, 1);
  EXPECT_EQ(r.checked, 3);
  x.v[1] = std::nan("");
  EXPECT_EQ(Compare(v, x).failed, 1);
}

}  // namespace
}  // namespace tilec::ir
