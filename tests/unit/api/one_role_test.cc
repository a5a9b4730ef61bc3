// Roles of their own for the row slices of a loop are refused for want of registers: one role for
// all of them is solved for before products are overlapped by rule.
//
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/api/loaded.h"

namespace tilec {
namespace {

// Three slices of 64 rows. Nothing but sums is carried, so each may have a role; those want 196 of
// 160 registers.
constexpr const char* kSlices = R"(
kernel slices(Q: bf16[S, 64], K: bf16[L, 64], V: bf16[L, 64], O: out f32[S, 64]) {
  parallel q in tiles(S, 192) {
    let qt = Q[q, :]
    let r = max(qt @ K[0..16, :].T, axis = 1)
    var acc: f32[192, 64] = 0
    var l: f32[192] = 0
    for k in tiles(L, 128) {
      let s = select(k.index[None, :] < L, qt @ K[k, :].T, -inf)
      let p = exp2(s - r[:, None])
      l = l + sum(p, axis = 1)
      acc = acc + (p as bf16) @ V[k, :]
    }
    O[q, :] = acc / l[:, None]
  }
}
)";

class OneRole : public LoweringTest {
 protected:
  OneRole() : LoweringTest("slices") {}
  void SetUp() override {
    LoadText(loaded_, kSlices);
    for (const char* name : {"Q", "K", "V", "O"})
      call_.facts[name] = {.base_align_bytes = 256,
                           .stride_align_bytes = 512,
                           .last_dim_align = 128,
                           .last_contiguous = true};
  }
};

TEST_F(OneRole, IsSolvedForWhereSeveralDoNotFit) {
  ir::Function ignored;
  EXPECT_EQ(Solved(true, &ignored).roles, 3);
  api::Lowered lowered;
  const ir::Function warps = Lowered(&lowered);
  EXPECT_TRUE(lowered.by_schedule) << RenderAll(diags_, loaded_.sources);
  EXPECT_EQ(lowered.schedule.roles, 1);
  EXPECT_EQ(Said("R587"), 0) << RenderAll(diags_, loaded_.sources);
  const std::vector<ir::OpId>& ops = warps.blocks[warps.body].ops;
  EXPECT_EQ(std::count_if(ops.begin(), ops.end(),
                          [&](ir::OpId id) {
                            const ir::Op& op = warps.ops[id];
                            return op.kind == ir::OpKind::kRole && op.i("warps") > 1;
                          }),
            1);
}

}  // namespace
}  // namespace tilec
