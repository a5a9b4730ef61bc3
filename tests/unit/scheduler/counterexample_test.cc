// Two loops on which the liveness of the Twill paper's straight-line window is satisfied and no
// running loop exists: values that come into the window from earlier iterations are not counted,
// and operands of asynchronous ops die when their reader issues.
//
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>

#include "scheduler/check.h"
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

Graph Parse(const char* text) {
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
  const Graph g = Parse(R"(graph live_ins
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
  const Graph g = Parse(R"(graph free_at_issue
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

}  // namespace
}  // namespace tilec::scheduler
