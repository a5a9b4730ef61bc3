// More freedom never gives a worse answer, however small the budget: more roles, values that may
// cross between roles.
//
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>

#include "scheduler/routes.h"
#include "scheduler/scheduler.h"
#include "tests/unit/scheduler/exhaustive.h"
#include "tests/unit/scheduler/test_graphs.h"

namespace tilec::scheduler {
namespace {

// The smallest period found, 0: none.
int64_t Found(const Graph& graph, const SolveOptions& options) {
  DiagSink diags;
  const Result<Solution> solution = Solve(graph, options, diags);
  return solution.ok() ? solution->certificate.ii : 0;
}

void ExpectNoWorse(int64_t wide, int64_t narrow, const std::string& what) {
  if (narrow == 0) return;
  EXPECT_GT(wide, 0) << what;
  EXPECT_LE(wide, narrow) << what;
}

// With budgets that end before the questions do.
SolveOptions Poor(int64_t limit, bool modulo) {
  SolveOptions options;
  options.resource_limit = options.total_limit = limit;
  options.optimize_secondary = false;
  options.modulo_scheduling = modulo;
  return options;
}

TEST(Freedom, MoreRolesOnRandomGraphs) {
  int answers = 0;
  for (uint64_t seed = 0; seed < 30; ++seed) {
    const Graph graph = RandomGraph(seed, 8, seed % 2 == 0);
    for (const int64_t limit : {2000, 20000})
      for (int roles = 2; roles <= 4; ++roles) {
        SolveOptions narrow = Poor(limit, seed % 4 < 2), wide = narrow;
        narrow.max_roles = roles;
        wide.max_roles = roles + 1;
        const int64_t answer = Found(graph, narrow);
        answers += answer > 0 ? 1 : 0;
        ExpectNoWorse(Found(graph, wide), answer,
                      "seed " + std::to_string(seed) + " roles " + std::to_string(roles));
      }
  }
  EXPECT_GT(answers, 40);
}

TEST(Freedom, RoutesOnRandomGraphs) {
  int answers = 0;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const Graph wide = WithRoutes(RandomGraph(100 + seed, 7, seed % 2 == 0), seed, 3);
    std::vector<int> kept;
    const Graph narrow = WithoutRoutes(wide, &kept);
    for (const int64_t limit : {2000, 20000}) {
      const int64_t answer = Found(narrow, Poor(limit, seed % 4 < 2));
      answers += answer > 0 ? 1 : 0;
      ExpectNoWorse(Found(wide, Poor(limit, seed % 4 < 2)), answer, std::to_string(seed));
    }
  }
  EXPECT_GT(answers, 15);
}

// Its compute roles are of one width, so more warps are more roles.
TEST(Freedom, MoreWarpsForAttention) {
  Graph graph = LoadGraph("attention_backward_hopper");
  int64_t before = 0;
  for (const int64_t warps : {12, 16, 20}) {
    graph.machine.max_warps = warps;
    const int64_t now = Found(graph, Poor(200'000, true));
    ExpectNoWorse(now, before, std::to_string(warps));
    before = now;
  }
}

}  // namespace
}  // namespace tilec::scheduler
