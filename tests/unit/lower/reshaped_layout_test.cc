// Layouts under another shape of the same elements (ir/reshaped_layout.h), and a product whose left
// operand in registers is made of a tile of three dims.
//
// SPDX-License-Identifier: Apache-2.0
#include "ir/reshaped_layout.h"

#include "tests/unit/lower/helper.h"

namespace tilec::ir {
namespace {

using TileShape = std::vector<int64_t>;

Layout Fragment() {  // of a left operand [64, 32], one warpgroup
  return *ParseLayout("t(4:1*2 8:0*1 4:0*16) r(2:1*1 2:0*8 4:1*8)", 2);
}

int64_t NumberOf(const TileShape& at, const TileShape& shape) {
  int64_t n = 0;
  for (size_t d = 0; d < shape.size(); ++d) n = n * shape[d] + at[d];
  return n;
}

TEST(ReshapedLayout, EachThreadKeepsItsElements) {
  for (const TileShape& fine :
       {TileShape{64, 4, 8}, TileShape{8, 8, 32}, TileShape{64, 16, 2}, TileShape{2048}}) {
    const TileShape coarse = {64, 32};
    const auto cut = CutLayout(Fragment(), coarse, fine);
    if (fine.size() == 1) {  // dims are joined, not cut
      EXPECT_FALSE(cut);
      continue;
    }
    ASSERT_TRUE(cut) << fine[1];
    const auto map = ReshapedRegisters(*cut, fine, Fragment(), coarse);
    ASSERT_TRUE(map) << ToText(*cut);
    for (int64_t t = 0; t < 128; ++t)
      for (int64_t r = 0; r < Fragment().regs(); ++r)
        ASSERT_EQ(NumberOf(cut->Coord(t, (*map)[static_cast<size_t>(r)]), fine),
                  NumberOf(Fragment().Coord(t, r), coarse));
  }
}

TEST(ReshapedLayout, DigitsThatCrossACutDoNot) {
  EXPECT_FALSE(CutLayout(Fragment(), {64, 32}, {64, 32, 2}));  // other elements
  EXPECT_FALSE(CutLayout(*ParseLayout("t(128:0*1) r(6:1*1)", 2), {128, 6}, {128, 3, 4}));
  EXPECT_FALSE(CutLayout(*ParseLayout("t(4:1*3 32:0*1) r(3:1*1)", 2), {32, 12}, {32, 3, 4}));
  // Past the tile, a number would be another row's.
  EXPECT_FALSE(CutLayout(*ParseLayout("t(128:0*1) r(16:1*1)", 2), {128, 12}, {128, 3, 4}));
}

TEST(ReshapedLayout, WhatWouldHaveToMoveIsSeen) {
  const Layout rows = *ParseLayout("t(64:0*1 2:-) r(32:1*1)", 2);
  EXPECT_FALSE(ReshapedRegisters(rows, {64, 32}, Fragment(), {64, 32}));
  EXPECT_TRUE(
      ReshapedRegisters(rows, {64, 32}, *CutLayout(rows, {64, 32}, {64, 4, 8}), {64, 4, 8}));
}

// Bytes of eight one-bit weights each, beside A [16, 64].
constexpr const char* kBits = R"(func @bits tile {
  param tensor %W: tensor<u32, 2> in [64, L] align=16 stride_align=16 contiguous=1 last_align=16
  param tensor %A: tensor<bf16, 2> in [16, L] align=16 stride_align=16 contiguous=1 last_align=16
  param tensor %O: tensor<f32, 2> out [64, 16] align=16 stride_align=16 contiguous=1 last_align=16
  param dim %L: i64
  body {
    %0 = constant {value = 0} : i64
    %1 = constant {value = 1} : i64
    %8 = constant {value = 8} : i64
    parallel %0, %1 {steps = [1]} do (%cta: i64) {
      %z = constant {value = 0} : f32[64, 16]
      %sum = for %0, %L, %z {step = 64} : f32[64, 16] do (%k: i64, %s: f32[64, 16]) {
        %kw = div %k, %8 : i64
        %w = load %W, %0, %kw {modes = "rr", sizes = [64, 8], has_fill = 0} : u32[64, 8]
        %w1 = reshape %w : u32[64, 8, 1]
        %w2 = broadcast %w1 {axes = [0, 1, 2]} : u32[64, 8, 8]
        %at = iota %0 : i32[8]
        %atu = cast %at : u32[8]
        %at2 = broadcast %atu {axes = [2]} : u32[64, 8, 8]
        %bits = shr %w2, %at2 : u32[64, 8, 8]
        %flat = rearrange %bits {first = 0, strides = [64, 1]} : u32[64, 64]
        %one = constant {value = 1} : u32[64, 64]
        %bit = and %flat, %one : u32[64, 64]
        %left = cast %bit : bf16[64, 64]
        %a = load %A, %0, %k {modes = "rr", sizes = [16, 64], has_fill = 0} : bf16[16, 64]
        %at3 = transpose %a {perm = [1, 0]} : bf16[64, 16]
        %n = dot %left, %at3, %s : f32[64, 16]
        yield %n
      }
      %64 = constant {value = 64} : i64
      %16 = constant {value = 16} : i64
      store %O, %sum, %0, %64, %0, %16 {modes = "rr", sizes = [64, 16]}
      yield
    }
  }
}
)";

TEST(ReshapedLayout, LeftOperandsAreMadeWhereTheyAreMultiplied) {
  DiagSink diags;
  const auto warp = Sequentialize(Parsed(kBits), H200(), {}, diags);
  ASSERT_TRUE(warp.ok());
  ExpectVerified(*warp);
  EXPECT_EQ(Count(*warp, OpKind::kWarpRearrange), 0);
  EXPECT_GE(Count(*warp, OpKind::kWarpReshape), 1);
  EXPECT_EQ(Count(*warp, OpKind::kConvert), 0);
}

// The same elements under another shape, but in other threads.
TEST(ReshapedLayout, AReshapeThatMovesIsRefused) {
  DiagSink diags;
  auto warp = Sequentialize(Parsed(kBits), H200(), {}, diags);
  ASSERT_TRUE(warp.ok());
  bool changed = false;
  for (Op& op : warp->ops)
    if (op.kind == OpKind::kWarpReshape && warp->type(op.operands[0]).rank() == 3) {
      Type& type = warp->values[op.operands[0]].type;
      Layout other = warp->layout(op.operands[0]);
      std::swap(other.thread[0], other.thread[1]);
      type.layout = warp->Intern(other);
      changed = true;
    }
  ASSERT_TRUE(changed);
  EXPECT_FALSE(Verify(*warp, diags).ok());
}

}  // namespace
}  // namespace tilec::ir
