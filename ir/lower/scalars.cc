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
    case OpKind::kMul: return std::min(at(0) * at(1), kMaxAlign);
    case OpKind::kSelect: return std::min(at(1), at(2));
    case OpKind::kNeg:
    case OpKind::kCast: return IsInteger(fn.type(op->operands[0]).dtype) ? at(0) : 1;
    case OpKind::kShl: return at(0);
    default: return 1;
  }
}

bool AtLeastZero(const Function& fn, ValueId v, int depth) {
  if (depth > 64) return false;
  if (const Param* p = fn.param(v)) return p->kind == ParamKind::kDim;
  const Value& value = fn.values[v];
  if (value.block.valid()) {
    const Block& block = fn.blocks[value.block];
    if (!block.parent.valid()) return false;
    const Op& parent = fn.ops[block.parent];
    if (parent.kind == OpKind::kFor && block.args[0] == v)
      return AtLeastZero(fn, parent.operands[0], depth + 1);
    if (parent.kind == OpKind::kParallel)
      for (size_t d = 0; d < block.args.size(); ++d)
        if (block.args[d] == v) return AtLeastZero(fn, parent.operands[2 * d], depth + 1);
    return false;
  }
  const Op* op = fn.def(v);
  if (!op || !fn.type(v).is_scalar() || !IsInteger(fn.type(v).dtype)) return false;
  auto at = [&](size_t i) { return AtLeastZero(fn, op->operands[i], depth + 1); };
  switch (op->kind) {
    case OpKind::kConstant: return op->number("value") >= 0;
    case OpKind::kAdd:
    case OpKind::kMul:
    case OpKind::kDiv:
    case OpKind::kMin: return at(0) && at(1);
    case OpKind::kMax: return at(0) || at(1);
    case OpKind::kMod: return at(1);
    case OpKind::kSelect: return at(1) && at(2);
    case OpKind::kCast: {
      const DType from = fn.type(op->operands[0]).dtype, to = fn.type(v).dtype;
      if (!IsInteger(from) || ByteSize(to) < ByteSize(from)) return false;
      return IsSigned(from) ? at(0) : ByteSize(to) > ByteSize(from);
    }
    default: return false;
  }
}

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
bool NonNegative(const Function& fn, ValueId v) { return AtLeastZero(fn, v, 0); }

std::vector<int64_t> Squeezed(const std::vector<int64_t>& shape) {
  std::vector<int64_t> out;
  for (int64_t d : shape)
    if (d != 1) out.push_back(d);
  return out;
}
int SqueezedDim(const std::vector<int64_t>& shape, int64_t d) {
  if (shape[static_cast<size_t>(d)] == 1) return -1;
  int index = 0;
  for (int64_t i = 0; i < d; ++i)
    if (shape[static_cast<size_t>(i)] != 1) ++index;
  return index;
}

}  // namespace tilec::ir
