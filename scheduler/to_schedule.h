// A placement that a search found as the schedule that people and the backend read, and back.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/schedule.h"
#include "scheduler/search.h"

namespace tilec::scheduler {

// Placement → schedule: names, quotas, channels, order edges.
ir::Schedule ToSchedule(const Graph& graph, const SolveOptions& options,
                        const Search::Found& found);
// And back. Every op of the graph has its place in the schedule.
Search::Found FoundOf(const Graph& graph, const ir::Schedule& schedule);

}  // namespace tilec::scheduler
