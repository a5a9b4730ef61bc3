// Several answers to one question: distinct in roles or order, lawful, best first.
//
// SPDX-License-Identifier: Apache-2.0
#include "scheduler/top.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "scheduler/check.h"
#include "tests/unit/scheduler/test_graphs.h"

namespace tilec::scheduler {
namespace {

std::vector<Alternative> Top(const Graph& graph, int k, const SolveOptions& options = {}) {
  DiagSink diags;
  const Result<Solution> solution = Solve(graph, options, diags);
  EXPECT_TRUE(solution.ok());
  return solution.ok() ? TopSolutions(graph, *solution, k, options) : std::vector<Alternative>();
}

// Which ops share a role, and who follows whom on each unit, wherever the period begins.
std::string Signature(const Graph& graph, const ir::Schedule& schedule) {
  std::string text;
  for (const GraphOp& a : graph.ops)
    for (const GraphOp& b : graph.ops)
      text += RoleOf(schedule, a.name) == RoleOf(schedule, b.name) ? '=' : '|';
  for (const Unit& unit : graph.units) {
    std::vector<std::string> order = OrderOnUnit(graph, schedule, unit.name);
    if (order.empty()) continue;
    std::rotate(order.begin(), std::min_element(order.begin(), order.end()), order.end());
    for (const std::string& op : order) text += " " + op;
  }
  return text;
}

auto Key(const Objective& o) {
  return std::tuple(o.compute_groups, o.warps, o.cross_bytes, o.waits, o.stages, o.smem_bytes);
}

TEST(TopSolutions, AreDistinctLawfulAndBestFirst) {
  const SolveOptions quick = SolveOptions::ForCompilation();
  for (const char* name : {"attention_forward_hopper", "attention_forward_h200"}) {
    const Graph graph = LoadGraph(name);
    const std::vector<Alternative> top = Top(graph, 4, quick);
    EXPECT_GE(top.size(), 3u) << name;
    std::set<std::string> texts, signatures;
    for (size_t i = 0; i < top.size(); ++i) {
      EXPECT_TRUE(Check(graph, top[i].schedule).violations.empty()) << name << " " << i;
      EXPECT_TRUE(Simulate(graph, top[i].schedule).violations.empty()) << name << " " << i;
      EXPECT_TRUE(texts.insert(ir::ToText(top[i].schedule)).second) << name << " " << i;
      signatures.insert(Signature(graph, top[i].schedule));
      if (i > 0 && top[i - 1].proved) {
        EXPECT_LE(Key(top[i - 1].objective), Key(top[i].objective)) << name << " " << i;
      }
    }
    EXPECT_EQ(signatures.size(), top.size()) << name;
  }
}

// Two ops on one unit and none beside: A first or B first is one circle, so there is one answer.
TEST(TopSolutions, EndWhenThereAreNoMore) {
  GraphBuilder b;
  const int unit = b.Unit("u");
  const int x = b.Op("x", 1, 1, unit, 2), y = b.Op("y", 1, 1, unit, 2);
  b.Edge(x, y).crossable = false;
  const std::vector<Alternative> top = Top(b.graph, 5);
  EXPECT_EQ(top.size(), 1u);
  // Nor for a product of two slices: which of them is called first is a matter of names.
  EXPECT_EQ(Top(LoadGraph("gemm_hopper"), 5).size(), 1u);
}

TEST(TopSolutions, SameEveryTime) {
  const Graph graph = LoadGraph("attention_forward_h200");
  const std::vector<Alternative> a = Top(graph, 3), b = Top(graph, 3);
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(ir::ToText(a[i].schedule), ir::ToText(b[i].schedule));
    EXPECT_TRUE(a[i].objective == b[i].objective);
  }
}

}  // namespace
}  // namespace tilec::scheduler
