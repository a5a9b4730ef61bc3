// Tokens: a kind and a place. Values are computed by the parser from the text.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "language/ast.h"
#include "support/diag.h"
#include "support/source.h"

namespace tilec::language {

enum class TokenKind : uint8_t {
#define VALUE(name, text, ends, continues) k##name,
#define KEYWORD VALUE
#define SOFT VALUE
#define PUNCT VALUE
#define LAYOUT VALUE
#include "language/tokens.def"
#undef VALUE
#undef KEYWORD
#undef SOFT
#undef PUNCT
#undef LAYOUT
};

enum class TokenClass : uint8_t { kValue, kKeyword, kSoft, kPunct, kLayout };

struct TokenInfo {
  TokenKind kind;
  TokenClass token_class;
  std::string_view text;  // the spelling; for values and layout, a description
  bool ends;              // a newline after it may end a statement
  bool continues;         // a newline before it does not
};

inline constexpr TokenInfo kTokens[] = {
#define VALUE(name, text, ends, continues) \
  {TokenKind::k##name, TokenClass::kValue, text, ends, continues},
#define KEYWORD(name, text, ends, continues) \
  {TokenKind::k##name, TokenClass::kKeyword, text, ends, continues},
#define SOFT(name, text, ends, continues) \
  {TokenKind::k##name, TokenClass::kSoft, text, ends, continues},
#define PUNCT(name, text, ends, continues) \
  {TokenKind::k##name, TokenClass::kPunct, text, ends, continues},
#define LAYOUT(name, text, ends, continues) \
  {TokenKind::k##name, TokenClass::kLayout, text, ends, continues},
#include "language/tokens.def"
#undef VALUE
#undef KEYWORD
#undef SOFT
#undef PUNCT
#undef LAYOUT
};

constexpr const TokenInfo& InfoOf(TokenKind kind) { return kTokens[static_cast<int>(kind)]; }

struct Token {
  TokenKind kind = TokenKind::kEof;
  bool newline_before = false;  // a newline stands between the previous token and this one
  bool made_up = false;         // not in the text: a layout token or a repaired bracket
  Span span;
};

// The raw tokens of the file, ended by kEof; comments go to `comments`. Reports what is not a
// token and goes on behind it.
std::vector<Token> Scan(const SourceMap& sources, int32_t file, DiagSink& diags,
                        std::vector<Comment>& comments);

// Pairs brackets (reports and repairs those that do not match, so that the parser sees balanced
// ones) and applies the newline rule: the result has kEnd tokens where statements end.
std::vector<Token> LayOut(const std::vector<Token>& raw, const SourceMap& sources, DiagSink& diags);

}  // namespace tilec::language
