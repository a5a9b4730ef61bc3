// Transposes: two in a row become one, one that moves only dims of extent 1 becomes a reshape, one
// that moves nothing disappears. A transpose that feeds a product stays: the lowering reads it as
// the operand's orientation.
//
// SPDX-License-Identifier: Apache-2.0
#include "ir/passes/passes.h"
#include "ir/passes/rewrite.h"

namespace tilec::ir {
namespace {

bool IsIdentity(const std::vector<int64_t>& perm) {
  for (size_t i = 0; i < perm.size(); ++i)
    if (perm[i] != static_cast<int64_t>(i)) return false;
  return true;
}

// Dims of extent above 1 keep their order.
bool MovesOnlyOnes(const std::vector<int64_t>& perm, const std::vector<int64_t>& shape) {
  int64_t last = -1;
  for (int64_t p : perm) {
    if (shape[static_cast<size_t>(p)] == 1) continue;
    if (p < last) return false;
    last = p;
  }
  return true;
}

struct Folder {
  Function& fn;
  PassContext& cx;
  Forwarding forward;

  // True if the op is gone.
  bool Fold(Op& op) {
    if (op.kind != OpKind::kTranspose) return false;
    if (const Op* inner = fn.def(op.operands[0]); inner && inner->kind == OpKind::kTranspose) {
      std::vector<int64_t> perm;
      for (int64_t p : op.ints("perm")) perm.push_back(inner->ints("perm")[static_cast<size_t>(p)]);
      op.operands[0] = inner->operands[0];
      op.set("perm", std::move(perm));
      ++cx.changes;
    }
    if (IsIdentity(op.ints("perm"))) {
      forward.Replace(op.results[0], op.operands[0]);
      ++cx.changes;
      return true;
    }
    if (MovesOnlyOnes(op.ints("perm"), fn.type(op.operands[0]).shape)) {
      op.kind = OpKind::kReshape;
      op.attrs.clear();
      ++cx.changes;
    }
    return false;
  }

  void Run(BlockId block) {
    RebuildBlock(fn, block, [&](OpId id, std::vector<OpId>& out) {
      forward.ResolveOperands(fn.ops[id]);
      if (Fold(fn.ops[id])) return;
      out.push_back(id);
      const std::vector<BlockId> regions = fn.ops[id].regions;
      for (BlockId region : regions) Run(region);
    });
  }
};

}  // namespace

Result<> FoldTranspose(Function& fn, PassContext& cx) {
  Folder{fn, cx, Forwarding(fn)}.Run(fn.body);
  return Done();
}

}  // namespace tilec::ir
