// Answers without a solver: always lawful, never below what exhaustive search finds possible, good
// on the loops that the compiler is for.
//
// SPDX-License-Identifier: Apache-2.0
#include "scheduler/first_answer.h"

#include <gtest/gtest.h>

#include "scheduler/check.h"
#include "scheduler/to_schedule.h"
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
