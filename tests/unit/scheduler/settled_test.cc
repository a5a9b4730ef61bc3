// Questions about settled roles, beside exhaustive search; and what a solution rests on where the
// solver is not asked: periods, objectives, refutations that the independent checker accepts.
//
// SPDX-License-Identifier: Apache-2.0
#include "scheduler/settled.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "scheduler/check.h"
#include "scheduler/in_time.h"
#include "scheduler/search.h"
#include "scheduler/to_schedule.h"
#include "tests/unit/scheduler/exhaustive.h"
#include "tests/unit/scheduler/test_graphs.h"

namespace tilec::scheduler {
namespace {

constexpr int64_t kPlenty = 60'000;
// Of an exhaustive search. Three of these graphs want hundreds of times that; nothing refuted them.
constexpr int64_t kMostPlacements = 200'000;

TEST(Settled, PeriodsAreThoseOfExhaustiveSearch) {
  int found = 0, refuted = 0, open = 0, left = 0;
  for (uint64_t seed = 0; seed < 24 && !HasFailure(); ++seed) {
    const Graph graph = RandomGraph(seed + SeedShift(), 5, seed % 2 == 0);
    const Search search(graph, {});
    for (int64_t ii = 1; ii <= 10; ++ii) {
      const std::optional<bool> searched = ExhaustivelyFeasible(graph, ii, kMostPlacements);
      left += !searched;
      if (!searched) break;
      const bool expected = *searched;
      bool all_refuted = true, any = false;
      for (const RoleOffer& offer : search.offers().Largest()) {
        int64_t work = kPlenty;
        const RoleOffer occupied = search.Occupied(offer);
        const SettledReply reply = PlaceSettled({graph, graph, {}, occupied}, ii, 0, false, &work);
        all_refuted = all_refuted && reply.answer == Answer::kUnsat;
        if (reply.answer != Answer::kSat) continue;
        any = true;
        const Search::Found it{reply.placement, occupied, ii};
        EXPECT_TRUE(Check(graph, ToSchedule(graph, {}, it)).violations.empty()) << "seed " << seed;
      }
      EXPECT_FALSE(any && !expected) << "seed " << seed << " II " << ii;
      EXPECT_FALSE(all_refuted && expected) << "seed " << seed << " II " << ii;
      found += any, refuted += all_refuted, open += !any && !all_refuted;
      if (expected) break;
    }
  }
  fmt::print("{} found, {} refuted, {} open, {} graphs left\n", found, refuted, open, left);
  EXPECT_GT(found, 5);
  EXPECT_GT(refuted, 40);
}

TEST(Settled, NothingIsBetterThanTheBest) {
  int reached = 0, refuted = 0;
  for (uint64_t seed = 0; seed < 40 && !HasFailure(); ++seed) {
    const Graph graph = RandomGraph(seed + SeedShift(), 4, seed % 2 == 0);
    int64_t ii = 1;
    while (ii <= 10 && !ExhaustivelyFeasible(graph, ii)) ++ii;
    const std::optional<Objective> best = ExhaustiveObjective(graph, ii);
    if (!best) continue;
    const Search search(graph, {});
    bool unreached = true;
    for (const RoleOffer& offer : search.offers().Ascending()) {
      const auto ask = [&](const SettledQuestion& question) {
        int64_t work = kPlenty;
        return AskSettled({graph, graph, {}, offer}, question, &work).answer;
      };
      if (Offers::WideRoles(offer) != best->compute_groups ||
          Offers::Warps(offer, LoadWarps(graph)) != best->warps)
        continue;
      SettledQuestion question{ii,           best->cross_bytes, best->waits,
                               best->stages, best->smem_bytes,  {}};
      const Answer same = ask(question);
      reached += same == Answer::kSat;
      unreached = unreached && same == Answer::kUnsat;
      question.smem_bytes = best->smem_bytes - 1;
      const Answer smem = ask(question);
      EXPECT_NE(smem, Answer::kSat) << "seed " << seed;
      question.smem_bytes.reset();
      question.stages = best->stages - 1;
      const Answer stages = best->stages > 1 ? ask(question) : Answer::kUnknown;
      EXPECT_NE(stages, Answer::kSat) << "seed " << seed;
      refuted += (smem == Answer::kUnsat) + (stages == Answer::kUnsat);
    }
    EXPECT_FALSE(unreached) << "seed " << seed << " II " << ii;
  }
  fmt::print("{} reached, {} refuted\n", reached, refuted);
  EXPECT_GT(reached, 15);
  EXPECT_GT(refuted, 15);
}

// A solver that has no time to answer anything.
SolveOptions Alone() {
  SolveOptions options;
  options.resource_limit = 1;
  options.total_limit = 80'000'000;
  return options;
}

TEST(Settled, RefutationsNameLawsThatContradictEachOther) {
  int refuted = 0;
  for (uint64_t seed = 0; seed < 160 && !HasFailure(); ++seed) {
    const Graph graph = RandomGraph(seed, 6, false);
    DiagSink diags;
    const Result<Solution> solution = Solve(graph, Alone(), diags);
    if (!solution.ok() || solution->certificate.proof != Proof::kRefuted) continue;
    ++refuted;
    EXPECT_TRUE(ExhaustivelyFeasible(graph, solution->certificate.ii));
    EXPECT_FALSE(ExhaustivelyFeasible(graph, solution->certificate.ii - 1));
    EXPECT_TRUE(VerifyCertificate(graph, solution->schedule, solution->certificate, diags).ok())
        << "seed " << seed << ": " << (diags.all().empty() ? "" : diags.all()[0].message);
  }
  fmt::print("{} refuted\n", refuted);
  EXPECT_GE(refuted, 6);
}

// A recurrence of five ops in a stream that seven others fill: the solver needs a third of a second
// for each period, and the other roles on offer stay empty.
TEST(Settled, AStreamOfOneRoleCostsLittle) {
  const Graph graph = LoadGraph("walk_h200");
  DiagSink diags;
  const Result<Solution> solution = Solve(graph, SolveOptions::ForCompilation(), diags);
  ASSERT_TRUE(solution.ok());
  const Certificate& c = solution->certificate;
  EXPECT_EQ(c.ii, 645);
  EXPECT_EQ(c.proof, Proof::kRefuted);
  EXPECT_EQ(c.objective.stages, 2);
  EXPECT_TRUE(c.objective_proved);
  EXPECT_LT(solution->resources, 600'000);
  EXPECT_TRUE(VerifyCertificate(graph, solution->schedule, c, diags).ok())
      << (diags.all().empty() ? "" : diags.all()[0].message);
}

// One role that is busy to the last cycles, with products, stores and rings: some periods stay open
// without the solver. It is not asked about each of them, and the answer is as good.
TEST(Settled, WhatStaysOpenCostsTheSolverLittle) {
  const Graph graph = LoadGraph("gradient_of_states_h200");
  DiagSink diags;
  const Result<Solution> solution = Solve(graph, SolveOptions::ForCompilation(), diags);
  ASSERT_TRUE(solution.ok());
  EXPECT_LE(solution->certificate.ii, 1482);
  EXPECT_EQ(solution->certificate.objective.stages, 2);
  EXPECT_LT(solution->resources, 700'000);
}

// Each period that was asked for in vain halves what the next may take.
TEST(Settled, PeriodsThatStayOpenTakeLessEachTime) {
  const Graph graph = LoadGraph("gradient_of_states_h200");
  const Search search(graph, SolveOptions::ForCompilation());
  const RoleOffer occupied = search.Occupied(search.offers().Largest().front());
  int64_t before = 0;
  for (const int unplaced : {0, 1, 2, 3}) {
    constexpr int64_t kMuch = 100'000'000;
    int64_t work = kMuch;
    const SolveOptions options = SolveOptions::ForCompilation();
    const SettledReply reply =
        PlaceSettled({graph, graph, options, occupied}, 1478, unplaced, false, &work);
    ASSERT_EQ(reply.answer, Answer::kUnknown);
    const int64_t took = kMuch - work;
    if (unplaced > 0) {
      EXPECT_NEAR(static_cast<double>(took), static_cast<double>(before) / 2, 5'000.0);
    }
    before = took;
  }
}

// A nest, whose period a solver halves its way to through twelve questions: none is asked of it.
TEST(Settled, ANestAsksNoSolver) {
  const Graph graph = LoadGraph("nest_of_gradients_h200");
  DiagSink diags;
  const Result<Solution> solution = Solve(graph, SolveOptions::ForCompilation(), diags);
  ASSERT_TRUE(solution.ok());
  const Certificate& c = solution->certificate;
  EXPECT_EQ(solution->resources, 0);
  EXPECT_GT(solution->first_ii, c.ii);
  EXPECT_EQ(c.ii, 1'286'378);
  EXPECT_EQ(c.proof, Proof::kRefuted);
  EXPECT_TRUE(c.objective_proved);
  EXPECT_EQ(c.objective.slack, 3403);
  EXPECT_TRUE(solution->report.violations.empty());
}

// That a role issues one instruction at a time is a cause where the rest is possible without it,
// and none beside a unit that is busy all the time.
TEST(Settled, CausesNameIssueWhereItCounts) {
  const auto laws = [](const Graph& graph, int64_t ii) {
    const Search search(graph, {});
    std::set<std::string> laws;
    for (const RoleOffer& offer : search.offers().Largest())
      for (const CoreItem& item : SettledCore(graph, {}, offer, ii)) laws.insert(item.law);
    return laws;
  };
  GraphBuilder busy;
  const int tensor = busy.Unit("tensor");
  const int first = busy.Op("a", 2, 8, tensor, 8), second = busy.Op("b", 2, 8, tensor, 8);
  busy.Edge(first, second);
  const std::set<std::string> by_unit = laws(busy.graph, 15);
  EXPECT_EQ(by_unit.count("unit"), 1u);
  EXPECT_EQ(by_unit.count("issue"), 0u);
  EXPECT_TRUE(laws(busy.graph, 16).empty());
  GraphBuilder full;  // carried both ways: one role
  const int a = full.Op("a", 8, 1), b = full.Op("b", 8, 1);
  full.Edge(a, b, EdgeKind::kRegister, 1);
  full.Edge(b, a, EdgeKind::kRegister, 1);
  const std::set<std::string> by_issue = laws(full.graph, 15);
  EXPECT_EQ(by_issue.count("issue"), 1u);
  EXPECT_EQ(by_issue.count("unit"), 0u);
  EXPECT_TRUE(laws(full.graph, 16).empty());
}

// All work whose window lies between two cycles has room there, for every two: what Jackson's order
// is to find out, said without an order.
bool RoomBetweenAll(const std::vector<Job>& jobs) {
  for (const Job& from : jobs)
    for (const Job& to : jobs) {
      int64_t work = 0;
      for (const Job& job : jobs)
        if (job.release >= from.release && job.deadline <= to.deadline) work += job.left;
      if (work > std::max<int64_t>(0, to.deadline - from.release)) return false;
    }
  return true;
}

TEST(InTime, AsManyJobsAsThereIsRoomFor) {
  uint64_t random = 7;
  const auto draw = [&](int64_t most) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    return static_cast<int64_t>((random >> 33) % static_cast<uint64_t>(most));
  };
  int in_time = 0, late = 0;
  std::vector<std::pair<int64_t, size_t>> ready;
  for (int i = 0; i < 4000; ++i) {
    std::vector<Job> jobs;
    for (int64_t n = draw(7); n >= 0; --n) {
      const int64_t release = draw(12), left = 1 + draw(4);
      jobs.push_back({release, release + left + draw(10), left});
    }
    const bool room = RoomBetweenAll(jobs);
    (room ? in_time : late) += 1;
    EXPECT_EQ(InTime(jobs, ready), room) << "draw " << i;
  }
  EXPECT_GT(in_time, 400);
  EXPECT_GT(late, 400);
}

}  // namespace
}  // namespace tilec::scheduler
