// The solver against exhaustive search: the smallest feasible II of small random graphs, one
// feasible and one infeasible answer at a time. The seed of a disagreement is printed.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "scheduler/check.h"
#include "scheduler/scheduler.h"
#include "tests/unit/scheduler/exhaustive.h"
#include "tests/unit/scheduler/test_graphs.h"

namespace tilec::scheduler {
namespace {

struct BruteTally {
  int feasible = 0, infeasible = 0;
  // Two rings without hold, each overwritten in the very cycle in which the other is read: lawful
  // by the half-open lives of graph.h, and a deadlock for whoever plays one op after the other.
  int swaps = 0;
};

// Climbs from II 1 to the smallest feasible one, at most `largest`. The optima that are compared
// below are more than 2,000.
BruteTally Compare(uint64_t first, uint64_t last, int max_ops, bool memory, int64_t largest) {
  BruteTally tally;
  const uint64_t shift = SeedShift();
  for (uint64_t seed = first + shift; seed < last + shift; ++seed) {
    const Graph graph = RandomGraph(seed, max_ops, memory);
    for (int64_t ii = 1; ii <= largest; ++ii) {
      const bool expected = ExhaustivelyFeasible(graph, ii);
      const Feasibility answer = FeasibleAt(graph, ii, {});
      if (expected) {
        EXPECT_EQ(answer.kind, Feasibility::Kind::kFeasible) << "seed " << seed << " II " << ii;
        const CheckReport report = Simulate(graph, answer.schedule);
        const CheckReport judged = Check(graph, answer.schedule);
        if (!judged.violations.empty() && judged.violations[0].law == "liveness")
          ++tally.swaps;
        else
          EXPECT_TRUE(report.violations.empty())
              << "seed " << seed << " II " << ii << ": " << report.violations[0].law << ": "
              << report.violations[0].text;
        ++tally.feasible;
        break;
      }
      EXPECT_EQ(answer.kind, Feasibility::Kind::kInfeasible) << "seed " << seed << " II " << ii;
      ++tally.infeasible;
    }
  }
  fmt::print("{} graphs from seed {}: {} smallest periods, {} refutations\n", last - first,
             first + shift, tally.feasible, tally.infeasible);
  return tally;
}

TEST(SolverBruteForce, DependencesUnitsAndRoles) {
  const BruteTally tally = Compare(0, 1500, 6, false, 10);
  EXPECT_GT(tally.feasible, 1400);
  EXPECT_GT(tally.infeasible, 3000);
  EXPECT_EQ(tally.swaps, 0);
}

TEST(SolverBruteForce, MemoryAndRegistersOfThreeOps) {
  const BruteTally tally = Compare(10000, 11100, 3, true, 8);
  EXPECT_GT(tally.feasible, 600);
  EXPECT_GT(tally.infeasible, 1000);
  EXPECT_LE(tally.swaps, 3);
}

TEST(SolverBruteForce, MemoryAndRegistersOfFourOps) {
  const BruteTally tally = Compare(1000, 1250, 4, true, 3);
  EXPECT_GT(tally.feasible, 30);
  EXPECT_GT(tally.infeasible, 300);
  EXPECT_LE(tally.swaps, 1);
}

// The whole way: bounds, search and proof end at the smallest feasible II.
TEST(SolverBruteForce, SolveFindsTheSmallestPeriod) {
  int solved = 0;
  for (uint64_t seed = 0; seed < 240; ++seed) {
    const bool memory = seed % 2 == 0;
    const Graph graph = RandomGraph(40000 + seed + SeedShift(), memory ? 3 : 6, memory);
    int64_t smallest = 1;
    while (smallest <= 5 && !ExhaustivelyFeasible(graph, smallest)) ++smallest;
    if (smallest > 5) continue;
    SolveOptions options;
    options.optimize_secondary = seed % 4 < 2;
    DiagSink diags;
    const Result<Solution> solution = Solve(graph, options, diags);
    ASSERT_TRUE(solution.ok()) << "seed " << 40000 + seed << ": " << diags.all()[0].message;
    EXPECT_EQ(solution->certificate.ii, smallest) << "seed " << 40000 + seed;
    EXPECT_EQ(solution->lower_bound, smallest) << "seed " << 40000 + seed;
    EXPECT_NE(solution->certificate.proof, Proof::kNone) << "seed " << 40000 + seed;
    ++solved;
  }
  EXPECT_GT(solved, 100);
}

// Values without registers: three roles of one warpgroup have 16 registers a thread of this
// machine, and no role has fewer than 24. Exhaustive search once looked at those of values alone.
TEST(SolverBruteForce, TheLeastQuotasOfRolesAreCounted) {
  GraphBuilder b;
  b.graph.machine.registers = 8192;
  b.graph.machine.max_warps = 16;
  for (const char* name : {"v0", "v1", "v2"}) b.Op(name, 2, 2);
  EXPECT_FALSE(ExhaustivelyFeasible(b.graph, 3));
  EXPECT_EQ(FeasibleAt(b.graph, 3, {}).kind, Feasibility::Kind::kInfeasible);
  b.graph.machine.registers = 9216;
  EXPECT_TRUE(ExhaustivelyFeasible(b.graph, 3));
  EXPECT_EQ(FeasibleAt(b.graph, 3, {}).kind, Feasibility::Kind::kFeasible);
}

// Feasible at II, feasible at II + 1: what one refutation rests on (docs/scheduler.md).
TEST(SolverBruteForce, FeasibilityIsMonotoneInThePeriod) {
  int steps = 0;
  for (uint64_t seed = 0; seed < 1500; ++seed) {
    const Graph graph =
        RandomGraph(20000 + seed + SeedShift(), seed % 3 == 0 ? 3 : 4, seed % 3 == 0);
    bool before = false;
    for (int64_t ii = 1; ii <= 4; ++ii) {
      const bool now = ExhaustivelyFeasible(graph, ii);
      EXPECT_FALSE(before && !now) << "seed " << 20000 + seed << " II " << ii;
      steps += !before && now ? 1 : 0;
      before = now;
    }
  }
  EXPECT_GT(steps, 500);
}

}  // namespace
}  // namespace tilec::scheduler
