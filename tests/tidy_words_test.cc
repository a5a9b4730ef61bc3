// Words that do not belong where they stand: notes to oneself, what is slow to build, names of
// architectures and of matrix units outside the files that are about them, paths of one machine.
// Exceptions stand in tables and may only shrink: idle ones fail, too.
//
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tests/source_tree.h"

namespace {

namespace fs = std::filesystem;
using namespace tilec::source_tree;

struct BannedWord {
  std::string_view word;
  std::string_view why;
  std::vector<std::string_view> allowed;  // path prefixes
};

// Spelled in pieces where this file itself would be found.
const std::vector<BannedWord> kBanned = {
    {"FIX"
     "ME",
     "finish it or write it into docs/annoyances.md",
     {}},
    {"TO"
     "DO",
     "finish it or write it into docs/annoyances.md",
     {}},
    {"XX"
     "X",
     "finish it or write it into docs/annoyances.md",
     {}},
    {"get"
     "env",
     "switches are flags; tests may read UPDATE_GOLDEN and TILEC_DEVICE",
     {"tests/", "tools/", "bench/", "api/environment."}},
    {"std::"
     "cout",
     "print through fmt in tools/ only",
     {"tests/", "bench/"}},
    {"#include <io"
     "stream>",
     "static initialisers and slow builds",
     {"tests/"}},
    {"#include <re"
     "gex>",
     "slow to build and to run",
     {"tests/plan/edits_test.cc"}},  // edits texts as a person with an editor would
    {"using name"
     "space std",
     "names in full",
     {}},
    {"#if"
     " 0",
     "dead code",
     {}},
};

// An architecture's name in code: passes ask a target for features and limits.
const std::vector<std::string_view> kMayNameArchitectures = {
    "ir/machines/",
    "tests/",
    "tools/",
    "bench/",
    "examples/",
    "backend/",
    "runtime/",
    "sass/",
    "api/",
    "include/",
    "calibrate/",
    "ir/target_contradictions.cc",  // an example in a message
    "ir/features.def"};

// A matrix unit's name: everything else asks ir/matrix_unit.h. Per name, who may say it and why.
struct UnitName {
  std::string_view name;  // in lower case
  std::vector<std::string_view> allowed;
};
const std::vector<UnitName> kUnitNames = {
    {"wgmma",
     {"ir/matrix_units.def",                            // its row
      "ir/matrix_unit.h",                               // what a warp op that says nothing means
      "ir/machines/",                                   // which machine has it
      "ir/lower/issue_groups.cc",                       // its issue and wait
      "backend/emit_wgmma.cc",                          // its instructions
      "backend/emit_mma.cc",                            // the choice of a unit's file
      "backend/emitter.h",                              // declares what these two define
      "backend/ptx_insts.def",                          // the rows of its instructions
      "backend/nvptx.cc", "backend/architectures.def",  // the .version that has them
      "backend/ptxas.h"}},                              // the assembler's remarks about them
    {"mma.sync",
     {"ir/machines/", "ir/features.def", "ir/matrix_units.def", "ir/lower/issue_at_once.cc",
      "ir/target_contradictions.cc",  // an example in a message
      "backend/architectures.def", "backend/emit_mma_s", "backend/ptx_insts.def"}},
    {"mmasync",
     {"ir/matrix_units.def", "backend/emit_mma_sync.cc", "backend/emit_mma.cc", "backend/emitter.h",
      "backend/ptx_insts.def"}},
    {"ldmatrix",
     {"ir/matrix_units.def", "ir/machines/",  // loads by threads cost what it costs
      "backend/emit_mma_sync.cc", "backend/ptx_insts.def"}},
    {"tcgen05",
     {"ir/features.def", "ir/matrix_units.def", "ir/machines/", "ir/lower/issue_by_barrier.cc",
      "backend/emit_mma.cc", "backend/emit_tcgen05", "backend/ptx_insts.def"}},
};

TEST(Tidy, NoBannedWords) {
  for (const SourceFile& file : Sources({".cc", ".h", ".re", ".yy", ".def"}))
    for (size_t i = 0; i < file.lines.size(); ++i)
      for (const BannedWord& banned : kBanned)
        EXPECT_TRUE(!ContainsWord(file.lines[i], banned.word) ||
                    StartsWithAny(file.path, banned.allowed))
            << Place(file.path, i) << ": `" << banned.word << "`: " << banned.why;
}

TEST(Tidy, ArchitecturesAreNamedInFewPlaces) {
  for (const SourceFile& file : Sources({".cc", ".h", ".re", ".yy", ".def"})) {
    if (StartsWithAny(file.path, kMayNameArchitectures)) continue;
    for (size_t i = 0; i < file.lines.size(); ++i) {
      const size_t at = file.lines[i].find("sm_");
      const bool named = at != std::string::npos && at + 3 < file.lines[i].size() &&
                         std::isdigit(static_cast<unsigned char>(file.lines[i][at + 3]));
      EXPECT_FALSE(named) << Place(file.path, i) << ": ask the target for a feature or a limit";
    }
  }
}

TEST(Tidy, MatrixUnitsAreNamedInTheirFiles) {
  const std::vector<std::string_view> folders = {"api/",    "backend/", "certify/",   "compile/",
                                                 "editor/", "explain/", "frontend/",  "language/",
                                                 "ir/",     "prove/",   "scheduler/", "tools/"};
  std::set<std::pair<std::string_view, std::string_view>> used;
  for (const SourceFile& file : Sources({".cc", ".h", ".def", ".toml"})) {
    if (!StartsWithAny(file.path, folders)) continue;
    for (size_t i = 0; i < file.lines.size(); ++i) {
      std::string line = file.lines[i];
      std::transform(line.begin(), line.end(), line.begin(),
                     [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
      for (const UnitName& unit : kUnitNames) {
        if (line.find(unit.name) == std::string::npos) continue;
        bool allowed = false;
        for (const std::string_view path : unit.allowed)
          if (StartsWithAny(file.path, {path})) allowed = true, used.insert({unit.name, path});
        EXPECT_TRUE(allowed) << Place(file.path, i) << ": `" << unit.name
                             << "` is a matrix unit's own: ask ir/matrix_unit.h";
      }
    }
  }
  for (const UnitName& unit : kUnitNames)
    for (const std::string_view path : unit.allowed)
      EXPECT_TRUE(used.count({unit.name, path}) > 0)
          << path << " does not name " << unit.name << " any more: remove the exception";
}

// The project stands alone: no paths of one machine.
TEST(Tidy, NoPathsOfOneMachine) {
  const std::vector<std::string> prefixes = {
      "/wo"
      "rk/",
      "/ho"
      "me/",
      "/ro"
      "ot/",
      "/Us"
      "ers/"};
  for (const fs::path& path : Tree()) {
    const std::vector<std::string> lines = Lines(path);
    for (size_t i = 0; i < lines.size(); ++i)
      for (const std::string& prefix : prefixes) {
        const size_t at = lines[i].find(prefix);
        const bool part = at != std::string::npos && at > 0 &&
                          (IsWordByte(lines[i][at - 1]) || lines[i][at - 1] == '.');
        EXPECT_TRUE(at == std::string::npos || part) << Place(Relative(path), i) << ": " << prefix;
      }
  }
}

}  // namespace
