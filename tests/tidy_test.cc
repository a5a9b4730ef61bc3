// The rules of the house that a machine can hold: who may include whom, how long files and lines
// may be, words that do not belong in a source, sources that no CMakeLists.txt names, links in the
// documents that lead nowhere. Exceptions stand in tables and may only shrink: idle ones fail, too.
//
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/source_tree.h"

namespace {

namespace fs = std::filesystem;
using namespace tilec::source_tree;
constexpr int kMaxFileLines = 600;
constexpr int kMaxLineColumns = 100;

// folder → folders it may include besides itself. tools and tests may include everything.
const std::map<std::string, std::set<std::string>> kMayInclude = {
    {"support", {}},
    {"language", {"support"}},
    {"ir", {"support"}},
    {"frontend", {"support", "language", "ir"}},
    {"certify", {"support"}},  // and scheduler/graph.h
    {"scheduler", {"support", "ir", "certify"}},
    {"compile", {"support", "ir", "scheduler"}},
    {"explain", {"support", "ir", "certify", "scheduler"}},
    {"calibrate", {"support", "ir", "runtime"}},
    {"backend", {"support", "ir"}},
    {"sass", {"support"}},
    {"runtime", {"support"}},  // and backend/kernel_image.h
    {"shim", {"support", "runtime"}},
    {"editor", {"support", "language", "ir", "frontend", "scheduler", "api"}},
    {"api",
     {"support", "language", "ir", "frontend", "certify", "scheduler", "compile", "backend",
      "runtime"}},
};

// Files longer than kMaxFileLines, with what they have today. Entries may only go or get smaller.
const std::map<std::string, int> kLongFiles = {};

std::string TopFolder(const std::string& path) { return path.substr(0, path.find('/')); }

// `#include "ir/type.h"` → ir/type.h; empty if the line is none. `angle` tells <…> from "…".
std::string IncludedPath(const std::string& line, bool* angle) {
  size_t at = line.find_first_not_of(" \t");
  if (at == std::string::npos || line.compare(at, 8, "#include") != 0) return "";
  at = line.find_first_of("\"<", at);
  if (at == std::string::npos) return "";
  *angle = line[at] == '<';
  const size_t end = line.find(*angle ? '>' : '"', at + 1);
  if (end == std::string::npos) return "";
  return line.substr(at + 1, end - at - 1);
}

// Empty if `file` may include `target`, else why not.
std::string WhyNot(const std::string& file, const std::string& target) {
  const std::string from = TopFolder(file), to = TopFolder(target);
  const std::string base = target.substr(target.rfind('/') + 1);
  if (base == "internal.h" && from != "tests" &&
      fs::path(file).parent_path() != fs::path(target).parent_path())
    return "an internal.h is for its own folder";
  if (to == "tools" && from != "tools" && from != "tests" && from != "bench")
    return "nobody includes tools";
  if (to == "tests" && from != "tests" && from != "bench") return "nobody includes tests";
  const auto rule = kMayInclude.find(from);
  if (rule == kMayInclude.end()) return "";  // tools, tests, bench, examples
  const bool emulator = file.compare(0, 17, "runtime/emulator/") == 0;
  if (from == "runtime" && target == "backend/kernel_image.h")
    return emulator ? "the emulator shares nothing with the backend" : "";
  if (from == "certify" && target == "scheduler/graph.h") return "";
  if (from == to || rule->second.count(to)) return "";
  if (kMayInclude.count(to)) return from + " does not know " + to;
  return "";
}

TEST(Tidy, TreeIsFound) {
  ASSERT_GT(Sources({".cc", ".h"}).size(), 30u) << "reads " << TILEC_SOURCE_DIR;
}

TEST(Tidy, IncludesFollowTheLayers) {
  for (const SourceFile& file : Sources({".cc", ".h", ".re", ".yy", ".def"})) {
    for (size_t i = 0; i < file.lines.size(); ++i) {
      bool angle = false;
      const std::string target = IncludedPath(file.lines[i], &angle);
      if (target.empty()) continue;
      if (angle) {
        const bool llvm = target.compare(0, 5, "llvm/") == 0;
        EXPECT_TRUE(!llvm || StartsWithAny(file.path, {"backend/", "tests/"}))
            << Place(file.path, i) << ": llvm headers belong to backend/";
        const bool z3 = target.compare(0, 2, "z3") == 0;
        EXPECT_TRUE(!z3 || StartsWithAny(file.path, {"scheduler/solver.cc", "tests/"}))
            << Place(file.path, i) << ": the solver's header belongs to scheduler/solver.cc";
        continue;
      }
      EXPECT_EQ(WhyNot(file.path, target), "") << Place(file.path, i) << " includes " << target;
      EXPECT_NE(target.find('/'), std::string::npos)
          << Place(file.path, i) << ": includes are written from the root";
    }
  }
}

TEST(Tidy, LayerTableJudges) {  // the judge itself
  EXPECT_EQ(WhyNot("frontend/check.cc", "ir/type.h"), "");
  EXPECT_NE(WhyNot("ir/type.cc", "language/ast.h"), "");
  EXPECT_NE(WhyNot("language/ast.cc", "ir/type.h"), "");
  EXPECT_NE(WhyNot("backend/lower.cc", "runtime/device.h"), "");
  EXPECT_EQ(WhyNot("certify/encode.h", "scheduler/graph.h"), "");
  EXPECT_NE(WhyNot("certify/encode.h", "scheduler/model.h"), "");
  EXPECT_EQ(WhyNot("scheduler/prove.h", "certify/refutation.h"), "");
  EXPECT_NE(WhyNot("runtime/launch.cc", "backend/backend.h"), "");
  EXPECT_EQ(WhyNot("runtime/launch.cc", "backend/kernel_image.h"), "");
  EXPECT_NE(WhyNot("runtime/emulator/x.cc", "backend/kernel_image.h"), "");
  EXPECT_NE(WhyNot("api/compiler.cc", "tools/compiler.h"), "");
  EXPECT_NE(WhyNot("tools/main.cc", "backend/internal.h"), "");
}

TEST(Tidy, FilesCanBeFinished) {
  std::map<std::string, int> exceptions = kLongFiles;
  for (const SourceFile& file : Sources({".cc", ".h", ".re", ".yy", ".def", ".tile"})) {
    const int lines = static_cast<int>(file.lines.size());
    const auto exception = exceptions.find(file.path);
    if (exception == exceptions.end()) {
      EXPECT_LE(lines, kMaxFileLines) << file.path << ": split it along its subjects";
      continue;
    }
    EXPECT_LE(lines, exception->second) << file.path << " grew: it is a listed exception";
    EXPECT_GT(lines, kMaxFileLines) << file.path << " needs no exception any more: remove it";
    exceptions.erase(exception);
  }
  for (const auto& [path, lines] : exceptions)
    ADD_FAILURE() << path << " is listed with " << lines << " lines but does not exist";
}

// Columns as a reader counts them: UTF-8 continuation bytes are not columns.
int Columns(const std::string& line) {
  return static_cast<int>(
      std::count_if(line.begin(), line.end(), [](unsigned char c) { return (c & 0xC0) != 0x80; }));
}

TEST(Tidy, LinesFit) {
  // Tables (.def) are read sideways; everything else fits.
  for (const SourceFile& file : Sources({".cc", ".h", ".re", ".yy", ".tile"})) {
    if (file.path.compare(0, 13, "tests/golden/") == 0) continue;  // what tools print has its width
    for (size_t i = 0; i < file.lines.size(); ++i) {
      EXPECT_LE(Columns(file.lines[i]), kMaxLineColumns) << Place(file.path, i);
      EXPECT_EQ(file.lines[i].find('\t'), std::string::npos) << Place(file.path, i) << ": a tab";
      EXPECT_TRUE(file.lines[i].empty() || file.lines[i].back() != ' ')
          << Place(file.path, i) << ": space at the end";
    }
  }
}

TEST(Tidy, FilesOpenWithWhyAndLicence) {
  for (const SourceFile& file : Sources({".cc", ".h"})) {
    ASSERT_FALSE(file.lines.empty()) << file.path << " is empty";
    EXPECT_EQ(file.lines[0].compare(0, 2, "//"), 0)
        << file.path << ": open with a few lines of why";
    const size_t end = std::min<size_t>(file.lines.size(), 60);
    const bool licence =
        std::any_of(file.lines.begin(), file.lines.begin() + end, [](const std::string& line) {
          return line.find("SPDX-License-Identifier: Apache-2.0") != std::string::npos;
        });
    EXPECT_TRUE(licence) << file.path << ": no SPDX line";
    if (file.path.size() > 2 && file.path.compare(file.path.size() - 2, 2, ".h") == 0) {
      EXPECT_GT(std::count(file.lines.begin(), file.lines.end(), "#pragma once"), 0)
          << file.path << ": no #pragma once";
      EXPECT_NE(file.lines[0], "// SPDX-License-Identifier: Apache-2.0")
          << file.path << ": a header opens with its why, the licence stands behind it";
    }
  }
}

// Every .cc (and .re, .yy) is named by the CMakeLists.txt of its folder or of one above.
TEST(Tidy, SourcesAreBuilt) {
  for (const fs::path& path : Tree()) {
    if (!HasExtension(path, {".cc", ".re", ".yy"})) continue;
    bool found = false;
    const fs::path root = TILEC_SOURCE_DIR;
    for (fs::path dir = path.parent_path(); !found; dir = dir.parent_path()) {
      const std::string want = fs::relative(path, dir).generic_string();
      const std::string stem = path.stem().string();
      for (const std::string& line : Lines(dir / "CMakeLists.txt"))
        found = found || line.find(want) != std::string::npos || ContainsWord(line, stem);
      if (dir == root) break;
    }
    EXPECT_TRUE(found) << Relative(path) << " is named in no CMakeLists.txt above it";
  }
}

// Every kernel file's tests are run by ctest.
TEST(Tidy, KernelFilesAreTested) {
  const std::vector<std::string> lists = Lines(fs::path(TILEC_SOURCE_DIR) / "tests/CMakeLists.txt");
  for (const SourceFile& file : Sources({".tile"})) {
    if (!StartsWithAny(file.path, {"stdlib/", "tests/exec/"})) continue;
    const std::string stem = fs::path(file.path).stem().string();
    EXPECT_TRUE(std::any_of(lists.begin(), lists.end(),
                            [&](const std::string& line) { return ContainsWord(line, stem); }))
        << file.path << " is not listed in tests/CMakeLists.txt";
    EXPECT_TRUE(
        std::any_of(file.lines.begin(), file.lines.end(),
                    [](const std::string& line) { return line.compare(0, 5, "test ") == 0; }))
        << file.path << " has no test block";
  }
}

// Lines of `kernel name(` up to its closing brace, without blanks and comments.
int KernelLines(const SourceFile& file, const std::string& name) {
  int count = 0;
  bool inside = false;
  for (const std::string& line : file.lines) {
    inside = inside || line.compare(0, name.size() + 8, "kernel " + name + "(") == 0;
    if (!inside) continue;
    const size_t at = line.find_first_not_of(' ');
    if (at != std::string::npos && line.compare(at, 2, "//") != 0) ++count;
    if (line == "}") return count;
  }
  return 0;
}

// The promise of the language: short kernels without a word about how they are executed.
TEST(Tidy, StandardLibrarySaysOnlyWhat) {
  // (Attention is written in two forms, and one of them has both loops.)
  const std::map<std::string, int> kTargets = {{"gemm", 15}, {"attention", 75}};
  std::set<std::string> seen;
  for (const SourceFile& file : Sources({".tile"})) {
    if (file.path.compare(0, 7, "stdlib/") != 0) continue;
    for (const auto& [name, target] : kTargets) {
      const int lines = KernelLines(file, name);
      EXPECT_LE(lines, target) << "kernel " << name << " in " << file.path;
      if (lines > 0) seen.insert(name);
    }
    for (size_t i = 0; i < file.lines.size(); ++i) {
      const std::string code = file.lines[i].substr(0, file.lines[i].find("//"));
      for (const char* word :
           {"stage", "role", "barrier", "swizzle", "layout", "warp", "smem", "depth"})
        EXPECT_FALSE(ContainsWord(code, word)) << Place(file.path, i) << ": `" << word << "`";
    }
  }
  EXPECT_EQ(seen.size(), kTargets.size());
}

}  // namespace
