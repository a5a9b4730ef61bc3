// Why a token does not fit, in the words of somebody who knows the usual mistakes.
//
// The parser says which token it is and which tokens would have fitted. The set of those tells
// where we are (at the start of a statement, inside an expression, …); together with the tokens
// around it that is enough to recognise the usual mistakes. What is not recognised gets the general
// message: what was expected, what was found.
//
// SPDX-License-Identifier: Apache-2.0
#include "language/diagnostics.h"
#include "language/expected.h"
#include "language/parse_state.h"
#include "support/nearest.h"

namespace tilec::language::internal {

namespace {

// Words of other languages, where a statement or an item begins.
struct ForeignWordRow {
  std::string_view word;
  const char* help;
};
constexpr ForeignWordRow kForeignWords[] = {
    {"elif", "write `else if c { ... }`"},
    {"elseif", "write `else if c { ... }`"},
    {"def", "write `fn name(x: f32[M]) -> f32[M] { ... }`, or `kernel` for an entry point"},
    {"func", "write `fn name(x: f32[M]) -> f32[M] { ... }`"},
    {"function", "write `fn name(x: f32[M]) -> f32[M] { ... }`"},
    {"void", "write `kernel name(...) { ... }`"},
    {"auto", "write `let x = value`"},
    {"mut", "write `var x = value`"},
    {"float", "write `let x = value` or `var x: f32 = value`"},
    {"int", "write `let x = value` or `var x: i32 = value`"},
    {"include", "write `import \"std/...\"`"},
    {"use", "write `import \"std/...\"`"},
    {"from", "write `import \"std/...\"`"},
    {"foreach", "write `for k in tiles(K, BK) { ... }`"},
    {"grid", "write `parallel m in tiles(M, BM) { ... }`"},
    {"continue", "put the rest of the body into `if c { ... }`"},
    {"pass", "leave the block empty: `{}`"},
    {"do", "write `while c { ... }`"},
    {"loop", "write `while c { ... }`"},
    {"switch", "write `if c { ... } else if d { ... }`"},
    {"match", "write `if c { ... } else if d { ... }`"},
};

}  // namespace

std::string ParseState::Describe(int index) const {
  const Token& t = At(index);
  if (t.kind == K::kEnd && !t.made_up) return "`;`";
  if (InfoOf(t.kind).token_class == TokenClass::kLayout) return std::string(InfoOf(t.kind).text);
  std::string_view text = Text(t);
  if (text.size() > 40) return std::string(InfoOf(t.kind).text);
  return fmt::format("`{}`", text);
}

std::string ParseState::DescribeExpected(const std::vector<K>& kinds) const {
  Expected left(kinds);
  std::vector<std::string> words;
  if (left.Items()) {
    words.push_back("`kernel`, `fn`, `const`, `import` or `test`");
    left.Drop(kItemStarts);
  }
  if (left.Statement()) {
    words.push_back("a statement");
    left.Drop(kStatementStarts);
    left.Drop(kSoftWords);
    left.Drop({K::kRBrace});
  }
  if (left.Operand()) {
    words.push_back("an expression");
    left.Drop(kSoftWords);
    left.Drop(kOperandStarts);
    left.Drop({K::kColon, K::kNone, K::kEnd});
  }
  if (left.Has(K::kName)) {
    words.push_back(left.Has(K::kStep) ? "a name" : left.Has(K::kOut) ? "a type" : "a dtype");
    left.Drop(kSoftWords);
    left.Drop({K::kConst});
  }
  if (left.Has(K::kAddAssign)) {
    words.push_back("an assignment");
    left.Drop(kAssigns);
  }
  const bool operators = left.Has(K::kLBracket) && left.Has(K::kDot);
  if (operators) left.Drop(kOperators);
  if (operators) left.Drop({K::kAssign});
  if (left.Has(K::kEnd)) {
    words.push_back("the end of the statement");
    left.Drop({K::kEnd, K::kRBrace, K::kWhere});
  }
  for (const TokenInfo& info : kTokens)
    if (left.Has(info.kind))
      words.push_back(IsDescribed(info.kind) ? std::string(info.text)
                                             : fmt::format("`{}`", info.text));
  if (words.empty() && operators) words.push_back("an operator");
  if (words.empty()) words.push_back("something else");
  if (words.size() > 6) words.resize(6);
  return JoinWords(words);
}

// The first token of the statement that holds token `index`.
int ParseState::StatementHead(int index) const {
  int depth = 0;
  for (int i = index - 1; i >= 0; --i) {
    const K k = At(i).kind;
    if (ClosesBracket(k)) ++depth;
    if (OpensBracket(k) && depth-- == 0) return i + 1;
    if (depth == 0 && (k == K::kEnd || k == K::kRBrace)) return i + 1;
  }
  return 0;
}

// The innermost `{` that is open before token `index`; -1 if there is none.
int ParseState::OpenBrace(int index) const {
  int depth = 0;
  for (int i = index - 1; i >= 0; --i) {
    if (At(i).kind == K::kRBrace) ++depth;
    if (At(i).kind == K::kLBrace && depth-- == 0) return i;
  }
  return -1;
}

bool ParseState::LineHasWordError(Span span) const {
  const int line = sources_.Locate(span.file, span.begin).line;
  const auto same_line = [&](Span other) {
    return other.file == span.file && sources_.Locate(other.file, other.begin).line == line;
  };
  for (size_t i = first_diag; i < words_end; ++i) {
    const Diagnostic& d = diags_.all()[i];
    if (same_line(d.span)) return true;
    for (const DiagLabel& label : d.labels)
      if (same_line(label.span)) return true;
  }
  return false;
}

void ParseState::Unexpected(const SyntaxError& error) {
  if (Full()) return;
  const Token& token = At(error.lookahead);
  const Token& previous = At(error.lookahead - 1);
  // Next to a repaired bracket or a reported word, the error is most likely a consequence.
  if (token.made_up && token.kind != K::kEnd) return;
  if (previous.made_up && previous.kind != K::kEnd) return;
  if (LineHasWordError(token.span)) return;
  if (ExplainSpecially(error)) return;
  const Expected expected(error.expected);
  DiagBuilder report = diags_.Report(kUnexpected, token.span, DescribeExpected(error.expected),
                                     Describe(error.lookahead));
  if (token.kind == K::kEnd && previous.kind == K::kName && expected.Only({K::kLBrace}))
    report.Help("write `{` after it");
  if (previous.kind == K::kReturn && EndsStatement(token.kind))
    report.Help(
        "`return` ends a `fn` with its value; to leave out the rest of a kernel, write "
        "`if c { ... }` around it");
  if (previous.kind == K::kName && Text(previous) == "expect" && expected.Has(K::kLParen))
    report.Help("`expect` stands behind a call: `gemm(M = 64, N = 64) expect gemm_plainly`");
  else if (expected.Only({K::kLParen}) || expected.Only({K::kLParen, K::kLess}) ||
           expected.Only({K::kLParen, K::kLess, K::kAssign}))
    report.Help("parameters and arguments stand in round brackets: `(x: f32)`, `()`");
  if (token.kind == K::kWhere && expected.Operand())
    report.Help("to choose element by element, write `select(c, a, b)`");
  if (token.kind == K::kColon && expected.Operator() && expected.Has(K::kRBracket))
    report.Help("a part of a dim is written `lo..hi`");
  if (token.kind == K::kNone) report.Help("`None` adds a dim in an index only: `m[:, None]`");
  if (token.kind == K::kLParen && previous.kind == K::kFor)
    report.Help("write `for k in 0..n { ... }`");
  if (error.expected.size() == 1 && InfoOf(error.expected[0]).token_class == TokenClass::kPunct &&
      !expected.Has(K::kLParen))
    report.Help(fmt::format("write `{}` before it", InfoOf(error.expected[0]).text));
}

bool ParseState::ExplainSpecially(const SyntaxError& error) {
  const Expected expected(error.expected);
  const Token& token = At(error.lookahead);
  if (IsKeyword(token.kind) && expected.Has(K::kName) && !expected.Operand() &&
      !expected.Statement() && !expected.Items()) {
    DiagBuilder report = diags_.Report(kReservedWord, token.span, Text(token));
    if (token.kind == K::kIn)
      report.Help("a parameter without `out` or `inout` is read only; leave `in` out");
    else
      report.Help(fmt::format("take another name, such as `{}_`", Text(token)));
    return true;
  }
  if (expected.Items() && ExplainItem(error)) return true;
  if (ExplainInside(error)) return true;
  return ExplainStatement(error);
}

bool ParseState::ExplainForeignWord(const Token& token) {
  if (token.kind != K::kName) return false;
  for (const ForeignWordRow& row : kForeignWords) {
    if (row.word != Text(token)) continue;
    diags_.Report(kForeignWord, token.span, Text(token)).Help(row.help);
    return true;
  }
  return false;
}

// `as f32[…]`: an index of what is converted, or a shape that a conversion does not take.
void ParseState::ExplainShapeInCast(int bracket) {
  bool index = false;
  int depth = 0, end = bracket;
  for (; end + 1 < static_cast<int>(tokens.size()); ++end) {
    const K k = At(end).kind;
    index |= depth == 1 && (k == K::kColon || k == K::kNone);
    depth += OpensBracket(k) ? 1 : ClosesBracket(k) ? -1 : 0;
    if (depth == 0) break;
  }
  const std::string_view dtype = Text(At(bracket - 1));
  DiagBuilder report = diags_.Report(kShapeInCast, At(bracket).span);
  if (index)
    report.Help(fmt::format("to index what is converted, write `(… as {}){}`", dtype,
                            sources_.TextOf(Join(At(bracket).span, At(end).span))));
  else
    report.Help(fmt::format("write `as {}`", dtype));
}

bool ParseState::ExplainItem(const SyntaxError& error) {
  const Token& token = At(error.lookahead);
  if (token.kind == K::kName) {
    if (ExplainForeignWord(token)) return true;
    const std::string near =
        NearestName(std::string(Text(token)), {"kernel", "fn", "const", "import", "test"});
    if (!near.empty()) {
      diags_.Report(kNotAnItem, token.span, Describe(error.lookahead))
          .Help(fmt::format("did you mean `{}`?", near));
      return true;
    }
  }
  if (!IsKeyword(token.kind) && token.kind != K::kName) return false;
  DiagBuilder report = diags_.Report(kNotAnItem, token.span, Describe(error.lookahead));
  if (token.kind == K::kLet || token.kind == K::kVar || token.kind == K::kName)
    report.Help("for a constant write `const NAME = value`");
  else
    report.Help("statements stand in `kernel name(...) { ... }` or `fn name(...) { ... }`");
  return true;
}

// Mistakes inside an expression, a type or a parameter list.
bool ParseState::ExplainInside(const SyntaxError& error) {
  const Expected expected(error.expected);
  const Token& token = At(error.lookahead);
  const Token& previous = At(error.lookahead - 1);
  const int head = StatementHead(error.lookahead);
  const K head_kind = At(head).kind;
  const bool declares = head_kind == K::kLet || head_kind == K::kVar || head_kind == K::kTune ||
                        head_kind == K::kConst;

  if (declares && EndsStatement(token.kind) && expected.Has(K::kAssign)) {
    diags_.Report(kMissingValue, Join(At(head).span, previous.span), Text(At(head)))
        .Help(
            fmt::format("write `{} = value`", sources_.TextOf(Join(At(head).span, previous.span))));
    return true;
  }
  if (token.kind == K::kLBracket && previous.kind == K::kName &&
      At(error.lookahead - 2).kind == K::kAs) {
    ExplainShapeInCast(error.lookahead);
    return true;
  }
  if (previous.kind == K::kIn && (token.kind == K::kLBracket || token.kind == K::kLParen) &&
      expected.Has(K::kLBrace)) {
    diags_.Report(kBadSet, token.span).Help("write `in {64, 128}` or `in 64..256 step 64`");
    return true;
  }
  if (token.kind == K::kComma && expected.Has(K::kRParen) && expected.Operator() &&
      head_kind == K::kTune) {
    for (int i = error.lookahead - 1; i > head; --i) {
      if (At(i).kind != K::kLParen) continue;
      if (At(i - 1).kind != K::kIn) break;
      diags_.Report(kBadSet, At(i).span).Help("write `in {64, 128}` or `in 64..256 step 64`");
      return true;
    }
  }
  if (head_kind == K::kTune && EndsStatement(token.kind) && expected.Has(K::kDotDot)) {
    diags_.Report(kBadSet, previous.span).Help("write `in {64, 128}` or `in 64..256 step 64`");
    return true;
  }
  if (token.kind == K::kAssign && expected.Operator()) {
    diags_.Report(kAssignInExpression, token.span).Help("to compare, write `==`");
    return true;
  }
  if (token.kind == K::kDotDot && !expected.Has(K::kDotDot)) {
    for (int i = error.lookahead - 1; i >= head; --i) {
      if (At(i).kind != K::kDotDot) continue;
      diags_.Report(kChainedRange, token.span)
          .Label(At(i).span, "the range starts here")
          .Help("for a stride write `lo..hi step s`");
      return true;
    }
  }
  if (token.kind == K::kRBracket &&
      (previous.kind == K::kLBracket || previous.kind == K::kHashBracket)) {
    const bool pin = previous.kind == K::kHashBracket;
    diags_
        .Report(kEmptyList, Join(previous.span, token.span),
                pin                       ? "`#[...]`"
                : expected.Has(K::kColon) ? "this index"
                                          : "this list of dims")
        .Help(pin                       ? "remove it, or write `#[depth = 3]`"
              : expected.Has(K::kColon) ? "write `:` for a whole dim"
                                        : "a scalar has no brackets: `x: f32`");
    return true;
  }
  if (expected.Only({K::kColon}) && (token.kind == K::kComma || token.kind == K::kRParen)) {
    diags_.Report(kTypeNeedsName, previous.span, Describe(error.lookahead - 1))
        .Help(fmt::format("write `{}: f32[M, N]` or `{}: f32`", Text(previous), Text(previous)));
    return true;
  }
  if (expected.Only({K::kElse})) {
    const Token& at = token.kind == K::kEnd || token.kind == K::kEof ? previous : token;
    diags_.Report(kNoElse, at.span).Help("write `if c { a } else { b }`");
    return true;
  }
  // `{` of a set or of an arm, with nothing or something else in it.
  const int brace = OpenBrace(error.lookahead);
  const bool is_set = brace > 0 && At(brace - 1).kind == K::kIn;
  const bool at_start = brace >= 0 && brace + 1 >= error.lookahead - (previous.kind == K::kEnd);
  if (at_start && expected.Operand() && !expected.Statement()) {
    if (is_set && token.kind == K::kRBrace) {
      diags_.Report(kEmptyList, Join(At(brace).span, token.span), "this set")
          .Help("write the choices: `{64, 128}`");
      return true;
    }
    if (!is_set && (token.kind == K::kRBrace || IsKeyword(token.kind))) {
      diags_.Report(kArmNotOneExpression, token.span)
          .Label(At(brace).span, "of this arm")
          .Help("write one value, or use a `var` and `if` as a statement");
      return true;
    }
  }
  if (brace >= 0 && !is_set && previous.kind == K::kEnd && expected.Only({K::kEnd, K::kRBrace}) &&
      !ClosesBracket(token.kind)) {
    diags_.Report(kArmNotOneExpression, token.span)
        .Label(At(brace).span, "of this arm")
        .Help("write one value, or use a `var` and `if` as a statement");
    return true;
  }
  return false;
}

// Where a statement begins or should have ended.
bool ParseState::ExplainStatement(const SyntaxError& error) {
  const Expected expected(error.expected);
  const Token& token = At(error.lookahead);
  const Token& previous = At(error.lookahead - 1);
  const Token& head = At(StatementHead(error.lookahead));
  if (expected.Has(K::kEnd) || expected.Has(K::kAddAssign)) {
    // `elif` may follow a `}` directly.
    const bool follows_brace = At(error.lookahead - 2).kind == K::kRBrace;
    const Token& word = follows_brace ? At(error.lookahead - 1) : head;
    if (ExplainForeignWord(word)) return true;
  }
  if (expected.Has(K::kAddAssign) && IsBinary(token.kind)) {
    diags_.Report(kUnusedValue, Join(head.span, token.span))
        .Help("write `let x = ...`, `x = ...` or `print(...)`");
    return true;
  }
  if (expected.Statement()) {
    if (token.kind == K::kEof) return false;
    DiagBuilder report = diags_.Report(kBadStatementStart, token.span, Describe(error.lookahead));
    if (token.kind == K::kMinus)
      report.Help("to go on with the line above, put the `-` at its end");
    else if (token.kind == K::kElse)
      report.Help("`else` follows the `}` of an `if`");
    else if (token.kind == K::kConst)
      report.Help("inside of a kernel write `let`; `const` stands at the top level");
    else if (token.kind == K::kLBracket || token.kind == K::kLParen)
      report.Help(
          "a bracket on a new line does not continue the line above: put it at that "
          "line's end");
    else
      report.Help("write `let x = ...`, `x = ...` or a call");
    return true;
  }
  if (expected.Has(K::kEnd) && !ClosesBracket(token.kind) && !expected.Operand() &&
      token.kind != K::kEof) {
    // After an operand an operator is no new statement.
    if (IsBinary(token.kind) || token.kind == K::kComma || token.kind == K::kColon) return false;
    DiagBuilder report = diags_.Report(kStatementNotEnded, token.span, Describe(error.lookahead));
    const bool method = token.kind == K::kLParen && previous.kind == K::kName &&
                        At(error.lookahead - 2).kind == K::kDot;
    if (method)
      report.Help(
          fmt::format("functions stand in front of what they take: `{}(x)`", Text(previous)));
    else if (token.kind == K::kIf)
      report.Help(
          "write `if c { a } else { b }`, or `select(c, a, b)` to choose element by element");
    else
      report.Help(expected.Operator() ? "write an operator, a `;` or a new line before it"
                                      : "write a `;` or a new line before it");
    return true;
  }
  return false;
}

}  // namespace tilec::language::internal
