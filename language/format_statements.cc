// Statements as lines, in their blocks.
//
// SPDX-License-Identifier: Apache-2.0
#include "language/format_lines.h"

#include <fmt/format.h>

#include <algorithm>

#include "language/format.h"
#include "language/format_expr.h"

namespace tilec::language {

void Formatter::Body(BlockId id, std::optional<Comment> after_brace) {
  const Block& block = ast_.block(id);
  if (block.stmts.empty() && !after_brace && !comments_.has_hoisted() &&
      !comments_.PendingBefore(block.span.end)) {
    out_ += '}';
    return;
  }
  if (after_brace) {
    out_ += "  " + comments_.Text(*after_brace) + "\n";
    last_end_ = std::max(last_end_, block.span.begin + 1);
  } else {
    EndLine(block.span.begin + 1,
            block.stmts.empty() ? block.span.end : Begin(ast_.stmt(block.stmts[0])));
  }
  ++indent_;
  first_in_block_ = true;
  HoistedComments();  // of an `else if` condition: there is no place before the statement
  for (size_t i = 0; i < block.stmts.size(); ++i) {
    const bool last = i + 1 == block.stmts.size();
    Statement(ast_.stmt(block.stmts[i]),
              last ? block.span.end : Begin(ast_.stmt(block.stmts[i + 1])));
  }
  OwnLineComments(block.span.end);
  first_in_block_ = false;
  --indent_;
  Indent();
  out_ += '}';
}

// Several `#[…]` become one; comments in and between them go before it.
void Formatter::Pins(const std::vector<Pin>& pins, uint32_t begin) {
  if (pins.empty()) return;
  comments_.HoistUntil(begin);
  std::vector<ExprFormatter::Entry> entries;
  for (const Pin& pin : pins)
    entries.push_back({pin.span, [this, &pin] { return exprs_.Format(pin); }});
  pins_ = exprs_.List("#[", entries, "]", {ast_.file, pins[0].span.begin, begin});
}

void Formatter::If(const IfStmt& stmt) {
  for (size_t i = 0; i < stmt.arms.size(); ++i) {
    const IfArm& arm = stmt.arms[i];
    const uint32_t brace = ast_.block(arm.body).span.begin;
    const DocId head = docs_.Concat(
        {Text(i == 0 ? "if " : " else if "), exprs_.Format(arm.condition), Text(" {")});
    if (i == 0) {
      WriteHead(head, brace);
    } else {
      comments_.HoistUntil(brace);
      out_ += docs_.Render(head, indent_ * 2 + 1);
    }
    Body(arm.body);
  }
  if (!stmt.else_body.valid()) return;
  comments_.HoistUntil(ast_.block(stmt.else_body).span.begin);
  out_ += " else {";
  Body(stmt.else_body);
}

void Formatter::Statement(const Stmt& stmt, uint32_t limit) {
  OwnLineComments(Begin(stmt));
  BlankLineBefore(Begin(stmt));
  Pins(stmt.pins, stmt.span.begin);
  const auto line = [&](std::vector<DocId> parts) {
    WriteHead(docs_.Concat(std::move(parts)), stmt.span.end);
  };
  const auto with_block = [&](std::vector<DocId> parts, BlockId body) {
    parts.push_back(Text(" {"));
    WriteHead(docs_.Concat(std::move(parts)), ast_.block(body).span.begin);
    Body(body);
  };
  std::visit(
      Overloaded{
          [&](const LetStmt& s) {
            std::vector<DocId> parts = {Text((s.is_var ? "var " : "let ") + s.name.text)};
            for (const Name& name : s.more) parts.push_back(Text(", " + name.text));
            if (s.type) parts.insert(parts.end(), {Text(": "), exprs_.Format(*s.type)});
            parts.insert(parts.end(), {Text(" = "), exprs_.Format(s.value)});
            line(std::move(parts));
          },
          [&](const AssignStmt& s) {
            const DocId target = exprs_.Format(s.target);
            line({target, Text(fmt::format(" {} ", Spelling(s.op))), exprs_.Format(s.value)});
          },
          [&](const ForStmt& s) {
            with_block({Text("for "), exprs_.Format(s.head)}, s.body);
          },
          [&](const ParallelStmt& s) {
            std::vector<ExprFormatter::Entry> heads;
            for (const LoopHead& head : s.heads)
              heads.push_back({head.span, [this, &head] { return exprs_.Format(head); }});
            const Span span = Join(s.heads.front().span, s.heads.back().span);
            with_block({exprs_.List("parallel ", heads, "", span)}, s.body);
          },
          [&](const WhileStmt& s) {
            with_block({Text("while "), exprs_.Format(s.condition)}, s.body);
          },
          [&](const IfStmt& s) { If(s); },
          [&](const TuneStmt& s) {
            std::vector<DocId> parts = {Text("tune " + s.name.text + " = "),
                                        exprs_.Format(s.value)};
            if (s.set.valid()) parts.insert(parts.end(), {Text(" in "), exprs_.Format(s.set)});
            line(std::move(parts));
          },
          [&](const WhereStmt& s) { line({exprs_.ExprList("where ", s.facts, "", stmt.span)}); },
          [&](const ReturnStmt& s) { line(Return(exprs_, s)); },
          [&](const BreakStmt&) { line({Text("break")}); },
          [&](const ExprStmt& s) { line({exprs_.Format(s.value)}); },
      },
      stmt.node);
  EndLine(stmt.span.end, limit);
}

// `return a, b`
std::vector<DocId> Formatter::Return(ExprFormatter& exprs, const ReturnStmt& stmt) {
  std::vector<DocId> parts = {Text("return "), exprs.Format(stmt.value)};
  for (ExprId value : stmt.more) parts.insert(parts.end(), {Text(", "), exprs.Format(value)});
  return parts;
}

}  // namespace tilec::language
