// `while` and `if`: what their conditions may be, what they carry, which way they go where that is
// known.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontend/lower.h"

namespace tilec::frontend {

using ir::DType;
using ir::OpKind;
using ir::Type;
using ir::ValueId;
using lang::ExprId;

namespace {
constexpr const char* kUnlikely = "unlikely";  // a word to the compiler around a condition
}  // namespace

Result<> Lowerer::While(const lang::Stmt& stmt, const lang::WhileStmt& s) {
  const Span at =
      Join(Span{stmt.span.file, stmt.span.begin, stmt.span.begin + 1}, expr(s.condition).span);
  const bool breaks = Breaks(s.body);
  OpenStop(at);
  const std::vector<std::string> carried = Assigned({s.body});  // the flag too, where one breaks
  const std::vector<ValueId> inits = CurrentValues(carried);
  std::vector<Type> types;
  for (ValueId v : inits) types.push_back(type(v));
  const ir::OpId op = EmitOp(at, OpKind::kWhile, inits, types);
  std::vector<ValueId> args[2];
  for (auto& region_args : args) {
    const ir::BlockId region = fn_.AddBlock(op);
    fn_.ops[op].regions.push_back(region);
    for (size_t i = 0; i < carried.size(); ++i)
      region_args.push_back(fn_.AddArg(region, types[i], carried[i]));
  }
  SetValues(carried, args[0]);
  Push(fn_.ops[op].regions[0]);
  Result<Val> condition = Condition(s.condition);
  if (condition.ok() && condition->is_const() && condition->c.as_bool() && !breaks)
    condition = Report(kEndlessLoop, expr(s.condition).span, "always true")
                    .Help("use `for`, or a condition that changes");
  if (condition.ok()) {
    std::vector<ValueId> yields = {
        condition->is_const() ? ConstantValue(at, condition->c, DType::kBool) : condition->v};
    if (breaks) {
      const Type flag = Type::Scalar(DType::kBool);
      const ValueId stop = Lookup(frames_.back().stops.back())->val.v;
      const ValueId goes_on = Emit(at, OpKind::kNot, {stop}, flag);
      yields[0] = Emit(at, OpKind::kAnd, {yields[0], goes_on}, flag);
    }
    yields.insert(yields.end(), args[0].begin(), args[0].end());
    b_.SetSpan(at);
    b_.Yield(yields);
  }
  Pop();
  SetValues(carried, args[1]);
  Push(fn_.ops[op].regions[1]);
  if (condition.ok()) {
    bool reads = false;
    VisitExprs(ast(), s.condition,
               [&](ExprId id) { reads |= expr(id).As<lang::IndexExpr>() != nullptr; });
    if (carried.empty() && !condition->is_const() && !reads && !breaks)
      Report(kEndlessLoop, expr(s.condition).span, "not changed by its body")
          .Help("assign a `var` of the condition in the body");
    Block(s.body);
  }
  b_.SetSpan(at);
  b_.Yield(CurrentValues(carried));
  Pop();
  SetValues(carried, fn_.ops[op].results);
  CloseStop();
  if (!condition.ok()) return DiagSink::Propagate();
  return Done();
}

Result<Val> Lowerer::Condition(ExprId id) {
  TRY(const Val v, TileOrScalar(id));
  if (v.is_const()) {
    if (!v.c.is_bool())
      return Report(kConditionKind, expr(id).span, DescribeVal(v)).Help("compare it: `x != 0`");
    return v;
  }
  if (!type(v.v).shape.empty())
    return Report(kConditionShape, expr(id).span, DescribeVal(v))
        .Help("reduce it with `any(…)` or `all(…)`, or choose elementwise with `select(c, a, b)`");
  if (type(v.v).dtype != DType::kBool)
    return Report(kConditionKind, expr(id).span, DescribeVal(v)).Help("compare it: `x != 0`");
  return v;
}

// What is 0 where a condition holds or does not, of numbers of which every instance has the same
// but for its place in the grid: `n.start == 0`, and so what such an `if` stores only one n stores.
void Lowerer::AddZeros(ValueId condition, bool holds) {
  const ir::Op* op = fn_.def(condition);
  if (op == nullptr) return;
  if (op->kind == (holds ? OpKind::kAnd : OpKind::kOr)) {
    const ValueId left = op->operands[0], right = op->operands[1];
    AddZeros(left, holds);
    AddZeros(right, holds);
    return;
  }
  if (op->kind != OpKind::kCmp || op->s("pred") != (holds ? "eq" : "ne")) return;
  if (!facts(condition).difference) return;
  const Expr& zero = *facts(condition).difference;
  for (const std::string& name : NamesIn(zero))
    if (name.starts_with("%") && !name.starts_with("%p")) return;
  zeros_.push_back(zero);
}

Result<> Lowerer::IfChain(const lang::Stmt& stmt, const lang::IfStmt& s, size_t arm) {
  if (arm == s.arms.size()) {
    if (s.else_body.valid()) Block(s.else_body);
    return Done();
  }
  ExprId asked = s.arms[arm].condition;
  const auto* call = expr(asked).As<lang::CallExpr>();
  const bool unlikely = call && call->callee.text == kUnlikely &&
                        program_.Find(frames_.back().module, kUnlikely) == nullptr;
  if (unlikely) {
    TRY(const std::vector<ExprId> args, Positional(*call, 1, 1, "a condition"));
    asked = args[0];
  }
  TRY(const Val condition, Condition(asked));
  if (condition.is_const()) {
    if (!condition.c.as_bool()) return IfChain(stmt, s, arm + 1);
    Block(s.arms[arm].body);
    return Done();
  }
  std::vector<lang::BlockId> blocks;
  for (size_t i = arm; i < s.arms.size(); ++i) blocks.push_back(s.arms[i].body);
  if (s.else_body.valid()) blocks.push_back(s.else_body);
  const Span at = expr(s.arms[arm].condition).span;
  const std::vector<std::string> changed = Assigned(blocks);
  const std::vector<ValueId> before = CurrentValues(changed);
  std::vector<Type> types;
  for (ValueId v : before) types.push_back(type(v));
  const ir::OpId op = EmitOp(at, OpKind::kIf, {condition.v}, types);
  if (unlikely) fn_.ops[op].set("unlikely", int64_t{1});
  bool ok = true;
  for (int side = 0; side < 2; ++side) {
    const ir::BlockId region = fn_.AddBlock(op);
    fn_.ops[op].regions.push_back(region);
    Push(region);
    const size_t known = zeros_.size();
    AddZeros(condition.v, side == 0);
    if (side == 0)
      Block(s.arms[arm].body);
    else
      ok = IfChain(stmt, s, arm + 1).ok();
    zeros_.resize(known);
    EndArm(at, changed, before);
  }
  SetValues(changed, fn_.ops[op].results);
  if (!ok) return DiagSink::Propagate();
  return Done();
}

}  // namespace tilec::frontend
