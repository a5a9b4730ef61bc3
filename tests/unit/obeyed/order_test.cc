// Order and stages of a turn beside a schedule: what obeys it raises nothing, what does not is
// said, also of products that share their place in the source.
//
// SPDX-License-Identifier: Apache-2.0
#include "tests/obeyed/order.h"

#include <gtest/gtest.h>

namespace tilec::obeyed {
namespace {

// A schedule of ops at these cycles, 100 a turn: products, but for "mass", which reads the first.
WantedLoop Schedule(const std::vector<std::pair<std::string, int64_t>>& ops) {
  WantedLoop wanted;
  wanted.ii = 100;
  for (const auto& [name, cycle] : ops) {
    Wanted op;
    op.name = name;
    op.cycle = cycle;
    op.product = name != "mass";
    wanted.ops.push_back(op);
  }
  return wanted;
}
// The turn has these ops in this order; stages as they follow from the copies behind the loop.
std::vector<Seen> Turn(const std::vector<std::pair<int, int>>& ops_and_stages) {
  std::vector<Seen> seen;
  for (const auto& [op, stage] : ops_and_stages) {
    Seen s;
    s.op = op;
    s.at = static_cast<double>(seen.size());
    s.stage = stage;
    s.stretch = static_cast<int>(seen.size());
    seen.push_back(s);
  }
  return seen;
}
size_t Faults(const WantedLoop& wanted, const std::vector<Seen>& seen) {
  return CheckOrder(wanted, seen, static_cast<int>(seen.size())).faults.size();
}

TEST(Order, IsTheCyclicOneOfTheSlots) {
  const WantedLoop wanted = Schedule({{"a", 10}, {"b", 130}, {"c", 260}});
  EXPECT_EQ(Faults(wanted, Turn({{0, 0}, {1, 1}, {2, 2}})), 0u);
  // From the cut at 60 c is two turns of the schedule further than b, and a one less.
  EXPECT_EQ(Faults(wanted, Turn({{2, 3}, {0, 0}, {1, 1}})), 0u);
  EXPECT_GT(Faults(wanted, Turn({{2, 2}, {0, 0}, {1, 1}})), 0u);
  EXPECT_GT(Faults(wanted, Turn({{1, 1}, {0, 0}, {2, 2}})), 0u);
  EXPECT_GT(Faults(wanted, Turn({{0, 0}, {1, 1}, {2, 1}})), 0u);
}

// Two slices of one product, which are not told from each other, around one that is alone.
TEST(Order, OfProductsThatAreAlike) {
  const auto turn = [](std::vector<std::pair<int, int>> ops, double mean) {
    std::vector<Seen> seen = Turn(ops);
    for (Seen& s : seen) {
      if (s.op == 2) continue;
      s.stage = -1;
      s.alike = {0, 1};
      s.mean = mean;
    }
    return seen;
  };
  // By slots: s1 at 20, p at 50, s0 at 80 and a stage less than those.
  const WantedLoop wanted = Schedule({{"s0", 80}, {"s1", 120}, {"p", 150}});
  EXPECT_EQ(Faults(wanted, turn({{0, 0}, {2, 1}, {1, 0}}, 0.5)), 0u);
  EXPECT_EQ(Faults(wanted, turn({{1, 0}, {2, 1}, {0, 0}}, 0.5)), 0u);
  EXPECT_GT(Faults(wanted, turn({{0, 0}, {2, 1}, {1, 0}}, 1)), 0u);
  EXPECT_GT(Faults(wanted, turn({{0, 0}, {2, 2}, {1, 0}}, 0.5)), 0u);
  // Both in front of the other product, where one is a stage further: no turn is like that.
  const WantedLoop apart = Schedule({{"s0", 10}, {"s1", 50}, {"p", 30}});
  EXPECT_EQ(Faults(apart, turn({{0, 0}, {2, 0}, {1, 0}}, 0)), 0u);
  EXPECT_GT(Faults(apart, turn({{0, 0}, {1, 0}, {2, 0}}, 0)), 0u);
}

// Threads make "early" for a reduction that was brought forward: it may stand in front of what the
// schedule has before it, and not behind what the schedule has after it.
TEST(Order, WhatGoesAlongWithAReductionIsEarlier) {
  WantedLoop wanted = Schedule({{"first", 5}, {"a", 10}, {"early", 50}, {"b", 90}});
  for (Wanted& op : wanted.ops) op.product = false;
  EXPECT_GT(Faults(wanted, Turn({{0, 0}, {2, 0}, {1, 0}, {3, 0}})), 0u);
  wanted.ops[2].along = 0;
  EXPECT_EQ(Faults(wanted, Turn({{0, 0}, {2, 0}, {1, 0}, {3, 0}})), 0u);
  EXPECT_GT(Faults(wanted, Turn({{0, 0}, {1, 0}, {3, 0}, {2, 0}})), 0u);
  wanted.ops[2].along = 3;  // they meet behind `a`, which it has no reason to overtake
  EXPECT_GT(Faults(wanted, Turn({{0, 0}, {2, 0}, {1, 0}, {3, 0}})), 0u);
}

// Of turns that stand one behind the other (read ahead) the reductions meet at once, and what they
// need goes along: it has no place of its own, what goes nowhere has.
TEST(Order, WhatGoesAlongAcrossTurnsIsInAnyOfThem) {
  WantedLoop wanted = Schedule({{"a", 10}, {"d", 50}, {"b", 90}});
  for (Wanted& op : wanted.ops) op.product = false;
  std::vector<Seen> seen = Turn({{1, 1}, {0, 0}, {2, 0}});
  EXPECT_GT(Faults(wanted, seen), 0u);
  seen[0].any_turn = true;
  EXPECT_EQ(Faults(wanted, seen), 0u);
  std::swap(seen[1].op, seen[2].op);  // b in front of a
  EXPECT_GT(Faults(wanted, seen), 0u);
}

// What a reduction of the last turn needs may be in front of the loop, where that meets another
// one: it is read as of a stage before. Of a later stage it is not.
TEST(Order, WhatMeetsInFrontOfTheLoopIsOfAnEarlierStage) {
  WantedLoop wanted = Schedule({{"a", 10}, {"q", 150}});
  for (Wanted& op : wanted.ops) op.product = false;
  EXPECT_GT(Faults(wanted, Turn({{0, 0}, {1, 0}})), 0u);
  wanted.ops[1].for_meeting = true;
  EXPECT_EQ(Faults(wanted, Turn({{0, 0}, {1, 0}})), 0u);
  EXPECT_GT(Faults(wanted, Turn({{0, 0}, {1, 2}})), 0u);
}

// LLVM computes a carried value in the registers that carry it: what reads the old value is in
// front of that, where the schedule has it behind; what reads another one is not.
TEST(Order, WhatReadsTheOldValueIsAheadOfItsUpdate) {
  WantedLoop wanted = Schedule({{"best", 10}, {"a", 30}, {"cmp", 50}, {"b", 90}});
  for (Wanted& op : wanted.ops) op.product = false;
  wanted.ops[2].reads_old = {0};
  const auto ahead = [&] {
    std::vector<Seen> seen = Turn({{2, 0}, {0, 0}, {1, 0}, {3, 0}});
    seen[1].stretch = seen[0].stretch;  // nothing that others see is between the two
    seen[2].stretch = seen[0].stretch;
    return seen;
  };
  EXPECT_GT(Faults(wanted, ahead()), 0u);
  wanted.ops[0].reads_old = {0};
  EXPECT_EQ(Faults(wanted, ahead()), 1u);  // `a`, which has no part in it
  wanted.ops[1].cycle = 60;
  EXPECT_EQ(Faults(wanted, ahead()), 0u);
  std::vector<Seen> apart = ahead();
  apart[1].stretch = 7;
  EXPECT_GT(Faults(wanted, apart), 0u);
}

}  // namespace
}  // namespace tilec::obeyed
