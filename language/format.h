// Syntax tree back to text: the one canonical layout, with comments where they were written.
//
// Format(Parse(Format(x))) == Format(x), and the tree does not change (DumpAst is equal).
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "language/ast.h"
#include "support/source.h"

namespace tilec::language {

std::string Format(const Ast& ast, const SourceMap& sources, int32_t file);

// The tree as indented text without places: two trees are equal when their dumps are.
std::string DumpAst(const Ast& ast);

}  // namespace tilec::language
