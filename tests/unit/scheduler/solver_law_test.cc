// One law at a time on graphs small enough to reason about by hand, and what happens to input that
// no schedule can satisfy.
//
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "scheduler/check.h"
#include "scheduler/diagnostics.h"
#include "scheduler/scheduler.h"
#include "tests/unit/scheduler/test_graphs.h"

namespace tilec::scheduler {
namespace {

constexpr auto kFeasible = Feasibility::Kind::kFeasible;
constexpr auto kInfeasible = Feasibility::Kind::kInfeasible;

bool Names(const std::vector<CoreItem>& core, const std::string& law) {
  return std::any_of(core.begin(), core.end(),
                     [&](const CoreItem& item) { return item.law == law; });
}

// The running example of the paper: S = gemm, P = exp, O += gemm; unit costs.
GraphBuilder RunningExample() {
  GraphBuilder b;
  const int tc = b.Unit("tensor"), mufu = b.Unit("mufu");
  const int s = b.Op("S", 0, 1, tc, 1), p = b.Op("P", 0, 1, mufu, 1), o = b.Op("O", 0, 1, tc, 1);
  b.Edge(s, p);
  b.Edge(p, o);
  b.Edge(o, o, EdgeKind::kRegister, 1);
  return b;
}

TEST(SolverLaws, RunningExampleOverlapsIterations) {
  const GraphBuilder b = RunningExample();
  EXPECT_EQ(FeasibleAt(b.graph, 1, {}).kind, kInfeasible);
  const Feasibility at2 = FeasibleAt(b.graph, 2, {});
  ASSERT_EQ(at2.kind, kFeasible);
  EXPECT_NE(CycleOf(at2.schedule, "S") % 2, CycleOf(at2.schedule, "O") % 2);
  EXPECT_TRUE(Check(b.graph, at2.schedule).violations.empty());
}

// scheduler.md, first hole of the published formulation: an accumulator that enters the steady
// state from before it occupies memory too. II 4: the accumulator (150 kB, carried) lives all the
// time, a temporary of 150 kB does not fit beside it, whatever the cycles.
TEST(SolverLaws, LiveInsOfCarriedValuesCount) {
  GraphBuilder b;
  const int unit = b.Unit("u"), other = b.Unit("w");
  const int acc = b.Op("acc", 0, 1, unit, 1), tmp = b.Op("tmp", 0, 1, other, 1),
            use = b.Op("use", 0, 1);
  b.Edge(acc, acc, EdgeKind::kTmem, 1);
  b.Edge(tmp, use, EdgeKind::kTmem);
  b.graph.ops[acc].tmem_columns = 150;
  b.graph.ops[tmp].tmem_columns = 150;
  b.graph.machine.tmem_columns = 227;
  const Feasibility answer = FeasibleAt(b.graph, 4, {});
  ASSERT_EQ(answer.kind, kInfeasible);
  EXPECT_TRUE(Names(answer.core, "tmem"));
  b.graph.machine.tmem_columns = 300;
  EXPECT_EQ(FeasibleAt(b.graph, 4, {}).kind, kFeasible);
}

// Second hole: stages are not bounded by those of some first schedule. At II 3 this chain needs
// its last op three periods after the first.
TEST(SolverLaws, AnyNumberOfStages) {
  GraphBuilder b;
  const int unit = b.Unit("u");
  const int a = b.Op("a", 0, 7, unit, 1), c = b.Op("c", 0, 7, unit, 1),
            d = b.Op("d", 0, 1, unit, 1);
  b.Edge(a, c);
  b.Edge(c, d);
  const Feasibility answer = FeasibleAt(b.graph, 3, {});
  ASSERT_EQ(answer.kind, kFeasible);
  EXPECT_GE(CycleOf(answer.schedule, "d") - CycleOf(answer.schedule, "a"), 14);
  SolveOptions two;
  two.fixed_stages = 2;
  const Feasibility bounded = FeasibleAt(b.graph, 3, two);
  ASSERT_EQ(bounded.kind, kInfeasible);
  EXPECT_TRUE(Names(bounded.core, "stages"));
}

TEST(SolverLaws, HoldsKeepBuffersAlive) {
  GraphBuilder b;
  const int u = b.Unit("u");
  const int load = b.Op("load", 0, 2), use = b.Op("use", 0, 1, u, 1);
  GraphEdge& e = b.Edge(load, use, EdgeKind::kSmem);
  e.hold = 2;
  b.graph.ops[load].smem_bytes = 100;
  b.graph.machine.barrier_bytes = 16;
  b.graph.machine.smem_bytes = 231;  // one slot of 116, not two
  EXPECT_EQ(FeasibleAt(b.graph, 4, {}).kind, kFeasible);
  const Feasibility tight = FeasibleAt(b.graph, 3, {});
  ASSERT_EQ(tight.kind, kInfeasible);
  EXPECT_TRUE(Names(tight.core, "smem"));
  b.graph.machine.smem_bytes = 232;  // exactly two
  const Feasibility two = FeasibleAt(b.graph, 3, {});
  ASSERT_EQ(two.kind, kFeasible);
  ASSERT_EQ(two.schedule.channels.size(), 1u);
  EXPECT_EQ(two.schedule.channels[0].depth, 2);
}

TEST(SolverLaws, UnitsWithSeveralInstances) {
  GraphBuilder b;
  const int u = b.Unit("u", 2);
  for (const char* name : {"a", "b", "c"}) b.Op(name, 0, 1, u, 4);
  EXPECT_EQ(FeasibleAt(b.graph, 5, {}).kind, kInfeasible);
  EXPECT_EQ(FeasibleAt(b.graph, 6, {}).kind, kFeasible);
  // Arcs of 4 on a circle of 6 with two instances: exactly filled, 12 of 12.
  b.Op("d", 0, 1, u, 1);
  EXPECT_EQ(FeasibleAt(b.graph, 6, {}).kind, kInfeasible);
}

TEST(SolverLaws, CarriedRegistersStayInTheirRole) {
  GraphBuilder b;
  const int a = b.Op("a", 3, 3), c = b.Op("c", 3, 3);
  b.Edge(a, c);
  b.Edge(c, a, EdgeKind::kRegister, 2);
  const Feasibility answer = FeasibleAt(b.graph, 5, {});
  ASSERT_EQ(answer.kind, kInfeasible);
  EXPECT_TRUE(Names(answer.core, "carried-role"));
  EXPECT_TRUE(Names(answer.core, "issue"));
  b.graph.edges[1].kind = EdgeKind::kSmem;
  EXPECT_EQ(FeasibleAt(b.graph, 5, {}).kind, kFeasible);
}

TEST(SolverLaws, QuotasShareTheRegisterFile) {
  // Two roles of 4 warps, each with 200 live registers: 2 · 200 fit 512 per lane, not 384.
  GraphBuilder b;
  const int u = b.Unit("u");
  std::vector<int> ops;
  for (int i = 0; i < 2; ++i) {
    const int def = b.Op("def" + std::to_string(i), 4, 4),
              use = b.Op("use" + std::to_string(i), 4, 4, u, 4);
    b.Edge(def, use).crossable = false;
    b.graph.ops[def].regs = 200;
  }
  ASSERT_EQ(FeasibleAt(b.graph, 8, {}).kind, kFeasible);
  b.graph.machine.registers = 128 * 2 * 192;
  const Feasibility tight = FeasibleAt(b.graph, 8, {});
  ASSERT_EQ(tight.kind, kInfeasible);
  EXPECT_TRUE(Names(tight.core, "register-pool"));
  // One role holds one value at a time.
  EXPECT_EQ(FeasibleAt(b.graph, 16, {}).kind, kFeasible);
}

TEST(SolverLaws, LoadsAreAloneInTheirRole) {
  GraphBuilder b;
  const int load = b.Op("load", 1, 10), use = b.Op("use", 1, 1);
  b.Edge(load, use, EdgeKind::kSmem);
  b.graph.ops[load].variable_latency = b.graph.ops[load].streaming = true;
  b.graph.ops[load].smem_bytes = 64;
  b.graph.ops[load].warps = 1;
  const Feasibility answer = FeasibleAt(b.graph, 2, {});
  ASSERT_EQ(answer.kind, kFeasible);
  EXPECT_NE(RoleOf(answer.schedule, "load"), RoleOf(answer.schedule, "use"));
  EXPECT_EQ(answer.schedule.roles[RoleOf(answer.schedule, "load")].name, "load");
}

// Two rings of one slot without hold, each overwritten in the cycle in which the other is read, is
// what the half-open lives allow at II 4; as programs the two would wait for each other, and no
// other schedule fits one slot each.
TEST(SolverLaws, RingsThatWouldWaitForEachOtherAreNotHandedOut) {
  GraphBuilder b;
  const int load = b.Op("load", 2, 2), use = b.Op("use", 1, 2);
  b.graph.ops[load].smem_bytes = 100;
  b.graph.ops[load].warps = 1;
  b.graph.ops[load].variable_latency = true;
  b.graph.ops[use].tmem_columns = 32;
  b.graph.machine.smem_bytes = 116;
  b.graph.machine.tmem_columns = 32;
  b.Edge(load, use, EdgeKind::kSmem).transfer = 2;
  b.Edge(use, load, EdgeKind::kTmem, 2).transfer = 2;
  DiagSink diags;
  const Result<Solution> solution = Solve(b.graph, {}, diags);
  EXPECT_FALSE(solution.ok());
  ASSERT_EQ(diags.all().size(), 1u);
  EXPECT_EQ(diags.all()[0].def, &kNoSchedule);
  b.graph.machine.tmem_columns = 64;
  DiagSink more;
  const Result<Solution> roomy = Solve(b.graph, {}, more);
  ASSERT_TRUE(roomy.ok());
  EXPECT_TRUE(Simulate(b.graph, roomy->schedule).violations.empty());
}

TEST(SolverPins, AreKeptAndContradictionsNamed) {
  GraphBuilder b = RunningExample();
  b.graph.pins.push_back({.op = "O", .cycle = 9});
  const Feasibility answer = FeasibleAt(b.graph, 2, {});
  ASSERT_EQ(answer.kind, kFeasible);
  EXPECT_EQ(CycleOf(answer.schedule, "O"), 9);
  b.graph.pins.push_back({.op = "S", .cycle = 8});
  DiagSink diags;
  SolveOptions options;
  options.fixed_ii = 2;
  EXPECT_FALSE(Solve(b.graph, options, diags).ok());
  ASSERT_EQ(diags.all().size(), 1u);
  EXPECT_EQ(diags.all()[0].def, &kContradictoryPins);
  EXPECT_FALSE(diags.all()[0].notes.empty());
}

TEST(SolverPins, StagesDepthsAndRoles) {
  GraphBuilder b = RunningExample();
  b.graph.pins.push_back({.op = "O", .stage = 3});
  b.graph.pins.push_back({.op = "S", .same_role_as = "P"});
  const Feasibility answer = FeasibleAt(b.graph, 2, {});
  ASSERT_EQ(answer.kind, kFeasible);
  EXPECT_EQ(CycleOf(answer.schedule, "O") / 2, 3);
  EXPECT_EQ(RoleOf(answer.schedule, "S"), RoleOf(answer.schedule, "P"));
}

TEST(SolverFailures, NoScheduleAtAnyPeriodNamesTheLaws) {
  GraphBuilder b;
  const int a = b.Op("a", 1, 1), c = b.Op("c", 1, 1);
  b.Edge(a, c);
  b.graph.ops[a].regs = 300;
  DiagSink diags;
  EXPECT_FALSE(Solve(b.graph, {}, diags).ok());
  ASSERT_EQ(diags.all().size(), 1u);
  EXPECT_EQ(diags.all()[0].def, &kNoSchedule);
  EXPECT_TRUE(std::any_of(diags.all()[0].notes.begin(), diags.all()[0].notes.end(),
                          [](const std::string& note) { return note.rfind("registers", 0) == 0; }));
}

TEST(SolverFailures, TooFewWarps) {
  GraphBuilder b;
  const int a = b.Op("a", 1, 1), c = b.Op("c", 1, 1);
  b.Edge(a, c, EdgeKind::kSmem);
  b.graph.ops[c].warps = 1;
  b.graph.machine.max_warps = 4;
  const Feasibility answer = FeasibleAt(b.graph, 4, {});
  ASSERT_EQ(answer.kind, kInfeasible);
  EXPECT_TRUE(Names(answer.core, "warps"));
}

TEST(SolverFailures, OutOfBudgetIsNotInfeasible) {
  const Graph graph = LoadGraph("attention_forward_hopper");
  SolveOptions options;
  options.resource_limit = 10;
  options.modulo_scheduling = false;
  EXPECT_EQ(FeasibleAt(graph, 2048, options).kind, Feasibility::Kind::kUnknown);
  DiagSink diags;
  EXPECT_FALSE(Solve(graph, options, diags).ok());
  ASSERT_EQ(diags.all().size(), 1u);
  EXPECT_EQ(diags.all()[0].def, &kOutOfBudget);
}

TEST(SolverDeterminism, ThreadsDoNotMatter) {
  const Graph graph = LoadGraph("gemm_hopper");
  std::vector<std::string> texts(3);
  std::vector<std::thread> threads;
  for (std::string& text : texts)
    threads.emplace_back([&graph, &text] {
      DiagSink diags;
      const Result<Solution> solution = Solve(graph, {}, diags);
      if (solution.ok()) text = ir::ToText(solution->schedule) + ToText(solution->certificate);
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(texts[0].empty());
  EXPECT_EQ(texts[0], texts[1]);
  EXPECT_EQ(texts[0], texts[2]);
}

}  // namespace
}  // namespace tilec::scheduler
