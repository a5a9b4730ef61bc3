// What sums say of stages, beside what the solver finds with so many of them.
//
// SPDX-License-Identifier: Apache-2.0
#include "scheduler/least_stages.h"

#include <gtest/gtest.h>

#include "scheduler/search.h"
#include "tests/unit/scheduler/exhaustive.h"
#include "tests/unit/scheduler/test_graphs.h"

namespace tilec::scheduler {
namespace {

int64_t Least(const Graph& graph, int64_t ii, const SolveOptions& options) {
  int64_t least = INT64_MAX;
  const Offers offers(graph, options);
  for (const RoleOffer& offer : offers.Largest())
    least = std::min(least, LeastStages(graph, ii, offer));
  return least;
}

TEST(LeastStages, NoScheduleHasFewer) {
  int fewer = 0, known = 0, with = 0;
  for (uint64_t seed = 0; seed < 160; ++seed) {
    Graph graph = RandomGraph(seed, 6, seed % 2 == 0);
    if (seed % 4 == 1) graph = WithRoutes(std::move(graph), seed, 2);
    SolveOptions options;
    for (const int roles : {1, 2}) {
      options.fixed_compute_roles = roles;
      options.fixed_stages.reset();
      int64_t ii = 1;
      while (ii < 12 && FeasibleAt(graph, ii, options).kind != Feasibility::Kind::kFeasible) ++ii;
      if (ii == 12) continue;
      for (const int stages : {1, 2}) {
        options.fixed_stages = stages;
        const int64_t least = Least(graph, ii, options);
        if (FeasibleAt(graph, ii, options).kind == Feasibility::Kind::kFeasible) {
          EXPECT_LE(least, stages) << "seed " << seed << " II " << ii << " roles " << roles;
          ++with;
        } else {
          ++fewer;
          known += least > stages;
        }
      }
    }
  }
  EXPECT_GT(with, 60);
  EXPECT_GT(fewer, 30);
  EXPECT_GT(known * 3, fewer) << known << " of " << fewer;  // many are known by sums
}

// Three ops whose results are late, and three that need them: they leave the stream idle for 20
// cycles, however they are ordered.
Graph Late() {
  GraphBuilder b;
  for (int i = 0; i < 3; ++i) {
    const int from = b.Op("from" + std::to_string(i), 10, 50);
    b.Edge(from, b.Op("use" + std::to_string(i), 20, 20)).delay = 50;
  }
  return b.graph;
}

TEST(LeastStages, AStreamThatIsFullHasNoTimeToWait) {
  const Graph graph = Late();
  RoleOffer one;
  one.widths = {4};
  EXPECT_EQ(LeastStages(graph, 109, one), 2);
  EXPECT_EQ(LeastStages(graph, 110, one), 1);
  one.widths = {4, 4};  // who shares a role is open
  EXPECT_EQ(LeastStages(graph, 90, one), 1);
}

TEST(LeastStages, WhatSumsSayIsNotAsked) {
  const Graph graph = Late();
  SolveOptions options;
  options.fixed_ii = 90;
  options.fixed_compute_roles = 1;
  DiagSink diags;
  const Result<Solution> solution = Solve(graph, options, diags);
  ASSERT_TRUE(solution.ok());
  EXPECT_EQ(solution->certificate.objective.stages, 2);
  EXPECT_TRUE(solution->certificate.objective_proved);
  EXPECT_EQ(solution->resources, 0);
}

}  // namespace
}  // namespace tilec::scheduler
