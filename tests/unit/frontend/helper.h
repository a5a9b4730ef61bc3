// A program from text or file with its diagnostics, for tests of the front end.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fstream>
#include <map>
#include <optional>
#include <sstream>
#include <string>

#include "frontend/frontend.h"
#include "ir/text.h"
#include "ir/verify.h"

namespace tilec::frontend {

inline std::optional<std::string> ReadWhole(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return std::nullopt;
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

// "std/x" from the source tree.
inline ImportResolver StdResolver() {
  FindModule find = [](const std::string& module) -> std::optional<ImportedText> {
    if (!module.starts_with("std/")) return std::nullopt;
    const std::string name = module.substr(4) + ".tile";
    std::optional<std::string> text = ReadWhole(TILEC_SOURCE_DIR "/stdlib/" + name);
    if (!text) return std::nullopt;
    return ImportedText{"stdlib/" + name, std::move(*text)};
  };
  return {std::move(find), {"std/matmul", "std/prelude", "std/softmax"}};
}

struct Loaded {
  SourceMap sources;
  DiagSink diags;
  std::optional<Program> program;

  explicit Loaded(const std::string& text, const std::string& path = "test.tile",
                  const ImportResolver& resolver = StdResolver()) {
    Result<Program> p = Program::LoadText(sources, path, text, resolver, diags);
    if (p.ok()) program = std::move(*p);
  }
  std::string errors() const { return RenderAll(diags, sources); }
  // Codes of all diagnostics, in order: "F107 F140".
  std::string codes() const {
    std::string out;
    for (const Diagnostic& d : diags.all())
      out += (out.empty() ? "" : " ") + std::string(d.def->code);
    return out;
  }
  // The verified function, or nothing with the reason in `diags`.
  std::optional<ir::Function> Specialized(const std::string& kernel, const Values& values = {}) {
    if (!program) return std::nullopt;
    Result<ir::Function> fn = Specialize(*program, {kernel, values, {}}, diags);
    if (!fn.ok() || !ir::Verify(*fn, diags).ok()) return std::nullopt;
    return std::move(*fn);
  }
  std::string Ir(const std::string& kernel, const Values& values = {}) {
    const std::optional<ir::Function> fn = Specialized(kernel, values);
    return fn ? ir::Print(*fn) : errors();
  }
};

}  // namespace tilec::frontend
