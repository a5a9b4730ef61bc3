// Loop-invariant ops leave their loop, innermost loops first, so that a value may leave several.
// Only what is cheap to keep: scalars, small tiles, and loads of read-only tensors, which a loop
// would otherwise fetch every turn. Nothing hoisted can fault: loads are clipped to the tensor, and
// integer division by zero does not stop an executor.
//
// SPDX-License-Identifier: Apache-2.0
#include "ir/passes/passes.h"
#include "ir/passes/rewrite.h"

namespace tilec::ir {
namespace {

struct Hoister {
  Function& fn;
  PassContext& cx;

  bool Cheap(const Op& op) const {
    const int64_t elements = fn.type(op.results[0]).elements();
    return elements <= (op.kind == OpKind::kLoad ? cx.target.lowering.hoist_loaded_elements
                                                 : cx.target.lowering.hoist_elements);
  }

  bool Invariant(const Op& op, BlockId body) const {
    if (op.results.size() != 1 || !op.regions.empty()) return false;
    if (Info(op.kind).effect != OpEffect::kPure && !IsReadOnlyLoad(fn, op)) return false;
    for (ValueId v : op.operands)
      if (BlockOf(fn, v) == body) return false;
    return Cheap(op);
  }

  void Run(BlockId block) {
    RebuildBlock(fn, block, [&](OpId id, std::vector<OpId>& out) {
      const std::vector<BlockId> regions = fn.ops[id].regions;
      for (BlockId region : regions) Run(region);
      if (fn.ops[id].kind == OpKind::kFor) {
        const BlockId body = regions[0];
        RebuildBlock(fn, body, [&](OpId inner, std::vector<OpId>& stays) {
          if (!Invariant(fn.ops[inner], body)) {
            stays.push_back(inner);
            return;
          }
          fn.ops[inner].block = block;  // what depends on it may follow
          out.push_back(inner);
          ++cx.changes;
        });
      }
      out.push_back(id);
    });
  }
};

}  // namespace

Result<> HoistInvariant(Function& fn, PassContext& cx) {
  Hoister{fn, cx}.Run(fn.body);
  return Done();
}

}  // namespace tilec::ir
