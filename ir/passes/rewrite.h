// What the clean-up passes share: values replaced by others, blocks rebuilt op by op.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "ir/function.h"

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

// The block that defines v: its op's, its own as an argument, or the body for parameters.
inline BlockId BlockOf(const Function& fn, ValueId v) {
  const Value& value = fn.values[v];
  if (value.block.valid()) return value.block;
  return value.def.valid() ? fn.ops[value.def].block : fn.body;
}

// Loads from tensors nobody writes while the kernel runs give the same whenever they are made.
inline bool IsReadOnlyLoad(const Function& fn, const Op& op) {
  if (op.kind != OpKind::kLoad) return false;
  const Param* p = fn.param(op.operands[0]);
  return p && p->direction == Direction::kIn;
}

// The one value of a constant, or nullptr.
inline const AttrValue* ConstantOf(const Function& fn, ValueId v) {
  const Op* def = fn.def(v);
  return def && def->kind == OpKind::kConstant ? def->attr("value") : nullptr;
}
inline const int64_t* IntConstantOf(const Function& fn, ValueId v) {
  const AttrValue* value = ConstantOf(fn, v);
  return value && !IsFloat(fn.type(v).dtype) ? std::get_if<int64_t>(value) : nullptr;
}

}  // namespace tilec::ir
