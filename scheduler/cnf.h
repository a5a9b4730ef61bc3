// Difference logic as propositional logic, for proofs that anybody can check.
//
// Order encoding: an integer x in [low, high] becomes the Booleans [x >= a]. An atom x − y >= c is
// then implied clause by clause. Every integer needs a finite range: slots have one; for stages the
// caller gives one that is wide enough for some solution, if there is any (StageSpread).
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "scheduler/formula.h"
#include "scheduler/graph.h"

namespace tilec::scheduler {

// Clauses of non-zero literals, ±variable, variables from 1.
struct Cnf {
  int variables = 0;
  std::vector<std::vector<int>> clauses;
};
std::string ToDimacs(const Cnf& cnf);

// The clauses of `formulas` whose guards all lie in `assumed` (a guard is a variable of
// `guards`), the assumptions, and what their atoms mean. range[i] of integer i.
Cnf OrderEncode(const Formulas& formulas, const std::vector<Lit>& guards,
                const std::vector<Lit>& assumed,
                const std::vector<std::pair<int64_t, int64_t>>& range);

// Some schedule, if there is one at this II, keeps all stages this close to each other: where ops
// sorted by time are further apart than any edge can ask for, the later ones may move a period
// earlier; slots stay, and lives only shrink.
int64_t StageSpread(const Graph& graph, int64_t ii);

}  // namespace tilec::scheduler
