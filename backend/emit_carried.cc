// What products in flight ask of the registers that loops and branches carry.
//
// A group of products reads and writes registers behind the thread's back until it is waited for.
// LLVM knows nothing of that: a move that it puts between a product and its wait makes ptxas await
// each product at once (C7514), and what it keeps through a loop costs registers that sums need.
// These questions are asked of the warp program (emit_control.cc does): which descriptors are made
// anew, which registers need not be cleared, what is pinned to the end of a turn or to its arm.
//
// SPDX-License-Identifier: Apache-2.0
#include <llvm/IR/Instructions.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "backend/emitter.h"

namespace tilec::backend {

using ir::OpKind;

// LLVM computes descriptors of single buffers in front of the loop and keeps two registers for each
// through all iterations: 70 in a backward pass of attention, which spilled. Of few it is the right
// choice.
bool Emitter::ManyDescriptors(ir::BlockId turn) const {
  constexpr size_t kFew = 16;  // the query tile of attention with 256 columns
  std::set<std::tuple<int32_t, int64_t, int64_t>> described;
  std::vector<ir::BlockId> blocks = {turn};
  for (size_t i = 0; i < blocks.size(); ++i)
    for (ir::OpId id : fn_.blocks[blocks[i]].ops) {
      const ir::Op& op = fn_.ops[id];
      blocks.insert(blocks.end(), op.regions.begin(), op.regions.end());
      if (op.kind != OpKind::kMma) continue;
      const int64_t step = 32 / ir::ByteSize(fn_.type(op.operands[2]).dtype);
      for (size_t operand : {size_t{1}, size_t{2}}) {
        const ir::Type& type = fn_.type(op.operands[operand]);
        if (type.is_tile() || type.depth > 1) continue;
        for (int64_t kk = 0; kk < op.i("k"); kk += step)
          described.emplace(op.operands[operand].index, op.i(operand == 1 ? "trans_a" : "trans_b"),
                            op.i("k_begin") + kk);
      }
    }
  return described.size() > kFew;
}

// Does the first iteration ignore what the loop begins with? A product does that is told so by a
// flag of the loop's that begins as false: the registers need not be cleared (256 of a tile's
// cycles).
bool Emitter::InitialUnread(const ir::Op& loop, size_t carried) const {
  const std::vector<ir::ValueId>& args = fn_.blocks[loop.regions[0]].args;
  if (!fn_.type(args[1 + carried]).is_tile()) return false;
  const auto only_reader = [&](ir::ValueId v, OpKind kind) -> const ir::Op* {
    const ir::Op* reader = nullptr;
    for (const ir::Op& op : fn_.ops)
      for (size_t i = 0; i < op.operands.size(); ++i) {
        if (op.operands[i] != v) continue;
        if (reader || i != 0 || op.kind != kind) return nullptr;
        reader = &op;
      }
    return reader;
  };
  const ir::Op* fence = only_reader(args[1 + carried], OpKind::kMmaFence);
  const ir::Op* product = fence ? only_reader(fence->results[0], OpKind::kMma) : nullptr;
  if (!product || product->operands.size() != 6) return false;
  for (size_t i = 1; i < args.size(); ++i) {
    const ir::Op* first = fn_.def(loop.operands[1 + i]);
    if (args[i] == product->operands[5])
      return first && first->kind == OpKind::kConstant && first->number("value") == 0;
  }
  return false;
}

// Is what the loop carries next made while its registers are still read? They are the
// accumulator's: what was carried, and the sums that products add to it in place.
//   - It is made of something else, as of a state that decays, or of a term that the next turn's
//     product adds to, and a product's sum is read behind that.
//   - It is the sum of a product that adds to something that was made of what the loop carries,
//     which is read behind that once more.
// What is made must not have the accumulator's registers before the end of the turn: LLVM would
// keep the other elsewhere, by moves in front of the wait, which read what a product is still
// writing (ptxas then awaits each product at once, C7514).
bool Emitter::Outlived(const ir::Op& loop, size_t carried) const {
  const ir::Block& turn = fn_.blocks[loop.regions[0]];
  const ir::ValueId arg = turn.args[1 + carried];
  if (!fn_.type(arg).is_tile()) return false;
  const auto tied = [](OpKind kind) {
    return kind == OpKind::kMmaFence || kind == OpKind::kMmaWait;
  };
  // Where it is made, in front of what products add to it.
  ir::ValueId next = fn_.ops[turn.ops.back()].operands[carried];
  const bool summed = fn_.def(next) && fn_.def(next)->kind == OpKind::kMmaWait;
  for (const ir::Op* op = summed ? fn_.def(next) : nullptr; op; op = fn_.def(next)) {
    if (!tied(op->kind) && op->kind != OpKind::kMma) break;
    const auto result = std::find(op->results.begin(), op->results.end(), next);
    next = op->operands[static_cast<size_t>(result - op->results.begin())];
  }
  const ir::OpId made = fn_.values[next].def;
  std::set<int32_t> in_place = {arg.index};  // what has the accumulator's registers
  bool added = false, behind = false;
  for (ir::OpId id : turn.ops) {
    const ir::Op& op = fn_.ops[id];
    if (id == made) {
      if (!summed && !(added && ir::Info(op.kind).elementwise())) return false;
      behind = true;
      continue;
    }
    for (size_t i = 0; i < op.operands.size(); ++i) {
      if (!in_place.count(op.operands[i].index)) continue;
      if (behind) return true;
      if (op.kind == OpKind::kMma && i == 0) {
        in_place.insert(op.results[0].index);
        added = true;
      }
      if (tied(op.kind) && i < op.results.size()) in_place.insert(op.results[i].index);
    }
  }
  return false;
}

// What the loop carries to its next turn, in registers that it gets at the end of this one.
Regs Emitter::AtEnd(const ir::Op& loop, size_t carried, Regs words) {
  if (!Outlived(loop, carried)) return words;
  for (llvm::Value*& w : words)
    w = CallPtx(b_, w->getType()->isFloatTy() ? PtxInst::kPinF : PtxInst::kPin32, {w});
  return words;
}

// Where both arms end with like arithmetic, LLVM does it once, behind them: behind the waits in
// front of which the schedule has it. What it cannot leave out stays. Of rows' values there are
// few, and where they are computed hides nothing.
void Emitter::KeepInArm(ir::BlockId arm) {
  constexpr size_t kMany = 8;  // registers of a thread
  const std::vector<ir::OpId>& ops = fn_.blocks[arm].ops;
  for (ir::ValueId v : Yields(arm)) {
    const auto def = std::find(ops.begin(), ops.end(), fn_.values[v].def);
    const bool awaits = std::any_of(
        def, ops.end(), [&](ir::OpId id) { return fn_.ops[id].kind == OpKind::kMmaWait; });
    if (!awaits || Get(v).size() < kMany) continue;
    for (llvm::Value* part : Get(v)) {
      auto* made = llvm::dyn_cast<llvm::BinaryOperator>(part);
      if (!made || !made->getType()->isFloatTy()) continue;
      llvm::IRBuilderBase::InsertPointGuard guard(b_);
      b_.SetInsertPoint(made->getParent(), std::next(made->getIterator()));
      CallPtx(b_, PtxInst::kMadeF, {made});
    }
  }
}

}  // namespace tilec::backend
