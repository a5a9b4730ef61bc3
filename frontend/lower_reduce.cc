// Reductions and scans along an axis by name: `sum`, `max`, `argmax`, `cumsum`. Those by a function
// of the author's are in lower_combine.cc.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontend/lower.h"

namespace tilec::frontend {

using lang::ExprId;

Result<int64_t> Lowerer::Axis(const lang::CallExpr& x, const Val& tile, Span at) {
  const ExprId id = NamedArg(x, "axis");
  const int64_t rank = type(tile.v).rank();
  if (!id.valid()) {
    if (rank == 1) return int64_t{0};
    return Report(kArgCount, at, x.callee.text, "`axis = …` for a tile of several dims", "none")
        .Label(tile.at, fmt::format("this is {}", DescribeVal(tile)));
  }
  TRY(int64_t axis, StaticInt(id, "`axis`"));
  if (axis < 0) axis += rank;
  if (axis < 0 || axis >= rank)
    return Report(kAxisRange, expr(id).span, axis, DescribeVal(tile))
        .Label(tile.at, fmt::format("this is {}", DescribeVal(tile)))
        .Help(fmt::format("axes are 0 to {}", rank - 1));
  return axis;
}

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

Result<Val> Lowerer::TileAndAxis(const lang::Expr& e, const lang::CallExpr& x, int64_t* axis) {
  TRY(const std::vector<ExprId> args, Positional(x, 1, 1, "one tile and `axis = i`", {"axis"}));
  TRY(Val v, TileOrScalar(args[0]));
  if (ShapeOf(v).empty())
    return Report(kArgKind, e.span,
                  fmt::format("`{}` needs a tile; this is a scalar", x.callee.text));
  TRY_VOID(WantArithmetic(type(v.v).dtype, x.callee.text.c_str(), v, e.span));
  TRY(*axis, Axis(x, v, e.span));
  return v;
}

Result<Val> Lowerer::ArgReduce(const lang::Expr& e, const lang::CallExpr& x) {
  int64_t axis = 0;
  TRY(const Val v, TileAndAxis(e, x, &axis));
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
  int64_t axis = 0;
  TRY(const Val v, TileAndAxis(e, x, &axis));
  const ValueId r =
      Emit(e.span, OpKind::kScan, {v.v}, type(v.v), {{"kind", std::string(kind)}, {"axis", axis}});
  facts(r).dims = facts(v.v).dims;
  return Value(r, e.span);
}

}  // namespace tilec::frontend
