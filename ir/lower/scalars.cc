// SPDX-License-Identifier: Apache-2.0
#include "ir/lower/scalars.h"

#include <algorithm>
#include <numeric>

namespace tilec::ir {
namespace {

constexpr int64_t kMaxAlign = int64_t{1} << 20;

int64_t PowerIn(int64_t v) { return v == 0 ? kMaxAlign : std::min(v & -v, kMaxAlign); }

std::optional<Expr::Op> ExprOp(const Op& op) {
  switch (op.kind) {
    case OpKind::kAdd: return Expr::Op::kAdd;
    case OpKind::kSub: return Expr::Op::kSub;
    case OpKind::kMul: return Expr::Op::kMul;
    case OpKind::kDiv: return Expr::Op::kDiv;
    case OpKind::kMod: return Expr::Op::kMod;
    case OpKind::kMin: return Expr::Op::kMin;
    case OpKind::kMax: return Expr::Op::kMax;
    default: return std::nullopt;
  }
}

int64_t Align(const Function& fn, ValueId v, int depth) {
  if (depth > 64) return 1;
  if (const Param* p = fn.param(v)) {
    int64_t align = 1;
    if (p->kind == ParamKind::kDim)
      for (const Param& t : fn.params)
        if (t.kind == ParamKind::kTensor && !t.dims.empty() && t.dims.back() == Expr::Name(p->name))
          align = std::max(align, PowerIn(t.facts.last_dim_align));
    return align;
  }
  const Value& value = fn.values[v];
  if (value.block.valid()) {
    const Block& block = fn.blocks[value.block];
    if (!block.parent.valid()) return 1;
    const Op& parent = fn.ops[block.parent];
    if (parent.kind == OpKind::kFor && block.args[0] == v)
      return std::min(Align(fn, parent.operands[0], depth + 1), PowerIn(parent.i("step")));
    if (parent.kind == OpKind::kParallel)
      for (size_t d = 0; d < block.args.size(); ++d)
        if (block.args[d] == v)
          return std::min(Align(fn, parent.operands[2 * d], depth + 1),
                          PowerIn(parent.ints("steps")[d]));
    return 1;
  }
  const Op* op = fn.def(v);
  if (!op || !fn.type(v).is_scalar() || !IsInteger(fn.type(v).dtype)) return 1;
  auto at = [&](size_t i) { return Align(fn, op->operands[i], depth + 1); };
  switch (op->kind) {
    case OpKind::kConstant: return PowerIn(static_cast<int64_t>(op->number("value")));
    case OpKind::kAdd:
    case OpKind::kSub:
    case OpKind::kMin:
    case OpKind::kMax: return std::min(at(0), at(1));
    case OpKind::kDiv: {  // of a multiple: what is left of it
      const Op* by = fn.def(op->operands[1]);
      const auto c = by && by->kind == OpKind::kConstant ? static_cast<int64_t>(by->number("value"))
                                                         : int64_t{0};
      return c > 0 && at(0) % c == 0 ? at(0) / c : 1;
    }
    case OpKind::kMul: return std::min(at(0) * at(1), kMaxAlign);
    case OpKind::kSelect: return std::min(at(1), at(2));
    case OpKind::kNeg:
    case OpKind::kCast: return IsInteger(fn.type(op->operands[0]).dtype) ? at(0) : 1;
    case OpKind::kShl: return at(0);
    default: return 1;
  }
}

// What an integer is at least, for all inputs, as far as constants, the starts of loops and the
// branches around say so. Of a pipelined loop the position of an earlier iteration, `i − step`, is
// no less than where the loop began; that of its last one, behind the loop, follows from the branch
// that saw enough iterations.
class LowerBound {
 public:
  // `scope`: the branches around it were taken.
  LowerBound(const Function& fn, BlockId scope) : fn_(fn), scope_(scope) {}

  bool AtLeast(ValueId v, int64_t least) {
    if (--steps_left_ < 0) return false;
    if (const Param* p = fn_.param(v); p && p->kind == ParamKind::kDim && least <= 0) return true;
    if (Follows(v, least)) return true;
    if (fn_.param(v)) return false;
    const Value& value = fn_.values[v];
    if (value.block.valid()) return ArgAtLeast(value.block, v, least);
    const Op* op = fn_.def(v);
    return op && fn_.type(v).is_scalar() && IsInteger(fn_.type(v).dtype) && OpAtLeast(*op, least);
  }

 private:
  static constexpr int kMostSteps = 512;

  std::optional<int64_t> Constant(ValueId v) const {
    const Op* op = fn_.def(v);
    if (!op || op->kind != OpKind::kConstant || !fn_.type(v).is_scalar()) return std::nullopt;
    return static_cast<int64_t>(op->number("value"));
  }

  bool ArgAtLeast(BlockId id, ValueId v, int64_t least) {
    const Block& block = fn_.blocks[id];
    if (!block.parent.valid()) return false;
    const Op& parent = fn_.ops[block.parent];
    if (parent.kind == OpKind::kFor)
      return block.args[0] == v && AtLeast(parent.operands[0], least);
    if (parent.kind != OpKind::kParallel) return false;
    for (size_t d = 0; d < block.args.size(); ++d)
      if (block.args[d] == v) return AtLeast(parent.operands[2 * d], least);
    return false;
  }

  // A number that is compared in a branch around: a < b says that b is at least a + 1, and so what
  // `of` makes of both.
  template <class F>
  bool SomeBranch(F&& of) {
    for (BlockId at = scope_; at.valid() && fn_.blocks[at].parent.valid();) {
      const Op& parent = fn_.ops[fn_.blocks[at].parent];
      if (parent.kind == OpKind::kIf && parent.regions[0] == at && SomeLess(parent.operands[0], of))
        return true;
      at = parent.block;
    }
    return false;
  }
  // Of a condition, or of the terms of one that holds only where all of them do.
  template <class F>
  bool SomeLess(ValueId condition, F& of) {
    const Op* op = fn_.def(condition);
    if (op && op->kind == OpKind::kAnd)
      return SomeLess(op->operands[0], of) || SomeLess(op->operands[1], of);
    return op && op->kind == OpKind::kCmp && op->s("pred") == "lt" &&
           fn_.type(op->operands[0]).is_scalar() && of(op->operands[0], op->operands[1]);
  }
  bool Follows(ValueId v, int64_t least) {
    return SomeBranch(
        [&](ValueId low, ValueId high) { return high == v && AtLeast(low, least - 1); });
  }
  // high − low, where low + n < high.
  bool Apart(ValueId high, ValueId low, int64_t least) {
    return SomeBranch([&](ValueId below, ValueId above) {
      if (above != high) return false;
      if (below == low) return least <= 1;
      const Op* sum = fn_.def(below);
      if (!sum || sum->kind != OpKind::kAdd || sum->operands[0] != low) return false;
      const std::optional<int64_t> n = Constant(sum->operands[1]);
      return n && least <= *n + 1;
    });
  }

  // The last position of the loop whose position v is.
  std::optional<int64_t> LastTurn(ValueId v) {
    const BlockId body = fn_.values[v].block;
    if (!body.valid() || !fn_.blocks[body].parent.valid()) return std::nullopt;
    const Op& loop = fn_.ops[fn_.blocks[body].parent];
    if (loop.kind != OpKind::kFor || fn_.blocks[body].args[0] != v) return std::nullopt;
    const auto low = Constant(loop.operands[0]), high = Constant(loop.operands[1]);
    const int64_t step = loop.i("step");
    if (!low || !high || *low < 0 || *high <= *low || step < 1) return std::nullopt;
    return *low + (*high - 1 - *low) / step * step;
  }

  bool OpAtLeast(const Op& op, int64_t least) {
    const auto at = [&](size_t i, int64_t bound) { return AtLeast(op.operands[i], bound); };
    const auto positive = [&](size_t i) {  // a constant
      const std::optional<int64_t> c = Constant(op.operands[i]);
      return c && *c > 0 ? *c : 0;
    };
    switch (op.kind) {
      case OpKind::kConstant: return op.number("value") >= static_cast<double>(least);
      case OpKind::kAdd:
        for (size_t i : {0U, 1U})
          if (const std::optional<int64_t> c = Constant(op.operands[i]))
            return at(1 - i, least - *c);
        return (at(0, least) && at(1, 0)) || (least > 0 && at(0, 0) && at(1, least));
      case OpKind::kSub:
        if (const std::optional<int64_t> c = Constant(op.operands[1])) return at(0, least + *c);
        if (const std::optional<int64_t> c = Constant(op.operands[0]))
          if (const std::optional<int64_t> last = LastTurn(op.operands[1]))
            return *c - *last >= least;
        return Apart(op.operands[0], op.operands[1], least);
      case OpKind::kMul:
        if (least <= 0) return at(0, 0) && at(1, 0);
        for (size_t i : {0U, 1U})
          if (const int64_t c = positive(i)) return at(1 - i, CeilDiv(least, c));
        return false;
      case OpKind::kDiv:
        if (const int64_t c = positive(1); c && least > 0) return at(0, least * c);
        return least <= 0 && at(0, 0) && at(1, 0);
      case OpKind::kMin: return at(0, least) && at(1, least);
      case OpKind::kMax: return at(0, least) || at(1, least);
      case OpKind::kMod: return least <= 0 && at(1, 0);
      case OpKind::kSelect: return at(1, least) && at(2, least);
      case OpKind::kCast: {
        const DType from = fn_.type(op.operands[0]).dtype, to = fn_.type(op.results[0]).dtype;
        if (!IsInteger(from) || ByteSize(to) < ByteSize(from)) return false;
        if (IsSigned(from)) return at(0, least);
        return ByteSize(to) > ByteSize(from) && (least <= 0 || at(0, least));
      }
      default: return false;
    }
  }

  const Function& fn_;
  const BlockId scope_;
  int steps_left_ = kMostSteps;
};

std::optional<Expr> AsExpr(const Function& fn, ValueId v, int depth) {
  if (depth > 64 || !fn.type(v).is_scalar()) return std::nullopt;
  if (const Param* p = fn.param(v)) {
    if (p->kind == ParamKind::kTensor || !IsInteger(fn.type(v).dtype)) return std::nullopt;
    return Expr::Name(p->name);
  }
  const Op* op = fn.def(v);
  if (!op || !IsInteger(fn.type(v).dtype)) return std::nullopt;
  if (op->kind == OpKind::kConstant) return Expr::Const(static_cast<int64_t>(op->number("value")));
  if (op->kind == OpKind::kCast) return AsExpr(fn, op->operands[0], depth + 1);
  const std::optional<Expr::Op> kind = ExprOp(*op);
  if (!kind) return std::nullopt;
  std::optional<Expr> a = AsExpr(fn, op->operands[0], depth + 1);
  std::optional<Expr> b = AsExpr(fn, op->operands[1], depth + 1);
  if (!a || !b) return std::nullopt;
  return Simplify(Expr::Make(*kind, std::move(*a), std::move(*b)));
}

}  // namespace

std::optional<Expr> ToExpr(const Function& fn, ValueId v) { return AsExpr(fn, v, 0); }
int64_t AlignOf(const Function& fn, ValueId v) { return Align(fn, v, 0); }
bool NonNegative(const Function& fn, ValueId v) {
  const Value& value = fn.values[v];
  const BlockId scope = value.block.valid() ? value.block
                        : value.def.valid() ? fn.ops[value.def].block
                                            : BlockId();
  return NonNegativeIn(fn, scope, v);
}
bool NonNegativeIn(const Function& fn, BlockId block, ValueId v) {
  return LowerBound(fn, block).AtLeast(v, 0);
}

std::vector<int64_t> Squeezed(const std::vector<int64_t>& shape) {
  std::vector<int64_t> out;
  for (int64_t d : shape)
    if (d != 1) out.push_back(d);
  return out;
}
size_t SqueezedRank(const std::vector<int64_t>& shape) {
  return static_cast<size_t>(
      std::count_if(shape.begin(), shape.end(), [](int64_t d) { return d != 1; }));
}
int SqueezedDim(const std::vector<int64_t>& shape, int64_t d) {
  if (shape[static_cast<size_t>(d)] == 1) return -1;
  int index = 0;
  for (int64_t i = 0; i < d; ++i)
    if (shape[static_cast<size_t>(i)] != 1) ++index;
  return index;
}

}  // namespace tilec::ir
