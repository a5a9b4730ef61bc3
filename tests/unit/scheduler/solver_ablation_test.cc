// The paper's ablations: take a freedom or a resource away, and the period grows or nothing is
// left.
//
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "scheduler/scheduler.h"
#include "tests/unit/scheduler/test_graphs.h"

namespace tilec::scheduler {
namespace {

// II* found, or 0.
int64_t Smallest(const Graph& graph, SolveOptions options = {}) {
  options.optimize_secondary = false;
  DiagSink diags;
  const Result<Solution> solution = Solve(graph, options, diags);
  return solution.ok() ? solution->certificate.ii : 0;
}

Feasibility::Kind At(const Graph& graph, int64_t ii, const SolveOptions& options = {}) {
  return FeasibleAt(graph, ii, options).kind;
}

TEST(Ablation, BlackwellForwardNeedsItsWarps) {
  Graph graph = LoadGraph("attention_forward_blackwell");
  ASSERT_EQ(At(graph, 2892), Feasibility::Kind::kFeasible);
  graph.machine.max_warps = 9;  // one softmax role less
  EXPECT_EQ(At(graph, 2892), Feasibility::Kind::kInfeasible);
  EXPECT_EQ(At(graph, 2892 * 11 / 10), Feasibility::Kind::kInfeasible);
}

TEST(Ablation, BlackwellForwardNeedsTransfersBetweenRoles) {
  const Graph graph = LoadGraph("attention_forward_blackwell");
  SolveOptions options;
  options.cross_role_transfers = false;
  EXPECT_EQ(At(graph, 2892, options), Feasibility::Kind::kInfeasible);
}

TEST(Ablation, HopperForwardNeedsItsRegisters) {
  Graph graph = LoadGraph("attention_forward_hopper");
  graph.machine.max_regs_per_thread = 120;
  graph.machine.registers /= 2;
  EXPECT_EQ(At(graph, 2048), Feasibility::Kind::kInfeasible);
}

TEST(Ablation, HopperForwardWithoutRolesIsNoFaster) {
  const Graph graph = LoadGraph("attention_forward_hopper");
  SolveOptions options;
  options.warp_constraints = false;
  EXPECT_EQ(Smallest(graph, options), 2048);
}

TEST(Ablation, HopperForwardUnslicedIsSlowerPerRow) {
  // One slice of 128 rows in one role of 8 warps: products and softmax take turns.
  const Graph sliced = LoadGraph("attention_forward_hopper");
  const Graph whole = LoadGraph("attention_forward_hopper_unsliced");
  EXPECT_GT(Smallest(whole), Smallest(sliced));
}

}  // namespace
}  // namespace tilec::scheduler
