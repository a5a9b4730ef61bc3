// Canonicalize: constants folded, identities dropped, constants on the right of commutative ops,
// control flow with a known outcome replaced by the part that runs.
//
// Folding asks the interpreter, on one element, and keeps its answer only if it is exact: what an
// executor may compute differently is left to the executor. Rules for floats hold for NaN,
// infinities and both zeros.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <optional>

#include "ir/interpret_internal.h"
#include "ir/passes/convert_branches.h"
#include "ir/passes/passes.h"
#include "ir/passes/rewrite.h"

namespace tilec::ir {
namespace {

using interpret_internal::EvalElementwise;
using interpret_internal::Tile;

// Every value of `from` is one of `to`, so a cast there and on equals the cast straight on, but for
// integers that become floats and integers again: floats saturate where integers wrap.
bool Lossless(DType from, DType to) {
  if (from == to || from == DType::kBool) return true;
  if (IsInteger(from)) {
    if (to == DType::kBool) return false;
    if (IsInteger(to))
      return IsSigned(from) == IsSigned(to) ? Info(to).bits >= Info(from).bits
                                            : !IsSigned(from) && Info(to).bits > Info(from).bits;
    if (to == DType::kF64) return Info(from).bits <= 32;
    return (to == DType::kF32 || to == DType::kTF32) && Info(from).bits <= 16;
  }
  if (!IsFloat(to)) return false;
  if (to == DType::kF64) return true;
  if (to == DType::kF32 || to == DType::kTF32) return from != DType::kF64;
  return to == DType::kF16 && Info(from).bits == 8;
}

bool IsCommutative(const Op& op) {
  switch (op.kind) {
    case OpKind::kAdd:
    case OpKind::kMul:
    case OpKind::kMin:
    case OpKind::kMax:
    case OpKind::kAnd:
    case OpKind::kOr:
    case OpKind::kXor: return true;
    default: break;
  }
  return op.kind == OpKind::kCmp && (op.s("pred") == "eq" || op.s("pred") == "ne");
}

struct Canonicalizer {
  Function& fn;
  PassContext& cx;
  Forwarding forward;

  const Type& T(ValueId v) const { return fn.type(v); }
  std::optional<int64_t> Int(ValueId v) const {
    const int64_t* n = IntConstantOf(fn, v);
    return n ? std::optional(*n) : std::nullopt;
  }
  // The constant as a double if v is a constant float tile.
  std::optional<double> Float(ValueId v) const {
    if (!ConstantOf(fn, v) || !IsFloat(T(v).dtype)) return std::nullopt;
    return Round(T(v).dtype, fn.def(v)->number("value"));
  }
  bool IsFloatConstant(ValueId v, double x) const {
    const std::optional<double> c = Float(v);
    return c && *c == x && std::signbit(*c) == std::signbit(x);
  }

  void BecomeConstant(Op& op, AttrValue value) {
    op.kind = OpKind::kConstant;
    op.operands.clear();
    op.attrs = {{"value", std::move(value)}};
    ++cx.changes;
  }

  bool FoldConstant(Op& op) {
    if (op.operands.empty()) return false;
    for (ValueId v : op.operands)
      if (!ConstantOf(fn, v)) return false;
    const Type& out_type = T(op.results[0]);
    switch (op.kind) {
      case OpKind::kBroadcast:
      case OpKind::kReshape:
      case OpKind::kTranspose:
      case OpKind::kWarpBroadcast:
      case OpKind::kWarpReshape:
      case OpKind::kWarpTranspose: {
        AttrValue value = *ConstantOf(fn, op.operands[0]);
        BecomeConstant(op, std::move(value));
        return true;
      }
      default: break;
    }
    if (!Info(op.kind).elementwise()) return false;
    std::vector<Tile> in(op.operands.size());
    std::vector<const Tile*> pointers;
    for (size_t i = 0; i < in.size(); ++i) {
      in[i].Reset(Type::Scalar(T(op.operands[i]).dtype));
      interpret_internal::EvalConstant(*fn.def(op.operands[i]), in[i]);
      pointers.push_back(&in[i]);
    }
    Tile out;
    out.Reset(Type::Scalar(out_type.dtype));
    EvalElementwise(op, pointers, out);
    if (!out.e.empty() || !out.und.empty()) return false;
    BecomeConstant(op, out.is_float() ? AttrValue(out.v[0]) : AttrValue(out.n[0]));
    return true;
  }

  // The value op's only result always equals, or an invalid id.
  ValueId SameAs(const Op& op) const {
    const auto a = [&](size_t i = 0) { return op.operands[i]; };
    const bool flt = !op.operands.empty() && T(a()).is_tile() && IsFloat(T(a()).dtype);
    const auto int_is = [&](size_t i, int64_t n) { return !flt && Int(a(i)) == n; };
    const auto def = [&](ValueId v, OpKind kind) {
      const Op* d = fn.def(v);
      return d && d->kind == kind ? d : nullptr;
    };
    switch (op.kind) {
      case OpKind::kAdd:
        if (int_is(1, 0) || (flt && IsFloatConstant(a(1), -0.0))) return a();
        break;
      case OpKind::kSub:
        if (int_is(1, 0) || (flt && IsFloatConstant(a(1), 0.0))) return a();
        break;
      case OpKind::kMul:
      case OpKind::kDiv:
      case OpKind::kDivRn:
        if (int_is(1, 1) || (flt && IsFloatConstant(a(1), 1.0))) return a();
        if (op.kind == OpKind::kMul && int_is(1, 0)) return a(1);
        break;
      case OpKind::kShl:
      case OpKind::kShr:
      case OpKind::kXor:
        if (int_is(1, 0)) return a();
        break;
      case OpKind::kAnd: {
        if (a() == a(1)) return a();
        if (int_is(1, 0)) return a(1);
        const int64_t ones = T(a()).dtype == DType::kBool ? 1 : WrapInt(T(a()).dtype, -1);
        if (int_is(1, ones)) return a();
        break;
      }
      case OpKind::kOr: {
        if (a() == a(1) || int_is(1, 0)) return a();
        if (T(a()).dtype == DType::kBool && int_is(1, 1)) return a(1);
        break;
      }
      case OpKind::kMin:
      case OpKind::kMax:
        if (a() == a(1)) return a();
        break;
      case OpKind::kNeg:
      case OpKind::kNot:
        if (const Op* d = def(a(), op.kind)) return d->operands[0];
        break;
      case OpKind::kAbs:
        if (def(a(), OpKind::kAbs)) return a();
        break;
      case OpKind::kSelect:
        if (a(1) == a(2)) return a(1);
        if (const std::optional<int64_t> c = Int(a())) return a(*c ? 1 : 2);
        break;
      case OpKind::kCast: {
        if (T(a()).dtype == T(op.results[0]).dtype) return a();
        const Op* inner = def(a(), OpKind::kCast);
        if (inner && T(inner->operands[0]).dtype == T(op.results[0]).dtype &&
            Lossless(T(inner->operands[0]).dtype, T(a()).dtype))
          return inner->operands[0];
        break;
      }
      case OpKind::kBitcast: {
        if (T(a()).dtype == T(op.results[0]).dtype) return a();
        const Op* inner = def(a(), OpKind::kBitcast);
        if (inner && T(inner->operands[0]).dtype == T(op.results[0]).dtype)
          return inner->operands[0];
        break;
      }
      case OpKind::kBroadcast:
      case OpKind::kReshape:
        if (T(a()) == T(op.results[0])) return a();
        if (const Op* inner = def(a(), OpKind::kReshape);
            inner && op.kind == OpKind::kReshape && T(inner->operands[0]) == T(op.results[0]))
          return inner->operands[0];
        break;
      default: break;
    }
    return {};
  }

  // Rewrites op into a simpler one, in place.
  bool Rewrite(Op& op) {
    if (IsCommutative(op) && ConstantOf(fn, op.operands[0]) && !ConstantOf(fn, op.operands[1])) {
      std::swap(op.operands[0], op.operands[1]);
      ++cx.changes;
    }
    const auto inner = [&](OpKind kind) {
      const Op* d = op.operands.empty() ? nullptr : fn.def(op.operands[0]);
      return d && d->kind == kind ? d : nullptr;
    };
    if (op.kind == OpKind::kCast) {
      const Op* d = inner(OpKind::kCast);
      const auto straight = [&](DType from, DType through, DType to) {
        const bool saturates = IsInteger(from) && IsFloat(through) && !IsFloat(to);
        return Lossless(from, through) && (!saturates || Lossless(from, to));
      };
      if (d && straight(T(d->operands[0]).dtype, T(op.operands[0]).dtype, T(op.results[0]).dtype)) {
        op.operands[0] = d->operands[0];
        ++cx.changes;
      }
    }
    if (op.kind == OpKind::kReshape)
      if (const Op* d = inner(OpKind::kReshape)) {
        op.operands[0] = d->operands[0];
        ++cx.changes;
      }
    if (op.kind == OpKind::kBroadcast)
      if (const Op* d = inner(OpKind::kBroadcast)) {
        std::vector<int64_t> axes;
        for (int64_t axis : d->ints("axes"))
          axes.push_back(op.ints("axes")[static_cast<size_t>(axis)]);
        op.operands[0] = d->operands[0];
        op.set("axes", std::move(axes));
        ++cx.changes;
      }
    if (op.kind == OpKind::kReduce &&
        T(op.operands[0]).shape[static_cast<size_t>(op.i("axis"))] == 1) {
      op.kind = OpKind::kReshape;
      op.attrs.clear();
      ++cx.changes;
    }
    // x compared with itself, and x − x, of integers.
    if (op.operands.size() == 2 && op.operands[0] == op.operands[1] &&
        !IsFloat(T(op.operands[0]).dtype)) {
      if (op.kind == OpKind::kSub || op.kind == OpKind::kXor) {
        BecomeConstant(op, int64_t{0});
      } else if (op.kind == OpKind::kCmp) {
        const std::string& p = op.s("pred");
        BecomeConstant(op, int64_t{p == "eq" || p == "le" || p == "ge"});
      }
    }
    return FoldConstant(op);
  }

  // The region's ops in place of its op; its yields become the results.
  void Inline(const Op& op, size_t region, std::vector<OpId>& out) {
    const std::vector<ValueId> results = op.results;
    const std::vector<OpId> ops = fn.blocks[op.regions[region]].ops;
    for (OpId id : ops) {
      if (fn.ops[id].kind != OpKind::kYield) {
        Visit(id, out);
        continue;
      }
      for (size_t i = 0; i < results.size(); ++i)
        forward.Replace(results[i], forward.Resolve(fn.ops[id].operands[i]));
    }
    ++cx.changes;
  }

  // True if op is gone.
  bool SimplifyControl(OpId id, std::vector<OpId>& out) {
    if (fn.ops[id].kind != OpKind::kIf && fn.ops[id].kind != OpKind::kFor) return false;
    const Op op = fn.ops[id];  // a copy: inlining rewrites ops
    if (op.kind == OpKind::kIf) {
      const std::optional<int64_t> c = Int(op.operands[0]);
      if (!c) return false;
      Inline(op, *c ? 0 : 1, out);
      return true;
    }
    const std::optional<int64_t> lo = Int(op.operands[0]), hi = Int(op.operands[1]);
    if (op.operands[0] == op.operands[1] || (lo && hi && *lo >= *hi)) {
      for (size_t i = 0; i < op.results.size(); ++i)
        forward.Replace(op.results[i], op.operands[i + 2]);
      ++cx.changes;
      return true;
    }
    int64_t length = 0;
    if (!lo || !hi || __builtin_sub_overflow(*hi, *lo, &length) || length > op.i("step"))
      return false;
    const std::vector<ValueId> args = fn.blocks[op.regions[0]].args;  // one trip
    for (size_t i = 0; i < args.size(); ++i)
      forward.Replace(args[i], op.operands[i == 0 ? 0 : i + 1]);
    Inline(op, 0, out);
    return true;
  }

  void Visit(OpId id, std::vector<OpId>& out) {
    forward.ResolveOperands(fn.ops[id]);
    if (fn.ops[id].kind != OpKind::kYield && fn.ops[id].results.size() == 1 &&
        fn.ops[id].regions.empty()) {
      Rewrite(fn.ops[id]);
      const ValueId same = SameAs(fn.ops[id]);
      if (same.valid() && T(same) == T(fn.ops[id].results[0])) {
        forward.Replace(fn.ops[id].results[0], same);
        ++cx.changes;
        return;
      }
    }
    if (SimplifyControl(id, out)) return;
    out.push_back(id);
    const std::vector<BlockId> regions = fn.ops[id].regions;
    for (BlockId region : regions) Block(region);
  }

  void Block(BlockId block) {
    RebuildBlock(fn, block, [&](OpId id, std::vector<OpId>& out) { Visit(id, out); });
  }
};

}  // namespace

Result<> Canonicalize(Function& fn, PassContext& cx) {
  cx.changes += ConvertBranches(fn);
  Canonicalizer{fn, cx, Forwarding(fn)}.Block(fn.body);
  return Done();
}

}  // namespace tilec::ir
