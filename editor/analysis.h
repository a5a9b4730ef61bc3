// What the server knows of one version of one document: its syntax tree, names, diagnostics, and
// the type that every expression has. All of it is the compiler's own: nothing is parsed or typed
// here a second time.
//
// A document with syntax errors has diagnostics and nothing else; the server then answers from the
// last version that had a tree.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/stdlib.h"
#include "editor/position.h"
#include "editor/symbols.h"
#include "frontend/frontend.h"
#include "ir/function.h"
#include "language/ast.h"
#include "support/diag.h"

namespace tilec::editor {

// A kernel with the values that stand in for those a call will bring: defaults of tunes and consts,
// and numbers for which its facts hold.
struct TypedKernel {
  std::string name;
  frontend::Values values;
  ir::Function fn;
};

struct Analysis {
  std::string path;
  int32_t file = -1;  // of `sources`
  SourceMap sources;
  DiagSink diags;
  std::optional<frontend::Program> program;
  std::optional<language::Ast> ast;
  SymbolTable symbols;
  std::vector<TypedKernel> kernels;
  std::map<std::pair<uint32_t, uint32_t>, std::string> types;  // of the expression at [begin, end)

  std::string_view text() const { return sources.text(file); }
  LineIndex lines() const { return LineIndex(text()); }
  // "f32[128, 256]" of the value a `let`, `var` or expression has; "" if it is not known.
  const std::string& TypeAt(Span span) const;
};

// `path` is for messages and relative imports. Never null. It does not move: its program points
// into its sources.
std::unique_ptr<Analysis> Analyse(const std::string& path, std::string text,
                                  const api::StandardLibrary& library);

}  // namespace tilec::editor
