// Text to syntax tree. Reports every syntax error it can find (at most kMaxSyntaxErrors), so one
// run shows all of them; a tree is returned only if there was none.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "language/ast.h"
#include "support/diag.h"

namespace tilec::language {

inline constexpr int kMaxSyntaxErrors = 20;

Result<Ast> Parse(const SourceMap& sources, int32_t file, DiagSink& diags);

}  // namespace tilec::language
