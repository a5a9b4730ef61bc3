// Counters in shared memory: what a loop adds up in one row of a tensor, element by element, it
// adds up beside its CTA, and what that came to goes to memory once, behind the loop (`CountsIn` of
// ir/row_run.h says when).
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "backend/access.h"
#include "backend/emitter.h"
#include "ir/arms.h"
#include "ir/counters.h"
#include "ir/row_run.h"

namespace tilec::backend {

std::vector<ir::OpId> Emitter::CountersAround(const ir::Op& loop) {
  std::vector<ir::OpId> found;
  for (const ir::OpId id : ir::OpsInOrder(fn_)) {
    const ir::Op& op = fn_.ops[id];
    if (op.kind != ir::OpKind::kGAtomic || !op.results.empty() || !op.attr("scratch")) continue;
    const ir::OpId around = ir::CountsIn(fn_, id);
    const auto same = [&](ir::OpId other) {
      return fn_.ops[other].i("scratch") == op.i("scratch");
    };
    if (around.valid() && &fn_.ops[around] == &loop &&
        std::none_of(found.begin(), found.end(), same))
      found.push_back(id);  // of a row once
  }
  return found;
}

void Emitter::ZeroCounters(const ir::Op& loop) {
  const std::vector<ir::OpId> all = CountersAround(loop);
  const int64_t threads = int64_t{32} * role_.warps;
  // Others may still read what the bytes held: the counts of the tile before, say.
  if (!all.empty()) RoleBarrier();
  for (const ir::OpId id : all) {
    const ir::Op& op = fn_.ops[id];
    const int64_t counters = ir::CountersOf(fn_, op);
    const int64_t n = (counters + 1) * ir::CounterSets(counters);  // what is not counted, too
    llvm::Value* place = b_.CreateAdd(SmemAddress(op.i("scratch")), b_.CreateShl(role_.thread, 2));
    for (int64_t at = 0; at < n; at += threads)
      StoreGlobal(place, 4 * at, b_.CreateICmpSLT(role_.thread, I32(n - at)), {I32(0)},
                  ir::DType::kI32, PtxInst::kStShared);
  }
  if (!all.empty()) RoleBarrier();
}

void Emitter::EmitCounted(const ir::Op& op) {
  const ir::ValueId tile = op.operands[1];
  const ir::Type& type = fn_.type(tile);
  Access access = MakeAccess(op, tile, 2, true);
  access.always = And(access.always, Part(type.layout).first_replica);
  // Lane l adds to set l; what is not to be counted goes to the counter behind the last, so that no
  // addition is a branch.
  const int64_t counters = ir::CountersOf(fn_, op), sets = ir::CounterSets(counters);
  llvm::Value* set = b_.CreateShl(b_.CreateAnd(role_.thread, I32(sets - 1)), 2);
  access.address =
      b_.CreateZExtOrTrunc(b_.CreateAdd(SmemAddress(op.i("scratch")), set), b_.getInt64Ty());
  access.dims.back().stride = I64(4 * sets);
  llvm::Value* aside = b_.CreateAdd(access.address, I64(4 * sets * counters));
  const Regs values = Get(tile);
  for (size_t r = 0; r < values.size(); ++r) {
    auto [address, offset, predicate] = PlaceOf(access, tile, static_cast<int64_t>(r));
    if (predicate == b_.getFalse()) continue;
    if (predicate && predicate != b_.getTrue())
      address = b_.CreateSelect(predicate, address, aside);
    CallPtx(b_, PtxInst::kRedShared, {{"p", ""}, {"ops", "$2"}, {"a", "$0"}, {"o", "$1"}}, "l,n,r",
            {address, I64(offset), values[r]});
  }
}

Result<void> Emitter::AddCounters(const ir::Op& loop) {
  const std::vector<ir::OpId> all = CountersAround(loop);
  if (all.empty()) return Done();
  RoleBarrier();
  const int64_t threads = int64_t{32} * role_.warps;
  for (const ir::OpId id : all) {
    const ir::Op& op = fn_.ops[id];
    const TensorView& view = tensors_.at(op.operands[0].index);
    const ir::DType d = fn_.type(op.operands[1]).dtype;
    const size_t last = view.extent.size() - 1;
    llvm::Value *address = view.base, *inside = nullptr;
    for (size_t i = 0; i < last; ++i) {
      llvm::Value* at = b_.CreateSExtOrTrunc(Scalar(op.operands[2 + i]), b_.getInt64Ty());
      address = b_.CreateAdd(address, b_.CreateMul(at, b_.CreateMul(view.stride[i], I64(4))));
      inside = And(inside, b_.CreateICmpULT(at, view.extent[i]));
    }
    llvm::Value* stride = b_.CreateMul(view.stride[last], I64(4));
    const int64_t n = ir::CountersOf(fn_, op), sets = ir::CounterSets(n);
    llvm::Value* place =
        b_.CreateAdd(SmemAddress(op.i("scratch")), b_.CreateMul(role_.thread, I32(4 * sets)));
    for (int64_t at = 0; at < n; at += threads) {
      llvm::Value* mine = b_.CreateICmpSLT(role_.thread, I32(n - at));
      llvm::Value* count = I32(0);
      for (int64_t s = 0; s < sets; ++s) {  // each lane begins in another bank
        llvm::Value* set = b_.CreateAnd(b_.CreateAdd(role_.thread, I32(s)), I32(sets - 1));
        llvm::Value* own = b_.CreateAdd(place, b_.CreateShl(set, 2));
        count = b_.CreateAdd(count, LoadGlobal(own, 4 * sets * at, mine, {I32(0)}, ir::DType::kI32,
                                               PtxInst::kLdShared)[0]);
      }
      llvm::Value* some = And(inside, b_.CreateICmpNE(count, I32(0)));
      llvm::Value* number = b_.CreateAdd(role_.thread, I32(at));
      llvm::Value* to =
          b_.CreateAdd(address, b_.CreateMul(b_.CreateZExt(number, b_.getInt64Ty()), stride));
      TRY_VOID(AtomicOne(op, d, count, {to, 0, some}));
    }
  }
  return Done();
}

Result<void> Emitter::EmitFor(const ir::Op& op) {
  ZeroCounters(op);
  TRY_VOID(EmitForLoop(op));
  return AddCounters(op);
}

}  // namespace tilec::backend
