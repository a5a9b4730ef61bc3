// The tree as text, for tests and for comparing trees: everything but places and comments.
//
// Expressions are written as (operator operands…), which shows precedence; parentheses of the
// source are kept as a mark so that formatting cannot drop them unseen.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "language/format.h"

namespace tilec::language {
namespace {

class Dumper {
 public:
  explicit Dumper(const Ast& ast) : ast_(ast) {}

  std::string Run() {
    for (ItemId id : ast_.items) DumpItem(ast_.item(id));
    return std::move(out_);
  }

 private:
  void Line(std::string_view text) {
    out_.append(static_cast<size_t>(indent_) * 2, ' ');
    out_ += text;
    out_ += '\n';
  }

  std::string Opt(std::string_view label, ExprId id) const {
    return id.valid() ? fmt::format("{}{}", label, Str(id)) : std::string();
  }

  std::string List(const std::vector<ExprId>& ids) const {
    std::string text;
    for (ExprId id : ids) text += (text.empty() ? "" : " ") + Str(id);
    return text;
  }

  std::string Str(ExprId id) const {
    if (!id.valid()) return "<absent>";
    const Expr& e = ast_.expr(id);
    std::string text = std::visit(
        Overloaded{
            [](const IntExpr& n) { return fmt::format("{}", n.value); },
            [](const FloatExpr& n) { return fmt::format("f{}", n.value); },
            [](const StringExpr& n) { return fmt::format("\"{}\"", n.value); },
            [](const BoolExpr& n) { return std::string(n.value ? "true" : "false"); },
            [](const NameExpr& n) { return n.name; },
            [&](const UnaryExpr& n) {
              return fmt::format("({} {})", Spelling(n.op), Str(n.operand));
            },
            [&](const BinaryExpr& n) {
              return fmt::format("({} {} {})", Spelling(n.op), Str(n.lhs), Str(n.rhs));
            },
            [&](const CastExpr& n) {
              return fmt::format("(as {} {})", n.dtype.text, Str(n.operand));
            },
            [&](const CallExpr& n) {
              std::string call = fmt::format("(call {}", n.callee.text);
              for (const Arg& arg : n.args) {
                call += ' ';
                if (arg.name) call += arg.name->text + "=";
                call += Str(arg.value);
              }
              return call + ")";
            },
            [&](const IndexExpr& n) {
              std::string index = fmt::format("(index {}", Str(n.base));
              for (const IndexItem& item : n.items) {
                switch (item.kind) {
                  case IndexKind::kExpr: index += " " + Str(item.value); break;
                  case IndexKind::kAll: index += " :"; break;
                  case IndexKind::kNone: index += " None"; break;
                }
              }
              return index + Opt(" fill=", n.fill) + ")";
            },
            [&](const MemberExpr& n) {
              return fmt::format("(. {} {})", Str(n.object), n.member.text);
            },
            [&](const IfExpr& n) {
              std::string text = "(if";
              for (const IfExprArm& arm : n.arms)
                text += fmt::format(" {} {}", Str(arm.condition), Str(arm.value));
              return fmt::format("{} {})", text, Str(n.else_value));
            },
            [&](const RangeExpr& n) {
              return fmt::format("(.. {} {}{})", Str(n.lo), Str(n.hi), Opt(" step=", n.step));
            },
            [&](const SetExpr& n) { return fmt::format("(set {})", List(n.values)); },
        },
        e.node);
    return e.parens ? "'" + text : text;
  }

  std::string Str(const TypeRef& type) const {
    std::string text = type.dtype.text;
    if (type.has_dims()) text += "[" + List(type.dims) + "]";
    if (type.strided_any) text += " strided(any)";
    return text;
  }
  std::string Str(const std::optional<TypeRef>& type) const { return type ? Str(*type) : "_"; }
  std::string Str(const LoopHead& head) const {
    return fmt::format("{} {}", head.name.text, Str(head.range));
  }

  void DumpPins(const std::vector<Pin>& pins) {
    for (const Pin& pin : pins) Line(fmt::format("pin {}{}", pin.name.text, Opt(" = ", pin.value)));
  }
  void DumpBlock(BlockId id) {
    ++indent_;
    for (StmtId stmt : ast_.block(id).stmts) DumpStmt(ast_.stmt(stmt));
    --indent_;
  }
  void DumpStmt(const Stmt& stmt);
  void DumpTypes(const std::vector<TypeParam>& types);
  void DumpItem(const Item& item);
  void DumpSignature(std::string_view word, const Name& name, const std::vector<Param>& params,
                     const std::vector<ExprId>& facts);

  const Ast& ast_;
  std::string out_;
  int indent_ = 0;
};

void Dumper::DumpStmt(const Stmt& stmt) {
  DumpPins(stmt.pins);
  std::visit(
      Overloaded{
          [&](const LetStmt& s) {
            std::string names = s.name.text;
            for (const Name& name : s.more) names += ", " + name.text;
            Line(fmt::format("{} {}: {} = {}", s.is_var ? "var" : "let", names, Str(s.type),
                             Str(s.value)));
          },
          [&](const AssignStmt& s) {
            Line(fmt::format("{} {} {}", Str(s.target), Spelling(s.op), Str(s.value)));
          },
          [&](const ForStmt& s) {
            Line(fmt::format("for {}", Str(s.head)));
            DumpBlock(s.body);
          },
          [&](const ParallelStmt& s) {
            std::string heads;
            for (const LoopHead& head : s.heads) heads += " " + Str(head);
            Line(fmt::format("parallel{}", heads));
            DumpBlock(s.body);
          },
          [&](const WhileStmt& s) {
            Line(fmt::format("while {}", Str(s.condition)));
            DumpBlock(s.body);
          },
          [&](const IfStmt& s) {
            for (const IfArm& arm : s.arms) {
              Line(fmt::format("if {}", Str(arm.condition)));
              DumpBlock(arm.body);
            }
            if (!s.else_body.valid()) return;
            Line("else");
            DumpBlock(s.else_body);
          },
          [&](const TuneStmt& s) {
            Line(fmt::format("tune {} = {}{}", s.name.text, Str(s.value), Opt(" in ", s.set)));
          },
          [&](const WhereStmt& s) { Line(fmt::format("where {}", List(s.facts))); },
          [&](const ReturnStmt& s) {
            std::string values = Str(s.value);
            for (ExprId v : s.more) values += ", " + Str(v);
            Line(fmt::format("return {}", values));
          },
          [&](const BreakStmt&) { Line("break"); },
          [&](const ExprStmt& s) { Line(Str(s.value)); },
      },
      stmt.node);
}

void Dumper::DumpSignature(std::string_view word, const Name& name,
                           const std::vector<Param>& params, const std::vector<ExprId>& facts) {
  Line(fmt::format("{} {}", word, name.text));
  for (const Param& p : params) {
    const char* direction = p.direction == Direction::kOut     ? "out "
                            : p.direction == Direction::kInOut ? "inout "
                                                               : "";
    Line(fmt::format("param {}: {}{}{}{}{}", p.name.text, p.optional ? "optional " : "", direction,
                     p.is_const ? "const " : "", Str(p.type), Opt(" = ", p.default_value)));
  }
  for (ExprId fact : facts) Line(fmt::format("fact {}", Str(fact)));
}

void Dumper::DumpTypes(const std::vector<TypeParam>& types) {
  for (const TypeParam& t : types) {
    std::string choices;
    for (const Name& c : t.choices) choices += " " + c.text;
    Line(fmt::format("{} {}{}", t.is_fn ? "fn" : "type", t.name.text, choices));
  }
}

void Dumper::DumpItem(const Item& item) {
  DumpPins(item.pins);
  std::visit(Overloaded{
                 [&](const KernelItem& k) {
                   DumpSignature("kernel", k.name, k.params, k.facts);
                   DumpTypes(k.types);
                   DumpBlock(k.body);
                 },
                 [&](const FnItem& f) {
                   DumpSignature("fn", f.name, f.params, f.facts);
                   DumpTypes(f.types);
                   Line(fmt::format("result {}", Str(f.result)));
                   for (const TypeRef& type : f.more_results)
                     Line(fmt::format("result {}", Str(std::optional<TypeRef>(type))));
                   DumpBlock(f.body);
                 },
                 [&](const ConstItem& c) {
                   Line(fmt::format("const {}: {} = {}", c.name.text, Str(c.type), Str(c.value)));
                 },
                 [&](const InstanceItem& i) {
                   Line(fmt::format("kernel {} = {}", i.name.text, i.of.text));
                   for (const Binding& b : i.bindings)
                     Line(fmt::format("  {} = {}", b.name.text, b.value.text));
                 },
                 [&](const ImportItem& i) { Line(fmt::format("import {}", i.path)); },
                 [&](const TestItem& t) {
                   std::string words;
                   for (const Name& word : t.words) words += " " + word.text;
                   Line(fmt::format("test {}{}", t.name, words));
                   for (const TestCase& c : t.cases) {
                     words.clear();
                     for (const Name& word : c.words) words += " " + word.text;
                     Line(fmt::format("  {}{}{}", Str(c.call), Opt(" ~ ", c.tolerance), words));
                   }
                 },
             },
             item.node);
}

}  // namespace

std::string DumpAst(const Ast& ast) { return Dumper(ast).Run(); }

}  // namespace tilec::language
