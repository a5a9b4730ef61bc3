// Where the CTAs of a cluster meet (cluster_sync): before their roles, so that nobody writes to a
// CTA that is not ready, and behind them, so that nobody leaves while others read of it.
//
// Until all CTAs of a cluster run and have met some thousand cycles go by, and where they only
// combine tiles behind their loops (warp_cluster_reduce) nobody has anything to do with another
// before. There a CTA says that it is ready, goes to work, and each role waits for the others right
// before its first exchange; warps without one wait at the end. What the program's order says (all
// meet first) is stronger, and what lies between touches shared memory and barriers of its own CTA
// alone.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "backend/emitter.h"
#include "support/check.h"

namespace tilec::backend {

using ir::OpKind;

// Is what combines tiles all that CTAs have to do with each other, once in each role? In a loop or
// a branch a role would wait for the others more than once, or not at all.
bool Emitter::MeetsLate() {
  if (meets_late_) return *meets_late_;
  bool exchanges = false, others = false;
  int meetings = 0;
  for (ir::OpId id : ir::OpsInOrder(fn_)) {
    const ir::Op& op = fn_.ops[id];
    if (op.kind == OpKind::kWarpClusterReduce) {
      exchanges = true;
      for (ir::OpId up = fn_.blocks[op.block].parent; up.valid();
           up = fn_.blocks[fn_.ops[up].block].parent) {
        const OpKind kind = fn_.ops[up].kind;
        others = others || kind == OpKind::kFor || kind == OpKind::kWhile || kind == OpKind::kIf;
      }
    }
    meetings += op.kind == OpKind::kClusterSync;
    const bool arrives = op.kind == OpKind::kMbarArrive && op.i("cluster", 0) != 0;
    others = others || arrives || op.attr("share") || op.i("pair", 0) || op.i("leader", 0);
  }
  meets_late_ = exchanges && !others && meetings == 2;
  return *meets_late_;
}

void Emitter::EmitClusterSync() {
  if (!MeetsLate()) {
    CallPtx(b_, PtxInst::kClusterSync, {});
    return;
  }
  if (!arrived_) {
    arrived_ = true;
    CallPtx(b_, PtxInst::kClusterArrive, {});
    RoleBarrier(0);
    return;
  }
  llvm::Value* waited = b_.getFalse();
  for (const auto& [first, warps] : waited_)
    waited = b_.CreateOr(waited, b_.CreateICmpULT(b_.CreateSub(Warp(), I32(first)), I32(warps)));
  llvm::BasicBlock* wait = NewBlock("cluster.wait");
  llvm::BasicBlock* meet = NewBlock("cluster.meet");
  b_.CreateCondBr(waited, meet, wait);
  b_.SetInsertPoint(wait);
  CallPtx(b_, PtxInst::kClusterWait, {});
  b_.CreateBr(meet);
  b_.SetInsertPoint(meet);
  CallPtx(b_, PtxInst::kClusterSync, {});
}

// Before a role's first exchange, which stands directly in it: what is emitted first runs first.
void Emitter::AwaitCluster() {
  const std::pair<int, int> role = {role_.first_warp, role_.warps};
  if (!MeetsLate() || std::count(waited_.begin(), waited_.end(), role) > 0) return;
  waited_.push_back(role);
  CallPtx(b_, PtxInst::kClusterWait, {});
}

}  // namespace tilec::backend
