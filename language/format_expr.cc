// Expressions as documents. Parentheses are those of the source (Expr::parens), so precedence
// needs no thought here. Lines break after commas and after binary operators: places where the
// newline rule never ends a statement.
//
// SPDX-License-Identifier: Apache-2.0
#include "language/format_expr.h"

#include <algorithm>

namespace tilec::language::internal {
namespace {

int Precedence(BinaryOp op) {
  switch (op) {
    case BinaryOp::kOr: return 0;
    case BinaryOp::kAnd: return 1;
    case BinaryOp::kEq:
    case BinaryOp::kNe:
    case BinaryOp::kLt:
    case BinaryOp::kLe:
    case BinaryOp::kGt:
    case BinaryOp::kGe:
    case BinaryOp::kIn: return 2;
    case BinaryOp::kAdd:
    case BinaryOp::kSub: return 3;
    case BinaryOp::kMul:
    case BinaryOp::kDiv:
    case BinaryOp::kMod:
    case BinaryOp::kMatMul: return 4;
  }
  return 0;
}

}  // namespace

bool Comments::TrailsAfter(uint32_t end) const {
  if (next_ >= all_.size() || all_[next_].span.begin < end) return false;
  return NewlinesBetween(end, all_[next_].span.begin) == 0;
}

int Comments::CountIn(Span span) const {
  const auto begin_of = [](const Comment& c) { return c.span.begin; };
  const auto first = std::ranges::lower_bound(all_, span.begin, {}, begin_of);
  const auto last = std::ranges::lower_bound(all_, span.end, {}, begin_of);
  const auto next = all_.begin() + static_cast<std::ptrdiff_t>(next_);
  return std::max(0, static_cast<int>(last - std::max(first, next)));
}

std::string Comments::Text(const Comment& comment) const {
  std::string_view text = text_.substr(comment.span.begin, comment.span.end - comment.span.begin);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t' || text.back() == '\r'))
    text.remove_suffix(1);
  return std::string(text);
}

int Comments::NewlinesBetween(uint32_t begin, uint32_t end) const {
  if (end <= begin) return 0;
  const std::string_view between = text_.substr(begin, end - begin);
  return static_cast<int>(std::ranges::count(between, '\n'));
}

DocId ExprFormatter::List(std::string open, const std::vector<Entry>& entries, std::string close,
                          Span span) {
  comments_.HoistUntil(span.begin);
  const bool bracketed = !close.empty();
  const uint32_t end = bracketed || entries.empty() ? span.end : entries.back().span.begin;
  // Comments inside of an entry are that entry's business.
  int between = comments_.CountIn({span.file, span.begin, end});
  for (const Entry& entry : entries)
    if (entry.span.end <= end) between -= comments_.CountIn(entry.span);
  const bool commented = between > 0;
  std::vector<DocId> parts;
  if (entries.empty()) comments_.HoistUntil(span.end);
  for (size_t i = 0; i < entries.size(); ++i) {
    const Entry& entry = entries[i];
    while (commented && comments_.PendingBefore(entry.span.begin)) {
      parts.push_back(docs_.Comment(comments_.Text(comments_.Take())));
      parts.push_back(docs_.Hard());
    }
    std::vector<DocId> piece;
    if (i > 0 && !commented) piece.push_back(docs_.Line());
    piece.push_back(entry.doc());
    comments_.HoistUntil(entry.span.end);
    const bool last = i + 1 == entries.size();
    if (!last) piece.push_back(Text(","));
    parts.push_back(commented ? docs_.Concat(std::move(piece)) : docs_.Group(std::move(piece)));
    if (!commented) continue;
    bool comment_is_last = false;
    const uint32_t next = last ? end : entries[i + 1].span.begin;
    while ((!last || bracketed) && comments_.PendingBefore(next) &&
           comments_.TrailsAfter(entry.span.end)) {
      parts.push_back(docs_.Comment("  " + comments_.Text(comments_.Take())));
      comment_is_last = true;
    }
    if (last && bracketed) {
      while (comments_.PendingBefore(end)) {
        parts.push_back(docs_.Hard());
        parts.push_back(docs_.Comment(comments_.Text(comments_.Take())));
        comment_is_last = true;
      }
    }
    if (!last || comment_is_last) parts.push_back(docs_.Hard());
  }
  if (bracketed) parts.push_back(Text(std::move(close)));
  return docs_.Concat({Text(std::move(open)), docs_.Align(std::move(parts))});
}

DocId ExprFormatter::ExprList(std::string open, const std::vector<ExprId>& ids, std::string close,
                              Span span) {
  std::vector<Entry> entries;
  for (ExprId id : ids) entries.push_back({ast_.expr(id).span, [this, id] { return Format(id); }});
  return List(std::move(open), entries, std::move(close), span);
}

DocId ExprFormatter::Format(ExprId id) {
  const Expr& e = ast_.expr(id);
  if (!e.parens) return Node(e);
  return docs_.Concat({Text("("), docs_.Align({Node(e)}), Text(")")});
}

// A left-leaning chain of operators of one precedence becomes one group.
DocId ExprFormatter::Chain(const Expr& e) {
  std::vector<const BinaryExpr*> links;
  const Expr* at = &e;
  const BinaryExpr* top = e.As<BinaryExpr>();
  const int precedence = Precedence(top->op);
  for (const BinaryExpr* b = top; b != nullptr;) {
    links.push_back(b);
    at = &ast_.expr(b->lhs);
    const BinaryExpr* next = at->parens ? nullptr : at->As<BinaryExpr>();
    b = next != nullptr && Precedence(next->op) == precedence ? next : nullptr;
  }
  std::vector<DocId> parts = {Format(links.back()->lhs)};
  for (size_t i = links.size(); i-- > 0;) {
    parts.push_back(Text(std::string(" ") + Spelling(links[i]->op)));
    parts.push_back(docs_.Group({docs_.Line(), Format(links[i]->rhs)}));
  }
  return docs_.Align(std::move(parts));
}

DocId ExprFormatter::IfArms(const IfExpr& e) {
  std::vector<DocId> parts;
  for (const IfExprArm& arm : e.arms) {
    parts.push_back(Text(parts.empty() ? "if " : " else if "));
    parts.push_back(Format(arm.condition));
    parts.push_back(Text(" {"));
    parts.push_back(docs_.Nest(2, {docs_.Line(), Format(arm.value)}));
    parts.push_back(docs_.Line());
    parts.push_back(Text("}"));
  }
  parts.push_back(Text(" else {"));
  parts.push_back(docs_.Nest(2, {docs_.Line(), Format(e.else_value)}));
  parts.push_back(docs_.Line());
  parts.push_back(Text("}"));
  return docs_.Group(std::move(parts));
}

DocId ExprFormatter::Node(const Expr& e) {
  return std::visit(
      Overloaded{
          [&](const IntExpr& n) { return Raw(n.literal); },
          [&](const FloatExpr& n) { return Raw(n.literal); },
          [&](const StringExpr& n) { return Raw(n.literal); },
          [&](const BoolExpr& n) { return Text(n.value ? "true" : "false"); },
          [&](const NameExpr& n) { return Text(n.name); },
          [&](const UnaryExpr& n) {
            return docs_.Concat({Text(n.op == UnaryOp::kNot ? "not " : "-"), Format(n.operand)});
          },
          [&](const BinaryExpr&) { return Chain(e); },
          [&](const CastExpr& n) {
            return docs_.Concat({Format(n.operand), Text(" as " + n.dtype.text)});
          },
          [&](const CallExpr& n) {
            std::vector<Entry> entries;
            for (const Arg& arg : n.args)
              entries.push_back(
                  {arg.span, [this, &arg] {
                     if (!arg.name) return Format(arg.value);
                     return docs_.Concat({Text(arg.name->text + " = "), Format(arg.value)});
                   }});
            return List(n.callee.text + "(", entries, ")",
                        {e.span.file, n.callee.span.end, e.span.end});
          },
          [&](const IndexExpr& n) {
            const DocId base = Format(n.base);
            std::vector<Entry> entries;
            for (const IndexItem& item : n.items)
              entries.push_back({item.span, [this, &item]() -> DocId {
                                   switch (item.kind) {
                                     case IndexKind::kExpr: return Format(item.value);
                                     case IndexKind::kAll: return Text(":");
                                     case IndexKind::kNone: return Text("None");
                                   }
                                   return Text("");
                                 }});
            const Span span = {e.span.file, ast_.expr(n.base).span.end, e.span.end};
            if (!n.fill.valid()) return docs_.Concat({base, List("[", entries, "]", span)});
            const Span before_fill = {span.file, span.begin, ast_.expr(n.fill).span.begin};
            const DocId items = List("[", entries, ";", before_fill);
            const DocId fill = Format(n.fill);
            return docs_.Concat({base, items, Text(" fill = "), fill, Text("]")});
          },
          [&](const MemberExpr& n) {
            return docs_.Concat({Format(n.object), Text("." + n.member.text)});
          },
          [&](const IfExpr& n) { return IfArms(n); },
          [&](const RangeExpr& n) {
            std::vector<DocId> parts = {Format(n.lo), Text(".."), Format(n.hi)};
            if (n.step.valid()) parts.insert(parts.end(), {Text(" step "), Format(n.step)});
            return docs_.Concat(std::move(parts));
          },
          [&](const SetExpr& n) { return ExprList("{", n.values, "}", e.span); },
      },
      e.node);
}

DocId ExprFormatter::Format(const TypeRef& type) {
  if (!type.has_dims()) return Text(type.dtype.text);
  const Span span = {type.span.file, type.dtype.span.end, type.span.end};
  const DocId dims = ExprList(type.dtype.text + "[", type.dims, "]", span);
  return type.strided_any ? docs_.Concat({dims, Text(" strided(any)")}) : dims;
}

DocId ExprFormatter::Format(const Param& param) {
  std::string head = param.name.text + ": ";
  if (param.is_const) head += "const ";
  if (param.optional) head += "optional ";
  switch (param.direction) {
    case Direction::kIn: break;
    case Direction::kOut: head += "out "; break;
    case Direction::kInOut: head += "inout "; break;
  }
  std::vector<DocId> parts = {Text(std::move(head)), Format(param.type)};
  if (param.default_value.valid())
    parts.insert(parts.end(), {Text(" = "), Format(param.default_value)});
  return docs_.Concat(std::move(parts));
}

DocId ExprFormatter::Format(const LoopHead& head) {
  return docs_.Concat({Text(head.name.text + " in "), Format(head.range)});
}

DocId ExprFormatter::Format(const Pin& pin) {
  if (!pin.value.valid()) return Text(pin.name.text);
  return docs_.Concat({Text(pin.name.text + " = "), Format(pin.value)});
}

}  // namespace tilec::language::internal
