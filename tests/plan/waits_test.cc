// How often a program waits in an iteration: what hand-written kernels are compared by.
//
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>

#include "ir/function.h"
#include "tests/plan/compiled.h"

namespace tilec {
namespace {

using ir::BlockId;
using ir::Op;
using ir::OpId;
using ir::OpKind;

bool HasLoop(const ir::Function& fn, BlockId block) {
  for (OpId id : fn.blocks[block].ops)
    for (BlockId region : fn.ops[id].regions)
      if (fn.ops[id].kind == OpKind::kFor || HasLoop(fn, region)) return true;
  return false;
}
// Waits for mbarriers on the longest way through a block without loops.
int WaitsIn(const ir::Function& fn, BlockId block) {
  int waits = 0;
  for (OpId id : fn.blocks[block].ops) {
    const Op& op = fn.ops[id];
    waits += op.kind == OpKind::kMbarWait;
    int most = 0;
    for (BlockId region : op.regions) most = std::max(most, WaitsIn(fn, region));
    waits += most;
  }
  return waits;
}
// … in the iteration of an innermost loop that waits most.
int WaitsOfLoops(const ir::Function& fn, BlockId block) {
  int most = 0;
  for (OpId id : fn.blocks[block].ops)
    for (BlockId region : fn.ops[id].regions)
      most = std::max(most, fn.ops[id].kind == OpKind::kFor && !HasLoop(fn, region)
                                ? WaitsIn(fn, region)
                                : WaitsOfLoops(fn, region));
  return most;
}

// An iteration of 80 keys, of three roles: the load role for a slot, which K and V share; two
// compute roles of 128 rows each for that slot, scores and output. FlashAttention-4 has 12 for 128
// keys.
TEST(Waits, OfAttentionInTensorMemory) {
  const CompiledPlan made = CompilePlan(PlanCaseOf("attention_b200"));
  ASSERT_TRUE(made.ok) << made.said;
  int waits = 0, roles = 0;
  const ir::Function& fn = made.program;
  for (OpId id : fn.blocks[fn.body].ops)
    if (fn.ops[id].kind == OpKind::kRole) waits += WaitsOfLoops(fn, fn.ops[id].regions[0]), ++roles;
  EXPECT_EQ(roles, 3);
  constexpr int kKeys = 80;
  EXPECT_EQ(waits, 7);
  EXPECT_LE(waits * 128, 12 * kKeys);
}

}  // namespace
}  // namespace tilec
