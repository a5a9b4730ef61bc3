// Statements: declarations, assignments, the structure of a kernel.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "frontend/lower.h"

namespace tilec::frontend {

using lang::ExprId;
using lang::Overloaded;

namespace {
constexpr int kMaxErrors = 20;
constexpr const char* kPins[] = {"depth", "role", "stage"};

const char* KindOf(const lang::Stmt& s) {
  return std::visit(Overloaded{
                        [](const lang::LetStmt& x) { return x.is_var ? "`var`" : "`let`"; },
                        [](const lang::AssignStmt&) { return "an assignment"; },
                        [](const lang::ForStmt&) { return "`for`"; },
                        [](const lang::ParallelStmt&) { return "`parallel`"; },
                        [](const lang::WhileStmt&) { return "`while`"; },
                        [](const lang::IfStmt&) { return "`if`"; },
                        [](const lang::TuneStmt&) { return "`tune`"; },
                        [](const lang::WhereStmt&) { return "`where`"; },
                        [](const lang::ReturnStmt&) { return "`return`"; },
                        [](const lang::BreakStmt&) { return "`break`"; },
                        [](const lang::ExprStmt&) { return "this call"; },
                    },
                    s.node);
}
}  // namespace

Result<> Lowerer::TopLevel(const lang::KernelItem& kernel) {
  const lang::Stmt* parallel = nullptr;
  for (lang::StmtId id : ast().block(kernel.body).stmts) {
    const lang::Stmt& s = ast().stmt(id);
    if (diags_.errors() - errors_before_ >= kMaxErrors || over_budget_) break;
    if (parallel) {
      if (s.As<lang::ParallelStmt>())
        Report(kParallelTwice, s.span, kernel.name.text)
            .Label(parallel->As<lang::ParallelStmt>()->heads[0].span, "the first is here")
            .Help("put both grids into one `parallel`, or write two kernels");
      else
        Report(kAfterParallel, s.span)
            .Label(parallel->As<lang::ParallelStmt>()->heads[0].span, "the grid is here")
            .Help("move the statement into the body of `parallel`");
      continue;
    }
    if (s.As<lang::ParallelStmt>()) {
      parallel = &s;
      Statement(s);
      continue;
    }
    if (s.As<lang::TuneStmt>() || s.As<lang::WhereStmt>()) continue;  // statics.cc
    if (const auto* let = s.As<lang::LetStmt>()) {
      if (let->is_var) {
        Report(kVarBeforeParallel, let->name.span, let->name.text)
            .Help(fmt::format("write `let {0} = …` here, or `var {0} = …` inside `parallel`",
                              let->name.text));
        Poison(let->name);
        continue;
      }
      Statement(s);
      continue;
    }
    const auto* call = s.As<lang::ExprStmt>();
    const auto* callee = call ? expr(call->value).As<lang::CallExpr>() : nullptr;
    if (callee && (callee->callee.text == "static_assert" || callee->callee.text == "assert")) {
      Statement(s);
      continue;
    }
    Report(kStatementPlace, s.span, KindOf(s)).Help("move it into the body of `parallel`");
  }
  if (!parallel && diags_.errors() == errors_before_)
    return Report(kParallelMissing, kernel.name.span, kernel.name.text)
        .Help("write `parallel m in tiles(M, BM) { … }`");
  return Done();
}

void Lowerer::Block(lang::BlockId id) {
  frames_.back().scopes.emplace_back();
  Statements(ast().block(id).stmts, 0);
  frames_.back().scopes.pop_back();
}

// What stands behind a statement that may break is done only where it has not.
void Lowerer::Statements(const std::vector<lang::StmtId>& stmts, size_t first) {
  for (size_t i = first; i < stmts.size(); ++i) {
    if (diags_.errors() - errors_before_ >= kMaxErrors || over_budget_) break;
    const lang::Stmt& s = ast().stmt(stmts[i]);
    Statement(s);
    if (i + 1 < stmts.size() && !frames_.back().stops.empty() && Breaks(s))
      return Unless(s.span, stmts, i + 1);
  }
}

void Lowerer::Statement(const lang::Stmt& s) {
  for (const lang::Pin& pin : s.pins) {
    const bool known = std::any_of(std::begin(kPins), std::end(kPins),
                                   [&](const char* k) { return pin.name.text == k; });
    if (!known && options_.warn) Report(kPinUnknown, pin.span, pin.name.text);
  }
  if (OverBudget(s.span) || TooDeep(s.span)) return;
  ++depth_;
  const int32_t first = fn_.ops.size();
  (void)LowerStatement(s);
  for (const lang::Pin& pin : s.pins) (void)PinOps(pin, first);
  --depth_;
}

Result<> Lowerer::LowerStatement(const lang::Stmt& stmt) {
  return std::visit(
      Overloaded{
          [&](const lang::LetStmt& s) -> Result<> {
            Result<> r = Let(s);
            if (r.ok()) return r;
            Poison(s.name);
            for (const lang::Name& name : s.more) Poison(name);
            return r;
          },
          [&](const lang::AssignStmt& s) -> Result<> { return Assign(stmt, s); },
          [&](const lang::ForStmt& s) -> Result<> { return For(stmt, s); },
          [&](const lang::ParallelStmt& s) -> Result<> {
            if (frames_.size() > 1) return Report(kParallelPlace, s.heads[0].span, "a function");
            if (in_parallel_)
              return Report(kParallelPlace, s.heads[0].span, "the body of `parallel`")
                  .Help("list all variables in one `parallel`, or use `for`");
            return Parallel(stmt, s);
          },
          [&](const lang::WhileStmt& s) -> Result<> { return While(stmt, s); },
          [&](const lang::IfStmt& s) -> Result<> { return IfChain(stmt, s, 0); },
          [&](const lang::TuneStmt& s) -> Result<> {
            return Report(kStatementPlace, s.name.span, "`tune`")
                .Help("tunes stand at the top level of a kernel, before `parallel`");
          },
          [&](const lang::WhereStmt&) -> Result<> {
            return Report(kStatementPlace, stmt.span, "`where`")
                .Help(
                    "facts stand at the top level of a kernel, before `parallel`; inside, write "
                    "`assert(…)`");
          },
          [&](const lang::ReturnStmt&) -> Result<> {
            if (frames_.size() == 1)
              return Report(kReturnPlace, stmt.span, "`return` outside a function")
                  .Help("a kernel gives its results by storing to `out` tensors");
            return Report(kReturnPlace, stmt.span, "`return` is not the last statement of its fn")
                .Help("choose the value with `if c { a } else { b }` and return it at the end");
          },
          [&](const lang::BreakStmt&) -> Result<> { return Break(stmt.span); },
          [&](const lang::ExprStmt& s) -> Result<> {
            const lang::Expr& e = expr(s.value);
            if (const auto* call = e.As<lang::CallExpr>()) return CallStatement(e, *call);
            return Report(kCallPlace, e.span, "the value of this statement is not used")
                .Help("give it a name with `let`, or remove it");
          },
      },
      stmt.node);
}

// ---- Declarations and assignments --------------------------------------------------------------

Result<Type> Lowerer::LocalType(const lang::TypeRef& t, std::vector<std::string>* names) {
  TRY(const DType dtype, DTypeOf(t.dtype));
  Shape shape;
  int64_t elements = 1;
  for (ExprId d : t.dims) {
    const std::string text = program_.TextOf(expr(d).span);
    TRY(const int64_t n, StaticInt(d, fmt::format("the extent `{}` of a tile", text)));
    if (n < 1)
      return Report(kExtentRange, expr(d).span,
                    expr(d).As<lang::IntExpr>() ? "this extent" : fmt::format("`{}`", text), n)
          .Help("extents are at least 1");
    if (n > kMaxTileElements || (elements *= n) > kMaxTileElements)
      return Report(kTileTooLarge, t.span).Help("loop over parts of it with `for … in tiles(…)`");
    shape.push_back(n);
    if (names) names->push_back(expr(d).As<lang::IntExpr>() ? "" : text);
  }
  if (t.strided_any)
    return Report(kParamForm, t.span, t.dtype.text, "has strides, but a tile has no strides")
        .Help("remove `strided(any)`");
  return Type::Tile(dtype, std::move(shape));
}

Result<ValueId> Lowerer::Convert(const Val& v, const Type& want,
                                 const std::vector<std::string>& names, const std::string& what,
                                 Span what_at, Span at) {
  const std::string want_text = DescribeType(want, names);
  auto subject = [&] { return fmt::format("{} of type {}", what, want_text); };
  if (v.is_const()) {
    const Constant& c = v.c;
    const bool kind_ok = c.dtype ? *c.dtype == want.dtype
                                 : c.is_bool() == (want.dtype == DType::kBool) &&
                                       (ir::IsFloat(want.dtype) ? !c.integer_only : !c.is_float());
    if (!kind_ok && c.is_large() && ir::IsInteger(want.dtype))
      return Report(kLiteralRange, at, static_cast<uint64_t>(c.as_int()), Spelling(want.dtype));
    if (!kind_ok) {
      DiagBuilder report = Report(kAssignDType, at, subject(), DescribeVal(v));
      if (what_at.known()) report.Label(what_at, fmt::format("{} is {}", what, want_text));
      return report.Help(WriteCast(program_.TextOf(at), want.dtype));
    }
    TRY(const Constant c2, Adapt(c, want.dtype, at, diags_));
    return ConstantValue(at, c2, want.dtype, want.shape);
  }
  if (!v.is_value()) return Report(kNotAValue, at, program_.TextOf(at), DescribeVal(v));
  const Type have = type(v.v);
  const bool position = have.shape.empty() && want.shape.empty() && have.dtype == DType::kI32 &&
                        want.dtype == DType::kI64;
  if (have.dtype != want.dtype && !position) {
    DiagBuilder report = Report(kAssignDType, at, subject(), DescribeVal(v));
    if (what_at.known()) report.Label(what_at, fmt::format("{} is {}", what, want_text));
    return report.Help(WriteCast(program_.TextOf(at), want.dtype));
  }
  if (!have.shape.empty() && have.shape != want.shape) {
    DiagBuilder report = Report(kAssignShape, at, subject(), DescribeVal(v));
    if (what_at.known()) report.Label(what_at, fmt::format("{} is {}", what, want_text));
    report.Label(at, fmt::format("this is {}", DescribeVal(v)));
    if (have.shape.size() == 2 && want.shape == Shape{have.shape[1], have.shape[0]})
      report.Help("transpose it: `(…).T`");
    return report;
  }
  ValueId r = v.v;
  if (position) r = Emit(at, OpKind::kCast, {r}, Type::Scalar(DType::kI64));
  return Broadcast(at, r, want.shape);
}

// `let a, b = f(x)`
Result<> Lowerer::LetSeveral(const lang::LetStmt& s) {
  const lang::Expr& e = expr(s.value);
  const size_t wanted = s.more.size() + 1;
  const auto* call = e.As<lang::CallExpr>();
  const auto name_all = [&](const std::vector<Val>& values) -> Result<> {
    for (size_t i = 0; i < wanted; ++i) {
      const lang::Name& name = i == 0 ? s.name : s.more[i - 1];
      if (values[i].is_value() && fn_.values[values[i].v].name.empty())
        fn_.values[values[i].v].name = name.text;
      if (!Declare(name, LocalKind::kLet, values[i])) return DiagSink::Propagate();
    }
    return Done();
  };
  const ItemRef* item = call ? program_.Find(frames_.back().module, call->callee.text) : nullptr;
  const auto* fn = item ? program_.item(*item).As<lang::FnItem>() : nullptr;
  if (call && !item) {
    TRY(const std::optional<std::vector<Val>> made, SeveralOf(e, *call, wanted));
    if (made && made->size() == wanted) return name_all(*made);
    if (made)
      return Report(kFnResults, e.span, fmt::format("this `{}`", call->callee.text),
                    CountResults(made->size()), wanted);
  }
  if (!fn)
    return Report(kFnResults, e.span, "this", "one value", wanted)
        .Help("write one `let` for each name, or call a fn that returns several");
  if (fn->more_results.size() + 1 != wanted)
    return Report(kFnResults, e.span, fmt::format("`{}`", fn->name.text),
                  CountResults(fn->more_results.size() + 1), wanted)
        .Label(fn->name.span, "declared here");
  TRY(const std::vector<Val> values, CallFn(e, *call, *item));
  return name_all(values);
}

Result<> Lowerer::Let(const lang::LetStmt& s) {
  if (!s.more.empty()) return LetSeveral(s);
  const Span at = expr(s.value).span;
  if (s.type) {
    std::vector<std::string> names;
    TRY(const Type want, LocalType(*s.type, &names));
    TRY(Val v, Eval(s.value));
    const std::string what = fmt::format("`{}`", s.name.text);
    if (!s.is_var && v.is_const() && want.shape.empty() && !v.c.dtype &&
        v.c.is_bool() == (want.dtype == DType::kBool) &&
        (ir::IsFloat(want.dtype) ? !v.c.integer_only : !v.c.is_float())) {
      TRY(Constant c, Adapt(v.c, want.dtype, at, diags_));
      c = Loosened(c);
      if (!Declare(s.name, LocalKind::kLet, ConstVal(c, at))) return DiagSink::Propagate();
      return Done();
    }
    TRY(const ValueId r, Convert(v, want, names, what, s.type->span, at));
    if (!want.shape.empty()) facts(r).dims = names;
    if (!Declare(s.name, s.is_var ? LocalKind::kVar : LocalKind::kLet, Value(r, at)))
      return DiagSink::Propagate();
    return Done();
  }
  TRY(Val v, Eval(s.value));
  if (s.is_var) {
    if (v.is_const()) {
      const DType d = DefaultDType(v.c);
      v = Value(ConstantValue(at, v.c, d), at);
    } else if (!v.is_value()) {
      return Report(kNotAValue, at, program_.TextOf(at), DescribeVal(v));
    }
  } else if (v.kind == Val::Kind::kTensor) {
    return Report(kTensorAsValue, at, fn_.params[v.index].name)
        .Help(fmt::format("load a tile of it: `{}[…]`", fn_.params[v.index].name));
  } else if (v.kind == Val::Kind::kString) {
    return Report(kStringPlace, at);
  }
  if (v.is_value() && fn_.values[v.v].name.empty()) fn_.values[v.v].name = s.name.text;
  if (!Declare(s.name, s.is_var ? LocalKind::kVar : LocalKind::kLet, v))
    return DiagSink::Propagate();
  return Done();
}

Result<> Lowerer::Assign(const lang::Stmt& stmt, const lang::AssignStmt& s) {
  const lang::Expr& target = expr(s.target);
  const Span at = expr(s.value).span;
  const std::optional<lang::BinaryOp> op = [&]() -> std::optional<lang::BinaryOp> {
    switch (s.op) {
      case lang::AssignOp::kSet: return std::nullopt;
      case lang::AssignOp::kAdd: return lang::BinaryOp::kAdd;
      case lang::AssignOp::kSub: return lang::BinaryOp::kSub;
      case lang::AssignOp::kMul: return lang::BinaryOp::kMul;
      case lang::AssignOp::kDiv: return lang::BinaryOp::kDiv;
    }
    return std::nullopt;
  }();
  // The new value, given the old one for `+=` and its family.
  auto updated = [&](const Val* old) -> Result<Val> {
    if (!op) return Eval(s.value);
    if (s.op == lang::AssignOp::kAdd && IsMatMul(s.value)) return MatMul(s.value, old);
    TRY(const Val rhs, TileOrScalar(s.value));
    return BinaryVals(*op, *old, rhs, stmt.span);
  };
  if (const auto* index = target.As<lang::IndexExpr>()) {
    const auto* base = expr(index->base).As<lang::NameExpr>();
    const Local* local = base ? Lookup(base->name) : nullptr;
    if (base && !local)
      return Suggest(Report(kUnknownName, expr(index->base).span, base->name), base->name,
                     NamesInScope());
    if (!local || local->val.kind != Val::Kind::kTensor) {
      if (local && local->kind == LocalKind::kPoison) return DiagSink::Propagate();
      return Report(kTileIndex, target.span)
          .Help("assign the whole tile; `select(mask, a, b)` changes parts of it");
    }
    TRY_VOID(CheckWritable(target, *index, local->val.index));
    if (!op) {
      TRY(const Val v, TileOrScalar(s.value));
      return Store(target, *index, v);
    }
    Indices positions;
    positions_ = &positions;
    TRY(const Val old, Load(target, *index, local->val.index));
    TRY(const Val v, updated(&old));
    positions_ = &positions;
    return Store(target, *index, v);
  }
  const auto* name = target.As<lang::NameExpr>();
  if (!name) return Report(kStatementPlace, target.span, "this assignment");
  Local* local = Lookup(name->name);
  if (!local) {
    DiagBuilder report = Report(kUnknownName, target.span, name->name);
    report.Help(fmt::format("declare it: `var {} = …`", name->name));
    return Suggest(report, name->name, NamesInScope());
  }
  if (local->kind == LocalKind::kPoison) return DiagSink::Propagate();
  if (local->val.kind == Val::Kind::kTensor)
    return Report(kTensorAsValue, target.span, name->name)
        .Help(fmt::format("store a tile: `{}[…] = …`", name->name));
  if (local->kind != LocalKind::kVar) {
    DiagBuilder report = Report(kAssignToConstant, target.span, name->name, Describe(local->kind));
    report.Label(local->at, "declared here");
    if (local->kind == LocalKind::kLet)
      report.Help(fmt::format("declare it with `var {}`", name->name));
    return report;
  }
  Val old = local->val;
  old.at = target.span;
  const Span declared = local->at;
  TRY(const Val v, updated(&old));
  const std::vector<std::string> names = facts(old.v).dims;
  TRY(const ValueId r,
      Convert(v, type(old.v), names, fmt::format("`{}`", name->name), declared, at));
  if (facts(r).dims.empty()) facts(r).dims = names;
  if (fn_.values[r].name.empty()) fn_.values[r].name = name->name;
  Lookup(name->name)->val = Value(r, declared);
  return Done();
}

}  // namespace tilec::frontend
