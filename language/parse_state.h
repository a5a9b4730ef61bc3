// What the grammar's actions work on: the token stream, the tree being built, and the checks that
// a context-free grammar cannot make (nesting, chained comparisons, where `in` may stand).
// Internal to language/.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "language/ast.h"
#include "language/tokens.h"
#include "support/diag.h"

namespace tilec::language::internal {

// Index of a token: the value of every terminal of the grammar.
struct TokenRef {
  int index = 0;
};

struct Suffixed {  // `[…]` waiting for its base
  std::vector<IndexItem> items;
  ExprId fill;
};

struct SyntaxError {
  int lookahead = 0;                // index of the token that does not fit
  std::vector<TokenKind> expected;  // all that would
};

class ParseState {
 public:
  ParseState(const SourceMap& sources, int32_t file, DiagSink& diags)
      : sources_(sources), diags_(diags) {
    ast.file = file;
  }

  Ast ast;
  std::vector<Token> tokens;
  int next = 0;                          // the lexer's position
  int first_error = 0;                   // errors in the sink before this parse
  size_t first_diag = 0, words_end = 0;  // the lexer's diagnostics are [first_diag, words_end)

  // The grammar's actions, in the order of the grammar.
  Name MakeName(TokenRef token) const;
  std::string StringValue(TokenRef token);
  ExprId Add(Span span, decltype(Expr::node) node);
  StmtId AddStmt(Span span, decltype(Stmt::node) node);
  BlockId AddBlock(Span span, std::vector<StmtId> stmts);
  // An item from its keyword (pins stand before it) to the end of `all`.
  void AddItem(Span keyword, Span all, std::vector<Pin> pins, decltype(Item::node) node);
  ExprId Int(TokenRef token);
  ExprId Float(TokenRef token);
  ExprId Parens(Span span, ExprId inner);
  ExprId Binary(Span span, ExprId lhs, BinaryOp op, Span op_span, ExprId rhs);
  ExprId Range(Span span, ExprId lo, ExprId hi, ExprId step);
  ExprId Call(Span span, Name callee, std::vector<Arg> args);
  ExprId Index(Span span, ExprId base, Suffixed suffix);
  StmtId Assign(Span span, ExprId target, AssignOp op, Span op_span, ExprId value);
  StmtId Expression(Span span, ExprId value);
  StmtId WithPins(std::vector<Pin> pins, StmtId stmt);
  Suffixed WithFill(std::vector<IndexItem> items, const Name& option, ExprId fill);
  TypeRef Strided(Span span, TypeRef type, const Name& what);
  static FnItem Fn(FnItem fn, std::vector<TypeRef> results);
  // `in` within these facts is in its place.
  std::vector<ExprId> Facts(std::vector<ExprId> facts);

  void Unexpected(const SyntaxError& error);  // syntax_errors.cc
  void ReportStrayIns();
  bool Full() const;
  bool failed() const { return diags_.errors() > first_error; }

  template <typename T>
  static std::vector<T> Append(std::vector<T> list, T item) {
    list.push_back(std::move(item));
    return list;
  }

 private:
  const Token& At(int index) const;
  std::string_view Text(const Token& token) const { return sources_.TextOf(token.span); }
  std::string Describe(int index) const;
  std::string DescribeExpected(const std::vector<TokenKind>& expected) const;
  bool ExplainSpecially(const SyntaxError& error);
  bool ExplainStatement(const SyntaxError& error);
  bool ExplainItem(const SyntaxError& error);
  bool ExplainForeignWord(const Token& token);
  void ExplainShapeInCast(int bracket);
  bool ExplainInside(const SyntaxError& error);
  int StatementHead(int index) const;
  int OpenBrace(int index) const;
  bool LineHasWordError(Span span) const;

  const SourceMap& sources_;
  DiagSink& diags_;
  std::vector<int> depth_;       // of each expression
  std::vector<Span> stray_ins_;  // `in` operators not (yet) known to stand in a fact
  bool too_deep_ = false;
};

}  // namespace tilec::language::internal
