// A SAT solver that leaves proofs. The only door to it: its header ends in sat_solver.cc. Bounded
// by conflicts, never by time.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "certify/clauses.h"

namespace tilec::scheduler {

enum class SatAnswer { kSat, kUnsat, kUnknown };
struct SatResult {
  SatAnswer answer = SatAnswer::kUnknown;
  std::vector<bool> assignment;  // kSat: by variable, from 1
  std::string drat;              // kUnsat: a proof in text
};
SatResult SolveClauses(const certify::Cnf& cnf, int64_t conflict_limit);

}  // namespace tilec::scheduler
