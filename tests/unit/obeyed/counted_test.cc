// Turns that stand one behind the other in a loop, and where an op of theirs stands of which some
// turns have less than others.
//
// SPDX-License-Identifier: Apache-2.0
#include "tests/obeyed/counted.h"

#include <gtest/gtest.h>

namespace tilec::obeyed {
namespace {

using Places = std::vector<std::vector<size_t>>;

// `a` of two instructions and `b` of one, in three turns of ten.
const std::vector<size_t> kA = {0, 1, 10, 11, 20, 21}, kB = {5, 15, 25};

TEST(TurnsTogether, AreAsManyAsMostOpsHavePlaces) {
  EXPECT_EQ(TurnsTogether({kA, kB}), 3u);
  EXPECT_EQ(TurnsTogether({kA, kB, {7}}), 3u);
  EXPECT_EQ(TurnsTogether({{0, 1, 2, 3}, {5, 6, 7}}), 1u);
  EXPECT_EQ(TurnsTogether({}), 1u);
  EXPECT_EQ(TurnsTogether({{}, {}}), 1u);
}

TEST(MiddleOf, IsTheMiddleOneOfAllWhereTurnsAreAlike) {
  EXPECT_EQ(MiddleOf(kA, 3), 11u);
  EXPECT_EQ(MiddleOf(kB, 3), 15u);
  EXPECT_EQ(MiddleOf({3, 4, 5, 9}, 1), 5u);
}

// In the last turn it has twice as many, as a multiplication whose sum is behind the loop.
TEST(MiddleOf, IsInTheMiddleTurnWhereTurnsDiffer) {
  const std::vector<size_t> five = {2, 3, 12, 13, 22, 23, 32, 33, 42, 43, 44, 45};
  EXPECT_EQ(MiddleOf(five, 1), 32u);  // the fourth
  EXPECT_EQ(MiddleOf(five, 5), 23u);
  const std::vector<size_t> two = {2, 12, 13, 14, 15};
  EXPECT_EQ(MiddleOf(two, 2), 12u);  // as an op that is whole: the first one of the second
}

TEST(MiddleOf, IsTheMiddleOneOfAllWhereTurnsAreNotTold) {
  EXPECT_EQ(MiddleOf({2, 4, 6, 8, 10}, 3), 6u);  // no gap is wider
  EXPECT_EQ(MiddleOf({2, 30}, 5), 30u);          // fewer than turns
}

}  // namespace
}  // namespace tilec::obeyed
