// What a kernel looks like from outside: its parameters, which dims they bind, and which names have
// to be known when it is compiled.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontend/internal.h"

namespace tilec::frontend {

using ir::DType;
using lang::ExprId;

Result<DType> ResolveDType(const lang::Name& name, DiagSink& diags) {
  if (const std::optional<DType> d = ir::DTypeFromSpelling(name.text)) return *d;
  std::vector<std::string> all;
#define DTYPE(Name, spelling, bits, cls, acc) all.push_back(spelling);
#include "ir/dtypes.def"
#undef DTYPE
  static constexpr std::pair<const char*, const char*> kOthers[] = {
      {"float", "f32"},   {"half", "f16"},    {"double", "f64"},  {"int", "i32"},
      {"long", "i64"},    {"float32", "f32"}, {"float16", "f16"}, {"bfloat16", "bf16"},
      {"float64", "f64"}, {"int8", "i8"},     {"int32", "i32"},   {"int64", "i64"},
      {"uint8", "u8"},    {"uint32", "u32"},  {"fp16", "f16"},    {"fp32", "f32"},
      {"fp8", "e4m3"},    {"f8", "e4m3"},     {"float8", "e4m3"}, {"boolean", "bool"},
      {"s32", "i32"},     {"s8", "i8"},       {"fp64", "f64"},    {"char", "i8"},
      {"e2m1", "e2m1x2"}, {"fp4", "e2m1x2"},  {"e8m0", "ue8m0"}};
  for (const auto& [from, to] : kOthers)
    if (name.text == from)
      return diags.Report(kUnknownDType, name.span, name.text)
          .Help(fmt::format("did you mean `{}`?", to));
  return Suggest(diags.Report(kUnknownDType, name.span, name.text), name.text, all);
}

std::vector<ExprId> FactsOf(const lang::Ast& ast, const lang::KernelItem& kernel) {
  std::vector<ExprId> facts = kernel.facts;
  for (lang::StmtId id : ast.block(kernel.body).stmts)
    if (const auto* where = ast.stmt(id).As<lang::WhereStmt>())
      facts.insert(facts.end(), where->facts.begin(), where->facts.end());
  return facts;
}

namespace {

std::optional<Expr::Op> LaunchOp(lang::BinaryOp op) {
  switch (op) {
    case lang::BinaryOp::kOr: return Expr::Op::kOr;
    case lang::BinaryOp::kAnd: return Expr::Op::kAnd;
    case lang::BinaryOp::kEq: return Expr::Op::kEq;
    case lang::BinaryOp::kNe: return Expr::Op::kNe;
    case lang::BinaryOp::kLt: return Expr::Op::kLt;
    case lang::BinaryOp::kLe: return Expr::Op::kLe;
    case lang::BinaryOp::kGt: return Expr::Op::kGt;
    case lang::BinaryOp::kGe: return Expr::Op::kGe;
    case lang::BinaryOp::kAdd: return Expr::Op::kAdd;
    case lang::BinaryOp::kSub: return Expr::Op::kSub;
    case lang::BinaryOp::kMul: return Expr::Op::kMul;
    case lang::BinaryOp::kDiv: return Expr::Op::kDiv;
    case lang::BinaryOp::kMod: return Expr::Op::kMod;
    case lang::BinaryOp::kIn:
    case lang::BinaryOp::kMatMul: return std::nullopt;
  }
  return std::nullopt;
}

struct ExprReader {
  const ProgramData& program;
  int module;
  const lang::Ast& ast;
  const std::function<bool(const std::string&)>& is_integer_name;
  std::string* why;

  std::optional<Expr> Fail(std::string text) {
    if (why && why->empty()) *why = std::move(text);
    return std::nullopt;
  }
  std::optional<Expr> Read(ExprId id) {
    const lang::Expr& e = ast.expr(id);
    if (const auto* x = e.As<lang::IntExpr>()) {
      if (x->value > static_cast<uint64_t>(INT64_MAX)) return Fail("it does not fit in 64 bits");
      return Expr::Const(static_cast<int64_t>(x->value));
    }
    if (const auto* x = e.As<lang::BoolExpr>()) return Expr::Const(x->value ? 1 : 0);
    if (const auto* x = e.As<lang::NameExpr>()) {
      if (is_integer_name(x->name)) return Expr::Name(x->name);
      if (const ItemRef* ref = program.Find(module, x->name)) {
        const auto it = program.constants.find(*ref);
        if (it != program.constants.end() && it->second.is_int())
          return Expr::Const(it->second.as_int());
        return Fail(fmt::format("`{}` is not an integer", x->name));
      }
      return Fail(fmt::format("`{}` is not an integer known at launch", x->name));
    }
    if (const auto* x = e.As<lang::UnaryExpr>()) {
      std::optional<Expr> a = Read(x->operand);
      if (!a) return std::nullopt;
      if (x->op == lang::UnaryOp::kNot) return Expr::Not(std::move(*a));
      return Expr::Make(Expr::Op::kSub, Expr::Const(0), std::move(*a));
    }
    if (const auto* x = e.As<lang::BinaryExpr>()) {
      if (x->op == lang::BinaryOp::kIn) return ReadIn(*x);
      const std::optional<Expr::Op> op = LaunchOp(x->op);
      if (!op) return Fail("`@` needs tiles");
      std::optional<Expr> a = Read(x->lhs), b = Read(x->rhs);
      if (!a || !b) return std::nullopt;
      return Expr::Make(*op, std::move(*a), std::move(*b));
    }
    if (const auto* x = e.As<lang::CallExpr>()) {
      const std::string& name = x->callee.text;
      if (x->args.size() == 2 && (name == "min" || name == "max" || name == "cdiv")) {
        std::optional<Expr> a = Read(x->args[0].value), b = Read(x->args[1].value);
        if (!a || !b) return std::nullopt;
        return Expr::Make(name == "min"   ? Expr::Op::kMin
                          : name == "max" ? Expr::Op::kMax
                                          : Expr::Op::kCeilDiv,
                          std::move(*a), std::move(*b));
      }
      return Fail(fmt::format("`{}(…)` cannot be evaluated at launch", name));
    }
    if (e.As<lang::FloatExpr>()) return Fail("it has a floating-point number");
    return Fail("only names, integers and arithmetic can stand here");
  }
  std::optional<Expr> ReadIn(const lang::BinaryExpr& in) {
    std::optional<Expr> value = Read(in.lhs);
    if (!value) return std::nullopt;
    const lang::Expr& set = ast.expr(in.rhs);
    if (const auto* range = set.As<lang::RangeExpr>()) {
      std::optional<Expr> lo = Read(range->lo), hi = Read(range->hi);
      if (!lo || !hi) return std::nullopt;
      Expr all = Expr::Make(Expr::Op::kAnd, Expr::Make(Expr::Op::kGe, *value, *lo),
                            Expr::Make(Expr::Op::kLe, *value, *hi));
      if (!range->step.valid()) return all;
      std::optional<Expr> step = Read(range->step);
      if (!step) return std::nullopt;
      Expr offset = Expr::Make(Expr::Op::kSub, *value, *lo);
      return Expr::Make(
          Expr::Op::kAnd, std::move(all),
          Expr::Make(Expr::Op::kEq, Expr::Make(Expr::Op::kMod, std::move(offset), *step),
                     Expr::Const(0)));
    }
    const auto* list = set.As<lang::SetExpr>();
    if (!list) return Fail("`in` needs a set `{…}` or a range");
    std::optional<Expr> any;
    for (ExprId id : list->values) {
      std::optional<Expr> v = Read(id);
      if (!v) return std::nullopt;
      Expr eq = Expr::Make(Expr::Op::kEq, *value, *v);
      any = any ? Expr::Make(Expr::Op::kOr, std::move(*any), std::move(eq)) : std::move(eq);
    }
    return any;
  }
};

struct SignatureBuilder {
  const ProgramData& program;
  ItemRef ref;
  const lang::KernelItem& kernel;
  const lang::Ast& ast;
  DiagSink& diags;
  Signature sig;
  std::map<std::string, Span> declared;

  void Declare(const lang::Name& name) {
    if (name.text == "inf" || name.text == "nan") diags.Report(kReservedName, name.span, name.text);
    const auto [it, fresh] = declared.emplace(name.text, name.span);
    if (!fresh)
      diags.Report(kAlreadyDeclared, name.span, name.text).Label(it->second, "declared here");
  }

  void Param(const lang::Param& p) {
    ParamInfo info;
    info.name = p.name.text;
    info.at = p.name.span;
    Declare(p.name);
    auto bad = [&](const char* text, const char* help) {
      diags.Report(kParamForm, p.span, p.name.text, text).Help(help);
    };
    const Result<DType> dtype = ResolveDType(p.type.dtype, diags);
    if (dtype.ok()) info.dtype = *dtype;
    info.strided_any = p.type.strided_any;
    switch (p.direction) {
      case lang::Direction::kIn: info.direction = ir::Direction::kIn; break;
      case lang::Direction::kOut: info.direction = ir::Direction::kOut; break;
      case lang::Direction::kInOut: info.direction = ir::Direction::kInOut; break;
    }
    if (p.type.has_dims()) {
      info.role = ParamRole::kTensor;
      if (p.is_const) bad("is a tensor and `const`", "only scalars can be compile-time parameters");
      if (p.default_value.valid()) bad("is a tensor with a default", "remove the default");
      if (p.type.dims.size() > 8) bad("has more than 8 dims", "flatten some of them");
    } else {
      info.role = p.is_const ? ParamRole::kConst : ParamRole::kScalar;
      if (p.direction != lang::Direction::kIn)
        bad("is a scalar and cannot be written", "give it a dim: `f32[1]`");
      if (p.type.strided_any) bad("is a scalar and has no strides", "remove `strided(any)`");
      if (p.default_value.valid() && dtype.ok()) {
        ConstEval eval(program, ref.module, Env(), diags);
        Result<Constant> value =
            eval.Eval(p.default_value, fmt::format("the default of `{}`", p.name.text));
        const Span at = ast.expr(p.default_value).span;
        if (value.ok()) value = CheckedValue(p.name.text, value->value, *dtype, at, diags);
        if (value.ok()) info.default_value = value->value;
      }
    }
    sig.params.push_back(std::move(info));
  }

  ConstEnv Env() {
    return [this](const std::string& name) -> NameValue {
      if (const TuneInfo* t = sig.tune(name)) {
        if (!t->default_value) return {NameState::kRuntime, {}};
        return {NameState::kValue, ToConstant(*t->default_value)};
      }
      if (const ParamInfo* p = sig.param(name)) {
        if (p->role == ParamRole::kConst && p->default_value)
          return {NameState::kValue, ToConstant(*p->default_value)};
        return {NameState::kRuntime, {}};
      }
      if (sig.dim(name)) return {NameState::kRuntime, {}};
      return {};
    };
  }

  bool IsIntegerName(const std::string& name) const {
    if (sig.dim(name) || sig.tune(name)) return true;
    const ParamInfo* p = sig.param(name);
    return p && p->role != ParamRole::kTensor &&
           (ir::IsInteger(p->dtype) || p->dtype == DType::kBool);
  }

  void Dims() {
    auto is_tune = [&](const std::string& name) {
      for (lang::StmtId id : ast.block(kernel.body).stmts)
        if (const auto* t = ast.stmt(id).As<lang::TuneStmt>())
          if (t->name.text == name) return true;
      return false;
    };
    for (const lang::Param& p : kernel.params)
      for (ExprId id : p.type.dims) {
        const auto* name = ast.expr(id).As<lang::NameExpr>();
        if (!name || sig.param(name->name) || sig.dim(name->name) || is_tune(name->name)) continue;
        const ItemRef* item = program.Find(ref.module, name->name);
        if (item && program.item(*item).As<lang::ConstItem>()) continue;
        sig.dims.push_back({name->name, ast.expr(id).span, false, {}});
        declared.emplace(name->name, ast.expr(id).span);
      }
    const std::function<bool(const std::string&)> accept = [&](const std::string& name) {
      return IsIntegerName(name) || is_tune(name);
    };
    for (size_t i = 0; i < kernel.params.size(); ++i)
      for (ExprId id : kernel.params[i].type.dims) {
        std::string unbound;
        Span unbound_at;
        CollectNames(ast, id, [&](const std::string& name, Span at) {
          if (!sig.Has(name) && !is_tune(name) && !program.Find(ref.module, name) &&
              unbound.empty()) {
            unbound = name;
            unbound_at = at;
          }
        });
        if (!unbound.empty()) {
          diags.Report(kUnboundDim, unbound_at, unbound)
              .Help(fmt::format("write it alone in some tensor, or add `{}: i64`", unbound));
          continue;
        }
        std::string why;
        std::optional<Expr> e = ToExpr(program, ref.module, id, accept, &why);
        if (!e) {
          diags.Report(kDimExpression, ast.expr(id).span, why);
          continue;
        }
        sig.params[i].dims.push_back(Simplify(*e));
      }
  }

  void Tune(const lang::TuneStmt& t) {
    TuneInfo info;
    info.name = t.name.text;
    info.at = t.name.span;
    Declare(t.name);
    // What depends on values given later is evaluated by ResolveStatics.
    bool later = false;
    auto look = [&](const std::string& name, Span) {
      const NameValue v = Env()(name);
      later |= v.state == NameState::kRuntime;
    };
    CollectNames(ast, t.value, look);
    if (!later) {
      ConstEval eval(program, ref.module, Env(), diags);
      const Result<Constant> value =
          eval.Eval(t.value, fmt::format("the default of tune `{}`", info.name));
      if (value.ok()) info.default_value = value->value;
    }
    if (t.set.valid()) {
      later = false;
      CollectNames(ast, t.set, look);
      if (!later) {
        ConstEval eval(program, ref.module, Env(), diags);
        const Result<std::vector<Constant>> set = eval.EvalSet(t.set, info.name);
        if (set.ok()) {
          for (const Constant& c : *set) info.candidates.push_back(c.value);
          if (set->empty()) diags.Report(kTuneSet, ast.expr(t.set).span, info.name, "is empty");
        }
      }
    }
    sig.tunes.push_back(std::move(info));
  }

  Result<Signature> Run() {
    const int before = diags.errors();
    sig.kernel = kernel.name.text;
    sig.at = kernel.name.span;
    for (const lang::Param& p : kernel.params) Param(p);
    Dims();
    for (lang::StmtId id : ast.block(kernel.body).stmts)
      if (const auto* t = ast.stmt(id).As<lang::TuneStmt>()) Tune(*t);
    for (ExprId id : FactsOf(ast, kernel))
      sig.facts.push_back({program.TextOf(ast.expr(id).span), ast.expr(id).span});
    if (diags.errors() > before) return DiagSink::Propagate();
    const std::map<std::string, Span> uses = StaticUses(program, ref);
    for (DimInfo& d : sig.dims)
      if (const auto it = uses.find(d.name); it != uses.end()) {
        d.is_static = true;
        d.static_at = it->second;
      }
    const LoopLengths lengths = LengthsOfLoops(program, ref);
    for (DimInfo& d : sig.dims) {
      d.rows_again = lengths.rows_again.count(d.name) > 0;
      d.turns = lengths.turns.count(d.name) > 0;
    }
    return std::move(sig);
  }
};

}  // namespace

std::optional<Expr> ToExpr(const ProgramData& program, int module, ExprId id,
                           const std::function<bool(const std::string&)>& is_integer_name,
                           std::string* why) {
  return ExprReader{program, module, program.modules[module].ast, is_integer_name, why}.Read(id);
}

Result<Signature> BuildSignature(const ProgramData& program, ItemRef ref, DiagSink& diags) {
  const lang::KernelItem& kernel = KernelOf(program, ref);
  return SignatureBuilder{program, ref, kernel, program.modules[ref.module].ast, diags, {}, {}}
      .Run();
}

}  // namespace tilec::frontend
