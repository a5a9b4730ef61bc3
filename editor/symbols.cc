// SPDX-License-Identifier: Apache-2.0
#include "editor/symbols.h"

#include <algorithm>
#include <map>

namespace tilec::editor {

using language::Ast;
using language::BlockId;
using language::ExprId;
using language::ItemId;
using language::Overloaded;

const char* Spelling(SymbolKind kind) {
  switch (kind) {
    case SymbolKind::kKernel: return "kernel";
    case SymbolKind::kFunction: return "fn";
    case SymbolKind::kConst: return "const";
    case SymbolKind::kTensor: return "tensor";
    case SymbolKind::kScalar: return "parameter";
    case SymbolKind::kDim: return "dim";
    case SymbolKind::kTune: return "tune";
    case SymbolKind::kLet: return "let";
    case SymbolKind::kVar: return "var";
    case SymbolKind::kLoop: return "range";
  }
  return "";
}

namespace {

class Walker {
 public:
  Walker(const Ast& ast, std::string_view text) : ast_(ast), text_(text) {}

  SymbolTable Run() {
    scopes_.emplace_back();
    for (ItemId id : ast_.items) DeclareItem(id);
    for (ItemId id : ast_.items)
      if (!IsTest(id)) Item(id);
    for (ItemId id : ast_.items)  // their calls name what kernels declare
      if (IsTest(id)) Item(id);
    for (Symbol& symbol : table_.symbols) {
      std::sort(symbol.uses.begin(), symbol.uses.end(),
                [](Span a, Span b) { return a.begin < b.begin; });
      const auto same = [](Span a, Span b) { return a.begin == b.begin; };
      symbol.uses.erase(std::unique(symbol.uses.begin(), symbol.uses.end(), same),
                        symbol.uses.end());
    }
    return std::move(table_);
  }

 private:
  using Scope = std::map<std::string, size_t, std::less<>>;

  size_t Declare(SymbolKind kind, const language::Name& name, Span whole, Span scope,
                 ExprId value = {}) {
    table_.symbols.push_back({kind, name.text, name.span, whole, scope, item_, value, {name.span}});
    const size_t index = table_.symbols.size() - 1;
    scopes_.back()[name.text] = index;
    return index;
  }

  void DeclareItem(ItemId id) {
    item_ = id;
    const language::Item& item = ast_.item(id);
    const Span file{ast_.file, 0, UINT32_MAX};
    if (const auto* k = item.As<language::KernelItem>())
      Declare(SymbolKind::kKernel, k->name, item.span, file);
    if (const auto* i = item.As<language::InstanceItem>())
      Declare(SymbolKind::kKernel, i->name, item.span, file);
    if (const auto* f = item.As<language::FnItem>())
      Declare(SymbolKind::kFunction, f->name, item.span, file);
    if (const auto* c = item.As<language::ConstItem>())
      Declare(SymbolKind::kConst, c->name, item.span, file, c->value);
  }

  bool IsTest(ItemId id) const { return ast_.item(id).As<language::TestItem>() != nullptr; }

  void Item(ItemId id) {
    item_ = id;
    const language::Item& item = ast_.item(id);
    std::visit(Overloaded{[&](const language::KernelItem& k) {
                            Callable(item, k.params, k.facts, k.body);
                            of_kernel_[k.name.text] = scopes_.back();
                            scopes_.pop_back();
                          },
                          [&](const language::FnItem& f) {
                            Callable(item, f.params, f.facts, f.body);
                            scopes_.pop_back();
                          },
                          [&](const language::ConstItem& c) { Expr(c.value); },
                          [&](const language::ImportItem&) {},
                          [&](const language::InstanceItem& i) { Instance(i); },
                          [&](const language::TestItem& t) {
                            for (const language::TestCase& c : t.cases) {
                              Expr(c.call);
                              Expr(c.tolerance);
                            }
                          }},
               item.node);
  }

  void Instance(const language::InstanceItem& i) {
    Use(i.of.text, i.of.span);
    for (const language::Binding& b : i.bindings) Use(b.value.text, b.value.span);
  }

  // Leaves its scope open: the caller keeps or drops it.
  void Callable(const language::Item& item, const std::vector<language::Param>& params,
                const std::vector<ExprId>& facts, BlockId body) {
    scopes_.emplace_back();
    // A parameter hides a dim of its name, wherever it stands: `fn f(x: f32[N], N: i32)`.
    for (const language::Param& p : params)
      Declare(p.type.has_dims() ? SymbolKind::kTensor : SymbolKind::kScalar, p.name, p.span,
              item.span, p.default_value);
    for (const language::Param& p : params) {
      for (ExprId dim : p.type.dims) {
        const language::Expr& e = ast_.expr(dim);
        const auto* name = e.As<language::NameExpr>();
        if (name && !Find(name->name))
          Declare(SymbolKind::kDim, {name->name, e.span}, e.span, item.span);
        else
          Expr(dim);
      }
      Expr(p.default_value);
    }
    for (ExprId fact : facts) Expr(fact);
    Statements(body);
  }

  void Block(BlockId id) {
    if (!id.valid()) return;
    scopes_.emplace_back();
    Statements(id);
    scopes_.pop_back();
  }

  void Statements(BlockId id) {
    const language::Block& block = ast_.block(id);
    for (language::StmtId s : block.stmts) Statement(ast_.stmt(s), block.span);
  }

  void Statement(const language::Stmt& s, Span block) {
    for (const language::Pin& pin : s.pins) Expr(pin.value);
    const Span rest{s.span.file, s.span.end, block.end};
    std::visit(Overloaded{[&](const language::LetStmt& let) {
                            if (let.type)
                              for (ExprId dim : let.type->dims) Expr(dim);
                            Expr(let.value);  // the name is not seen in its own value
                            Declare(let.is_var ? SymbolKind::kVar : SymbolKind::kLet, let.name,
                                    s.span, rest, let.value);
                            for (const language::Name& name : let.more)
                              Declare(SymbolKind::kLet, name, s.span, rest, let.value);
                          },
                          [&](const language::AssignStmt& a) {
                            Expr(a.target);
                            Expr(a.value);
                          },
                          [&](const language::ForStmt& f) { Loop({f.head}, f.body); },
                          [&](const language::ParallelStmt& p) { Loop(p.heads, p.body); },
                          [&](const language::WhileStmt& w) {
                            Expr(w.condition);
                            Block(w.body);
                          },
                          [&](const language::IfStmt& i) {
                            for (const language::IfArm& arm : i.arms) {
                              Expr(arm.condition);
                              Block(arm.body);
                            }
                            Block(i.else_body);
                          },
                          [&](const language::TuneStmt& t) {
                            Expr(t.value);
                            Expr(t.set);
                            Declare(SymbolKind::kTune, t.name, s.span, rest, t.value);
                          },
                          [&](const language::WhereStmt& w) {
                            for (ExprId fact : w.facts) Expr(fact);
                          },
                          [&](const language::ReturnStmt& r) {
                            Expr(r.value);
                            for (ExprId value : r.more) Expr(value);
                          },
                          [](const language::BreakStmt&) {},
                          [&](const language::ExprStmt& e) { Expr(e.value); }},
               s.node);
  }

  void Loop(const std::vector<language::LoopHead>& heads, BlockId body) {
    for (const language::LoopHead& head : heads) Expr(head.range);
    scopes_.emplace_back();
    for (const language::LoopHead& head : heads)
      Declare(SymbolKind::kLoop, head.name, head.span, ast_.block(body).span);
    Statements(body);
    scopes_.pop_back();
  }

  void Expr(ExprId id) {
    if (!id.valid()) return;
    const language::Expr& e = ast_.expr(id);
    std::visit(Overloaded{[&](const language::IntExpr&) {}, [&](const language::FloatExpr&) {},
                          [&](const language::StringExpr&) {}, [&](const language::BoolExpr&) {},
                          [&](const language::NameExpr& n) { Use(n.name, e.span); },
                          [&](const language::UnaryExpr& u) { Expr(u.operand); },
                          [&](const language::BinaryExpr& b) {
                            Expr(b.lhs);
                            Expr(b.rhs);
                          },
                          [&](const language::CastExpr& c) { Expr(c.operand); },
                          [&](const language::CallExpr& c) { Call(c); },
                          [&](const language::IndexExpr& i) {
                            Expr(i.base);
                            for (const language::IndexItem& item : i.items) Expr(item.value);
                            Expr(i.fill);
                          },
                          [&](const language::MemberExpr& m) { Expr(m.object); },
                          [&](const language::IfExpr& i) {
                            for (const language::IfExprArm& arm : i.arms) {
                              Expr(arm.condition);
                              Expr(arm.value);
                            }
                            Expr(i.else_value);
                          },
                          [&](const language::RangeExpr& r) {
                            Expr(r.lo);
                            Expr(r.hi);
                            Expr(r.step);
                          },
                          [&](const language::SetExpr& s) {
                            for (ExprId v : s.values) Expr(v);
                          }},
               e.node);
  }

  void Call(const language::CallExpr& call) {
    Use(call.callee.text, call.callee.span);
    const auto kernel = of_kernel_.find(call.callee.text);
    for (const language::Arg& arg : call.args) {
      if (arg.name && kernel != of_kernel_.end()) {
        const auto named = kernel->second.find(arg.name->text);
        if (named != kernel->second.end())
          table_.symbols[named->second].uses.push_back(arg.name->span);
      }
      Expr(arg.value);
    }
  }

  std::optional<size_t> Find(const std::string& name) const {
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
      const auto it = scope->find(name);
      if (it != scope->end()) return it->second;
    }
    return std::nullopt;
  }
  void Use(const std::string& name, Span at) {
    const auto symbol = Find(name);
    if (!symbol) return;
    // A span includes the parentheses around a name.
    const size_t begin = text_.find(name, at.begin);
    if (begin == std::string_view::npos || begin >= at.end) return;
    const auto first = static_cast<uint32_t>(begin);
    const auto length = static_cast<uint32_t>(name.size());
    table_.symbols[*symbol].uses.push_back({at.file, first, first + length});
  }

  const Ast& ast_;
  std::string_view text_;
  SymbolTable table_;
  std::vector<Scope> scopes_;
  std::map<std::string, Scope> of_kernel_;  // parameters, dims and tunes of kernels above
  ItemId item_;
};

}  // namespace

const Symbol* SymbolTable::At(uint32_t offset, Span* use) const {
  for (const Symbol& symbol : symbols)
    for (const Span& at : symbol.uses)
      if (at.begin <= offset && offset <= at.end) {
        if (use) *use = at;
        return &symbol;
      }
  return nullptr;
}

std::vector<const Symbol*> SymbolTable::VisibleAt(uint32_t offset) const {
  std::vector<const Symbol*> out;
  for (const Symbol& symbol : symbols)
    if (symbol.scope.begin <= offset && offset <= symbol.scope.end) out.push_back(&symbol);
  std::stable_sort(out.begin(), out.end(), [](const Symbol* a, const Symbol* b) {
    return a->scope.end - a->scope.begin < b->scope.end - b->scope.begin;
  });
  return out;
}

SymbolTable BuildSymbols(const Ast& ast, std::string_view text) { return Walker(ast, text).Run(); }

}  // namespace tilec::editor
