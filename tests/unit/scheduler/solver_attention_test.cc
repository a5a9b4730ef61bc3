// Rediscovery: published attention and GEMM schedules from laws alone, with certificates.
//
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "scheduler/check.h"
#include "scheduler/free_run.h"
#include "scheduler/prove.h"
#include "scheduler/scheduler.h"
#include "tests/unit/scheduler/test_graphs.h"

namespace tilec::scheduler {
namespace {

Solution SolveOrFail(const Graph& graph, const SolveOptions& options = {}) {
  DiagSink diags;
  Result<Solution> solution = Solve(graph, options, diags);
  std::string why;
  for (const Diagnostic& d : diags.all()) {
    why += d.message + "\n";
    for (const std::string& note : d.notes) why += "  " + note + "\n";
  }
  EXPECT_TRUE(solution.ok()) << why;
  if (!solution.ok()) return {};
  EXPECT_TRUE(solution->report.violations.empty());
  const CheckReport played = Simulate(graph, solution->schedule);
  EXPECT_TRUE(played.violations.empty())
      << played.violations[0].law << ": " << played.violations[0].text;
  EXPECT_EQ(solution->lower_bound, solution->certificate.ii);
  // As a file, and believed in nothing.
  const Result<Certificate> certificate =
      ParseCertificate(ToText(solution->certificate), -1, diags);
  EXPECT_TRUE(certificate.ok());
  if (certificate.ok()) {
    EXPECT_TRUE(VerifyCertificate(graph, solution->schedule, *certificate, diags).ok())
        << diags.all().back().message;
  }
  return *solution;
}

bool Names(const std::vector<CoreItem>& core, const std::string& law, const std::string& text) {
  return std::any_of(core.begin(), core.end(), [&](const CoreItem& item) {
    return item.law == law && item.text.find(text) != std::string::npos;
  });
}

const ir::ScheduledRole* FindRole(const ir::Schedule& s, const std::string& name) {
  for (const ir::ScheduledRole& role : s.roles)
    if (role.name == name) return &role;
  return nullptr;
}

TEST(HopperForward, TwoComputeRolesOneSliceEachAtTheTensorBound) {
  const Graph graph = LoadGraph("attention_forward_hopper");
  const Solution solution = SolveOrFail(graph);
  const ir::Schedule& s = solution.schedule;
  const Certificate& c = solution.certificate;
  EXPECT_EQ(c.ii, 2048);
  EXPECT_EQ(c.schedule_ii, 2048);
  EXPECT_EQ(c.proof, Proof::kBound);
  EXPECT_EQ(c.bound.kind, Bound::Kind::kUnit);
  EXPECT_EQ(graph.units[c.bound.unit].name, "tensor");
  EXPECT_TRUE(c.objective_proved);

  ASSERT_EQ(s.roles.size(), 3u);
  ASSERT_NE(FindRole(s, "load"), nullptr);
  EXPECT_EQ(FindRole(s, "load")->warps, 1);
  EXPECT_EQ(RoleOf(s, "K"), RoleOf(s, "V"));
  for (const char* slice : {"0", "1"})
    for (const char* op : {"QK", "MAX", "ALPHA", "SCL", "EXP", "SUM", "CVT", "RESC"})
      EXPECT_EQ(RoleOf(s, op + std::string(slice)), RoleOf(s, "PV" + std::string(slice))) << op;
  EXPECT_NE(RoleOf(s, "PV0"), RoleOf(s, "PV1"));
  for (const char* role : {"compute0", "compute1"}) {
    ASSERT_NE(FindRole(s, role), nullptr);
    EXPECT_LE(FindRole(s, role)->regs, 240);
    EXPECT_EQ(FindRole(s, role)->regs % 8, 0);
  }
  // The product of the next iteration is issued ahead of this iteration's second product.
  bool ahead = false;
  for (const char* slice : {"0", "1"}) {
    const int64_t qk = CycleOf(s, "QK" + std::string(slice)) + s.ii;
    ahead = ahead || qk < CycleOf(s, "PV" + std::string(slice));
  }
  EXPECT_TRUE(ahead);
  // Each softmax runs under the matrix products of the other role, for most of its time.
  for (const char* slice : {"0", "1"}) {
    const std::string other = slice == std::string("0") ? "1" : "0";
    int64_t under = 0;
    for (int64_t c = 0; c < 512; ++c)
      for (const char* product : {"QK", "PV"}) {
        const int64_t since =
            CycleOf(s, "EXP" + std::string(slice)) + c - CycleOf(s, product + other);
        under += ((since % s.ii) + s.ii) % s.ii < 512 ? 1 : 0;
      }
    EXPECT_GT(under, 256) << slice;
  }
  EXPECT_EQ(solution.report.unit_busy[graph.FindUnit("tensor")], 2048);
}

TEST(HopperForward, OneCycleLessIsRefutedByTheTensorCore) {
  const Graph graph = LoadGraph("attention_forward_hopper");
  const Feasibility answer = FeasibleAt(graph, 2047, {});
  ASSERT_EQ(answer.kind, Feasibility::Kind::kInfeasible);
  EXPECT_TRUE(Names(answer.core, "unit", "tensor"));
  EXPECT_LE(answer.core.size(), 2u);
  const InfeasibilityProof proof = ProveInfeasible(graph, 2047, {});
  EXPECT_TRUE(proof.complete()) << proof.problem;
  EXPECT_EQ(CheckRefutation(graph, proof.refutation), "");
}

TEST(HopperForward, OneComputeRoleIsRefutedWithAReadableCore) {
  const Graph graph = LoadGraph("attention_forward_hopper");
  SolveOptions options;
  options.fixed_compute_roles = 1;
  const Feasibility answer = FeasibleAt(graph, 2048, options);
  ASSERT_EQ(answer.kind, Feasibility::Kind::kInfeasible);
  EXPECT_TRUE(Names(answer.core, "unit", "tensor") || Names(answer.core, "registers", ""));
  EXPECT_TRUE(Names(answer.core, "roles", "1 compute role of 4 warps"));
  EXPECT_LE(answer.core.size(), 12u);
  // That is no refutation of the graph, which may have more roles: no proof says that it is.
  EXPECT_FALSE(ProveInfeasible(graph, 2048, options).complete());
}

TEST(HopperForward, TheSameInputGivesTheSameBytes) {
  const Graph graph = LoadGraph("attention_forward_hopper");
  const Solution a = SolveOrFail(graph), b = SolveOrFail(graph);
  EXPECT_EQ(ir::ToText(a.schedule), ir::ToText(b.schedule));
  EXPECT_EQ(ToText(a.certificate), ToText(b.certificate));
  EXPECT_EQ(a.resources, b.resources);
}

TEST(BlackwellForward, LoadMmaAndTwoSoftmaxRoles) {
  const Graph graph = LoadGraph("attention_forward_blackwell");
  const Solution solution = SolveOrFail(graph);
  const ir::Schedule& s = solution.schedule;
  EXPECT_EQ(solution.certificate.ii, 2892);
  EXPECT_EQ(solution.certificate.bound.kind, Bound::Kind::kRecurrence);
  EXPECT_EQ(solution.certificate.proof, Proof::kBound);
  EXPECT_TRUE(solution.certificate.objective_proved);
  EXPECT_LE(s.ii, 2920);
  ASSERT_EQ(s.roles.size(), 4u);
  const int mma = RoleOf(s, "QK0");
  EXPECT_EQ(s.roles[mma].warps, 1);
  for (const char* op : {"QK1", "PV0", "PV1"}) EXPECT_EQ(RoleOf(s, op), mma) << op;
  EXPECT_TRUE(SameCycle(OrderOnUnit(graph, s, "tensor"), {"QK0", "PV1", "QK1", "PV0"}));
  EXPECT_NE(RoleOf(s, "EXP0"), RoleOf(s, "EXP1"));
  for (const char* slice : {"0", "1"})
    for (const char* op : {"SLD", "MAX", "SCL", "SUM", "CVT", "PST"})
      EXPECT_EQ(RoleOf(s, op + std::string(slice)), RoleOf(s, "EXP" + std::string(slice))) << op;
  EXPECT_EQ(solution.report.tmem_columns, 512);
}

// Where rescaling takes more than the softmax roles have left (issue of 480 cycles for each of its
// ops instead of 128), a role of its own does some of it, for both slices.
TEST(BlackwellForward, CorrectionRoleWhereTheCostsCallForIt) {
  Graph graph = LoadGraph("attention_forward_blackwell");
  const std::set<std::string> rescaling = {"OLD", "RESC", "OST"};
  auto rescales = [&](const std::string& op) {
    return rescaling.count(op.substr(0, op.size() - 1)) > 0;
  };
  for (GraphOp& op : graph.ops)
    if (rescales(op.name)) op.issue = 480;
  const Solution solution = SolveOrFail(graph);
  const ir::Schedule& s = solution.schedule;
  EXPECT_EQ(solution.certificate.ii, 2892);
  EXPECT_EQ(solution.certificate.objective.compute_groups, 3);
  ASSERT_EQ(s.roles.size(), 5u);
  int corrections = 0;
  for (size_t r = 0; r < s.roles.size(); ++r) {
    std::set<char> slices;
    bool only = true;
    for (const ir::ScheduledOp& op : s.ops)
      if (op.role == static_cast<int>(r)) {
        only = only && rescales(op.name);
        slices.insert(op.name.back());
      }
    corrections += only && slices.size() == 2 ? 1 : 0;
  }
  EXPECT_EQ(corrections, 1);
}

TEST(BlackwellForward, BelowTheRecurrenceIsRefutedByItsChain) {
  const Graph graph = LoadGraph("attention_forward_blackwell");
  const InfeasibilityProof proof = ProveInfeasible(graph, 2891, {});
  EXPECT_TRUE(proof.complete()) << proof.problem;
  const std::vector<std::string>& core = proof.refutation.core;
  EXPECT_TRUE(std::any_of(core.begin(), core.end(), [](const std::string& line) {
    return line.starts_with("dependence") && line.find("-> QK") != std::string::npos;
  }));
}

TEST(Gemm, HopperReachesTheTensorBoundWithTwoRoles) {
  const Graph graph = LoadGraph("gemm_hopper");
  const Solution solution = SolveOrFail(graph);
  EXPECT_EQ(solution.certificate.ii, 1024);
  EXPECT_EQ(solution.certificate.proof, Proof::kBound);
  EXPECT_EQ(solution.certificate.objective.compute_groups, 2);
  EXPECT_TRUE(solution.certificate.objective_proved);
  // A load takes 1000 cycles and is read for 568 more, by two products half a period apart:
  // three slots. One more bears a load that takes twice its time.
  for (const ir::Channel& channel : solution.schedule.channels) {
    EXPECT_EQ(channel.medium, "smem");
    EXPECT_EQ(channel.depth, 4) << channel.value;
  }
}

TEST(Gemm, BlackwellNeedsNoWideRole) {
  const Graph graph = LoadGraph("gemm_blackwell");
  const Solution solution = SolveOrFail(graph);
  EXPECT_EQ(solution.certificate.ii, 512);
  EXPECT_EQ(solution.certificate.objective.compute_groups, 0);
  EXPECT_EQ(solution.schedule.roles.size(), 2u);
}

TEST(HopperBackward, ReachesTheTensorBoundWithTwoComputeRoles) {
  const Graph graph = LoadGraph("attention_backward_hopper");
  SolveOptions options;
  options.optimize_secondary = false;
  const Solution solution = SolveOrFail(graph, options);
  EXPECT_EQ(solution.certificate.ii, 2560);
  EXPECT_EQ(solution.certificate.proof, Proof::kBound);
  SolveOptions one;
  one.fixed_compute_roles = 1;
  EXPECT_EQ(FeasibleAt(graph, 2560, one).kind, Feasibility::Kind::kInfeasible);
}

TEST(BlackwellBackward, MemoryLiftsThePeriodAboveEveryElementaryBound) {
  const Graph graph = LoadGraph("attention_backward_blackwell");
  SolveOptions options;
  options.optimize_secondary = false;
  const Solution solution = SolveOrFail(graph, options);
  EXPECT_EQ(solution.certificate.proof, Proof::kRefuted);
  EXPECT_GT(solution.certificate.ii, 2560);
  EXPECT_TRUE(Names(solution.certificate.core, "smem", "") ||
              Names(solution.certificate.core, "tmem", ""));
  // Not roles but memory: it is as slow without roles.
  SolveOptions free = options;
  free.warp_constraints = false;
  DiagSink diags;
  Result<Solution> unconstrained = Solve(graph, free, diags);
  ASSERT_TRUE(unconstrained.ok());
  EXPECT_LE(unconstrained->certificate.ii, solution.certificate.ii);
  EXPECT_GT(unconstrained->certificate.ii, 2560);
}

// On the measured machine issue slots are shared with the tensor core, and they bind: the three
// orders measured there took 2359, 2903 and 3105 cycles.
TEST(MeasuredHopper, IssueBindsAndOrdersRankAsMeasured) {
  const Graph best = LoadGraph("attention_forward_h200");
  const Solution solution = SolveOrFail(best);
  EXPECT_EQ(solution.certificate.proof, Proof::kBound);
  EXPECT_EQ(best.units[solution.certificate.bound.unit].name, "issue");
  EXPECT_NEAR(static_cast<double>(solution.certificate.ii), 2359, 0.05 * 2359);
  SolveOptions options;
  options.optimize_secondary = false;
  const Graph in_order = LoadGraph("attention_forward_h200_in_order"),
              turns = LoadGraph("attention_forward_h200_turns");
  Solution slow = SolveOrFail(in_order, options), slower = SolveOrFail(turns, options);
  EXPECT_GT(slow.certificate.ii, solution.certificate.ii);
  EXPECT_GT(slower.certificate.ii, slow.certificate.ii);
  // As it was measured: nothing but waits for data keeps the two warpgroups in step. In order, they
  // meet on the tensor core at the worst phase and stay there; turns enforce an order, no better.
  auto free_running = [](const Graph& graph, ir::Schedule schedule) {
    for (ir::OrderEdge& order : schedule.order) order.enforced = false;
    return FreeRunningPeriod(graph, schedule);
  };
  EXPECT_NEAR(free_running(best, solution.schedule), 2359, 0.05 * 2359);
  EXPECT_NEAR(free_running(in_order, slow.schedule), 2903, 0.05 * 2903);
  EXPECT_NEAR(free_running(turns, slower.schedule), 3105, 0.05 * 3105);
  // Held to the solver's order, the loop in order would be faster than what was measured.
  EXPECT_LE(FreeRunningPeriod(in_order, slow.schedule), 2600);
}

// Turns that the roles keep by themselves are left out; those without which the loop takes longer
// than solved stay.
TEST(FreeRunning, LeavesOutTurnsThatCostNothing) {
  const auto turns = [](const ir::Schedule& schedule) {
    return std::count_if(schedule.order.begin(), schedule.order.end(),
                         [](const ir::OrderEdge& order) { return order.enforced; });
  };
  SolveOptions options;
  options.optimize_secondary = false;
  const Graph held = LoadGraph("attention_forward_h200_in_order");
  ir::Schedule schedule = SolveOrFail(held, options).schedule;
  ASSERT_GT(turns(schedule), 0);
  const double before = FreeRunningPeriod(held, schedule);
  LeaveOutTurns(held, &schedule);
  EXPECT_GT(turns(schedule), 0);
  EXPECT_LE(FreeRunningPeriod(held, schedule), std::max(before, 1.0 * schedule.ii));

  const Graph kept = LoadGraph("gemm_hopper");
  schedule = SolveOrFail(kept, options).schedule;
  ASSERT_GT(turns(schedule), 0);
  LeaveOutTurns(kept, &schedule);
  EXPECT_EQ(turns(schedule), 0);
  EXPECT_LE(FreeRunningPeriod(kept, schedule), 1.0 * schedule.ii);
  EXPECT_TRUE(Check(kept, schedule).violations.empty());
}

TEST(FreeRunning, NeverFasterThanTheBounds) {
  for (const char* name : {"gemm_hopper", "gemm_blackwell", "attention_forward_hopper",
                           "attention_forward_blackwell", "attention_backward_hopper"}) {
    const Graph graph = LoadGraph(name);
    SolveOptions options;
    options.optimize_secondary = false;
    ir::Schedule schedule = SolveOrFail(graph, options).schedule;
    const double bound = static_cast<double>(BestBound(graph).ii);
    EXPECT_GE(FreeRunningPeriod(graph, schedule), bound - 1) << name;
    for (ir::OrderEdge& order : schedule.order) order.enforced = false;
    EXPECT_GE(FreeRunningPeriod(graph, schedule), bound - 1) << name;
  }
  EXPECT_EQ(FreeRunningPeriod(Graph(), ir::Schedule()), 0);
}

}  // namespace
}  // namespace tilec::scheduler
