// pipeline-products: the same values for every trip count, and the shape of what comes out.
//
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "ir/lower/sequential.h"
#include "ir/passes/passes.h"
#include "tests/unit/lower/helper.h"

namespace tilec::ir {
namespace {

// O = Σ_k bf16(2^(Q·K[k]ᵀ)) · V[k], rescaled by a carried row value: two chained products.
constexpr const char* kChain = R"(func @chain tile {
  param tensor %Q: tensor<bf16, 2> in [M, 64] align=16 stride_align=16 contiguous=1 last_align=16
  param tensor %K: tensor<bf16, 2> in [L, 64] align=16 stride_align=16 contiguous=1 last_align=16
  param tensor %V: tensor<bf16, 2> in [L, 64] align=16 stride_align=16 contiguous=1 last_align=16
  param tensor %O: tensor<f32, 2> out [M, 64] align=16 stride_align=16 contiguous=1 last_align=16
  param dim %M: i64
  param dim %L: i64
  body {
    %0 = constant {value = 0} : i64
    parallel %0, %M {steps = [64]} do (%m: i64) {
      %q = load %Q, %m, %0 {modes = "rr", sizes = [64, 64]} : bf16[64, 64]
      %z = constant {value = 0} : f32[64, 64]
      %r0 = constant {value = 1} : f32[64]
      %acc, %row = for %0, %L, %z, %r0 {step = 32} : f32[64, 64], f32[64]
          do (%k: i64, %a: f32[64, 64], %r: f32[64]) {
        %kt = load %K, %k, %0 {modes = "rr", sizes = [32, 64]} : bf16[32, 64]
        %kx = transpose %kt {perm = [1, 0]} : bf16[64, 32]
        %zs = constant {value = 0} : f32[64, 32]
        %s = dot %q, %kx, %zs : f32[64, 32]
        %p = exp2 %s : f32[64, 32]
        %pb = cast %p : bf16[64, 32]
        %sum = reduce %p {kind = "sum", axis = 1} : f32[64]
        %half = constant {value = 0.5} : f32[64]
        %r1 = mul %r, %half : f32[64]
        %r2 = add %r1, %sum : f32[64]
        %rb = broadcast %r1 {axes = [0]} : f32[64, 64]
        %as = mul %a, %rb : f32[64, 64]
        %v = load %V, %k, %0 {modes = "rr", sizes = [32, 64]} : bf16[32, 64]
        %n = dot %pb, %v, %as : f32[64, 64]
        yield %n, %r2
      }
      %rowb = broadcast %row {axes = [0]} : f32[64, 64]
      %out = add %acc, %rowb : f32[64, 64]
      %w = constant {value = 64} : i64
      %me = add %m, %w : i64
      %end = min %me, %M : i64
      store %O, %out, %m, %end, %0, %w {modes = "rr", sizes = [64, 64]}
      yield
    }
  }
}
)";

TEST(PipelineProducts, KeepsEveryValueForEveryTripCount) {
  const Function before = Parsed(kChain);
  const Function after = Changed(PipelineProducts, before, 1);
  for (const int64_t l : {0, 1, 31, 32, 33, 64, 65, 200}) {
    InterpretInputs in;
    in.tensors["Q"] = TensorValue::Random(DType::kBF16, {70, 64}, 1);
    in.tensors["K"] = TensorValue::Random(DType::kBF16, {l, 64}, 2);
    in.tensors["V"] = TensorValue::Random(DType::kBF16, {l, 64}, 3);
    in.tensors["O"] = TensorValue::Zeros(DType::kF32, {70, 64});
    in.dims = {{"M", 70}, {"L", l}};
    EXPECT_EQ(Interpreted(before, in, "O"), Interpreted(after, in, "O")) << "L = " << l;
  }
}

TEST(PipelineProducts, BothProductsAreUnderWayTogether) {
  const Function warp = InRoles(Changed(PipelineProducts, Parsed(kChain), 1));
  // In the steady loop the first product is awaited with the second still pending.
  int with_one_pending = 0, rings = 0;
  for (const Op& op : warp.ops) {
    with_one_pending += op.kind == OpKind::kMmaWait && op.i("pending") == 1;
    rings += op.kind == OpKind::kMbarAlloc;
  }
  EXPECT_EQ(with_one_pending, 1);
  // Q, and one ring each for K and V though both are loaded at two places.
  EXPECT_EQ(rings, 2 * 3);
}

TEST(PipelineProducts, LeavesOtherLoopsAlone) {
  // The first product reads what the second carries: nothing can move.
  const std::string text = With(kChain, "dot %q, %kx, %zs", "dot %ab, %kx, %zs");
  const Function before =
      Parsed(With(text, "%kt = load", "%ab = cast %a : bf16[64, 64]\n        %kt = load"));
  EXPECT_EQ(Print(Changed(PipelineProducts, before, 0)), Print(before));
}

}  // namespace
}  // namespace tilec::ir
