// SPDX-License-Identifier: Apache-2.0
#include "backend/cache_hints.h"

#include <algorithm>

#include "ir/arms.h"
#include "ir/queries.h"

namespace tilec::backend {

using ir::Op;
using ir::OpId;
using ir::OpKind;

namespace {
// The innermost loop around it; invalid: none.
OpId LoopOf(const ir::Function& fn, const Op& op) {
  for (ir::BlockId block = op.block; block.valid();) {
    const OpId parent = fn.blocks[block].parent;
    if (!parent.valid() || ir::IsLoop(fn.ops[parent].kind)) return parent;
    block = fn.ops[parent].block;
  }
  return {};
}
// Rows of a tensor that the kernel only reads, one at a time.
bool ReadsRows(const ir::Function& fn, const Op& op) {
  const ir::Param* p = op.kind == OpKind::kGLoad ? fn.param(op.operands[0]) : nullptr;
  return p && p->direction == ir::Direction::kIn && p->dims.size() > 1 &&
         fn.type(op.results[0]).is_tile();
}
}  // namespace

bool PassesBy(const ir::Function& fn, const Op& access) {
  const OpId loop = LoopOf(fn, access);
  const bool store = access.kind == OpKind::kGStore;
  if (!loop.valid() || (!store && !ReadsRows(fn, access))) return false;
  bool stores = store, again = false;
  for (OpId id : ir::OpsInside(fn, loop)) {
    const Op& op = fn.ops[id];
    stores = stores || op.kind == OpKind::kGStore;
    if (op.kind == OpKind::kMma || op.kind == OpKind::kTcMma) return false;
    if (!ReadsRows(fn, op)) continue;
    // Did a loop in front of this one read the same rows?
    for (OpId other : fn.blocks[fn.ops[loop].block].ops) {
      if (other == loop) break;
      if (!ir::IsLoop(fn.ops[other].kind)) continue;
      const std::vector<OpId> inside = ir::OpsInside(fn, other);
      again = again || std::any_of(inside.begin(), inside.end(), [&](OpId first) {
        return fn.ops[first].kind == OpKind::kGLoad &&
               fn.ops[first].operands[0] == op.operands[0];
      });
    }
  }
  return stores && again;
}

}  // namespace tilec::backend
