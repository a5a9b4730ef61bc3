// row-vectors: what a loop of one product reads as vectors comes as tiles of one row; every other
// vector stays as it is, and no program changes what it computes.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "ir/passes/passes.h"
#include "tests/unit/lower/product.h"

namespace tilec::ir {
namespace {

// Each block of K scaled by rows of S: a product, its result times the vector that `load` reads.
Function Scaled(const std::string& load, const std::string& more = "") {
  std::string text = ProductText("%K");
  text = With(text, "  param dim %M: i64\n",
              "  param tensor %S: tensor<f32, 2> in [K, M] align=16 stride_align=16 contiguous=1 "
              "last_align=4\n  param dim %M: i64\n");
  text = With(text, "        %d = dot %a, %bt, %s : f32[64, 32]\n",
              fmt::format(R"(        %p = dot %a, %bt, %z : f32[64, 32]
        {}
        %col = reshape %v1 : f32[64, 1]
        %cols = broadcast %col {{axes = [0, 1]}} : f32[64, 32]
        %q = mul %p, %cols : f32[64, 32]
        {}
        %d = add %s, %q : f32[64, 32]
)",
                          load, more));
  return Parsed(text);
}

constexpr const char* kVector =
    R"(%v1 = load %S, %k, %m {modes = "sr", sizes = [1, 64], has_fill = 0} : f32[64])";

std::vector<double> VectorResult(const Function& fn, int64_t m, int64_t n, int64_t k) {
  InterpretInputs in;
  in.tensors["A"] = TensorValue::Random(DType::kBF16, {m, k}, 1);
  in.tensors["B"] = TensorValue::Random(DType::kBF16, {n, k}, 2);
  in.tensors["S"] = TensorValue::Random(DType::kF32, {k, m}, 3);
  in.tensors["C"] = TensorValue::Zeros(DType::kF32, {m, n});
  in.dims = {{"M", m}, {"N", n}, {"K", k}};
  return Interpreted(fn, std::move(in), "C");
}

TEST(RowVectors, AScaleComesAsOneRow) {
  const Function before = Scaled(kVector);
  const Function after = Changed(RowVectors, before, 1);
  EXPECT_NE(Print(after).find("f32[1, 64]"), std::string::npos);
  for (int64_t m : {64, 100})
    for (int64_t k : {0, 32, 96})
      EXPECT_EQ(VectorResult(before, m, 40, k), VectorResult(after, m, 40, k)) << m << " " << k;
}

// The ring of the row is filled by copies, ahead, and the program of warps is proved.
TEST(RowVectors, CopiesBringIt) {
  const Function warps = InRoles(Changed(RowVectors, Scaled(kVector), 1));
  EXPECT_EQ(Count(warps, OpKind::kGLoad), 0);
  EXPECT_EQ(Said(warps), "");
}

// The same with products over 2048 of K, longer than memory takes.
std::string Longer(std::string text) {
  text =
      With(text, R"(sizes = [64, 32]} : bf16[64, 32])", R"(sizes = [64, 2048]} : bf16[64, 2048])");
  text =
      With(text, R"(sizes = [32, 32]} : bf16[32, 32])", R"(sizes = [32, 2048]} : bf16[32, 2048])");
  text = With(text, "perm = [1, 0]} : bf16[32, 32]", "perm = [1, 0]} : bf16[2048, 32]");
  return text;
}

Function AgainBehind() { return Scaled(kVector, "%again = dot %a, %bt, %q : f32[64, 32]"); }

TEST(RowVectors, SeveralLongProductsHideEachOthersWaits) {
  Changed(RowVectors, Parsed(Longer(Print(AgainBehind()))), 0);
}

TEST(RowVectors, SeveralShortOnesDoNot) { Changed(RowVectors, AgainBehind(), 1); }

// The vector goes into the left operand, too, so its load stands in front of the product.
Function OfOperand() {
  std::string text = Print(Scaled(kVector));
  const size_t load = text.find("        %v1 = load"), end = text.find('\n', load) + 1;
  const std::string line = text.substr(load, end - load);
  text.erase(load, end - load);
  text = With(text, "        %p = dot %a, %bt, %z", line + R"(        %lc = reshape %v1 : f32[64, 1]
        %lb = broadcast %lc {axes = [0, 1]} : f32[64, 32]
        %l = cast %lb : bf16[64, 32]
        %p = dot %l, %bt, %z)");
  return Parsed(text);
}

TEST(RowVectors, WhatLongProductsOperandsAreMadeOfStays) {
  std::string text = Print(OfOperand());
  text = With(text, "%lb = broadcast %lc {axes = [0, 1]} : f32[64, 32]",
              "%lb = broadcast %lc {axes = [0, 1]} : f32[64, 2048]");
  text = With(text, "%l = cast %lb : bf16[64, 32]", "%l = cast %lb : bf16[64, 2048]");
  Changed(RowVectors, Parsed(Longer(text)), 0);
}

TEST(RowVectors, WhatShortProductsOperandsAreMadeOfComesAsRow) {
  const Function before = OfOperand();
  const Function after = Changed(RowVectors, before, 1);
  for (int64_t k : {0, 32, 96})
    EXPECT_EQ(VectorResult(before, 70, 40, k), VectorResult(after, 70, 40, k));
}

// Weights with a scale for each row: threads make the left operand of a sum that the loop carries.
Function OfWeights() {
  std::string text = Print(Scaled(kVector));
  const size_t from = text.find("        %p = dot"), to = text.find("        yield", from);
  text.replace(from, to - from,
               fmt::format(R"(        {}
        %col = reshape %v1 : f32[64, 1]
        %cols = broadcast %col {{axes = [0, 1]}} : f32[64, 32]
        %wide = cast %a : f32[64, 32]
        %wt = mul %wide, %cols : f32[64, 32]
        %l = cast %wt : bf16[64, 32]
        %d = dot %l, %bt, %s : f32[64, 32]
)",
                           kVector));
  return Parsed(text);
}

TEST(RowVectors, WhatThreadsMakeOperandsOfOneSumFromComesAsRow) {
  std::string text = Print(OfWeights());
  for (const char* tile : {"%cols = broadcast %col {axes = [0, 1]} : f32", "%wide = cast %a : f32",
                           "%wt = mul %wide, %cols : f32", "%l = cast %wt : bf16"})
    text = With(text, fmt::format("{}[64, 32]", tile), fmt::format("{}[64, 2048]", tile));
  Changed(RowVectors, Parsed(Longer(text)), 0);  // nothing is decoded
  text = With(text, "        %wide = cast %a : f32[64, 2048]",
              "        %whole = cast %a : i32[64, 2048]\n"
              "        %wide = cast %whole : f32[64, 2048]");
  Changed(RowVectors, Parsed(Longer(text)), 1);
  const Function before = OfWeights();
  const Function after = Changed(RowVectors, before, 1);
  for (int64_t k : {0, 32, 96})
    EXPECT_EQ(VectorResult(before, 70, 40, k), VectorResult(after, 70, 40, k));
}

// One number for a block: it is loaded in front of the loop and in each iteration for the next.
TEST(RowVectors, AFactorIsLoadedAnIterationAhead) {
  std::string text = Print(Scaled(kVector));
  const size_t load = text.find("        %v1 = load"), end = text.find('\n', load);
  text.replace(load, end - load,
               R"(        %one = load %S, %k, %m {modes = "ss", sizes = [1, 1]} : f32
        %v1 = broadcast %one {axes = []} : f32[64])");
  const Function before = Parsed(text);
  const Function after = Changed(RowVectors, before, 1);
  for (int64_t k : {0, 32, 96})
    EXPECT_EQ(VectorResult(before, 70, 40, k), VectorResult(after, 70, 40, k)) << k;
  int64_t loads = 0;
  for (OpId id : OpsInOrder(after)) {
    const Op& op = after.ops[id];
    loads += op.kind == OpKind::kLoad && after.type(op.results[0]).is_scalar();
  }
  EXPECT_EQ(loads, 2);
}

TEST(RowVectors, NotVectorsThatNoCopyMayBring) {
  // Rows that begin at multiples of 4 bytes; a store of the same tensor elsewhere is no matter
  // here.
  Changed(RowVectors,
          Parsed(With(Print(Scaled(kVector)), "stride_align=16 contiguous=1 last_align=4",
                      "stride_align=4 contiguous=1 last_align=4")),
          0);
}

}  // namespace
}  // namespace tilec::ir
