// The checker against the simulator: thousands of right, nearly right and wrong schedules, on which
// two programs that share no code must agree.
//
// SPDX-License-Identifier: Apache-2.0
#include "scheduler/check.h"

#include <gtest/gtest.h>

#include <map>

#include "tests/unit/scheduler/exhaustive.h"
#include "tests/unit/scheduler/random_schedule.h"

namespace tilec::scheduler {
namespace {

std::string Describe(const CheckReport& report) {
  std::string text;
  for (const Violation& v : report.violations) text += "  " + v.law + ": " + v.text + "\n";
  return text.empty() ? "  accepted\n" : text;
}

Graph WithPins(Graph graph, Random& random) {
  if (Pick(random, 0, 5) != 0) return graph;
  Graph::Pin pin;
  pin.op = graph.ops[random() % graph.ops.size()].name;
  const int kind = Pick(random, 0, 3);
  if (kind == 0) pin.cycle = Pick(random, 0, 6);
  if (kind == 1) pin.stage = Pick(random, 0, 1);
  if (kind == 2) pin.same_role_as = graph.ops[random() % graph.ops.size()].name;
  if (kind == 3) pin.depth = Pick(random, 1, 2);
  graph.pins.push_back(pin);
  return graph;
}

TEST(Check, AgreesWithTheSimulation) {
  Random random(7);
  int accepted = 0, rejected = 0, intact = 0;
  std::map<std::string, int> laws, only_law;
  for (uint64_t seed = 0; accepted + rejected < 24000; ++seed) {
    const Graph graph = WithPins(RandomGraph(seed, 6, seed % 3 != 0), random);
    DiagSink diags;
    if (!CheckGraph(graph, diags).ok()) continue;
    for (int round = 0; round < 3; ++round) {
      const ir::Schedule greedy = GreedySchedule(graph, Pick(random, 3, 14), random);
      const int copies = Check(graph, greedy).violations.empty() ? 6 : 1;
      for (int copy = 0; copy < copies; ++copy) {
        ir::Schedule schedule = greedy;
        for (int i = 0; i < std::min(copy, 2); ++i) Damage(graph, random, &schedule);
        const CheckReport checked = Check(graph, schedule);
        const CheckReport played = Simulate(graph, schedule);
        ASSERT_EQ(checked.violations.empty(), played.violations.empty())
            << "seed " << seed << "\n"
            << ToText(graph) << ToText(schedule) << "check:\n"
            << Describe(checked) << "simulation:\n"
            << Describe(played);
        if (checked.violations.empty()) {
          ++accepted;
          intact += copy == 0 ? 1 : 0;
          EXPECT_EQ(checked.role_regs, played.role_regs) << ToText(graph) << ToText(schedule);
          EXPECT_EQ(checked.tmem_columns, played.tmem_columns);
          EXPECT_EQ(checked.smem_bytes, played.smem_bytes);
          EXPECT_LE(checked.event_period, schedule.ii);
        } else {
          ++rejected;
          std::string law = checked.violations.front().law;
          for (const Violation& v : checked.violations) {
            ++laws[v.law];
            if (v.law != law) law.clear();
          }
          if (!law.empty()) ++only_law[law];
        }
      }
    }
  }
  EXPECT_GT(accepted, 5000);
  EXPECT_GT(rejected, 5000);
  EXPECT_GT(intact, 1000);
  // Each law decides alone in some of them: a law that is never needed is not tested.
  for (const char* law :
       {"complete", "dependence", "unit", "issue", "registers", "register-pool", "smem", "tmem",
        "ring", "load-role", "width", "warps", "pin", "order", "carried-role", "same-role"})
    EXPECT_GT(only_law[law], law == std::string("smem") || law == std::string("tmem") ? 2 : 5)
        << law << " of " << laws[law];
}

TEST(Check, LawsAreNamedWithTheirNumbers) {
  Graph g;
  g.name = "g";
  g.machine.name = "m";
  g.units = {{"tensor", 1}};
  for (const char* name : {"A", "B"}) {
    GraphOp op;
    op.name = name;
    op.issue = 2;
    op.latency = 6;
    op.uses = {{0, 4}};
    g.ops.push_back(op);
  }
  g.edges.push_back({0, 1, EdgeKind::kRegister, 6, 0, 3, 0, true});
  ir::Schedule s;
  s.ii = 8;
  s.roles = {{"compute0", 4, 0}, {"compute1", 4, 0}};
  s.ops = {{"A", 0, 0}, {"B", 12, 0}};
  EXPECT_TRUE(Check(g, s).violations.empty());
  EXPECT_EQ(Check(g, s).event_period, 4);  // issue alone binds
  EXPECT_EQ(Check(g, s).unit_busy, std::vector<int64_t>{8});

  s.ops[1].cycle = 4;
  ASSERT_EQ(Check(g, s).violations.size(), 1u);
  EXPECT_EQ(Check(g, s).violations[0].law, "dependence");
  EXPECT_EQ(Check(g, s).violations[0].text, "B issues 4 cycles after A, and needs 6");

  s.ops[1].cycle = 9;
  EXPECT_EQ(Check(g, s).violations[0].law, "unit");
  EXPECT_EQ(Check(g, s).violations[0].text,
            "unit tensor serves 2 ops at slot 1, and has 1 instance");

  s.ops[1] = {"B", 12, 1};
  s.channels = {{"A", "reg", 1}};
  ASSERT_FALSE(Check(g, s).violations.empty());
  EXPECT_EQ(Check(g, s).violations[0].law, "ring");
  EXPECT_EQ(Check(g, s).violations[0].text,
            "a value of A lives 12 cycles, longer than 1 slots of 8 cycles");
  s.channels[0].depth = 2;
  EXPECT_TRUE(Check(g, s).violations.empty());
  s.ops[1].cycle = 8 + 8;
  EXPECT_EQ(Check(g, s).violations[0].law, "unit");
}

}  // namespace
}  // namespace tilec::scheduler
