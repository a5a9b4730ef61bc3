// Structured control flow: loops and branches. What they carry crosses blocks packed (emitter.h),
// and what steers them is one number for all lanes (emit_uniform.cc).
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "backend/emitter.h"

namespace tilec::backend {

using ir::OpKind;

std::vector<ir::ValueId> Emitter::Yields(ir::BlockId block) const {
  const std::vector<ir::OpId>& ops = fn_.blocks[block].ops;
  if (ops.empty() || fn_.ops[ops.back()].kind != OpKind::kYield) return {};
  return fn_.ops[ops.back()].operands;
}

bool Emitter::HasLoop(ir::BlockId block) const {
  const std::vector<ir::OpId>& ops = fn_.blocks[block].ops;
  return std::any_of(ops.begin(), ops.end(), [&](ir::OpId id) {
    const ir::Op& op = fn_.ops[id];
    return op.kind == OpKind::kFor || op.kind == OpKind::kWhile ||
           std::any_of(op.regions.begin(), op.regions.end(),
                       [&](ir::BlockId region) { return HasLoop(region); });
  });
}

// What does not change from iteration to iteration of an outer loop is made anew in each: it costs
// little beside the inner loop's iterations, and would hold registers through all of them.
void Emitter::KeepInvariants(llvm::BranchInst* latch) {
  llvm::MDNode* const disable =
      llvm::MDNode::get(context_, llvm::MDString::get(context_, "llvm.licm.disable"));
  llvm::MDNode* const loop = llvm::MDNode::getDistinct(context_, {nullptr, disable});
  loop->replaceOperandWith(0, loop);
  latch->setMetadata(llvm::LLVMContext::MD_loop, loop);
}

Result<void> Emitter::EmitForLoop(const ir::Op& op) {
  const ir::BlockId region = op.regions[0];
  const std::vector<ir::ValueId>& args = fn_.blocks[region].args;
  llvm::Value* lo = SameInAllLanes(op, op.operands[0]);
  llvm::Value* hi = SameInAllLanes(op, op.operands[1]);
  llvm::Type* wide = lo->getType();
  const bool narrow = IsNarrow(op);  // half the registers, one instruction to compare
  if (narrow) {
    lo = b_.CreateTrunc(lo, b_.getInt32Ty());
    hi = b_.CreateTrunc(hi, b_.getInt32Ty());
  }
  auto less = [&](llvm::Value* a, llvm::Value* b) {
    return narrow ? b_.CreateICmpULT(a, b) : b_.CreateICmpSLT(a, b);
  };
  llvm::BasicBlock* before = b_.GetInsertBlock();
  std::vector<Regs> init;
  for (size_t i = 1; i < args.size(); ++i)
    init.push_back(Pack(Get(op.operands[i + 1]), fn_.type(args[i]).dtype));
  before = b_.GetInsertBlock();
  llvm::BasicBlock* body = NewBlock("for");
  llvm::BasicBlock* exit = NewBlock("for.end");
  const bool some = op.i("some", 0) != 0;
  if (some)
    b_.CreateBr(body);
  else
    b_.CreateCondBr(less(lo, hi), body, exit);

  b_.SetInsertPoint(body);
  llvm::PHINode* position = b_.CreatePHI(lo->getType(), 2);
  position->addIncoming(lo, before);
  std::vector<std::vector<llvm::PHINode*>> phis(init.size());
  for (size_t i = 0; i < init.size(); ++i) {
    const bool unread = InitialUnread(op, i);
    for (llvm::Value* v : init[i]) {
      phis[i].push_back(b_.CreatePHI(v->getType(), 2));
      phis[i].back()->addIncoming(unread ? llvm::PoisonValue::get(v->getType()) : v, before);
    }
  }
  Set(args[0], {narrow ? b_.CreateZExt(position, wide) : position});
  for (size_t i = 0; i < init.size(); ++i) {
    const ir::ValueId arg = args[i + 1];
    Set(arg, Unpack(Regs(phis[i].begin(), phis[i].end()), fn_.type(arg).dtype,
                    Get(op.operands[i + 2]).size()));
  }
  const bool outside = describe_anew_;
  describe_anew_ = !HasLoop(region) && ManyDescriptors(region);
  TRY_VOID(EmitBlock(region));
  describe_anew_ = outside;
  const std::vector<ir::ValueId> yields = Yields(region);
  std::vector<Regs> next;
  for (size_t i = 0; i < init.size(); ++i)
    next.push_back(AtEnd(op, i, Pack(Get(yields[i]), fn_.type(yields[i]).dtype)));
  llvm::Value* step = llvm::ConstantInt::getSigned(lo->getType(), op.i("step"));
  llvm::Value* following =
      narrow ? b_.CreateNUWAdd(position, step) : b_.CreateNSWAdd(position, step);
  llvm::BasicBlock* latch = b_.GetInsertBlock();
  position->addIncoming(following, latch);
  for (size_t i = 0; i < init.size(); ++i)
    for (size_t r = 0; r < phis[i].size(); ++r) phis[i][r]->addIncoming(next[i][r], latch);
  llvm::BranchInst* again = b_.CreateCondBr(less(following, hi), body, exit);
  if (HasLoop(region)) KeepInvariants(again);

  b_.SetInsertPoint(exit);
  std::vector<Regs> last(init.size());
  for (size_t i = 0; i < init.size(); ++i)
    for (size_t r = 0; r < init[i].size(); ++r) {
      llvm::PHINode* phi = b_.CreatePHI(init[i][r]->getType(), 2);
      if (!some) phi->addIncoming(init[i][r], before);
      phi->addIncoming(next[i][r], latch);
      last[i].push_back(phi);
    }
  for (size_t i = 0; i < init.size(); ++i)
    Set(op.results[i],
        Unpack(last[i], fn_.type(op.results[i]).dtype, Get(op.operands[i + 2]).size()));
  return Done();
}

Result<void> Emitter::EmitWhile(const ir::Op& op) {
  const std::vector<ir::ValueId>& args = fn_.blocks[op.regions[0]].args;
  const std::vector<ir::ValueId>& body_args = fn_.blocks[op.regions[1]].args;
  std::vector<Regs> init;
  for (size_t i = 0; i < args.size(); ++i)
    init.push_back(Pack(Get(op.operands[i]), fn_.type(args[i]).dtype));
  llvm::BasicBlock* before = b_.GetInsertBlock();
  llvm::BasicBlock* head = NewBlock("while");
  llvm::BasicBlock* body = NewBlock("while.body");
  llvm::BasicBlock* exit = NewBlock("while.end");
  b_.CreateBr(head);
  b_.SetInsertPoint(head);
  std::vector<std::vector<llvm::PHINode*>> phis(init.size());
  for (size_t i = 0; i < init.size(); ++i)
    for (llvm::Value* v : init[i]) {
      phis[i].push_back(b_.CreatePHI(v->getType(), 2));
      phis[i].back()->addIncoming(v, before);
    }
  for (size_t i = 0; i < init.size(); ++i)
    Set(args[i], Unpack(Regs(phis[i].begin(), phis[i].end()), fn_.type(args[i]).dtype,
                        Get(op.operands[i]).size()));
  TRY_VOID(EmitBlock(op.regions[0]));
  const std::vector<ir::ValueId> tested = Yields(op.regions[0]);
  b_.CreateCondBr(SameInAllLanes(op, tested[0]), body, exit);
  for (size_t i = 0; i < body_args.size(); ++i) {
    Set(body_args[i], Get(tested[i + 1]));
    Set(op.results[i], Get(tested[i + 1]));
  }
  b_.SetInsertPoint(body);
  TRY_VOID(EmitBlock(op.regions[1]));
  const std::vector<ir::ValueId> next = Yields(op.regions[1]);
  for (size_t i = 0; i < init.size(); ++i) {
    const Regs packed = Pack(Get(next[i]), fn_.type(next[i]).dtype);
    for (size_t r = 0; r < packed.size(); ++r)
      phis[i][r]->addIncoming(packed[r], b_.GetInsertBlock());
  }
  b_.CreateBr(head);
  b_.SetInsertPoint(exit);
  return Done();
}

Result<void> Emitter::EmitIf(const ir::Op& op) {
  llvm::BasicBlock* arms[2] = {NewBlock("then"), NewBlock("else")};
  llvm::BasicBlock* ends[2] = {nullptr, nullptr};
  llvm::BasicBlock* join = NewBlock("endif");
  std::vector<Regs> results[2];
  b_.CreateCondBr(SameInAllLanes(op, op.operands[0]), arms[0], arms[1]);
  for (size_t arm = 0; arm < 2; ++arm) {
    b_.SetInsertPoint(arms[arm]);
    if (arm < op.regions.size()) {
      TRY_VOID(EmitBlock(op.regions[arm]));
      KeepInArm(op.regions[arm]);
      for (ir::ValueId v : Yields(op.regions[arm]))
        results[arm].push_back(Pack(Get(v), fn_.type(v).dtype));
    }
    // What an arm that does nothing yields would be set in front of the branch, whichever way that
    // goes (the zeros of a product without iterations, for every tile).
    if (op.i("apart", 0) != 0 && b_.GetInsertBlock()->empty()) CallPtx(b_, PtxInst::kHere, {});
    ends[arm] = b_.GetInsertBlock();
    b_.CreateBr(join);
  }
  b_.SetInsertPoint(join);
  std::vector<Regs> merged(op.results.size());
  for (size_t i = 0; i < op.results.size(); ++i)
    for (size_t r = 0; r < results[0][i].size(); ++r) {
      llvm::PHINode* phi = b_.CreatePHI(results[0][i][r]->getType(), 2);
      for (size_t arm = 0; arm < 2; ++arm) phi->addIncoming(results[arm][i][r], ends[arm]);
      merged[i].push_back(phi);
    }
  for (size_t i = 0; i < op.results.size(); ++i) {
    const ir::ValueId v = Yields(op.regions[0])[i];
    Set(op.results[i], Unpack(merged[i], fn_.type(v).dtype, Get(v).size()));
  }
  return Done();
}

}  // namespace tilec::backend
