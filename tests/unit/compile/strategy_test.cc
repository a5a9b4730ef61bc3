// The list of strategies: its order, its end, and which refusals settle which others.
//
// SPDX-License-Identifier: Apache-2.0
#include "compile/strategy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace tilec::compile {
namespace {

TEST(Strategy, ProgramOrderComesLast) {
  for (const bool solve : {true, false}) {
    Wish wish;
    wish.solve = solve;
    const std::vector<Strategy> all = Candidates(wish);
    ASSERT_FALSE(all.empty());
    EXPECT_EQ(all.back().order, Order::kProgram);
    EXPECT_EQ(all.back().shape, Shape::kOnce);
    EXPECT_EQ(all.size() == 1, !solve);
  }
}

TEST(Strategy, AFileIsNeverReplaced) {
  Wish wish;
  wish.from_file = true;
  for (const Strategy& s : Candidates(wish)) EXPECT_EQ(s.order, Order::kSolved) << ToText(s);
}

TEST(Strategy, OneTilePerCtaIsTheLastShapeOfEachOrder) {
  Wish wish;
  wish.split = 4;
  wish.share_copies = true;
  const std::vector<Strategy> all = Candidates(wish);
  EXPECT_EQ(all[0].shape, Shape::kSplit);
  EXPECT_EQ(all[0].ctas, 4);
  EXPECT_EQ(all[1].shape, Shape::kClustered);
  EXPECT_EQ(all[2].shape, Shape::kPersistent);
  for (size_t i = 0; i + 1 < all.size(); ++i) {
    const Strategy &a = all[i], &b = all[i + 1];
    const bool same = a.order == b.order && a.guard_masks == b.guard_masks &&
                      a.withheld_registers == b.withheld_registers;
    EXPECT_EQ(same, a.shape != Shape::kOnce) << ToText(a);
  }
  std::set<std::string> texts;
  for (const Strategy& s : all) EXPECT_TRUE(texts.insert(ToText(s)).second) << ToText(s);
}

TEST(Strategy, TwoWarpgroupsAreSolvedForWhereSumsLeaveTheRegisters) {
  const auto twos = [](const Wish& wish) {
    const std::vector<Strategy> all = Candidates(wish);
    return std::count_if(all.begin(), all.end(), [&](const Strategy& s) {
      EXPECT_TRUE(s.order != Order::kSolvedTwo || s.withheld_registers == wish.lacking);
      return s.order == Order::kSolvedTwo;
    });
  };
  Wish wish;
  EXPECT_EQ(twos(wish), 0);
  wish.lacking = 75;
  EXPECT_EQ(twos(wish), 4);  // CTAs that stay or not, masks guarded or not
  wish.from_file = true;
  EXPECT_EQ(twos(wish), 0);
}

// Results used at once are tried where tiles of several turns did not fit, in front of the rule.
TEST(Strategy, ResultsAreUsedAtOnceWhereSumsLeaveTheRegisters) {
  Wish wish;
  const auto is_close = [](const Strategy& s) { return s.order == Order::kSolvedClose; };
  std::vector<Strategy> all = Candidates(wish);
  EXPECT_EQ(std::count_if(all.begin(), all.end(), is_close), 0);
  wish.lacking = 75;
  all = Candidates(wish);
  EXPECT_EQ(std::count_if(all.begin(), all.end(), is_close), 4);
  const auto first = std::find_if(all.begin(), all.end(), is_close);
  EXPECT_EQ((first - 1)->order, Order::kSolvedTwo);
  EXPECT_EQ((first + 4)->order, Order::kRule);
}

TEST(Strategy, WhatIsNotAskedForIsNotTried) {
  Wish once;
  once.persistent = false;
  for (const Strategy& s : Candidates(once)) EXPECT_EQ(s.shape, Shape::kOnce);
  Wish clusters;
  clusters.clusters = true;
  for (const Strategy& s : Candidates(clusters)) EXPECT_NE(s.shape, Shape::kPersistent);
}

TEST(Refusals, SettleWhatSharesTheirCause) {
  ir::Target machine;
  machine.registers.far_too_many = 24;
  const Strategy persistent = {Shape::kPersistent, 1, Order::kSolved, true, 0};
  Strategy plain = persistent, once = persistent, rule = persistent;
  plain.guard_masks = false;
  once.shape = Shape::kOnce;
  rule.order = Order::kRule;
  Refusal grid{Stage::kShape, Resource::kForm, 0, 0, {}, ""};
  EXPECT_TRUE(SharesCause(persistent, grid, plain, machine));
  EXPECT_TRUE(SharesCause(persistent, grid, rule, machine));
  EXPECT_FALSE(SharesCause(persistent, grid, once, machine));
  const Refusal slots{Stage::kWorth, Resource::kSlots, 3, 2, {}, ""};
  EXPECT_TRUE(SharesCause(persistent, slots, plain, machine));
  EXPECT_FALSE(SharesCause(persistent, slots, rule, machine));
  EXPECT_FALSE(SharesCause(persistent, slots, once, machine));
  const Refusal registers{Stage::kLower, Resource::kRegisters, 264, 240, {}, ""};
  EXPECT_FALSE(SharesCause(persistent, registers, once, machine));  // it keeps fewer
  const Refusal many{Stage::kLower, Resource::kRegisters, 272, 240, {}, ""};
  EXPECT_TRUE(SharesCause(persistent, many, once, machine));  // but not by so many
  EXPECT_TRUE(SharesCause(persistent, many, plain, machine));
  ir::Target other = machine;  // how many are too many is the machine's
  other.registers.far_too_many = 32;
  EXPECT_FALSE(SharesCause(persistent, many, plain, other));
  EXPECT_FALSE(SharesCause(persistent, many, rule, machine));
  Strategy split = persistent, withheld = persistent;
  split.shape = Shape::kSplit, split.ctas = 2;
  withheld.withheld_registers = 16;
  EXPECT_FALSE(SharesCause(split, many, persistent, machine));  // another loop
  EXPECT_FALSE(SharesCause(persistent, many, split, machine));
  EXPECT_FALSE(SharesCause(persistent, many, withheld, machine));
  EXPECT_FALSE(SharesCause(rule, many, {Shape::kOnce, 1, Order::kRule, true, 0}, machine));
  const Refusal file{Stage::kSchedule, Resource::kSchedule, 0, 0, {}, ""};
  EXPECT_TRUE(SharesCause(persistent, file, once, machine));
  // A form that the lowering lacks is of the program, not of the grid.
  grid.stage = Stage::kLower;
  EXPECT_FALSE(SharesCause(persistent, grid, plain, machine));
}

}  // namespace
}  // namespace tilec::compile
