// Writes a file's items and statements as lines. The canonical layout: two columns per block, one
// statement per line, at most one blank line between statements (kept from the source), exactly one
// around kernels, fns and tests, `where` of a signature on a line of its own, trailing comments two
// columns behind the code.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "language/format_expr.h"

namespace tilec::language {

using internal::Comments;
using internal::DocId;
using internal::DocStore;
using internal::ExprFormatter;

class Formatter {
 public:
  Formatter(const Ast& ast, std::string_view text)
      : ast_(ast), text_(text), comments_(ast, text), exprs_(ast, text, docs_, comments_) {}

  std::string Run();

 private:
  DocId Text(std::string text) { return docs_.Text(std::move(text)); }

  void BlankLineBefore(uint32_t begin) {
    const bool wanted = comments_.NewlinesBetween(last_end_, begin) >= 2 || force_blank_;
    if (wanted && !first_in_block_) out_ += '\n';
    force_blank_ = first_in_block_ = false;
  }
  void Indent() { out_.append(static_cast<size_t>(indent_) * 2, ' '); }
  // Comments on lines of their own before `offset`.
  void OwnLineComments(uint32_t offset) {
    while (comments_.PendingBefore(offset)) {
      const Comment comment = comments_.Take();
      BlankLineBefore(comment.span.begin);
      Indent();
      out_ += comments_.Text(comment) + "\n";
      last_end_ = std::max(last_end_, comment.span.end);
    }
  }
  void HoistedComments() {
    for (const Comment& comment : comments_.TakeHoisted()) {
      Indent();
      out_ += comments_.Text(comment) + "\n";
      last_end_ = std::max(last_end_, comment.span.end);
    }
  }
  // Ends the line of code that ended at `end` in the source; `limit` is where the next begins.
  void EndLine(uint32_t end, uint32_t limit) {
    last_end_ = std::max(last_end_, end);
    while (comments_.PendingBefore(limit) && comments_.TrailsAfter(last_end_)) {
      const Comment comment = comments_.Take();
      out_ += "  " + comments_.Text(comment);
      last_end_ = std::max(last_end_, comment.span.end);
      if (!comment.block) break;
    }
    out_ += '\n';
  }
  void Write(DocId doc) {
    Indent();
    out_ += docs_.Render(doc, indent_ * 2);
  }
  // A statement's or item's line(s): its comments are hoisted in front of it.
  void WriteHead(DocId doc, uint32_t end) {
    comments_.HoistUntil(end);
    BeforeCode();
    Write(doc);
  }
  void BeforeCode() {
    HoistedComments();
    if (pins_.valid()) Write(std::exchange(pins_, DocId())), out_ += '\n';
  }
  template <typename StmtOrItem>
  uint32_t Begin(const StmtOrItem& node) const {
    return node.pins.empty() ? node.span.begin : node.pins[0].span.begin;
  }
  // ` {` has been written; writes the statements and the closing brace without a newline.
  // `after_brace` is a comment to stand behind the opening brace.
  void Body(BlockId id, std::optional<Comment> after_brace = std::nullopt);
  void Pins(const std::vector<Pin>& pins, uint32_t begin);
  void Statement(const Stmt& stmt, uint32_t limit);
  void If(const IfStmt& stmt);
  void Item(const tilec::language::Item& item, uint32_t limit);
  void Signature(std::string head, const Name& name, const std::vector<Param>& params, Span list,
                 const FnItem* fn, const std::vector<ExprId>& facts, BlockId body);
  std::vector<DocId> Return(ExprFormatter& exprs, const ReturnStmt& stmt);
  static std::string Types(const std::vector<TypeParam>& types);
  DocId Instance(const InstanceItem& item);
  DocId Results(ExprFormatter& exprs, const FnItem& fn);
  void Test(const tilec::language::Item& item, const TestItem& test);
  DocId Case(const TestCase& test);
  std::optional<std::string> ShortFn(const tilec::language::Item& item);
  DocId Raw(Span span) {
    return Text(std::string(text_.substr(span.begin, span.end - span.begin)));
  }

  const Ast& ast_;
  std::string_view text_;
  DocStore docs_;
  Comments comments_;
  ExprFormatter exprs_;
  std::string out_;
  DocId pins_;  // `#[…]` to be written before the next line of code
  int indent_ = 0;
  uint32_t last_end_ = 0;  // of what has been written, in the source
  bool first_in_block_ = true;
  bool force_blank_ = false;
};

}  // namespace tilec::language
