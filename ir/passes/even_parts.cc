// SPDX-License-Identifier: Apache-2.0
#include "ir/passes/even_parts.h"

#include <algorithm>

#include "ir/passes/rewrite.h"

namespace tilec::ir {
namespace {

// Are its ops products, what they are made of, and loads of places that follow the turn?
bool OnlySums(const Function& fn, const Op& loop) {
  const auto& body = fn.blocks[loop.regions[0]].ops;
  return std::all_of(body.begin(), body.end(), [&](OpId id) {
    const OpKind kind = fn.ops[id].kind;
    return kind == OpKind::kLoad || kind == OpKind::kTranspose || kind == OpKind::kDot ||
           kind == OpKind::kYield;
  });
}

}  // namespace

bool EvenParts(Function& fn) {
  const auto& top = fn.blocks[fn.body].ops;
  const auto grid = std::find_if(top.begin(), top.end(), [&](OpId id) {
    return fn.ops[id].kind == OpKind::kParallel;
  });
  if (grid == top.end()) return false;
  const BlockId block = fn.ops[*grid].regions[0];
  const std::vector<OpId> all = fn.blocks[block].ops;
  const auto at = std::find_if(all.begin(), all.end(),
                               [&](OpId id) { return fn.ops[id].kind == OpKind::kFor; });
  if (at == all.end() || !OnlySums(fn, fn.ops[*at])) return false;
  const OpId loop = *at;
  const ValueId begin = fn.ops[loop].operands[0];
  const Op* end = fn.def(fn.ops[loop].operands[1]);
  if (end == nullptr || end->kind != OpKind::kMin) return false;
  ValueId length;
  for (ValueId v : end->operands)
    if (const Op* sum = fn.def(v); sum != nullptr && sum->kind == OpKind::kAdd)
      for (size_t i : {0, 1})
        if (sum->operands[i] == begin) length = sum->operands[1 - i];
  if (!length.valid()) return false;
  fn.blocks[block].ops.assign(all.begin(), at);
  Builder outside(fn, block);
  outside.SetSpan(fn.ops[loop].at);
  const ValueId none = outside.Int(0);
  fn.blocks[block].ops.insert(fn.blocks[block].ops.end(), at, all.end());
  fn.ops[loop].operands[0] = none;
  fn.ops[loop].operands[1] = length;
  const BlockId inside = fn.ops[loop].regions[0];
  const std::vector<OpId> body = fn.blocks[inside].ops;
  fn.blocks[inside].ops.clear();
  Builder b(fn, inside);
  b.SetSpan(fn.ops[loop].at);
  const ValueId turn = fn.blocks[inside].args[0];
  const ValueId k = b.Binary(OpKind::kAdd, begin, turn);
  for (OpId id : body) {
    for (ValueId& v : fn.ops[id].operands)
      if (v == turn) v = k;
    fn.blocks[inside].ops.push_back(id);
  }
  return true;
}

}  // namespace tilec::ir
