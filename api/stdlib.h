// Where `import "std/…"` and paths that start with std/ lead: the files of stdlib/, which are built
// into the library, or a folder that takes their place.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "frontend/frontend.h"
#include "support/diag.h"

namespace tilec::api {

struct EmbeddedFile {
  const char* name;  // "matmul.tile"
  const char* text;
};
extern const EmbeddedFile kEmbeddedStdlib[];
extern const int kEmbeddedStdlibCount;

class StandardLibrary {
 public:
  // `directory` "": the built-in files.
  explicit StandardLibrary(std::string directory = "") : directory_(std::move(directory)) {}
  // "std/matmul" or "std/matmul.tile".
  std::optional<frontend::ImportedText> Find(const std::string& module) const;
  std::vector<std::string> modules() const;  // "std/matmul", …; built-in ones only
  frontend::ImportResolver Resolver() const;

 private:
  std::string directory_;
};

// Loads a program from a file, or from the standard library if the path starts with std/.
Result<frontend::Program> LoadProgram(SourceMap& sources, const std::string& path,
                                      const StandardLibrary& library, DiagSink& diags);

}  // namespace tilec::api
