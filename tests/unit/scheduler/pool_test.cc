// Small register pools against exhaustive search. The share of a thread is rounded down to a
// multiple of 8, so a launch of more warpgroups can have more registers in all: a division of the
// ops among more roles may fit where one among fewer does not. Seeds of disagreements are printed.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "scheduler/check.h"
#include "scheduler/needs.h"
#include "scheduler/prove.h"
#include "scheduler/scheduler.h"
#include "tests/unit/scheduler/exhaustive.h"

namespace tilec::scheduler {
namespace {

TEST(RegisterPool, MoreWarpgroupsMayHaveMoreRegisters) {
  EXPECT_EQ(RegisterPool(24576, 5), 160);  // 38.4 registers a thread: 32
  EXPECT_EQ(RegisterPool(24576, 6), 192);  // 32
  EXPECT_EQ(RegisterPool(65536, 3), 504);
  EXPECT_EQ(RegisterPool(65536, 4), 512);
}

// Three roles of four, eight and sixteen warps can hold what two cannot.
TEST(RegisterPool, ARoleMoreIsTheWayOut) {
  Graph g;
  g.name = g.machine.name = "pool";
  g.machine.max_warps = 24;
  g.machine.registers = 24576;
  auto op = [&](const char* name, int warps, int64_t regs) {
    GraphOp o;
    o.name = name;
    o.kind = "op";
    o.issue = 1;
    o.latency = 1;
    o.warps = warps;
    o.regs = regs;
    g.ops.push_back(o);
    const int v = static_cast<int>(g.ops.size()) - 1;
    g.edges.push_back({v, v, EdgeKind::kRegister, 1, 1});
  };
  op("a", 16, 32);
  op("b", 4, 24);
  op("c", 4, 16);
  // Two roles: 4·32 + 40 = 168 of 160. Three: 4·32 + 24 + 24 = 176 of 192.
  EXPECT_TRUE(ExhaustivelyFeasible(g, 2));
  const Feasibility answer = FeasibleAt(g, 2, {});
  ASSERT_EQ(answer.kind, Feasibility::Kind::kFeasible);
  EXPECT_EQ(answer.schedule.roles.size(), 3u);
  EXPECT_TRUE(Check(g, answer.schedule).violations.empty());
}

struct Tally {
  int feasible = 0, infeasible = 0, proofs = 0;
};

Tally Compare(uint64_t first, uint64_t last) {
  Tally tally;
  const uint64_t shift = SeedShift();
  for (uint64_t seed = first + shift; seed < last + shift; ++seed) {
    const Graph graph = RandomPoolGraph(seed);
    DiagSink diags;
    EXPECT_TRUE(CheckGraph(graph, diags).ok()) << "seed " << seed << ": " << diags.all()[0].message;
    for (int64_t ii = 1; ii <= 4; ++ii) {
      const bool expected = ExhaustivelyFeasible(graph, ii);
      const Feasibility answer = FeasibleAt(graph, ii, {});
      EXPECT_EQ(answer.kind,
                expected ? Feasibility::Kind::kFeasible : Feasibility::Kind::kInfeasible)
          << "seed " << seed << " II " << ii << "\n"
          << ToText(graph);
      if (expected) {
        ++tally.feasible;
        EXPECT_TRUE(Check(graph, answer.schedule).violations.empty()) << "seed " << seed;
        break;
      }
      ++tally.infeasible;
      if (ii < 4 && seed % 3 != 0) continue;  // each refutation costs a second solver
      const InfeasibilityProof proof = ProveCore(graph, ii, InOrder(graph, ii, answer.core));
      EXPECT_TRUE(proof.complete())
          << "seed " << seed << " II " << ii << ": " << proof.problem << "\n"
          << ToText(graph);
      ++tally.proofs;
    }
  }
  fmt::print("{} graphs from seed {}: {} smallest periods, {} refutations, {} of them proved\n",
             last - first, first + shift, tally.feasible, tally.infeasible, tally.proofs);
  return tally;
}

// 2,500 graphs in four parts, so that each is a short test.
class RandomPools : public testing::TestWithParam<int> {};
TEST_P(RandomPools, AgreeWithBruteForce) {
  const uint64_t first = static_cast<uint64_t>(GetParam()) * 625;
  const Tally tally = Compare(first, first + 625);
  EXPECT_GT(tally.feasible, 150);
  EXPECT_GT(tally.infeasible, 300);
  EXPECT_GT(tally.proofs, 150);
}
INSTANTIATE_TEST_SUITE_P(All, RandomPools, testing::Range(0, 4));

}  // namespace
}  // namespace tilec::scheduler
