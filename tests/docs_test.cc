// Documents that show code show code that compiles: every fenced block of README.md,
// language/spec.md and docs/ that is written in the tile language is given to the front end.
//
// A block is tile code if its fence says ```tile, or says nothing and the block declares a kernel.
// ```tile error F103 expects that diagnostic instead; ```tile fragment is not compiled.
//
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "frontend/frontend.h"
#include "support/diag.h"
#include "support/source.h"

namespace tilec {
namespace {

namespace fs = std::filesystem;

struct Snippet {
  std::string file;
  int line = 0;
  std::string fence;  // what follows the three backticks
  std::string text;
};

std::string ReadText(const fs::path& path) {
  std::ifstream in(path);
  std::stringstream out;
  out << in.rdbuf();
  return out.str();
}

std::vector<Snippet> SnippetsOf(const fs::path& path) {
  std::vector<Snippet> out;
  std::ifstream in(path);
  std::optional<Snippet> open;
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (line.compare(0, 3, "```") != 0) {
      if (open) open->text += line + "\n";
      continue;
    }
    if (open) {
      out.push_back(*open);
      open.reset();
    } else {
      open = Snippet{path.filename().string(), number + 1, line.substr(3), ""};
    }
  }
  EXPECT_FALSE(open) << path << ": a code block is never closed";
  return out;
}

bool IsTile(const Snippet& s) {
  if (s.fence.compare(0, 4, "tile") == 0) return s.fence.find("fragment") == std::string::npos;
  return s.fence.empty() &&
         (s.text.compare(0, 7, "kernel ") == 0 || s.text.find("\nkernel ") != std::string::npos);
}

std::optional<frontend::ImportedText> FromTree(const std::string& module) {
  if (module.compare(0, 4, "std/") != 0) return std::nullopt;
  const fs::path path = fs::path(TILEC_SOURCE_DIR) / "stdlib" / (module.substr(4) + ".tile");
  if (!fs::exists(path)) return std::nullopt;
  return frontend::ImportedText{path.string(), ReadText(path)};
}

// All diagnostics of compiling `s`, as text; empty if there is none.
std::string Compile(const Snippet& s) {
  SourceMap sources;
  DiagSink diags;
  const std::string name = s.file + ":" + std::to_string(s.line);
  auto program = frontend::Program::LoadText(sources, name, s.text, FromTree, diags);
  if (program.ok()) (void)frontend::Check(*program, diags);
  return diags.has_errors() ? RenderAll(diags, sources) : "";
}

TEST(Docs, SnippetsCompile) {
  const fs::path root = TILEC_SOURCE_DIR;
  std::vector<fs::path> files = {root / "README.md", root / "language/spec.md"};
  for (const auto& entry : fs::recursive_directory_iterator(root / "docs"))
    if (entry.path().extension() == ".md") files.push_back(entry.path());
  int compiled = 0;
  for (const fs::path& file : files) {
    for (const Snippet& s : SnippetsOf(file)) {
      if (!IsTile(s)) continue;
      ++compiled;
      const std::string said = Compile(s);
      const size_t wants = s.fence.find("error ");
      if (wants == std::string::npos) {
        EXPECT_EQ(said, "") << s.file << ":" << s.line;
      } else {
        EXPECT_NE(said.find("[" + s.fence.substr(wants + 6) + "]"), std::string::npos)
            << s.file << ":" << s.line << " should be refused with " << s.fence << "\n"
            << said;
      }
    }
  }
  EXPECT_GE(compiled, 1);
}

TEST(Docs, AWrongSnippetIsSeen) {  // the judge itself
  Snippet s;
  s.file = "made up";
  s.text =
      "kernel k(A: f32[N], B: out f32[N]) {\n  parallel n in tiles(N, 32) { B[n] = A[m] }\n}\n";
  EXPECT_NE(Compile(s), "");
}

}  // namespace
}  // namespace tilec
