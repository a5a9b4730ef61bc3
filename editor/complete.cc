// SPDX-License-Identifier: Apache-2.0
#include "editor/complete.h"

#include <algorithm>
#include <cctype>
#include <set>

#include "ir/type.h"
#include "language/tokens.h"

namespace tilec::editor {

namespace {

// language/spec.md: what a range variable and a tile have behind a dot.
constexpr std::pair<const char*, const char*> kMembers[] = {
    {"start", "first position of a range"}, {"size", "positions of a whole range"},
    {"end", "position behind a range"},     {"len", "positions inside of the tensor"},
    {"index", "positions as a tile"},       {"T", "the transposed tile"}};

std::string_view LineBefore(std::string_view text, uint32_t offset) {
  const size_t newline = offset == 0 ? std::string_view::npos : text.rfind('\n', offset - 1);
  const size_t begin = newline == std::string_view::npos ? 0 : newline + 1;
  return text.substr(begin, offset - begin);
}

// What stands before the word that is being typed.
std::string_view WithoutWord(std::string_view line) {
  while (!line.empty() &&
         (std::isalnum(static_cast<unsigned char>(line.back())) || line.back() == '_'))
    line.remove_suffix(1);
  return line;
}

bool InImport(std::string_view line) {
  const size_t at = line.find_first_not_of(" \t");
  if (at == std::string_view::npos || line.substr(at, 6) != "import") return false;
  return std::count(line.begin(), line.end(), '"') == 1;
}

std::vector<Completion> Everything(const Analysis& a, uint32_t offset) {
  std::vector<Completion> out;
  std::set<std::string> seen;
  const auto add = [&](Completion c) {
    if (seen.insert(c.label).second) out.push_back(std::move(c));
  };
  for (const Symbol* symbol : a.symbols.VisibleAt(offset)) {
    const bool call = symbol->kind == SymbolKind::kFunction;
    std::string detail = Spelling(symbol->kind);
    if (a.ast && symbol->value.valid()) {
      const std::string& type = a.TypeAt(a.ast->expr(symbol->value).span);
      if (!type.empty()) detail += " " + type;
    }
    add({symbol->name, detail, call ? CompletionKind::kFunction : CompletionKind::kName});
  }
  for (const std::string& name : frontend::BuiltinNames())
    add({name, "built-in function", CompletionKind::kFunction});
#define DTYPE(Name, spelling, bits, cls, acc) add({spelling, "dtype", CompletionKind::kType});
#include "ir/dtypes.def"
#undef DTYPE
  for (const language::TokenInfo& token : language::kTokens)
    if (token.token_class == language::TokenClass::kKeyword ||
        token.token_class == language::TokenClass::kSoft)
      add({std::string(token.text), "keyword", CompletionKind::kKeyword});
  return out;
}

}  // namespace

std::vector<Completion> CompletionsAt(const Analysis& a, std::string_view text, Position at,
                                      const std::vector<std::string>& modules) {
  const uint32_t offset = LineIndex(text).OffsetOf(at);
  const std::string_view line = LineBefore(text, offset);
  std::vector<Completion> out;
  if (InImport(line)) {
    for (const std::string& module : modules)
      out.push_back({module, "standard library", CompletionKind::kModule});
    return out;
  }
  if (line.find("//") != std::string_view::npos) return out;
  const std::string_view before = WithoutWord(line);
  const bool range = before.size() >= 2 && before.substr(before.size() - 2) == "..";
  if (!before.empty() && before.back() == '.' && !range) {
    for (const auto& [name, detail] : kMembers)
      out.push_back({name, detail, CompletionKind::kMember});
    return out;
  }
  return Everything(a, offset);
}

}  // namespace tilec::editor
