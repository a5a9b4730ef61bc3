// Scalars that steer a branch or a loop and come from memory or from a reduction. All threads of a
// role have the same one, but ptxas cannot know: it takes what is read with `ld` for different in
// every lane, every branch on it for one that may split a warp, and whatever is computed behind it,
// ring slots and descriptors of products among them, for vectors. Descriptors then pass through an
// R2UR each. A shuffle from lane 0 says that it is one number (as Warp() does for warps).
//
// SPDX-License-Identifier: Apache-2.0
#include <llvm/IR/Constants.h>

#include <set>
#include <vector>

#include "backend/emitter.h"
#include "support/check.h"

namespace tilec::backend {

using ir::OpKind;

namespace {
// Does a scalar, or what decides about it, come from memory or from elements of a tile?
class DataBehind {
 public:
  explicit DataBehind(const ir::Function& fn) : fn_(fn) {}

  bool operator()(ir::ValueId v) {
    if (!fn_.type(v).is_scalar() || !seen_.insert(v).second) return false;
    if (const ir::Op* def = fn_.def(v)) return OfOp(*def);
    const ir::BlockId block = fn_.values[v].block;
    if (!block.valid() || !fn_.blocks[block].parent.valid()) return false;  // a parameter
    return OfOp(fn_.ops[fn_.blocks[block].parent]);
  }

 private:
  bool OfOp(const ir::Op& op) {
    if (op.kind == OpKind::kCounterRead || op.kind == OpKind::kRole) return false;
    if (ir::Info(op.kind).effect == ir::OpEffect::kRead) return true;
    for (ir::ValueId v : op.operands) {
      // Tiles that a loop carries beside a scalar say nothing of it.
      if (op.regions.empty() && fn_.type(v).is_tile() && !fn_.type(v).is_scalar()) return true;
      if ((*this)(v)) return true;
    }
    for (ir::BlockId region : op.regions)
      for (ir::ValueId v : Yields(region))
        if ((*this)(v)) return true;
    return false;
  }
  std::vector<ir::ValueId> Yields(ir::BlockId region) const {
    if (fn_.blocks[region].ops.empty()) return {};
    const ir::Op& last = fn_.ops[fn_.blocks[region].ops.back()];
    return last.kind == OpKind::kYield ? std::vector(last.operands.begin(), last.operands.end())
                                       : std::vector<ir::ValueId>();
  }

  const ir::Function& fn_;
  std::set<ir::ValueId> seen_;
};

// One lane executes it alone.
bool ByOneLane(const ir::Function& fn, ir::BlockId block) {
  for (; block.valid() && fn.blocks[block].parent.valid();
       block = fn.ops[fn.blocks[block].parent].block)
    if (fn.ops[fn.blocks[block].parent].kind == OpKind::kElect) return true;
  return false;
}
}  // namespace

llvm::Value* Emitter::SameInAllLanes(const ir::Op& steered, ir::ValueId scalar) {
  llvm::Value* value = Scalar(scalar);
  if (ByOneLane(fn_, steered.block) || !DataBehind(fn_)(scalar)) return value;
  const auto from_first = [&](llvm::Value* word) {
    return CallPtx(b_, PtxInst::kShflIdx, {word, I32(0)});
  };
  llvm::Type* type = value->getType();
  if (type->isIntegerTy(64)) {
    llvm::Value* low = from_first(b_.CreateTrunc(value, b_.getInt32Ty()));
    llvm::Value* high = from_first(b_.CreateTrunc(b_.CreateLShr(value, 32), b_.getInt32Ty()));
    return b_.CreateOr(b_.CreateZExt(low, type), b_.CreateShl(b_.CreateZExt(high, type), 32));
  }
  CHECK(type->isIntegerTy() && type->getIntegerBitWidth() <= 32);
  return b_.CreateTrunc(from_first(b_.CreateZExt(value, b_.getInt32Ty())), type);
}

}  // namespace tilec::backend
