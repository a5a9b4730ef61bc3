// SPDX-License-Identifier: Apache-2.0
#include "ir/interpret.h"

#include <fmt/format.h>

#include <cmath>

#include "ir/numerics.h"
#include "tests/unit/ir/interpret_values.h"
#include "tests/unit/ir/test_util.h"

namespace tilec::ir {

namespace {

TEST(Interpret, ExactElementwiseFloats) {
  struct Case {
    const char* op;
    std::vector<std::vector<double>> in;
    std::vector<double> want;
  };
  const Case cases[] = {
      {"neg %a", {{1, -2, 0}}, {-1, 2, -0.0}},
      {"abs %a", {{1, -2, -kInf}}, {1, 2, kInf}},
      {"floor %a", {{1.5, -1.5, 2}}, {1, -2, 2}},
      {"ceil %a", {{1.5, -1.5, 2}}, {2, -1, 2}},
      {"round %a", {{0.5, 1.5, 2.5, -0.5, 0.49}}, {0, 2, 2, -0.0, 0}},
      {"sqrt_rn %a", {{4, 2, 0}}, {2, static_cast<double>(std::sqrt(2.0f)), 0}},
      {"add %a, %b", {{1, 0x1p24, kInf}, {2, 1, 1}}, {3, 0x1p24, kInf}},
      {"add %a, %b", {{0x1p24, 0x1p24}, {3, -1}}, {0x1p24 + 4, 0x1p24 - 1}},
      {"sub %a, %b", {{1, kInf}, {2, kInf}}, {-1, kNan}},
      {"div_rn %a, %b", {{1, 1, 0}, {3, 0, 0}}, {static_cast<double>(1.0f / 3.0f), kInf, kNan}},
      {"min %a, %b", {{1, kNan, 3, kNan}, {2, 5, kNan, kNan}}, {1, 5, 3, kNan}},
      {"max %a, %b", {{1, kNan, 3, -kInf}, {2, 5, kNan, kInf}}, {2, 5, 3, kInf}},
      {"fma %a, %b, %c",
       {{0x1.000002p0, 2}, {0x1.000002p0, 3}, {-1, 4}},
       {static_cast<double>(std::fmaf(0x1.000002p0f, 0x1.000002p0f, -1)), 10}},
  };
  for (const Case& c : cases) {
    const TensorValue r = RunOp({DType::kF32, DType::kF32, c.op}, c.in);
    ExpectSame(r.v, c.want, c.op);
    EXPECT_TRUE(r.e.empty()) << c.op << ": correctly rounded ops of exact values are exact";
    EXPECT_TRUE(r.undecided.empty()) << c.op;
  }
}

TEST(Interpret, Integers) {
  struct Case {
    DType d;
    const char* op;
    std::vector<std::vector<double>> in;
    std::vector<double> want;
  };
  const Case cases[] = {
      {DType::kI32, "add %a, %b", {{2147483647, -1}, {1, 1}}, {-2147483648.0, 0}},
      {DType::kU8, "sub %a, %b", {{0, 5}, {1, 7}}, {255, 254}},
      {DType::kI32, "mul %a, %b", {{65536, -3}, {65536, 7}}, {0, -21}},
      {DType::kI32, "div %a, %b", {{7, -7, 7, -7}, {2, 2, -2, -2}}, {3, -4, -4, 3}},
      {DType::kI32, "mod %a, %b", {{7, -7, 7, -7}, {2, 2, -2, -2}}, {1, 1, -1, -1}},
      {DType::kI32, "div %a, %b", {{-2147483648.0}, {-1}}, {-2147483648.0}},
      {DType::kU32, "div %a, %b", {{4294967295.0}, {2}}, {2147483647}},
      {DType::kI8, "neg %a", {{-128, 5}}, {-128, -5}},
      {DType::kI8, "abs %a", {{-128, -5}}, {-128, 5}},
      {DType::kU16, "not %a", {{0, 0xFF}}, {65535, 0xFF00}},
      {DType::kBool, "not %a", {{0, 1}}, {1, 0}},
      {DType::kI32, "shl %a, %b", {{1, 1, 3}, {31, 32, 1}}, {-2147483648.0, 0, 6}},
      {DType::kI32, "shr %a, %b", {{-8, 8, -8}, {1, 1, 40}}, {-4, 4, -1}},
      {DType::kU32, "shr %a, %b", {{4294967288.0}, {1}}, {2147483644}},
      {DType::kI32, "xor %a, %b", {{12, -1}, {10, 1}}, {6, -2}},
      {DType::kI32, "and %a, %b", {{12, -1}, {10, 1}}, {8, 1}},
      {DType::kI32, "or %a, %b", {{12, 4}, {10, 1}}, {14, 5}},
      {DType::kU32, "max %a, %b", {{4294967295.0}, {1}}, {4294967295.0}},
      {DType::kI64, "mul %a, %b", {{0x1p40}, {0x1p20}}, {0x1p60}},
      {DType::kI16, "min %a, %b", {{-3}, {2}}, {-3}},
  };
  for (const Case& c : cases) {
    const TensorValue r = RunOp({c.d, c.d, c.op}, c.in);
    ExpectSame(Values(r), c.want, std::string(c.op) + " " + Spelling(c.d));
    EXPECT_TRUE(r.undecided.empty());
  }
  const TensorValue r = RunOp({DType::kI32, DType::kI32, "div %a, %b"}, {{1, 4}, {0, 2}});
  EXPECT_EQ(r.v[1], 2);
  EXPECT_EQ(r.undecided, (std::vector<uint8_t>{1, 0})) << "x / 0 has no value";
}

TEST(Interpret, WideIntegersKeepAllBits) {
  // A u64 hash step: the product wraps and every bit counts.
  const Function fn = Parsed(R"(func @f tile {
  param tensor %A: tensor<u64, 1> in [2] align=1 stride_align=1 contiguous=1
  param tensor %R: tensor<u64, 1> out [2] align=1 stride_align=1 contiguous=1
  body {
    %z = constant {value = 0} : i64
    %n = constant {value = 2} : i64
    %a = load %A, %z {modes = "r", sizes = [2]} : u64[2]
    %k = constant {value = -7046029254386353131} : u64[2]
    %r = mul %a, %k : u64[2]
    store %R, %r, %z, %n {modes = "r", sizes = [2]}
  }
}
)");
  InterpretInputs inputs;
  TensorValue a = TensorValue::Zeros(DType::kU64, {2});
  a.words = {3, static_cast<int64_t>(0xDEADBEEFCAFEF00Du)};
  inputs.tensors["A"] = a;
  DiagSink diags;
  ASSERT_TRUE(Interpret(fn, inputs, {}, diags).ok()) << Messages(diags);
  for (size_t i = 0; i < 2; ++i)
    EXPECT_EQ(static_cast<uint64_t>(inputs.tensors["R"].words[i]),
              static_cast<uint64_t>(a.words[i]) * 0x9E3779B97F4A7C15u);
}

TEST(Interpret, Casts) {
  struct Case {
    DType from, to;
    std::vector<double> in, want;
  };
  const Case cases[] = {
      {DType::kF32,
       DType::kBF16,
       {1.00390625, 1.01171875, 1e39, -kInf},
       {1, 1.015625, kInf, -kInf}},
      {DType::kF32, DType::kF16, {65519, 65520, 0x1p-25, 0x1.8p-24}, {65504, kInf, 0, 0x1p-23}},
      {DType::kF32,
       DType::kE4M3,
       {1000, -1000, 0.0009, 17, kNan, kInf},
       {448, -448, 0, 16, kNan, 448}},
      {DType::kF32, DType::kE5M2, {1e9, 1.125, 1.375}, {57344, 1, 1.5}},
      {DType::kF32,
       DType::kI32,
       {1.9, -1.9, 3e9, -3e9, kNan},
       {1, -1, 2147483647, -2147483648.0, 0}},
      {DType::kF32, DType::kU8, {-1, 300, 7.5}, {0, 255, 7}},
      {DType::kF32, DType::kBool, {0, -0.0, 0.5}, {0, 0, 1}},
      {DType::kI32, DType::kF32, {16777217, -5}, {16777216, -5}},
      {DType::kI32, DType::kI8, {200, -129}, {-56, 127}},
      {DType::kI8, DType::kU32, {-1}, {4294967295.0}},
      {DType::kF64, DType::kF32, {1.0 + 0x1p-24, 1.0 + 0x1.8p-24}, {1, 1 + 0x1p-23}},
  };
  for (const Case& c : cases) {
    const TensorValue r = RunOp({c.from, c.to, "cast %a"}, {c.in});
    ExpectSame(r.v, c.want, fmt::format("{} as {}", Spelling(c.from), Spelling(c.to)));
  }
  ExpectSame(RunOp({DType::kF32, DType::kI32, "bitcast %a"}, {{1, -2}}).v,
             {0x3F800000, -1073741824.0}, "bitcast");
  ExpectSame(RunOp({DType::kU16, DType::kBF16, "bitcast %a"}, {{0x3F80, 0xC000}}).v, {1, -2},
             "bitcast");
}

TEST(Interpret, CompareAndSelect) {
  const std::vector<std::vector<double>> ab = {{1, 2, 3, kNan}, {2, 2, 2, 1}};
  const std::pair<const char*, std::vector<double>> cases[] = {
      {"eq", {0, 1, 0, 0}}, {"ne", {1, 0, 1, 1}}, {"lt", {1, 0, 0, 0}},
      {"le", {1, 1, 0, 0}}, {"gt", {0, 0, 1, 0}}, {"ge", {0, 1, 1, 0}}};
  for (const auto& [pred, want] : cases)
    ExpectSame(
        RunOp({DType::kF32, DType::kBool, fmt::format("cmp %a, %b {{pred = \"{}\"}}", pred)}, ab).v,
        want, pred);
  ExpectSame(
      RunOp({DType::kU32, DType::kBool, "cmp %a, %b {pred = \"lt\"}"}, {{1, 4294967295.0}, {2, 1}})
          .v,
      {1, 0}, "unsigned");
}

TEST(Interpret, ApproximateFunctionsHaveTheirBound) {
  struct Case {
    const char* op;
    double (*exact)(double);
    double x;
    double most;
  };
  const Case cases[] = {
      {"exp2 %a", [](double x) { return std::exp2(x); }, 1.37, 0x1p-20},
      {"exp %a", [](double x) { return std::exp(x); }, 1.37, 0x1p-18},
      {"log2 %a", [](double x) { return std::log2(x); }, 1.37, 0x1p-20},
      {"log %a", [](double x) { return std::log(x); }, 1.37, 0x1p-20},
      {"sqrt %a", [](double x) { return std::sqrt(x); }, 1.37, 0x1p-20},
      {"rsqrt %a", [](double x) { return 1 / std::sqrt(x); }, 1.37, 0x1p-20},
      {"tanh %a", [](double x) { return std::tanh(x); }, 1.37, 0x1p-9},
      {"sigmoid %a", [](double x) { return 1 / (1 + std::exp(-x)); }, 1.37, 0x1p-19},
      {"erf %a", [](double x) { return std::erf(x); }, 1.37, 0x1p-18},
      {"sin %a", [](double x) { return std::sin(x); }, 1.37, 0x1p-18},
      {"cos %a", [](double x) { return std::cos(x); }, 1.37, 0x1p-18},
  };
  for (const Case& c : cases) {
    const double x = Round(DType::kF32, c.x);
    const TensorValue r = RunOp({DType::kF32, DType::kF32, c.op}, {{x}});
    EXPECT_EQ(r.v[0], Round(DType::kF32, c.exact(x))) << c.op;
    ASSERT_EQ(r.e.size(), 1u) << c.op;
    EXPECT_GE(r.e[0], std::fabs(r.v[0]) * 0x1p-23) << c.op;
    EXPECT_LE(r.e[0], c.most) << c.op;
  }
  const TensorValue r = RunOp({DType::kF32, DType::kF32, "exp2 %a"}, {{-kInf, kInf, 0, -200}});
  ExpectSame(r.v, {0, kInf, 1, 0}, "exp2");
  EXPECT_EQ(r.e.empty() ? 0.0f : r.e[0], 0.0f);
  // Two ulps for division, exact for the _rn form.
  const TensorValue q = RunOp({DType::kF32, DType::kF32, "div %a, %b"}, {{1}, {3}});
  EXPECT_GE(q.e[0], 2 * 0x1p-25);
  EXPECT_LE(q.e[0], 4 * 0x1p-25);
  // A product's rounding is optional; an exact product has none.
  const TensorValue m =
      RunOp({DType::kF32, DType::kF32, "mul %a, %b"}, {{0x1.000002p0, 3}, {0x1.000002p0, 5}});
  EXPECT_EQ(m.v[1], 15);
  EXPECT_EQ(m.e[1], 0.0f);
  EXPECT_GT(m.e[0], 0.0f);
  EXPECT_LE(m.e[0], 0x1p-24);
}

TEST(Interpret, SubnormalsMayFlush) {
  const TensorValue r = RunOp({DType::kF32, DType::kF32, "mul %a, %b"}, {{0x1p-100}, {0x1p-40}});
  EXPECT_EQ(r.v[0], 0x1p-140);
  EXPECT_GE(r.e[0], 0x1p-140f);
  const TensorValue s = RunOp({DType::kF32, DType::kF32, "mul %a, %b"}, {{0x1p-130}, {0x1p100}});
  EXPECT_GE(s.e[0], 0x1p-30f) << "the operand may have been read as 0";
}

// x·x − 2 near √2 straddles 0 within its error: comparing it is undecided, selecting by it is not.
TEST(Interpret, UndecidedElements) {
  const Function fn = Parsed(R"(func @f tile {
  param tensor %A: tensor<f32, 1> in [2] align=1 stride_align=1 contiguous=1
  param tensor %P: tensor<bool, 1> out [2] align=1 stride_align=1 contiguous=1
  param tensor %I: tensor<i32, 1> out [2] align=1 stride_align=1 contiguous=1
  param tensor %S: tensor<f32, 1> out [2] align=1 stride_align=1 contiguous=1
  param tensor %W: tensor<f32, 1> out [2] align=1 stride_align=1 contiguous=1
  body {
    %z = constant {value = 0} : i64
    %n = constant {value = 2} : i64
    %a = load %A, %z {modes = "r", sizes = [2]} : f32[2]
    %two = constant {value = 2.0} : f32[2]
    %zero = constant {value = 0.0} : f32[2]
    %big = constant {value = 1000.0} : f32[2]
    %q = sqrt %a : f32[2]
    %s = mul %q, %q : f32[2]
    %d = sub %s, %two : f32[2]
    %p = cmp %d, %zero {pred = "gt"} : bool[2]
    %i = cast %s : i32[2]
    %r = select %p, %d, %zero : f32[2]
    %w = select %p, %big, %zero : f32[2]
    store %P, %p, %z, %n {modes = "r", sizes = [2]}
    store %I, %i, %z, %n {modes = "r", sizes = [2]}
    store %S, %r, %z, %n {modes = "r", sizes = [2]}
    store %W, %w, %z, %n {modes = "r", sizes = [2]}
  }
}
)");
  InterpretInputs inputs;
  inputs.tensors["A"] = Make(DType::kF32, {2}, {2, 9.5});
  DiagSink diags;
  Result<InterpretReport> report = Interpret(fn, inputs, {}, diags);
  ASSERT_TRUE(report.ok()) << Messages(diags);
  EXPECT_EQ(inputs.tensors["P"].undecided, (std::vector<uint8_t>{1, 0}));
  EXPECT_EQ(inputs.tensors["I"].undecided, (std::vector<uint8_t>{1, 0}));
  EXPECT_EQ(report->undecided_stores, 2);
  // max(d, 0) by select: both outcomes lie within a small e.
  EXPECT_TRUE(inputs.tensors["S"].undecided.empty());
  EXPECT_LT(inputs.tensors["S"].e[0], 1e-5);
  // A jump of 1000: e covers it.
  EXPECT_GE(inputs.tensors["W"].e[0], 1000.0f);
  EXPECT_EQ(inputs.tensors["W"].v[1], 1000);
}

TEST(Interpret, AndOrDecideRegardless) {
  const TensorValue a = RunOp({DType::kBool, DType::kBool, "and %a, %b"}, {{1, 0, 1}, {1, 1, 0}});
  ExpectSame(a.v, {1, 0, 0}, "and");
}

}  // namespace

}  // namespace tilec::ir
