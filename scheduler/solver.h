// A solver of Formulas. The only door to Z3: its header, its exceptions and its limits end here.
//
// Bounded by resource counts, never by wall time: the same formulas and seed give the same answer
// on every machine. kUnknown means what it says.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "scheduler/formula.h"

namespace tilec::scheduler {

enum class Answer { kSat, kUnsat, kUnknown };

class Solver {
 public:
  // Reads `formulas` now and whatever is added to them before each Check.
  explicit Solver(const Formulas& formulas, unsigned seed = 1);
  ~Solver();
  Solver(const Solver&) = delete;
  Solver& operator=(const Solver&) = delete;

  Answer Check(const std::vector<Lit>& assumptions, int64_t resource_limit);
  // After kSat.
  bool Value(Lit lit) const;
  int64_t Value(IntVar var) const;
  // After kUnsat: the assumptions used, in the order they were given.
  const std::vector<Lit>& core() const;
  // Resource units spent by all checks so far.
  int64_t resources() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// "4.8.12", for certificates.
std::string SolverVersion();

}  // namespace tilec::scheduler
