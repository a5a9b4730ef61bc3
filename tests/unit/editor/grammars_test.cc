// The grammars that editors colour by know every word of the language and no other.
//
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "frontend/builtins.h"
#include "ir/type.h"
#include "language/tokens.h"
#include "support/file.h"

namespace tilec::editor {
namespace {

std::string Read(const std::string& path) {
  std::string text, why;
  EXPECT_TRUE(ReadFile(std::string(TILEC_SOURCE_DIR "/editor/clients/") + path, &text, &why))
      << why;
  return text;
}

std::set<std::string> Words(const std::string& text) {
  std::set<std::string> out;
  std::string word;
  for (const char c : text + " ") {
    if (std::isalnum(static_cast<unsigned char>(c)) || c == '_') {
      word += c;
      continue;
    }
    if (!word.empty()) out.insert(word);
    word.clear();
  }
  return out;
}

std::vector<std::string> WordsOfTheLanguage() {
  std::vector<std::string> out;
  for (const language::TokenInfo& token : language::kTokens)
    if (token.token_class == language::TokenClass::kKeyword ||
        token.token_class == language::TokenClass::kSoft)
      out.emplace_back(token.text);
#define DTYPE(Name, spelling, bits, cls, acc) out.emplace_back(spelling);
#include "ir/dtypes.def"
#undef DTYPE
  return out;
}

TEST(Grammars, VimKnowsEveryWord) {
  const std::set<std::string> words = Words(Read("vim/syntax/tile.vim"));
  for (const std::string& word : WordsOfTheLanguage()) EXPECT_TRUE(words.count(word)) << word;
}

// The alternatives of a pattern like \b(let|var)\b; i8 … u64 are written as [iu](8|16|32|64).
TEST(Grammars, TextMateKnowsEveryWord) {
  const nlohmann::json grammar =
      nlohmann::json::parse(Read("vscode/syntaxes/tile.tmLanguage.json"), nullptr, false);
  ASSERT_FALSE(grammar.is_discarded());
  std::set<std::string> words;
  for (const auto& pattern : grammar["patterns"]) {
    const std::string match = pattern.value("match", "");
    words.merge(Words(match));
    // "\\bkernel" reads as one word: \b is no part of it.
    std::string without = match;
    for (size_t at; (at = without.find("\\b")) != std::string::npos;) without.replace(at, 2, " ");
    words.merge(Words(without));
    if (match.find("[iu](8|16|32|64)") == std::string::npos) continue;
    for (const char* sign : {"i", "u"})
      for (const char* bits : {"8", "16", "32", "64"}) words.insert(std::string(sign) + bits);
  }
  for (const std::string& word : WordsOfTheLanguage()) EXPECT_TRUE(words.count(word)) << word;
}

// What the grammar accepts is tried by the test editor.tree_sitter.
TEST(Grammars, TreeSitterKnowsEveryWordAndBuiltin) {
  const std::string grammar = Read("tree-sitter-tile/grammar.js");
  const std::string queries = Read("tree-sitter-tile/queries/highlights.scm");
  const auto has = [](const std::string& text, const std::string& word) {
    return text.find('"' + word + '"') != std::string::npos;
  };
  for (const language::TokenInfo& token : language::kTokens) {
    if (token.token_class == language::TokenClass::kValue ||
        token.token_class == language::TokenClass::kLayout)
      continue;
    EXPECT_TRUE(has(grammar, std::string(token.text))) << token.text;
    EXPECT_TRUE(has(queries, std::string(token.text))) << token.text;
  }
  for (const frontend::Builtin& b : frontend::kBuiltins)
    EXPECT_TRUE(has(queries, b.name)) << b.name;
  for (const char* name : frontend::kSpecials) EXPECT_TRUE(has(queries, name)) << name;
}

TEST(Grammars, TheExtensionIsJson) {
  for (const char* file : {"vscode/package.json", "vscode/language-configuration.json",
                           "tree-sitter-tile/package.json"})
    EXPECT_FALSE(nlohmann::json::parse(Read(file), nullptr, false).is_discarded()) << file;
}

}  // namespace
}  // namespace tilec::editor
