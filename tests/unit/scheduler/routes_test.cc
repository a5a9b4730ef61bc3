// Routes between roles: a store and a load that exist where a value crosses and only there. The
// solver against exhaustive search, the judges against each other, and what the ops are charged.
//
// SPDX-License-Identifier: Apache-2.0
#include "scheduler/routes.h"

#include <gtest/gtest.h>

#include <map>

#include "scheduler/check.h"
#include "scheduler/prove.h"
#include "scheduler/scheduler.h"
#include "scheduler/top.h"
#include "tests/unit/scheduler/exhaustive.h"
#include "tests/unit/scheduler/random_schedule.h"
#include "tests/unit/scheduler/test_graphs.h"

namespace tilec::scheduler {
namespace {

// Every other one has so much to issue that roles are worth having.
Graph Random_(uint64_t seed, int max_ops, bool memory, int routes = 2) {
  Graph graph = RandomGraph(seed, max_ops, memory);
  for (GraphOp& op : graph.ops)
    if (seed % 2 == 1 && !op.variable_latency) op.issue = 2;
  return WithRoutes(std::move(graph), seed, routes);
}

bool Crosses(const Graph& graph, const ir::Schedule& schedule) {
  for (const ir::ScheduledOp& op : schedule.ops)
    if (graph.ops[graph.FindOp(op.name)].routed) return true;
  return false;
}

// Two ops of one unit each that cannot issue together within ten cycles: work for two roles.
//   A (issue 6) -> B (issue 6), and what the way between roles costs.
Graph Pair(int64_t store_issue, int64_t load_issue) {
  GraphBuilder b;
  const int a = b.Op("A", 6, 8), y = b.Op("B", 6, 4);
  const int store = b.Op("A.store", store_issue, 12), load = b.Op("B.load", load_issue, 20);
  b.graph.ops[a].regs = 32;
  b.graph.ops[store].smem_bytes = 4096;
  b.graph.ops[load].regs = 32;
  b.graph.ops[store].routed = b.graph.ops[load].routed = true;
  GraphEdge& edge = b.Edge(a, y);
  edge.transfer = 30;
  edge.store = store;
  edge.load = load;
  return b.graph;
}

Solution Solved(const Graph& graph, const SolveOptions& options = {}) {
  DiagSink diags;
  EXPECT_TRUE(CheckGraph(graph, diags).ok()) << diags.all()[0].message;
  Result<Solution> solution = Solve(graph, options, diags);
  EXPECT_TRUE(solution.ok()) << diags.all()[0].message;
  return *solution;
}

TEST(Routes, CrossingPaysIfItsOpsLeaveTheTime) {
  // One role: 12. Two roles: 6 + 2 and 3 + 6 of issue.
  const Solution two = Solved(Pair(2, 3));
  EXPECT_EQ(two.certificate.ii, 9);
  EXPECT_EQ(two.lower_bound, 9);
  EXPECT_TRUE(Crosses(Pair(2, 3), two.schedule));
  EXPECT_EQ(two.schedule.ops.size(), 4u);
  // 8 to A.store, 12 and 30 to B.load, 20 to B.
  EXPECT_GE(CycleOf(two.schedule, "B") - CycleOf(two.schedule, "A"), 70);
  ASSERT_EQ(two.schedule.channels.size(), 1u);
  EXPECT_EQ(two.schedule.channels[0].value, "A.store");
  EXPECT_EQ(two.schedule.channels[0].medium, "smem");
  EXPECT_EQ(two.certificate.objective.cross_bytes, 4096);
  EXPECT_EQ(two.certificate.objective.waits, 1);

  // The same with dearer ops: nothing is won, nothing crosses, and nothing is paid.
  const Solution one = Solved(Pair(7, 3));
  EXPECT_EQ(one.certificate.ii, 12);
  EXPECT_FALSE(Crosses(Pair(7, 3), one.schedule));
  EXPECT_EQ(one.schedule.ops.size(), 2u);
  EXPECT_TRUE(one.schedule.channels.empty());
  EXPECT_GE(CycleOf(one.schedule, "B") - CycleOf(one.schedule, "A"), 8);
  EXPECT_EQ(one.certificate.objective.smem_bytes, 0);
}

TEST(Routes, UnitsAndMemoryOfTheWayAreCharged) {
  // A unit of shared memory that both ops of the way take for longer than is won.
  Graph unit = Pair(2, 3);
  unit.units.push_back({"smem"});
  unit.ops[2].uses = unit.ops[3].uses = {{0, 6}};
  EXPECT_EQ(Solved(unit).certificate.ii, 12);
  unit.units[0].fluid = true;
  EXPECT_EQ(Solved(unit).certificate.ii, 12);
  unit.units[0].capacity = 2;
  EXPECT_EQ(Solved(unit).certificate.ii, 9);
  // No room for the ring.
  Graph full = Pair(2, 3);
  full.machine.smem_bytes = 4111;
  EXPECT_EQ(Solved(full).certificate.ii, 12);
  full.machine.smem_bytes = 4112 * 4;
  const Solution solution = Solved(full);
  EXPECT_LE(solution.report.smem_bytes, 4112 * 4);
  // Registers of the reader: what is loaded takes room there.
  Graph tight = Pair(2, 3);
  tight.machine.max_regs_per_thread = 96;  // 20 cycles until it is there: three at a time
  EXPECT_EQ(Solved(tight).certificate.ii, 9);
  tight.machine.max_regs_per_thread = 95;
  EXPECT_EQ(Solved(tight).certificate.ii, 12);
}

// Three readers of one value: one store, a load where it is read.
TEST(Routes, ReadersShareTheStore) {
  GraphBuilder b;
  const int a = b.Op("A", 4, 4);
  const int store = b.Op("A.store", 1, 2);
  b.graph.ops[store].routed = true;
  b.graph.ops[store].smem_bytes = 1024;
  for (const char* name : {"B", "C", "D"}) {
    const int y = b.Op(name, 4, 4), load = b.Op(std::string(name) + ".load", 1, 2);
    b.graph.ops[load].routed = true;
    GraphEdge& edge = b.Edge(a, y);
    edge.store = store;
    edge.load = load;
  }
  const Solution s = Solved(b.graph);
  // Four roles of at most 5 would do it in 5 with three loads.
  EXPECT_EQ(s.certificate.ii, 5);
  EXPECT_EQ(s.schedule.ops.size(), 8u);
  EXPECT_TRUE(Simulate(b.graph, s.schedule).violations.empty());
  b.graph.machine.max_warps = 8;
  const Solution two = Solved(b.graph);
  EXPECT_EQ(two.certificate.ii, 10);  // A, A.store and a reader; two readers with their loads
  EXPECT_EQ(two.schedule.ops.size(), 7u);
  EXPECT_TRUE(Simulate(b.graph, two.schedule).violations.empty());
}

TEST(Routes, SolverFindsTheSmallestPeriod) {
  int feasible = 0, infeasible = 0, crossing = 0, swaps = 0;
  auto compare = [&](uint64_t seed, int ops, bool memory, int routes, int64_t largest) {
    const Graph graph = Random_(seed, ops, memory, routes);
    if (!HasRoutes(graph)) return;
    DiagSink diags;
    ASSERT_TRUE(CheckGraph(graph, diags).ok()) << "seed " << seed << diags.all()[0].message;
    for (int64_t ii = 1; ii <= largest; ++ii) {
      const bool expected = ExhaustivelyFeasible(graph, ii);
      const Feasibility answer = FeasibleAt(graph, ii, {});
      ASSERT_EQ(answer.kind,
                expected ? Feasibility::Kind::kFeasible : Feasibility::Kind::kInfeasible)
          << "seed " << seed << " II " << ii << "\n"
          << ToText(graph);
      infeasible += expected ? 0 : 1;
      if (!expected) continue;
      const CheckReport judged = Check(graph, answer.schedule);
      const CheckReport played = Simulate(graph, answer.schedule);
      if (!judged.violations.empty() && judged.violations[0].law == "liveness")
        ++swaps;
      else
        ASSERT_TRUE(judged.violations.empty() && played.violations.empty())
            << "seed " << seed << "\n"
            << ToText(graph) << ToText(answer.schedule);
      ++feasible;
      crossing += Crosses(graph, answer.schedule) ? 1 : 0;
      return;
    }
  };
  for (uint64_t seed = 50000; seed < 51800; ++seed) compare(seed, 3, false, 2, 4);
  for (uint64_t seed = 52000; seed < 53800; ++seed) compare(seed, 4, false, 1, 4);
  for (uint64_t seed = 60000; seed < 61000; ++seed) compare(seed, 3, true, 1, 4);
  EXPECT_GT(feasible, 550);
  EXPECT_GT(infeasible, 4500);
  EXPECT_GT(crossing, 170);
  EXPECT_LE(swaps, 5);
  RecordProperty("feasible", feasible);
  RecordProperty("infeasible", infeasible);
  RecordProperty("crossing", crossing);
}

// The whole way, with the objective and without.
TEST(Routes, SolveProvesPeriodAndObjective) {
  int solved = 0, objectives = 0;
  for (uint64_t seed = 70000; seed < 72000; ++seed) {
    const bool memory = seed % 4 < 2;
    const Graph graph = Random_(seed, 3, memory, memory ? 1 : 2);
    if (!HasRoutes(graph)) continue;
    int64_t smallest = 1;
    while (smallest <= 4 && !ExhaustivelyFeasible(graph, smallest)) ++smallest;
    if (smallest > 4) continue;
    DiagSink diags;
    const Result<Solution> solution = Solve(graph, {}, diags);
    ASSERT_TRUE(solution.ok()) << "seed " << seed << ": " << diags.all()[0].message << "\n"
                               << ToText(graph);
    const Certificate& c = solution->certificate;
    EXPECT_EQ(c.ii, smallest) << "seed " << seed << "\n" << ToText(graph);
    EXPECT_EQ(solution->lower_bound, smallest) << "seed " << seed;
    EXPECT_NE(c.proof, Proof::kNone) << "seed " << seed;
    EXPECT_TRUE(VerifyCertificate(graph, solution->schedule, c, diags).ok())
        << "seed " << seed << ": " << diags.all()[0].message << ToText(graph)
        << ToText(solution->schedule);
    ++solved;
    if (!c.objective_proved || c.schedule_ii != smallest) continue;
    const std::optional<Objective> best = ExhaustiveObjective(graph, smallest);
    ASSERT_TRUE(best) << "seed " << seed;
    EXPECT_TRUE(*best == c.objective) << "seed " << seed << "\n" << ToText(graph);
    ++objectives;
  }
  EXPECT_GT(solved, 200);
  EXPECT_GT(objectives, 200);
  RecordProperty("objectives", objectives);
}

TEST(Routes, JudgesAgree) {
  Random random(11);
  int accepted = 0, rejected = 0, crossing = 0;
  for (uint64_t seed = 0; accepted + rejected < 12000; ++seed) {
    const Graph graph = Random_(seed, 6, seed % 3 != 0, 5);
    DiagSink diags;
    if (!HasRoutes(graph) || !CheckGraph(graph, diags).ok()) continue;
    for (int round = 0; round < 3; ++round) {
      // Roles first; then times for the graph that these make.
      const int64_t ii = Pick(random, 3, 14);
      std::vector<int> group;
      for (size_t v = 0; v < graph.ops.size(); ++v) group.push_back(Pick(random, 0, 1));
      for (size_t v = 0; v < group.size(); ++v) group[v] = group[RoleOwners(graph)[v]];
      const std::vector<bool> absent = Absent(graph, group);
      ir::Schedule rough;
      for (size_t v = 0; v < graph.ops.size(); ++v)
        if (!absent[v]) rough.ops.push_back({graph.ops[v].name, 0, group[v]});
      const ir::Schedule greedy = GreedySchedule(RoutedBy(graph, rough), ii, random);
      const int copies = Check(graph, greedy).violations.empty() ? 6 : 1;
      for (int copy = 0; copy < copies; ++copy) {
        ir::Schedule schedule = greedy;
        for (int i = 0; i < std::min(copy, 2); ++i) Damage(graph, random, &schedule);
        const CheckReport checked = Check(graph, schedule);
        const CheckReport played = Simulate(graph, schedule);
        ASSERT_EQ(checked.violations.empty(), played.violations.empty())
            << "seed " << seed << "\n"
            << ToText(graph) << ToText(schedule)
            << "check: " << (checked.violations.empty() ? "" : checked.violations[0].text)
            << "\nsimulation: " << (played.violations.empty() ? "" : played.violations[0].text);
        (checked.violations.empty() ? accepted : rejected)++;
        if (!checked.violations.empty()) continue;
        EXPECT_EQ(checked.role_regs, played.role_regs);
        EXPECT_EQ(checked.smem_bytes, played.smem_bytes);
        crossing += Crosses(graph, schedule) ? 1 : 0;
      }
    }
  }
  EXPECT_GT(accepted, 1500);
  EXPECT_GT(rejected, 3000);
  EXPECT_GT(crossing, 300);
}

// An op of a way that is not taken is as wrong as one that is missing.
TEST(Routes, OpsOfAWayExistIfItIsTaken) {
  const Graph graph = Pair(2, 3);
  const ir::Schedule crossing = Solved(graph).schedule;
  ir::Schedule missing = crossing;
  std::erase_if(missing.ops, [](const ir::ScheduledOp& op) { return op.name == "B.load"; });
  ASSERT_FALSE(Check(graph, missing).violations.empty());
  EXPECT_EQ(Check(graph, missing).violations[0].text, "op B.load is not scheduled");
  EXPECT_FALSE(Simulate(graph, missing).violations.empty());
  ir::Schedule idle = Solved(Pair(7, 3)).schedule;
  idle.ops.push_back({"A.store", 40, 0});
  ASSERT_FALSE(Check(graph, idle).violations.empty());
  EXPECT_EQ(Check(graph, idle).violations[0].text,
            "op A.store is scheduled, and nothing goes through it");
  EXPECT_FALSE(Simulate(graph, idle).violations.empty());
}

TEST(Routes, RefutationsHaveProofs) {
  const Graph graph = Pair(2, 3);
  const InfeasibilityProof proof = ProveInfeasible(graph, 8, {});
  ASSERT_TRUE(proof.complete()) << proof.problem;
  DiagSink diags;
  const Result<certify::Refutation> verified =
      VerifyProof(graph, ToText(proof.refutation), -1, diags);
  ASSERT_TRUE(verified.ok()) << diags.all()[0].message;
  EXPECT_EQ(verified->ii, 8);
  EXPECT_EQ(ProveInfeasible(graph, 9, {}).kind, InfeasibilityProof::Kind::kConsistent);
}

TEST(Routes, TextKeepsThem) {
  DiagSink diags;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const Graph graph = Random_(seed, 6, true, 5);
    const Result<Graph> again = ParseGraph(ToText(graph), -1, diags);
    ASSERT_TRUE(again.ok()) << ToText(graph);
    EXPECT_EQ(ToText(*again), ToText(graph));
    EXPECT_EQ(Hash(*again), Hash(graph));
  }
}

TEST(Routes, OddOnesAreRefused) {
  const auto refused = [](const std::function<void(Graph*)>& change) {
    Graph graph = Pair(2, 3);
    change(&graph);
    DiagSink diags;
    EXPECT_FALSE(CheckGraph(graph, diags).ok()) << ToText(graph);
    return diags.all().empty() ? std::string() : diags.all()[0].message;
  };
  EXPECT_NE(refused([](Graph* g) {
              g->edges[0].store = g->edges[0].load = -1;
            }).find("no edge goes through it"),
            std::string::npos);
  EXPECT_NE(refused([](Graph* g) { g->edges[0].load = 99; }).find("load"), std::string::npos);
  EXPECT_NE(refused([](Graph* g) { g->edges[0].distance = 1; }).find("leads where none can"),
            std::string::npos);
  EXPECT_NE(refused([](Graph* g) { g->edges[0].kind = EdgeKind::kSmem; }).find("none can"),
            std::string::npos);
  EXPECT_NE(refused([](Graph* g) { g->edges[0].crossable = false; }).find("none can"),
            std::string::npos);
  EXPECT_NE(refused([](Graph* g) { g->ops[2].smem_bytes = 0; }).find("cannot be `A.store`"),
            std::string::npos);
  EXPECT_NE(refused([](Graph* g) { g->ops[3].warps = 1; }).find("cannot be"), std::string::npos);
  EXPECT_NE(refused([](Graph* g) { g->ops[3].routed = false; }).find("cannot be"),
            std::string::npos);
  EXPECT_NE(refused([](Graph* g) { g->edges.push_back(g->edges[0]); }).find("shares an op"),
            std::string::npos);
  EXPECT_NE(refused([](Graph* g) {
              g->edges.push_back({3, 0, EdgeKind::kOrder, 0, 1});
            }).find("which is of a route"),
            std::string::npos);
  EXPECT_NE(refused([](Graph* g) {
              Graph::Pin pin;
              pin.op = "B.load";
              pin.cycle = 3;
              g->pins.push_back(pin);
            }).find("a pin names op"),
            std::string::npos);
  DiagSink diags;
  EXPECT_FALSE(ParseGraph("graph g\nop A\nop B\nedge A -> B register via=A\n", -1, diags).ok());
  EXPECT_NE(diags.all()[0].message.find("via=STORE,LOAD"), std::string::npos);
  EXPECT_FALSE(ParseGraph("graph g\nop A\nop B\nedge A -> B register via=A,C\n", -1, diags).ok());
}

}  // namespace
}  // namespace tilec::scheduler
