// Divisions of a graph's ops among roles that are worth trying first, without any search over
// cycles: everything together, one role per row slice, one per part that registers hold together,
// and what merging the best connected parts step by step gives.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "scheduler/scheduler.h"
#include "scheduler/search.h"

namespace tilec::scheduler {

struct RoleGuess {
  RoleOffer offer;
  std::vector<int> group;  // by op
  int64_t least_ii = 1;    // no schedule with these roles has a smaller one
  Objective objective;     // as far as roles decide it: stages and shared memory are 0
};

// Best objective first; legal as far as widths, warps, carried registers, fixed edges and role pins
// go. `comfortable`: an initiation interval whose issue slots merged roles should not exceed.
std::vector<RoleGuess> GuessRoles(const Graph& graph, const SolveOptions& options,
                                  int64_t comfortable);

}  // namespace tilec::scheduler
