// Propositional proofs: made by some SAT solver, checked by a few lines that contain none.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "certify/clauses.h"

namespace tilec::certify {

struct DratCheck {
  bool accepted = false;
  std::string problem;  // empty where accepted
  int64_t lemmas = 0, deletions = 0, propagations = 0;
};

// Whether `proof` (DRAT, text) derives the empty clause from `cnf`. Every lemma must follow by
// reverse unit propagation, or be a resolution asymmetric tautology on its first literal. Lemmas
// speak of the variables of `cnf` only.
DratCheck CheckDrat(const Cnf& cnf, std::string_view proof);

}  // namespace tilec::certify
