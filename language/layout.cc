// Between lexer and grammar: brackets are paired, and newlines become statement ends.
//
// The grammar sees balanced brackets always. What is missing or too much is reported here, where
// the whole line structure is known, and repaired, so that one forgotten bracket does not turn
// the rest of the file into errors. The anchors of a repair are words that can only begin a
// statement (they close open round and square brackets) or an item (they close braces).
//
// The newline rule: a newline ends a statement unless it is inside ( ) or [ ], after a token that
// cannot end one, or before a token that continues one (columns Ends and Continues of tokens.def).
//
// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "language/diagnostics.h"
#include "language/parse.h"
#include "language/tokens.h"

namespace tilec::language {
namespace {

bool IsOpener(TokenKind k) {
  return k == TokenKind::kLParen || k == TokenKind::kLBracket || k == TokenKind::kLBrace ||
         k == TokenKind::kHashBracket;
}

bool IsCloser(TokenKind k) {
  return k == TokenKind::kRParen || k == TokenKind::kRBracket || k == TokenKind::kRBrace;
}

TokenKind CloserOf(TokenKind opener) {
  if (opener == TokenKind::kLParen) return TokenKind::kRParen;
  return opener == TokenKind::kLBrace ? TokenKind::kRBrace : TokenKind::kRBracket;
}

// Words that begin a statement and stand nowhere else.
bool BeginsStatement(TokenKind k) {
  return k == TokenKind::kLet || k == TokenKind::kVar || k == TokenKind::kParallel ||
         k == TokenKind::kFor || k == TokenKind::kWhile || k == TokenKind::kTune ||
         k == TokenKind::kReturn;
}

bool BeginsItem(const Token& token, const Token& next) {
  return token.kind == TokenKind::kImport || token.kind == TokenKind::kKernel ||
         token.kind == TokenKind::kFn ||
         (token.kind == TokenKind::kTest && next.kind == TokenKind::kString);
}

struct Layout {
  struct Open {
    TokenKind kind;
    Span span;
    bool may_hold_brace = false;  // an `if` or `in` stands inside: a `{` may follow
  };
  const SourceMap& sources;
  DiagSink& diags;
  std::vector<Token> out = {};
  std::vector<Open> stack = {};
  int round_depth = 0;       // open ( [ #[
  Span suspect_opener = {};  // a brace closed by one that is indented less than it
  Span suspect_closer = {};
  int first_error = 0;

  bool Full() const { return diags.errors() - first_error >= kMaxSyntaxErrors; }
  std::string_view Text(Span span) const { return sources.TextOf(span); }

  int Indent(Span at) const {
    const std::string_view line = sources.Locate(at.file, at.begin).text;
    const size_t n = line.find_first_not_of(" \t");
    return n == std::string_view::npos ? 0 : static_cast<int>(n);
  }

  void Push(Token token) {
    if (token.newline_before && round_depth == 0 && !out.empty() && InfoOf(out.back().kind).ends &&
        !InfoOf(token.kind).continues)
      PushEnd();
    if (token.kind == TokenKind::kSemicolon && round_depth == 0) token.kind = TokenKind::kEnd;
    out.push_back(token);
  }
  void PushEnd() { MakeUp(TokenKind::kEnd); }
  void MakeUp(TokenKind kind) {
    const Span last = out.back().span;
    out.push_back({.kind = kind, .made_up = true, .span = {last.file, last.end, last.end}});
  }
  void Pop() {
    if (stack.back().kind != TokenKind::kLBrace) --round_depth;
    stack.pop_back();
  }
  // Reports the innermost open bracket, and closes it.
  void CloseUnclosed(const Token& before) {
    const Open open = stack.back();
    if (!Full()) {
      const bool brace = open.kind == TokenKind::kLBrace;
      Span at = open.span;
      if (brace && suspect_opener.known()) at = suspect_opener;
      DiagBuilder report = diags.Report(kUnclosedBracket, at, Text(at));
      if (brace && suspect_opener.known())
        report.Label(suspect_closer, "this is indented as if it closed something further out");
      else if (before.kind != TokenKind::kEof)
        report.Label(before.span, "it must be closed before this");
      const std::string_view closer = InfoOf(CloserOf(open.kind)).text;
      report.Help(fmt::format("write `{}` where it ends", closer));
    }
    MakeUp(CloserOf(open.kind));
    Pop();
  }
  // Braces left open at the start of an item or at the end of the file: one report for all.
  void CloseBraces(const Token& before) {
    bool first = true;
    while (!stack.empty()) {
      const bool brace = stack.back().kind == TokenKind::kLBrace;
      if (brace && !first) {
        MakeUp(TokenKind::kRBrace);
        Pop();
      } else {
        CloseUnclosed(before);
        if (brace) first = false;
      }
    }
    suspect_opener = {};
  }
  // True if the token is to be pushed.
  bool Close(Token& token) {
    const TokenKind closer = token.kind;
    size_t match = stack.size();
    while (match > 0 && CloserOf(stack[match - 1].kind) != closer) --match;
    const bool top_matches = match == stack.size();
    if (!stack.empty() && top_matches) {
      const Open open = stack.back();
      if (closer == TokenKind::kRBrace && token.newline_before && !suspect_opener.known() &&
          Indent(token.span) < Indent(open.span)) {
        suspect_opener = open.span;
        suspect_closer = token.span;
      }
      Pop();
      return true;
    }
    bool crosses_brace = match == 0;
    for (size_t i = match; i < stack.size(); ++i)
      crosses_brace |= stack[i].kind == TokenKind::kLBrace;
    if (!crosses_brace) {
      while (stack.size() > match) CloseUnclosed(token);
      Pop();
      return true;
    }
    if (!stack.empty() && stack.back().kind != TokenKind::kLBrace && closer != TokenKind::kRBrace) {
      if (!Full())
        diags.Report(kMismatchedBracket, token.span, InfoOf(closer).text, Text(stack.back().span))
            .Label(stack.back().span, "this is open")
            .Help(fmt::format("write `{}`", InfoOf(CloserOf(stack.back().kind)).text));
      token.kind = CloserOf(stack.back().kind);
      Pop();
      return true;
    }
    if (!Full()) diags.Report(kStrayBracket, token.span, InfoOf(closer).text).Help("remove it");
    return false;
  }

  bool Run(const std::vector<Token>& raw) {
    first_error = diags.errors();
    bool newline = false;  // carried over a dropped token
    for (size_t i = 0; i < raw.size(); ++i) {
      Token token = raw[i];
      token.newline_before |= newline;
      newline = false;
      const Token& next = raw[i + 1 < raw.size() ? i + 1 : i];
      if (token.kind == TokenKind::kEof) {
        CloseBraces(token);
        if (!out.empty() && InfoOf(out.back().kind).ends) PushEnd();
        out.push_back(token);
        break;
      }
      if (token.newline_before && !stack.empty()) {
        if (BeginsItem(token, next)) CloseBraces(token);
        if (BeginsStatement(token.kind))
          while (!stack.empty() && stack.back().kind != TokenKind::kLBrace) CloseUnclosed(token);
      }
      if (token.kind == TokenKind::kIf || token.kind == TokenKind::kIn)
        if (!stack.empty()) stack.back().may_hold_brace = true;
      if (token.kind == TokenKind::kLBrace)
        while (!stack.empty() && stack.back().kind != TokenKind::kLBrace &&
               !stack.back().may_hold_brace)
          CloseUnclosed(token);
      if (IsCloser(token.kind) && !Close(token)) {
        newline = token.newline_before;
        continue;
      }
      Push(token);
      if (!IsOpener(token.kind)) continue;
      if (static_cast<int>(stack.size()) >= kMaxNesting) {
        diags.Report(kNestedTooDeep, token.span, kMaxNesting);
        return false;
      }
      stack.push_back({token.kind, token.span});
      if (token.kind != TokenKind::kLBrace) ++round_depth;
    }
    return true;
  }
};

}  // namespace

std::vector<Token> LayOut(const std::vector<Token>& raw, const SourceMap& sources,
                          DiagSink& diags) {
  Layout layout{.sources = sources, .diags = diags};
  if (!layout.Run(raw)) return {};
  return std::move(layout.out);
}

}  // namespace tilec::language
