// More than one good answer: costs are estimates, so who can measure may want to choose. Answers
// differ in which ops share a role or in the order on a unit of one instance, not by cycles alone.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "scheduler/scheduler.h"

namespace tilec::scheduler {

struct Alternative {
  ir::Schedule schedule;
  Objective objective;
  bool proved = false;  // nothing else distinct from those before it is better, in as many roles
};

// The solution itself, then up to k − 1 more with its number of roles and its II, best first by the
// objective. Every one is judged. Fewer where there are no more, or none within the budget.
std::vector<Alternative> TopSolutions(const Graph& graph, const Solution& first, int k,
                                      const SolveOptions& options);

// "II 2048, 2 wide roles, 9 warps, 131072 bytes across roles, 4 waits, 3 stages, 98304 bytes of
// shared memory"
std::string Describe(const Alternative& alternative);

}  // namespace tilec::scheduler
