// defer-reductions: loops add up tiles, which are reduced behind them; whatever would not be the
// same sum, or gain nothing, stays as it is.
//
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "ir/lower/sequential.h"
#include "ir/passes/passes.h"
#include "tests/unit/lower/helper.h"

namespace tilec::ir {
namespace {

// Two sums of the rows of a tile, which start from something.
const char* const kSums = R"(func @sums tile {
  param tensor %X: tensor<i32, 2> in [R, C] align=16 stride_align=16 contiguous=1 last_align=4
  param tensor %Y: tensor<i32, 1> out [R] align=16 stride_align=16 contiguous=1 last_align=4
  param tensor %Z: tensor<i32, 1> out [R] align=16 stride_align=16 contiguous=1 last_align=4
  param dim %R: i64
  param dim %C: i64
  body {
    %0 = constant {value = 0} : i64
    parallel %0, %R {steps = [8]} do (%r: i64) {
      %start = constant {value = 3} : i32[8]
      %s, %t = for %0, %C, %start, %start {step = 128} : i32[8], i32[8]
          do (%c: i64, %a: i32[8], %b: i32[8]) {
        %x = load %X, %r, %c {modes = "rr", sizes = [8, 128]} : i32[8, 128]
        %q = reduce %x {kind = "sum", axis = 1} : i32[8]
        %an = add %a, %q : i32[8]
        %xx = mul %x, %x : i32[8, 128]
        %qq = reduce %xx {kind = "sum", axis = 1} : i32[8]
        %bn = add %qq, %b : i32[8]
        yield %an, %bn
      }
      %rows = constant {value = 8} : i64
      %e0 = add %r, %rows : i64
      %e = min %e0, %R : i64
      store %Y, %s, %r, %e {modes = "r", sizes = [8]}
      store %Z, %t, %r, %e {modes = "r", sizes = [8]}
      yield
    }
  }
}
)";

// The largest of each column.
const char* const kLargest = R"(func @largest tile {
  param tensor %X: tensor<f32, 2> in [R, C] align=16 stride_align=16 contiguous=1 last_align=4
  param tensor %Y: tensor<f32, 1> out [C] align=16 stride_align=16 contiguous=1 last_align=4
  param dim %R: i64
  param dim %C: i64
  body {
    %0 = constant {value = 0} : i64
    parallel %0, %C {steps = [32]} do (%c: i64) {
      %start = constant {value = 0.25} : f32[32]
      %s = for %0, %R, %start {step = 64} : f32[32] do (%r: i64, %a: f32[32]) {
        %x = load %X, %r, %c {modes = "rr", sizes = [64, 32]} : f32[64, 32]
        %q = reduce %x {kind = "max", axis = 0} : f32[32]
        %an = max %a, %q : f32[32]
        yield %an
      }
      %columns = constant {value = 32} : i64
      %e0 = add %c, %columns : i64
      %e = min %e0, %C : i64
      store %Y, %s, %c, %e {modes = "r", sizes = [32]}
      yield
    }
  }
}
)";

// The sum of everything that 32 columns hold.
const char* const kWhole = R"(func @whole tile {
  param tensor %X: tensor<i32, 2> in [R, C] align=16 stride_align=16 contiguous=1 last_align=4
  param tensor %Y: tensor<i32, 1> out [C] align=16 stride_align=16 contiguous=1 last_align=4
  param dim %R: i64
  param dim %C: i64
  body {
    %0 = constant {value = 0} : i64
    parallel %0, %C {steps = [32]} do (%c: i64) {
      %start = constant {value = 7} : i32
      %s = for %0, %R, %start {step = 64} : i32 do (%r: i64, %a: i32) {
        %x = load %X, %r, %c {modes = "rr", sizes = [64, 32]} : i32[64, 32]
        %p = reduce %x {kind = "sum", axis = 1} : i32[64]
        %q = reduce %p {kind = "sum", axis = 0} : i32
        %an = add %a, %q : i32
        yield %an
      }
      store %Y, %s, %c {modes = "s", sizes = [1]}
      yield
    }
  }
}
)";

Function Deferred(const Function& before, int changes) {
  return Changed(DeferReductions, before, changes);
}

// Ops of a kind inside loops.
int InLoops(const Function& fn, OpKind kind) {
  int n = 0;
  for (OpId id : OpsInOrder(fn)) {
    const OpId parent = fn.blocks[fn.ops[id].block].parent;
    n += fn.ops[id].kind == kind && parent.valid() && fn.ops[parent].kind == OpKind::kFor;
  }
  return n;
}

std::vector<double> Results(const Function& fn, DType dtype, int64_t rows, int64_t columns,
                            int64_t results, const std::string& tensor) {
  InterpretInputs in;
  in.tensors["X"] = TensorValue::Random(dtype, {rows, columns}, 5);
  for (const char* out : {"Y", "Z"}) in.tensors[out] = TensorValue::Zeros(dtype, {results});
  in.dims = {{"R", rows}, {"C", columns}};
  return Interpreted(fn, std::move(in), tensor);
}

TEST(DeferReductions, SumsAreReducedBehindTheLoop) {
  const Function before = Parsed(kSums);
  const Function after = Deferred(before, 2);
  EXPECT_EQ(InLoops(after, OpKind::kReduce), 0);
  EXPECT_EQ(Count(after, OpKind::kReduce), 2);
  for (int64_t columns : {0, 5, 128, 1000})
    for (const char* tensor : {"Y", "Z"})
      EXPECT_EQ(Results(before, DType::kI32, 13, columns, 13, tensor),
                Results(after, DType::kI32, 13, columns, 13, tensor))
          << tensor << columns;
}

// A product of rows with themselves, and the sums of their squares: small integers, so that every
// order of a sum has the same bits.
const char* const kSquares = R"(func @squares tile {
  param tensor %X: tensor<bf16, 2> in [R, C] align=16 stride_align=16 contiguous=1 last_align=16
  param tensor %Y: tensor<f32, 1> out [R] align=16 stride_align=16 contiguous=1 last_align=4
  param tensor %Z: tensor<f32, 1> out [R] align=16 stride_align=16 contiguous=1 last_align=4
  param dim %R: i64
  param dim %C: i64
  body {
    %0 = constant {value = 0} : i64
    parallel %0, %R {steps = [64]} do (%r: i64) {
      %none = constant {value = 0} : f32[64, 64]
      %start = constant {value = 3} : f32[64]
      %s, %t = for %0, %C, %none, %start {step = 64} : f32[64, 64], f32[64]
          do (%c: i64, %a: f32[64, 64], %b: f32[64]) {
        %x = load %X, %r, %c {modes = "rr", sizes = [64, 64]} : bf16[64, 64]
        %xt = transpose %x {perm = [1, 0]} : bf16[64, 64]
        %an = dot %x, %xt, %a : f32[64, 64]
        %f = cast %x : f32[64, 64]
        %ff = mul %f, %f : f32[64, 64]
        %q = reduce %ff {kind = "sum", axis = 1} : f32[64]
        %bn = add %b, %q : f32[64]
        yield %an, %bn
      }
      %all = reduce %s {kind = "sum", axis = 1} : f32[64]
      %rows = constant {value = 64} : i64
      %e0 = add %r, %rows : i64
      %e = min %e0, %R : i64
      store %Y, %all, %r, %e {modes = "r", sizes = [64]}
      store %Z, %t, %r, %e {modes = "r", sizes = [64]}
      yield
    }
  }
}
)";

TEST(DeferReductions, SumsOfWhatProductsReadAreReducedBehindThem) {
  const Function before = Parsed(kSquares);
  const Function after = Deferred(before, 1);
  EXPECT_EQ(InLoops(after, OpKind::kReduce), 0);
  const auto results = [](const Function& fn) {
    InterpretInputs in;
    TensorValue x = TensorValue::Zeros(DType::kBF16, {70, 200});
    for (size_t i = 0; i < x.v.size(); ++i) x.v[i] = static_cast<double>(i * 7 % 5) - 2;
    in.tensors["X"] = std::move(x);
    for (const char* out : {"Y", "Z"}) in.tensors[out] = TensorValue::Zeros(DType::kF32, {70});
    in.dims = {{"R", 70}, {"C", 200}};
    return Interpreted(fn, std::move(in), "Z");
  };
  EXPECT_EQ(results(before), results(after));
  // A tile of 64 x 64 is more than products of 64 x 16 make: registers that they would want.
  std::string narrow = kSquares;
  for (const char* wide : {"f32[64, 64], f32[64]", "dot %x, %xt, %a : f32[64, 64]"})
    narrow = With(narrow, wide,
                  std::string(wide).replace(std::string(wide).find("64, 64"), 6, "64, 16"));
  narrow = With(narrow, "constant {value = 0} : f32[64, 64]", "constant {value = 0} : f32[64, 16]");
  narrow = With(narrow, "%a: f32[64, 64]", "%a: f32[64, 16]");
  narrow = With(narrow, "%xt = transpose %x {perm = [1, 0]} : bf16[64, 64]",
                "%y = load %X, %0, %c {modes = \"rr\", sizes = [16, 64]} : bf16[16, 64]\n"
                "        %xt = transpose %y {perm = [1, 0]} : bf16[64, 16]");
  Deferred(Parsed(narrow), 0);
}

TEST(DeferReductions, NoWarpWaitsForAnotherInTheLoop) {
  const Function before = Parsed(kSums);
  for (bool defer : {false, true}) {
    DiagSink diags;
    const Result<Function> warp =
        Sequentialize(defer ? Deferred(before, 2) : before, H200(), {}, diags);
    ASSERT_TRUE(warp.ok());
    EXPECT_EQ(InLoops(*warp, OpKind::kWarpReduce), defer ? 0 : 2);
    EXPECT_EQ(InLoops(*warp, OpKind::kCtaSync) + InLoops(*warp, OpKind::kConvert), 0);
  }
}

// Two sums and what is loaded, 16 registers of a thread each, and 24: 72 of 256 threads leave room
// for three CTAs. The word that a thread stores behind the loop asks for no more.
TEST(DeferReductions, CarriedTilesAreCountedBesideTheLoadedOne) {
  std::string text = With(With(kSums, "8, 128]", "16, 256]"), "step = 128", "step = 256");
  for (const auto& [from, to] :
       {std::pair("i32[8]", "i32[16]"), {"[8]", "[16]"}, {"value = 8", "value = 16"}})
    text = With(text, from, to);
  DiagSink diags;
  const Result<Function> warp = Sequentialize(Deferred(Parsed(text), 2), H200(), {}, diags);
  ASSERT_TRUE(warp.ok());
  EXPECT_EQ(warp->launch.warps, 8);
  EXPECT_EQ(warp->launch.ctas_per_sm, 3);
}

TEST(DeferReductions, LargestValues) {
  const Function before = Parsed(kLargest);
  const Function after = Deferred(before, 1);
  EXPECT_EQ(InLoops(after, OpKind::kReduce), 0);
  for (int64_t rows : {0, 3, 200})
    EXPECT_EQ(Results(before, DType::kF32, rows, 45, 45, "Y"),
              Results(after, DType::kF32, rows, 45, 45, "Y"))
        << rows;
}

// A sum over both axes is two reductions in a row; both stand behind the loop.
TEST(DeferReductions, SumsOverSeveralAxes) {
  const Function before = Parsed(kWhole);
  const Function after = Deferred(before, 1);
  EXPECT_EQ(InLoops(after, OpKind::kReduce), 0);
  EXPECT_EQ(Count(after, OpKind::kReduce), 2);
  for (int64_t rows : {0, 3, 200})
    EXPECT_EQ(Results(before, DType::kI32, rows, 45, 45, "Y"),
              Results(after, DType::kI32, rows, 45, 45, "Y"))
        << rows;
  // Somebody else sees the sums of rows.
  Deferred(Parsed(With(kWhole, "%an = add %a, %q",
                       "%m = reduce %p {kind = \"max\", axis = 0} : i32\n        "
                       "%q2 = add %q, %m : i32\n        %an = add %a, %q2")),
           0);
}

TEST(DeferReductions, WhatWouldBeAnotherSumStays) {
  // The carried value is seen by somebody else.
  Deferred(Parsed(With(kSums, "%bn = add %qq, %b",
                       "%b2 = add %b, %a : i32[8]\n        %bn = add %qq, %b2")),
           0);
  // Something else is done to it.
  Deferred(Parsed(With(kLargest, "max %a, %q", "add %a, %q")), 0);
  Deferred(Parsed(With(kLargest, "max %a, %q", "sub %a, %q")), 0);
  // Within a reduction, 16-bit floats are added up in 32.
  Deferred(
      Parsed(With(With(With(kLargest, "f32", "bf16"), "\"max\"", "\"sum\""), "max %a", "add %a")),
      0);
  // No neutral integer is asked for.
  Deferred(Parsed(With(With(kLargest, "f32", "i32"), "0.25", "1")), 0);
}

TEST(DeferReductions, WhatGainsNothingStays) {
  // A thread reduces few rows by itself.
  const std::string few = With(With(kLargest, "[64, 32]", "[16, 32]"), "step = 64", "step = 16");
  Deferred(Parsed(few), 0);
  // The tile would take too many registers.
  Deferred(Parsed(With(With(kLargest, "[64, 32]", "[512, 32]"), "step = 64", "step = 512")), 0);
  // Warps meet in the loop for another reason.
  Deferred(Parsed(With(kSums, "add %qq, %b", "sub %qq, %b")), 0);
}

}  // namespace
}  // namespace tilec::ir
