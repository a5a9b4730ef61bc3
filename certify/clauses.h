// Clauses, and integers written as clauses: what a refutation is checked against.
//
// A literal is ±variable; variable 1 is true. An integer x in [low, high] is in the order encoding:
// one variable [x >= a] for each a in (low, high], each implied by the next. A literal of
// x − y >= c is only ever needed true, so one direction of its meaning is written down.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace tilec::certify {

using Lit = int;
constexpr Lit kTrue = 1, kFalse = -1;

struct Cnf {
  int variables = 0;
  std::vector<std::vector<Lit>> clauses;
};
// DIMACS, as SAT solvers and proof checkers read it.
std::string ToDimacs(const Cnf& cnf);

class Clauses {
 public:
  Clauses() { cnf_.clauses.push_back({NewBool()}); }

  Lit NewBool() { return ++cnf_.variables; }
  // An integer in [low, high], by number; low <= high.
  int NewInt(int64_t low, int64_t high);
  // A literal that implies x − y >= c.
  Lit Difference(int x, int y, int64_t c);
  // Without literals that are false; nothing where one is true.
  void Add(const std::vector<Lit>& clause);
  // Σ weight·literal <= bound unless `unless`; weights >= 0.
  void AtMost(Lit unless, std::vector<std::pair<Lit, int64_t>> terms, int64_t bound);

  // The value of an integer in an assignment (by variable).
  int64_t Value(int x, const std::vector<bool>& assignment) const;
  const Cnf& cnf() const { return cnf_; }
  // More was asked for than memory should hold; then the clauses are not all there.
  bool too_large() const { return too_large_; }

 private:
  struct Integer {
    int64_t low, high;
    int first = 0;  // variable of [x >= low + 1]; 0: not written down yet
  };
  Lit AtLeast(int x, int64_t a);

  // Whether so much more may be written down.
  bool Room(int64_t clauses);

  Cnf cnf_;
  bool too_large_ = false;
  std::vector<Integer> ints_;
  std::map<std::tuple<int, int, int64_t>, Lit> differences_;
};

}  // namespace tilec::certify
