// Formulas and the solver that reads them: against enumeration.
//
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <random>

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

}  // namespace
}  // namespace tilec::scheduler
