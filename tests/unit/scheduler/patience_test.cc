// A question that is given up early is charged as if it had been asked to its limit, and where all
// questions are answered in time, patience changes nothing.
//
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "scheduler/search.h"
#include "tests/unit/scheduler/exhaustive.h"
#include "tests/unit/scheduler/test_graphs.h"

namespace tilec::scheduler {
namespace {

TEST(Patience, WhatIsGivenUpIsCharged) {
  const Graph graph = LoadGraph("attention_backward_blackwell");
  constexpr int64_t kLimit = 400'000;
  SolveOptions options;
  options.total_limit = 3 * kLimit;
  options.resource_limit = 4 * kLimit;
  ASSERT_EQ(PatienceOf(options), 3 * kLimit / 10);
  Search search(graph, options);
  search.Hurry(true);
  ASSERT_TRUE(OnlySums(graph));
  const int64_t ii = search.LowerBound().ii;  // refuted, by millions of units
  ASSERT_EQ(search.At(ii, kLimit).answer, Answer::kUnknown);
  const std::shared_ptr<Session> session = search.SessionFor(ii, search.offers().Largest().front());
  EXPECT_GE(session->resources(), kLimit);
  // A check goes a little over its limit.
  EXPECT_LT(session->solver.resources(), kLimit * 2 / 3);
  EXPECT_EQ(search.Limit(3 * kLimit), 3 * kLimit - search.resources());
  EXPECT_GT(search.Limit(kLimit), 0);
}

TEST(Patience, AnswersInTimeAreTheSame) {
  int answers = 0;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const Graph graph = RandomGraph(seed, 6, seed % 2 == 0);
    SolveOptions patient = SolveOptions::ForCompilation();
    patient.resource_limit = patient.total_limit;
    ASSERT_EQ(PatienceOf(patient), INT64_MAX);
    const SolveOptions hasty = SolveOptions::ForCompilation();
    ASSERT_EQ(PatienceOf(hasty), hasty.total_limit / 10);
    DiagSink a, b;
    const Result<Solution> slow = Solve(graph, patient, a), fast = Solve(graph, hasty, b);
    ASSERT_EQ(slow.ok(), fast.ok()) << seed;
    if (!slow.ok()) continue;
    ++answers;
    EXPECT_EQ(ir::ToText(slow->schedule), ir::ToText(fast->schedule)) << seed;
    EXPECT_EQ(ToText(slow->certificate), ToText(fast->certificate)) << seed;
    EXPECT_EQ(slow->resources, fast->resources) << seed;
  }
  EXPECT_GT(answers, 20);
}

}  // namespace
}  // namespace tilec::scheduler
