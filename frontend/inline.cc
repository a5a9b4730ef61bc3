// Functions: arguments bind parameters and generic dims, the body is lowered in place.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontend/lower.h"

#include <algorithm>

namespace tilec::frontend {

using lang::ExprId;

namespace {
constexpr size_t kMaxInlineDepth = 64;
}

// An extent as a value of the program.
Result<Val> Lowerer::ExtentValue(const Expr& extent, Span at) {
  const Expr e = Simplify(extent);
  if (e.is_const()) return ConstVal(IntConstant(e.value), at);
  const auto made = [&](ValueId v) {
    facts(v).position = true;
    SetSymbol(v, e);
    return Value(v, at);
  };
  if (e.op == Expr::Op::kName) {
    const ir::Param* p = fn_.param(e.name);
    CHECK(p, "an extent names a parameter");
    return made(p->value);
  }
  const std::optional<OpKind> op = e.op == Expr::Op::kAdd   ? std::optional(OpKind::kAdd)
                                   : e.op == Expr::Op::kSub ? std::optional(OpKind::kSub)
                                   : e.op == Expr::Op::kMul ? std::optional(OpKind::kMul)
                                   : e.op == Expr::Op::kDiv ? std::optional(OpKind::kDiv)
                                   : e.op == Expr::Op::kMod ? std::optional(OpKind::kMod)
                                   : e.op == Expr::Op::kMin ? std::optional(OpKind::kMin)
                                   : e.op == Expr::Op::kMax ? std::optional(OpKind::kMax)
                                                            : std::nullopt;
  if (!op || e.args.size() != 2)
    return Report(kNotStatic, at, fmt::format("the extent `{}` of a tensor", ToText(e)));
  TRY(const Val a, ExtentValue(e.args[0], at));
  TRY(const Val b, ExtentValue(e.args[1], at));
  return made(Emit(at, *op, {ToIndex(at, a), ToIndex(at, b)}, Type::Scalar(DType::kI64)));
}

std::string CountResults(size_t n) {
  return n == 0 ? "nothing" : n == 1 ? "one value" : fmt::format("{} values", n);
}

// One value of `return`, as the type that stands behind `->`.
Result<Val> Lowerer::Returned(const lang::FnItem& fn, const lang::TypeRef& declared, ExprId value,
                              Span at) {
  TRY(const Val v, TileOrScalar(value));
  std::vector<std::string> names;
  TRY(Type want, LocalType(declared, &names));
  if (frames_.back().lifted && v.is_value()) want.shape = type(v.v).shape;
  const std::string what = fmt::format("the result of `{}`", fn.name.text);
  if (v.is_const() && want.shape.empty()) {
    TRY_VOID(Convert(v, want, names, what, declared.span, v.at));
    TRY(const Constant c, Adapt(v.c, want.dtype, v.at, diags_));
    return ConstVal(Loosened(c), at);
  }
  if (v.is_value() && type(v.v) != want &&
      (type(v.v).dtype != want.dtype || !type(v.v).shape.empty())) {
    DiagBuilder report =
        Report(kFnResult, v.at, fn.name.text, DescribeVal(v), DescribeType(want, names));
    report.Label(declared.span, "declared here");
    if (type(v.v).dtype != want.dtype) report.Help(WriteCast(program_.TextOf(v.at), want.dtype));
    return report;
  }
  TRY(const ValueId r, Convert(v, want, names, what, declared.span, v.at));
  return Value(r, at);
}

Result<std::vector<Val>> Lowerer::Return(const lang::FnItem& fn, const lang::ReturnStmt& ret,
                                         Span stmt, Span at) {
  if (!fn.result)
    return Report(kReturnPlace, stmt, fmt::format("`{}` has no result type", fn.name.text))
        .Label(fn.name.span, "declared here")
        .Help("write `-> type` after the parameters");
  if (ret.more.size() != fn.more_results.size())
    return Report(kFnResults, stmt, "this `return`", CountResults(ret.more.size() + 1),
                  fn.more_results.size() + 1)
        .Label(fn.result->span, "declared here");
  std::vector<Val> out;
  for (size_t i = 0; i <= ret.more.size(); ++i) {
    TRY(Val v, Returned(fn, i == 0 ? *fn.result : fn.more_results[i - 1],
                        i == 0 ? ret.value : ret.more[i - 1], at));
    out.push_back(std::move(v));
  }
  return out;
}

Result<std::vector<Val>> Lowerer::InlineBody(const lang::FnItem& fn, Span at) {
  const std::vector<lang::StmtId> stmts = ast().block(fn.body).stmts;
  const int before = diags_.errors();
  Result<std::vector<Val>> result = std::vector<Val>{};
  frames_.back().scopes.emplace_back();
  bool returned = false;
  for (size_t i = 0; i < stmts.size(); ++i) {
    const lang::Stmt& s = ast().stmt(stmts[i]);
    const auto* ret = s.As<lang::ReturnStmt>();
    if (!ret || i + 1 != stmts.size()) {
      Statement(s);
      continue;
    }
    returned = true;
    result = Return(fn, *ret, s.span, at);
  }
  frames_.back().scopes.pop_back();
  if (diags_.errors() > before || over_budget_) return DiagSink::Propagate();
  if (fn.result && !returned)
    return Report(kReturnPlace, fn.name.span,
                  fmt::format("`{}` does not end in `return`", fn.name.text))
        .Label(fn.result->span, "it has a result");
  return result;
}

Result<std::vector<Val>> Lowerer::CallFn(const lang::Expr& e, const lang::CallExpr& x,
                                         ItemRef item) {
  const lang::FnItem& fn = *program_.item(item).As<lang::FnItem>();
  std::vector<Val> args(fn.params.size());
  std::vector<bool> given(fn.params.size());
  size_t position = 0;
  std::vector<std::string> names;
  for (const lang::Param& p : fn.params) names.push_back(p.name.text);
  for (const lang::Arg& arg : x.args) {
    size_t i = position;
    if (arg.name) {
      for (i = 0; i < names.size() && names[i] != arg.name->text;) ++i;
      if (i == names.size())
        return Suggest(Report(kArgName, arg.name->span, fn.name.text, arg.name->text),
                       arg.name->text, names);
    } else {
      ++position;
    }
    if (i >= args.size() || given[i]) {
      if (i < args.size())
        return Report(kArgName, arg.span, fn.name.text, names[i] + "` twice, or `" + names[i]);
      return Report(kArgCount, x.callee.span, fn.name.text, CountArguments(args.size()),
                    x.args.size())
          .Label(fn.name.span, "declared here");
    }
    const lang::Param& p = fn.params[i];
    const bool whole = p.type.has_dims() || p.type.dtype.text == "range";
    TRY(Val v, Eval(arg.value));
    const bool tile = v.is_const() || v.is_value();
    const bool named = v.kind == Val::Kind::kTensor || v.kind == Val::Kind::kRange;
    if (!tile && !(named && whole)) {
      TRY(v, TileOrScalar(arg.value));  // says why
    }
    v.at = expr(arg.value).span;
    args[i] = std::move(v);
    given[i] = true;
  }
  for (size_t i = 0; i < args.size(); ++i) {
    if (given[i]) continue;
    if (!fn.params[i].default_value.valid())
      return Report(kArgCount, x.callee.span, fn.name.text, CountArguments(args.size()),
                    x.args.size())
          .Label(fn.params[i].span, "this one is missing");
    ConstEval eval(program_, item.module, {}, diags_);
    TRY(const Constant c, eval.Eval(fn.params[i].default_value, "the default of a parameter"));
    args[i] = ConstVal(c, program_.modules[item.module].ast.expr(fn.params[i].default_value).span);
  }
  const bool lifted = WorksOnTiles(fn, args);
  return Inlined(e.span, x, item, std::move(args), lifted);
}

// A fn of scalars that is given tiles of one shape: it works on them element by element.
bool Lowerer::WorksOnTiles(const lang::FnItem& fn, const std::vector<Val>& args) const {
  const auto scalar = [](const lang::TypeRef& t) { return !t.has_dims(); };
  if (!fn.result || !scalar(*fn.result) ||
      !std::all_of(fn.more_results.begin(), fn.more_results.end(), scalar))
    return false;
  Shape shape;
  for (size_t i = 0; i < args.size(); ++i) {
    if (fn.params[i].type.has_dims() || (!args[i].is_value() && !args[i].is_const())) return false;
    const Shape own = ShapeOf(args[i]);
    if (own.empty()) continue;
    if (fn.params[i].is_const || (!shape.empty() && own != shape)) return false;
    shape = own;
  }
  return !shape.empty();
}

Result<std::vector<Val>> Lowerer::Inlined(Span at, const lang::CallExpr& x, ItemRef item,
                                          std::vector<Val> args, bool lifted) {
  const lang::FnItem& fn = *program_.item(item).As<lang::FnItem>();
  for (const Frame& frame : frames_)
    if (frame.fn && frame.item == item)
      return Report(kRecursion, at, fn.name.text).Label(fn.name.span, "declared here");
  if (frames_.size() > kMaxInlineDepth)
    return Report(kTooLarge, at, fn_.name, "calls functions more than 64 deep");
  if (options_.inlined) options_.inlined->insert(item);
  Frame frame;
  frame.module = item.module;
  frame.fn = &fn;
  frame.item = item;
  frame.call = at;
  frame.scopes.emplace_back();
  frame.lifted = lifted;
  frames_.push_back(std::move(frame));
  Result<> bound = BindFnParams(x, fn, item.module, std::move(args));
  Result<std::vector<Val>> result = DiagSink::Propagate();
  if (bound.ok()) result = InlineBody(fn, at);
  frames_.pop_back();
  return result;
}

// ---- A function that nothing calls -------------------------------------------------------------

namespace {

// Is the parameter indexed by more than `:` and `None`?
bool IndexedByPosition(const lang::Ast& tree, const lang::FnItem& fn, const std::string& name) {
  bool found = false;
  VisitStmts(tree, fn.body, [&](const lang::Stmt& stmt) {
    VisitStmtExprs(stmt, [&](ExprId id) {
      VisitExprs(tree, id, [&](ExprId e) {
        const auto* index = tree.expr(e).As<lang::IndexExpr>();
        const auto* base = index ? tree.expr(index->base).As<lang::NameExpr>() : nullptr;
        if (!base || base->name != name) return;
        for (const lang::IndexItem& item : index->items)
          found |= item.kind == lang::IndexKind::kExpr;
      });
    });
  });
  return found;
}

}  // namespace

Result<> Lowerer::StandInFn(ItemRef ref) {
  // Generic dims get different extents, so that mixing two of them up shows.
  const lang::FnItem& fn = *program_.item(ref).As<lang::FnItem>();
  const lang::Ast& tree = program_.modules[ref.module].ast;
  static constexpr int64_t kExtents[] = {16, 32, 48, 80, 96, 112};
  // What may be a tensor or is a range is known from a call only.
  for (const lang::Param& p : fn.params)
    if (p.direction != lang::Direction::kIn || p.type.dtype.text == "range" ||
        IndexedByPosition(tree, fn, p.name.text))
      return Done();
  std::map<std::string, int64_t> dims;
  for (const lang::Param& p : fn.params)
    for (ExprId d : p.type.dims)
      if (const auto* name = tree.expr(d).As<lang::NameExpr>()) {
        const ItemRef* item = program_.Find(ref.module, name->name);
        if (item && program_.item(*item).As<lang::ConstItem>()) continue;
        dims.emplace(name->name, kExtents[dims.size() % std::size(kExtents)]);
      }
  blocks_.push_back(fn_.body);
  frames_.push_back({ref.module, nullptr, ref, {}, {{}}, {}, false, {}});
  for (const lang::TypeParam& t : fn.types) {
    DType d = DType::kF32;
    if (!t.choices.empty()) {
      TRY(d, ResolveDType(t.choices[0], diags_));
    }
    frames_.back().types[t.name.text] = d;
  }
  lang::CallExpr call;
  call.callee = fn.name;
  std::vector<Val> args;
  for (const lang::Param& p : fn.params) {
    TRY(const DType dtype, DTypeOf(p.type.dtype));
    Shape shape;
    for (ExprId d : p.type.dims) {
      DiagSink quiet;
      ConstEval eval(
          program_, ref.module,
          [&](const std::string& name) -> NameValue {
            const auto it = dims.find(name);
            if (it == dims.end()) return {};
            return {NameState::kValue, IntConstant(it->second)};
          },
          quiet);
      const Result<int64_t> n = eval.EvalInt(d, "an extent");
      if (!n.ok() || *n < 1) return Done();  // needs real arguments
      shape.push_back(*n);
    }
    if (p.is_const) {
      Constant c = ir::IsFloat(dtype)      ? Constant{1.0}
                   : dtype == DType::kBool ? Constant{false}
                                           : IntConstant(16);
      args.push_back(ConstVal(c, p.span));
      continue;
    }
    ir::Param param;
    param.kind = ir::ParamKind::kScalar;
    param.name = p.name.text;
    const ValueId v = fn_.AddParam(std::move(param), Type::Tile(dtype, shape));
    facts(v);
    args.push_back(Value(v, p.span));
  }
  frames_.push_back({ref.module, &fn, ref, {}, {{}}, {}, false, {}});
  in_parallel_ = true;
  TRY_VOID(BindFnParams(call, fn, ref.module, std::move(args)));
  TRY_VOID(InlineBody(fn, fn.name.span));
  return Done();
}

}  // namespace tilec::frontend
