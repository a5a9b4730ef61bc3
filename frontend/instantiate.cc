// SPDX-License-Identifier: Apache-2.0
#include "frontend/instantiate.h"

#include <map>
#include <set>

#include "frontend/internal.h"

namespace tilec::frontend {

using lang::BlockId;
using lang::ExprId;
using lang::Overloaded;
using lang::StmtId;

namespace {

constexpr size_t kMostInstances = 64;

// What one instance says about the names of its kernel.
struct Choice {
  std::map<std::string, std::string> dtypes;  // of type parameters
  std::map<std::string, bool> given;          // of optional tensors
  std::string suffix;                         // of the kernel's name
};

// Copies what a kernel is made of, with dtypes and `given(…)` put in.
class Copier {
 public:
  Copier(lang::Ast& ast, const Choice& choice) : ast_(ast), choice_(choice) {}

  ExprId Copy(ExprId id) {
    if (!id.valid()) return id;
    lang::Expr e = ast_.expr(id);
    if (const std::optional<bool> given = Given(e)) {
      e.node = lang::BoolExpr{*given};
      return ast_.Add(std::move(e));
    }
    std::visit(Overloaded{
                   [](lang::IntExpr&) {},
                   [](lang::FloatExpr&) {},
                   [](lang::StringExpr&) {},
                   [](lang::BoolExpr&) {},
                   [&](lang::NameExpr& x) { Replace(x.name); },  // bitcast(x, T)
                   [&](lang::UnaryExpr& x) { x.operand = Copy(x.operand); },
                   [&](lang::BinaryExpr& x) {
                     x.lhs = Copy(x.lhs);
                     x.rhs = Copy(x.rhs);
                   },
                   [&](lang::CastExpr& x) {
                     x.operand = Copy(x.operand);
                     Replace(x.dtype.text);
                   },
                   [&](lang::CallExpr& x) {
                     for (lang::Arg& arg : x.args) arg.value = Copy(arg.value);
                   },
                   [&](lang::IndexExpr& x) {
                     x.base = Copy(x.base);
                     for (lang::IndexItem& item : x.items) item.value = Copy(item.value);
                     x.fill = Copy(x.fill);
                   },
                   [&](lang::MemberExpr& x) { x.object = Copy(x.object); },
                   [&](lang::IfExpr& x) {
                     for (lang::IfExprArm& arm : x.arms) {
                       arm.condition = Copy(arm.condition);
                       arm.value = Copy(arm.value);
                     }
                     x.else_value = Copy(x.else_value);
                   },
                   [&](lang::RangeExpr& x) {
                     x.lo = Copy(x.lo);
                     x.hi = Copy(x.hi);
                     x.step = Copy(x.step);
                   },
                   [&](lang::SetExpr& x) {
                     for (ExprId& value : x.values) value = Copy(value);
                   },
               },
               e.node);
    return ast_.Add(std::move(e));
  }

  void Copy(lang::TypeRef& type) {
    Replace(type.dtype.text);
    for (ExprId& dim : type.dims) dim = Copy(dim);
  }

  BlockId Copy(BlockId id) {
    if (!id.valid()) return id;
    lang::Block block = ast_.block(id);
    for (StmtId& s : block.stmts) s = Copy(s);
    return ast_.Add(std::move(block));
  }

  StmtId Copy(StmtId id) {
    lang::Stmt s = ast_.stmt(id);
    for (lang::Pin& pin : s.pins) pin.value = Copy(pin.value);
    std::visit(Overloaded{
                   [&](lang::LetStmt& x) {
                     if (x.type) Copy(*x.type);
                     x.value = Copy(x.value);
                   },
                   [&](lang::AssignStmt& x) {
                     x.target = Copy(x.target);
                     x.value = Copy(x.value);
                   },
                   [&](lang::ForStmt& x) {
                     x.head.range = Copy(x.head.range);
                     x.body = Copy(x.body);
                   },
                   [&](lang::ParallelStmt& x) {
                     for (lang::LoopHead& head : x.heads) head.range = Copy(head.range);
                     x.body = Copy(x.body);
                   },
                   [&](lang::WhileStmt& x) {
                     x.condition = Copy(x.condition);
                     x.body = Copy(x.body);
                   },
                   [&](lang::IfStmt& x) {
                     for (lang::IfArm& arm : x.arms) {
                       arm.condition = Copy(arm.condition);
                       arm.body = Copy(arm.body);
                     }
                     x.else_body = Copy(x.else_body);
                   },
                   [&](lang::TuneStmt& x) {
                     x.value = Copy(x.value);
                     x.set = Copy(x.set);
                   },
                   [&](lang::WhereStmt& x) {
                     for (ExprId& fact : x.facts) fact = Copy(fact);
                   },
                   [&](lang::ReturnStmt& x) {
                     x.value = Copy(x.value);
                     for (ExprId& value : x.more) value = Copy(value);
                   },
                   [](lang::BreakStmt&) {},
                   [&](lang::ExprStmt& x) { x.value = Copy(x.value); },
               },
               s.node);
    return ast_.Add(std::move(s));
  }

  lang::KernelItem Copy(lang::KernelItem k) {
    std::erase_if(k.params, [&](const lang::Param& p) {
      return p.optional && !choice_.given.at(p.name.text);
    });
    for (lang::Param& p : k.params) {
      p.optional = false;
      Copy(p.type);
      p.default_value = Copy(p.default_value);
    }
    for (ExprId& fact : k.facts) fact = Copy(fact);
    k.body = Copy(k.body);
    k.name.text += choice_.suffix;
    k.types.clear();
    return k;
  }

 private:
  void Replace(std::string& name) const {
    if (const auto it = choice_.dtypes.find(name); it != choice_.dtypes.end()) name = it->second;
  }
  // `given(bias)` of an optional tensor.
  std::optional<bool> Given(const lang::Expr& e) const {
    const auto* call = e.As<lang::CallExpr>();
    if (!call || call->callee.text != "given" || call->args.size() != 1 || call->args[0].name)
      return std::nullopt;
    const auto* name = ast_.expr(call->args[0].value).As<lang::NameExpr>();
    const auto it = name ? choice_.given.find(name->name) : choice_.given.end();
    if (it == choice_.given.end()) return std::nullopt;
    return it->second;
  }

  lang::Ast& ast_;
  const Choice& choice_;
};

// Every combination; nullopt after a report.
std::optional<std::vector<Choice>> ChoicesOf(const lang::KernelItem& kernel, DiagSink& diags) {
  std::vector<Choice> all(1);
  const int before = diags.errors();
  std::set<std::string> names;
  for (const lang::TypeParam& type : kernel.types) {
    if (ir::DTypeFromSpelling(type.name.text))
      diags.Report(kTypeParam, type.span, type.name.text, "is an element type")
          .Help("choose a name of your own: `T`");
    if (!names.insert(type.name.text).second)
      diags.Report(kTypeParam, type.span, type.name.text, "is declared twice");
    if (type.choices.empty())
      diags.Report(kTypeParam, type.span, type.name.text, "has no choices")
          .Help(fmt::format("write `{} in {{bf16, f16}}`", type.name.text));
    std::vector<Choice> more;
    for (const lang::Name& dtype : type.choices) {
      (void)ResolveDType(dtype, diags);
      for (Choice choice : all) {
        choice.dtypes[type.name.text] = dtype.text;
        choice.suffix += "_" + dtype.text;
        more.push_back(std::move(choice));
      }
    }
    all = std::move(more);
    if (all.size() > kMostInstances) break;
  }
  for (const lang::Param& p : kernel.params) {
    if (!p.optional || all.size() > kMostInstances) continue;
    if (!p.type.has_dims())
      diags.Report(kParamForm, p.span, p.name.text, "is a scalar and `optional`")
          .Help("give it a default: `x: const f32 = 0`");
    const size_t without = all.size();
    for (size_t i = 0; i < without; ++i) {
      Choice with = all[i];
      all[i].given[p.name.text] = false;
      with.given[p.name.text] = true;
      with.suffix += "_" + p.name.text;
      all.push_back(std::move(with));
    }
  }
  if (all.size() > kMostInstances)
    diags
        .Report(kTypeParam, kernel.name.span, kernel.name.text,
                fmt::format("stands for more than {} kernels", kMostInstances))
        .Help("leave choices out, or write two kernels");
  if (diags.errors() > before) return std::nullopt;
  return all;
}

}  // namespace

Result<> Instantiate(lang::Ast& ast, DiagSink& diags) {
  std::vector<lang::ItemId> items;
  const int before = diags.errors();
  for (lang::ItemId id : ast.items) {
    const auto* kernel = ast.item(id).As<lang::KernelItem>();
    bool several = kernel && !kernel->types.empty();
    if (kernel)
      for (const lang::Param& p : kernel->params) several |= p.optional;
    if (!several) {
      items.push_back(id);
      continue;
    }
    const std::optional<std::vector<Choice>> choices = ChoicesOf(*kernel, diags);
    if (!choices) continue;
    for (const Choice& choice : *choices) {
      lang::Item copy = ast.item(id);  // adding moves items
      copy.node = Copier(ast, choice).Copy(std::get<lang::KernelItem>(copy.node));
      items.push_back(ast.Add(std::move(copy)));
    }
  }
  ast.items = std::move(items);
  if (diags.errors() > before) return DiagSink::Propagate();
  return Done();
}

}  // namespace tilec::frontend
