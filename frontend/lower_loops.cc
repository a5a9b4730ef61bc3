// Loops, `parallel` and branches: what they carry, where their variables stand, which way they go.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "frontend/lower.h"

namespace tilec::frontend {

using ir::DType;
using ir::OpKind;
using ir::Type;
using ir::ValueId;
using lang::ExprId;

std::vector<std::string> Lowerer::Assigned(const std::vector<lang::BlockId>& blocks) {
  std::vector<lang::StmtId> stmts;
  for (lang::BlockId b : blocks)
    stmts.insert(stmts.end(), ast().block(b).stmts.begin(), ast().block(b).stmts.end());
  return AssignedIn(stmts);
}

std::vector<std::string> Lowerer::AssignedIn(const std::vector<lang::StmtId>& stmts) {
  std::vector<std::string> out;
  const auto look = [&](const lang::Stmt& s) {
    const auto* assign = s.As<lang::AssignStmt>();
    const auto* name = assign ? expr(assign->target).As<lang::NameExpr>() : nullptr;
    if (!name || std::find(out.begin(), out.end(), name->name) != out.end()) return;
    const Local* local = Lookup(name->name);
    if (local && local->kind == LocalKind::kVar) out.push_back(name->name);
  };
  bool breaks = false;
  for (lang::StmtId id : stmts) {
    VisitStmt(ast(), ast().stmt(id), look);
    breaks |= Breaks(ast().stmt(id));
  }
  if (breaks && !frames_.back().stops.empty()) out.push_back(frames_.back().stops.back());
  return out;
}

bool Lowerer::Breaks(const lang::Stmt& stmt) const {
  if (stmt.As<lang::BreakStmt>()) return true;
  const auto* branch = stmt.As<lang::IfStmt>();
  if (!branch) return false;
  for (const lang::IfArm& arm : branch->arms)
    if (Breaks(arm.body)) return true;
  return branch->else_body.valid() && Breaks(branch->else_body);
}
bool Lowerer::Breaks(lang::BlockId block) const {
  for (lang::StmtId id : ast().block(block).stmts)
    if (Breaks(ast().stmt(id))) return true;
  return false;
}

Result<> Lowerer::Break(Span at) {
  if (frames_.back().stops.empty()) return Report(kBreakPlace, at);
  Local* stop = Lookup(frames_.back().stops.back());
  if (!stop) return Report(kBreakPlace, at);
  stop->val = Value(ConstantValue(at, Constant{true}, DType::kBool), stop->val.at);
  return Done();
}

// The statements from `first` on, where the innermost loop goes on.
void Lowerer::Unless(Span at, const std::vector<lang::StmtId>& stmts, size_t first) {
  const ValueId stop = Lookup(frames_.back().stops.back())->val.v;
  const std::vector<std::string> changed =
      AssignedIn({stmts.begin() + static_cast<std::ptrdiff_t>(first), stmts.end()});
  const std::vector<ValueId> before = CurrentValues(changed);
  std::vector<Type> types;
  for (ValueId v : before) types.push_back(type(v));
  const ValueId goes_on = Emit(at, OpKind::kNot, {stop}, Type::Scalar(DType::kBool));
  const ir::OpId op = EmitOp(at, OpKind::kIf, {goes_on}, types);
  for (int side = 0; side < 2; ++side) {
    const ir::BlockId region = fn_.AddBlock(op);
    fn_.ops[op].regions.push_back(region);
    Push(region);
    if (side == 0) Statements(stmts, first);
    EndArm(at, changed, before);
  }
  SetValues(changed, fn_.ops[op].results);
}

void Lowerer::EndArm(Span at, const std::vector<std::string>& names,
                     const std::vector<ValueId>& before) {
  b_.SetSpan(at);
  b_.Yield(CurrentValues(names));
  Pop();
  for (size_t i = 0; i < names.size(); ++i) {
    Local* local = Lookup(names[i]);
    local->val = Value(before[i], local->val.at);
  }
}

std::vector<ValueId> Lowerer::CurrentValues(const std::vector<std::string>& names) {
  std::vector<ValueId> out;
  for (const std::string& n : names) out.push_back(Lookup(n)->val.v);
  return out;
}
void Lowerer::SetValues(const std::vector<std::string>& names, const std::vector<ValueId>& values) {
  for (size_t i = 0; i < names.size(); ++i) {
    Local* local = Lookup(names[i]);
    const std::vector<std::string> dims = facts(local->val.v).dims;
    facts(values[i]).dims = dims;
    facts(values[i]).deps = ~uint64_t{0};  // whatever the body does
    fn_.values[values[i]].name = names[i];
    local->val = Value(values[i], local->val.at);
  }
}

Result<LoopRange> Lowerer::Head(ExprId head) {
  const lang::Expr& e = expr(head);
  if (const auto* call = e.As<lang::CallExpr>(); call && call->callee.text == "reversed") {
    if (call->args.size() != 1 || call->args[0].name)
      return Report(kArgCount, e.span, "reversed", "a range", CountArguments(call->args.size()))
          .Help("write `reversed(0..N)` or `reversed(tiles(N, BN))`");
    TRY(LoopRange inner, Head(call->args[0].value));
    inner.reversed = !inner.reversed;
    return inner;
  }
  LoopRange out;
  const lang::RangeExpr* range = e.As<lang::RangeExpr>();
  auto bound = [&](ExprId id) -> Result<Val> {
    TRY(const Val v, Scalar(id));
    const bool integer = v.is_const() ? v.c.is_int() : ir::IsInteger(type(v.v).dtype);
    if (!integer) return Report(kLoopRange, expr(id).span, "a bound is " + DescribeVal(v));
    return v;
  };
  if (const auto* call = e.As<lang::CallExpr>(); call && call->callee.text == "tiles") {
    if (call->args.size() != 2 || call->args[0].name || call->args[1].name)
      return Report(kArgCount, e.span, "tiles", "a bound and a tile size",
                    CountArguments(call->args.size()))
          .Help("write `tiles(N, BN)` or `tiles(lo..hi, BN)`");
    out.is_range = true;
    const lang::Expr& extent = expr(call->args[0].value);
    range = extent.As<lang::RangeExpr>();
    if (range && range->step.valid())
      return Report(kLoopRange, extent.span, "`tiles` takes a range without a step");
    if (!range) {
      out.lo = ConstVal(IntConstant(0), extent.span);
      TRY(out.hi, bound(call->args[0].value));
    }
    const ExprId size = call->args[1].value;
    TRY(out.step, StaticInt(size, "the size of tiles"));
    if (out.step < 1 || out.step > kMaxTileElements)
      return Report(kTileSize, expr(size).span, out.step);
    if (!expr(size).As<lang::IntExpr>()) out.size_name = program_.TextOf(expr(size).span);
  } else if (!range) {
    std::string write = fmt::format("0..{}", program_.TextOf(e.span));
    if (const auto* call = e.As<lang::CallExpr>(); call && call->callee.text == "range") {
      const auto arg = [&](size_t i) { return program_.TextOf(expr(call->args[i].value).span); };
      const size_t n = call->args.size();
      write = n == 1 ? fmt::format("0..{}", arg(0)) : "lo..hi step s";
      if (n == 2 || n == 3) write = fmt::format("{}..{}", arg(0), arg(1));
      if (n == 3) write += fmt::format(" step {}", arg(2));
    }
    return Report(kLoopRange, e.span,
                  "loops run over `lo..hi`, `tiles(n, B)` or `reversed` of one of them")
        .Help(fmt::format("write `{}`", write));
  }
  if (range) {
    TRY(out.lo, bound(range->lo));
    TRY(out.hi, bound(range->hi));
    if (range->step.valid()) {
      TRY(out.step, StaticInt(range->step, "the step of a range"));
      if (out.step < 1) return Report(kLoopStep, expr(range->step).span, out.step);
    }
  }
  return out;
}

void Lowerer::BindLoopName(const lang::LoopHead& head, const LoopRange& range, ValueId position,
                           LocalKind kind) {
  facts(position).position = true;
  Val v = Value(position, head.name.span);
  if (range.is_range) {
    ranges_.push_back({v, range.hi, range.step, range.size_name});
    v.kind = Val::Kind::kRange;
    v.index = static_cast<int>(ranges_.size()) - 1;
  }
  if (!Declare(head.name, kind, v)) Poison(head.name);
}

// Where the iteration at `ascending` of a reversed loop stands: the last one comes first.
ValueId Lowerer::Descending(Span at, const LoopRange& range, ValueId lo, ValueId hi,
                            ValueId ascending) {
  const Type scalar = Type::Scalar(DType::kI64);
  const auto emit = [&](OpKind kind, ValueId a, ValueId b) {
    return Emit(at, kind, {a, b}, scalar);
  };
  const ValueId length = emit(OpKind::kSub, hi, lo);
  const ValueId before = emit(OpKind::kSub, length, IntValue(at, 1));
  const ValueId step = IntValue(at, range.step);
  const ValueId last = emit(OpKind::kMul, emit(OpKind::kDiv, before, step), step);
  const ValueId both = emit(OpKind::kAdd, emit(OpKind::kAdd, lo, lo), last);
  return emit(OpKind::kSub, both, ascending);
}

Result<> Lowerer::For(const lang::Stmt& stmt, const lang::ForStmt& s) {
  Result<LoopRange> range = Head(s.head.range);
  if (!range.ok()) {
    // The body may still have mistakes of its own, but its loop name means nothing: skip it.
    return DiagSink::Propagate();
  }
  const Span at = Join(Span{stmt.span.file, stmt.span.begin, stmt.span.begin + 1}, s.head.span);
  if (Breaks(s.body)) return ForThatBreaks(at, s, *range);
  frames_.back().stops.emplace_back();  // a `break` in it would be its own
  const std::vector<std::string> carried = Assigned({s.body});
  std::vector<ValueId> operands = {ToIndex(at, range->lo), ToIndex(at, range->hi)};
  const std::vector<ValueId> inits = CurrentValues(carried);
  operands.insert(operands.end(), inits.begin(), inits.end());
  std::vector<Type> types;
  for (ValueId v : inits) types.push_back(type(v));
  const ir::OpId op = EmitOp(at, OpKind::kFor, operands, types, {{"step", range->step}});
  const ir::BlockId body = fn_.AddBlock(op);
  fn_.ops[op].regions.push_back(body);
  ValueId position = fn_.AddArg(body, Type::Scalar(DType::kI64), s.head.name.text);
  const uint64_t deps = facts(operands[0]).deps | facts(operands[1]).deps;
  facts(position).deps = deps;
  std::vector<ValueId> args;
  for (size_t i = 0; i < carried.size(); ++i)
    args.push_back(fn_.AddArg(body, types[i], carried[i]));
  SetValues(carried, args);
  Push(body);
  frames_.back().scopes.emplace_back();
  if (range->reversed) {
    position = Descending(at, *range, operands[0], operands[1], position);
    facts(position).deps = deps;
  }
  BindLoopName(s.head, *range, position, LocalKind::kLoop);
  Block(s.body);
  frames_.back().scopes.pop_back();
  frames_.back().stops.pop_back();
  b_.SetSpan(at);
  b_.Yield(CurrentValues(carried));
  Pop();
  SetValues(carried, fn_.ops[op].results);
  return Done();
}

// The flag that `break` raises: a `var` whose name nobody can write.
void Lowerer::OpenStop(Span at) {
  frames_.back().scopes.emplace_back();
  const std::string name = fmt::format("%stop{}", frames_.back().stops.size());
  frames_.back().stops.push_back(name);
  const ValueId no = ConstantValue(at, Constant{false}, DType::kBool);
  frames_.back().scopes.back()[name] = {LocalKind::kVar, Value(no, at), at};
}
void Lowerer::CloseStop() {
  frames_.back().stops.pop_back();
  frames_.back().scopes.pop_back();
}

// `for` with a `break` in it is a `while` that counts and looks at the flag.
Result<> Lowerer::ForThatBreaks(Span at, const lang::ForStmt& s, const LoopRange& range) {
  const Type i64 = Type::Scalar(DType::kI64);
  const ValueId lo = ToIndex(at, range.lo), hi = ToIndex(at, range.hi);
  OpenStop(at);
  const std::vector<std::string> carried = Assigned({s.body});  // the flag too
  std::vector<ValueId> inits = CurrentValues(carried);
  std::vector<Type> types = {i64};
  for (ValueId v : inits) types.push_back(type(v));
  inits.insert(inits.begin(), lo);
  const ir::OpId op = EmitOp(at, OpKind::kWhile, inits, types);
  const uint64_t deps = facts(lo).deps | facts(hi).deps;
  std::vector<ValueId> args[2];
  ValueId position[2];
  for (int i = 0; i < 2; ++i) {
    const ir::BlockId region = fn_.AddBlock(op);
    fn_.ops[op].regions.push_back(region);
    position[i] = fn_.AddArg(region, i64, s.head.name.text);
    facts(position[i]).deps = deps;
    for (size_t c = 0; c < carried.size(); ++c)
      args[i].push_back(fn_.AddArg(region, types[1 + c], carried[c]));
  }
  const auto yield = [&](std::vector<ValueId> values, const std::vector<ValueId>& rest) {
    values.insert(values.end(), rest.begin(), rest.end());
    b_.SetSpan(at);
    b_.Yield(values);
  };
  const Type flag = Type::Scalar(DType::kBool);
  SetValues(carried, args[0]);
  Push(fn_.ops[op].regions[0]);
  const ValueId stop = Lookup(frames_.back().stops.back())->val.v;
  const ValueId more =
      Emit(at, OpKind::kCmp, {position[0], hi}, flag, {{"pred", std::string("lt")}});
  const ValueId goes_on = Emit(at, OpKind::kNot, {stop}, flag);
  yield({Emit(at, OpKind::kAnd, {more, goes_on}, flag), position[0]}, args[0]);
  Pop();
  SetValues(carried, args[1]);
  Push(fn_.ops[op].regions[1]);
  frames_.back().scopes.emplace_back();
  ValueId here = position[1];
  if (range.reversed) {
    here = Descending(at, range, lo, hi, here);
    facts(here).deps = deps;
  }
  BindLoopName(s.head, range, here, LocalKind::kLoop);
  Block(s.body);
  frames_.back().scopes.pop_back();
  const ValueId next = Emit(at, OpKind::kAdd, {position[1], IntValue(at, range.step)}, i64);
  yield({next}, CurrentValues(carried));
  Pop();
  const std::vector<ValueId> results = fn_.ops[op].results;
  SetValues(carried, {results.begin() + 1, results.end()});
  CloseStop();
  return Done();
}

Result<> Lowerer::Parallel(const lang::Stmt& stmt, const lang::ParallelStmt& s) {
  std::vector<LoopRange> ranges;
  std::vector<ValueId> operands;
  std::vector<int64_t> steps;
  const Span at =
      Join(Span{stmt.span.file, stmt.span.begin, stmt.span.begin + 1}, s.heads.back().span);
  for (const lang::LoopHead& head : s.heads) {
    TRY(LoopRange r, Head(head.range));
    if (r.reversed)
      return Report(kLoopRange, head.span, "instances of `parallel` have no order to reverse")
          .Help("leave `reversed` out");
    operands.push_back(ToIndex(at, r.lo));
    operands.push_back(ToIndex(at, r.hi));
    steps.push_back(r.step);
    const Expr extent = Simplify(Expr::Make(Expr::Op::kSub, SymbolOf(r.hi), SymbolOf(r.lo)));
    parallel_.push_back({head.name.text, head.name.span, extent,
                         extent.is_const() && extent.value <= r.step, r.step});
    ranges.push_back(std::move(r));
  }
  const ir::OpId op = EmitOp(at, OpKind::kParallel, operands, {}, {{"steps", steps}});
  const ir::BlockId body = fn_.AddBlock(op);
  fn_.ops[op].regions.push_back(body);
  frames_.back().scopes.emplace_back();
  for (size_t i = 0; i < s.heads.size(); ++i) {
    const ValueId position = fn_.AddArg(body, Type::Scalar(DType::kI64), s.heads[i].name.text);
    facts(position).deps = uint64_t{1} << std::min<size_t>(i, 63);
    SetSymbol(position, Expr::Name(fmt::format("%p{}", i)));
    BindLoopName(s.heads[i], ranges[i], position, LocalKind::kParallel);
  }
  Push(body);
  in_parallel_ = true;
  Block(s.body);
  in_parallel_ = false;
  b_.SetSpan(at);
  b_.Yield({});
  Pop();
  frames_.back().scopes.pop_back();
  return Done();
}

}  // namespace tilec::frontend
