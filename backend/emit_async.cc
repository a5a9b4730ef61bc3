// Barriers, counters, mbarriers and TMA.
//
// SPDX-License-Identifier: Apache-2.0
#include <llvm/IR/Constants.h>
#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/IntrinsicsNVPTX.h>

#include "backend/cluster_rank.h"
#include "backend/diagnostics.h"
#include "backend/emitter.h"
#include "ir/isa.h"
#include "support/check.h"

namespace tilec::backend {

using ir::OpKind;

// Two barriers with no access of memory between them are one.
void Emitter::RoleBarrier(int id) {
  const bool warp = role_.warps == 1;
  llvm::Value* which = I32(id < 0 ? role_.barrier : id);
  const llvm::BasicBlock* block = b_.GetInsertBlock();
  for (auto it = block->rbegin(); it != block->rend() && it->getParent() == block; ++it) {
    if (!it->mayReadOrWriteMemory()) continue;
    const auto* call = llvm::dyn_cast<llvm::CallInst>(&*it);
    const auto* code = call ? llvm::dyn_cast<llvm::InlineAsm>(call->getCalledOperand()) : nullptr;
    const PtxInst inst = warp ? PtxInst::kWarpSync : PtxInst::kBarSync;
    if (code && code->getAsmString() == Info(inst).text &&
        (warp || call->getArgOperand(0) == which))
      return;
    break;
  }
  if (warp)
    CallPtx(b_, PtxInst::kWarpSync, {});
  else
    CallPtx(b_, PtxInst::kBarSync, {which, I32(32 * role_.warps)});
}

// Which of so many equal parts of the role this warp belongs to.
llvm::Value* Emitter::PartOfRole(int parts) {
  llvm::Value*& part = role_.part_of[parts];
  if (part) return part;
  (void)Warp();
  llvm::IRBuilderBase::InsertPointGuard guard(b_);
  b_.SetInsertPoint(role_.anchor);
  b_.SetCurrentDebugLocation({});
  return part = b_.CreateUDiv(Warp(), I32(role_.warps / parts));
}

// The threads of one part meet at a barrier of their own.
void Emitter::PartBarrier(int first_id, int parts) {
  CallPtx(b_, PtxInst::kBarSyncOf,
          {b_.CreateAdd(PartOfRole(parts), I32(first_id)), I32(32 * role_.warps / parts)});
}

// A turn's barrier counts the warpgroup that waits and the one that it waits for. Of two warpgroups
// each has its own instruction under a predicate: with the number in a register ptxas 13.0 spilled
// up to 8 bytes of attention.
void Emitter::EmitTurn(const ir::Op& op) {
  const int first = static_cast<int>(op.i("id")), groups = role_.warps / ir::isa::kWarpgroupWarps;
  const bool waits = op.s("at") == "begin";
  llvm::Value* threads = I32(2 * ir::isa::kWarpgroupWarps * ir::isa::kWarpThreads);
  llvm::Value* group = b_.CreateLShr(Warp(), I32(2));
  if (op.s("at") == "start") {
    llvm::Value* last = b_.CreateICmpEQ(group, I32(groups - 1));
    CallPtx(b_, PtxInst::kBarArriveIf, {last, I32(first), threads});
    return;
  }
  if (groups == 2) {
    llvm::Value* zero = b_.CreateICmpEQ(group, I32(0));
    const PtxInst inst = waits ? PtxInst::kBarSyncIf : PtxInst::kBarArriveIf;
    CallPtx(b_, inst, {zero, I32(waits ? first : first + 1), threads});
    CallPtx(b_, inst, {b_.CreateNot(zero), I32(waits ? first + 1 : first), threads});
    return;
  }
  llvm::Value* next =
      b_.CreateSelect(b_.CreateICmpEQ(group, I32(groups - 1)), I32(0), b_.CreateAdd(group, I32(1)));
  CallPtx(b_, waits ? PtxInst::kBarSyncOf : PtxInst::kBarArriveOf,
          {b_.CreateAdd(waits ? group : next, I32(first)), threads});
}

// Through a shuffle: ptxas then knows that it is uniform.
llvm::Value* Emitter::Warp() {
  if (role_.warp) return role_.warp;
  llvm::IRBuilderBase::InsertPointGuard guard(b_);
  b_.SetInsertPoint(role_.anchor);
  b_.SetCurrentDebugLocation({});
  role_.warp = role_.warps == 1
                   ? static_cast<llvm::Value*>(I32(0))
                   : CallPtx(b_, PtxInst::kShflIdx, {b_.CreateLShr(role_.thread, I32(5)), I32(0)});
  return role_.warp;
}

// The elected lane of every warp.
llvm::Value* Emitter::ElectedInWarp() {
  if (role_.elected_in_warp) return role_.elected_in_warp;
  llvm::IRBuilderBase::InsertPointGuard guard(b_);
  b_.SetInsertPoint(role_.anchor);
  b_.SetCurrentDebugLocation({});
  return role_.elected_in_warp = OneLane();
}

// Any lane of the warp, always the same.
llvm::Value* Emitter::OneLane() {
  if (options_.machine->Has("elect")) return CallPtx(b_, PtxInst::kElect, {});
  return b_.CreateICmpEQ(b_.CreateAnd(role_.thread, I32(31)), I32(0));
}

// One thread of the role, always the same: the elected lane of its first warp.
llvm::Value* Emitter::Elected() {
  if (role_.elected) return role_.elected;
  llvm::IRBuilderBase::InsertPointGuard guard(b_);
  b_.SetInsertPoint(role_.anchor);
  b_.SetCurrentDebugLocation({});
  role_.elected = OneLane();
  if (role_.warps > 1) role_.elected = b_.CreateAnd(b_.CreateICmpEQ(Warp(), I32(0)), role_.elected);
  return role_.elected;
}

// One thread of each part of the role, always the same: the elected lane of its first warp.
llvm::Value* Emitter::ElectedInPart(int parts) {
  llvm::Value*& elected = role_.elected_in_part[parts];
  if (elected) return elected;
  llvm::Value* part = PartOfRole(parts);
  llvm::Value* lane = ElectedInWarp();
  llvm::IRBuilderBase::InsertPointGuard guard(b_);
  b_.SetInsertPoint(role_.anchor);
  b_.SetCurrentDebugLocation({});
  llvm::Value* first = b_.CreateMul(part, I32(role_.warps / parts));
  return elected = b_.CreateAnd(b_.CreateICmpEQ(Warp(), first), lane);
}

// Once at the barrier of every CTA of the cluster: lane q of each warp at that of CTA q.
void Emitter::ArriveInCluster(const ir::Op& op, llvm::Value* when) {
  llvm::Value*& there = role_.barriers_there[op.operands[0].index];
  if (!there) {
    llvm::Value* here = Scalar(op.operands[0]);
    llvm::IRBuilderBase::InsertPointGuard guard(b_);
    b_.SetInsertPoint(role_.anchor);
    b_.SetCurrentDebugLocation({});
    llvm::Value* lane = b_.CreateAnd(role_.thread, I32(31));
    if (!role_.lane_in_cluster)
      role_.lane_in_cluster = b_.CreateICmpULT(lane, I32(fn_.launch.cluster));
    llvm::Value* cta = RankOfLane(b_, lane, role_.lane_in_cluster, fn_.launch.cluster);
    there = CallPtx(b_, PtxInst::kMapa, {here, cta});
  }
  llvm::Value* address = there;
  if (op.operands.size() > 1)
    address = b_.CreateAdd(
        address, b_.CreateShl(b_.CreateSExtOrTrunc(Scalar(op.operands[1]), b_.getInt32Ty()), 3));
  llvm::Value* mine = role_.lane_in_cluster;
  CallPtx(b_, PtxInst::kMbarArriveAt, {address, when ? b_.CreateAnd(mine, when) : mine});
}

// Is this the first CTA of its cluster?
llvm::Value* Emitter::IsLeader() {
  return b_.CreateICmpEQ(CallPtx(b_, PtxInst::kClusterRank, {}), I32(0));
}

// What has this address here, in the first CTA of the cluster.
llvm::Value* Emitter::AtLeader(llvm::Value* address) {
  return CallPtx(b_, PtxInst::kMapa, {address, I32(0)});
}

void Emitter::ArriveIf(const ir::Op& op, llvm::Value* when) {
  llvm::Value* address = MbarAddress(op, 0, 1);
  if (op.i("leader"))
    CallPtx(b_, PtxInst::kMbarReleaseAt, {AtLeader(address), when});
  else
    CallPtx(b_, PtxInst::kMbarArriveIf, {address, when});
}

llvm::Value* Emitter::MbarAddress(const ir::Op& op, size_t mbar, size_t slot) {
  llvm::Value* base = Scalar(op.operands[mbar]);
  if (slot >= op.operands.size()) return base;
  llvm::Value* index = b_.CreateSExtOrTrunc(Scalar(op.operands[slot]), b_.getInt32Ty());
  return b_.CreateAdd(base, b_.CreateShl(index, 3));
}

void Emitter::EmitStamp(const ir::Op& op) {
  llvm::Value* slot = Scalar(op.operands[1]);
  llvm::Value* count = b_.CreateLoad(b_.getInt32Ty(), slot);
  llvm::Value* cta =
      b_.CreateIntrinsic(b_.getInt32Ty(), llvm::Intrinsic::nvvm_read_ptx_sreg_ctaid_x, {});
  llvm::Value* here = b_.CreateAnd(Elected(), b_.CreateICmpEQ(cta, I32(0)));
  here = b_.CreateAnd(here, b_.CreateICmpULT(count, I32(op.i("records"))));
  llvm::Value* record = b_.CreateAdd(b_.CreateZExt(count, b_.getInt64Ty()), I64(op.i("first")));
  llvm::Value* address =
      b_.CreateAdd(tensors_.at(op.operands[0].index).base, b_.CreateShl(record, 3));
  CallPtx(b_, PtxInst::kStamp, {here, address, I32(op.i("site"))});
  b_.CreateStore(b_.CreateAdd(count, I32(1)), slot);
}

void Emitter::EmitMbarWait(const ir::Op& op) {
  llvm::Value* address = MbarAddress(op, 0, 2);
  llvm::Value* parity = b_.CreateSExtOrTrunc(Scalar(op.operands[1]), b_.getInt32Ty());
  llvm::BasicBlock* loop = NewBlock("wait");
  llvm::BasicBlock* done = NewBlock("wait.end");
  b_.CreateBr(loop);
  b_.SetInsertPoint(loop);
  const bool suspends = options_.machine->Has("mbarrier_waits");
  const PtxInst how = op.i("cluster") ? PtxInst::kMbarTryAcquire
                      : suspends      ? PtxInst::kMbarTryWait
                                      : PtxInst::kMbarTestWait;
  b_.CreateCondBr(CallPtx(b_, how, {address, parity}), done, loop);
  b_.SetInsertPoint(done);
}

void Emitter::EmitPin(const ir::Op& op) {
  const ir::Type& type = fn_.type(op.operands[0]);
  if (!type.is_scalar()) {
    const Regs& tile = Get(op.operands[0]);
    const Regs words = CallTied(b_, PtxInst::kHere, {}, Pack(tile, type.dtype), "", {});
    Set(op.results[0], Unpack(words, type.dtype, tile.size()));
    return;
  }
  llvm::Value* v = Scalar(op.operands[0]);
  const bool wide = v->getType()->getIntegerBitWidth() > 32;
  Set(op.results[0], {CallPtx(b_, wide ? PtxInst::kPin64 : PtxInst::kPin32, {v})});
}

// ptxas moves arithmetic over barriers as it likes, but not over a branch. Each asks for a
// number of its own: asked again for the same one, ptxas knows the answer.
void Emitter::EmitCodeFence() {
  llvm::BasicBlock* never = NewBlock("never");
  llvm::BasicBlock* next = NewBlock("next");
  b_.CreateCondBr(CallPtx(b_, PtxInst::kIsCta, {I32(-1 - code_fences_++)}), never, next);
  b_.SetInsertPoint(never);
  CallPtx(b_, PtxInst::kTrap, {});
  b_.CreateUnreachable();
  b_.SetInsertPoint(next);
}

// A copy of a box between a tensor and shared memory, or a reduction into the tensor.
void Emitter::EmitTma(const ir::Op& op) {
  const bool load = op.kind == OpKind::kTmaLoad;
  const size_t first = load ? 2 : 1;
  const bool slotted = load && op.i("slotted") != 0;
  const size_t rank = op.operands.size() - first - (slotted ? 1 : 0);
  const size_t map = static_cast<size_t>(op.i("map"));
  CHECK(map < maps_.size(), "tensor map");
  CHECK(rank == fn_.launch.maps[map].dims.size(), "coordinates of a tensor map");
  llvm::Value* smem =
      b_.CreateAdd(slotted ? SlotAddress(op, 0, op.operands.size() - 1) : Scalar(op.operands[0]),
                   I32(op.i("offset")));
  const std::vector<int64_t> each =
      load || !op.attr("each") ? std::vector<int64_t>() : op.ints("each");
  if (!each.empty()) smem = b_.CreateAdd(smem, b_.CreateMul(part_, I32(each[2])));
  const bool all = load && op.attr("share");
  if (all)
    smem = b_.CreateAdd(smem,
                        b_.CreateMul(CallPtx(b_, PtxInst::kClusterRank, {}), I32(op.i("share"))));
  std::vector<llvm::Value*> args;
  std::string constraints;
  if (load) {
    // The barrier of a ring's slot: one mbarrier per slot.
    llvm::Value* barrier = Scalar(op.operands[1]);
    if (slotted && fn_.type(op.operands[1]).depth > 1)
      barrier = MbarAddress(op, 1, op.operands.size() - 1);
    if (op.i("pair")) barrier = AtLeader(barrier);
    args = {smem, maps_[map], barrier};
    constraints = "r,l,r";
  } else {
    args = {maps_[map], smem};
    constraints = "l,r";
  }
  std::vector<llvm::Value*> at;
  for (size_t i = 0; i < rank; ++i) {
    at.push_back(b_.CreateSExtOrTrunc(Scalar(op.operands[first + i]), b_.getInt32Ty()));
    if (!each.empty() && each[0] == static_cast<int64_t>(i))
      at.back() = b_.CreateAdd(at.back(), b_.CreateMul(part_, I32(each[1])));
  }
  if (const int64_t panel = fn_.launch.maps[map].panel) {
    at.push_back(b_.CreateExactSDiv(at[0], I32(panel)));
    at[0] = I32(0);
  }
  std::string coords;
  for (llvm::Value* c : at) {
    coords += (coords.empty() ? "$" : ", $") + std::to_string(args.size());
    args.push_back(c);
    constraints += ",r";
  }
  Substitutions with = {{"n", std::to_string(at.size())}, {"coords", coords}};
  if (all) with.push_back({"mask", std::to_string((1 << fn_.launch.cluster) - 1)});
  // Without clusters a place of the CTA: ptxas 13.0 gives programs for sm_120a that name one of
  // a cluster a stack frame.
  const bool own = !options_.machine->Has("clusters") && options_.machine->Has("copies_to_cta");
  if (load && !all && !op.i("pair")) with.push_back({"space", own ? "cta" : "cluster"});
  const bool combines = !load && op.attr("kind");
  if (combines) with.push_back({"op", op.s("kind")});
  CallPtx(b_,
          all                       ? PtxInst::kTmaLoadAll
          : load && op.i("pair", 0) ? PtxInst::kTmaLoadPair
          : load                    ? PtxInst::kTmaLoad
          : combines                ? PtxInst::kTmaReduce
                                    : PtxInst::kTmaStore,
          with, constraints, args);
}

Result<void> Emitter::EmitAsync(const ir::Op& op) {
  switch (op.kind) {
    case OpKind::kCounter: {
      llvm::IRBuilder<> at_entry(allocas_);
      llvm::AllocaInst* slot = at_entry.CreateAlloca(b_.getInt32Ty());
      b_.CreateStore(I32(op.i("init")), slot);
      Set(op.results[0], {slot});
      return Done();
    }
    case OpKind::kCounterRead:
      Set(op.results[0], {b_.CreateLoad(b_.getInt32Ty(), Scalar(op.operands[0]))});
      return Done();
    case OpKind::kCounterAdd: {
      llvm::Value* slot = Scalar(op.operands[0]);
      b_.CreateStore(b_.CreateAdd(b_.CreateLoad(b_.getInt32Ty(), slot), I32(op.i("by"))), slot);
      return Done();
    }
    case OpKind::kStamp: EmitStamp(op); return Done();
    case OpKind::kMbarInit: {
      llvm::Value* base = Scalar(op.operands[0]);
      for (int64_t i = 0; i < fn_.type(op.operands[0]).depth; ++i)
        CallPtx(b_, PtxInst::kMbarInit,
                {b_.CreateAdd(base, I32(8 * i)),
                 I32(op.i("count") * (op.i("cluster", 0) ? fn_.launch.cluster : 1))});
      return Done();
    }
    case OpKind::kFenceMbarInit:  // before sm_90 the barrier behind it is enough
      if (options_.machine->Has("mbarrier_waits")) CallPtx(b_, PtxInst::kFenceMbarInit, {});
      return Done();
    case OpKind::kMbarExpect:
      if (op.i("leader")) {
        CallPtx(b_, PtxInst::kMbarExpectIf,
                {MbarAddress(op, 0, 1), I32(op.i("bytes")), IsLeader()});
        return Done();
      }
      CallPtx(b_, PtxInst::kMbarExpect, {MbarAddress(op, 0, 1), I32(op.i("bytes"))});
      return Done();
    case OpKind::kMbarArrive:
      if (op.i("cluster", 0)) {
        for (int64_t cta = 0; cta < fn_.launch.cluster; ++cta)
          CallPtx(b_, PtxInst::kMbarArriveAt,
                  {CallPtx(b_, PtxInst::kMapa, {MbarAddress(op, 0, 1), I32(cta)}), b_.getTrue()});
        return Done();
      }
      if (op.i("leader"))
        ArriveIf(op, b_.getTrue());
      else
        CallPtx(b_, PtxInst::kMbarArrive, {MbarAddress(op, 0, 1)});
      return Done();
    case OpKind::kMbarWait: EmitMbarWait(op); return Done();
    case OpKind::kClusterSync: EmitClusterSync(); return Done();
    case OpKind::kPin: EmitPin(op); return Done();
    case OpKind::kCodeFence: EmitCodeFence(); return Done();
    case OpKind::kClusterRank:
      Set(op.results[0], {CallPtx(b_, PtxInst::kClusterRank, {})});
      return Done();
    case OpKind::kCtaSync:
      if (const int64_t parts = op.i("parts", 1); parts > 1)
        PartBarrier(static_cast<int>(op.i("id")), static_cast<int>(parts));
      else
        RoleBarrier(static_cast<int>(op.i("id")));
      return Done();
    case OpKind::kTurn: EmitTurn(op); return Done();
    case OpKind::kFenceAsync: CallPtx(b_, PtxInst::kFenceAsync, {}); return Done();
    case OpKind::kCpArrive: CallPtx(b_, PtxInst::kCpArrive, {MbarAddress(op, 0, 1)}); return Done();
    case OpKind::kTmaLoad:
    case OpKind::kTmaStore: EmitTma(op); return Done();
    case OpKind::kTmaCommit: CallPtx(b_, PtxInst::kTmaCommit, {}); return Done();
    case OpKind::kTmaWait:
      CallPtx(b_, op.i("read") ? PtxInst::kTmaWaitRead : PtxInst::kTmaWait, {I32(op.i("pending"))});
      return Done();
    case OpKind::kMmaCommit: return EmitMmaCommit();
    default: break;
  }
  UNREACHABLE(std::string("op of the tile level in a warp function: ") +
              ir::Info(op.kind).mnemonic);
}

}  // namespace tilec::backend
