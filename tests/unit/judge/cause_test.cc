// One mistake is told once: what shares a line with it, and what is left at the end, follows.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/emulator/judge/cause.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace tilec::runtime::judge {
namespace {

Finding At(Rule rule, std::vector<int> lines) {
  Finding f;
  f.rule = rule;
  f.severity = Def(rule).severity;
  f.entry = "k";
  f.message = "words";
  for (int line : lines) {
    Access a;
    a.site = {"k.ptx", line, "ld.shared.b32", ""};
    f.accesses.push_back(a);
  }
  return f;
}

using Places = std::vector<size_t>;

TEST(Causes, SharedLinesAndLeftovers) {
  const std::vector<Finding> all = {
      At(Rule::kM6, {13}),      // 0: nobody wrote it yet: a symptom of …
      At(Rule::kA2, {12, 5}),   // 1: … this, at the same copy …
      At(Rule::kA2, {13, 5}),   // 2: … by the line they share
      At(Rule::kA3, {77, 80}),  // 3: left at the end
      At(Rule::kB1, {12}),      // 4: stands for itself, though at the same line
      At(Rule::kP1, {30, 31}),  // 5: another mistake
  };
  const std::vector<Cause> causes = FindCauses(all);
  ASSERT_EQ(causes.size(), 3u);
  EXPECT_EQ(causes[0].root, 1u);
  EXPECT_EQ(causes[0].consequences, (Places{0, 2, 3}));
  EXPECT_EQ(causes[1].root, 5u);
  EXPECT_TRUE(causes[1].consequences.empty());
  EXPECT_EQ(causes[2].root, 4u);
}

// A compiler made ten copies of one line: one mistake, unless the line is a header's, which others
// of the kernel may call.
TEST(Causes, OneLineOfTheSource) {
  const auto from = [](int line, const char* source) {
    Finding f = At(Rule::kA1, {line, line + 1});
    f.accesses[0].site.source = source;
    return f;
  };
  EXPECT_EQ(FindCauses({from(10, "gemm.cu:9:3"), from(20, "gemm.cu:9:3")}).size(), 1u);
  EXPECT_EQ(FindCauses({from(10, "gemm.cu:9:3"), from(20, "gemm.cu:8:3")}).size(), 2u);
  EXPECT_EQ(
      FindCauses({from(10, "gemm.cu:9:3 (in a.hpp:1:1)"), from(20, "gemm.cu:9:3 (in a.hpp:1:1)")})
          .size(),
      1u);
  EXPECT_EQ(FindCauses({from(10, "a.hpp:1:1"), from(20, "a.hpp:1:1")}).size(), 2u);
  const char* const way = "a.hpp:1:1 (from b.hpp:2:2)";
  EXPECT_EQ(FindCauses({from(10, way), from(20, way)}).size(), 1u);
}

// A stop says how far it came; the order that was wrong before is why.
TEST(Causes, StopsFollow) {
  const std::vector<Finding> all = {At(Rule::kM4, {50}), At(Rule::kA1, {12, 5})};
  const std::vector<Cause> causes = FindCauses(all);
  ASSERT_EQ(causes.size(), 1u);
  EXPECT_EQ(causes[0].root, 1u);
  EXPECT_EQ(causes[0].consequences, (Places{0}));
  // Without one it is what there is to show.
  EXPECT_EQ(FindCauses({At(Rule::kM4, {50}), At(Rule::kA4, {9})}).size(), 2u);
}

TEST(Causes, EverythingIsCounted) {
  std::vector<Finding> all;
  for (int k = 0; k < 200; ++k)
    all.push_back(At(k % 3 == 0   ? Rule::kA2
                     : k % 3 == 1 ? Rule::kM6
                                  : Rule::kS4,
                     {k % 40 + 1, k + 50}));
  size_t n = 0;
  for (const Cause& c : FindCauses(all)) n += 1 + c.consequences.size();
  EXPECT_EQ(n, all.size());
}

TEST(Causes, TheFirstInFewLines) {
  std::vector<Finding> all = {At(Rule::kS1, {12})};
  for (int k = 0; k < 60; ++k) all[0].notes.push_back("a warp waits");
  all[0].fix = "mend it";
  const std::string text = Summarise(all, false);
  EXPECT_LE(static_cast<size_t>(std::count(text.begin(), text.end(), '\n')), kFirstLines) << text;
  EXPECT_NE(text.find("more notes, `--all` shows them"), std::string::npos) << text;
  EXPECT_NE(text.find("help: mend it"), std::string::npos) << text;
  EXPECT_EQ(Summarise(all, true), ToText(all));
  for (int k = 0; k < 30; ++k) all.push_back(At(Rule::kP1, {100 + 2 * k, 101 + 2 * k}));
  const std::string many = Summarise(all, false);
  EXPECT_LE(static_cast<size_t>(std::count(many.begin(), many.end(), '\n')),
            kFirstLines + kOtherCauses + 1);
  EXPECT_EQ(Summarise({}, false), "");
}

}  // namespace
}  // namespace tilec::runtime::judge
