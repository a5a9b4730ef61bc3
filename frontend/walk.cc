// Walks over syntax trees that only collect: names in expressions, expressions of statements.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontend/internal.h"

namespace tilec::frontend {

using lang::ExprId;
using lang::Overloaded;

void VisitExprs(const lang::Ast& ast, ExprId id, const std::function<void(ExprId)>& visit) {
  if (!id.valid()) return;
  visit(id);
  auto go = [&](ExprId child) { VisitExprs(ast, child, visit); };
  std::visit(Overloaded{
                 [](const lang::IntExpr&) {},
                 [](const lang::FloatExpr&) {},
                 [](const lang::StringExpr&) {},
                 [](const lang::BoolExpr&) {},
                 [](const lang::NameExpr&) {},
                 [&](const lang::UnaryExpr& x) { go(x.operand); },
                 [&](const lang::BinaryExpr& x) {
                   go(x.lhs);
                   go(x.rhs);
                 },
                 [&](const lang::CastExpr& x) { go(x.operand); },
                 [&](const lang::CallExpr& x) {
                   for (const lang::Arg& a : x.args) go(a.value);
                 },
                 [&](const lang::IndexExpr& x) {
                   go(x.base);
                   for (const lang::IndexItem& item : x.items) go(item.value);
                   go(x.fill);
                 },
                 [&](const lang::MemberExpr& x) { go(x.object); },
                 [&](const lang::IfExpr& x) {
                   for (const lang::IfExprArm& arm : x.arms) {
                     go(arm.condition);
                     go(arm.value);
                   }
                   go(x.else_value);
                 },
                 [&](const lang::RangeExpr& x) {
                   go(x.lo);
                   go(x.hi);
                   go(x.step);
                 },
                 [&](const lang::SetExpr& x) {
                   for (ExprId v : x.values) go(v);
                 },
             },
             ast.expr(id).node);
}

void CollectNames(const lang::Ast& ast, ExprId id,
                  const std::function<void(const std::string&, Span)>& visit) {
  VisitExprs(ast, id, [&](ExprId e) {
    if (const auto* name = ast.expr(e).As<lang::NameExpr>()) visit(name->name, ast.expr(e).span);
  });
}

void VisitItems(const lang::Ast& ast, const std::function<void(const std::string&, Span)>& visit) {
  for (int32_t i = 0; i < ast.expr_count(); ++i) {
    const lang::Expr& e = ast.expr(ExprId(i));
    if (const auto* name = e.As<lang::NameExpr>()) visit(name->name, e.span);
    if (const auto* call = e.As<lang::CallExpr>()) visit(call->callee.text, call->callee.span);
  }
  for (lang::ItemId id : ast.items)
    if (const auto* instance = ast.item(id).As<lang::InstanceItem>()) {
      visit(instance->of.text, instance->of.span);
      for (const lang::Binding& b : instance->bindings) visit(b.value.text, b.value.span);
    }
}

void VisitStmtExprs(const lang::Stmt& stmt, const std::function<void(ExprId)>& visit) {
  auto type = [&](const std::optional<lang::TypeRef>& t) {
    if (t)
      for (ExprId d : t->dims) visit(d);
  };
  std::visit(Overloaded{
                 [&](const lang::LetStmt& s) {
                   type(s.type);
                   visit(s.value);
                 },
                 [&](const lang::AssignStmt& s) {
                   visit(s.target);
                   visit(s.value);
                 },
                 [&](const lang::ForStmt& s) { visit(s.head.range); },
                 [&](const lang::ParallelStmt& s) {
                   for (const lang::LoopHead& h : s.heads) visit(h.range);
                 },
                 [&](const lang::WhileStmt& s) { visit(s.condition); },
                 [&](const lang::IfStmt& s) {
                   for (const lang::IfArm& arm : s.arms) visit(arm.condition);
                 },
                 [&](const lang::TuneStmt& s) {
                   visit(s.value);
                   if (s.set.valid()) visit(s.set);
                 },
                 [&](const lang::WhereStmt& s) {
                   for (ExprId f : s.facts) visit(f);
                 },
                 [&](const lang::ReturnStmt& s) {
                   if (s.value.valid()) visit(s.value);
                   for (ExprId v : s.more) visit(v);
                 },
                 [](const lang::BreakStmt&) {},
                 [&](const lang::ExprStmt& s) { visit(s.value); },
             },
             stmt.node);
}

void VisitStmts(const lang::Ast& ast, lang::BlockId id,
                const std::function<void(const lang::Stmt&)>& visit) {
  if (!id.valid()) return;
  for (lang::StmtId s : ast.block(id).stmts) VisitStmt(ast, ast.stmt(s), visit);
}

void VisitStmt(const lang::Ast& ast, const lang::Stmt& stmt,
               const std::function<void(const lang::Stmt&)>& visit) {
  auto go = [&](lang::BlockId child) { VisitStmts(ast, child, visit); };
  visit(stmt);
  std::visit(Overloaded{
                 [](const lang::LetStmt&) {},
                 [](const lang::AssignStmt&) {},
                 [&](const lang::ForStmt& x) { go(x.body); },
                 [&](const lang::ParallelStmt& x) { go(x.body); },
                 [&](const lang::WhileStmt& x) { go(x.body); },
                 [&](const lang::IfStmt& x) {
                   for (const lang::IfArm& arm : x.arms) go(arm.body);
                   go(x.else_body);
                 },
                 [](const lang::TuneStmt&) {},
                 [](const lang::WhereStmt&) {},
                 [](const lang::ReturnStmt&) {},
                 [](const lang::BreakStmt&) {},
                 [](const lang::ExprStmt&) {},
             },
             stmt.node);
}

}  // namespace tilec::frontend
