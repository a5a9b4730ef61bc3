// Numbers that are one machine's do not stand in code: they come from its file by way of
// ir/target.h, so that another machine has its own. Three nets, each with its exceptions and why:
//   1. limits and rates of the H200, by their digits;
//   2. constants beside whose definition a machine is named: what was measured there is its fact;
//   3. fractions: shares, margins and factors of the models are measured somewhere, or are not of a
//      machine, which the table says.
//
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tests/source_tree.h"

namespace {

using namespace tilec::source_tree;

// Numbers of the H200, by which code would count on that machine: shared memory of a CTA and of an
// SM, registers, SMs, the quota of a compute role, clock, memory, a copy from memory. They stand in
// ir/machines and come by way of ir/target.h.
const std::vector<std::string_view> kNumbersOfOneMachine = {
    "232448", "233472", "227 <<", "228 <<", "65536", "132", "240", "1980", "4800", "255"};
// Where such a number means something else, or has to stand.
struct NumberException {
  std::string_view path, number, why;
};
const std::vector<NumberException> kMayHaveNumbers = {
    {"ir/isa.h", "255", "the ISA's most registers of a thread"},
    {"ir/target_facts.def", "255", "the range of a key: the ISA's most registers of a thread"},
    {"scheduler/graph.h", "232448",
     "a graph as text may leave its machine out (docs/scheduler.md)"},
    {"scheduler/graph.h", "240", "the same"},
    {"scheduler/graph.h", "65536", "the same"},
    {"runtime/machine_limits.h", "227 <<", "what the emulator's instructions were compared with"},
    {"runtime/machine_limits.h", "228 <<", "the same"},
    {"runtime/machine_limits.h", "255", "the same"},
    {"runtime/machine_limits.h", "132", "the same"},
    {"runtime/emulator/", "255", "the ISA's most registers, and bytes"},
};

const std::vector<std::string_view> kFolders = {"api/",      "backend/", "certify/",   "compile/",
                                                "editor/",   "explain/", "frontend/",  "ir/",
                                                "language/", "runtime/", "scheduler/", "tools/"};

TEST(Tidy, NumbersOfOneMachineStandInItsFile) {
  std::set<const NumberException*> used;
  for (const SourceFile& file : Sources({".cc", ".h", ".def"})) {
    if (!StartsWithAny(file.path, kFolders)) continue;
    for (size_t i = 0; i < file.lines.size(); ++i) {
      const std::string code = CodeOf(file.lines[i]);
      for (const std::string_view number : kNumbersOfOneMachine) {
        if (!ContainsWord(code, number)) continue;
        bool allowed = false;
        for (const NumberException& exception : kMayHaveNumbers)
          if (exception.number == number && StartsWithAny(file.path, {exception.path}))
            allowed = true, used.insert(&exception);
        EXPECT_TRUE(allowed) << Place(file.path, i) << ": " << number
                             << " is the H200's: ask ir::Target, or list it with a reason";
      }
    }
  }
  for (const NumberException& exception : kMayHaveNumbers)
    EXPECT_TRUE(used.count(&exception) > 0)
        << exception.path << " has no " << exception.number << " any more: remove the exception";
}

// ---- a machine named beside a constant -----------------------------------------------------

// Names under which machines are measured: devices of ir/machines.
const std::vector<std::string_view> kMachines = {"H100", "H200", "GH200", "B200", "B300",
                                                 "A100", "A10",  "L40S",  "RTX",  "Spark"};
struct ConstantException {
  std::string_view path, name, why;
};
const std::vector<ConstantException> kMeasuredInCode = {
    {"api/tune_facts.cc", "kBeside",
     "what ptxas keeps beside tiles, of any machine's 255 registers"},
    {"scheduler/sms_shared.cc", "kPair", "to become a row beside part_sms: pairs in wider parts"},
};

// `constexpr int64_t kName = 12;` → kName, if a number stands in its value.
std::string ConstantOf(const std::string& code) {
  const size_t at = code.find("constexpr "), is = code.find('=', at);
  if (at == std::string::npos || is == std::string::npos || code.find('(', at) < is) return "";
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  if (std::none_of(code.begin() + static_cast<ptrdiff_t>(is), code.end(), digit)) return "";
  size_t end = is;
  while (end > at && !IsWordByte(code[end - 1])) --end;
  size_t begin = end;
  while (begin > at && IsWordByte(code[begin - 1])) --begin;
  return code.substr(begin, end - begin);
}
bool IsComment(const std::string& line) {
  const size_t at = line.find_first_not_of(' ');
  return at != std::string::npos && line.compare(at, 2, "//") == 0;
}
// What is said of line `i`: behind it, and in the lines of comment in front of it.
std::string SaidOf(const SourceFile& file, size_t i) {
  std::string said = file.lines[i];
  for (size_t above = i; above > 0 && IsComment(file.lines[above - 1]); --above)
    said += '\n' + file.lines[above - 1];
  return said;
}

// Finds each constant that `wanted` says is not to stand in code, and exceptions that are idle.
template <typename Wanted>
void LookForConstants(const std::vector<std::string_view>& folders,
                      const std::vector<ConstantException>& exceptions, const Wanted& wanted,
                      std::string_view help) {
  std::set<const ConstantException*> used;
  for (const SourceFile& file : Sources({".cc", ".h"})) {
    if (!StartsWithAny(file.path, folders)) continue;
    for (size_t i = 0; i < file.lines.size(); ++i) {
      const std::string name = ConstantOf(CodeOf(file.lines[i]));
      if (name.empty() || !wanted(file, i)) continue;
      bool allowed = false;
      for (const ConstantException& exception : exceptions)
        if (exception.path == file.path && exception.name == name)
          allowed = true, used.insert(&exception);
      EXPECT_TRUE(allowed) << Place(file.path, i) << ": " << name << help;
    }
  }
  for (const ConstantException& exception : exceptions)
    EXPECT_TRUE(used.count(&exception) > 0)
        << exception.path << ": " << exception.name << " needs no exception any more: remove it";
}

TEST(Tidy, WhatWasMeasuredOnAMachineStandsInItsFile) {
  const auto measured = [](const SourceFile& file, size_t i) {
    const std::string said = SaidOf(file, i);
    return std::any_of(kMachines.begin(), kMachines.end(),
                       [&](std::string_view name) { return ContainsWord(said, name); });
  };
  LookForConstants({"api/", "backend/", "compile/", "explain/", "frontend/", "ir/", "scheduler/"},
                   kMeasuredInCode, measured,
                   " was measured on a machine: a row of ir/target_facts.def, or list it");
}

// ---- fractions -----------------------------------------------------------------------------

const std::vector<ConstantException> kFractionsInCode = {
    {"api/halving.cc", "kPlanned", "of the seconds that measuring may take"},
    {"api/improve.h", "kImproveSeconds", "of the seconds that measuring may take"},
    {"api/improve.h", "kImproveFaster", "what a user must gain for a kernel to be replaced"},
    {"api/measure_launches.cc", "kShort", "how launches are timed: an error of the clock"},
    {"api/refine.cc", "kSilentSeconds", "until a person is told what takes so long"},
    {"api/tune.cc", "kAsGood", "of two candidates the earlier one: of the search, not of a time"},
    {"api/tune.cc", "kAround", "of a time, where the machine's two margins meet"},
    {"api/tune.cc", "kWaste", "the step in which candidates are compared for what they do in vain"},
    {"api/tune_word.h", "kTuneSeconds", "of the seconds that measuring may take"},
    {"scheduler/chain_alone.cc", "kCovered",
     "of what covers a chain, from where no more was gained"},
    {"scheduler/neighbours.cc", "kTimesTwoLaunches", "below which forms are not looked at"},
    {"scheduler/neighbours.cc", "kOnlyCopying", "of CTAs that multiply: a count, not a time"},
    {"scheduler/neighbours.cc", "kMostAsked", "below which forms are not looked at"},
    {"ir/count_work.cc", "kOnce", "tiles over an edge: a count, not a time"},
    {"ir/target_toml.cc", "kMostTomlCost", "the range of a key"},
    {"ir/warp_check/rate.cc", "kTensorRows",
     "the ISA's: rows and bytes of K of a product's instruction"},
    {"scheduler/apply_schedules.cc", "kSlack", "of II: of a question about a schedule, not a time"},
    {"scheduler/modulo_build.cc", "kTight",
     "of a heuristic that finds an order: what it finds is judged"},
};

TEST(Tidy, FractionsOfModelsStandInTheMachinesFile) {
  const auto fraction = [](const SourceFile& file, size_t i) {
    // The interpreter's, numerics' and drawings' are mathematics.
    return ContainsWord(file.lines[i], "double") &&
           !StartsWithAny(file.path, {"ir/interpret", "ir/e2m1", "ir/numerics"});
  };
  LookForConstants({"api/", "compile/", "ir/", "scheduler/"}, kFractionsInCode, fraction,
                   " is a share or a factor: a row of ir/target_facts.def, or list it");
}

TEST(Tidy, NetsForNumbersCatch) {  // the nets themselves
  EXPECT_EQ(ConstantOf("  constexpr double kLast = 3;"), "kLast");
  EXPECT_EQ(ConstantOf("constexpr int64_t kRun = 66 * 1024;"), "kRun");
  EXPECT_EQ(ConstantOf("constexpr double Power(int e) { int x = 1; }"), "");
  EXPECT_EQ(ConstantOf("const double last = 3;"), "");
  const SourceFile file{"x.cc",
                        {"// Seen on an H200: 3.", "constexpr double kLast = 3;  // times"}};
  EXPECT_NE(SaidOf(file, 1).find("H200"), std::string::npos);
}

}  // namespace
