// Routes as the checker reads them, without a line of what the search reads them by
// (scheduler/routes.h).
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "ir/schedule.h"
#include "scheduler/graph.h"

namespace tilec::scheduler {

// What a schedule's roles make of a graph: where an edge with a route crosses, the value goes
// through the route's store and load; where none does, there is no such op.
struct Spelled {
  Graph graph;
  std::vector<int> origin;  // by op of the graph spelled out
};
Spelled SpellOut(const Graph& graph, const ir::Schedule& schedule);

}  // namespace tilec::scheduler
