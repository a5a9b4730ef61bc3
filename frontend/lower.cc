// The frame of the walk: parameters, facts, scopes, emission with its side table.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontend/lower.h"

#include <cmath>

#include "frontend/poly.h"

namespace tilec::frontend {

namespace {

constexpr int32_t kMaxOps = 100000;
constexpr int64_t kMaxEvaluations = 2000000;
constexpr int kMaxSymbolNodes = 48;
constexpr int kMaxDepth = 700;  // statements and expressions, inlined functions included

}  // namespace

const char* Describe(LocalKind kind) {
  switch (kind) {
    case LocalKind::kLet: return "a `let`";
    case LocalKind::kVar: return "a `var`";
    case LocalKind::kLoop: return "a loop variable";
    case LocalKind::kParallel: return "a parallel variable";
    case LocalKind::kParam: return "a parameter";
    case LocalKind::kDim: return "a dim";
    case LocalKind::kConst: return "a compile-time parameter";
    case LocalKind::kTune: return "a tune";
    case LocalKind::kPoison: return "a name whose declaration failed";
  }
  return "";
}

Lowerer::Lowerer(const ProgramData& program, std::string name, const LowerOptions& options,
                 DiagSink& diags)
    : program_(program),
      options_(options),
      diags_(diags),
      errors_before_(diags.errors()),
      b_(fn_, fn_.body) {
  fn_.name = std::move(name);
}

DiagBuilder Lowerer::Err(const DiagDef& def, Span at, std::string message) {
  DiagBuilder report = diags_.ReportText(def, at, std::move(message));
  // The whole way for short chains; both ends of long ones.
  for (size_t i = frames_.size(); i-- > 1;)
    if (frames_[i].call.known() && (i < 2 || i + 3 > frames_.size()))
      report.Label(frames_[i].call, fmt::format("in `{}`, called here", frames_[i].fn->name.text));
  return report;
}

// ---- Scopes ------------------------------------------------------------------------------------

Local* Lowerer::Lookup(const std::string& name) {
  auto& scopes = frames_.back().scopes;
  for (size_t i = scopes.size(); i-- > 0;)
    if (const auto it = scopes[i].find(name); it != scopes[i].end()) return &it->second;
  return nullptr;
}

bool Lowerer::Declare(const lang::Name& name, LocalKind kind, Val val) {
  if (name.text == "inf" || name.text == "nan") {
    Report(kReservedName, name.span, name.text);
    return false;
  }
  if (Local* old = Lookup(name.text)) {
    if (old->kind == LocalKind::kPoison) {
      *old = {kind, std::move(val), name.span};
      return true;
    }
    DiagBuilder report = Report(kAlreadyDeclared, name.span, name.text);
    report.Label(old->at, fmt::format("{} declared here", Describe(old->kind)));
    if (old->kind == LocalKind::kVar && kind != LocalKind::kLoop && kind != LocalKind::kParallel)
      report.Help(fmt::format("to assign it, write `{} = …`", name.text));
    else
      report.Help("choose another name");
    return false;
  }
  frames_.back().scopes.back()[name.text] = {kind, std::move(val), name.span};
  return true;
}

void Lowerer::Poison(const lang::Name& name) {
  if (!Lookup(name.text))
    frames_.back().scopes.back()[name.text] = {LocalKind::kPoison, {}, name.span};
}

std::vector<std::string> Lowerer::NamesInScope() const {
  std::vector<std::string> out;
  for (const auto& scope : frames_.back().scopes)
    for (const auto& [name, local] : scope) out.push_back(name);
  for (const auto& [name, ref] : program_.modules[frames_.back().module].visible)
    if (program_.item(ref).As<lang::ConstItem>()) out.push_back(name);
  return out;
}

void Lowerer::Push(ir::BlockId block) {
  blocks_.push_back(block);
  b_.SetBlock(block);
}
void Lowerer::Pop() {
  blocks_.pop_back();
  b_.SetBlock(blocks_.back());
}

// ---- Emission ----------------------------------------------------------------------------------

ValueFacts& Lowerer::facts(ValueId v) {
  if (facts_.size() <= static_cast<size_t>(v.index))
    facts_.resize(static_cast<size_t>(v.index) + 1);
  return facts_[static_cast<size_t>(v.index)];
}

bool Lowerer::OverBudget(Span at) {
  if (over_budget_) return true;
  if (fn_.ops.size() < kMaxOps && evaluations_ < kMaxEvaluations) return false;
  over_budget_ = true;
  Report(kTooLarge, at, fn_.name, fmt::format("expands to more than {} operations", fn_.ops.size()))
      .Help("use a loop instead of repeated calls");
  return true;
}

bool Lowerer::TooDeep(Span at) {
  if (depth_ <= kMaxDepth) return false;
  if (!over_budget_) Report(kTooLarge, at, fn_.name, "nests too deeply once functions are inlined");
  return over_budget_ = true;
}

ir::OpId Lowerer::EmitOp(Span at, OpKind kind, std::vector<ValueId> operands,
                         std::vector<Type> results, ir::Attrs attrs) {
  b_.SetSpan(at);
  uint64_t deps = 0;
  for (ValueId v : operands) deps |= facts(v).deps;
  const ir::OpId op = b_.Add(kind, std::move(operands), std::move(results), std::move(attrs));
  for (ValueId r : fn_.ops[op].results) facts(r).deps = deps;
  return op;
}
ValueId Lowerer::Emit(Span at, OpKind kind, std::vector<ValueId> operands, Type t,
                      ir::Attrs attrs) {
  const ir::OpId op = EmitOp(at, kind, std::move(operands), {std::move(t)}, std::move(attrs));
  return fn_.ops[op].results[0];
}

ValueId Lowerer::Cached(const std::string& key, const std::function<ValueId()>& make) {
  auto& entries = cache_[key];
  for (const auto& [block, value] : entries)
    for (ir::BlockId open : blocks_)
      if (open == block) return value;
  const ValueId v = make();
  cache_[key].emplace_back(b_.block(), v);
  return v;
}

ValueId Lowerer::IntValue(Span at, int64_t v, DType d) {
  return ConstantValue(at, Constant{v, d}, d);
}

ValueId Lowerer::ConstantValue(Span at, const Constant& c, DType d, const Shape& shape) {
  ir::AttrValue value;
  if (ir::IsFloat(d))
    value = c.as_double();
  else
    value = c.is_bool()  ? int64_t{c.as_bool()}
            : c.is_int() ? c.as_int()
                         : static_cast<int64_t>(c.as_double());
  const Type t = Type::Tile(d, shape);
  if (!shape.empty()) return Emit(at, OpKind::kConstant, {}, t, {{"value", value}});
  const std::string key =
      fmt::format("c {} {} {}", Spelling(d), ToText(c.value), std::signbit(c.as_double()));
  const ValueId v = Cached(key, [&] {
    return Emit(at, OpKind::kConstant, {}, t, {{"value", value}});
  });
  if (ir::IsInteger(d) && !c.is_large()) {
    facts(v).position = true;
    SetSymbol(v, Expr::Const(c.as_int()));
  }
  return v;
}

Val Lowerer::Value(ValueId v, Span at) const {
  Val out;
  out.kind = Val::Kind::kValue;
  out.v = v;
  out.at = at;
  return out;
}
Val Lowerer::ConstVal(Constant c, Span at) const {
  Val out;
  out.c = c;
  out.at = at;
  return out;
}

Expr Lowerer::SymbolOf(const Val& v) {
  if (v.is_const()) return Expr::Const(v.c.is_int() ? v.c.as_int() : 0);
  if (v.is_value()) {
    const ValueFacts& f = facts(v.v);
    return f.has_symbol ? f.symbol : Expr::Name(fmt::format("%{}", v.v.index));
  }
  return Expr::Name("%?");
}
uint64_t Lowerer::DepsOf(const Val& v) { return v.is_value() ? facts(v.v).deps : 0; }
bool Lowerer::IsPosition(const Val& v) {
  if (v.is_const()) return v.c.is_int();
  return v.is_value() && facts(v.v).position;
}
void Lowerer::SetSymbol(ValueId v, Expr e) {
  if (NodeCount(e, kMaxSymbolNodes) > kMaxSymbolNodes) return;
  facts(v).has_symbol = true;
  facts(v).symbol = std::move(e);
}

Shape Lowerer::ShapeOf(const Val& v) const { return v.is_value() ? type(v.v).shape : Shape{}; }

DType Lowerer::DefaultDType(const Constant& c) const {
  if (c.dtype) return *c.dtype;
  if (!c.is_int()) return c.is_bool() ? DType::kBool : DType::kF32;
  return c.integer_only || !FitsInteger(c.as_int(), DType::kI32) ? DType::kI64 : DType::kI32;
}

std::string Lowerer::DescribeType(const Type& t, const std::vector<std::string>& names) {
  std::string out = Spelling(t.dtype);
  if (t.shape.empty()) return out;
  out += '[';
  for (size_t i = 0; i < t.shape.size(); ++i) {
    const std::string name = i < names.size() ? names[i] : "";
    out += (i ? ", " : "") +
           (name.empty() || name == std::to_string(t.shape[i]) ? "" : name + " = ") +
           std::to_string(t.shape[i]);
  }
  return out + "]";
}

std::string Lowerer::DescribeVal(const Val& v) {
  switch (v.kind) {
    case Val::Kind::kConst: return Describe(v.c);
    case Val::Kind::kValue: return DescribeType(type(v.v), facts(v.v).dims);
    case Val::Kind::kRange:
      return fmt::format("a range of {}{}",
                         ranges_[v.index].name.empty() ? "" : ranges_[v.index].name + " = ",
                         ranges_[v.index].size);
    case Val::Kind::kTensor: return fmt::format("the tensor `{}`", fn_.params[v.index].name);
    case Val::Kind::kString: return "a string";
  }
  return "";
}

void Lowerer::LabelOrigin(DiagBuilder& report, lang::ExprId id, const Val& v) {
  report.Label(expr(id).span, fmt::format("this is {}", DescribeVal(v)));
  if (const auto* name = expr(id).As<lang::NameExpr>())
    if (const Local* local = Lookup(name->name); local && local->at.known())
      report.Label(local->at, fmt::format("`{}` is declared here", name->name));
}

// ---- Kernels -----------------------------------------------------------------------------------

Result<ir::Function> LowerKernel(const ProgramData& program, const SettledKernel& kernel,
                                 const LowerOptions& options, DiagSink& diags) {
  return Lowerer(program, kernel.sig.kernel, options, diags)
      .Kernel(kernel.sig, kernel.kernel, kernel.statics, kernel.request);
}

Result<> CheckFn(const ProgramData& program, ItemRef fn, const LowerOptions& options,
                 DiagSink& diags) {
  return Lowerer(program, program.item(fn).As<lang::FnItem>()->name.text, options, diags)
      .StandInFn(fn);
}

}  // namespace tilec::frontend
