// Transposes: two in a row become one, one that moves only dims of extent 1 becomes a reshape, one
// that moves nothing disappears. A transpose that feeds a product stays: the lowering reads it as
// the operand's orientation. One that is narrowed and stored (`acc.T as bf16`) moves behind the
// cast, where the lowering reads it as the orientation of what is stored.
//
// SPDX-License-Identifier: Apache-2.0
#include "ir/passes/passes.h"
#include "ir/passes/rewrite.h"
#include "ir/uses.h"

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

  // The cast and the transpose that it reads, each of which only the next reads, change places.
  void Narrow(Op& cast, const Uses& uses) {
    if (cast.kind != OpKind::kCast) return;
    const ValueId from = cast.operands[0];
    Op* turn = fn.values[from].def.valid() ? &fn.ops[fn.values[from].def] : nullptr;
    if (!turn || turn->kind != OpKind::kTranspose || uses.of(from).size() != 1) return;
    const std::span<const Uses::Use> readers = uses.of(cast.results[0]);
    const DType wide = fn.type(from).dtype, narrow = fn.type(cast.results[0]).dtype;
    const Op* made = fn.def(turn->operands[0]);
    if (ByteSize(narrow) >= ByteSize(wide) || readers.empty() ||
        (made && made->kind == OpKind::kLoad) ||  // it would rather be laid out for the store
        !std::all_of(readers.begin(), readers.end(), [&](const Uses::Use& use) {
          return fn.ops[use.reader].kind == OpKind::kStore;
        }))
      return;
    std::swap(turn->kind, cast.kind);
    std::swap(turn->attrs, cast.attrs);
    std::swap(turn->at, cast.at);
    fn.values[from].type = fn.type(turn->operands[0]);
    fn.values[from].type.dtype = narrow;
    ++cx.changes;
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
  Folder folder{fn, cx, Forwarding(fn)};
  folder.Run(fn.body);
  const Uses uses(fn);
  for (OpId id : OpsInOrder(fn)) folder.Narrow(fn.ops[id], uses);
  return Done();
}

}  // namespace tilec::ir
