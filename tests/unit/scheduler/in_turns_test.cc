// Schedules in the turns of the lowering: what fits keeps its II, what does not is priced.
//
// SPDX-License-Identifier: Apache-2.0
#include "scheduler/in_turns.h"

#include <gtest/gtest.h>

#include <string>

#include "scheduler/check.h"

namespace tilec::scheduler {
namespace {

// `a` begins a turn, `p` is a product, `r` reads it, in the schedule a turn later.
class InTurnsTest : public ::testing::Test {
 protected:
  void Make(int latency) {
    DiagSink diags;
    const std::string text =
        "graph turns\nmachine m smem=1000 tmem=0 regs=240 registers=65536 "
        "warps=16 barrier=16\nunit tensor capacity=1\n"
        "op a kind=fma issue=60 latency=60 regs=8 warps=4\n"
        "op p kind=dot issue=10 latency=" +
        std::to_string(latency) +
        " regs=16 use=tensor:90 warps=4 async\n"
        "op r kind=fma issue=20 latency=20 regs=8 warps=4\n"
        "edge a -> p register delay=60\nedge p -> r register delay=" +
        std::to_string(latency) + "\n";
    auto graph = ParseGraph(text, -1, diags);
    ASSERT_TRUE(graph.ok());
    graph_ = std::move(*graph);
    solved_.graph = "turns";
    solved_.ii = 200;
    solved_.roles = {{"compute0", 4, 240}};
    solved_.ops = {{"a", 0, 0}, {"p", 150, 0}, {"r", 150 + latency, 0}};
    places_ = {{0, 0, 0, false}, {0, 0, 1, false}, {0, 0, 2, false}};
  }

  Graph graph_;
  ir::Schedule solved_;
  std::vector<TurnPlace> places_;
};

TEST_F(InTurnsTest, WhatFitsATurnKeepsItsPeriod) {
  Make(100);
  const auto turns = InTurns(graph_, solved_, places_, 200);
  ASSERT_TRUE(turns);
  EXPECT_EQ(turns->ii, 200);
  EXPECT_TRUE(Check(graph_, *turns).violations.empty());
  // The reader is done when the turn that `a` begins ends.
  EXPECT_LE(turns->ops[2].cycle + 20 - turns->ops[0].cycle, 200);
  EXPECT_EQ(PeriodInTurns(graph_, solved_, places_), 200);
}

TEST_F(InTurnsTest, WhatDoesNotFitHasALongerPeriod) {
  Make(170);
  EXPECT_FALSE(InTurns(graph_, solved_, places_, 200));
  EXPECT_EQ(PeriodInTurns(graph_, solved_, places_), 60 + 170 + 20);
}

// Read late in the next turn, and complete when its own ends: that is what `done` says.
TEST_F(InTurnsTest, AProductThatIsAwaitedIsCompleteWhenItsTurnEnds) {
  Make(170);
  places_[2].stage = 1;
  ASSERT_TRUE(InTurns(graph_, solved_, places_, 200));
  places_[1].done = true;
  EXPECT_FALSE(InTurns(graph_, solved_, places_, 200));
  EXPECT_EQ(PeriodInTurns(graph_, solved_, places_), 60 + 170);
}

}  // namespace
}  // namespace tilec::scheduler
