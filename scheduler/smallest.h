// The smallest period at which a graph has a schedule: what was found, and what is proved below it.
// Internal to this folder; solve.cc asks, search.h answers about single periods.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "scheduler/graph.h"
#include "scheduler/search.h"

namespace tilec::scheduler {

// Cycles of pinned ops change their slot with the period: nothing is monotone then.
bool CyclesPinned(const Graph& graph);

// What the search over initiation intervals found out.
struct Range {
  std::optional<Search::Found> best;          // smallest feasible
  int64_t proved_below = 0;                   // everything smaller is infeasible
  std::optional<Search::Verdict> refutation;  // at proved_below − 1, where a solver was needed
};

// From `bound` on, in cycles. `first_ii`: the period of the first answer, where there was one.
Range SmallestOf(Search& search, int64_t bound, int64_t* first_ii);

// The bound in few roles, and halves between it and a period that is known as long as they are
// worth it: the bound first, or, where capacities were in the way `before` (it is seldom there
// then), once a half stays open. Two questions that stay open are enough.
Range FindShorter(Search& search, int64_t start, int64_t known, const Search& before);

}  // namespace tilec::scheduler
