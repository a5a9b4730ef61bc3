// Propositional proofs: made by a SAT solver, checked by a few lines that contain none.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "scheduler/cnf.h"

namespace tilec::scheduler {

struct DratCheck {
  bool accepted = false;
  std::string problem;  // empty where accepted
  int64_t lemmas = 0, deletions = 0, propagations = 0;
};

// Whether `proof` (DRAT, text) derives the empty clause from `cnf`. Every lemma must follow by
// reverse unit propagation, or be a resolution asymmetric tautology on its first literal.
DratCheck CheckDrat(const Cnf& cnf, std::string_view proof);

enum class SatAnswer { kSat, kUnsat, kUnknown };
// Solves, and leaves a proof where the answer is kUnsat. Bounded by conflicts, never by time.
SatAnswer SolveWithProof(const Cnf& cnf, int64_t conflict_limit, std::string* proof);

}  // namespace tilec::scheduler
