// Names of one file: where each is defined, and what each mention means. Lexical scopes only, from
// the syntax tree, so that it works while the types of a program are still wrong.
//
// Scopes: items see each other; a kernel's dims (named first in the type of a tensor), parameters
// and tunes are seen in the whole kernel; `let`, `var` and loop variables from their statement on
// in their block; a name in front of `=` in a call of a kernel means what that kernel has of that
// name.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "language/ast.h"

namespace tilec::editor {

enum class SymbolKind {
  kKernel,
  kFunction,
  kConst,
  kTensor,
  kScalar,
  kDim,
  kTune,
  kLet,
  kVar,
  kLoop
};
const char* Spelling(SymbolKind kind);  // "kernel", "fn", "const", "tensor", …

struct Symbol {
  SymbolKind kind{};
  std::string name;
  Span at;                 // the name where it is defined
  Span whole;              // the item, statement or parameter
  Span scope;              // where it is seen
  language::ItemId item;   // the kernel or function around it, or the item itself
  language::ExprId value;  // of let, var, tune, const; may be absent
  std::vector<Span> uses;  // the definition included, in order
};

struct SymbolTable {
  std::vector<Symbol> symbols;  // in order of definition

  // The symbol of which a definition or use covers `offset` (its end included), or null.
  const Symbol* At(uint32_t offset, Span* use = nullptr) const;
  // What is seen at `offset`, innermost first.
  std::vector<const Symbol*> VisibleAt(uint32_t offset) const;
};

// `text`: what the tree was parsed from.
SymbolTable BuildSymbols(const language::Ast& ast, std::string_view text);

}  // namespace tilec::editor
