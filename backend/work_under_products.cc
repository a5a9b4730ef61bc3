// Work that stays in front of a wait.
//
// Where warpgroups multiply in turns, a schedule has one compute (the exponentials of attention)
// while a product of its own is in flight, and awaits that product behind. ptxas sees that nothing
// of the work reads what is awaited, issues the wait first and works behind it: the product runs
// with nobody computing. It moves work over a branch only if nothing on the other side reads it.
// So in front of such a wait stands a branch that is never taken, to a place that stores what was
// made; it costs one instruction.
//
// Held is what the iteration makes between issuing its products, or the wait before, and this wait,
// and reads behind it. Not what it hands to the next iteration: that stays in registers beside the
// next products' sums, where ptxas finds the room that it finds by moving the work.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>

#include "backend/emitter.h"

namespace tilec::backend {

using ir::OpKind;

Regs Emitter::MadeUnder(const ir::Op& wait) {
  constexpr size_t kMany = 32;  // registers of a thread: less is no work to speak of
  const std::vector<ir::OpId>& ops = fn_.blocks[wait.block].ops;
  const auto at =
      std::find_if(ops.begin(), ops.end(), [&](ir::OpId id) { return &fn_.ops[id] == &wait; });
  const auto turn = std::find_if(ops.begin(), at, [&](ir::OpId id) {
    return fn_.ops[id].kind == OpKind::kTurn && fn_.ops[id].s("at") == "end";
  });
  if (turn == at) return {};
  std::set<int32_t> behind, handed;  // values that are read behind the wait, in the next iteration
  for (auto it = at + 1; it != ops.end(); ++it)
    for (ir::ValueId v : fn_.ops[*it].operands)
      (it + 1 == ops.end() ? handed : behind).insert(v.index);
  Regs made;
  for (auto it = at; it != turn;) {
    const ir::Op& op = fn_.ops[*--it];
    if (op.kind == OpKind::kMmaWait) break;
    if (!ir::Info(op.kind).elementwise()) continue;
    const ir::ValueId v = op.results[0];
    const bool held = behind.count(v.index) > 0 && handed.count(v.index) == 0;
    if (!held || !fn_.type(v).is_tile() || fn_.type(v).dtype != ir::DType::kF32) continue;
    if (const Regs& regs = Get(v); regs.size() >= kMany)
      made.insert(made.end(), regs.begin(), regs.end());
  }
  return made;
}

// ptxas moves arithmetic over barriers as it likes, but over a branch only what is not read where
// that goes. Each asks for a number of its own: asked again for the same one, ptxas knows the
// answer.
void Emitter::EmitCodeFence(const Regs& made) {
  constexpr int64_t kWord = 4;
  llvm::BasicBlock* never = NewBlock("never");
  llvm::BasicBlock* next = NewBlock("next");
  b_.CreateCondBr(CallPtx(b_, PtxInst::kIsCta, {I32(-1 - code_fences_++)}), never, next);
  b_.SetInsertPoint(never);
  for (size_t i = 0; i < made.size(); ++i)
    b_.CreateAlignedStore(made[i],
                          SharedPointer(SmemAddress(0), static_cast<int64_t>(i) * kWord),
                          llvm::Align(kWord), /*isVolatile=*/true);
  CallPtx(b_, PtxInst::kTrap, {});
  b_.CreateUnreachable();
  b_.SetInsertPoint(next);
}

}  // namespace tilec::backend
