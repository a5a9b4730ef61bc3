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

Result<DType> Lowerer::DTypeOf(const lang::Name& name) {
  const auto& types = frames_.back().types;
  if (const auto it = types.find(name.text); it != types.end()) return it->second;
  return ResolveDType(name, diags_);
}

// What the fn's type parameters are: the dtypes of the arguments that name them.
Result<> Lowerer::InferTypes(const lang::CallExpr& x, const lang::FnItem& fn,
                             const std::vector<Val>& args) {
  const auto dtype_of = [&](const Val& v) -> std::optional<DType> {
    if (v.is_value()) return type(v.v).dtype;
    if (v.kind == Val::Kind::kTensor) return type(fn_.params[v.index].value).dtype;
    return std::nullopt;
  };
  for (const lang::TypeParam& t : fn.types) {
    std::optional<DType> found;
    for (size_t i = 0; i < fn.params.size(); ++i)
      if (fn.params[i].type.dtype.text == t.name.text && !found) found = dtype_of(args[i]);
    if (!found)
      return Report(kTypeParam, x.callee.span, t.name.text, "follows from no argument of this call")
          .Label(t.span, "declared here")
          .Help("give an argument that is a tile or a value with a dtype: `x as f32`");
    bool allowed = t.choices.empty();
    for (const lang::Name& choice : t.choices) {
      TRY(const DType d, ResolveDType(choice, diags_));
      allowed |= d == *found;
    }
    if (!allowed)
      return Report(kTypeParam, x.callee.span, t.name.text,
                    fmt::format("would be {}, which is none of its choices", Spelling(*found)))
          .Label(t.span, "declared here");
    frames_.back().types[t.name.text] = *found;
  }
  return Done();
}

Result<> Lowerer::BindFnParams(const lang::CallExpr& x, const lang::FnItem& fn, int module,
                               std::vector<Val> args) {
  // In the new frame: names of the fn, spans of the call in `args[i].at`.
  const lang::Ast& tree = program_.modules[module].ast;
  const std::string& callee = x.callee.text;
  TRY_VOID(InferTypes(x, fn, args));
  struct Bound {
    Expr extent;
    Span at;
    std::string from;
  };
  std::map<std::string, Bound> dims;
  // The extents of an argument; those of a tensor may be known at launch only.
  const auto extents = [&](const Val& v) {
    std::vector<Expr> out;
    if (v.kind == Val::Kind::kTensor) return fn_.params[v.index].dims;
    if (v.kind == Val::Kind::kRange) return std::vector<Expr>{Expr::Const(ranges_[v.index].size)};
    for (int64_t n : ShapeOf(v)) out.push_back(Expr::Const(n));
    return out;
  };
  // Bare names first: an expression may use a dim that a later parameter binds.
  for (int pass = 0; pass < 2; ++pass)
    for (size_t i = 0; i < fn.params.size(); ++i) {
      const lang::Param& p = fn.params[i];
      const bool range = p.type.dtype.text == "range";
      if (pass == 0 && range != (args[i].kind == Val::Kind::kRange))
        return Report(kFnArgument, args[i].at, p.name.text, callee, DescribeVal(args[i]),
                      range ? "a range" : "a tile or a scalar")
            .Label(p.span, "the parameter")
            .Help(range ? "pass a variable of a loop over `tiles(…)`"
                        : "declare the parameter `" + p.name.text + ": range[B]`");
      if (!p.type.has_dims()) continue;
      const std::vector<Expr> shape = extents(args[i]);
      if (pass == 0 && (args[i].is_const() || shape.size() != p.type.dims.size()))
        return Report(kFnArgument, args[i].at, p.name.text, callee, DescribeVal(args[i]),
                      fmt::format("a {} of {} dims",
                                  args[i].kind == Val::Kind::kTensor ? "tensor" : "tile",
                                  p.type.dims.size()))
            .Label(p.span, "the parameter");
      for (size_t d = 0; d < p.type.dims.size(); ++d) {
        const lang::Expr& dim = tree.expr(p.type.dims[d]);
        const auto* name = dim.As<lang::NameExpr>();
        const Local* local = name ? Lookup(name->name) : nullptr;  // a const parameter
        const ItemRef* item = name && !local ? program_.Find(module, name->name) : nullptr;
        const bool generic = name && (local ? dims.count(name->name) > 0
                                            : !item || !program_.item(*item).As<lang::ConstItem>());
        if (generic != (pass == 0)) continue;
        Expr want = shape[d];
        std::string words = "this parameter";
        Span other = dim.span;
        if (generic) {
          const auto [it, fresh] =
              dims.emplace(name->name, Bound{shape[d], args[i].at, p.name.text});
          if (fresh) {
            TRY(const Val v, ExtentValue(shape[d], dim.span));
            if (!Declare({name->name, dim.span}, LocalKind::kDim, v)) return DiagSink::Propagate();
          }
          want = it->second.extent;
          other = it->second.at;
          words = fmt::format("`{}` makes `{}` {}", it->second.from, name->name, ToText(want));
        } else {
          TRY(const Val v, Scalar(p.type.dims[d]));
          want = SymbolOf(v);
        }
        if (ToText(Simplify(want)) != ToText(Simplify(shape[d]))) {
          const std::string text = program_.TextOf(dim.span);
          return Report(kFnDim, args[i].at, text, callee, ToText(want), ToText(shape[d]))
              .Label(other, words)
              .Label(args[i].at, fmt::format("`{}` is {}", p.name.text, DescribeVal(args[i])));
        }
      }
    }
  for (size_t i = 0; i < fn.params.size(); ++i) {
    const lang::Param& p = fn.params[i];
    Val v = args[i];
    if (v.kind == Val::Kind::kRange) {
      if (!Declare(p.name, LocalKind::kLoop, v)) return DiagSink::Propagate();
      continue;
    }
    TRY(const DType dtype, DTypeOf(p.type.dtype));
    if (v.kind == Val::Kind::kTensor) {
      const ir::Param& tensor = fn_.params[v.index];
      const DType have = type(tensor.value).dtype;
      if (have != dtype)
        return Report(kFnArgument, v.at, p.name.text, callee,
                      fmt::format("a tensor of {}", Spelling(have)),
                      fmt::format("one of {}", Spelling(dtype)))
            .Label(p.span, "the parameter");
      if (!Declare(p.name, LocalKind::kParam, v)) return DiagSink::Propagate();
      Lookup(p.name.text)->read_only = p.direction == lang::Direction::kIn;
      continue;
    }
    if (p.direction != lang::Direction::kIn)
      return Report(kParamForm, p.span, p.name.text, "is `out`, and the argument is no tensor")
          .Label(v.at, fmt::format("this is {}", DescribeVal(v)))
          .Help("a function gives tiles back by `-> type` and `return`");
    if (p.is_const) {
      if (!v.is_const())
        return Report(kNotStatic, v.at, fmt::format("argument `{}` of `{}`", p.name.text, callee))
            .Label(p.span, "declared `const` here");
      TRY(const Constant c, CheckedValue(p.name.text, v.c.value, dtype, v.at, diags_));
      v = ConstVal(c, v.at);
    } else {
      const Type want = Type::Tile(dtype, ShapeOf(v));
      const bool literal = v.is_const();
      const bool scalar_ok = p.type.has_dims() || want.shape.empty() || frames_.back().lifted;
      const bool adapts = literal && !v.c.dtype && v.c.is_bool() == (dtype == DType::kBool) &&
                          (ir::IsFloat(dtype) ? !v.c.integer_only : !v.c.is_float());
      const bool widens = v.is_value() && want.shape.empty() && dtype == DType::kI64 &&
                          type(v.v).dtype == DType::kI32;
      const DType have = literal ? DefaultDType(v.c) : type(v.v).dtype;
      if (!scalar_ok || (have != dtype && !adapts && !widens)) {
        DiagBuilder report =
            Report(kFnArgument, v.at, p.name.text, callee, DescribeVal(v),
                   scalar_ok ? Spelling(dtype) : fmt::format("the scalar {}", Spelling(dtype)));
        report.Label(p.span, "the parameter");
        if (scalar_ok) report.Help(WriteCast(program_.TextOf(v.at), dtype));
        return report;
      }
      if (literal) {
        TRY(Constant c, Adapt(v.c, dtype, v.at, diags_));
        v = ConstVal(Loosened(c), v.at);
      } else if (widens) {
        v = Value(ToIndex(v.at, v), v.at);
      }
    }
    if (!Declare(p.name, p.is_const ? LocalKind::kConst : LocalKind::kParam, v))
      return DiagSink::Propagate();
  }
  for (ExprId fact : fn.facts) {
    const Span at = tree.expr(fact).span;
    std::string with;
    ConstEval eval(
        program_, module,
        [&](const std::string& name) -> NameValue {
          const Local* local = Lookup(name);
          if (!local) return {};
          if (!local->val.is_const()) return {NameState::kRuntime, {}};
          with += fmt::format("{}{} = {}", with.empty() ? ": " : ", ", name,
                              ToText(local->val.c.value));
          return {NameState::kValue, {local->val.c.value, std::nullopt, false}};
        },
        diags_);
    TRY(const Constant holds, eval.Eval(fact, "a fact of a function"));
    if (!holds.is_bool()) return Report(kFactForm, at, "it is " + Describe(holds));
    if (!holds.as_bool()) return Report(kFactViolated, at, program_.TextOf(at), with);
  }
  return Done();
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
