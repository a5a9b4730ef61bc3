// The formatter's half that turns expressions, types and lists into documents, and hands out
// comments in source order. Internal to language/.
//
// Every comment must come out exactly once. Comments between the entries of a list stay there, one
// entry per line; a comment anywhere else inside a statement has no place of its own in the
// canonical layout and is *hoisted*: it is written on a line before the statement.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "language/ast.h"
#include "language/doc.h"

namespace tilec::language::internal {

class Comments {
 public:
  Comments(const Ast& ast, std::string_view text) : all_(ast.comments), text_(text) {}

  // Of those not yet handed out.
  bool PendingBefore(uint32_t offset) const {
    return next_ < all_.size() && all_[next_].span.begin < offset;
  }
  // The next comment begins after `end` on the same line.
  bool TrailsAfter(uint32_t end) const;
  Comment Take() { return all_[next_++]; }
  void HoistUntil(uint32_t offset) {
    while (PendingBefore(offset)) hoisted_.push_back(Take());
  }
  bool AnyIn(Span span) const { return CountIn(span) > 0; }
  int CountIn(Span span) const;
  Comments Exhausted() const {
    Comments none = *this;
    none.next_ = all_.size();
    none.hoisted_.clear();
    return none;
  }
  bool has_hoisted() const { return !hoisted_.empty(); }
  std::vector<Comment> TakeHoisted() { return std::exchange(hoisted_, {}); }
  std::string Text(const Comment& comment) const;
  int NewlinesBetween(uint32_t begin, uint32_t end) const;

 private:
  const std::vector<Comment>& all_;
  std::string_view text_;
  size_t next_ = 0;
  std::vector<Comment> hoisted_;
};

class ExprFormatter {
 public:
  ExprFormatter(const Ast& ast, std::string_view text, DocStore& docs, Comments& comments)
      : ast_(ast), text_(text), docs_(docs), comments_(comments) {}

  struct Entry {
    Span span;
    std::function<DocId()> doc;
  };
  // open entry, entry, … close; fills lines, or one entry per line if there are comments.
  // An empty `close` is a list without brackets.
  DocId List(std::string open, const std::vector<Entry>& entries, std::string close, Span span);
  DocId ExprList(std::string open, const std::vector<ExprId>& ids, std::string close, Span span);

  DocId Format(ExprId id);
  DocId Format(const TypeRef& type);
  DocId Format(const Param& param);
  DocId Format(const LoopHead& head);
  DocId Format(const Pin& pin);

 private:
  DocId Text(std::string text) { return docs_.Text(std::move(text)); }
  DocId Raw(Span span) {
    return Text(std::string(text_.substr(span.begin, span.end - span.begin)));
  }
  DocId Node(const Expr& e);
  DocId Chain(const Expr& e);
  DocId IfArms(const IfExpr& e);

  const Ast& ast_;
  std::string_view text_;
  DocStore& docs_;
  Comments& comments_;
};

}  // namespace tilec::language::internal
