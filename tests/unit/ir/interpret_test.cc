// SPDX-License-Identifier: Apache-2.0
#include "ir/interpret.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>

#include "ir/numerics.h"
#include "tests/unit/ir/test_util.h"

namespace tilec::ir {
namespace {

constexpr double kInf = INFINITY;
const double kNan = std::nan("");

TensorValue Make(DType d, std::vector<int64_t> dims, std::vector<double> v) {
  TensorValue t = TensorValue::Zeros(d, std::move(dims));
  if (t.wide())
    for (size_t i = 0; i < v.size(); ++i) t.words[i] = static_cast<int64_t>(v[i]);
  else
    t.v = std::move(v);
  return t;
}

// Elements as doubles whatever the type.
std::vector<double> Values(const TensorValue& t) {
  if (!t.wide()) return t.v;
  return {t.words.begin(), t.words.end()};
}

// Runs one op over whole 1-D tensors A, B, C of n elements into R.
struct OpRun {
  DType in = DType::kF32;
  DType out = DType::kF32;
  std::string op;  // "add %a, %b"
};
TensorValue RunOp(const OpRun& run, std::vector<std::vector<double>> operands) {
  const auto n = static_cast<int64_t>(operands[0].size());
  std::string text = "func @f tile {\n";
  const char* names = "ABC";
  for (size_t i = 0; i < operands.size(); ++i)
    text += fmt::format(
        "  param tensor %{}: tensor<{}, 1> in [{}] align=1 stride_align=1 contiguous=1\n", names[i],
        Spelling(run.in), n);
  text += fmt::format(
      "  param tensor %R: tensor<{}, 1> out [{}] align=1 stride_align=1 contiguous=1\n  body {{\n",
      Spelling(run.out), n);
  text += fmt::format(
      "    %z = constant {{value = 0}} : i64\n    %n = constant {{value = {}}} : i64\n", n);
  for (size_t i = 0; i < operands.size(); ++i)
    text += fmt::format("    %{0} = load %{1}, %z {{modes = \"r\", sizes = [{2}]}} : {3}[{2}]\n",
                        static_cast<char>('a' + i), names[i], n, Spelling(run.in));
  text += fmt::format("    %r = {} : {}[{}]\n", run.op, Spelling(run.out), n);
  text += fmt::format("    store %R, %r, %z, %n {{modes = \"r\", sizes = [{}]}}\n  }}\n}}\n", n);
  const Function fn = Parsed(text);
  InterpretInputs inputs;
  for (size_t i = 0; i < operands.size(); ++i)
    inputs.tensors[std::string(1, names[i])] = Make(run.in, {n}, std::move(operands[i]));
  DiagSink diags;
  Result<InterpretReport> report = Interpret(fn, inputs, {}, diags);
  EXPECT_TRUE(report.ok()) << Messages(diags) << text;
  return inputs.tensors["R"];
}

void ExpectSame(const std::vector<double>& got, const std::vector<double>& want,
                const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  for (size_t i = 0; i < want.size(); ++i) {
    if (std::isnan(want[i]))
      EXPECT_TRUE(std::isnan(got[i])) << what << " at " << i << ": " << got[i];
    else
      EXPECT_EQ(got[i], want[i]) << what << " at " << i;
  }
}

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

// Runs a body over A[4, 3] with the given text and returns R.
TensorValue RunTile(const std::string& body, DType in, DType out, std::vector<int64_t> out_dims,
                    std::vector<double> a) {
  std::string dims, zeros, ends;
  std::string text = "func @f tile {\n";
  text += fmt::format(
      "  param tensor %A: tensor<{}, 2> in [4, 3] align=1 stride_align=1 contiguous=1\n",
      Spelling(in));
  std::string modes, sizes, indices, extents;
  for (size_t d = 0; d < out_dims.size(); ++d) {
    modes += 'r';
    sizes += fmt::format("{}{}", d ? ", " : "", out_dims[d]);
    indices += fmt::format(", %z, %end{}", d);
    extents += fmt::format("{}{}", d ? ", " : "", out_dims[d]);
  }
  text += fmt::format(
      "  param tensor %R: tensor<{}, {}> out [{}] align=1 stride_align=1 contiguous=1\n  body {{\n",
      Spelling(out), out_dims.size(), extents);
  text += "    %z = constant {value = 0} : i64\n";
  for (size_t d = 0; d < out_dims.size(); ++d)
    text += fmt::format("    %end{} = constant {{value = {}}} : i64\n", d, out_dims[d]);
  text += fmt::format("    %a = load %A, %z, %z {{modes = \"rr\", sizes = [4, 3]}} : {}[4, 3]\n",
                      Spelling(in));
  text += body;
  text += fmt::format("    store %R, %r{} {{modes = \"{}\", sizes = [{}]}}\n  }}\n}}\n", indices,
                      modes, sizes);
  const Function fn = Parsed(text);
  InterpretInputs inputs;
  inputs.tensors["A"] = Make(in, {4, 3}, std::move(a));
  DiagSink diags;
  EXPECT_TRUE(Interpret(fn, inputs, {}, diags).ok()) << Messages(diags) << text;
  return inputs.tensors["R"];
}

const std::vector<double> kTwelve = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};

TEST(Interpret, ShapeOps) {
  ExpectSame(RunTile("%r = transpose %a {perm = [1, 0]} : f32[3, 4]\n", DType::kF32, DType::kF32,
                     {3, 4}, kTwelve)
                 .v,
             {1, 4, 7, 10, 2, 5, 8, 11, 3, 6, 9, 12}, "transpose");
  ExpectSame(
      RunTile(
          "%b = reshape %a : f32[4, 1, 3]\n%r = broadcast %b {axes = [0, 1, 2]} : f32[4, 2, 3]\n",
          DType::kF32, DType::kF32, {4, 2, 3}, kTwelve)
          .v,
      {1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6, 7, 8, 9, 7, 8, 9, 10, 11, 12, 10, 11, 12}, "broadcast");
  ExpectSame(RunTile("%b = reduce %a {kind = \"max\", axis = 0} : f32[3]\n%r = broadcast %b {axes "
                     "= [1]} : f32[2, 3]\n",
                     DType::kF32, DType::kF32, {2, 3}, kTwelve)
                 .v,
             {10, 11, 12, 10, 11, 12}, "broadcast of a row");
  ExpectSame(RunTile("%s = constant {value = 5} : i64\n%r = iota %s : i32[4]\n", DType::kF32,
                     DType::kI32, {4}, kTwelve)
                 .v,
             {5, 6, 7, 8}, "iota");
  ExpectSame(
      RunTile("%r = constant {value = 0.1} : bf16[2]\n", DType::kF32, DType::kBF16, {2}, kTwelve).v,
      {0.10009765625, 0.10009765625}, "constant rounds");
}

TEST(Interpret, Reductions) {
  struct Case {
    const char* kind;
    int axis;
    std::vector<double> want;
  };
  const Case cases[] = {{"sum", 1, {6, 15, 24, 33}},
                        {"sum", 0, {22, 26, 30}},
                        {"prod", 1, {6, 120, 504, 1320}},
                        {"max", 0, {10, 11, 12}},
                        {"min", 1, {1, 4, 7, 10}}};
  for (const Case& c : cases) {
    const auto n = static_cast<int64_t>(c.want.size());
    for (DType d : {DType::kF32, DType::kI32})
      ExpectSame(RunTile(fmt::format("%r = reduce %a {{kind = \"{}\", axis = {}}} : {}[{}]\n",
                                     c.kind, c.axis, Spelling(d), n),
                         d, d, {n}, kTwelve)
                     .v,
                 c.want, c.kind);
  }
  EXPECT_TRUE(RunTile("%r = reduce %a {kind = \"sum\", axis = 1} : f32[4]\n", DType::kF32,
                      DType::kF32, {4}, kTwelve)
                  .e.empty())
      << "small integers add up exactly in any order";
  std::vector<double> tenths;
  for (double x : kTwelve) tenths.push_back(Round(DType::kF32, x / 10));
  EXPECT_FALSE(RunTile("%r = reduce %a {kind = \"sum\", axis = 1} : f32[4]\n", DType::kF32,
                       DType::kF32, {4}, tenths)
                   .e.empty());
  std::vector<double> nans = kTwelve;
  nans[0] = nans[1] = nans[2] = nans[4] = kNan;
  ExpectSame(RunTile("%r = reduce %a {kind = \"max\", axis = 1} : f32[4]\n", DType::kF32,
                     DType::kF32, {4}, nans)
                 .v,
             {kNan, 6, 9, 12}, "max drops NaN");
  const std::vector<double> bits = {0, 0, 0, 1, 0, 1, 1, 1, 1, 0, 1, 0};
  ExpectSame(RunTile("%r = reduce %a {kind = \"any\", axis = 1} : bool[4]\n", DType::kBool,
                     DType::kBool, {4}, bits)
                 .v,
             {0, 1, 1, 1}, "any");
  ExpectSame(RunTile("%r = reduce %a {kind = \"all\", axis = 1} : bool[4]\n", DType::kBool,
                     DType::kBool, {4}, bits)
                 .v,
             {0, 0, 1, 0}, "all");
  const std::vector<double> ties = {3, 3, 1, -1, 5, 5, 2, 0, 2, 7, 7, 7};
  ExpectSame(RunTile("%r = argreduce %a {kind = \"argmax\", axis = 1} : i32[4]\n", DType::kF32,
                     DType::kI32, {4}, ties)
                 .v,
             {0, 1, 0, 0}, "argmax");
  ExpectSame(RunTile("%r = argreduce %a {kind = \"argmin\", axis = 0} : i32[3]\n", DType::kF32,
                     DType::kI32, {3}, ties)
                 .v,
             {1, 2, 0}, "argmin");
  ExpectSame(RunTile("%r = scan %a {kind = \"sum\", axis = 0} : f32[4, 3]\n", DType::kF32,
                     DType::kF32, {4, 3}, kTwelve)
                 .v,
             {1, 2, 3, 5, 7, 9, 12, 15, 18, 22, 26, 30}, "scan");
  ExpectSame(RunTile("%r = scan %a {kind = \"max\", axis = 1} : f32[4, 3]\n", DType::kF32,
                     DType::kF32, {4, 3}, ties)
                 .v,
             {3, 3, 3, -1, 5, 5, 2, 2, 2, 7, 7, 7}, "scan max");
}

TEST(Shapes, ElementsAtOtherPlaces) {
  const auto moved = [](const char* how, std::vector<int64_t> shape) {
    return RunTile(std::string("%r = rearrange %a ") + how + "\n", DType::kF32, DType::kF32, shape,
                   kTwelve)
        .v;
  };
  // kTwelve is 1 … 12 as [4, 3].
  ExpectSame(moved("{first = 1, strides = [3, 1]} : f32[4, 2]", {4, 2}), {2, 3, 5, 6, 8, 9, 11, 12},
             "columns");
  ExpectSame(moved("{first = 9, strides = [-3, 1]} : f32[4, 3]", {4, 3}),
             {10, 11, 12, 7, 8, 9, 4, 5, 6, 1, 2, 3}, "reversed");
  ExpectSame(moved("{first = -6, strides = [3, 1]} : f32[4, 3]", {4, 3}),
             {0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6}, "what is not there is 0");
  ExpectSame(moved("{first = 0, strides = [6, 1]} : f32[2, 6]", {2, 6}),
             {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, "another shape");
  ExpectSame(moved("{first = 11, strides = [2]} : f32[2]", {2}), {12, 0}, "behind the end");
}

TEST(Interpret, DotByHand) {
  const TensorValue r = RunTile(R"(
    %t = transpose %a {perm = [1, 0]} : f32[3, 4]
    %c = constant {value = 1000.0} : f32[4, 4]
    %r = dot %a, %t, %c : f32[4, 4]
)",
                                DType::kF32, DType::kF32, {4, 4}, kTwelve);
  ExpectSame(r.v,
             {1014, 1032, 1050, 1068, 1032, 1077, 1122, 1167, 1050, 1122, 1194, 1266, 1068, 1167,
              1266, 1365},
             "dot");
  EXPECT_TRUE(r.e.empty()) << "integers within f32 are exact";
  ExpectSame(RunTile(R"(
    %t = transpose %a {perm = [1, 0]} : i8[3, 4]
    %c = constant {value = 2147483647} : i32[4, 4]
    %r = dot %a, %t, %c : i32[4, 4]
)",
                     DType::kI8, DType::kI32, {4, 4}, kTwelve)
                         .v[0] == -2147483648.0 + 13
                 ? std::vector<double>{1}
                 : std::vector<double>{0},
             {1}, "i8 wraps");
  // tf32 drops 13 bits of its operands: 1 + 2^-11 counts as 1.
  std::vector<double> fine(12, 1 + 0x1p-11);
  ExpectSame({RunTile(R"(
    %t = transpose %a {perm = [1, 0]} : tf32[3, 4]
    %c = constant {value = 0.0} : f32[4, 4]
    %r = dot %a, %t, %c : f32[4, 4]
)",
                      DType::kTF32, DType::kF32, {4, 4}, fine)
                  .v[0]},
             {3}, "tf32");
}

constexpr const char* kGemm = R"(func @gemm tile {
  param tensor %A: tensor<bf16, 2> in [M, K] align=16 stride_align=16 contiguous=1
  param tensor %B: tensor<bf16, 2> in [N, K] align=16 stride_align=16 contiguous=1
  param tensor %C: tensor<bf16, 2> out [M, N] align=16 stride_align=16 contiguous=1
  param dim %M: i64
  param dim %K: i64
  param dim %N: i64
  body {
    %z = constant {value = 0} : i64
    parallel %z, %M, %z, %N {steps = [128, 256]} do (%m: i64, %n: i64) {
      %acc0 = constant {value = 0.0} : f32[128, 256]
      %acc = for %z, %K, %acc0 {step = 64} : f32[128, 256] do (%k: i64, %c: f32[128, 256]) {
        %a = load %A, %m, %k {modes = "rr", sizes = [128, 64]} : bf16[128, 64]
        %b = load %B, %n, %k {modes = "rr", sizes = [256, 64]} : bf16[256, 64]
        %bt = transpose %b {perm = [1, 0]} : bf16[64, 256]
        %d = dot %a, %bt, %c : f32[128, 256]
        yield %d
      }
      %r = cast %acc : bf16[128, 256]
      store %C, %r, %m, %M, %n, %N {modes = "rr", sizes = [128, 256]}
    }
  }
}
)";

TEST(Interpret, GemmRaggedAndThreads) {
  const Function fn = Parsed(kGemm);
  std::vector<TensorValue> results;
  for (int threads : {1, 3}) {
    InterpretInputs inputs;
    inputs.tensors["A"] = TensorValue::Random(DType::kBF16, {200, 136}, 1);
    inputs.tensors["B"] = TensorValue::Random(DType::kBF16, {300, 136}, 2);
    InterpretOptions options;
    options.threads = threads;
    DiagSink diags;
    Result<InterpretReport> report = Interpret(fn, inputs, options, diags);
    ASSERT_TRUE(report.ok()) << Messages(diags);
    EXPECT_EQ(report->instances, 4);
    results.push_back(inputs.tensors["C"]);
    // Against plain f32 arithmetic, rounded to bf16.
    const TensorValue &a = inputs.tensors["A"], &b = inputs.tensors["B"];
    TensorValue plain = TensorValue::Zeros(DType::kBF16, {200, 300});
    for (int64_t i = 0; i < 200; ++i)
      for (int64_t j = 0; j < 300; ++j) {
        float sum = 0;
        for (int64_t k = 135; k >= 0; --k)
          sum += static_cast<float>(a.v[static_cast<size_t>(i * 136 + k)]) *
                 static_cast<float>(b.v[static_cast<size_t>(j * 136 + k)]);
        plain.v[static_cast<size_t>(i * 300 + j)] = Round(DType::kBF16, sum);
      }
    const CompareResult compared = Compare(results.back(), plain);
    EXPECT_TRUE(compared.ok()) << compared.failed << " of " << compared.checked;
    EXPECT_EQ(compared.checked, 200 * 300);
    // And a wrong element is found.
    plain.v[777] += 0.25;
    const CompareResult wrong =
        Compare(results.back(), std::span<const std::byte>(plain.ToBytes()));
    EXPECT_EQ(wrong.failed, 1);
    EXPECT_EQ(wrong.first_failed, 777);
  }
  EXPECT_EQ(results[0].v, results[1].v);
  EXPECT_EQ(results[0].e, results[1].e);
}

TEST(Interpret, GemmIsFast) {
  const Function fn = Parsed(kGemm);
  InterpretInputs inputs;
  inputs.tensors["A"] = TensorValue::Random(DType::kBF16, {512, 512}, 1);
  inputs.tensors["B"] = TensorValue::Random(DType::kBF16, {512, 512}, 2);
  DiagSink diags;
  const auto start = std::chrono::steady_clock::now();
  ASSERT_TRUE(Interpret(fn, inputs, {}, diags).ok()) << Messages(diags);
  const double ms =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  RecordProperty("milliseconds", static_cast<int>(ms));
  fmt::print("gemm 512^3: {:.0f} ms\n", ms);
  EXPECT_LT(ms, 5000) << "an order of magnitude above what it takes";
}

}  // namespace
}  // namespace tilec::ir
