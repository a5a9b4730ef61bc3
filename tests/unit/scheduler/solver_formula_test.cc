// Formulas, their two readers, and proofs: against enumeration.
//
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <random>

#include "scheduler/cnf.h"
#include "scheduler/drat.h"
#include "scheduler/formula.h"
#include "scheduler/solver.h"

namespace tilec::scheduler {
namespace {

constexpr int64_t kLimit = 50'000'000;

TEST(Formulas, EqualAtomsShareAVariableAndNegationsAreTheirOpposite) {
  Formulas f;
  const IntVar x = f.NewInt(), y = f.NewInt();
  EXPECT_EQ(f.AtLeast(x, y, 3), f.AtLeast(x, y, 3));
  // x − y >= 3 is the opposite of y − x >= −2.
  EXPECT_EQ(f.AtLeast(x, y, 3), ~f.AtLeast(y, x, -2));
  EXPECT_EQ(f.AtLeast(x, x, 0), f.True());
  EXPECT_EQ(f.AtLeast(x, x, 1), f.False());
}

TEST(Formulas, WeightedSumsAdmitExactlyTheAssignmentsWithinTheBound) {
  std::mt19937 random(7);
  for (int round = 0; round < 30; ++round) {
    Formulas f;
    std::vector<std::pair<Lit, int64_t>> terms;
    for (int i = 0; i < 6; ++i)
      terms.emplace_back(i % 3 == 2 ? ~f.NewBool() : f.NewBool(), 2 * (random() % 6));
    terms.emplace_back(f.True(), 2);
    const Lit guard = f.NewBool();
    const int64_t bound = random() % 30;
    f.AddWeighted(guard, terms, bound);
    Solver solver(f);
    for (int bits = 0; bits < 64; ++bits) {
      std::vector<Lit> given = {guard};
      int64_t sum = 2;
      for (int i = 0; i < 6; ++i) {
        const bool on = (bits >> i & 1) != 0;
        given.push_back(on ? terms[i].first : ~terms[i].first);
        if (on) sum += terms[i].second;
      }
      EXPECT_EQ(solver.Check(given, kLimit), sum <= bound ? Answer::kSat : Answer::kUnsat);
    }
  }
}

TEST(Solver, CoresNameTheAssumptionsThatAreNeeded) {
  Formulas f;
  const IntVar x = f.NewInt(), y = f.NewInt();
  const Lit a = f.NewBool(), b = f.NewBool(), idle = f.NewBool();
  f.Add(a, {f.AtLeast(x, y, 1)});
  f.Add(b, {f.AtLeast(y, x, 0)});
  f.Add(idle, {f.AtLeast(x, Formulas::Zero(), 5)});
  Solver solver(f);
  ASSERT_EQ(solver.Check({idle, a, b}, kLimit), Answer::kUnsat);
  EXPECT_EQ(solver.core(), (std::vector<Lit>{a, b}));
  ASSERT_EQ(solver.Check({idle, a}, kLimit), Answer::kSat);
  EXPECT_GE(solver.Value(x) - solver.Value(y), 1);
  EXPECT_GE(solver.Value(x), 5);
}

TEST(Solver, WithoutBudgetTheAnswerIsUnknown) {
  // Pigeons: 9 ops of 10 cycles in a period of 89.
  Formulas f;
  std::vector<IntVar> slot;
  for (int i = 0; i < 9; ++i) {
    slot.push_back(f.NewInt());
    f.Add({f.AtLeast(slot[i], Formulas::Zero(), 0)});
    f.Add({f.AtMost(slot[i], Formulas::Zero(), 79)});
    for (int j = 0; j < i; ++j)
      f.Add({f.AtLeast(slot[i], slot[j], 10), f.AtLeast(slot[j], slot[i], 10)});
  }
  Solver solver(f);
  EXPECT_EQ(solver.Check({}, 1000), Answer::kUnknown);
}

TEST(OrderEncoding, AgreesWithTheSolverOnRandomDifferences) {
  std::mt19937 random(11);
  int sat = 0, unsat = 0;
  for (int round = 0; round < 200; ++round) {
    Formulas f;
    std::vector<IntVar> vars = {Formulas::Zero()};
    std::vector<std::pair<int64_t, int64_t>> range = {{0, 0}};
    for (int i = 0; i < 3; ++i) {
      vars.push_back(f.NewInt());
      range.emplace_back(-2, 4);
      f.Add({f.AtLeast(vars.back(), Formulas::Zero(), -2)});
      f.Add({f.AtMost(vars.back(), Formulas::Zero(), 4)});
    }
    const Lit guard = f.NewBool(), off = f.NewBool();
    for (int i = 0; i < 9; ++i) {
      Clause clause;
      for (int j = 0; j < 2; ++j) {
        const Lit atom = f.AtLeast(vars[random() % 4], vars[random() % 4],
                                   static_cast<int64_t>(random() % 9) - 3);
        clause.push_back(random() % 2 == 0 ? atom : ~atom);
      }
      f.Add(guard, clause);
    }
    f.Add(off, {});
    Solver solver(f);
    const Answer expected = solver.Check({guard}, kLimit);
    const Cnf cnf = OrderEncode(f, {guard, off}, {guard}, range);
    std::string proof;
    const SatAnswer answer = SolveWithProof(cnf, 100000, &proof);
    if (expected == Answer::kSat) {
      ++sat;
      EXPECT_EQ(answer, SatAnswer::kSat);
    } else {
      ++unsat;
      ASSERT_EQ(answer, SatAnswer::kUnsat);
      EXPECT_TRUE(CheckDrat(cnf, proof).accepted);
    }
  }
  EXPECT_GT(sat, 20);
  EXPECT_GT(unsat, 20);
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
  std::string proof;
  ASSERT_EQ(SolveWithProof(cnf, 100000, &proof), SatAnswer::kUnsat);
  EXPECT_TRUE(CheckDrat(cnf, proof).accepted);
  EXPECT_FALSE(CheckDrat(cnf, "0\n").accepted);           // the empty clause out of nowhere
  EXPECT_FALSE(CheckDrat(cnf, "").accepted);              // no proof at all
  EXPECT_FALSE(CheckDrat(cnf, "1 2 x 0\n0\n").accepted);  // not a proof
  EXPECT_FALSE(CheckDrat(cnf, "1 2 3").accepted);
  // The same proof says nothing about a satisfiable formula.
  EXPECT_FALSE(CheckDrat(Pigeons(5, 5), proof).accepted);
}

TEST(Drat, ResolutionLemmasOnFreshLiteralsAreFineButOnlyThose) {
  Cnf cnf;
  cnf.variables = 2;
  cnf.clauses = {{1, 2}};
  // {3} resolves with nothing: accepted as a lemma, though no proof follows.
  EXPECT_EQ(CheckDrat(cnf, "3 0\n").problem, "the proof ends without the empty clause");
  // {−1} resolves with {1, 2} on −1: the resolvent {2} does not follow.
  EXPECT_NE(CheckDrat(cnf, "-1 0\n").problem.find("does not follow"), std::string::npos);
}

}  // namespace
}  // namespace tilec::scheduler
