// Where the Twill paper's formulation is wrong. Two loops on which the liveness of its
// straight-line window is satisfied and no running loop exists: values that come into the window
// from earlier iterations are not counted, and operands of asynchronous ops die when their reader
// issues. And one loop that its search misses: it looks no further than the copies of the first
// schedule.
//
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>

#include "scheduler/check.h"
#include "scheduler/scheduler.h"
#include "tests/unit/scheduler/exhaustive.h"

namespace tilec::scheduler {
namespace {

// The window of the paper: C copies, of which the last is issued whole, in T cycles. A value is
// live from its definition to its last use inside; the last copy's carried values to the end.
// Dependences and units are those of any modulo schedule. Largest number of columns live.
int64_t ColumnsInWindow(const Graph& g, const std::vector<int64_t>& t, int64_t ii) {
  int64_t length = 0;
  for (size_t v = 0; v < t.size(); ++v)
    length = std::max(length, t[v] + std::max<int64_t>(1, g.ops[v].latency));
  const int64_t copies = (length + ii - 1) / ii, total = (copies - 1) * ii + length;
  std::vector<int64_t> live(static_cast<size_t>(total), 0);
  for (size_t v = 0; v < t.size(); ++v)
    for (int64_t i = 0; i < copies; ++i) {
      const int64_t begin = t[v] + i * ii;
      int64_t end = begin;
      for (const GraphEdge& e : g.edges) {
        if (e.from != static_cast<int>(v) || e.kind == EdgeKind::kOrder) continue;
        if (i + e.distance < copies) end = std::max(end, t[e.to] + (i + e.distance) * ii);
        if (e.distance > 0 && i == copies - 1) end = total;
      }
      for (int64_t c = begin; c < end; ++c) live[static_cast<size_t>(c)] += g.ops[v].tmem_columns;
    }
  return *std::max_element(live.begin(), live.end());
}

ir::Schedule At(const Graph& g, const std::vector<int64_t>& t, int64_t ii) {
  ir::Schedule s;
  s.ii = ii;
  s.roles = {{"compute0", 4, 0}};
  for (size_t v = 0; v < t.size(); ++v) s.ops.push_back({g.ops[v].name, t[v], 0});
  return s;
}

Graph GraphOf(const char* text) {
  DiagSink diags;
  SourceMap sources;
  Result<Graph> graph = ParseGraph(text, sources.Add("test.graph", text), diags);
  EXPECT_TRUE(graph.ok() && CheckGraph(*graph, diags).ok()) << RenderAll(diags, sources);
  return graph.ok() ? *graph : Graph();
}

void ExpectRejectedBy(const std::string& law, const Graph& g, const std::vector<int64_t>& t,
                      int64_t ii) {
  const CheckReport checked = Check(g, At(g, t, ii)), played = Simulate(g, At(g, t, ii));
  ASSERT_EQ(checked.violations.size(), 1u);
  EXPECT_EQ(checked.violations[0].law, law);
  ASSERT_FALSE(played.violations.empty());
  EXPECT_EQ(played.violations[0].law, law);
}

TEST(PaperCounterexample, LiveInsAreNotCounted) {
  const Graph g = GraphOf(R"(graph live_ins
machine m tmem=512
op TMP latency=1 tmem=300
op USE latency=1
op ACC latency=2 tmem=300
edge TMP -> USE tmem
edge USE -> ACC order
edge ACC -> ACC tmem distance=1
)");
  const std::vector<int64_t> t = {0, 1, 6};
  EXPECT_LE(ColumnsInWindow(g, t, 4), 512);  // the paper: satisfied
  ExpectRejectedBy("tmem", g, t, 4);
  EXPECT_EQ(Check(g, At(g, t, 4)).tmem_columns, 600);
  // No schedule at all: the accumulator always lives, beside the temporary.
  for (int64_t ii = 1; ii <= 8; ++ii) EXPECT_FALSE(ExhaustivelyFeasible(g, ii)) << ii;
}

TEST(PaperCounterexample, OperandsOfAsynchronousOpsAreReadToTheEnd) {
  const Graph g = GraphOf(R"(graph free_at_issue
machine m tmem=512
unit tensor
op A issue=1 latency=1 tmem=300
op M issue=1 latency=4 use=tensor:2 async
edge A -> M tmem hold=3
)");
  const std::vector<int64_t> t = {0, 1};
  EXPECT_LE(ColumnsInWindow(g, t, 2), 512);  // the paper: satisfied
  ExpectRejectedBy("tmem", g, t, 2);
  EXPECT_FALSE(ExhaustivelyFeasible(g, 2));
  EXPECT_FALSE(ExhaustivelyFeasible(g, 3));
  EXPECT_TRUE(ExhaustivelyFeasible(g, 4));
  EXPECT_TRUE(Check(g, At(g, t, 4)).violations.empty());
}

// Whether cycles exist with all ops done by cycle `length`: dependences and units modulo II; with
// `roles`, loads in a role of their own, and the hand-off time of what they hand over.
bool ScheduledWithin(const Graph& g, int64_t ii, int64_t length, bool roles,
                     std::vector<int64_t>* t) {
  const size_t v = t->size();
  if (v == g.ops.size()) {
    for (const GraphEdge& e : g.edges) {
      const bool crosses = g.ops[e.from].variable_latency != g.ops[e.to].variable_latency;
      const int64_t delay = e.delay + (roles && crosses ? e.transfer : 0);
      if ((*t)[e.to] + e.distance * ii < (*t)[e.from] + delay) return false;
    }
    std::vector<std::vector<int64_t>> table(g.units.size(), std::vector<int64_t>(ii, 0));
    for (size_t u = 0; u < v; ++u)
      for (const UnitUse& use : g.ops[u].uses)
        for (int64_t c = 0; c < use.cycles; ++c)
          if (++table[use.unit][((*t)[u] + c) % ii] > g.units[use.unit].capacity) return false;
    return true;
  }
  int64_t cycles = 1;
  for (const UnitUse& use : g.ops[v].uses) cycles = std::max(cycles, use.cycles);
  for (int64_t at = 0; at + cycles <= length; ++at) {
    t->push_back(at);
    if (ScheduledWithin(g, ii, length, roles, t)) return true;
    t->pop_back();
  }
  return false;
}

// The paper's search: for each II the shortest schedule without roles; then one with roles, longer
// and longer, as long as it is of so many copies.
int64_t PeriodOfThePaper(const Graph& g, int64_t most) {
  auto within = [&](int64_t ii, int64_t length, bool roles) {
    std::vector<int64_t> t;
    return ScheduledWithin(g, ii, length, roles, &t);
  };
  for (int64_t ii = 1;; ++ii) {
    int64_t shortest = 1;
    while (shortest <= most && !within(ii, shortest, false)) ++shortest;
    if (shortest > most) continue;
    for (int64_t length = shortest; (length + ii - 1) / ii == (shortest + ii - 1) / ii; ++length)
      if (within(ii, length, true)) return ii;
  }
}

TEST(PaperCounterexample, OneNumberOfCopiesMissesTheSmallestPeriod) {
  const Graph g = GraphOf(R"(graph copies
machine m smem=1024 warps=5
unit tma
unit tensor
op LOAD issue=1 latency=4 smem=64 use=tma:4 warps=1 variable streaming async
op USE issue=1 latency=4 use=tensor:4 async
edge LOAD -> USE smem transfer=1 hold=4
)");
  // Without roles two copies of four cycles; the hand-off of one cycle makes it nine, three copies.
  EXPECT_EQ(PeriodOfThePaper(g, 20), 5);
  DiagSink diags;
  const Result<Solution> solution = Solve(g, {}, diags);
  ASSERT_TRUE(solution.ok());
  EXPECT_EQ(solution->certificate.ii, 4);
  EXPECT_EQ(solution->lower_bound, 4);
  EXPECT_TRUE(Simulate(g, solution->schedule, 8).violations.empty());
  EXPECT_TRUE(ExhaustivelyFeasible(g, 4));
  // Where the hand-off still fits the copies, both agree.
  Graph near = g;
  near.edges[0].transfer = 0;
  EXPECT_EQ(PeriodOfThePaper(near, 20), 4);
}

}  // namespace
}  // namespace tilec::scheduler
