// Formulas of difference logic as plain data: Boolean variables, integer variables, atoms
// x − y >= c, clauses. The model (scheduler/model.h) writes them, a solver (scheduler/solver.h)
// or a Boolean encoding (scheduler/order_encoding.h) reads them; neither knows the other.
//
// A clause carries the assumption that guards it: it holds only where the guard is assumed, so that
// a refutation names the guards it needs. Formulas only grow; readers remember how far they read.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

namespace tilec::scheduler {

// A literal: variable v is 2v, its negation 2v + 1.
struct Lit {
  int code = -1;
  int var() const { return code >> 1; }
  bool negated() const { return (code & 1) != 0; }
  Lit operator~() const { return Lit{code ^ 1}; }
  bool operator==(const Lit&) const = default;
  bool operator<(const Lit& other) const { return code < other.code; }
};

using Clause = std::vector<Lit>;

// Integer variable; index 0 is the constant zero.
struct IntVar {
  int index = 0;
  bool operator==(const IntVar&) const = default;
};

// The atom that a Boolean variable stands for (x < 0: none, a plain Boolean).
struct Atom {
  int x = -1, y = -1;
  int64_t c = 0;
  bool is_difference() const { return x >= 0; }
};

class Formulas {
 public:
  Formulas();

  Lit NewBool();
  IntVar NewInt();
  static IntVar Zero() { return IntVar{0}; }
  Lit True() const { return true_; }
  Lit False() const { return ~true_; }

  // The literal of x − y >= c. Equal atoms share a variable; x − y < c is its negation.
  Lit AtLeast(IntVar x, IntVar y, int64_t c);
  Lit AtMost(IntVar x, IntVar y, int64_t c) { return AtLeast(y, x, -c); }

  // Simplified against True/False; tautologies vanish.
  void Add(Clause clause);
  // guard → clause.
  void Add(Lit guard, Clause clause);
  // Σ weight·literal <= bound under the guard, by a decision diagram: pure clauses, arc-consistent.
  void AddWeighted(Lit guard, std::vector<std::pair<Lit, int64_t>> terms, int64_t bound);

  int num_bools() const { return static_cast<int>(atoms_.size()); }
  int num_ints() const { return num_ints_; }
  const std::vector<Atom>& atoms() const { return atoms_; }
  const std::vector<Clause>& clauses() const { return clauses_; }

 private:
  Lit true_;
  int num_ints_ = 1;
  std::vector<Atom> atoms_;
  std::vector<Clause> clauses_;
  std::map<std::tuple<int, int, int64_t>, int> atom_index_;
};

}  // namespace tilec::scheduler
