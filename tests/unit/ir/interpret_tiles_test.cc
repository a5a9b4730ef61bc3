// The interpreter on tiles as wholes: shapes, sums, products. Elementwise ops are in
// interpret_test.cc.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <chrono>

#include "ir/interpret.h"
#include "ir/numerics.h"
#include "tests/unit/ir/interpret_values.h"
#include "tests/unit/ir/test_util.h"

namespace tilec::ir {

namespace {

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
