// What passes, planners and lowerings ask of a function: where values and ops stand, and what a
// value comes from. Each question has one answer here; who reads a value is ir/uses.h.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <string_view>

#include "ir/function.h"

namespace tilec::ir {

// ---- where things stand ------------------------------------------------------------------------

// The block that defines v: its op's, its own as an argument, or the body for parameters.
inline BlockId BlockOf(const Function& fn, ValueId v) {
  const Value& value = fn.values[v];
  if (value.block.valid()) return value.block;
  return value.def.valid() ? fn.ops[value.def].block : fn.body;
}

// The op whose region the op stands in; invalid in the body.
inline OpId ParentOf(const Function& fn, OpId id) { return fn.blocks[fn.ops[id].block].parent; }

// The op of `block` that is `id` or contains it; invalid: it stands elsewhere.
inline OpId AncestorIn(const Function& fn, BlockId block, OpId id) {
  while (id.valid() && fn.ops[id].block != block) id = ParentOf(fn, id);
  return id;
}

// Is it `outer`, or does it stand in a region of it?
inline bool IsWithin(const Function& fn, OpId id, OpId outer) {
  while (id.valid() && id != outer) id = ParentOf(fn, id);
  return id.valid();
}

// The innermost loop around an op, invalid: there is none.
inline OpId LoopAround(const Function& fn, OpId id) {
  OpId at = ParentOf(fn, id);
  while (at.valid() && !IsLoop(fn.ops[at].kind)) at = ParentOf(fn, at);
  return at;
}
inline bool InLoop(const Function& fn, OpId id) { return LoopAround(fn, id).valid(); }

// ---- accesses of tensors (ir/ops.def)
// ------------------------------------------------------------

// Has a dim of the tensor with this mode a dim of the tile of its own?
inline bool TakesDim(char mode) { return mode == 'r' || mode == 'g'; }
// Is it a range, with a dim of its own or folded into that of the next range?
inline bool IsRange(char mode) { return mode == 'r' || mode == 'f'; }
// Do the f, if there are any, fold into a range in front of the last dim's, with nothing but single
// positions and other f in between?
inline bool FoldsIntoRows(std::string_view modes) {
  const size_t first = modes.find('f');
  if (first == std::string_view::npos) return true;
  const size_t rows = modes.find_first_not_of("fs", first);
  return rows != std::string_view::npos && modes[rows] == 'r' &&
         modes.find_first_not_of('s', rows + 1) + 1 == modes.size() && modes.back() == 'r';
}
// Of the range of rows at dim d with what is folded into it: the slowest dim that has more than one
// position. Rows are cut along it.
inline size_t SlowestOf(const Op& access, size_t d) {
  const std::string& modes = access.s("modes");
  size_t slowest = d;
  for (size_t i = d; i-- > 0 && (modes[i] == 'f' || modes[i] == 's');)
    if (modes[i] == 'f' && access.ints("sizes")[i] > 1) slowest = i;
  return slowest;
}
// Operands that stand for this dim.
inline size_t OperandsOf(char mode, bool store) { return IsRange(mode) && store ? 2 : 1; }
inline bool IsGathered(char mode) { return mode == 'g' || mode == 'p'; }

// ---- what values come from ---------------------------------------------------------------------

// What v is made of by ops of one kind with one operand, each of the result of the one before:
// without its casts, or its transposes.
struct Stripped {
  ValueId value;
  int ops = 0;  // in between
  bool odd() const { return ops % 2 != 0; }
};
inline Stripped Without(const Function& fn, OpKind kind, ValueId v) {
  Stripped stripped{v};
  for (const Op* def = fn.def(v); def && def->kind == kind; def = fn.def(stripped.value)) {
    stripped.value = def->operands[0];
    ++stripped.ops;
  }
  return stripped;
}

// Loads from tensors nobody writes while the kernel runs give the same whenever they are made.
inline bool IsReadOnlyLoad(const Function& fn, const Op& op) {
  if (op.kind != OpKind::kLoad) return false;
  const Param* p = fn.param(op.operands[0]);
  return p && p->direction == Direction::kIn;
}

// What a largest value is compared with, so that it need not be agreed on where nothing is above it
// (reduce, warp_reduce); no value: it has no guard.
inline ValueId GuardOf(const Op& op) {
  const bool reduces = op.kind == OpKind::kReduce || op.kind == OpKind::kWarpReduce;
  return reduces && op.operands.size() > 1 ? op.operands[1] : ValueId{};
}

// An atomic that gives back what was there: what that is hangs on when it is made.
inline bool Fetches(const Op& op) { return op.kind == OpKind::kAtomic && !op.results.empty(); }
inline bool Fetches(const Function& fn) {
  return std::any_of(fn.ops.begin(), fn.ops.end(), [](const Op& op) { return Fetches(op); });
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
