// Products of few rows that follow from products are turned round as a whole, with what is computed
// between them, and every value stays; what has something else in it stays as it is.
//
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>

#include "ir/passes/passes.h"
#include "tests/unit/lower/helper.h"

namespace tilec::ir {
namespace {

// O = softmax(Q Kᵀ) V of 16 queries a tile and 64 keys a turn, two carried vectors and a tile.
constexpr const char* kDecodeLoop = R"(func @decode tile {
  param tensor %Q: tensor<bf16, 2> in [S, 64] align=16 stride_align=16 contiguous=1 last_align=64
  param tensor %K: tensor<bf16, 2> in [L, 64] align=16 stride_align=16 contiguous=1 last_align=64
  param tensor %V: tensor<bf16, 2> in [L, 128] align=16 stride_align=16 contiguous=1 last_align=64
  param tensor %O: tensor<f32, 2> out [S, 128] align=16 stride_align=16 contiguous=1 last_align=64
  param dim %S: i64
  param dim %L: i64
  body {
    %0 = constant {value = 0} : i64
    parallel %0, %S {steps = [16]} do (%q: i64) {
      %qt = load %Q, %q, %0 {modes = "rr", sizes = [16, 64]} : bf16[16, 64]
      %a0 = constant {value = 0.0} : f32[16, 128]
      %m0 = constant {value = -inf} : f32[16]
      %l0 = constant {value = 0.0} : f32[16]
      %l, %acc, %m = for %0, %L, %l0, %a0, %m0 {step = 64} : f32[16], f32[16, 128], f32[16] do (%k: i64, %l1: f32[16], %acc1: f32[16, 128], %m1: f32[16]) {
        %kt = load %K, %k, %0 {modes = "rr", sizes = [64, 64]} : bf16[64, 64]
        %kT = transpose %kt {perm = [1, 0]} : bf16[64, 64]
        %z = constant {value = 0.0} : f32[16, 64]
        %s = dot %qt, %kT, %z : f32[16, 64]
        %at = iota %k : i32[64]
        %row = reshape %at : i32[1, 64]
        %last = cast %L : i32
        %lasts = broadcast %last {axes = []} : i32[1, 64]
        %seen = cmp %row, %lasts {pred = "lt"} : bool[1, 64]
        %all = broadcast %seen {axes = [0, 1]} : bool[16, 64]
        %none = constant {value = -inf} : f32[16, 64]
        %s1 = select %all, %s, %none : f32[16, 64]
        %most = reduce %s1 {kind = "max", axis = 1} : f32[16]
        %m2 = max %m1, %most : f32[16]
        %mb = broadcast %m2 {axes = [0]} : f32[16, 64]
        %d = sub %s1, %mb : f32[16, 64]
        %p = exp2 %d : f32[16, 64]
        %da = sub %m1, %m2 : f32[16]
        %alpha = exp2 %da : f32[16]
        %la = mul %l1, %alpha : f32[16]
        %sum = reduce %p {kind = "sum", axis = 1} : f32[16]
        %l2 = add %la, %sum : f32[16]
        %col = reshape %alpha : f32[16, 1]
        %ab = broadcast %col {axes = [0, 1]} : f32[16, 128]
        %scaled = mul %acc1, %ab : f32[16, 128]
        %pb = cast %p : bf16[16, 64]
        %vt = load %V, %k, %0 {modes = "rr", sizes = [64, 128]} : bf16[64, 128]
        %acc2 = dot %pb, %vt, %scaled : f32[16, 128]
        yield %l2, %acc2, %m2
      }
      %lb = broadcast %l {axes = [0]} : f32[16, 128]
      %o = div %acc, %lb : f32[16, 128]
      %h = constant {value = 16} : i64
      %e0 = add %q, %h : i64
      %e = min %e0, %S : i64
      %c = constant {value = 128} : i64
      store %O, %o, %q, %e, %0, %c {modes = "rr", sizes = [16, 128]}
      yield
    }
  }
}
)";

std::string Replaced(std::string text, const std::string& from, const std::string& to) {
  size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  for (; at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

Function TurnedRound(const Function& before, int changes) {
  Function after = before;
  DiagSink diags;
  PassContext cx{diags, H200(), 0};
  EXPECT_TRUE(SwapOperands(after, cx).ok());
  EXPECT_EQ(cx.changes, changes);
  EXPECT_TRUE(FoldTranspose(after, cx).ok());
  EXPECT_TRUE(Dce(after, cx).ok());
  ExpectVerified(after);
  return after;
}

std::vector<double> OutputsOf(const Function& fn) {
  InterpretInputs in;
  in.tensors["Q"] = TensorValue::Random(DType::kBF16, {21, 64}, 1);
  in.tensors["K"] = TensorValue::Random(DType::kBF16, {150, 64}, 2);
  in.tensors["V"] = TensorValue::Random(DType::kBF16, {150, 128}, 3);
  in.tensors["O"] = TensorValue::Zeros(DType::kF32, {21, 128});
  in.dims = {{"S", 21}, {"L", 150}};
  return Interpreted(fn, std::move(in), "O");
}

TEST(TurnLoops, KeysBecomeRows) {
  const Function before = Parsed(kDecodeLoop), after = TurnedRound(before, 1);
  int products = 0;
  for (OpId id : OpsInOrder(after)) {
    const Op& op = after.ops[id];
    if (op.kind == OpKind::kDot) {
      ++products;
      EXPECT_EQ(after.type(op.results[0]).shape[1], 16);
      EXPECT_EQ(after.type(op.results[0]).shape[0], products == 1 ? 64 : 128);
    }
    if (op.kind == OpKind::kReduce) {
      EXPECT_EQ(op.i("axis"), 0);
    }
  }
  EXPECT_EQ(products, 2);
  const std::vector<double> one = OutputsOf(before), two = OutputsOf(after);
  ASSERT_EQ(one.size(), two.size());
  for (size_t i = 0; i < one.size(); ++i) ASSERT_NEAR(one[i], two[i], 1e-5) << i;
}

TEST(TurnLoops, OthersStay) {
  // Rows that are most of a block, and keys that are none.
  TurnedRound(Parsed(Replaced(Replaced(kDecodeLoop, "[16", "[48"), "value = 16}", "value = 48}")),
              0);
  std::string few =
      Replaced(Replaced(kDecodeLoop, "[64, 64]", "[32, 64]"), "step = 64", "step = 32");
  few = Replaced(Replaced(few, "%kT = transpose %kt {perm = [1, 0]} : bf16[32, 64]",
                          "%kT = transpose %kt {perm = [1, 0]} : bf16[64, 32]"),
                 "i32[64]", "i32[32]");
  few = Replaced(Replaced(few, "[1, 64]", "[1, 32]"), "[16, 64]", "[16, 32]");
  few = Replaced(Replaced(few, "load %Q, %q, %0 {modes = \"rr\", sizes = [16, 32]} : bf16[16, 32]",
                          "load %Q, %q, %0 {modes = \"rr\", sizes = [16, 64]} : bf16[16, 64]"),
                 "[64, 128]", "[32, 128]");
  TurnedRound(Parsed(few), 0);
  // A tile that is loaded and met by arithmetic; a product that is no other's operand.
  TurnedRound(
      Parsed(Replaced(kDecodeLoop, "%d = sub %s1, %mb",
                      "%b = load %Q, %q, %0 {modes = \"rr\", sizes = [16, 64]} : bf16[16, 64]\n"
                      "        %bf = cast %b : f32[16, 64]\n"
                      "        %s2 = add %s1, %bf : f32[16, 64]\n"
                      "        %d = sub %s2, %mb")),
      0);
  TurnedRound(Parsed(Replaced(kDecodeLoop, "dot %pb, %vt", "dot %qt, %vt")), 0);
}

}  // namespace
}  // namespace tilec::ir
