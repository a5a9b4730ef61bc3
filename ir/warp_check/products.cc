// Products: which results may be touched when. What a unit promises of its operands, and when, is
// in a file for each way of completion (products_in_groups.cc, products_at_once.cc).
//
// SPDX-License-Identifier: Apache-2.0
#include "ir/matrix_unit.h"
#include "ir/warp_check/machine.h"
#include "support/check.h"

namespace tilec::ir::warp_check {

CoreTile Machine::TileOf(ValueId v) {
  const auto it = me().core.find(v.index);
  return it == me().core.end() ? CoreTile{} : it->second;
}

// Any other op may touch a tile only when no product does.
bool Machine::NothingFlying(OpId id) {
  if (me().core.empty()) return true;
  const Op& op = OpOf(id);
  for (ValueId v : op.operands)
    if (TileOf(v).kind == CoreTile::kFlying) {
      Fail(kWarpProduct, op, "it uses the result of a product as it was before its mma_wait");
      return false;
    }
  return true;
}

Step Machine::Issue(OpId id) {
  const Op& op = fn_.ops[id];
  if (who_ != Who::kAll) return Fail(kWarpForm, op, "only some threads would issue this product");
  switch (Info(UnitOf(op)).completion) {
    case Completion::kAtOnce: return IssueAtOnce(id);
    case Completion::kGroups: return IssueInGroup(id);
    case Completion::kBarrier: break;
  }
  UNREACHABLE("the verifier knows no products of this unit");
}

Step Machine::Products(OpId id) {
  switch (fn_.ops[id].kind) {
    case OpKind::kMmaFence: return FencePass(id);
    case OpKind::kMma: return Issue(id);
    case OpKind::kMmaCommit: Commit(); return Step::kDone;
    case OpKind::kMmaWait: return WaitProducts(id);
    default: UNREACHABLE("no op of products");
  }
}

}  // namespace tilec::ir::warp_check
