// Tokens, the newline rule, and that tables and lexer agree.
//
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <set>

#include "language/tokens.h"
#include "tests/unit/language/parse_helper.h"

namespace tilec::language {
namespace {

// The tokens as text, one space between, `;` for an end of statement.
std::string Lexed(std::string text) {
  SourceMap sources;
  DiagSink diags;
  std::vector<Comment> comments;
  const int32_t file = sources.Add("t", std::move(text));
  const std::vector<Token> tokens = LayOut(Scan(sources, file, diags, comments), sources, diags);
  EXPECT_FALSE(diags.has_errors()) << RenderAll(diags, sources);
  std::string out;
  for (const Token& t : tokens) {
    if (t.kind == TokenKind::kEof) break;
    if (!out.empty()) out += ' ';
    out += t.kind == TokenKind::kEnd ? std::string(";") : std::string(sources.TextOf(t.span));
  }
  return out;
}

TEST(Lexer, EveryTokenOfTheTableIsLexed) {
  for (const TokenInfo& info : kTokens) {
    if (info.token_class == TokenClass::kValue || info.token_class == TokenClass::kLayout) continue;
    SourceMap sources;
    DiagSink diags;
    std::vector<Comment> comments;
    const int32_t file = sources.Add("t", std::string(info.text));
    const std::vector<Token> tokens = Scan(sources, file, diags, comments);
    ASSERT_EQ(tokens.size(), 2u) << info.text;
    EXPECT_EQ(tokens[0].kind, info.kind) << info.text;
  }
}

TEST(Lexer, SpellingsAreDistinct) {
  std::set<std::string_view> seen;
  for (const TokenInfo& info : kTokens)
    if (info.token_class != TokenClass::kValue) {
      EXPECT_TRUE(seen.insert(info.text).second) << info.text;
    }
}

TEST(Lexer, RangesAndFloats) {
  EXPECT_EQ(Lexed("0..H"), "0 .. H ;");
  EXPECT_EQ(Lexed("0..4"), "0 .. 4 ;");
  EXPECT_EQ(Lexed("0.5..1.5e-3"), "0.5 .. 1.5e-3 ;");
  EXPECT_EQ(Lexed("1.T"), "1 . T ;");
  EXPECT_EQ(Lexed("1e6 1E+6 1_000 0x1F 0b11"), "1e6 1E+6 1_000 0x1F 0b11 ;");
}

TEST(Lexer, NewlineEndsAStatement) {
  EXPECT_EQ(Lexed("a\nb"), "a ; b ;");
  EXPECT_EQ(Lexed("a\n\n\nb\n"), "a ; b ;");
  EXPECT_EQ(Lexed("a;b"), "a ; b ;");
  EXPECT_EQ(Lexed("f()\nx[0]\n1\n\"s\"\ntrue\n"), "f ( ) ; x [ 0 ] ; 1 ; \"s\" ; true ;");
}

TEST(Lexer, NewlineInsideBracketsDoesNot) {
  EXPECT_EQ(Lexed("f(a\n b\n)\n"), "f ( a b ) ;");
  EXPECT_EQ(Lexed("f[a\n;\n b]\n"), "f [ a ; b ] ;");
}

TEST(Lexer, NewlineAfterATokenThatCannotEnd) {
  for (const char* op : {"+", "-", "*", "=", "+=", ",", ":", "->", "..", "and", "not", "let"})
    EXPECT_EQ(Lexed(std::string("a ") + op + "\nb"), std::string("a ") + op + " b ;") << op;
}

TEST(Lexer, NewlineBeforeATokenThatContinues) {
  EXPECT_EQ(Lexed("a\n{\nb\n}\nc"), "a { b ; } ; c ;");
  for (const char* op : {"where", "else", ",",  ".", "->", "+",   "*",  "/",  "%",  "@", "==",
                         "!=",    "<",    "<=", ">", ">=", "and", "or", "as", "in", ".."})
    EXPECT_EQ(Lexed(std::string("a\n") + op + " b").substr(0, 4 + std::string(op).size()),
              std::string("a ") + op + " b")
        << op;
  EXPECT_EQ(Lexed("a\n- b"), "a ; - b ;");
  EXPECT_EQ(Lexed("a\n[b]"), "a ; [ b ] ;");
  EXPECT_EQ(Lexed("a\n(b)"), "a ; ( b ) ;");
  EXPECT_EQ(Lexed("a\nnot b"), "a ; not b ;");
}

TEST(Lexer, CommentsAreKept) {
  const Parsed p("const A = 1  // größer: ∞\n/* two\nlines */ const B = 2\n");
  ASSERT_TRUE(p.ok()) << p.errors();
  ASSERT_EQ(p.ast->comments.size(), 2u);
  EXPECT_EQ(p.sources.TextOf(p.ast->comments[0].span), "// größer: ∞");
  EXPECT_EQ(p.sources.TextOf(p.ast->comments[1].span), "/* two\nlines */");
}

TEST(Lexer, ABlockCommentWithANewlineIsANewline) {
  EXPECT_EQ(Lexed("a /* x */ b"), "a b ;");
  EXPECT_EQ(Lexed("a /*\n*/ b"), "a ; b ;");
}

TEST(Lexer, OddBytes) {
  EXPECT_FALSE(Parsed(std::string("const A = 1\xff")).ok());
  EXPECT_FALSE(Parsed(std::string("const A = \0 1", 13)).ok());
  EXPECT_TRUE(Parsed("\xef\xbb\xbf"
                     "const A = 1\r\nconst B = 2\r\n")
                  .ok());
  EXPECT_TRUE(Parsed("").ok());
  EXPECT_TRUE(Parsed("const S = \"ünï\\n\"").ok());
}

}  // namespace
}  // namespace tilec::language
