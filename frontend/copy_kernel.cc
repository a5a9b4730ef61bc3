// SPDX-License-Identifier: Apache-2.0
#include "frontend/copy_kernel.h"

#include <optional>

namespace tilec::frontend {

using lang::BlockId;
using lang::ExprId;
using lang::Overloaded;
using lang::StmtId;

namespace {

// Copies what a kernel is made of.
class Copier {
 public:
  Copier(const lang::Ast& from, lang::Ast& to, const KernelChoice& choice)
      : from_(from), to_(to), choice_(choice) {}

  ExprId Copy(ExprId id) {
    if (!id.valid()) return id;
    lang::Expr e = from_.expr(id);  // a copy: adding moves what is there
    if (const std::optional<bool> given = Given(e)) {
      e.node = lang::BoolExpr{*given};
      return to_.Add(std::move(e));
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
                   [&](lang::CallExpr& x) { CopyCall(x); },
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
    return to_.Add(std::move(e));
  }

  void Copy(lang::TypeRef& type) {
    Replace(type.dtype.text);
    for (ExprId& dim : type.dims) dim = Copy(dim);
  }

  BlockId Copy(BlockId id) {
    if (!id.valid()) return id;
    lang::Block block = from_.block(id);
    for (StmtId& s : block.stmts) s = Copy(s);
    return to_.Add(std::move(block));
  }

  StmtId Copy(StmtId id) {
    lang::Stmt s = from_.stmt(id);
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
    return to_.Add(std::move(s));
  }

  lang::KernelItem Copy(lang::KernelItem k) {
    const auto given = [&](const lang::Param& p) {
      const auto it = choice_.given.find(p.name.text);
      return it == choice_.given.end() ? nullptr : &it->second;
    };
    std::erase_if(k.params, [&](const lang::Param& p) { return given(p) && !*given(p); });
    for (lang::Param& p : k.params) {
      p.optional &= given(p) == nullptr;
      Copy(p.type);
      p.default_value = Copy(p.default_value);
    }
    for (ExprId& fact : k.facts) fact = Copy(fact);
    k.body = Copy(k.body);
    k.name.text += choice_.suffix;
    std::erase_if(k.types, [&](const lang::TypeParam& t) {
      return choice_.dtypes.count(t.name.text) + choice_.fns.count(t.name.text) != 0;
    });
    return k;
  }

 private:
  void CopyCall(lang::CallExpr& call) {
    for (lang::Arg& arg : call.args) arg.value = Copy(arg.value);
    const auto it = choice_.fns.find(call.callee.text);
    if (it == choice_.fns.end()) return;
    call.callee.text = it->second.callee;
    for (const std::string& name : it->second.more) {
      lang::Expr value;
      value.span = call.callee.span;
      value.node = lang::NameExpr{name};
      lang::Arg arg;
      arg.span = call.callee.span;
      arg.value = to_.Add(std::move(value));
      call.args.push_back(std::move(arg));
    }
  }
  void Replace(std::string& name) const {
    if (const auto it = choice_.dtypes.find(name); it != choice_.dtypes.end()) name = it->second;
  }
  // `given(bias)` of an optional tensor.
  std::optional<bool> Given(const lang::Expr& e) const {
    const auto* call = e.As<lang::CallExpr>();
    if (!call || call->callee.text != "given" || call->args.size() != 1 || call->args[0].name)
      return std::nullopt;
    const auto* name = from_.expr(call->args[0].value).As<lang::NameExpr>();
    const auto it = name ? choice_.given.find(name->name) : choice_.given.end();
    if (it == choice_.given.end()) return std::nullopt;
    return it->second;
  }

  const lang::Ast& from_;
  lang::Ast& to_;
  const KernelChoice& choice_;
};

}  // namespace

lang::KernelItem CopyKernel(const lang::Ast& from, lang::Ast& to, const KernelChoice& choice,
                            lang::KernelItem kernel) {
  return Copier(from, to, choice).Copy(std::move(kernel));
}

void CopyType(const lang::Ast& from, lang::Ast& to, lang::TypeRef& type) {
  const KernelChoice nothing;
  Copier(from, to, nothing).Copy(type);
}

}  // namespace tilec::frontend
