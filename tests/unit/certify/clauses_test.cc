// Clauses, integers in them, sums and proofs: against enumeration.
//
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <random>

#include "certify/clauses.h"
#include "certify/drat.h"
#include "scheduler/sat_solver.h"

namespace tilec::certify {
namespace {

using scheduler::SatAnswer;
using scheduler::SatResult;
using scheduler::SolveClauses;

// Three integers in −2…4, random clauses of two differences: feasible exactly if some assignment of
// the integers is; a refutation has a proof that is accepted.
TEST(Clauses, DifferencesMeanWhatTheySay) {
  std::mt19937 random(11);
  int sat = 0, unsat = 0;
  for (int round = 0; round < 300; ++round) {
    struct Atom {
      int x, y;
      int64_t c;
    };
    std::vector<std::pair<Atom, Atom>> formula;
    Clauses clauses;
    for (int i = 0; i < 3; ++i) clauses.NewInt(-2, 4);
    for (int i = 0; i < 10; ++i) {
      auto atom = [&] {
        const Atom a{static_cast<int>(random() % 3), static_cast<int>(random() % 3),
                     static_cast<int64_t>(random() % 11) - 4};
        return a;
      };
      formula.emplace_back(atom(), atom());
      const auto& [a, b] = formula.back();
      clauses.Add({clauses.Difference(a.x, a.y, a.c), clauses.Difference(b.x, b.y, b.c)});
    }
    bool feasible = false;
    int64_t value[3];
    auto holds = [&](const Atom& a) { return value[a.x] - value[a.y] >= a.c; };
    for (value[0] = -2; value[0] <= 4; ++value[0])
      for (value[1] = -2; value[1] <= 4; ++value[1])
        for (value[2] = -2; value[2] <= 4; ++value[2])
          feasible = feasible || std::all_of(formula.begin(), formula.end(), [&](const auto& two) {
                       return holds(two.first) || holds(two.second);
                     });
    const SatResult result = SolveClauses(clauses.cnf(), 100000);
    ASSERT_EQ(result.answer, feasible ? SatAnswer::kSat : SatAnswer::kUnsat) << "round " << round;
    if (!feasible) {
      ++unsat;
      EXPECT_TRUE(CheckDrat(clauses.cnf(), result.drat).accepted) << "round " << round;
      continue;
    }
    ++sat;
    for (int i = 0; i < 3; ++i) value[i] = clauses.Value(i, result.assignment);
    for (const auto& [a, b] : formula) EXPECT_TRUE(holds(a) || holds(b)) << "round " << round;
  }
  EXPECT_GT(sat, 30);
  EXPECT_GT(unsat, 30);
}

TEST(Clauses, SumsAdmitWhatIsWithinTheBound) {
  std::mt19937 random(5);
  for (int round = 0; round < 40; ++round) {
    std::vector<int64_t> weights(5);
    for (int64_t& w : weights) w = static_cast<int64_t>(random() % 7);
    const int64_t bound = static_cast<int64_t>(random() % 16);
    for (int chosen = 0; chosen < 32; ++chosen) {
      Clauses clauses;
      std::vector<std::pair<Lit, int64_t>> terms;
      int64_t sum = 0;
      for (int i = 0; i < 5; ++i) {
        terms.emplace_back(clauses.NewBool(), weights[i]);
        clauses.Add({(chosen >> i & 1) != 0 ? terms[i].first : -terms[i].first});
        sum += (chosen >> i & 1) != 0 ? weights[i] : 0;
      }
      clauses.AtMost(kFalse, terms, bound);
      EXPECT_EQ(SolveClauses(clauses.cnf(), 1000).answer,
                sum <= bound ? SatAnswer::kSat : SatAnswer::kUnsat);
    }
  }
}

TEST(Clauses, WhatMemoryShouldNotHoldIsSaidNotTried) {
  Clauses clauses;
  const int x = clauses.NewInt(0, int64_t{1} << 40), y = clauses.NewInt(0, int64_t{1} << 40);
  clauses.Add({clauses.Difference(x, y, 5)});
  EXPECT_TRUE(clauses.too_large());
}

Cnf Pigeons(int pigeons, int holes) {
  Cnf cnf;
  cnf.variables = pigeons * holes;
  auto in = [&](int p, int h) { return p * holes + h + 1; };
  for (int p = 0; p < pigeons; ++p) {
    std::vector<int> somewhere;
    for (int h = 0; h < holes; ++h) somewhere.push_back(in(p, h));
    cnf.clauses.push_back(somewhere);
    for (int q = 0; q < p; ++q)
      for (int h = 0; h < holes; ++h) cnf.clauses.push_back({-in(p, h), -in(q, h)});
  }
  return cnf;
}

TEST(Drat, AcceptsARealProofAndRejectsForgeries) {
  const Cnf cnf = Pigeons(6, 5);
  const SatResult result = SolveClauses(cnf, 100000);
  ASSERT_EQ(result.answer, SatAnswer::kUnsat);
  EXPECT_TRUE(CheckDrat(cnf, result.drat).accepted);
  EXPECT_FALSE(CheckDrat(cnf, "0\n").accepted);           // the empty clause out of nowhere
  EXPECT_FALSE(CheckDrat(cnf, "").accepted);              // no proof at all
  EXPECT_FALSE(CheckDrat(cnf, "1 2 x 0\n0\n").accepted);  // not a proof
  EXPECT_FALSE(CheckDrat(cnf, "1 2 3").accepted);
  EXPECT_FALSE(CheckDrat(cnf, "2147483647 0\n").accepted);  // a variable that is not there
  // The same proof says nothing about a satisfiable formula.
  EXPECT_FALSE(CheckDrat(Pigeons(5, 5), result.drat).accepted);
}

TEST(Drat, ResolutionLemmasOnFreshLiteralsAreFineButOnlyThose) {
  Cnf cnf;
  cnf.variables = 3;
  cnf.clauses = {{1, 2}};
  // {3} resolves with nothing: accepted as a lemma, though no proof follows.
  EXPECT_EQ(CheckDrat(cnf, "3 0\n").problem, "the proof ends without the empty clause");
  // {−1} resolves with {1, 2} on −1: the resolvent {2} does not follow.
  EXPECT_NE(CheckDrat(cnf, "-1 0\n").problem.find("does not follow"), std::string::npos);
}

}  // namespace
}  // namespace tilec::certify
