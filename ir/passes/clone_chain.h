// Loads that passes make once more for another iteration: the load itself, what of the loop's body
// makes its position, and the place where that goes.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <vector>

#include "ir/passes/rewrite.h"

namespace tilec::ir {

// Can the value be had for another position of the loop? Either it is the same, or scalars make it
// of the position. `moves`: it is not the same.
inline bool CanFollow(const Function& fn, ValueId v, BlockId body, bool* moves) {
  if (BlockOf(fn, v) != body) return true;
  if (v == fn.blocks[body].args[0]) return *moves = true;
  const Op* def = fn.def(v);
  if (!def || !def->regions.empty() || !fn.type(v).is_scalar()) return false;
  if (def->kind != OpKind::kConstant && !Info(def->kind).elementwise()) return false;
  return std::all_of(def->operands.begin(), def->operands.end(),
                     [&](ValueId operand) { return CanFollow(fn, operand, body, moves); });
}

// `v` and what of `body` it is made of, for the position in `map`, at the end of b's block.
inline ValueId CloneChain(Builder& b, Function& fn, ValueId v, BlockId body, ValueMap& map) {
  if (const auto known = map.find(v); known != map.end()) return known->second;
  if (BlockOf(fn, v) != body) return v;
  const OpId def = fn.values[v].def;
  const std::vector<ValueId> operands = fn.ops[def].operands;
  for (ValueId operand : operands) CloneChain(b, fn, operand, body, map);
  CloneOp(b, fn, def, map);
  return map.at(v);
}

// Ops that `make` appends to the block, taken off again.
template <typename F>
std::vector<OpId> OpsMadeBy(Function& fn, BlockId block, Span at, F&& make) {
  const auto before = static_cast<std::ptrdiff_t>(fn.blocks[block].ops.size());
  Builder b(fn, block);
  b.SetSpan(at);
  make(b);
  std::vector<OpId>& ops = fn.blocks[block].ops;
  std::vector<OpId> made(ops.begin() + before, ops.end());
  ops.erase(ops.begin() + before, ops.end());
  return made;
}

}  // namespace tilec::ir
