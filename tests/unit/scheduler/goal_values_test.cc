// Values of a goal beside all sums written out.
//
// SPDX-License-Identifier: Apache-2.0
#include "scheduler/goal_values.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace tilec::scheduler {
namespace {

TEST(GoalValues, AreAllSums) {
  std::mt19937 random(301);
  const auto pick = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  for (int round = 0; round < 200; ++round) {
    const int64_t least = pick(0, 50);
    std::vector<std::pair<int64_t, int>> parts;
    std::set<int64_t> sums = {least};
    for (int i = pick(0, 3); i > 0; --i) {
      parts.emplace_back(pick(1, 40), pick(0, 3));
      for (int one = 0; one < parts.back().second; ++one) {
        const std::set<int64_t> before = sums;
        for (int64_t sum : before) sums.insert(sum + parts.back().first);
      }
    }
    const GoalValues values(least, parts);
    int64_t below = -1;
    for (int64_t bound = 0; bound < 200; ++bound) {
      if (sums.count(bound) > 0) below = bound;
      if (below < 0)
        EXPECT_LT(values.AtMost(bound), 0);
      else
        EXPECT_EQ(values.AtMost(bound), below) << "round " << round;
    }
  }
}

TEST(GoalValues, OfTooManyEveryBoundStands) {
  std::vector<std::pair<int64_t, int>> parts;
  for (int64_t size = 1; size < 1 << 12; size *= 2) parts.emplace_back(3 * size, 1);
  EXPECT_EQ(GoalValues(0, parts).AtMost(100), 100);
  EXPECT_EQ(GoalValues(0, {{3, 40}}).AtMost(100), 99);
  EXPECT_EQ(GoalValues().AtMost(100), 100);
}

}  // namespace
}  // namespace tilec::scheduler
