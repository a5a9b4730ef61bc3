// Expressions: names, operators, members, `if` as a value.
//
// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "frontend/lower.h"

namespace tilec::frontend {

using lang::ExprId;
using lang::Overloaded;

Result<Val> Lowerer::Eval(ExprId id) {
  const lang::Expr& e = expr(id);
  ++evaluations_;
  if (OverBudget(e.span)) return DiagSink::Propagate();
  if (TooDeep(e.span)) return DiagSink::Propagate();
  ++depth_;
  Result<Val> v = EvalNode(id, e);
  --depth_;
  if (v.ok()) v->at = e.span;
  return v;
}

Result<Val> Lowerer::EvalNode(ExprId, const lang::Expr& e) {
  return std::visit(Overloaded{
                        [&](const lang::IntExpr& x) -> Result<Val> {
                          return ConstVal(LiteralConstant(x.value), e.span);
                        },
                        [&](const lang::FloatExpr& x) -> Result<Val> {
                          return ConstVal(Constant{x.value}, e.span);
                        },
                        [&](const lang::StringExpr& x) -> Result<Val> {
                          Val v = ConstVal({}, e.span);
                          v.kind = Val::Kind::kString;
                          v.text = x.value;
                          return v;
                        },
                        [&](const lang::BoolExpr& x) -> Result<Val> {
                          return ConstVal(Constant{x.value}, e.span);
                        },
                        [&](const lang::NameExpr& x) -> Result<Val> { return Name(e, x.name); },
                        [&](const lang::UnaryExpr& x) -> Result<Val> { return Unary(e, x); },
                        [&](const lang::BinaryExpr& x) -> Result<Val> { return Binary(e, x); },
                        [&](const lang::CastExpr& x) -> Result<Val> { return Cast(e, x); },
                        [&](const lang::CallExpr& x) -> Result<Val> { return Call(e, x); },
                        [&](const lang::IndexExpr& x) -> Result<Val> { return Index(e, x); },
                        [&](const lang::MemberExpr& x) -> Result<Val> { return Member(e, x); },
                        [&](const lang::IfExpr& x) -> Result<Val> { return If(e, x, 0); },
                        [&](const lang::RangeExpr&) -> Result<Val> {
                          return Report(kLoopRange, e.span,
                                        "a range stands only in loops and indices");
                        },
                        [&](const lang::SetExpr&) -> Result<Val> {
                          return Report(kFactForm, e.span, "a set stands only behind `in`");
                        },
                    },
                    e.node);
}

Result<Val> Lowerer::Name(const lang::Expr& e, const std::string& name) {
  if (const Local* local = Lookup(name)) {
    if (local->kind == LocalKind::kPoison) return DiagSink::Propagate();
    return local->val;
  }
  const Frame& frame = frames_.back();
  if (const ItemRef* ref = program_.Find(frame.module, name)) {
    if (const auto it = program_.constants.find(*ref); it != program_.constants.end())
      return ConstVal(it->second, e.span);
    const bool fn = program_.item(*ref).As<lang::FnItem>() != nullptr;
    return Report(kNotAValue, e.span, name, fn ? "a function" : "a kernel")
        .Help(fn ? fmt::format("call it: `{}(…)`", name) : "kernels are launched, not called");
  }
  if (name == "inf") return ConstVal(Constant{std::numeric_limits<double>::infinity()}, e.span);
  if (name == "nan") return ConstVal(Constant{std::numeric_limits<double>::quiet_NaN()}, e.span);
  DiagBuilder report = Report(kUnknownName, e.span, name);
  if (frames_.size() > 1)
    report.Note(fmt::format("`{}` sees its parameters and their dims, not the kernel's names",
                            frame.fn->name.text));
  return Suggest(report, name, NamesInScope());
}

Result<Val> Lowerer::Scalar(ExprId id) {
  TRY(Val v, TileOrScalar(id));
  if (v.is_value() && !type(v.v).shape.empty())
    return Report(kConditionShape, expr(id).span, DescribeVal(v)).Note("a scalar is needed here");
  return v;
}

Result<Val> Lowerer::TileOrScalar(ExprId id) {
  TRY(Val v, Eval(id));
  const Span at = expr(id).span;
  switch (v.kind) {
    case Val::Kind::kConst:
    case Val::Kind::kValue: return v;
    case Val::Kind::kRange: {
      const std::string text = program_.TextOf(at);
      return Report(kNotAValue, at, text, "a range of positions")
          .Help(
              fmt::format("write `{0}.index` for the positions, `{0}.start` for the first", text));
    }
    case Val::Kind::kTensor:
      return Report(kTensorAsValue, at, fn_.params[v.index].name)
          .Help(fmt::format("load a tile of it: `{}[…]`", fn_.params[v.index].name));
    case Val::Kind::kString: return Report(kStringPlace, at);
  }
  return v;
}

Result<int64_t> Lowerer::StaticInt(ExprId id, const std::string& what) {
  TRY(const Val v, TileOrScalar(id));
  if (!v.is_const()) {
    DiagBuilder report = Report(kNotStatic, expr(id).span, what);
    CollectNames(ast(), id, [&](const std::string& name, Span) {
      const Local* local = Lookup(name);
      if (!local || !local->val.is_value()) return;
      report.Label(local->at, fmt::format("`{}` gets its value when the kernel runs", name));
      if (local->kind == LocalKind::kParam)
        report.Help(fmt::format("declare it `{}: const {}`", name, DescribeVal(local->val)));
    });
    return report;
  }
  if (!v.c.is_int()) return Report(kValueKind, expr(id).span, what, Describe(v.c), "an integer");
  if (v.c.is_large()) return Report(kValueKind, expr(id).span, what, "a u64", "an i64");
  return v.c.as_int();
}

Result<Val> Lowerer::Unary(const lang::Expr& e, const lang::UnaryExpr& x) {
  if (const auto least = LeastLiteral(ast(), x)) return ConstVal(*least, e.span);
  TRY(const Val a, TileOrScalar(x.operand));
  if (a.is_const()) {
    TRY(const Constant c, FoldUnary(x.op, a.c, e.span, diags_));
    return ConstVal(c, e.span);
  }
  const DType d = type(a.v).dtype;
  if (x.op == lang::UnaryOp::kNot) {
    if (d != DType::kBool)
      return Report(kOperandDType, e.span, "not", DescribeVal(a))
          .Help("compare first (`x != 0`), or use `bit_not(x)`");
    const ValueId r = Emit(e.span, OpKind::kNot, {a.v}, type(a.v));
    facts(r).dims = facts(a.v).dims;
    return Value(r, e.span);
  }
  TRY_VOID(WantArithmetic(d, "-", a, e.span));
  const ValueId r = Emit(e.span, OpKind::kNeg, {a.v}, type(a.v));
  facts(r).dims = facts(a.v).dims;
  facts(r).position = facts(a.v).position;
  if (facts(a.v).has_symbol) SetSymbol(r, Expr::Make(Expr::Op::kSub, Expr::Const(0), SymbolOf(a)));
  return Value(r, e.span);
}

bool Lowerer::IsMatMul(ExprId id) const {
  const lang::Expr& e = expr(id);
  if (const auto* x = e.As<lang::BinaryExpr>()) return x->op == lang::BinaryOp::kMatMul;
  if (const auto* call = e.As<lang::CallExpr>())
    return (call->callee.text == "dot" || call->callee.text == "dot_scaled") &&
           !program_.Find(frames_.back().module, call->callee.text);
  return false;
}

Result<Val> Lowerer::Binary(const lang::Expr& e, const lang::BinaryExpr& x) {
  if (x.op == lang::BinaryOp::kIn) return Report(kFactForm, e.span, "`in` stands only in facts");
  if (x.op == lang::BinaryOp::kMatMul) {
    TRY(const Val a, TileOrScalar(x.lhs));
    TRY(const Val b, TileOrScalar(x.rhs));
    return Dot({a, x.lhs}, {b, x.rhs}, nullptr, 0, e.span);
  }
  if (x.op == lang::BinaryOp::kAdd) {  // x + a @ b is one op
    if (IsMatMul(x.rhs)) {
      TRY(const Val acc, TileOrScalar(x.lhs));
      return MatMul(x.rhs, &acc);
    }
    if (IsMatMul(x.lhs)) {
      TRY(const Val acc, TileOrScalar(x.rhs));
      return MatMul(x.lhs, &acc);
    }
  }
  TRY(const Val a, TileOrScalar(x.lhs));
  // A static `false and …`, `true or …` does not look at its right side.
  const bool logic = x.op == lang::BinaryOp::kAnd || x.op == lang::BinaryOp::kOr;
  const bool decides = x.op == lang::BinaryOp::kOr;
  if (logic && a.is_const() && a.c.is_bool() && a.c.as_bool() == decides) return a;
  TRY(const Val b, TileOrScalar(x.rhs));
  if (logic && a.is_const() && a.c.is_bool() && b.is_value() && type(b.v).dtype == DType::kBool)
    return b;
  if (logic && b.is_const() && b.c.is_bool() && a.is_value() && type(a.v).dtype == DType::kBool)
    return b.c.as_bool() == decides ? b : a;
  // Integer division by a literal zero is a mistake whatever the left side is.
  if ((x.op == lang::BinaryOp::kDiv || x.op == lang::BinaryOp::kMod) && a.is_value() &&
      b.is_const() && b.c.is_int() && b.c.as_int() == 0 && !ir::IsFloat(type(a.v).dtype))
    return Report(kDivisionByZero, e.span).Label(expr(x.rhs).span, "this is 0");
  return BinaryVals(x.op, a, b, e.span);
}

Result<Val> Lowerer::Cast(const lang::Expr& e, const lang::CastExpr& x) {
  TRY(const DType to, DTypeOf(x.dtype));
  TRY(const Val a, TileOrScalar(x.operand));
  if (a.is_const()) {
    TRY(const Constant c, FoldCast(a.c, to, e.span, diags_));
    return ConstVal(c, e.span);
  }
  const Type from = type(a.v);
  if (from.dtype == to) return a;
  if (to == DType::kE2M1X2 || from.dtype == DType::kE2M1X2)
    return Report(kCastKind, e.span, DescribeVal(a), Spelling(to))
        .Help(to == DType::kE2M1X2
                  ? "an e2m1x2 is made of two numbers: `pack_e2m1(low, high)`"
                  : "an e2m1x2 is two numbers: `low_e2m1(x)` and `high_e2m1(x)` are these as f32");
  if (to == DType::kBool)
    return Report(kCastKind, e.span, DescribeVal(a), "bool").Help("compare with zero: `x != 0`");
  const ValueId r = Emit(e.span, OpKind::kCast, {a.v}, Type::Tile(to, from.shape));
  facts(r).dims = facts(a.v).dims;
  if (ir::IsInteger(to) && ir::IsInteger(from.dtype)) {
    facts(r).position = facts(a.v).position && (to == DType::kI32 || to == DType::kI64);
    if (facts(a.v).has_symbol && (to == DType::kI32 || to == DType::kI64))
      SetSymbol(r, SymbolOf(a));
  }
  return Value(r, e.span);
}

Result<Val> Lowerer::RangeMember(Span at, int range, const std::string& name, Span name_at) {
  const RangeInfo info = ranges_[range];
  if (name == "size") return ConstVal(IntConstant(info.size), at);
  if (name == "start") {
    Val v = info.start;
    v.at = at;
    return v;
  }
  if (name == "end") return Value(RangeEnd(at, range), at);
  if (name == "len") {
    const ValueId end = RangeEnd(at, range);
    const ValueId start = ToIndex(at, info.start);
    const ValueId len = Cached(fmt::format("len {}", range), [&] {
      return Emit(at, OpKind::kSub, {end, start}, Type::Scalar(DType::kI64));
    });
    facts(len).position = true;
    return Value(len, at);
  }
  if (name == "index") {
    const ValueId start = ToIndex(at, info.start);
    const ValueId index = Cached(fmt::format("iota {} {}", start.index, info.size), [&] {
      return Emit(at, OpKind::kIota, {start}, Type::Tile(DType::kI32, {info.size}));
    });
    facts(index).position = true;
    facts(index).dims = {info.name};
    return Value(index, at);
  }
  return Suggest(Report(kUnknownMember, name_at, "a range", name), name,
                 {"start", "size", "end", "len", "index"})
      .Note("a range has .start .size .end .len .index");
}

Result<Val> Lowerer::Member(const lang::Expr& e, const lang::MemberExpr& x) {
  TRY(const Val object, Eval(x.object));
  const std::string& name = x.member.text;
  if (object.kind == Val::Kind::kRange)
    return RangeMember(e.span, object.index, name, x.member.span);
  if (object.kind == Val::Kind::kTensor)
    return Report(kUnknownMember, x.member.span, DescribeVal(object), name)
        .Help(name == "T" ? "load a tile first: `A[m, k].T`"
                          : "the extents of a tensor are the dims in its parameter list");
  if (name != "T" || object.kind == Val::Kind::kString)
    return Report(kUnknownMember, x.member.span, DescribeVal(object), name)
        .Note("a tile has `.T`; a range has .start .size .end .len .index");
  const int64_t rank = object.is_const() ? 0 : type(object.v).rank();
  if (rank != 2 && rank != 3) {
    DiagBuilder report = Report(kTransposeRank, e.span, DescribeVal(object));
    if (object.is_value() && type(object.v).rank() == 1)
      report.Help("a column is `x[:, None]`, a row `x[None, :]`");
    return report;
  }
  Type t = type(object.v);  // the last two dims change places
  std::vector<int64_t> perm =
      rank == 2 ? std::vector<int64_t>{1, 0} : std::vector<int64_t>{0, 2, 1};
  std::swap(t.shape[t.shape.size() - 1], t.shape[t.shape.size() - 2]);
  const ValueId r = Emit(e.span, OpKind::kTranspose, {object.v}, t, {{"perm", std::move(perm)}});
  std::vector<std::string> names = facts(object.v).dims;
  if (static_cast<int64_t>(names.size()) == rank)
    std::swap(names[names.size() - 1], names[names.size() - 2]);
  facts(r).dims = names;
  return Value(r, e.span);
}

Result<Val> Lowerer::If(const lang::Expr& e, const lang::IfExpr& x, size_t arm) {
  if (arm == x.arms.size()) return TileOrScalar(x.else_value);
  TRY(const Val condition, Condition(x.arms[arm].condition));
  if (condition.is_const())
    return condition.c.as_bool() ? TileOrScalar(x.arms[arm].value) : If(e, x, arm + 1);
  const ir::OpId op = EmitOp(e.span, OpKind::kIf, {condition.v}, {});
  Val values[2];
  ir::BlockId regions[2];
  for (int side = 0; side < 2; ++side) {
    regions[side] = fn_.AddBlock(op);
    fn_.ops[op].regions.push_back(regions[side]);
    Push(regions[side]);
    Result<Val> v = side == 0 ? TileOrScalar(x.arms[arm].value) : If(e, x, arm + 1);
    Pop();
    TRY(values[side], std::move(v));
  }
  // Both arms become one type: literals and dims adapt, anything else must agree.
  const ExprId else_id = arm + 1 < x.arms.size() ? x.arms[arm + 1].value : x.else_value;
  auto disagree = [&]() -> Result<Val> {
    return Report(kIfExprTypes, e.span, DescribeVal(values[0]), DescribeVal(values[1]))
        .Label(expr(x.arms[arm].value).span, fmt::format("this is {}", DescribeVal(values[0])))
        .Label(expr(else_id).span, fmt::format("this is {}", DescribeVal(values[1])));
  };
  Type t;
  if (values[0].is_const() && values[1].is_const()) {
    const Constant &a = values[0].c, &b = values[1].c;
    if (a.is_bool() != b.is_bool() || (a.dtype && b.dtype && *a.dtype != *b.dtype))
      return disagree();
    t = Type::Scalar(a.dtype ? *a.dtype : b.dtype ? *b.dtype : DefaultDType(a.is_float() ? a : b));
  } else {
    t = type(values[values[0].is_value() ? 0 : 1].v);
  }
  ValueId yields[2];
  bool position = true;
  for (int side = 0; side < 2; ++side) {
    const Val& v = values[side];
    position &= IsPosition(v);
    Push(regions[side]);
    if (v.is_const()) {
      DiagSink quiet;
      const Result<Constant> c = Adapt(v.c, t.dtype, v.at, quiet);
      if (c.ok()) yields[side] = ConstantValue(e.span, *c, t.dtype, t.shape);
    } else if (type(v.v) == t) {
      yields[side] = v.v;
    } else if (type(v.v).shape == t.shape && t.shape.empty() && ir::IsInteger(t.dtype) &&
               type(v.v).dtype == DType::kI32 && t.dtype == DType::kI64) {
      yields[side] = Emit(e.span, OpKind::kCast, {v.v}, t);
    }
    if (yields[side].valid()) {
      b_.SetSpan(e.span);
      b_.Yield({yields[side]});
    }
    Pop();
    if (!yields[side].valid()) return disagree();
  }
  const ValueId result = fn_.values.Add({t, op, {}, ""});
  fn_.ops[op].results.push_back(result);
  ValueFacts f;
  f.deps = facts(yields[0]).deps | facts(yields[1]).deps | facts(condition.v).deps;
  f.position = position;
  f.dims = facts(yields[0]).dims;
  facts(result) = f;
  return Value(result, e.span);
}

}  // namespace tilec::frontend
