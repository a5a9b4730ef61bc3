// Successive halving: who is left out when, who wins, and what it costs.
//
// SPDX-License-Identifier: Apache-2.0
#include "api/halving.h"

#include <gtest/gtest.h>

#include <map>

namespace tilec::api {
namespace {

// Candidates that take what they take, each launch a tenth of a millisecond more or less.
struct Field {
  std::vector<double> ms;
  std::vector<size_t> asked;
  std::map<size_t, int> turns;
  Halved Run(size_t kept, HalvingOptions options, std::vector<int>* rounds = nullptr) {
    return Halve(
        ms.size(), kept, options,
        [&](size_t i, double slice) {
          asked.push_back(i);
          ++turns[i];
          const double launches = ms[i] > 0 ? std::max(1.0, slice / ms[i]) : 0;
          return Timed{ms[i], launches * ms[i]};
        },
        [&](int round) {
          if (rounds) rounds->push_back(round);
        });
  }
};

std::vector<size_t> Names(const Halved& h) {
  std::vector<size_t> out;
  for (const Standing& s : h.order) out.push_back(s.candidate);
  return out;
}

TEST(Halving, LeavesOutTheSlowerHalfUntilTwoAreTimed) {
  Field field{{1.0, 5, 0.8, 4, 0.9, 3, 2, 6}, {}, {}};
  std::vector<int> rounds;
  const Halved h = field.Run(0, {2, 3}, &rounds);
  // 8, then 2 4 0 6, then 2 4 and the one that is kept, then 2 and 0.
  EXPECT_EQ(rounds, (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(Names(h), (std::vector<size_t>{2, 0, 4, 6, 5, 3, 1, 7}));
  EXPECT_EQ(field.turns[2], 4 * 3);
  EXPECT_EQ(field.turns[0], 4 * 3);
  EXPECT_EQ(field.turns[4], 3 * 3);
  EXPECT_EQ(field.turns[6], 2 * 3);
  EXPECT_EQ(field.turns[7], 3);
  EXPECT_TRUE(h.complete);
  EXPECT_EQ(h.order[0].ms, 0.8);
  EXPECT_EQ(h.order[7].rounds, 1);
}

TEST(Halving, TurnsGoThereAndBack) {
  Field field{{1, 2, 3}, {}, {}};
  (void)field.Run(0, {1, 2});
  EXPECT_EQ(std::vector<size_t>(field.asked.begin(), field.asked.begin() + 6),
            (std::vector<size_t>{0, 1, 2, 2, 1, 0}));
}

TEST(Halving, WhoIsKeptIsMeasuredToTheEnd) {
  Field field{{9, 1, 2, 3}, {}, {}};
  const Halved h = field.Run(0, {1, 3});
  EXPECT_EQ(Names(h)[0], 1u);
  EXPECT_EQ(Names(h)[1], 0u);
  EXPECT_EQ(field.turns[0], field.turns[1]);
}

TEST(Halving, WhatCannotBeTimedIsLeftOut) {
  Field field{{2, 0, 1, 0}, {}, {}};
  const Halved h = field.Run(0, {1, 3});
  EXPECT_EQ(Names(h)[0], 2u);
  EXPECT_EQ(h.order[2].ms, 0);
  EXPECT_EQ(h.order[3].ms, 0);
  EXPECT_EQ(field.turns[1], 3);
}

TEST(Halving, TheSecondsEndItAndTheFirstTurnIsTaken) {
  Field field{{100, 50, 70, 60}, {}, {}};
  const Halved h = field.Run(0, {0.01, 5});  // one turn takes 280 ms
  EXPECT_FALSE(h.complete);
  EXPECT_EQ(field.asked.size(), 4u);
  EXPECT_EQ(Names(h), (std::vector<size_t>{1, 3, 2, 0}));
}

TEST(Halving, TakesAboutTheSecondsItIsGiven) {
  Field field{{}, {}, {}};
  for (int i = 0; i < 16; ++i) field.ms.push_back(0.02 + 0.001 * i);
  const Halved h = field.Run(0, {1, 5});
  EXPECT_TRUE(h.complete);
  EXPECT_GT(h.spent_ms, 500);
  EXPECT_LE(h.spent_ms, 1000);
}

TEST(Halving, OneAloneIsNotTimed) {
  Field field{{1}, {}, {}};
  EXPECT_EQ(Names(field.Run(0, {1, 5})), std::vector<size_t>{0});
  EXPECT_TRUE(field.asked.empty());
}

}  // namespace
}  // namespace tilec::api
