// Schedules whose tiles fit, but not with what many products need beside them: the loops are solved
// again for fewer registers, unless the schedule is somebody's own.
//
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>

#include "ir/lower/pressure.h"
#include "tests/unit/api/loaded.h"
#include "tests/unit/h200.h"

namespace tilec {
namespace {

// Five products a turn. The loop as it is solved first has several stages, and two versions of its
// turn, with the mask and without: many products.
constexpr const char* kMany = R"(
kernel many(Q: bf16[M, 64], A: bf16[L, 64], B: f32[L], C: bf16[M, L], O: out f32[M, 64],
            P: out f32[M, 64], R: out f32[M]) {
  parallel m in tiles(M, 128) {
    let q = Q[m, :]
    var acc0: f32[128, 64] = 0
    var acc1: f32[128, 64] = 0
    var row0: f32[128] = 0
    for k in tiles(L, 64) {
      let a = A[k, :]
      let b = B[k]
      let c = C[m, k]
      let s0 = (q @ a.T) * 0.05
      let s1 = select(k.index[None, :] <= m.index[:, None], s0, 0.0)
      let s2 = min(max(s1, -2.0), 2.0)
      acc0 = acc0 * 0.5 + (s2 as bf16) @ a
      let s3 = max(c as f32, -0.5)
      let s4 = min(max(s3, -2.0), 2.0)
      acc1 = acc1 * 0.5 + (s4 as bf16) @ a
      let s7 = min(max(abs(s4) + b[None, :], -2.0), 2.0)
      acc1 = acc1 * 0.5 + (s7 as bf16) @ a
      let s8 = (q @ a.T) * 0.05
      let s12 = min(max(exp2(min(abs(max(s8, -0.5)), 1.0)), -2.0), 2.0)
      acc0 = acc0 * 0.5 + (s12 as bf16) @ a
      row0 = max(row0, max(s4 * s12, axis = 1))
    }
    O[m, :] = acc0
    P[m, :] = acc1
    R[m] = row0
  }
}
)";

class TightTest : public LoweringTest {
 protected:
  TightTest() : LoweringTest("many") {}
  void SetUp() override {
    LoadText(loaded_, kMany);
    for (const char* name : {"Q", "A", "B", "C", "O", "P", "R"})
      call_.facts[name] = {.base_align_bytes = 256,
                           .stride_align_bytes = 512,
                           .last_dim_align = 128,
                           .last_contiguous = true};
  }
  // Registers that the roles have beyond their tiles and what is wanted beside those.
  static int64_t Room(const ir::Function& warps) {
    int64_t room = 256;
    for (ir::OpId id : warps.blocks[warps.body].ops)
      if (const ir::Op& op = warps.ops[id]; op.kind == ir::OpKind::kRole && op.i("warps") > 1)
        room = std::min(room, op.i("regs") - ir::PeakRegisters(warps, id) -
                                  ir::SpareRegisters(warps, ir::H200(), id));
    return room;
  }
};

TEST_F(TightTest, LoopsAreSolvedAgainForFewerRegisters) {
  api::Lowered lowered;
  const ir::Function warps = Lowered(&lowered);
  EXPECT_EQ(Said("R602"), 1) << RenderAll(diags_, loaded_.sources);
  EXPECT_GE(Room(warps), 0);
  EXPECT_TRUE(lowered.by_schedule);
  ASSERT_EQ(lowered.schedule.loops.size(), 1u);
  EXPECT_TRUE(lowered.schedule.loops[0].applied);
}

// Whoever brings a schedule may have asked ptxas.
TEST_F(TightTest, AFileIsObeyedAsLongAsItsTilesFit) {
  ir::Function ignored;
  const std::string first = scheduler::ToText(Solved(true, &ignored));
  loaded_.schedule_file = loaded_.sources.Add("many.sched", first);
  api::Lowered lowered;
  const ir::Function warps = Lowered(&lowered);
  EXPECT_EQ(Said("R602"), 0);
  EXPECT_LT(Room(warps), 0);
  EXPECT_TRUE(lowered.by_schedule);
}

}  // namespace
}  // namespace tilec
