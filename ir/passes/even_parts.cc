// SPDX-License-Identifier: Apache-2.0
#include "ir/passes/even_parts.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "ir/lower/scalars.h"
#include "ir/passes/rewrite.h"
#include "ir/queries.h"

namespace tilec::ir {
namespace {

OpId FirstOf(const Function& fn, BlockId block, OpKind kind) {
  const std::vector<OpId>& ops = fn.blocks[block].ops;
  const auto at =
      std::find_if(ops.begin(), ops.end(), [&](OpId id) { return fn.ops[id].kind == kind; });
  return at == ops.end() ? OpId() : *at;
}

class EvenTurns {
 public:
  explicit EvenTurns(Function& fn) : fn_(fn) {}

  bool Run() {
    const OpId grid = FirstOf(fn_, fn_.body, OpKind::kParallel);
    if (!grid.valid()) return false;
    block_ = fn_.ops[grid].regions[0];
    loop_ = FirstOf(fn_, block_, OpKind::kFor);
    if (!loop_.valid() || !FindLength() || !NothingBehind()) return false;
    Rewrite();
    return true;
  }

 private:
  // The loop goes from `begin` to min(end, begin + length), where `end` is the reduction's.
  bool FindLength() {
    begin_ = fn_.ops[loop_].operands[0];
    const Op* last = fn_.def(fn_.ops[loop_].operands[1]);
    if (last == nullptr || last->kind != OpKind::kMin) return false;
    for (size_t i : {0, 1}) {
      const Op* sum = fn_.def(last->operands[i]);
      if (sum == nullptr || sum->kind != OpKind::kAdd) continue;
      for (size_t j : {0, 1})
        if (sum->operands[j] == begin_)
          length_ = sum->operands[1 - j], end_ = last->operands[1 - i];
    }
    return length_.valid();
  }

  // Are products added up alone, of tiles that are zeros behind the reduction's end?
  bool NothingBehind() const {
    const Op& loop = fn_.ops[loop_];
    const std::optional<Expr> end = ToExpr(fn_, end_);
    const ValueId turn = fn_.blocks[loop.regions[0]].args[0];
    if (!end) return false;
    return std::all_of(fn_.blocks[loop.regions[0]].ops.begin(),
                       fn_.blocks[loop.regions[0]].ops.end(), [&](OpId id) {
                         const Op& op = fn_.ops[id];
                         if (op.kind == OpKind::kLoad) return EndsWith(op, turn, *end);
                         return op.kind == OpKind::kTranspose || op.kind == OpKind::kDot ||
                                op.kind == OpKind::kYield;
                       });
  }
  bool EndsWith(const Op& load, ValueId turn, const Expr& end) const {
    const Param* tensor = fn_.param(load.operands[0]);
    const std::string& modes = load.s("modes");
    if (tensor == nullptr || load.i("has_fill", 0) != 0) return false;
    bool follows = false;
    for (size_t d = 0, operand = 1; d < modes.size(); operand += OperandsOf(modes[d], false), ++d) {
      if (load.operands[operand] != turn) continue;
      if (!IsRange(modes[d]) || Simplify(tensor->dims[d]) != Simplify(end)) return false;
      follows = true;
    }
    return follows;
  }

  void Rewrite() {
    const std::vector<OpId> all = fn_.blocks[block_].ops;
    const auto at = std::find(all.begin(), all.end(), loop_);
    fn_.blocks[block_].ops.assign(all.begin(), at);
    Builder outside(fn_, block_);
    outside.SetSpan(fn_.ops[loop_].at);
    const ValueId none = outside.Int(0);
    fn_.blocks[block_].ops.insert(fn_.blocks[block_].ops.end(), at, all.end());
    fn_.ops[loop_].operands[0] = none;
    fn_.ops[loop_].operands[1] = length_;
    const BlockId inside = fn_.ops[loop_].regions[0];
    const std::vector<OpId> body = fn_.blocks[inside].ops;
    fn_.blocks[inside].ops.clear();
    Builder b(fn_, inside);
    b.SetSpan(fn_.ops[loop_].at);
    const ValueId turn = fn_.blocks[inside].args[0];
    const ValueId place = b.Binary(OpKind::kAdd, begin_, turn);
    for (OpId id : body) {
      for (ValueId& v : fn_.ops[id].operands)
        if (v == turn) v = place;
      fn_.blocks[inside].ops.push_back(id);
    }
  }

  Function& fn_;
  BlockId block_;
  OpId loop_;
  ValueId begin_, end_, length_;
};

}  // namespace

bool EvenParts(Function& parts) { return EvenTurns(parts).Run(); }

}  // namespace tilec::ir
