// Items and statements as lines. The canonical layout: two columns per block, one statement per
// line, at most one blank line between statements (kept from the source), exactly one around
// kernels, fns and tests, `where` of a signature on a line of its own, trailing comments two
// columns behind the code.
//
// SPDX-License-Identifier: Apache-2.0
#include "language/format.h"

#include "language/format_expr.h"
#include "language/format_lines.h"

namespace tilec::language {

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

std::string Format(const Ast& ast, const SourceMap& sources, int32_t file) {
  return Formatter(ast, sources.text(file)).Run();
}

}  // namespace tilec::language
