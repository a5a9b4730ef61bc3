// Text to raw tokens (re2c). Bytes above 0x7f may occur in comments and strings only. A float
// needs a digit after the dot, so `0..H` is a number, `..` and a name. Whatever is no token is
// reported here, with what to write instead, and skipped.
//
// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <string_view>

#include "language/diagnostics.h"
#include "language/parse.h"
#include "language/tokens.h"

namespace tilec::language {
namespace {

constexpr size_t kMaxFileBytes = size_t{16} << 20;

// Length of the UTF-8 sequence at `s`, 0 if it is none.
size_t Utf8Length(std::string_view s) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(s[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  const size_t n = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || s.size() < n) return 0;
  for (size_t i = 1; i < n; ++i)
    if ((byte(i) & 0xc0) != 0x80) return 0;
  if (first == 0xe0 && byte(1) < 0xa0) return 0;  // overlong
  if (first == 0xed && byte(1) > 0x9f) return 0;  // surrogate
  if (first == 0xf0 && byte(1) < 0x90) return 0;  // overlong
  if (first == 0xf4 && byte(1) > 0x8f) return 0;  // above U+10FFFF
  return n;
}

TokenKind WordKind(std::string_view word) {
  for (const TokenInfo& info : kTokens) {
    const bool is_word =
        info.token_class == TokenClass::kKeyword || info.token_class == TokenClass::kSoft;
    if (is_word && info.text == word) return info.kind;
  }
  return TokenKind::kName;
}

struct Lookalike {
  std::string_view seen;
  const char* write;
};
constexpr Lookalike kLookalikes[] = {
    {"“", "\""}, {"”", "\""}, {"−", "-"},  {"–", "-"},  {"—", "-"},   {"×", "*"},
    {"≤", "<="}, {"≥", ">="}, {"≠", "!="}, {"→", "->"}, {"∞", "inf"}, {"…", ".."}, {"ᵀ", ".T"},
    {"·", "@` or `*"},
    {"'", "\""}, {"\\", ""},  {"$", ""},   {"?", "if c { a } else { b }"},
};

struct Scanner {
  const SourceMap& sources;
  int32_t file;
  DiagSink& diags;
  std::vector<Comment>& comments;
  std::string_view text = {};
  std::vector<Token> tokens = {};
  bool newline = false;
  int first_error = 0;

  Span At(size_t begin, size_t end) const {
    return {file, static_cast<uint32_t>(begin), static_cast<uint32_t>(end)};
  }
  void Put(TokenKind kind, size_t begin, size_t end) {
    tokens.push_back({.kind = kind, .newline_before = newline, .span = At(begin, end)});
    newline = false;
  }
  bool Full() const { return diags.errors() - first_error >= kMaxSyntaxErrors; }

  void Unknown(size_t begin, size_t end) {
    std::string_view seen = text.substr(begin, end - begin);
    if (Full()) return;
    const auto c = static_cast<unsigned char>(seen[0]);
    std::string shown = c < 0x20 || c == 0x7f ? fmt::format("the control character {:#04x}", c)
                                              : fmt::format("`{}`", seen);
    DiagBuilder report = diags.Report(kUnknownCharacter, At(begin, end), shown);
    for (const Lookalike& l : kLookalikes)
      if (l.seen == seen && *l.write) report.Help(fmt::format("write `{}`", l.write));
    Put(TokenKind::kInt, begin, end);  // in its stead, so that no operand is missing
  }
  // Reports an operator of other languages and stands `kind` in for it.
  void Foreign(size_t begin, size_t end, TokenKind kind, std::string help) {
    if (!Full())
      diags.Report(kForeignOperator, At(begin, end), text.substr(begin, end - begin))
          .Help(std::move(help));
    Put(kind, begin, end);
  }
  void BadNumberAt(size_t begin, size_t end, std::string help) {
    if (!Full())
      diags.Report(kBadNumber, At(begin, end), text.substr(begin, end - begin))
          .Help(std::move(help));
    Put(TokenKind::kInt, begin, end);
  }
  void Run();
};

std::string BitwiseHelp(std::string_view seen) {
  if (seen == "<<") return "write `shl(a, n)`";
  if (seen == ">>") return "write `shr(a, n)`";
  if (seen == "|") return "write `bit_or(a, b)`";
  if (seen == "^") return "write `bit_xor(a, b)`";
  return "write `bit_and(a, b)`";
}

std::string NumberHelp(std::string_view seen) {
  if (seen.starts_with("0x") || seen.starts_with("0X"))
    return "hexadecimal digits are 0-9 and a-f, after a small `0x`: `0x1f`";
  if (seen.starts_with("0b") || seen.starts_with("0B"))
    return "binary digits are 0 and 1, after a small `0b`: `0b101`";
  const char last = seen.back();
  if (last == 'e' || last == 'E') return "write the exponent: `1e6`, `1.5e-3`";
  if (last == '_') return "`_` stands between digits: `1_000`";
  const size_t digits = seen.find_first_not_of("0123456789_");
  std::string_view suffix = seen.substr(digits == std::string_view::npos ? 0 : digits);
  if (suffix == "f" || suffix == "F" || suffix == "f32") return "write `1.0`; the type is inferred";
  return "a name cannot begin with a digit; a number has no suffix (convert with `as`)";
}

void Scanner::Run() {
  first_error = diags.errors();
  text = sources.text(file);
  if (text.size() > kMaxFileBytes) {
    diags.Report(kFileTooLarge, At(0, 0), text.size(), kMaxFileBytes);
    Put(TokenKind::kEof, 0, 0);
    return;
  }
  for (size_t i = 0; i < text.size();) {
    const size_t n = Utf8Length(text.substr(i));
    if (n == 0) {
      diags.Report(kNotUtf8, At(i, i + 1), static_cast<unsigned char>(text[i]), i);
      Put(TokenKind::kEof, i, i);
      return;
    }
    i += n;
  }
  const char* const base = text.data();
  const char* YYCURSOR = base + (text.starts_with("\xef\xbb\xbf") ? 3 : 0);
  const char* const YYLIMIT = base + text.size();  // *YYLIMIT is 0: texts are std::strings
  const char* YYMARKER = YYCURSOR;
  for (;;) {
    const char* const start = YYCURSOR;
    const size_t begin = static_cast<size_t>(start - base);
    const auto end = [&] { return static_cast<size_t>(YYCURSOR - base); };
    const auto seen = [&] { return text.substr(begin, end() - begin); };
#define P(kind)                          \
  Put(TokenKind::k##kind, begin, end()); \
  continue;
    /*!re2c
      re2c:define:YYCTYPE = "unsigned char";
      re2c:yyfill:enable = 0;
      re2c:eof = 0;

      digit    = [0-9];
      letter   = [A-Za-z_];
      alnum    = letter | digit;
      dec      = digit ("_"? digit)*;
      hex      = "0x" [0-9a-fA-F] ("_"? [0-9a-fA-F])*;
      bin      = "0b" [01] ("_"? [01])*;
      exponent = [eE] [+-]? digit+;
      float    = dec "." dec exponent? | dec exponent;
      utf8     = [\x80-\xff];

      $              { Put(TokenKind::kEof, text.size(), text.size()); break; }
      [ \t\r\f\v]+   { continue; }
      "\n"           { newline = true; continue; }
      "//" [^\n]* {
        size_t stop = end();
        if (text[stop - 1] == '\r') --stop;
        comments.push_back({At(begin, stop), false});
        continue;
      }
      "/*" {
        const size_t close = text.find("*/", begin + 2);
        if (close == std::string_view::npos) {
          if (!Full())
            diags.Report(kUnterminatedComment, At(begin, begin + 2))
                .Help("close it with `*/`, or use `//` for a single line");
          YYCURSOR = YYLIMIT;
          continue;
        }
        if (text.substr(begin, close - begin).find('\n') != std::string_view::npos) newline = true;
        comments.push_back({At(begin, close + 2), true});
        YYCURSOR = base + close + 2;
        continue;
      }

      letter alnum*  { Put(WordKind(seen()), begin, end()); continue; }
      dec            { P(Int) }
      hex            { P(Int) }
      bin            { P(Int) }
      float          { P(Float) }
      digit alnum* | float alnum+ {
        BadNumberAt(begin, end(), NumberHelp(seen()));
        continue;
      }
      dec "." / [^0-9A-Za-z_.] {
        BadNumberAt(begin, end(), fmt::format("write `{}0`", seen()));
        continue;
      }
      "." digit+ exponent? {
        BadNumberAt(begin, end(), fmt::format("write `0{}`", seen()));
        continue;
      }

      ["] ([^"\\\n\x00] | "\\" [^\n\x00])* ["]  { P(String) }
      ["] ([^"\\\n\x00] | "\\" [^\n\x00])* {
        // Brackets at the end of the line were most likely meant to be outside.
        const size_t last = seen().find_last_not_of(")]},; \t\r");
        if (last > 0) YYCURSOR = start + last + 1;
        if (!Full()) {
          DiagBuilder report = diags.Report(kUnterminatedString, At(begin, end()));
          report.Help("write `\"` at its end");
        }
        Put(TokenKind::kString, begin, end());
        continue;
      }

      "("  { P(LParen) }      ")"  { P(RParen) }     "["  { P(LBracket) }   "]"  { P(RBracket) }
      "{"  { P(LBrace) }      "}"  { P(RBrace) }     "#[" { P(HashBracket) }
      ","  { P(Comma) }       ":"  { P(Colon) }      ";"  { P(Semicolon) }
      "."  { P(Dot) }         ".." { P(DotDot) }     "->" { P(Arrow) }      "~"  { P(Tilde) }
      "="  { P(Assign) }      "+=" { P(AddAssign) }  "-=" { P(SubAssign) }
      "*=" { P(MulAssign) }   "/=" { P(DivAssign) }
      "==" { P(EqEq) }        "!=" { P(NotEq) }      "<"  { P(Less) }       "<=" { P(LessEq) }
      ">"  { P(Greater) }     ">=" { P(GreaterEq) }
      "+"  { P(Plus) }        "-"  { P(Minus) }      "*"  { P(Star) }       "/"  { P(Slash) }
      "%"  { P(Percent) }     "@"  { P(At) }

      "&&" { Foreign(begin, end(), TokenKind::kAnd, "write `and`"); continue; }
      "||" { Foreign(begin, end(), TokenKind::kOr, "write `or`"); continue; }
      "!"  { Foreign(begin, end(), TokenKind::kNot, "write `not`"); continue; }
      "**" { Foreign(begin, end(), TokenKind::kStar,
                     "write a product, or `exp2(y * log2(x))`"); continue; }
      "===" { Foreign(begin, end(), TokenKind::kEqEq, "write `==`"); continue; }
      "&" | "|" | "^" | "<<" | ">>" {
        Foreign(begin, end(), TokenKind::kPlus, BitwiseHelp(seen()));
        continue;
      }
      "++" { Foreign(begin, end(), TokenKind::kPlus, "write `x += 1`"); continue; }
      "%=" { Foreign(begin, end(), TokenKind::kAssign, "write `x = x % y`"); continue; }
      "@=" { Foreign(begin, end(), TokenKind::kAssign, "write `x = x @ y`"); continue; }
      "::" { Foreign(begin, end(), TokenKind::kColon, "names have no paths; `:` alone takes a "
                     "whole dim"); continue; }
      "..=" | "..." { Foreign(begin, end(), TokenKind::kDotDot,
                      "`lo..hi` stops before `hi`; write `lo..hi + 1` to include it"); continue; }
      "=>" { Foreign(begin, end(), TokenKind::kArrow, "a result type follows `->`"); continue; }
      ":=" { Foreign(begin, end(), TokenKind::kAssign, "write `let x = value`"); continue; }

      utf8+ {  // one character at a time
        YYCURSOR = start + Utf8Length(text.substr(begin));
        Unknown(begin, end());
        continue;
      }
      *    { Unknown(begin, end()); continue; }
    */
#undef P
  }
}

}  // namespace

std::vector<Token> Scan(const SourceMap& sources, int32_t file, DiagSink& diags,
                        std::vector<Comment>& comments) {
  Scanner scanner{.sources = sources, .file = file, .diags = diags, .comments = comments};
  scanner.Run();
  return std::move(scanner.tokens);
}

}  // namespace tilec::language
