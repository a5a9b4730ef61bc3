// Products of few rows whose weights threads decode: two CTAs share an SM, and what an iteration
// reads comes by one ring; fields leave their words where they are multiplied.
//
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/api/loaded.h"

namespace tilec {
namespace {

// Words of eight numbers, 128 of K in an iteration, and scales of rows.
constexpr const char* kWords = R"(
kernel words(X: f16[M, K], W: u32[K / 8, N], scale: f16[KB, N], zero: u32[KB, N], Y: out f16[M, N])
  where K <= KB * 128
{
  parallel n in tiles(N, 128), m in tiles(M, 16) {
    var acc: f32[128, 16] = 0
    for k in tiles(K, 128) {
      let g = k.start / 128
      let i = k.start / 8
      let each = shr(W[i..i + 16, n].T[:, :, None], (iota(8) * 4)[None, None, :] as u32)
      let q = bit_and(reshape(each, 128, 128), 15) as i32
      let z = bit_and(zero[g, n], 15) as i32
      acc += ((q - z[:, None]) as f16 * scale[g, n][:, None]) @ X[m, k].T
    }
    Y[m, n] = acc.T as f16
  }
}
)";

class Decoded : public LoweringTest {
 protected:
  Decoded() : LoweringTest("words") {}
  void SetUp() override {
    LoadText(loaded_, kWords);
    for (const char* name : {"X", "W", "scale", "zero", "Y"})
      call_.facts[name] = {.base_align_bytes = 256,
                           .stride_align_bytes = 512,
                           .last_dim_align = 128,
                           .last_contiguous = true};
  }
  static int64_t Count(const ir::Function& fn, ir::OpKind kind) {
    return std::count_if(fn.ops.begin(), fn.ops.end(),
                         [&](const ir::Op& op) { return op.kind == kind; });
  }
};

TEST_F(Decoded, TwoCtasShareAnSmAndOneRingBringsAnIteration) {
  api::Lowered lowered;
  const ir::Function warps = Lowered(&lowered);
  EXPECT_TRUE(lowered.by_schedule) << RenderAll(diags_, loaded_.sources);
  EXPECT_EQ(warps.launch.ctas_per_sm, 2);
  EXPECT_EQ(Count(warps, ir::OpKind::kMbarAlloc), 2) << "one is awaited, one gives the slot back";
}

TEST_F(Decoded, LoopsCarryNoFields) {
  api::Lowered lowered;
  const ir::Function warps = Lowered(&lowered);
  int64_t loops = 0;
  for (const ir::Op& op : warps.ops) {
    if (op.kind != ir::OpKind::kFor) continue;
    for (ir::ValueId carried : warps.blocks[op.regions[0]].args) {
      const ir::Type& type = warps.type(carried);
      if (type.is_tile() && ir::IsInteger(type.dtype)) EXPECT_LE(type.elements(), 16 * 128);
      loops += type.is_tile();
    }
  }
  EXPECT_GT(loops, 0);
}

}  // namespace
}  // namespace tilec
