// fold-rows: boxes of several dims become rows of a product, at both ends, and every element keeps
// its value, also where boxes leave the tensor. What is read as a box, too, stays one.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "ir/passes/passes.h"
#include "tests/unit/lower/helper.h"

namespace tilec::ir {
namespace {

// Products of boxes of [2, 8, 8] positions; `more` may read the box %x.
std::string Program(const std::string& more, int rows = 8) {
  return fmt::format(R"(func @f tile {{
  param tensor %X: tensor<bf16, 4> in [N, H, W, 64] align=16 stride_align=16 contiguous=1
  param tensor %F: tensor<bf16, 2> in [64, 64] align=16 stride_align=16 contiguous=1
  param tensor %Y: tensor<bf16, 4> out [N, H, W, 64] align=16 stride_align=16 contiguous=1
  param tensor %Z: tensor<bf16, 4> out [N, H, W, 64] align=16 stride_align=16 contiguous=1
  param dim %N: i64
  param dim %H: i64
  param dim %W: i64
  body {{
    %0 = constant {{value = 0}} : i64
    %k = constant {{value = 64}} : i64
    %two = constant {{value = 2}} : i64
    %eight = constant {{value = 8}} : i64
    %many = constant {{value = {0}}} : i64
    %zero = constant {{value = 0.0}} : f32[{1}, 64]
    parallel %0, %N, %0, %H, %0, %W {{steps = [2, {0}, 8]}} do (%n: i64, %h: i64, %w: i64) {{
      %n2 = add %n, %two : i64
      %en = min %n2, %N : i64
      %h8 = add %h, %many : i64
      %eh = min %h8, %H : i64
      %w8 = add %w, %eight : i64
      %ew = min %w8, %W : i64
      %x = load %X, %n, %h, %w, %0 {{modes = "rrrr", sizes = [2, {0}, 8, 64]}} : bf16[2, {0}, 8, 64]
      %a = rearrange %x {{first = 0, strides = [64, 1]}} : bf16[{1}, 64]
      %b = load %F, %0, %0 {{modes = "rr", sizes = [64, 64]}} : bf16[64, 64]
      %c = dot %a, %b, %zero : f32[{1}, 64]
      %d = cast %c : bf16[{1}, 64]
      %y = rearrange %d {{first = 0, strides = [{2}, 512, 64, 1]}} : bf16[2, {0}, 8, 64]
      store %Y, %y, %n, %en, %h, %eh, %w, %ew, %0, %k {{modes = "rrrr", sizes = [2, {0}, 8, 64]}}
      {3}
      yield
    }}
  }}
}}
)",
                     rows, 16 * rows, 512 * rows, more);
}

int Folded(const Function& fn) {
  int n = 0;
  for (OpId id : OpsInOrder(fn))
    n += (fn.ops[id].kind == OpKind::kLoad || fn.ops[id].kind == OpKind::kStore) &&
         fn.ops[id].s("modes") == "ffrr";
  return n;
}

TEST(FoldRows, BoxesAreRowsOfProducts) {
  const Function before = Parsed(Program(""));
  const Function after = Changed(FoldRows, before, 2);
  EXPECT_EQ(Folded(after), 2) << Print(after);
  for (const auto& [n, h, w] : {std::tuple{2, 8, 8}, {3, 10, 9}, {1, 3, 17}}) {
    const auto run = [&](const Function& fn) {
      InterpretInputs in;
      in.tensors["X"] = TensorValue::Random(DType::kBF16, {n, h, w, 64}, 1);
      in.tensors["F"] = TensorValue::Random(DType::kBF16, {64, 64}, 2);
      in.tensors["Y"] = TensorValue::Zeros(DType::kBF16, {n, h, w, 64});
      in.tensors["Z"] = TensorValue::Zeros(DType::kBF16, {n, h, w, 64});
      in.dims = {{"N", n}, {"H", h}, {"W", w}};
      return Interpreted(fn, std::move(in), "Y");
    };
    EXPECT_EQ(run(before), run(after)) << n << " x " << h << " x " << w;
  }
}

TEST(FoldRows, WhatIsReadAsABoxStaysOne) {
  const Function fn = Changed(FoldRows,
                              Parsed(Program("store %Z, %x, %n, %en, %h, %eh, %w, %ew, %0, %k "
                                             "{modes = \"rrrr\", sizes = [2, 8, 8, 64]}")),
                              1);
  EXPECT_EQ(Folded(fn), 1) << Print(fn);
}

// A copy has 256 rows at most.
TEST(FoldRows, NotMoreThanOneCopyBrings) {
  EXPECT_EQ(Folded(Changed(FoldRows, Parsed(Program("", 16)), 2)), 2);
  EXPECT_EQ(Folded(Changed(FoldRows, Parsed(Program("", 32)), 0)), 0);
}

}  // namespace
}  // namespace tilec::ir
