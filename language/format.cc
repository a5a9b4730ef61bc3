// Items and statements as lines. The canonical layout: two columns per block, one statement per
// line, at most one blank line between statements (kept from the source), exactly one around
// kernels, fns and tests, `where` of a signature on a line of its own, trailing comments two
// columns behind the code.
//
// SPDX-License-Identifier: Apache-2.0
#include "language/format.h"

#include <fmt/format.h>

#include <algorithm>

#include "language/format_expr.h"

namespace tilec::language {
namespace {

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

// `<T in {bf16, f16}, U>`
std::string Formatter::Types(const std::vector<TypeParam>& types) {
  std::string out;
  for (const TypeParam& type : types) {
    out += (out.empty() ? "<" : ", ") + type.name.text;
    for (size_t i = 0; i < type.choices.size(); ++i)
      out += (i == 0 ? " in {" : ", ") + type.choices[i].text;
    if (!type.choices.empty()) out += "}";
    if (type.is_fn) out += ": fn";
  }
  return out.empty() ? out : out + ">";
}

// `kernel capped = attention_with<score = softcap>`
DocId Formatter::Instance(const InstanceItem& item) {
  std::vector<ExprFormatter::Entry> entries;
  for (const Binding& b : item.bindings)
    entries.push_back({b.span, [&] { return Text(b.name.text + " = " + b.value.text); }});
  return exprs_.List("kernel " + item.name.text + " = " + item.of.text + "<", entries, ">",
                     Join(item.bindings.front().span, item.bindings.back().span));
}

// ` -> f32[N]`, ` -> (f32[N], f32)`
DocId Formatter::Results(ExprFormatter& exprs, const FnItem& fn) {
  const bool several = !fn.more_results.empty();
  std::vector<DocId> parts = {Text(several ? " -> (" : " -> "), exprs.Format(*fn.result)};
  for (const TypeRef& type : fn.more_results)
    parts.insert(parts.end(), {Text(", "), exprs.Format(type)});
  if (several) parts.push_back(Text(")"));
  return docs_.Concat(std::move(parts));
}

// `fn f(x: f32) -> f32 { return x }` stays on one line if it was, fits, and has no comment.
std::optional<std::string> Formatter::ShortFn(const tilec::language::Item& item) {
  const FnItem* fn = item.As<FnItem>();
  if (fn == nullptr || !fn->facts.empty() || ast_.block(fn->body).stmts.size() != 1) return {};
  const Stmt& stmt = ast_.stmt(ast_.block(fn->body).stmts[0]);
  const ReturnStmt* node = stmt.As<ReturnStmt>();
  if (node == nullptr || !stmt.pins.empty()) return {};
  if (comments_.NewlinesBetween(item.span.begin, item.span.end) > 0) return {};
  if (comments_.AnyIn(item.span)) return {};
  Comments no_comments = comments_.Exhausted();  // those before the item are not ours
  ExprFormatter exprs(ast_, text_, docs_, no_comments);
  std::vector<ExprFormatter::Entry> entries;
  for (const Param& param : fn->params)
    entries.push_back({param.span, [&] { return exprs.Format(param); }});
  std::vector<DocId> parts = {
      exprs.List("fn " + fn->name.text + Types(fn->types) + "(", entries, ")", fn->params_span)};
  if (fn->result) parts.push_back(Results(exprs, *fn));
  parts.push_back(Text(" { "));
  for (DocId part : Return(exprs, *node)) parts.push_back(part);
  parts.push_back(Text(" }"));
  std::string line = docs_.Render(docs_.Concat(std::move(parts)), 0);
  const bool fits =
      line.find('\n') == std::string::npos && internal::Columns(line) <= internal::kLineWidth;
  return fits ? std::optional(std::move(line)) : std::nullopt;
}

void Formatter::Signature(std::string head, const Name& name, const std::vector<Param>& params,
                          Span list, const FnItem* fn, const std::vector<ExprId>& facts,
                          BlockId body) {
  const TypeRef* result = fn == nullptr || !fn->result ? nullptr
                          : fn->more_results.empty()   ? &*fn->result
                                                       : &fn->more_results.back();
  const uint32_t brace = ast_.block(body).span.begin;
  std::vector<ExprFormatter::Entry> entries;
  for (const Param& param : params)
    entries.push_back({param.span, [this, &param] { return exprs_.Format(param); }});
  std::vector<DocId> parts = {exprs_.List(std::move(head) + name.text + "(", entries, ")", list)};
  if (result) parts.push_back(Results(exprs_, *fn));
  if (facts.empty()) {
    parts.push_back(Text(" {"));
    std::optional<Comment> after_brace;  // a comment behind the `)` moves behind the `{`
    if (comments_.PendingBefore(brace) &&
        comments_.TrailsAfter(result ? result->span.end : list.end))
      after_brace = comments_.Take();
    WriteHead(docs_.Concat(std::move(parts)), brace);
    Body(body, after_brace);
    return;
  }
  const uint32_t facts_begin = ast_.expr(facts[0]).span.begin;
  if (comments_.PendingBefore(facts_begin) &&
      comments_.TrailsAfter(result ? result->span.end : list.end))
    parts.push_back(docs_.Comment("  " + comments_.Text(comments_.Take())));
  const Span where = {ast_.file, facts_begin, brace};
  const DocId fact_list = exprs_.ExprList("where ", facts, "", where);
  std::vector<DocId> clause = {docs_.Hard(), fact_list};
  if (comments_.PendingBefore(brace) && comments_.TrailsAfter(ast_.expr(facts.back()).span.end))
    clause.push_back(docs_.Comment("  " + comments_.Text(comments_.Take())));
  parts.push_back(docs_.Nest(2, std::move(clause)));
  parts.insert(parts.end(), {docs_.Hard(), Text("{")});
  WriteHead(docs_.Concat(std::move(parts)), brace);
  Body(body);
}

DocId Formatter::Case(const TestCase& test) {
  std::vector<DocId> parts = {exprs_.Format(test.call)};
  if (test.tolerance.valid())
    parts.insert(parts.end(), {Text(" ~ "), exprs_.Format(test.tolerance)});
  for (const Name& word : test.words) parts.push_back(Text(" " + word.text));
  return docs_.Concat(std::move(parts));
}

void Formatter::Test(const tilec::language::Item& item, const TestItem& test) {
  comments_.HoistUntil(test.words.empty() ? test.name_span.end : test.words.back().span.end);
  BeforeCode();
  std::vector<DocId> head = {Raw(test.name_span)};
  for (const Name& word : test.words) head.push_back(Text(" " + word.text));
  const DocId name = docs_.Concat(head);
  const uint32_t head_end = test.words.empty() ? test.name_span.end : test.words.back().span.end;
  if (test.cases.empty() && !comments_.PendingBefore(item.span.end)) {
    Write(docs_.Concat({Text("test "), name, Text(" {}")}));
    return;
  }
  if (test.cases.size() == 1 && !comments_.PendingBefore(item.span.end)) {
    const DocId one =
        docs_.Concat({Text("test "), name, Text(" { "), Case(test.cases[0]), Text(" }")});
    const std::string text = docs_.Render(one, 0);
    if (text.find('\n') == std::string::npos && internal::Columns(text) <= internal::kLineWidth) {
      out_ += text;
      return;
    }
  }
  Write(docs_.Concat({Text("test "), name, Text(" {")}));
  EndLine(head_end, test.cases.empty() ? item.span.end : test.cases.front().span.begin);
  ++indent_;
  first_in_block_ = true;
  for (size_t i = 0; i < test.cases.size(); ++i) {
    const TestCase& one = test.cases[i];
    const bool last = i + 1 == test.cases.size();
    OwnLineComments(one.span.begin);
    BlankLineBefore(one.span.begin);
    WriteHead(Case(one), one.span.end);
    EndLine(one.span.end, last ? item.span.end : test.cases[i + 1].span.begin);
  }
  OwnLineComments(item.span.end);
  first_in_block_ = false;
  --indent_;
  out_ += '}';
}

void Formatter::Item(const tilec::language::Item& item, uint32_t limit) {
  Pins(item.pins, item.span.begin);
  std::visit(Overloaded{
                 [&](const KernelItem& k) {
                   Signature("kernel ", {k.name.text + Types(k.types), k.name.span}, k.params,
                             k.params_span, nullptr, k.facts, k.body);
                 },
                 [&](const FnItem& f) {
                   if (const std::optional<std::string> line = ShortFn(item)) {
                     BeforeCode();
                     out_ += *line;
                     return;
                   }
                   Signature("fn ", {f.name.text + Types(f.types), f.name.span}, f.params,
                             f.params_span, &f, f.facts, f.body);
                 },
                 [&](const ConstItem& c) {
                   std::vector<DocId> parts = {Text("const " + c.name.text)};
                   if (c.type) parts.insert(parts.end(), {Text(": "), exprs_.Format(*c.type)});
                   parts.insert(parts.end(), {Text(" = "), exprs_.Format(c.value)});
                   WriteHead(docs_.Concat(std::move(parts)), ast_.expr(c.value).span.end);
                 },
                 [&](const InstanceItem& i) { WriteHead(Instance(i), i.bindings.back().span.end); },
                 [&](const ImportItem& i) {
                   WriteHead(docs_.Concat({Text("import "), Raw(i.path_span)}), i.path_span.end);
                 },
                 [&](const TestItem& t) { Test(item, t); },
             },
             item.node);
  EndLine(item.span.end, limit);
}

std::string Formatter::Run() {
  // Items of more than one line, and kernels and tests, have a blank line around them.
  bool tall = false;
  for (size_t i = 0; i < ast_.items.size(); ++i) {
    const tilec::language::Item& item = ast_.item(ast_.items[i]);
    const bool is_tall = item.As<ConstItem>() == nullptr && item.As<InstanceItem>() == nullptr &&
                         item.As<ImportItem>() == nullptr && !ShortFn(item).has_value();
    const bool both_const = !tall && !is_tall;
    const uint32_t begin = Begin(item);
    const bool last = i + 1 == ast_.items.size();
    force_blank_ = i > 0 && !both_const;
    OwnLineComments(begin);
    BlankLineBefore(begin);
    Item(item, last ? UINT32_MAX : Begin(ast_.item(ast_.items[i + 1])));
    tall = is_tall;
  }
  OwnLineComments(UINT32_MAX);
  return std::move(out_);
}

}  // namespace

std::string Format(const Ast& ast, const SourceMap& sources, int32_t file) {
  return Formatter(ast, sources.text(file)).Run();
}

}  // namespace tilec::language
