// Shared by the language tests: parse a text, get its tree or its diagnostics.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "language/format.h"
#include "language/parse.h"

namespace tilec::language {

struct Parsed {
  SourceMap sources;
  int32_t file = -1;
  DiagSink diags;
  std::optional<Ast> ast;

  explicit Parsed(std::string text, std::string path = "test.tile") {
    file = sources.Add(std::move(path), std::move(text));
    Result<Ast> result = Parse(sources, file, diags);
    if (result.ok()) ast = *std::move(result);
  }
  bool ok() const { return ast.has_value(); }
  std::string errors() const { return RenderAll(diags, sources); }
  std::string dump() const { return ast ? DumpAst(*ast) : errors(); }
  std::string format() const { return ast ? Format(*ast, sources, file) : errors(); }
};

}  // namespace tilec::language
