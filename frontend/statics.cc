// Which names a kernel needs to know at compile time, and their values for one specialisation.
//
// A name is static by use: in a local tile type, at a `:` index of a tensor dim, as a tile size, a
// step, an axis, a const argument, in a static_assert. A `let` passes the property on to the names
// in its value.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "frontend/internal.h"
#include "frontend/poly.h"

namespace tilec::frontend {

using ir::DType;
using lang::ExprId;

namespace {

struct StaticScan {
  const ProgramData& program;
  ItemRef ref;
  const lang::Ast& ast;
  const lang::KernelItem& kernel;
  std::map<std::string, ExprId> lets;
  std::map<std::string, Span> uses;

  void Mark(ExprId id) {
    if (!id.valid()) return;
    CollectNames(ast, id, [&](const std::string& name, Span at) {
      if (!uses.emplace(name, at).second) return;
      if (const auto it = lets.find(name); it != lets.end()) Mark(it->second);
    });
  }
  void MarkType(const std::optional<lang::TypeRef>& type) {
    if (type)
      for (ExprId d : type->dims) Mark(d);
  }
  const lang::Param* Tensor(ExprId base) const {
    const auto* name = ast.expr(base).As<lang::NameExpr>();
    if (!name) return nullptr;
    for (const lang::Param& p : kernel.params)
      if (p.name.text == name->name && p.type.has_dims()) return &p;
    return nullptr;
  }

  // `lo..hi` as an index: what is left of hi − lo must be static.
  void RangeIndex(const lang::RangeExpr& range) {
    const std::function<bool(const std::string&)> any = [](const std::string&) { return true; };
    std::string why;
    const std::optional<Expr> lo = ToExpr(program, ref.module, range.lo, any, &why);
    const std::optional<Expr> hi = ToExpr(program, ref.module, range.hi, any, &why);
    if (!lo || !hi) return;
    const std::optional<Poly> size = ToPoly(Expr::Make(Expr::Op::kSub, *hi, *lo));
    if (!size) return;
    std::set<std::string> left;
    for (const auto& [monomial, factor] : size->terms)
      left.insert(monomial.begin(), monomial.end());
    for (ExprId side : {range.lo, range.hi})
      CollectNames(ast, side, [&](const std::string& name, Span at) {
        if (!left.count(name) || !uses.emplace(name, at).second) return;
        if (const auto it = lets.find(name); it != lets.end()) Mark(it->second);
      });
  }

  void Visit(ExprId root) {
    VisitExprs(ast, root, [&](ExprId id) {
      const lang::Expr& e = ast.expr(id);
      if (const auto* index = e.As<lang::IndexExpr>()) {
        const lang::Param* tensor = Tensor(index->base);
        size_t d = 0;
        for (const lang::IndexItem& item : index->items) {
          if (tensor && item.kind == lang::IndexKind::kAll && d < tensor->type.dims.size()) {
            CollectNames(ast, tensor->type.dims[d],
                         [&](const std::string& name, Span) { uses.emplace(name, item.span); });
          }
          if (tensor && item.kind == lang::IndexKind::kExpr)
            if (const auto* range = ast.expr(item.value).As<lang::RangeExpr>()) RangeIndex(*range);
          d += DimsOf(program, ref.module, ast, item);
        }
      } else if (const auto* call = e.As<lang::CallExpr>()) {
        Call(*call);
      }
    });
  }

  void Call(const lang::CallExpr& call) {
    const std::string& name = call.callee.text;
    if (name == "tiles" && call.args.size() >= 2) Mark(call.args[1].value);
    if (name == "static_assert" && !call.args.empty()) Mark(call.args[0].value);
    const ItemRef* item = program.Find(ref.module, name);
    const lang::FnItem* fn = item ? program.item(*item).As<lang::FnItem>() : nullptr;
    for (size_t i = 0; i < call.args.size(); ++i) {
      const lang::Arg& arg = call.args[i];
      if (arg.name && (arg.name->text == "axis" || arg.name->text == "promote")) Mark(arg.value);
      if (!fn) continue;
      for (size_t p = 0; p < fn->params.size(); ++p)
        if (fn->params[p].is_const &&
            (arg.name ? arg.name->text == fn->params[p].name.text : p == i))
          Mark(arg.value);
    }
  }

  void Run() {
    VisitStmts(ast, kernel.body, [&](const lang::Stmt& s) {
      if (const auto* let = s.As<lang::LetStmt>())
        if (!let->is_var) {
          lets.emplace(let->name.text, let->value);
          for (const lang::Name& name : let->more) lets.emplace(name.text, let->value);
        }
    });
    VisitStmts(ast, kernel.body, [&](const lang::Stmt& s) {
      VisitStmtExprs(s, [&](ExprId e) { Visit(e); });
      if (const auto* let = s.As<lang::LetStmt>()) MarkType(let->type);
      if (const auto* tune = s.As<lang::TuneStmt>()) {
        Mark(tune->value);
        Mark(tune->set);
      }
      auto head = [&](const lang::LoopHead& h) {
        if (const auto* range = ast.expr(h.range).As<lang::RangeExpr>()) Mark(range->step);
      };
      if (const auto* loop = s.As<lang::ForStmt>()) head(loop->head);
      if (const auto* grid = s.As<lang::ParallelStmt>())
        for (const lang::LoopHead& h : grid->heads) head(h);
    });
  }
};

}  // namespace

std::map<std::string, Span> StaticUses(const ProgramData& program, ItemRef ref) {
  StaticScan scan{program, ref, program.modules[ref.module].ast, KernelOf(program, ref), {}, {}};
  scan.Run();
  return std::move(scan.uses);
}

namespace {

// Which names bound loops, and which tensors those read, block by block.
struct RowScan {
  const ProgramData& program;
  const lang::Ast& ast;
  const lang::KernelItem& kernel;
  LoopLengths found;
  bool multiplies = false;

  bool IsTensor(const std::string& name) const {
    for (const lang::Param& p : kernel.params)
      if (p.name.text == name) return p.type.has_dims();
    return false;
  }
  void Look(ExprId root, std::set<std::string>* tensors) {
    VisitExprs(ast, root, [&](ExprId id) {
      const lang::Expr& e = ast.expr(id);
      if (const auto* binary = e.As<lang::BinaryExpr>())
        multiplies = multiplies || binary->op == lang::BinaryOp::kMatMul;
      if (const auto* call = e.As<lang::CallExpr>())
        multiplies = multiplies || call->callee.text == "dot" || call->callee.text == "dot_scaled";
      if (const auto* index = e.As<lang::IndexExpr>())
        if (const auto* name = ast.expr(index->base).As<lang::NameExpr>();
            name && IsTensor(name->name))
          tensors->insert(name->name);
    });
  }

  void Block(lang::BlockId block) {
    std::map<std::string, std::set<std::string>> read;  // by the name that bounds a loop
    for (lang::StmtId id : ast.block(block).stmts) {
      const auto* loop = ast.stmt(id).As<lang::ForStmt>();
      if (!loop) continue;
      ExprId end = loop->head.range;
      if (const auto* call = ast.expr(end).As<lang::CallExpr>();
          call && call->callee.text == "tiles" && !call->args.empty())
        end = call->args[0].value;
      if (const auto* range = ast.expr(end).As<lang::RangeExpr>()) end = range->hi;
      const auto* bound = ast.expr(end).As<lang::NameExpr>();
      if (!bound) continue;
      std::set<std::string> tensors;
      VisitStmts(ast, loop->body, [&](const lang::Stmt& s) {
        VisitStmtExprs(s, [&](ExprId e) { Look(e, &tensors); });
      });
      for (const std::string& tensor : tensors)
        if (!read[bound->name].insert(tensor).second) found.rows_again.insert(bound->name);
    }
  }

  void Run() {
    std::set<std::string> all;
    VisitStmts(ast, kernel.body, [&](const lang::Stmt& s) {
      VisitStmtExprs(s, [&](ExprId e) { Look(e, &all); });
      if (const auto* grid = s.As<lang::ParallelStmt>()) Block(grid->body);
      if (const auto* loop = s.As<lang::ForStmt>())
        if (const auto* range = ast.expr(loop->head.range).As<lang::RangeExpr>())
          if (const auto* bound = ast.expr(range->hi).As<lang::NameExpr>())
            found.turns.insert(bound->name);
    });
    if (multiplies) found = {};
  }
};

}  // namespace

LoopLengths LengthsOfLoops(const ProgramData& program, ItemRef ref) {
  RowScan scan{program, program.modules[ref.module].ast, KernelOf(program, ref), {}};
  scan.Run();
  return std::move(scan.found);
}

Constant ToConstant(const ConstValue& v) {
  return Constant{v, std::nullopt, std::holds_alternative<int64_t>(v)};
}

Result<Constant> CheckedValue(const std::string& name, const ConstValue& v, DType dtype, Span at,
                              DiagSink& diags) {
  const bool is_bool = std::holds_alternative<bool>(v);
  const bool is_int = std::holds_alternative<int64_t>(v);
  if (dtype == DType::kBool) {
    if (is_bool) return Constant{v, DType::kBool};
    if (is_int && (std::get<int64_t>(v) == 0 || std::get<int64_t>(v) == 1))
      return Constant{std::get<int64_t>(v) == 1, DType::kBool};
  } else if (ir::IsFloat(dtype)) {
    if (is_int) return Constant{static_cast<double>(std::get<int64_t>(v)), dtype};
    if (!is_bool) return Constant{RoundTo(std::get<double>(v), dtype), dtype};
  } else if (is_int) {
    if (!FitsInteger(std::get<int64_t>(v), dtype))
      return diags.Report(kLiteralRange, at, ToText(v), Spelling(dtype))
          .Note(fmt::format("it is the value of `{}`", name));
    return Loosened({v, dtype});
  }
  return diags.Report(kValueKind, at, name, Spelling(dtype), ToText(v));
}

namespace {

// What a tune is: given, or its default; of the kind of its default, and in its set.
Result<Constant> TuneValue(const Signature& sig, const lang::TuneStmt& tune, const Values& values,
                           const lang::Ast& ast, ConstEval& eval, DiagSink& diags) {
  const std::string& name = tune.name.text;
  const auto given = values.find(name);
  Result<Constant> value =
      given != values.end() ? Result<Constant>(ToConstant(given->second))
                            : eval.Eval(tune.value, fmt::format("the default of tune `{}`", name));
  if (!value.ok()) return value;
  if (value->is_int()) value->integer_only = true;
  if (given != values.end()) {
    // A tune keeps the kind of its default.
    const TuneInfo* info = sig.tune(name);
    const bool wants_bool =
        info->default_value && std::holds_alternative<bool>(*info->default_value);
    const bool wants_int =
        info->default_value && std::holds_alternative<int64_t>(*info->default_value);
    if ((wants_bool && !value->is_bool()) || (wants_int && !value->is_int())) {
      return diags.Report(kValueKind, info->at, name, wants_bool ? "a bool" : "an integer",
                          ToText(value->value));
    }
  }
  if (tune.set.valid()) {
    const Result<std::vector<Constant>> set = eval.EvalSet(tune.set, name);
    if (!set.ok()) return DiagSink::Propagate();
    bool found = false;
    for (const Constant& c : *set)
      found |= c.is_bool() == value->is_bool() && c.as_double() == value->as_double();
    if (!found) {
      DiagBuilder report = diags.Report(kTuneNotInSet, tune.name.span, name, ToText(value->value));
      report.Label(ast.expr(tune.set).span, "the set");
      if (given == values.end()) report.Note("this is its default");
      // The nearest member on either side, for help.
      const Constant* nearest = nullptr;
      for (const Constant& c : *set)
        if (!nearest || std::fabs(c.as_double() - value->as_double()) <
                            std::fabs(nearest->as_double() - value->as_double()))
          nearest = &c;
      if (nearest)
        report.Help(fmt::format("the nearest member is `{}={}`", name, ToText(nearest->value)));
      return report;
    }
  }
  return value;
}

}  // namespace

Result<Statics> ResolveStatics(const ProgramData& program, const Signature& sig, ItemRef ref,
                               const Values& values, DiagSink& diags) {
  const lang::Ast& ast = program.modules[ref.module].ast;
  const lang::KernelItem& kernel = KernelOf(program, ref);
  Statics out;
  const int before = diags.errors();
  for (const auto& [name, value] : values)
    if (!sig.Has(name)) {
      std::string all;
      for (const std::string& n : sig.names()) all += (all.empty() ? "`" : ", `") + n + "`";
      Suggest(diags.Report(kUnknownArgument, Span{}, sig.kernel, name)
                  .Label(sig.at, "this kernel has " + all),
              name, sig.names());
    }
  auto missing = [&](const std::string& name, Span at, Span use, const char* words) {
    DiagBuilder report = diags.Report(kMissingValue, at, name, sig.kernel);
    if (use.known()) report.Label(use, words);
    report.Help(fmt::format("give `{}=…`", name));
  };
  for (const DimInfo& d : sig.dims) {
    const auto it = values.find(d.name);
    if (!d.is_static && !(it != values.end() && d.Takes(it->second))) continue;
    if (it == values.end()) {
      missing(d.name, d.at, d.static_at, "this use makes it static");
    } else if (const int64_t* v = std::get_if<int64_t>(&it->second); !v || *v < 0) {
      diags.Report(kValueKind, d.at, d.name, "a dim", ToText(it->second));
    } else {
      out.values[d.name] = IntConstant(*v);
    }
  }
  for (const ParamInfo& p : sig.params) {
    if (p.role != ParamRole::kConst) continue;
    const auto it = values.find(p.name);
    if (it == values.end() && !p.default_value) {
      missing(p.name, p.at, {}, "");
      continue;
    }
    const Result<Constant> value = CheckedValue(
        p.name, it == values.end() ? *p.default_value : it->second, p.dtype, p.at, diags);
    if (value.ok()) out.values[p.name] = *value;
  }
  ConstEnv env = [&](const std::string& name) -> NameValue {
    const auto it = out.values.find(name);
    if (it != out.values.end()) return {NameState::kValue, it->second};
    return {sig.Has(name) ? NameState::kRuntime : NameState::kUnknown, {}};
  };
  for (lang::StmtId id : ast.block(kernel.body).stmts) {
    const auto* tune = ast.stmt(id).As<lang::TuneStmt>();
    if (!tune || diags.errors() > before) continue;
    ConstEval eval(program, ref.module, env, diags);
    const Result<Constant> value = TuneValue(sig, *tune, values, ast, eval, diags);
    if (value.ok()) out.values[tune->name.text] = *value;
  }
  for (const auto& [name, c] : out.values) {
    if (c.is_int()) out.integers[name] = c.as_int();
    if (c.is_bool()) out.integers[name] = c.as_bool() ? 1 : 0;
  }
  if (diags.errors() > before) return DiagSink::Propagate();
  return out;
}

Result<> CheckFactsOf(const ProgramData& program, const Signature& sig, ItemRef ref,
                      const std::map<std::string, Constant>& values, DiagSink& diags) {
  const lang::Ast& ast = program.modules[ref.module].ast;
  const int before = diags.errors();
  ConstEnv env = [&](const std::string& name) -> NameValue {
    const auto it = values.find(name);
    if (it == values.end()) return {sig.Has(name) ? NameState::kRuntime : NameState::kUnknown, {}};
    Constant c = it->second;
    c.dtype.reset();  // facts compare numbers, not types
    c.integer_only = false;
    return {NameState::kValue, c};
  };
  for (ExprId id : FactsOf(ast, KernelOf(program, ref))) {
    bool known = true;
    CollectNames(ast, id, [&](const std::string& name, Span) {
      known &= values.count(name) > 0 || !sig.Has(name);
    });
    if (!known) continue;
    const lang::Expr& e = ast.expr(id);
    ConstEval eval(program, ref.module, env, diags);
    const Result<Constant> holds = eval.Eval(id, "a fact");
    if (!holds.ok()) continue;
    if (!holds->is_bool()) {
      diags.Report(kFactForm, e.span, fmt::format("it is {}", Describe(*holds)))
          .Help("compare it with something");
    } else if (!holds->as_bool()) {
      std::string with;
      std::set<std::string> shown;
      CollectNames(ast, id, [&](const std::string& name, Span) {
        const NameValue v = env(name);
        if (v.state == NameState::kValue && shown.insert(name).second)
          with += fmt::format("{}{} = {}", with.empty() ? ": " : ", ", name, ToText(v.value.value));
      });
      diags.Report(kFactViolated, e.span, program.TextOf(e.span), with);
    }
  }
  if (diags.errors() > before) return DiagSink::Propagate();
  return Done();
}

}  // namespace tilec::frontend
