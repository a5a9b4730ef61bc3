// Elementwise operators and products: common types, broadcasting, `x + a @ b`.
//
// Types never convert by themselves. Literals take the other side's type; integer scalars that are
// positions or extents meet i32 tiles as i32, because the launcher refuses dims of 2^31 and more;
// i32 scalars widen to i64.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "frontend/lower.h"

namespace tilec::frontend {

using lang::BinaryOp;
using lang::ExprId;

namespace {

bool StorageOnly(DType d) {
  return d == DType::kE4M3 || d == DType::kE5M2 || d == DType::kTF32 || d == DType::kE2M1X2 ||
         ir::IsScale(d);
}

// Of two floating-point types the one that holds the other, for help texts.
DType Wider(DType a, DType b) {
  if (ir::IsFloat(a) != ir::IsFloat(b)) return ir::IsFloat(a) ? a : b;
  if (ir::Info(a).bits == ir::Info(b).bits && a != b && ir::IsFloat(a)) return DType::kF32;
  return ir::Info(a).bits >= ir::Info(b).bits ? a : b;
}

}  // namespace

Result<> Lowerer::WantArithmetic(DType d, const char* name, const Val& v, Span at) {
  if (d == DType::kBool)
    return Report(kOperandDType, at, name, DescribeVal(v))
        .Help("convert it (`as i32`), or use `and`, `or`, `not`, `select`");
  if (StorageOnly(d))
    return Report(kOperandDType, at, name, DescribeVal(v))
        .Help(
            d == DType::kE2M1X2
                ? "an e2m1x2 is two numbers: `low_e2m1(x)` and `high_e2m1(x)` are these as f32"
                : fmt::format("{} is for storage and products: write `as f32` first", Spelling(d)));
  return Done();
}

Result<DType> Lowerer::CommonDType(const std::vector<Val>& vals, const char* name, Span at,
                                   bool compare) {
  std::optional<DType> common;
  const Val* first = nullptr;
  auto mixed = [&](const Val& a, const Val& b, DType da, DType db) {
    DiagBuilder report = Report(kMixedDTypes, at, name, DescribeVal(a), DescribeVal(b));
    report.Label(a.at, fmt::format("this is {}", DescribeVal(a)));
    report.Label(b.at, fmt::format("this is {}", DescribeVal(b)));
    const DType to = Wider(da, db);
    const Val& change = da == to ? b : a;
    report.Help(WriteCast(program_.TextOf(change.at), to));
    return report;
  };
  for (const Val& v : vals) {
    if (!v.is_value()) continue;
    const DType d = type(v.v).dtype;
    if (!common) {
      common = d;
      first = &v;
      continue;
    }
    if (*common == d) continue;
    const bool ints = (d == DType::kI32 || d == DType::kI64) &&
                      (*common == DType::kI32 || *common == DType::kI64);
    if (!ints) return mixed(*first, v, *common, d);
    // One is i32, the other i64.
    const Val& narrow = d == DType::kI32 ? v : *first;
    const Val& wide = d == DType::kI32 ? *first : v;
    const bool narrow_tile = !type(narrow.v).shape.empty();
    const bool wide_tile = !type(wide.v).shape.empty();
    if (!narrow_tile) {
      common = DType::kI64;
      first = &wide;
    } else if (!wide_tile && IsPosition(wide)) {
      common = DType::kI32;
      first = &narrow;
    } else if (compare) {
      common = DType::kI64;
      first = &wide;
    } else {
      return mixed(*first, v, *common, d);
    }
  }
  return common ? *common : DType::kF32;
}

Result<Shape> Lowerer::CommonShape(const std::vector<Val>& vals, const char* name, Span at) {
  Shape out;
  const Val* first = nullptr;
  for (const Val& v : vals) {
    const Shape s = ShapeOf(v);
    if (s.empty()) continue;
    if (!first) {
      out = s;
      first = &v;
      continue;
    }
    auto both = [&](DiagBuilder report) {
      for (const Val* side : {first, &v}) {
        report.Label(side->at, fmt::format("this is {}", DescribeVal(*side)));
      }
      return report;
    };
    if (s.size() != out.size()) {
      DiagBuilder report = both(Report(kRankMismatch, at, name, out.size(), s.size()));
      const bool small_first = out.size() < s.size();
      const Shape& small = small_first ? out : s;
      const Shape& large = small_first ? s : out;
      const std::string text = program_.TextOf((small_first ? *first : v).at);
      const std::string base = text.find(' ') == std::string::npos ? text : "(" + text + ")";
      if (small.size() == 1 && large.size() == 2) {
        if (small[0] == large[1]) report.Help(fmt::format("per column: `{}[None, :]`", base));
        if (small[0] == large[0]) report.Help(fmt::format("per row: `{}[:, None]`", base));
      }
      return report;
    }
    for (size_t d = 0; d < s.size(); ++d) {
      if (s[d] == out[d] || s[d] == 1) continue;
      if (out[d] == 1) {
        out[d] = s[d];
        continue;
      }
      DiagBuilder report =
          both(Report(kShapeMismatch, at, name, DescribeVal(*first), DescribeVal(v)));
      report.Note(fmt::format("dim {}: {} and {}", d, out[d], s[d]));
      if (s.size() == 2 && s[0] == out[1] && s[1] == out[0])
        report.Help(fmt::format("transpose one side: `{}.T`", program_.TextOf(v.at)));
      return report;
    }
  }
  return out;
}

ValueId Lowerer::Broadcast(Span at, ValueId v, const Shape& shape) {
  const Type t = type(v);
  if (t.shape == shape) return v;
  std::vector<int64_t> axes;
  for (int64_t i = 0; i < t.rank(); ++i) axes.push_back(i);
  const ValueId r = Emit(at, OpKind::kBroadcast, {v}, Type::Tile(t.dtype, shape), {{"axes", axes}});
  facts(r).position = facts(v).position;
  facts(r).dims = facts(v).dims;
  return r;
}

Result<std::vector<ValueId>> Lowerer::Unify(const std::vector<Val>& vals, const char* name, Span at,
                                            bool compare) {
  TRY(const DType d, CommonDType(vals, name, at, compare));
  TRY(const Shape shape, CommonShape(vals, name, at));
  std::vector<ValueId> out;
  for (const Val& v : vals) {
    if (v.is_const()) {
      const bool kind_ok = v.c.dtype ? *v.c.dtype == d
                                     : v.c.is_bool() == (d == DType::kBool) &&
                                           (ir::IsFloat(d) ? !v.c.integer_only : !v.c.is_float());
      if (!kind_ok && v.c.is_large() && ir::IsInteger(d))
        return Report(kLiteralRange, v.at, static_cast<uint64_t>(v.c.as_int()), Spelling(d));
      if (!kind_ok) {
        const Val* other = nullptr;
        for (const Val& o : vals)
          if (o.is_value()) other = &o;
        DiagBuilder report = Report(kMixedDTypes, at, name, DescribeVal(vals[0]),
                                    DescribeVal(vals.size() > 1 ? vals[1] : vals[0]));
        report.Label(v.at, fmt::format("this is {}", DescribeVal(v)));
        if (other) report.Label(other->at, fmt::format("this is {}", DescribeVal(*other)));
        if (v.c.is_float() && other && ir::IsInteger(d))
          return report.Help(WriteCast(program_.TextOf(other->at), DType::kF32));
        return report.Help(WriteCast(program_.TextOf(v.at), d));
      }
      TRY(const Constant c, Adapt(v.c, d, v.at, diags_));
      out.push_back(ConstantValue(at, c, d, shape));
      continue;
    }
    ValueId r = v.v;
    const Type t = type(r);
    if (t.dtype != d) {
      const std::string key = fmt::format("cast {} {}", r.index, Spelling(d));
      const ValueId cast =
          Cached(key, [&] { return Emit(at, OpKind::kCast, {r}, Type::Tile(d, t.shape)); });
      facts(cast).position = facts(r).position;
      facts(cast).dims = facts(r).dims;
      if (t.shape.empty()) SetSymbol(cast, SymbolOf(v));
      r = cast;
    }
    out.push_back(Broadcast(at, r, shape));
  }
  return out;
}

Result<Val> Lowerer::BinaryVals(BinaryOp op, const Val& a, const Val& b, Span at) {
  if (a.is_const() && b.is_const()) {
    TRY(const Constant c, FoldBinary(op, a.c, b.c, at, b.at, diags_));
    return ConstVal(c, at);
  }
  const char* name = Spelling(op);
  const bool compare = IsCompare(op);
  if (op == BinaryOp::kAnd || op == BinaryOp::kOr)
    for (const Val* v : {&a, &b})
      if (v->is_value() ? type(v->v).dtype != DType::kBool : !v->c.is_bool())
        return Report(kOperandDType, at, name, DescribeVal(*v))
            .Label(v->at, fmt::format("this is {}", DescribeVal(*v)))
            .Help(fmt::format("compare first (`x != 0`), or use `bit_{}(a, b)`", name));
  TRY(const std::vector<ValueId> ops, Unify({a, b}, name, at, compare));
  const Type t = type(ops[0]);
  const Val& shown = a.is_value() ? a : b;
  OpKind kind = OpKind::kAdd;
  const char* pred = nullptr;
  switch (op) {
    case BinaryOp::kOr: kind = OpKind::kOr; break;
    case BinaryOp::kAnd: kind = OpKind::kAnd; break;
    case BinaryOp::kEq: pred = "eq"; break;
    case BinaryOp::kNe: pred = "ne"; break;
    case BinaryOp::kLt: pred = "lt"; break;
    case BinaryOp::kLe: pred = "le"; break;
    case BinaryOp::kGt: pred = "gt"; break;
    case BinaryOp::kGe: pred = "ge"; break;
    case BinaryOp::kAdd: kind = OpKind::kAdd; break;
    case BinaryOp::kSub: kind = OpKind::kSub; break;
    case BinaryOp::kMul: kind = OpKind::kMul; break;
    case BinaryOp::kDiv: kind = OpKind::kDiv; break;
    case BinaryOp::kMod: kind = OpKind::kMod; break;
    case BinaryOp::kIn:
    case BinaryOp::kMatMul: UNREACHABLE("handled by the caller");
  }
  std::vector<std::string> dims = facts(ops[0]).dims;
  for (size_t i = 0; i < t.shape.size(); ++i) {
    const std::vector<std::string>& other = facts(ops[1]).dims;
    dims.resize(t.shape.size());
    if (dims[i].empty() && i < other.size()) dims[i] = other[i];
  }
  if (pred) {
    if (StorageOnly(t.dtype)) TRY_VOID(WantArithmetic(t.dtype, name, shown, at));
    if (t.dtype == DType::kBool && op != BinaryOp::kEq && op != BinaryOp::kNe)
      TRY_VOID(WantArithmetic(t.dtype, name, shown, at));
    const ValueId r = Emit(at, OpKind::kCmp, {ops[0], ops[1]}, Type::Tile(DType::kBool, t.shape),
                           {{"pred", std::string(pred)}});
    facts(r).dims = dims;
    if (t.shape.empty() && ir::IsInteger(t.dtype) && (op == BinaryOp::kEq || op == BinaryOp::kNe))
      facts(r).difference = Expr::Make(Expr::Op::kSub, SymbolOf(a), SymbolOf(b));
    return Value(r, at);
  }
  if (op != BinaryOp::kAnd && op != BinaryOp::kOr) {
    TRY_VOID(WantArithmetic(t.dtype, name, shown, at));
    if (op == BinaryOp::kMod && ir::IsFloat(t.dtype))
      return Report(kOperandDType, at, name, DescribeVal(shown))
          .Help("write `x - floor(x / y) * y`");
  }
  const ValueId r = Emit(at, kind, {ops[0], ops[1]}, t);
  facts(r).dims = dims;
  if (ir::IsInteger(t.dtype)) {
    facts(r).position = IsPosition(a) && IsPosition(b);
    static constexpr std::pair<BinaryOp, Expr::Op> kSymbols[] = {{BinaryOp::kAdd, Expr::Op::kAdd},
                                                                 {BinaryOp::kSub, Expr::Op::kSub},
                                                                 {BinaryOp::kMul, Expr::Op::kMul},
                                                                 {BinaryOp::kDiv, Expr::Op::kDiv},
                                                                 {BinaryOp::kMod, Expr::Op::kMod}};
    if (t.shape.empty())
      for (const auto& [from, to] : kSymbols)
        if (from == op) SetSymbol(r, Expr::Make(to, SymbolOf(a), SymbolOf(b)));
  }
  return Value(r, at);
}

std::string Transposed(std::string text) {
  if (text.ends_with(".T")) return text.substr(0, text.size() - 2);
  if (text.find_first_of("+-*/@ ") != std::string::npos && !text.ends_with("]"))
    text = fmt::format("({})", text);
  return text + ".T";
}

Result<Val> Lowerer::MatMul(ExprId id, const Val* acc) {
  const lang::Expr& e = expr(id);
  if (const auto* call = e.As<lang::CallExpr>())
    return call->callee.text == "dot" ? DotCall(e, *call, acc) : ScaledDot(e, *call, acc);
  const auto& x = *e.As<lang::BinaryExpr>();
  TRY(const Val a, TileOrScalar(x.lhs));
  TRY(const Val b, TileOrScalar(x.rhs));
  return Dot({a, x.lhs}, {b, x.rhs}, acc, 0, e.span);
}

Result<Val> Lowerer::Dot(const Factor& left, const Factor& right, const Val* acc, int64_t promote,
                         Span at) {
  const Val &a = left.val, &b = right.val;
  for (const auto& [side, id, words] : {std::tuple(&a, left.at, "the left operand"),
                                        std::tuple(&b, right.at, "the right operand")}) {
    const size_t rank = ShapeOf(*side).size();
    if (rank == 2 || rank == 3) continue;
    DiagBuilder report = Report(kDotRank, at, words, DescribeVal(*side));
    LabelOrigin(report, id, *side);
    if (side->is_value() && type(side->v).rank() == 1)
      report.Help(side == &a ? "a row is `x[None, :]`" : "a column is `x[:, None]`");
    if (ShapeOf(*side).empty()) report.Help("write `*`");
    return report;
  }
  const Type ta = type(a.v), tb = type(b.v);
  auto both = [&](DiagBuilder report) {
    LabelOrigin(report, left.at, a);
    LabelOrigin(report, right.at, b);
    return report;
  };
  auto needs_scales = [](DType d) { return d == DType::kE2M1X2 || ir::IsScale(d); };
  if (needs_scales(ta.dtype) || needs_scales(tb.dtype))
    return both(Report(kDotDType, at, DescribeVal(a), DescribeVal(b)))
        .Help(
            "operands with scales are multiplied by `dot_scaled(a, scales_of_a, b, scales_of_b)`");
  auto fp8 = [](DType d) { return d == DType::kE4M3 || d == DType::kE5M2; };
  if ((ta.dtype != tb.dtype && !(fp8(ta.dtype) && fp8(tb.dtype))) || ta.dtype == DType::kBool) {
    DiagBuilder report = both(Report(kDotDType, at, DescribeVal(a), DescribeVal(b)));
    if (ta.dtype == DType::kBool) return report.Help("write `as f16` or `as i8`");
    // An integer becomes what the other one is; else a wide operand is usually the computed one:
    // bring it to the loaded one's type.
    if (ir::IsFloat(ta.dtype) != ir::IsFloat(tb.dtype)) {
      const bool a_float = ir::IsFloat(ta.dtype);
      return report.Help(
          WriteCast(program_.TextOf((a_float ? b : a).at), a_float ? ta.dtype : tb.dtype));
    }
    const bool narrow_a = ir::Info(ta.dtype).bits > ir::Info(tb.dtype).bits;
    return report.Help(
        WriteCast(program_.TextOf((narrow_a ? a : b).at), narrow_a ? tb.dtype : ta.dtype));
  }
  const size_t m = ta.shape.size() - 2, k = m + 1;  // behind the batch, if there is one
  if (ta.rank() != tb.rank() || (m == 1 && ta.shape[0] != tb.shape[0]))
    return both(Report(kDotBatches, at, DescribeVal(a), DescribeVal(b)))
        .Help("a product over batches is of [B, M, K] and [B, K, N]");
  if (ta.shape[k] != tb.shape[m]) {
    DiagBuilder report = both(Report(kDotInner, at, ta.shape[k], tb.shape[m]));
    if (ta.shape[k] == tb.shape[k])
      report.Help(fmt::format("write `{}`", Transposed(program_.TextOf(b.at))));
    else if (ta.shape[m] == tb.shape[m])
      report.Help(fmt::format("write `{}`", Transposed(program_.TextOf(a.at))));
    return report;
  }
  const auto called = [&](ExprId side) { return expr(side).As<lang::CallExpr>() != nullptr; };
  if (!called(left.at) && !called(right.at)) WarnOfContraction(a, b, at);  // `reshape`: it is meant
  ir::Attrs attrs;
  if (promote > 0) attrs = {{"promote", promote}};
  return AddProduct({a.v, b.v}, {}, acc, std::move(attrs), at);
}

// The product of two tiles that fit, added to what `acc` has, as one op; `scales` of both, or none.
Result<Val> Lowerer::AddProduct(const std::vector<ValueId>& factors,
                                const std::vector<ValueId>& scales, const Val* acc, ir::Attrs attrs,
                                Span at) {
  const ValueId a = factors[0], b = factors[1];
  const Type ta = type(a), tb = type(b);
  const DType out = ir::Info(ta.dtype).accumulator;
  Type t = Type::Tile(out, ta.shape);
  t.shape.back() = tb.shape.back();
  std::vector<std::string> dims = facts(a).dims;
  dims.resize(t.shape.size());
  dims.back() = facts(b).dims.size() == dims.size() ? facts(b).dims.back() : "";
  const Constant nought = ir::IsFloat(out) ? Constant{0.0} : Constant{int64_t{0}};
  ValueId sum;
  bool add_after = false;  // the addend is larger than the product, which then repeats
  if (acc && acc->is_value() && type(acc->v) == t) {
    sum = acc->v;
  } else {
    sum = ConstantValue(at, nought, out, t.shape);
    facts(sum).dims = dims;
    if (acc && acc->is_value() && type(acc->v).dtype != out) {
      const DType have = type(acc->v).dtype;
      return Report(kMixedDTypes, at, "+", DescribeVal(*acc), DescribeVal(Value(sum, at)))
          .Label(acc->at, fmt::format("this is {}", DescribeVal(*acc)))
          .Label(at,
                 fmt::format("products of {} accumulate in {}", Spelling(ta.dtype), Spelling(out)))
          .Help(fmt::format("keep the sum in {}, and convert it at the end with `as {}`",
                            Spelling(out), Spelling(have)));
    }
    if (acc) {
      TRY(const std::vector<ValueId> ops, Unify({*acc, Value(sum, at)}, "+", at, false));
      add_after = type(ops[0]) != t;
      if (!add_after) sum = ops[0];
    }
  }
  std::vector<ValueId> operands = {a, b, sum};
  operands.insert(operands.end(), scales.begin(), scales.end());
  const ValueId r = Emit(at, OpKind::kDot, std::move(operands), t, std::move(attrs));
  facts(r).dims = dims;
  if (add_after) return BinaryVals(BinaryOp::kAdd, *acc, Value(r, at), at);
  return Value(r, at);
}

}  // namespace tilec::frontend
