// What the clean-up passes share: values replaced by others, blocks rebuilt op by op.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <map>
#include <utility>
#include <vector>

#include "ir/function.h"
#include "ir/queries.h"

namespace tilec::ir {

// Values that are to be replaced by earlier ones. Operands are resolved as ops are visited, which
// suffices because a replacement stands above everything it replaces.
class Forwarding {
 public:
  explicit Forwarding(const Function& fn) : to_(static_cast<size_t>(fn.values.size())) {}
  void Replace(ValueId v, ValueId by) {
    if (static_cast<size_t>(v.index) >= to_.size()) to_.resize(static_cast<size_t>(v.index) + 1);
    to_[static_cast<size_t>(v.index)] = by;
  }
  ValueId Resolve(ValueId v) const {
    while (static_cast<size_t>(v.index) < to_.size() && to_[static_cast<size_t>(v.index)].valid())
      v = to_[static_cast<size_t>(v.index)];
    return v;
  }
  void ResolveOperands(Op& op) const {
    for (ValueId& v : op.operands) v = Resolve(v);
  }

 private:
  std::vector<ValueId> to_;
};

// Is it zero in all of its elements, by a constant?
inline bool IsZero(const Function& fn, ValueId v) {
  const AttrValue* value = ConstantOf(fn, Without(fn, OpKind::kBroadcast, v).value);
  if (!value) return false;
  const int64_t* i = std::get_if<int64_t>(value);
  const double* d = std::get_if<double>(value);
  return (i && *i == 0) || (d && *d == 0);
}

// A copy of an op without regions, at the end of b's block: it reads replacement(v) for every
// operand v, and its results have the names of the original's.
template <typename F>
OpId CloneOp(Builder& b, Function& fn, OpId id, F&& replacement) {
  const Op op = fn.ops[id];  // a copy: adding moves the ops
  std::vector<ValueId> operands;
  for (ValueId v : op.operands) operands.push_back(replacement(v));
  std::vector<Type> types;
  for (ValueId r : op.results) types.push_back(fn.type(r));
  const Span outer = b.span();
  b.SetSpan(op.at);
  const OpId copy = b.Add(op.kind, std::move(operands), std::move(types), op.attrs);
  b.SetSpan(outer);
  for (size_t i = 0; i < op.results.size(); ++i)
    fn.values[fn.ops[copy].results[i]].name = fn.values[op.results[i]].name;
  return copy;
}

// The same with replacements from a map, to which the results are added.
using ValueMap = std::map<ValueId, ValueId>;
inline ValueId At(const ValueMap& map, ValueId v) {
  const auto it = map.find(v);
  return it == map.end() ? v : it->second;
}
inline OpId CloneOp(Builder& b, Function& fn, OpId id, ValueMap& map) {
  const OpId copy = CloneOp(b, fn, id, [&](ValueId v) { return At(map, v); });
  for (size_t i = 0; i < fn.ops[id].results.size(); ++i)
    map[fn.ops[id].results[i]] = fn.ops[copy].results[i];
  return copy;
}

// Operands of an op, and of all that stands in it, become replacement(v).
template <std::invocable<ValueId> F>
void ReplaceOperands(Function& fn, OpId id, F&& replacement) {
  for (ValueId& v : fn.ops[id].operands) v = replacement(v);
  for (BlockId region : fn.ops[id].regions)
    for (OpId inner : fn.blocks[region].ops) ReplaceOperands(fn, inner, replacement);
}
inline void ReplaceOperands(Function& fn, OpId id, const ValueMap& map) {
  ReplaceOperands(fn, id, [&](ValueId v) { return At(map, v); });
}
inline void ReplaceOperands(Function& fn, OpId id, const Forwarding& forward) {
  ReplaceOperands(fn, id, [&](ValueId v) { return forward.Resolve(v); });
}

// Calls visit(op, out) for each op of the block in order; `out` collects the block's new ops.
template <typename F>
void RebuildBlock(Function& fn, BlockId block, F&& visit) {
  const std::vector<OpId> old = std::move(fn.blocks[block].ops);
  std::vector<OpId> out;
  out.reserve(old.size());
  for (OpId id : old) visit(id, out);
  for (OpId id : out) fn.ops[id].block = block;
  fn.blocks[block].ops = std::move(out);
}

}  // namespace tilec::ir
