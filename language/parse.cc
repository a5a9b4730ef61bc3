// Lexer, layout, grammar: the front door of this folder.
//
// SPDX-License-Identifier: Apache-2.0
#include "language/parse.h"

#include "language/diagnostics.h"
#include "language/parse_state.h"
#include "language/tokens.h"

namespace tilec::language {

namespace internal {
void RunGrammar(ParseState& p);  // grammar.yy
}  // namespace internal

Result<Ast> Parse(const SourceMap& sources, int32_t file, DiagSink& diags) {
  internal::ParseState p(sources, file, diags);
  p.first_error = diags.errors();
  p.first_diag = diags.all().size();
  const std::vector<Token> raw = Scan(sources, file, diags, p.ast.comments);
  p.tokens = LayOut(raw, sources, diags);
  p.words_end = diags.all().size();
  if (!p.tokens.empty() && !p.Full()) {
    internal::RunGrammar(p);
    p.ReportStrayIns();
  }
  if (p.Full()) diags.Report(kTooManyErrors, Span{}, kMaxSyntaxErrors).Place(sources.path(file));
  if (p.failed()) return DiagSink::Propagate();
  return std::move(p.ast);
}

}  // namespace tilec::language
