// What a call gives a function: its type parameters, its generic dims and its arguments, one by
// one, before inline.cc lowers the body in place.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontend/lower.h"

#include <algorithm>
#include <utility>

namespace tilec::frontend {

using lang::ExprId;

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

// Generic dims: each is what the first argument that has it says, and all others say the same.
Result<> Lowerer::BindFnDims(const std::string& callee, const lang::FnItem& fn, int module,
                             const std::vector<Val>& args) {
  const lang::Ast& tree = program_.modules[module].ast;
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
  return Done();
}

// One argument, in the new frame.
Result<> Lowerer::BindFnArgument(const std::string& callee, const lang::Param& p, Val v) {
  if (v.kind == Val::Kind::kRange) {
    if (!Declare(p.name, LocalKind::kLoop, v)) return DiagSink::Propagate();
    return Done();
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
    return Done();
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
  return Done();
}

// What is known of it holds.
Result<> Lowerer::CheckFnFacts(const lang::FnItem& fn, int module) {
  const lang::Ast& tree = program_.modules[module].ast;
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

// In the new frame: names of the fn, spans of the call in `args[i].at`.
Result<> Lowerer::BindFnParams(const lang::CallExpr& x, const lang::FnItem& fn, int module,
                               std::vector<Val> args) {
  const std::string& callee = x.callee.text;
  TRY_VOID(InferTypes(x, fn, args));
  TRY_VOID(BindFnDims(callee, fn, module, args));
  for (size_t i = 0; i < fn.params.size(); ++i)
    TRY_VOID(BindFnArgument(callee, fn.params[i], std::move(args[i])));
  return CheckFnFacts(fn, module);
}

}  // namespace tilec::frontend
