// Built-in functions with rules of their own: reductions, scans, select, bitcast, dot, full_like.
// Call (lower_call.cc) says which of them a name is.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontend/builtins.h"
#include "frontend/lower.h"

namespace tilec::frontend {

using lang::ExprId;

Result<Val> Lowerer::Reduce(const lang::Expr& e, const lang::CallExpr& x, const char* kind) {
  TRY(const std::vector<ExprId> args, Positional(x, 1, 1, "one tile and `axis = i`", {"axis"}));
  TRY(Val v, TileOrScalar(args[0]));
  if (ShapeOf(v).empty())
    return Report(kArgKind, e.span, fmt::format("`{}` reduces a tile; this is a scalar", kind))
        .Label(v.at, fmt::format("this is {}", DescribeVal(v)));
  const DType d = type(v.v).dtype;
  const bool logic = std::string_view(kind) == "any" || std::string_view(kind) == "all";
  if (logic != (d == DType::kBool)) {
    DiagBuilder report = Report(kReductionDType, e.span, kind, DescribeVal(v));
    report.Label(v.at, fmt::format("this is {}", DescribeVal(v)));
    return report.Help(logic ? "compare first: `any(x != 0)`" : "count with `sum(x as i32, …)`");
  }
  if (!logic) TRY_VOID(WantArithmetic(d, kind, v, e.span));
  auto reduce = [&](ValueId in, int64_t axis) {
    Type t = type(in);
    std::vector<std::string> dims = facts(in).dims;
    t.shape.erase(t.shape.begin() + axis);
    if (axis < static_cast<int64_t>(dims.size())) dims.erase(dims.begin() + axis);
    const ValueId r =
        Emit(e.span, OpKind::kReduce, {in}, t, {{"kind", std::string(kind)}, {"axis", axis}});
    facts(r).dims = dims;
    return r;
  };
  if (NamedArg(x, "axis").valid()) {
    TRY(const int64_t axis, Axis(x, v, e.span));
    return Value(reduce(v.v, axis), e.span);
  }
  ValueId r = v.v;
  while (type(r).rank() > 0) r = reduce(r, type(r).rank() - 1);
  return Value(r, e.span);
}

Result<Val> Lowerer::ArgReduce(const lang::Expr& e, const lang::CallExpr& x) {
  TRY(const std::vector<ExprId> args, Positional(x, 1, 1, "one tile and `axis = i`", {"axis"}));
  TRY(const Val v, TileOrScalar(args[0]));
  if (ShapeOf(v).empty())
    return Report(kArgKind, e.span,
                  fmt::format("`{}` needs a tile; this is a scalar", x.callee.text));
  TRY_VOID(WantArithmetic(type(v.v).dtype, x.callee.text.c_str(), v, e.span));
  TRY(const int64_t axis, Axis(x, v, e.span));
  Shape shape = type(v.v).shape;
  std::vector<std::string> dims = facts(v.v).dims;
  shape.erase(shape.begin() + axis);
  if (axis < static_cast<int64_t>(dims.size())) dims.erase(dims.begin() + axis);
  const ValueId r = Emit(e.span, OpKind::kArgReduce, {v.v}, Type::Tile(DType::kI32, shape),
                         {{"kind", x.callee.text}, {"axis", axis}});
  facts(r).dims = dims;
  facts(r).position = true;
  return Value(r, e.span);
}

Result<Val> Lowerer::Scan(const lang::Expr& e, const lang::CallExpr& x, const char* kind) {
  TRY(const std::vector<ExprId> args, Positional(x, 1, 1, "one tile and `axis = i`", {"axis"}));
  TRY(const Val v, TileOrScalar(args[0]));
  if (ShapeOf(v).empty())
    return Report(kArgKind, e.span,
                  fmt::format("`{}` needs a tile; this is a scalar", x.callee.text));
  TRY_VOID(WantArithmetic(type(v.v).dtype, x.callee.text.c_str(), v, e.span));
  TRY(const int64_t axis, Axis(x, v, e.span));
  const ValueId r =
      Emit(e.span, OpKind::kScan, {v.v}, type(v.v), {{"kind", std::string(kind)}, {"axis", axis}});
  facts(r).dims = facts(v.v).dims;
  return Value(r, e.span);
}

Result<Val> Lowerer::Select(const lang::Expr& e, const lang::CallExpr& x) {
  TRY(const std::vector<ExprId> args, Positional(x, 3, 3, "a condition and two values"));
  TRY(const Val c, TileOrScalar(args[0]));
  const bool is_bool = c.is_const() ? c.c.is_bool() : type(c.v).dtype == DType::kBool;
  if (!is_bool) return Report(kConditionKind, c.at, DescribeVal(c)).Help("compare it: `x != 0`");
  TRY(const Val a, TileOrScalar(args[1]));
  TRY(const Val b, TileOrScalar(args[2]));
  if (c.is_const() && a.is_const() && b.is_const()) return c.c.as_bool() ? a : b;
  Val x0 = a, x1 = b;
  if (a.is_const() && b.is_const()) {
    // Two literals: their common type is the one they would have as variables.
    const DType d = a.c.dtype   ? *a.c.dtype
                    : b.c.dtype ? *b.c.dtype
                                : DefaultDType(a.c.is_float() ? a.c : b.c);
    TRY(const Constant fold, Adapt(a.c, d, a.at, diags_));
    x0 = Value(ConstantValue(a.at, fold, d), a.at);
  }
  TRY(std::vector<ValueId> ops, Unify({x0, x1}, "select", e.span, false));
  if (c.is_const()) return Value(ops[c.c.as_bool() ? 0 : 1], e.span);
  // The condition takes part in the common shape, not in the common type.
  const Val va = Value(ops[0], a.at), vb = Value(ops[1], b.at);
  TRY(const Shape shape, CommonShape({c, va, vb}, "select", e.span));
  const std::vector<std::string> dims =
      facts(ops[0]).dims.empty() ? facts(c.v).dims : facts(ops[0]).dims;
  const ValueId cond = Broadcast(e.span, c.v, shape);
  const ValueId then = Broadcast(e.span, ops[0], shape);
  const ValueId other = Broadcast(e.span, ops[1], shape);
  const ValueId r =
      Emit(e.span, OpKind::kSelect, {cond, then, other}, Type::Tile(type(ops[0]).dtype, shape));
  facts(r).dims = dims;
  facts(r).position = IsPosition(a) && IsPosition(b);
  return Value(r, e.span);
}

Result<Val> Lowerer::Bitcast(const lang::Expr& e, const lang::CallExpr& x) {
  TRY(const std::vector<ExprId> args, Positional(x, 2, 2, "a value and an element type"));
  const auto* name = expr(args[1]).As<lang::NameExpr>();
  if (!name)
    return Report(kArgKind, expr(args[1]).span,
                  "the second argument of `bitcast` is an element type")
        .Help("write `bitcast(x, f32)`");
  TRY(const DType to, DTypeOf({name->name, expr(args[1]).span}));
  TRY(Val v, TileOrScalar(args[0]));
  if (v.is_const()) {
    const DType d = DefaultDType(v.c);
    v = Value(ConstantValue(v.at, v.c, d), v.at);
  }
  const Type t = type(v.v);
  if (ir::Info(t.dtype).bits != ir::Info(to).bits ||
      (t.dtype == DType::kBool) != (to == DType::kBool))
    return Report(kBitcastSize, e.span, Spelling(t.dtype), ir::Info(t.dtype).bits, Spelling(to),
                  ir::Info(to).bits)
        .Label(v.at, fmt::format("this is {}", DescribeVal(v)))
        .Help("bitcast keeps the size; `as` converts the value");
  const ValueId r = Emit(e.span, OpKind::kBitcast, {v.v}, Type::Tile(to, t.shape));
  facts(r).dims = facts(v.v).dims;
  return Value(r, e.span);
}

Result<Val> Lowerer::DotCall(const lang::Expr& e, const lang::CallExpr& x, const Val* acc) {
  TRY(const std::vector<ExprId> args,
      Positional(x, 2, 2, "two tiles and `promote = n`", {"promote"}));
  TRY(const Val a, TileOrScalar(args[0]));
  TRY(const Val b, TileOrScalar(args[1]));
  int64_t promote = 0;
  if (const ExprId id = NamedArg(x, "promote"); id.valid()) {
    TRY(promote, StaticInt(id, "`promote`"));
    const bool fp8 =
        a.is_value() && ir::Info(type(a.v).dtype).bits == 8 && ir::IsFloat(type(a.v).dtype);
    if (a.is_value() && !fp8)
      return Report(kArgKind, expr(id).span,
                    fmt::format("`promote` is for e4m3 and e5m2 products; "
                                "this is {}",
                                DescribeVal(a)))
          .Label(a.at, "the left operand")
          .Help("leave it out: products of this type accumulate in f32 throughout");
    if (promote < 32 || promote % 32 != 0)
      return Report(kArgKind, expr(id).span, fmt::format("`promote` is {}", promote))
          .Help("it is a multiple of 32, the depth of one fp8 instruction");
  }
  return Dot(a, b, acc, promote, e.span, args[0], args[1]);
}

Result<Val> Lowerer::Like(const lang::Expr& e, const lang::CallExpr& x) {
  const bool zeros = x.callee.text == "zeros_like";
  TRY(const std::vector<ExprId> args,
      Positional(x, zeros ? 1 : 2, zeros ? 1 : 2, zeros ? "one tile" : "a tile and a value"));
  TRY(const Val tile, TileOrScalar(args[0]));
  if (!tile.is_value())
    return Report(kArgKind, tile.at, fmt::format("`{}` needs a tile", x.callee.text));
  const Type t = type(tile.v);
  Val value = ConstVal(ir::IsFloat(t.dtype)      ? Constant{0.0}
                       : t.dtype == DType::kBool ? Constant{false}
                                                 : Constant{int64_t{0}},
                       e.span);
  if (!zeros) {
    TRY(value, Scalar(args[1]));
  }
  const std::vector<std::string> dims = facts(tile.v).dims;
  TRY(const ValueId r,
      Convert(value, t, dims, fmt::format("`{}`", x.callee.text), tile.at, value.at));
  facts(r).dims = dims;
  return Value(r, e.span);
}

}  // namespace tilec::frontend
