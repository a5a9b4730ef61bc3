// sum-parts: the same sums from fewer atomics, and only where parts may be added up first.
//
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "ir/passes/passes.h"
#include "ir/queries.h"
#include "tests/unit/lower/helper.h"

namespace tilec::ir {
namespace {

constexpr const char* kSum = R"(func @sum tile {
  param tensor %A: tensor<bf16, 2> in [M, K] align=16 stride_align=16 contiguous=1 last_align=16
  param tensor %B: tensor<bf16, 2> in [N, K] align=16 stride_align=16 contiguous=1 last_align=16
  param tensor %C: tensor<f32, 2> inout [M, N] align=16 stride_align=16 contiguous=1 last_align=16
  param dim %M: i64
  param dim %N: i64
  param dim %K: i64
  body {
    %0 = constant {value = 0} : i64
    parallel %0, %M, %0, %N, %0, %K {steps = [64, 32, 32]} do (%m: i64, %n: i64, %k: i64) {
      %w = constant {value = 64} : i64
      %me = add %m, %w : i64
      %mend = min %me, %M : i64
      %v = constant {value = 32} : i64
      %ne = add %n, %v : i64
      %nend = min %ne, %N : i64
      %z = constant {value = 0} : f32[64, 32]
      %a = load %A, %m, %k {modes = "rr", sizes = [64, 32]} : bf16[64, 32]
      %b = load %B, %n, %k {modes = "rr", sizes = [32, 32]} : bf16[32, 32]
      %bt = transpose %b {perm = [1, 0]} : bf16[32, 32]
      %d = dot %a, %bt, %z : f32[64, 32]
      atomic %C, %d, %m, %mend, %n, %nend {kind = "add", modes = "rr", sizes = [64, 32]}
      yield
    }
  }
}
)";

std::vector<double> Sums(const Function& fn, int64_t m, int64_t n, int64_t k) {
  InterpretInputs in;
  in.tensors["A"] = Numbers(DType::kBF16, {m, k}, 1);
  in.tensors["B"] = Numbers(DType::kBF16, {n, k}, 4);
  in.tensors["C"] = Numbers(DType::kF32, {m, n}, 2);
  in.dims = {{"M", m}, {"N", n}, {"K", k}};
  return Interpreted(fn, std::move(in), "C");
}

// More parts than SMs, as many, one, a last turn that hangs over, none at all.
TEST(SumParts, SameSumsForEverySize) {
  const Function before = Parsed(kSum);
  const Function after = Changed(SumParts, before, 1);
  for (int64_t k : {0, 1, 31, 32, 33, 64, 260, 4300})
    EXPECT_EQ(Sums(before, 70, 40, k), Sums(after, 70, 40, k)) << k;
  EXPECT_EQ(Sums(before, 300, 1000, 100), Sums(after, 300, 1000, 100));
}

// The product adds to what its loop carries, and the sums stand behind it.
TEST(SumParts, PartsAreAddedUpInALoop) {
  const Function fn = Changed(SumParts, Parsed(kSum), 1);
  ASSERT_EQ(Count(fn, OpKind::kFor), 1);
  for (OpId id : OpsInOrder(fn)) {
    const Op& op = fn.ops[id];
    if (op.kind == OpKind::kParallel) {
      EXPECT_EQ(op.ints("steps"), (std::vector<int64_t>{64, 32, 1}));
    } else if (op.kind == OpKind::kDot) {
      EXPECT_EQ(fn.ops[fn.blocks[op.block].parent].kind, OpKind::kFor);
      EXPECT_EQ(fn.values[op.operands[2]].block, op.block);
    } else if (op.kind == OpKind::kAtomic) {
      EXPECT_EQ(fn.ops[fn.blocks[op.block].parent].kind, OpKind::kParallel);
    }
  }
}

// What is computed from a product is added up in its place.
TEST(SumParts, OfWhatIsComputedFromProducts) {
  const std::string dot = "%d = dot %a, %bt, %z : f32[64, 32]";
  const Function before = Parsed(
      With(kSum, dot, "%e = dot %a, %bt, %z : f32[64, 32]\n      %d = max %e, %z : f32[64, 32]"));
  const Function after = Changed(SumParts, before, 1);
  for (OpId id : OpsInOrder(after)) {
    if (after.ops[id].kind != OpKind::kDot) continue;
    EXPECT_TRUE(ConstantOf(after, after.ops[id].operands[2]));
  }
  EXPECT_EQ(Sums(before, 70, 40, 260), Sums(after, 70, 40, 260));
}

TEST(SumParts, NotWhere) {
  const auto unchanged = [](const std::string& text) { Changed(SumParts, Parsed(text), 0); };
  // The place follows the part; every part is rounded; the largest is kept; a tensor that is read
  // may be written.
  unchanged(
      With(kSum, "atomic %C, %d, %m, %mend, %n, %nend", "atomic %C, %d, %m, %mend, %k, %nend"));
  unchanged(With(With(kSum, "tensor<f32, 2> inout", "tensor<bf16, 2> inout"), "atomic %C, %d,",
                 "%h = cast %d : bf16[64, 32]\n      atomic %C, %h,"));
  unchanged(With(kSum, "kind = \"add\"", "kind = \"max\""));
  unchanged(With(kSum, "%B: tensor<bf16, 2> in ", "%B: tensor<bf16, 2> inout "));
  // No product, whose loads would run ahead.
  unchanged(With(kSum, "%d = dot %a, %bt, %z : f32[64, 32]", "%d = cast %a : f32[64, 32]"));
}

}  // namespace
}  // namespace tilec::ir
