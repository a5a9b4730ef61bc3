// Answers without a solver: always lawful, never below what exhaustive search finds possible, good
// on the loops that the compiler is for.
//
// SPDX-License-Identifier: Apache-2.0
#include "scheduler/first_answer.h"

#include <gtest/gtest.h>

#include "scheduler/check.h"
#include "tests/unit/scheduler/corpus.h"
#include "tests/unit/scheduler/exhaustive.h"
#include "tests/unit/scheduler/test_graphs.h"

namespace tilec::scheduler {
namespace {

void ExpectLawful(const Graph& graph, const Search::Found& found, const std::string& name) {
  const ir::Schedule schedule = ToSchedule(graph, {}, found);
  const CheckReport report = Check(graph, schedule);
  EXPECT_TRUE(report.violations.empty())
      << name << ": " << report.violations[0].law << ": " << report.violations[0].text;
  const CheckReport played = Simulate(graph, schedule);
  EXPECT_TRUE(played.violations.empty())
      << name << ": " << played.violations[0].law << ": " << played.violations[0].text;
}

TEST(FirstAnswer, LawfulAndNotTooGoodOnRandomGraphs) {
  int answered = 0, best = 0;
  for (uint64_t seed = 0; seed < 120; ++seed) {
    const Graph graph = RandomGraph(seed, 5, seed % 2 == 0);
    const int64_t bound = BestBound(graph).ii;
    const std::optional<Search::Found> found = FirstAnswer(graph, {}, bound);
    if (!found) continue;
    ++answered;
    ExpectLawful(graph, *found, std::to_string(seed));
    EXPECT_TRUE(ExhaustivelyFeasible(graph, found->ii)) << seed;
    if (found->ii == bound || !ExhaustivelyFeasible(graph, found->ii - 1)) ++best;
  }
  // Counted, so that a heuristic that gets worse is seen.
  EXPECT_GE(answered, 90);
  EXPECT_GE(best * 10, answered * 8);
}

TEST(FirstAnswer, EveryLoopOfTheTree) {
  int answered = 0, closed = 0;
  const std::vector<CorpusLoop> corpus = Corpus({"h200", "b200"});
  EXPECT_GE(corpus.size(), 250u);
  for (const CorpusLoop& loop : corpus) {
    const Graph& graph = loop.extraction.graph;
    const int64_t bound = BestBound(graph).ii;
    const std::optional<Search::Found> found = FirstAnswer(graph, {}, bound);
    if (!found) continue;
    ++answered;
    closed += found->ii == bound ? 1 : 0;
    ExpectLawful(graph, *found, loop.name);
  }
  // The rest has no schedule (products of 256 registers per thread) or is left to the solver.
  EXPECT_GE(answered, 270);
  EXPECT_GE(closed, 220);
}

TEST(FirstAnswer, AttentionOfTwoSlices) {
  for (const CorpusLoop& loop : Corpus({"h200"})) {
    if (loop.name.find("attention:attention") != 0 ||
        loop.name.find(", 2, h200") == std::string::npos)
      continue;
    const Graph& graph = loop.extraction.graph;
    EXPECT_LE(graph.ops.size(), 25u) << loop.name;
    const int64_t bound = BestBound(graph).ii;
    const std::optional<Search::Found> found = FirstAnswer(graph, {}, bound);
    ASSERT_TRUE(found) << loop.name;
    EXPECT_LE(static_cast<double>(found->ii), 1.06 * static_cast<double>(bound)) << loop.name;
  }
}

// Rows of an image, each read once for the three that need it: one role issues in every cycle of
// the least period, and pieces of different lengths leave gaps that none fits into. Searching slot
// by slot closes 0 of these, packing all but a few.
TEST(FirstAnswer, AFullStreamIsPacked) {
  int closed = 0;
  constexpr int kGraphs = 20;
  for (int seed = 0; seed < kGraphs; ++seed) {
    GraphBuilder b;
    const int smem = b.Unit("smem"), alu = b.Unit("alu");
    const auto fixed = [&](int from, int to, int64_t distance = 0) {
      b.Edge(from, to, EdgeKind::kRegister, distance).crossable = false;
    };
    int above = -1, first = -1;
    for (int row = 0; row < 4; ++row) {
      std::vector<int> taps;
      for (int column = 0; column < 3; ++column) {
        const std::string name = std::to_string(3 * row + column);
        const int load = b.Op("load" + name, 41 + (seed + 3 * column) % 7, 107, smem, 32);
        const int cast = b.Op("cast" + name, 8, 22, alu, 4);
        const int product = b.Op("product" + name, 22 + (seed * row) % 5, 66);
        fixed(load, cast);
        fixed(cast, product);
        taps.push_back(product);
      }
      const int sum = b.Op("sum" + std::to_string(row), 16 + seed % 3, 44);
      for (const int tap : taps) fixed(tap, sum);
      const int out = b.Op("out" + std::to_string(row), 46 - seed % 4, 139, smem, 24);
      fixed(sum, out);
      if (above >= 0) fixed(above, sum);
      if (first < 0) first = sum;
      above = sum;
    }
    fixed(above, first, 1);
    const int64_t bound = BestBound(b.graph).ii;
    const std::optional<Search::Found> found = FirstAnswer(b.graph, {}, bound);
    ASSERT_TRUE(found) << seed;
    ExpectLawful(b.graph, *found, std::to_string(seed));
    closed += found->ii == bound;
  }
  EXPECT_GE(closed, 15);
}

TEST(FirstAnswer, SameAnswerTwice) {
  const Graph graph = LoadGraph("attention_backward_hopper");
  const std::optional<Search::Found> a = FirstAnswer(graph, {}, 2560),
                                     b = FirstAnswer(graph, {}, 2560);
  ASSERT_TRUE(a && b);
  EXPECT_EQ(a->placement.cycle, b->placement.cycle);
  EXPECT_EQ(a->placement.group, b->placement.group);
}

// A budget too small for any query: the first answer stands, and says how far it may be off.
TEST(FirstAnswer, SurvivesAnEmptyBudget) {
  const Graph graph = LoadGraph("attention_backward_hopper");
  SolveOptions options;
  options.resource_limit = options.total_limit = 10;
  DiagSink diags;
  const Result<Solution> solution = Solve(graph, options, diags);
  ASSERT_TRUE(solution.ok());
  EXPECT_EQ(solution->certificate.ii, solution->first_ii);
  EXPECT_EQ(solution->lower_bound, 2560);
  EXPECT_GT(solution->gap(), 0);
  EXPECT_EQ(solution->certificate.proof, Proof::kNone);
  EXPECT_FALSE(solution->certificate.objective_proved);
  EXPECT_TRUE(Check(graph, solution->schedule).violations.empty());
}

}  // namespace
}  // namespace tilec::scheduler
