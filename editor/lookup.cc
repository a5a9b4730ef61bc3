// SPDX-License-Identifier: Apache-2.0
#include "editor/lookup.h"

#include <algorithm>
#include <cctype>

#include "language/tokens.h"

namespace tilec::editor {

namespace {

using language::ExprId;

bool IsWord(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

bool IsKeyword(std::string_view text) {
  return std::any_of(std::begin(language::kTokens), std::end(language::kTokens),
                     [&](const language::TokenInfo& token) {
                       return token.token_class == language::TokenClass::kKeyword &&
                              token.text == text;
                     });
}

bool IsName(std::string_view text) {
  return !text.empty() && !std::isdigit(static_cast<unsigned char>(text[0])) &&
         std::all_of(text.begin(), text.end(), IsWord) && !IsKeyword(text);
}

// The word that covers `offset`, its end included; empty if there is none.
Span WordAt(const Analysis& a, uint32_t offset) {
  const std::string_view text = a.text();
  uint32_t begin = std::min(offset, static_cast<uint32_t>(text.size())), end = begin;
  while (begin > 0 && IsWord(text[begin - 1])) --begin;
  while (end < text.size() && IsWord(text[end])) ++end;
  return {a.file, begin, end};
}

// What the file imports under the name at `offset`.
frontend::ItemPlace Imported(const Analysis& a, uint32_t offset) {
  if (!a.program) return {};
  const Span word = WordAt(a, offset);
  if (word.begin == word.end) return {};
  const frontend::ItemPlace place = frontend::FindItem(*a.program, a.sources.TextOf(word));
  return place.name.file == a.file ? frontend::ItemPlace{} : place;
}

// The first line of an item up to its body: "kernel gemm(A: bf16[M, K], …)".
std::string Head(const Analysis& a, Span item) {
  const std::string_view text = a.sources.TextOf(item);
  std::string head;
  int depth = 0;
  for (char c : text) {
    if (c == '(' || c == '[') ++depth;
    if (c == ')' || c == ']') --depth;
    if (c == '{' && depth == 0) break;
    const bool blank = std::isspace(static_cast<unsigned char>(c)) != 0;
    if (!blank) head += c;
    if (blank && !head.empty() && head.back() != ' ') head += ' ';
  }
  while (!head.empty() && head.back() == ' ') head.pop_back();
  return head;
}

std::string TypeOf(const Analysis& a, const Symbol& symbol) {
  if (!a.ast || !symbol.value.valid()) return "";
  return a.TypeAt(a.ast->expr(symbol.value).span);
}

// "BM = 128, BN = 256": what shapes were computed with.
std::string Assumed(const TypedKernel& kernel) {
  std::string out;
  for (const auto& [name, value] : kernel.fn.statics) {
    if (!out.empty()) out += ", ";
    out += fmt::format("{} = {}", name, value);
  }
  return out;
}

Hover OfSymbol(const Analysis& a, const Symbol& symbol) {
  Hover hover;
  const TypedKernel* kernel = KernelAround(a, symbol);
  const std::string source(a.sources.TextOf(symbol.whole));
  switch (symbol.kind) {
    case SymbolKind::kKernel:
    case SymbolKind::kFunction: hover.code = Head(a, symbol.whole); break;
    case SymbolKind::kConst:
    case SymbolKind::kTune:
    case SymbolKind::kLoop: hover.code = source; break;
    case SymbolKind::kTensor:
    case SymbolKind::kScalar:
      hover.code = source;
      hover.notes.push_back(symbol.kind == SymbolKind::kTensor ? "a tensor in global memory"
                                                               : "a parameter");
      break;
    case SymbolKind::kDim:
      hover.code = symbol.name;
      hover.notes.push_back("a dim: bound by the shape of the tensor that names it first");
      break;
    case SymbolKind::kLet:
    case SymbolKind::kVar: {
      const std::string type = TypeOf(a, symbol);
      hover.code = fmt::format("{} {}{}{}", Spelling(symbol.kind), symbol.name,
                               type.empty() ? "" : ": ", type);
      break;
    }
  }
  if (kernel && symbol.kind != SymbolKind::kDim) {
    const std::string values = Assumed(*kernel);
    if (!values.empty()) hover.notes.push_back("with " + values);
  }
  return hover;
}

// The smallest expression around `offset` of which a type is known.
std::optional<Hover> OfExpression(const Analysis& a, uint32_t offset, const LineIndex& lines) {
  const std::pair<const std::pair<uint32_t, uint32_t>, std::string>* best = nullptr;
  for (const auto& entry : a.types) {
    const auto [begin, end] = entry.first;
    if (begin > offset || offset >= end) continue;
    if (!best || end - begin < best->first.second - best->first.first) best = &entry;
  }
  if (!best) return std::nullopt;
  return Hover{best->second, {}, lines.RangeOf(best->first.first, best->first.second)};
}

}  // namespace

const TypedKernel* KernelAround(const Analysis& a, const Symbol& symbol) {
  if (!a.ast || !symbol.item.valid()) return nullptr;
  const auto* kernel = a.ast->item(symbol.item).As<language::KernelItem>();
  if (!kernel) return nullptr;
  for (const TypedKernel& k : a.kernels)
    if (k.name == kernel->name.text) return &k;
  return nullptr;
}

std::optional<Hover> HoverAt(const Analysis& a, Position at) {
  const LineIndex lines = a.lines();
  const uint32_t offset = lines.OffsetOf(at);
  Span use;
  const Symbol* symbol = a.symbols.At(offset, &use);
  if (!symbol) {
    const frontend::ItemPlace place = Imported(a, offset);
    if (!place.name.known()) return OfExpression(a, offset, lines);
    const Span word = WordAt(a, offset);
    return Hover{Head(a, place.whole),
                 {"from " + a.sources.path(place.name.file)},
                 lines.RangeOf(word.begin, word.end)};
  }
  Hover hover = OfSymbol(a, *symbol);
  hover.range = lines.RangeOf(use.begin, use.end);
  return hover;
}

std::optional<Location> DefinitionAt(const Analysis& a, Position at) {
  const LineIndex lines = a.lines();
  const uint32_t offset = lines.OffsetOf(at);
  if (const Symbol* symbol = a.symbols.At(offset))
    return Location{a.path, lines.RangeOf(symbol->at.begin, symbol->at.end)};
  const Span imported = Imported(a, offset).name;
  if (!imported.known()) return std::nullopt;
  const LineIndex theirs(a.sources.text(imported.file));
  return Location{a.sources.path(imported.file), theirs.RangeOf(imported.begin, imported.end)};
}

std::vector<Range> ReferencesAt(const Analysis& a, Position at) {
  const LineIndex lines = a.lines();
  std::vector<Range> out;
  if (const Symbol* symbol = a.symbols.At(lines.OffsetOf(at)))
    for (const Span& use : symbol->uses) out.push_back(lines.RangeOf(use.begin, use.end));
  return out;
}

Renaming CanRename(const Analysis& a, Position at) {
  const LineIndex lines = a.lines();
  Span use;
  if (a.symbols.At(lines.OffsetOf(at), &use)) return {lines.RangeOf(use.begin, use.end), ""};
  return {std::nullopt, "only names that are defined in this file can be renamed"};
}

std::vector<TextEdit> Rename(const Analysis& a, Position at, const std::string& name,
                             std::string* why_not) {
  const LineIndex lines = a.lines();
  const Symbol* symbol = a.symbols.At(lines.OffsetOf(at));
  if (!symbol) {
    *why_not = CanRename(a, at).why_not;
    return {};
  }
  if (!IsName(name)) {
    *why_not = fmt::format("`{}` is no name: letters, digits and _, not a keyword", name);
    return {};
  }
  for (const Symbol& other : a.symbols.symbols) {
    const bool apart =
        other.scope.end < symbol->scope.begin || symbol->scope.end < other.scope.begin;
    if (&other == symbol || other.name != name || apart) continue;
    *why_not = fmt::format("there is a {} `{}` in line {} already", Spelling(other.kind), name,
                           lines.PositionOf(other.at.begin).line + 1);
    return {};
  }
  std::vector<TextEdit> out;
  for (const Span& use : symbol->uses) out.push_back({lines.RangeOf(use.begin, use.end), name});
  return out;
}

std::vector<InlayHint> InlayHints(const Analysis& a, Range range) {
  std::vector<InlayHint> out;
  if (!a.ast) return out;
  const LineIndex lines = a.lines();
  const uint32_t begin = lines.OffsetOf(range.start), end = lines.OffsetOf(range.end);
  for (const Symbol& symbol : a.symbols.symbols) {
    if (symbol.kind != SymbolKind::kLet && symbol.kind != SymbolKind::kVar) continue;
    if (symbol.at.begin < begin || symbol.at.end > end) continue;
    // Whoever wrote a type reads it already.
    if (a.sources.TextOf({a.file, symbol.at.end, symbol.whole.end}).substr(0, 1) == ":") continue;
    const std::string type = TypeOf(a, symbol);
    if (!type.empty()) out.push_back({lines.PositionOf(symbol.at.end), ": " + type});
  }
  return out;
}

std::vector<Outline> OutlineOf(const Analysis& a) {
  const LineIndex lines = a.lines();
  std::vector<Outline> out;
  for (const Symbol& symbol : a.symbols.symbols) {
    const bool item = symbol.kind == SymbolKind::kKernel || symbol.kind == SymbolKind::kFunction ||
                      symbol.kind == SymbolKind::kConst;
    if (!item) continue;
    out.push_back({symbol.name, Spelling(symbol.kind), symbol.kind,
                   lines.RangeOf(symbol.whole.begin, symbol.whole.end),
                   lines.RangeOf(symbol.at.begin, symbol.at.end)});
  }
  return out;
}

}  // namespace tilec::editor
