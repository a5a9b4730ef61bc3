// Built-in functions with rules of their own, and statements that are calls.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontend/builtins.h"

#include "frontend/atomic_names.h"
#include "frontend/lower.h"

namespace tilec::frontend {

using lang::ExprId;

std::vector<std::string> BuiltinNames() {
  std::vector<std::string> out;
  for (const Builtin& b : kBuiltins) out.emplace_back(b.name);
  for (const char* s : kSpecials) out.emplace_back(s);
  return out;
}

Result<std::vector<ExprId>> Lowerer::Positional(const lang::CallExpr& x, size_t min, size_t max,
                                                const char* takes,
                                                const std::vector<std::string>& named) {
  std::vector<ExprId> out;
  for (const lang::Arg& arg : x.args) {
    if (!arg.name) {
      out.push_back(arg.value);
      continue;
    }
    bool known = false, axis = false;
    for (const std::string& n : named) known |= n == arg.name->text, axis |= n == "axis";
    if (axis && arg.name->text == "dim")
      return Report(kArgName, arg.name->span, x.callee.text, arg.name->text)
          .Help(fmt::format("write `axis = {}`", program_.TextOf(expr(arg.value).span)));
    if (!known)
      return Suggest(Report(kArgName, arg.name->span, x.callee.text, arg.name->text),
                     arg.name->text, named);
  }
  if (out.size() < min || out.size() > max)
    return Report(kArgCount, x.callee.span, x.callee.text, takes, CountArguments(out.size()));
  return out;
}

ExprId Lowerer::NamedArg(const lang::CallExpr& x, std::string_view name) const {
  for (const lang::Arg& arg : x.args)
    if (arg.name && arg.name->text == name) return arg.value;
  return {};
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
  return Dot({a, args[0]}, {b, args[1]}, acc, promote, e.span);
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

// What other languages call what is written otherwise here.
constexpr std::pair<std::string_view, const char*> kForeignFunctions[] = {
    {"tile", "did you mean `tiles`? it is the whole range: `for k in tiles(K, BK)`"},
    {"reversed", "`reversed(…)` stands only after `in`"},
    {"zeros", "write `var x: f32[M, N] = 0`, or `zeros_like(y)`"},
    {"ones", "write `var x: f32[M, N] = 1`, or `full_like(y, 1)`"},
    {"full", "write `var x: f32[M, N] = v`, or `full_like(y, v)`"},
    {"arange", "write `iota(n)`; a range variable's positions are `m.index`"},
    {"load", "write `X[m, n]`"},
    {"store", "write `Y[m, n] = x`"},
    {"program_id", "write `parallel m in tiles(M, BM) { … }`"},
    {"matmul", "write `a @ b`"},
    {"mm", "write `a @ b`"},
    {"bmm", "write `a @ b` of tiles of three dims"},
    {"transpose", "write `x.T`"},
    {"trans", "write `x.T`"},
    {"concat", "write `join(a, b, axis = i)`"},
    {"cat", "write `join(a, b, axis = i)`"},
    {"stack", "write `join(a[None, :], b[None, :], axis = 0)`"},
    {"clamp", "write `min(max(x, lo), hi)`"},
    {"clip", "write `min(max(x, lo), hi)`"},
    {"pow", "write a product, or `exp2(y * log2(x))`"},
    {"mean", "write `sum(x, axis = i) / n`"},
};

// With what stands where the name was looked for: a near one, or a library module that has it.
DiagBuilder Lowerer::UnknownFunction(Span at, const std::string& name,
                                     const std::vector<std::string>& names) {
  DiagBuilder report = Report(kUnknownFunction, at, name);
  for (const auto& [foreign, help] : kForeignFunctions)
    if (name == foreign) return report.Help(help);
  for (const std::string& module : program_.resolver.modules) {
    const auto text = program_.resolver(module);
    if (!text || text->text.find(fmt::format("\nfn {}(", name)) == std::string::npos) continue;
    return report.Help(fmt::format("write `import \"{}\"` at the top of the file", module));
  }
  return Suggest(std::move(report), name, names);
}

Result<Val> Lowerer::Call(const lang::Expr& e, const lang::CallExpr& x) {
  const std::string& name = x.callee.text;
  if (const ItemRef* item = program_.Find(frames_.back().module, name)) {
    if (program_.item(*item).As<lang::FnItem>()) {
      TRY(std::vector<Val> values, CallFn(e, x, *item));
      if (values.size() > 1)
        return Report(kFnResults, e.span, fmt::format("`{}`", name), CountResults(values.size()), 1)
            .Help(fmt::format("write `let a, b = {}`", program_.TextOf(e.span)));
      return values.empty() ? Val{} : std::move(values[0]);
    }
    if (program_.item(*item).As<lang::KernelItem>())
      return Report(kNotAValue, x.callee.span, name, "a kernel")
          .Help("kernels are launched, not called; move the common part into a `fn`");
  }
  if (OnlyStatement(name))
    return Report(kCallPlace, e.span, fmt::format("`{}` has no value", name))
        .Help(IsAtomic(name)
                  ? fmt::format("what was there before is what `fetch_{}` gives", name.substr(7))
                  : "it stands alone as a statement");
  if (name == "tiles")
    return Report(kLoopRange, e.span, "`tiles(…)` stands only after `in`")
        .Help(fmt::format("`tiles` is the whole range: write `for k in {}`, without `0..`",
                          program_.TextOf(e.span)));
  const bool min_max = name == "min" || name == "max";
  size_t positional = 0;
  for (const lang::Arg& a : x.args) positional += !a.name;
  if (min_max && (NamedArg(x, "axis").valid() || positional == 1))
    return Reduce(e, x, name.c_str());
  if (name == "sum" || name == "prod" || name == "any" || name == "all")
    return Reduce(e, x, name.c_str());
  if (name == "argmax" || name == "argmin") return ArgReduce(e, x);
  if (name.size() > 3 && name.starts_with("cum"))
    for (const char* kind : {"sum", "prod", "max", "min"})
      if (name.substr(3) == kind) return Scan(e, x, kind);
  if (name == "select") return Select(e, x);
  if (IsFetch(name)) return Atomic(e, x, true);
  if (name == "dot") return DotCall(e, x, nullptr);
  if (name == "dot_scaled") return ScaledDot(e, x, nullptr);
  if (name == "pack_e2m1") return PackPair(e, x);
  if (name == "low_e2m1" || name == "high_e2m1") return HalfOfPair(e, x, name == "high_e2m1");
  if (name == "bitcast") return Bitcast(e, x);
  if (name == "zeros_like" || name == "full_like") return Like(e, x);
  if (name == "iota") return Iota(e, x);
  if (name == "reshape") return Reshape(e, x);
  if (name == "flip") return Flip(e, x);
  if (name == "join") return JoinTiles(e, x);
  if (name == "reduce" || name == "scan") {
    TRY(std::vector<Val> values, Combine(e, x, name == "scan"));
    if (values.size() == 1) return std::move(values[0]);
    return Report(kFnResults, e.span, fmt::format("this `{}`", name), CountResults(values.size()),
                  1)
        .Help(fmt::format("write `let a, b = {}`", program_.TextOf(e.span)));
  }
  if (name == "split")
    return Report(kFnResults, e.span, "`split`", "several values", 1)
        .Help(fmt::format("write `let a, b = {}`", program_.TextOf(e.span)));
  if (name == "zip")
    return Report(kCallPlace, e.span,
                  "`zip` pairs positions, and stands only as an index of a tensor")
        .Help("write `X[zip(i, j), :]`");
  if (name == "given")
    return Report(kCallPlace, e.span, "`given(x)` asks for an `optional` tensor of this kernel")
        .Help("declare it in the kernel's parameters: `bias: optional f32[N]`");
  if (name == "unlikely")
    return Report(kCallPlace, e.span, "`unlikely(c)` is the condition of an `if`, all of it")
        .Help("write `if unlikely(c) { … }`");
  return BuiltinCall(e, x);
}

// A function of the language by its row in the table of builtins, or `cdiv`.
Result<Val> Lowerer::BuiltinCall(const lang::Expr& e, const lang::CallExpr& x) {
  const std::string& name = x.callee.text;
  const bool min_max = name == "min" || name == "max";
  const Builtin* builtin = FindBuiltin(name);
  if (!builtin && name != "cdiv") {
    if (ir::DTypeFromSpelling(name))
      return Report(kUnknownFunction, x.callee.span, name)
          .Help(fmt::format("conversions are written `x as {}`", name));
    std::vector<std::string> names = BuiltinNames();
    for (const auto& [n, ref] : program_.modules[frames_.back().module].visible)
      if (program_.item(ref).As<lang::FnItem>()) names.push_back(n);
    return UnknownFunction(x.callee.span, name, names);
  }
  const size_t want = builtin ? static_cast<size_t>(builtin->operands) : 2;
  static constexpr const char* kCounts[] = {"no arguments", "1 argument", "2 arguments",
                                            "3 arguments"};
  TRY(const std::vector<ExprId> args, Positional(x, want, min_max ? 16 : want, kCounts[want]));
  std::vector<Val> vals;
  std::vector<Constant> constants;
  for (ExprId id : args) {
    TRY(Val v, TileOrScalar(id));
    if (v.is_const()) constants.push_back(v.c);
    vals.push_back(std::move(v));
  }
  if (constants.size() == vals.size()) {
    if (const std::optional<Constant> folded = FoldCall(name, constants))
      return ConstVal(*folded, e.span);
    // Not foldable: materialise the first with its own type and go the general way.
    const Val& v = vals[0];
    if (builtin && builtin->accepts == Accepts::kFloats && !v.c.is_float() &&
        !(v.c.dtype && ir::IsFloat(*v.c.dtype)))
      return Report(kOperandDType, e.span, name, DescribeVal(v))
          .Help(WriteCast(program_.TextOf(v.at), DType::kF32));
    vals[0] = Value(ConstantValue(v.at, v.c, DefaultDType(v.c)), v.at);
  }
  if (name == "cdiv") {  // (a + b − 1) / b; b > 0
    TRY(const Val less,
        BinaryVals(lang::BinaryOp::kSub, vals[1], ConstVal(Constant{int64_t{1}}, e.span), e.span));
    TRY(const Val up, BinaryVals(lang::BinaryOp::kAdd, vals[0], less, e.span));
    return BinaryVals(lang::BinaryOp::kDiv, up, vals[1], e.span);
  }
  TRY(std::vector<ValueId> ops, Unify(vals, name.c_str(), e.span, false));
  const Type t = type(ops[0]);
  const Val* shown = &vals[0];
  for (const Val& v : vals)
    if (v.is_value()) shown = &v;
  if (builtin->accepts == Accepts::kIntegers) {
    if (t.dtype == DType::kE2M1X2) TRY_VOID(WantArithmetic(t.dtype, name.c_str(), *shown, e.span));
    if (!ir::IsInteger(t.dtype))
      return Report(kOperandDType, e.span, name, DescribeVal(*shown))
          .Help(ir::IsFloat(t.dtype) ? "for the bits of a float: `bitcast(x, i32)`"
                                     : "bools are joined by `and`, `or`, `not`");
  } else {
    TRY_VOID(WantArithmetic(t.dtype, name.c_str(), *shown, e.span));
    if (builtin->accepts == Accepts::kFloats && !ir::IsFloat(t.dtype))
      return Report(kOperandDType, e.span, name, DescribeVal(*shown))
          .Help(WriteCast(program_.TextOf(shown->at), DType::kF32));
  }
  ValueId r = ops[0];
  if (min_max) {
    for (size_t i = 1; i < ops.size(); ++i) r = Emit(e.span, builtin->op, {r, ops[i]}, t);
  } else {
    r = Emit(e.span, builtin->op, ops, t);
  }
  facts(r).dims = facts(ops[0]).dims;
  bool position = min_max;
  for (const Val& v : vals) position &= IsPosition(v);
  facts(r).position = position;
  if (min_max && vals.size() == 2 && t.shape.empty() && ir::IsInteger(t.dtype))
    SetSymbol(r, Expr::Make(name == "min" ? Expr::Op::kMin : Expr::Op::kMax, SymbolOf(vals[0]),
                            SymbolOf(vals[1])));
  return Value(r, e.span);
}

// ---- Calls as statements -----------------------------------------------------------------------

}  // namespace tilec::frontend
