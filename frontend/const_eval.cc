// Expressions whose value is known before anything is lowered: consts, tune sets, defaults, facts.
//
// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "frontend/internal.h"

namespace tilec::frontend {

using lang::ExprId;
using lang::Overloaded;

Result<Constant> ConstEval::Name(const lang::Expr& e, const std::string& name,
                                 const std::string& what) {
  const NameValue found = env_ ? env_(name) : NameValue{};
  if (found.state == NameState::kValue) return found.value;
  if (found.state == NameState::kRuntime)
    return diags_.Report(kNotStatic, e.span, what)
        .Note(fmt::format("`{}` gets its value at launch", name));
  if (const ItemRef* ref = program_.Find(module_, name)) {
    const auto it = program_.constants.find(*ref);
    if (it != program_.constants.end()) return it->second;
    if (!program_.item(*ref).As<lang::ConstItem>())
      return diags_.Report(kNotAValue, e.span, name, "a kernel or a function");
    return DiagSink::Propagate();  // the const's own error is reported
  }
  if (name == "inf") return Constant{std::numeric_limits<double>::infinity()};
  if (name == "nan") return Constant{std::numeric_limits<double>::quiet_NaN()};
  return diags_.Report(kUnknownName, e.span, name);
}

Result<ConstEval::Steps> ConstEval::EvalRange(const lang::RangeExpr& range,
                                              const std::string& what) {
  Steps steps;
  TRY(steps.lo, EvalInt(range.lo, what));
  TRY(steps.hi, EvalInt(range.hi, what));
  if (range.step.valid()) {
    TRY(steps.step, EvalInt(range.step, what));
  }
  if (steps.step < 1) return diags_.Report(kLoopStep, ast_.expr(range.step).span, steps.step);
  return steps;
}

Result<Constant> ConstEval::In(const lang::BinaryExpr& in, const std::string& what) {
  TRY(const Constant value, Eval(in.lhs, what));
  const lang::Expr& set = ast_.expr(in.rhs);
  if (const lang::RangeExpr* range = set.As<lang::RangeExpr>()) {
    TRY(const Steps steps, EvalRange(*range, what));
    const auto [lo, hi, step] = steps;
    const int64_t v = value.is_int() ? value.as_int() : lo - 1;
    return Constant{v >= lo && v <= hi && FloorMod(v - lo, step) == 0};
  }
  const lang::SetExpr* list = set.As<lang::SetExpr>();
  if (!list) return diags_.Report(kFactForm, set.span, "`in` needs a set `{…}` or a range");
  bool found = false;
  for (ExprId id : list->values) {
    TRY(const Constant c, Eval(id, what));
    found |= c.is_bool() == value.is_bool() && c.as_double() == value.as_double();
  }
  return Constant{found};
}

Result<Constant> ConstEval::Call(const lang::Expr& e, const lang::CallExpr& call,
                                 const std::string& what) {
  std::vector<Constant> args;
  for (const lang::Arg& arg : call.args) {
    if (arg.name) return diags_.Report(kArgName, arg.span, call.callee.text, arg.name->text);
    TRY(Constant c, Eval(arg.value, what));
    args.push_back(c);
  }
  if (std::optional<Constant> folded = FoldCall(call.callee.text, args)) return *folded;
  return diags_.Report(kNotStatic, e.span, what)
      .Note(fmt::format("`{}` is not a function of constants", call.callee.text));
}

Result<Constant> ConstEval::Eval(ExprId id, const std::string& what) {
  const lang::Expr& e = ast_.expr(id);
  auto not_static = [&](const char* kind) -> Result<Constant> {
    return diags_.Report(kNotStatic, e.span, what).Note(fmt::format("this is {}", kind));
  };
  return std::visit(
      Overloaded{
          [&](const lang::IntExpr& x) -> Result<Constant> { return LiteralConstant(x.value); },
          [&](const lang::FloatExpr& x) -> Result<Constant> { return Constant{x.value}; },
          [&](const lang::StringExpr&) -> Result<Constant> {
            return diags_.Report(kStringPlace, e.span);
          },
          [&](const lang::BoolExpr& x) -> Result<Constant> { return Constant{x.value}; },
          [&](const lang::NameExpr& x) -> Result<Constant> { return Name(e, x.name, what); },
          [&](const lang::UnaryExpr& x) -> Result<Constant> {
            if (const auto least = LeastLiteral(ast_, x)) return *least;
            TRY(const Constant a, Eval(x.operand, what));
            return FoldUnary(x.op, a, e.span, diags_);
          },
          [&](const lang::BinaryExpr& x) -> Result<Constant> {
            if (x.op == lang::BinaryOp::kIn) return In(x, what);
            TRY(const Constant a, Eval(x.lhs, what));
            if (a.is_bool() && ((x.op == lang::BinaryOp::kAnd && !a.as_bool()) ||
                                (x.op == lang::BinaryOp::kOr && a.as_bool())))
              return a;
            TRY(const Constant b, Eval(x.rhs, what));
            return FoldBinary(x.op, a, b, e.span, ast_.expr(x.rhs).span, diags_);
          },
          [&](const lang::CastExpr& x) -> Result<Constant> {
            TRY(const Constant a, Eval(x.operand, what));
            TRY(const ir::DType to, ResolveDType(x.dtype, diags_));
            return FoldCast(a, to, e.span, diags_);
          },
          [&](const lang::CallExpr& x) -> Result<Constant> { return Call(e, x, what); },
          [&](const lang::IndexExpr&) -> Result<Constant> { return not_static("an element"); },
          [&](const lang::MemberExpr&) -> Result<Constant> { return not_static("a member"); },
          [&](const lang::IfExpr& x) -> Result<Constant> {
            for (const lang::IfExprArm& arm : x.arms) {
              TRY(const Constant c, Eval(arm.condition, what));
              if (!c.is_bool())
                return diags_.Report(kConditionKind, ast_.expr(arm.condition).span, Describe(c));
              if (c.as_bool()) return Eval(arm.value, what);
            }
            return Eval(x.else_value, what);
          },
          [&](const lang::RangeExpr&) -> Result<Constant> { return not_static("a range"); },
          [&](const lang::SetExpr&) -> Result<Constant> { return not_static("a set"); },
      },
      e.node);
}

Result<int64_t> ConstEval::EvalInt(ExprId id, const std::string& what) {
  TRY(const Constant c, Eval(id, what));
  if (!c.is_int())
    return diags_.Report(kValueKind, ast_.expr(id).span, what, Describe(c), "an integer");
  if (c.is_large())
    return diags_.Report(kLiteralRange, ast_.expr(id).span, static_cast<uint64_t>(c.as_int()),
                         "i64");
  return c.as_int();
}

Result<std::vector<Constant>> ConstEval::EvalSet(ExprId id, const std::string& what) {
  const lang::Expr& set = ast_.expr(id);
  std::vector<Constant> out;
  if (const lang::RangeExpr* range = set.As<lang::RangeExpr>()) {
    TRY(const Steps steps, EvalRange(*range, what));
    const auto [lo, hi, step] = steps;
    const double members =
        (static_cast<double>(hi) - static_cast<double>(lo)) / static_cast<double>(step);
    if (members > 4096)
      return diags_.Report(kTuneSet, set.span, what, "has more than 4096 members");
    if (members < 0) return out;
    for (int64_t i = 0; i <= (hi - lo) / step; ++i) out.push_back(Constant{lo + i * step});
    return out;
  }
  const lang::SetExpr* list = set.As<lang::SetExpr>();
  if (!list) return diags_.Report(kTuneSet, set.span, what, "is neither `{…}` nor a range");
  for (ExprId v : list->values) {
    TRY(Constant c, Eval(v, what));
    out.push_back(c);
  }
  return out;
}

namespace {

// Depth-first over consts that name consts.
struct ConstantOrder {
  ProgramData& program;
  DiagSink& diags;
  std::map<ItemRef, int> state;  // 1: in progress, 2: done
  bool ok = true;

  void Run(ItemRef ref) {
    const lang::ConstItem& item = *program.item(ref).As<lang::ConstItem>();
    if (state[ref] == 2) return;
    if (state[ref] == 1) {
      diags.Report(kConstantCycle, item.name.span, item.name.text);
      ok = false;
      return;
    }
    state[ref] = 1;
    const lang::Ast& ast = program.modules[ref.module].ast;
    CollectNames(ast, item.value, [&](const std::string& name, Span) {
      const ItemRef* other = program.Find(ref.module, name);
      if (other && program.item(*other).As<lang::ConstItem>()) Run(*other);
    });
    state[ref] = 2;
    ConstEval eval(program, ref.module, {}, diags);
    Result<Constant> value = eval.Eval(item.value, fmt::format("const `{}`", item.name.text));
    if (value.ok() && item.type) {
      const Result<ir::DType> dtype = ResolveDType(item.type->dtype, diags);
      if (dtype.ok())
        value = Adapt(*value, *dtype, ast.expr(item.value).span, diags);
      else
        value = DiagSink::Propagate();
    }
    if (value.ok() && item.type) *value = Loosened(*value);
    if (value.ok())
      program.constants[ref] = *value;
    else
      ok = false;
  }
};

}  // namespace

Result<> EvalConstants(ProgramData& program, DiagSink& diags) {
  ConstantOrder order{program, diags, {}, true};
  for (int m = 0; m < static_cast<int>(program.modules.size()); ++m)
    for (lang::ItemId id : program.modules[m].ast.items)
      if (program.modules[m].ast.item(id).As<lang::ConstItem>()) order.Run({m, id});
  if (!order.ok) return DiagSink::Propagate();
  return Done();
}

}  // namespace tilec::frontend
