// The claimed best objective against exhaustive search: on small random graphs every criterion of a
// solution that says `proved` is the smallest that any schedule of that period has.
//
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "scheduler/check.h"
#include "scheduler/scheduler.h"
#include "tests/unit/scheduler/exhaustive.h"
#include "tests/unit/scheduler/test_graphs.h"

namespace tilec::scheduler {
namespace {

std::string Show(const Objective& o) {
  return "wide " + std::to_string(o.compute_groups) + " warps " + std::to_string(o.warps) +
         " bytes " + std::to_string(o.cross_bytes) + " waits " + std::to_string(o.waits) +
         " stages " + std::to_string(o.stages) + " smem " + std::to_string(o.smem_bytes) +
         " slack " + std::to_string(o.slack);
}

// Some of the ops get other widths: roles of one number of warps may then be cut in several ways.
Graph WithWidths(Graph graph, uint64_t seed) {
  constexpr int kWidths[] = {1, 2, 1, 2};
  for (size_t v = 0; v < graph.ops.size(); ++v)
    if (!graph.ops[v].variable_latency)
      graph.ops[v].warps =
          std::min<int>(kWidths[(seed >> (2 * v)) % 4], static_cast<int>(graph.machine.max_warps));
  for (size_t v = 0; v < graph.ops.size(); ++v) graph.ops[v].regs = 8 * (1 + (seed >> v) % 3);
  for (GraphEdge& edge : graph.edges) edge.crossable = true;
  return graph;
}

Graph Parse(const char* text) {
  DiagSink diags;
  Result<Graph> graph = ParseGraph(text, -1, diags);
  EXPECT_TRUE(graph.ok() && CheckGraph(*graph, diags).ok());
  return *std::move(graph);
}

struct ObjectiveTally {
  int compared = 0, several_stages = 0, refused = 0;
};

ObjectiveTally Compare(uint64_t first, uint64_t last, int max_ops, bool memory, double epsilon,
                       bool widths) {
  ObjectiveTally tally;
  constexpr int64_t kLargest = 4;
  for (uint64_t seed = first; seed < last; ++seed) {
    Graph graph = RandomGraph(seed, max_ops, memory);
    if (widths) graph = WithWidths(std::move(graph), seed * 2654435761u);
    int64_t smallest = 1;
    while (smallest <= kLargest && !ExhaustivelyFeasible(graph, smallest)) ++smallest;
    if (smallest > kLargest) continue;
    SolveOptions options;
    options.epsilon = epsilon;
    DiagSink diags;
    const Result<Solution> solution = Solve(graph, options, diags);
    if (!solution.ok()) {
      ADD_FAILURE() << "seed " << seed << ": " << diags.all()[0].message;
      continue;
    }
    const Certificate& c = solution->certificate;
    EXPECT_EQ(c.ii, smallest) << "seed " << seed;
    if (!c.objective_proved) {  // nothing is claimed
      ++tally.refused;
      continue;
    }
    // At the longest period allowed nothing is better; at its own it has the most slack too.
    const int64_t longest = static_cast<int64_t>(static_cast<double>(c.ii) * (1 + epsilon));
    for (int64_t ii : {c.schedule_ii, longest}) {
      std::optional<Objective> best = ExhaustiveObjective(graph, ii);
      if (!best) {
        ADD_FAILURE() << "seed " << seed << ": nothing at II " << ii;
        continue;
      }
      if (ii != c.schedule_ii) best->slack = c.objective.slack;
      EXPECT_TRUE(c.objective == *best) << "seed " << seed << " II " << ii << " claims "
                                        << Show(c.objective) << ", there is " << Show(*best);
      if (ii == longest) tally.several_stages += best->stages > 1 ? 1 : 0;
    }
    EXPECT_TRUE(Check(graph, solution->schedule).violations.empty()) << "seed " << seed;
    ++tally.compared;
  }
  return tally;
}

TEST(SolverObjective, DependencesUnitsAndRoles) {
  const ObjectiveTally tally = Compare(0, 600, 5, false, 0.01, false);
  EXPECT_GT(tally.compared, 250);
  EXPECT_GT(tally.several_stages, 60);
  EXPECT_EQ(tally.refused, 0);
}

TEST(SolverObjective, LongerPeriodsForTheSakeOfTheObjective) {
  const ObjectiveTally tally = Compare(3000, 3200, 4, false, 0.5, false);
  EXPECT_GT(tally.compared, 100);
}

TEST(SolverObjective, MemoryAndRegisters) {
  const ObjectiveTally tally = Compare(10000, 10500, 3, true, 0.01, false);
  EXPECT_GT(tally.compared, 150);
  EXPECT_LE(tally.refused, 8);
}

TEST(SolverObjective, RolesOfSeveralWidths) {
  const ObjectiveTally tally = Compare(50000, 50800, 5, false, 0.01, true);
  EXPECT_GT(tally.compared, 150);
}

// Five warps can be three roles of one and one of two (D and E one after the other, A, B, C at a
// time) or one of one and two of two (the other way round). Only the latter keeps A's value at
// home.
TEST(SolverObjective, DivisionsOfOneSizeAreAllAsked) {
  const Graph graph = Parse(R"(graph divisions
machine M warps=5
op A issue=1 latency=1 smem=100 warps=1
op B issue=1 latency=1 warps=1
op C issue=1 latency=1 warps=1
op D issue=2 latency=2 warps=2
op E issue=2 latency=2 warps=2
edge A -> B smem delay=0 distance=1
edge D -> A order
edge D -> B order
edge D -> C order
edge E -> A order
edge E -> B order
edge E -> C order
edge A -> D order distance=1
edge B -> D order distance=1
edge C -> D order distance=1
edge A -> E order distance=1
edge B -> E order distance=1
edge C -> E order distance=1
)");
  for (bool modulo : {false, true}) {
    SolveOptions options;
    options.modulo_scheduling = modulo;
    DiagSink diags;
    const Result<Solution> solution = Solve(graph, options, diags);
    ASSERT_TRUE(solution.ok()) << diags.all()[0].message;
    EXPECT_EQ(solution->certificate.ii, 5);
    EXPECT_TRUE(solution->certificate.objective_proved);
    EXPECT_EQ(solution->certificate.objective.cross_bytes, 0);
    EXPECT_TRUE(solution->certificate.objective == *ExhaustiveObjective(graph, 5));
  }
}

}  // namespace
}  // namespace tilec::scheduler
