// Statements that are calls: atomics, `print`, `assert`, `static_assert`.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontend/lower.h"

#include "frontend/atomic_names.h"

namespace tilec::frontend {

using lang::ExprId;

Result<> Lowerer::CallStatement(const lang::Expr& e, const lang::CallExpr& x) {
  const std::string& name = x.callee.text;
  if (const ItemRef* item = program_.Find(frames_.back().module, name)) {
    const auto* fn = program_.item(*item).As<lang::FnItem>();
    if (fn) {
      TRY_VOID(CallFn(e, x, *item));
      return Done();
    }
  }
  if (IsAtomic(name)) {
    TRY_VOID(Atomic(e, x, false));
    return Done();
  }
  if (IsFetch(name))
    return Report(kCallPlace, e.span, fmt::format("the value of `{}` is not used", name))
        .Help(fmt::format("write `atomic_{}`, which waits for nothing", name.substr(6)));
  if (name == "print") return PrintCall(e, x);
  if (name == "assert") return AssertCall(e, x, false);
  if (name == "static_assert") return AssertCall(e, x, true);
  TRY_VOID(Call(e, x));
  return Report(kCallPlace, e.span, fmt::format("the value of `{}` is not used", name))
      .Help("give it a name with `let`, or remove it");
}

Result<> Lowerer::PrintCall(const lang::Expr& e, const lang::CallExpr& x) {
  std::string text;
  std::vector<ValueId> operands;
  for (const lang::Arg& arg : x.args) {
    if (arg.name) return Report(kArgName, arg.name->span, "print", arg.name->text);
    Result<Val> v =
        expr(arg.value).As<lang::StringExpr>() ? Eval(arg.value) : TileOrScalar(arg.value);
    TRY(const Val value, std::move(v));
    if (!text.empty() && text.back() != ' ') text += ' ';
    if (value.kind == Val::Kind::kString) {
      text += value.text;
    } else if (value.is_const()) {
      text += ToText(value.c.value);
    } else {
      text += program_.TextOf(arg.span) + " = {}";
      operands.push_back(value.v);
    }
  }
  (void)EmitOp(e.span, OpKind::kPrint, operands, {}, {{"text", text}});
  return Done();
}

Result<> Lowerer::AssertCall(const lang::Expr& e, const lang::CallExpr& x, bool is_static) {
  TRY(const std::vector<ExprId> args, Positional(x, 1, 2, "a condition and a text"));
  TRY(const Val c, TileOrScalar(args[0]));
  std::string text = program_.TextOf(expr(args[0]).span);
  if (args.size() == 2) {
    TRY(const Val message, Eval(args[1]));
    if (message.kind != Val::Kind::kString)
      return Report(kArgKind, message.at,
                    fmt::format("the second argument of `{}` is a text", x.callee.text));
    text = message.text;
  }
  const bool is_bool = c.is_const() ? c.c.is_bool() : type(c.v).dtype == DType::kBool;
  if (!is_bool) return Report(kConditionKind, c.at, DescribeVal(c)).Help("compare it: `x != 0`");
  if (is_static && !c.is_const())
    return Report(kNotStatic, c.at, "the condition of static_assert")
        .Help("`assert(…)` checks it when the kernel runs");
  if (c.is_const()) {
    if (c.c.as_bool()) return Done();
    DiagBuilder report = Report(kStaticAssertFailed, e.span, text);
    std::string with;
    CollectNames(ast(), args[0], [&](const std::string& name, Span) {
      const Local* local = Lookup(name);
      if (local && local->val.is_const())
        with +=
            fmt::format("{}{} = {}", with.empty() ? "" : ", ", name, ToText(local->val.c.value));
    });
    if (!with.empty()) report.Note(with);
    return report;
  }
  (void)EmitOp(e.span, OpKind::kAssert, {c.v}, {}, {{"message", text}});
  return Done();
}

}  // namespace tilec::frontend
