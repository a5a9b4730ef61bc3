// Warps that go ways of their own: roles, which branch on the warp's number and take their share of
// registers, and within a role what one elected thread does for all.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "backend/emitter.h"
#include "support/check.h"

namespace tilec::backend {

using ir::OpKind;

namespace {

// Ids of the named barriers in a block and everything under it: all of them, or those at which
// whole roles meet.
void BarrierIds(const ir::Function& fn, ir::BlockId block, bool whole, std::vector<int>* ids) {
  for (ir::OpId id : fn.blocks[block].ops) {
    const ir::Op& op = fn.ops[id];
    const int64_t parts = op.i("parts", 1);
    if (op.kind == OpKind::kCtaSync && (parts == 1 || !whole))
      for (int64_t part = 0; part < parts; ++part)
        ids->push_back(static_cast<int>(op.i("id") + part));
    for (ir::BlockId region : op.regions) BarrierIds(fn, region, whole, ids);
  }
}

}  // namespace

RoleState Emitter::NewRole(int first_warp, int warps, int barrier) {
  RoleState role;
  role.first_warp = first_warp;
  role.warps = warps;
  role.barrier = barrier;
  return role;
}

// `outer`: the state around the roles; `taken`: named barriers, to which the role's own is added.
Result<void> Emitter::EmitRole(const ir::Op& op, const RoleState& outer, std::vector<int>* taken) {
  const int first = static_cast<int>(op.i("first_warp")), warps = static_cast<int>(op.i("warps"));
  std::vector<int> own;
  BarrierIds(fn_, op.regions[0], true, &own);
  int barrier = own.empty() ? 1 : own[0];
  if (own.empty() && warps > 1) {
    while (std::count(taken->begin(), taken->end(), barrier)) ++barrier;
    CHECK(barrier < 16, "no named barrier left for a role");
    taken->push_back(barrier);
  }
  llvm::BasicBlock* entry = NewBlock("role");
  llvm::BasicBlock* body = NewBlock("role.body");
  llvm::BasicBlock* after = NewBlock("role.after");
  b_.CreateCondBr(b_.CreateICmpULT(b_.CreateSub(outer.warp, I32(first)), I32(warps)), entry, after);
  b_.SetInsertPoint(entry);
  llvm::Instruction* end = b_.CreateBr(body);
  b_.SetInsertPoint(end);
  role_ = NewRole(first, warps, barrier);
  role_.anchor = end;
  role_.thread = b_.CreateSub(outer.thread, I32(int64_t{32} * first));
  role_.warp = b_.CreateSub(outer.warp, I32(first));
  b_.SetInsertPoint(body);
  if (op.i("leader")) {
    llvm::BasicBlock* leads = NewBlock("role.leads");
    b_.CreateCondBr(IsLeader(), leads, after);
    b_.SetInsertPoint(leads);
  }
  TRY_VOID(EmitBlock(op.regions[0]));
  b_.CreateBr(after);
  b_.SetInsertPoint(after);
  return Done();
}

// Roles that share a warpgroup share its register quota and the one setmaxnreg that sets it.
Result<void> Emitter::EmitRoles(const std::vector<ir::OpId>& roles) {
  const int all = fn_.launch.warps;
  if (roles.size() == 1 && fn_.ops[roles[0]].i("first_warp") == 0 &&
      fn_.ops[roles[0]].i("warps") == all)
    return EmitBlock(fn_.ops[roles[0]].regions[0]);

  std::vector<int> taken;
  BarrierIds(fn_, fn_.body, false, &taken);
  std::vector<ir::OpId> order = roles;
  std::sort(order.begin(), order.end(), [&](ir::OpId a, ir::OpId b) {
    return fn_.ops[a].i("first_warp") < fn_.ops[b].i("first_warp");
  });
  const int64_t cap =
      options_.machine->RegistersAtLaunch(all * std::max<int64_t>(1, fn_.launch.ctas_per_sm));
  (void)Warp();
  const RoleState outer = role_;
  llvm::BasicBlock* done = NewBlock("roles.done");
  for (size_t i = 0; i < order.size();) {
    size_t j = i;
    int64_t first_group = fn_.ops[order[i]].i("first_warp") / 4, end_group = first_group;
    int64_t regs = 0;
    for (; j < order.size(); ++j) {
      const ir::Op& op = fn_.ops[order[j]];
      if (j > i && op.i("first_warp") / 4 >= end_group) break;
      end_group = CeilDiv(op.i("first_warp") + op.i("warps"), 4);
      regs = std::max(regs, op.i("regs"));
    }
    llvm::BasicBlock *group = NewBlock("group"), *next = NewBlock("next");
    b_.CreateCondBr(b_.CreateICmpULT(b_.CreateSub(outer.warp, I32(first_group * 4)),
                                     I32((end_group - first_group) * 4)),
                    group, next);
    b_.SetInsertPoint(group);
    if (regs > 0 && regs != cap && options_.machine->Has("setmaxnreg"))
      CallPtx(b_, regs > cap ? PtxInst::kSetMaxNregInc : PtxInst::kSetMaxNregDec, {I32(regs)});
    for (size_t k = i; k < j; ++k) TRY_VOID(EmitRole(fn_.ops[order[k]], outer, &taken));
    b_.CreateBr(done);
    b_.SetInsertPoint(next);
    i = j;
  }
  b_.CreateBr(done);
  b_.SetInsertPoint(done);
  role_ = outer;
  return Done();
}

Result<void> Emitter::EmitElect(const ir::Op& op) {
  const bool each_warp = op.s("scope") == "warp";
  if (each_warp) CallPtx(b_, PtxInst::kWarpSync, {});
  const std::vector<ir::OpId>& body = fn_.blocks[op.regions[0]].ops;
  const auto arrives = [&](bool all) {
    return std::all_of(body.begin(), body.end(), [&](ir::OpId id) {
      const ir::Op& inner = fn_.ops[id];
      return inner.kind == OpKind::kYield ||
             (inner.kind == OpKind::kMbarArrive && (inner.i("cluster", 0) != 0) == all);
    });
  };
  if (each_warp && fn_.launch.cluster > 1 && arrives(true)) {
    llvm::Value* when = op.operands.empty() ? nullptr : Scalar(op.operands[0]);
    for (ir::OpId id : body)
      if (fn_.ops[id].kind == OpKind::kMbarArrive) ArriveInCluster(fn_.ops[id], when);
    return Done();
  }
  const int parts = static_cast<int>(op.i("parts", 1));
  llvm::Value* elected = each_warp ? ElectedInWarp() : parts > 1 ? ElectedInPart(parts) : Elected();
  if (!op.operands.empty()) elected = b_.CreateAnd(elected, Scalar(op.operands[0]));
  // Arrivals are predicated, not branched around: at the end of a block LLVM moves computations of
  // the next one down, out of the time that the schedule gave them.
  if (arrives(false)) {
    for (ir::OpId id : body)
      if (fn_.ops[id].kind == OpKind::kMbarArrive) ArriveIf(fn_.ops[id], elected);
    return Done();
  }
  // The verifier takes the lanes of a warp to be together. What the elected lane issues ends the
  // phase that the others may still wait for: left behind, they would wait for the next but one.
  if (role_.warps == 1) CallPtx(b_, PtxInst::kWarpSync, {});
  llvm::BasicBlock* one = NewBlock("elected");
  llvm::BasicBlock* join = NewBlock("elect.end");
  b_.CreateCondBr(elected, one, join);
  b_.SetInsertPoint(one);
  part_ = parts > 1 ? PartOfRole(parts) : nullptr;
  TRY_VOID(EmitBlock(op.regions[0]));
  b_.CreateBr(join);
  b_.SetInsertPoint(join);
  return Done();
}

}  // namespace tilec::backend
