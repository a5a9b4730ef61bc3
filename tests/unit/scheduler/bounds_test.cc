// Bounds: by hand, and against exhaustive search. The monotonicity lemma on which bisection over
// initiation intervals rests.
//
// SPDX-License-Identifier: Apache-2.0
#include "scheduler/bounds.h"

#include <gtest/gtest.h>

#include <map>

#include "ir/event_graph.h"
#include "scheduler/check.h"
#include "tests/unit/scheduler/exhaustive.h"
#include "tests/unit/scheduler/random_schedule.h"

namespace tilec::scheduler {
namespace {

Graph Parse(const char* text) {
  DiagSink diags;
  SourceMap sources;
  Result<Graph> graph = ParseGraph(text, sources.Add("test.graph", text), diags);
  EXPECT_TRUE(graph.ok() && CheckGraph(*graph, diags).ok()) << RenderAll(diags, sources);
  return graph.ok() ? *graph : Graph();
}

const Bound* Find(const std::vector<Bound>& bounds, Bound::Kind kind) {
  for (const Bound& bound : bounds)
    if (bound.kind == kind) return &bound;
  return nullptr;
}

TEST(Bounds, NameWhatBinds) {
  const Graph g = Parse(R"(graph g
machine m smem=1000 warps=8 barrier=16
unit tensor
unit alu capacity=2
op L latency=100 smem=300 warps=1 variable streaming async
op A issue=3 latency=9 use=tensor:5,alu:4
op B issue=4 latency=8 use=tensor:6
op C issue=2 latency=3 use=alu:9
edge L -> A smem delay=100 hold=9
edge A -> B register
edge B -> C register
edge C -> A register distance=2
edge B -> B register distance=1
)");
  const std::vector<Bound> bounds = AllBounds(g);
  ASSERT_FALSE(bounds.empty());
  const Bound* unit = Find(bounds, Bound::Kind::kUnit);
  ASSERT_NE(unit, nullptr);
  EXPECT_EQ(unit->ii, 11);
  EXPECT_EQ(unit->text, "unit tensor is busy 11 cycles per iteration");
  EXPECT_EQ(unit->ops, (std::vector<int>{1, 2}));
  const Bound* recurrence = Find(bounds, Bound::Kind::kRecurrence);
  ASSERT_NE(recurrence, nullptr);
  EXPECT_EQ(recurrence->ii, 10);  // (9 + 8 + 3) / 2, against 8 / 1
  EXPECT_EQ(recurrence->edges.size(), 3u);
  const Bound* issue = Find(bounds, Bound::Kind::kIssue);
  ASSERT_NE(issue, nullptr);
  EXPECT_EQ(issue->ii, 9);  // 8 warps: one role of 4 beside the load warp
  // Three slots fit: 109 cycles of life need 37 each.
  const Bound* residency = Find(bounds, Bound::Kind::kResidency);
  ASSERT_NE(residency, nullptr);
  EXPECT_EQ(residency->ii, 37);
  EXPECT_EQ(bounds.front().kind, Bound::Kind::kResidency);
  EXPECT_EQ(BestBound(g).ii, 37);
}

TEST(Bounds, TensorMemoryIsResident) {
  const Graph g = Parse(R"(graph g
machine m tmem=512
unit tensor
op S latency=10 tmem=256 use=tensor:10
op P latency=20 tmem=128
op O latency=10 tmem=128 use=tensor:10
edge S -> P tmem hold=4
edge P -> O tmem hold=10
edge O -> O tmem distance=1
)");
  // 256·14 + 128·30 + 128·II <= 512·II
  const Bound* residency = nullptr;
  const std::vector<Bound> bounds = AllBounds(g);
  residency = Find(bounds, Bound::Kind::kResidency);
  EXPECT_EQ(residency, nullptr);  // 20 by the unit: 3584 + 3840 + 2560 <= 10240
  Graph tight = g;
  tight.machine.tmem_columns = 384;
  const std::vector<Bound> more = AllBounds(tight);
  residency = Find(more, Bound::Kind::kResidency);
  ASSERT_NE(residency, nullptr);
  EXPECT_EQ(residency->ii, 29);  // (3584 + 3840) / 256
}

// Nothing is feasible one cycle below a bound, and often something is at it.
TEST(Bounds, NeverAboveTheTruth) {
  int tight = 0, graphs = 0;
  std::map<Bound::Kind, int> binding;
  for (uint64_t seed = 0; graphs < 2000; ++seed) {
    const bool memory = seed % 2 == 0;
    const Graph graph = RandomGraph(seed + 100000, memory ? 4 : 5, memory);
    DiagSink diags;
    if (!CheckGraph(graph, diags).ok()) continue;
    ++graphs;
    const Bound bound = BestBound(graph);
    ASSERT_EQ(LeastPeriod(graph), bound.ii) << ToText(graph);
    if (bound.ii > 9) continue;
    if (bound.ii > 1) {
      ASSERT_FALSE(ExhaustivelyFeasible(graph, bound.ii - 1)) << bound.text << "\n"
                                                              << ToText(graph);
      ++binding[bound.kind];
    }
    if (graphs % 8 == 0 && ExhaustivelyFeasible(graph, bound.ii)) ++tight;
  }
  EXPECT_GT(tight, 100);
  for (Bound::Kind kind :
       {Bound::Kind::kUnit, Bound::Kind::kRecurrence, Bound::Kind::kIssue, Bound::Kind::kResidency})
    EXPECT_GT(binding[kind], 20) << static_cast<int>(kind);
}

// docs/scheduler.md: a schedule at II is one at II + 1.
TEST(Monotonicity, FeasibleStaysFeasible) {
  int steps = 0;
  for (uint64_t seed = 0; seed < 600; ++seed) {
    const Graph graph = RandomGraph(seed + 500000, 3, true);
    DiagSink diags;
    if (!CheckGraph(graph, diags).ok()) continue;
    bool before = false;
    for (int64_t ii = 1; ii <= 8; ++ii) {
      const bool now = ExhaustivelyFeasible(graph, ii);
      ASSERT_FALSE(before && !now) << "II " << ii << "\n" << ToText(graph);
      steps += now && !before ? 1 : 0;
      before = now;
    }
  }
  EXPECT_GT(steps, 150);
}

// The proof of the lemma, executed: keep stage and slot of every op, add an idle slot at the end.
TEST(Monotonicity, AddingAnIdleSlotKeepsEveryLaw) {
  Random random(5);
  int legal = 0;
  for (uint64_t seed = 0; seed < 4000; ++seed) {
    const Graph graph = RandomGraph(seed, 6, seed % 2 == 0);
    DiagSink diags;
    if (!CheckGraph(graph, diags).ok()) continue;
    ir::Schedule schedule = GreedySchedule(graph, Pick(random, 4, 14), random);
    if (!Check(graph, schedule).violations.empty()) continue;
    ++legal;
    for (ir::ScheduledOp& op : schedule.ops) {
      int64_t stage = op.cycle / schedule.ii;
      if (op.cycle < stage * schedule.ii) --stage;
      op.cycle += stage;
    }
    ++schedule.ii;
    const CheckReport report = Check(graph, schedule);
    ASSERT_TRUE(report.violations.empty()) << report.violations[0].text << "\n"
                                           << ToText(graph) << ToText(schedule);
  }
  EXPECT_GT(legal, 1000);
}

TEST(EventGraph, ExactPeriods) {
  ir::EventGraph g;
  g.nodes = 3;
  g.edges = {{0, 1, 5, 0}, {1, 2, 4, 1}, {2, 0, 2, 1}, {1, 0, 1, 1}};
  EXPECT_TRUE(ir::DeadCircle(g).empty());
  const ir::Period period = ir::ExactPeriod(g);
  EXPECT_EQ(period.delay, 6);  // 5 + 1 each period, against 11 / 2
  EXPECT_EQ(period.tokens, 1);
  g.edges[3].delay = 0;
  EXPECT_EQ(ir::ExactPeriod(g).delay, 11);
  EXPECT_EQ(ir::ExactPeriod(g).tokens, 2);
  EXPECT_EQ(ir::ExactPeriod(g).Ceil(), 6);
  g.edges[3].tokens = 0;
  EXPECT_EQ(ir::DeadCircle(g).size(), 2u);
}

}  // namespace
}  // namespace tilec::scheduler
