// A schedule in the turns that the lowering makes of it.
//
// A solved schedule places ops on a circle of II cycles. A program has turns: each role's begin
// somewhere on that circle, and what ptxas keeps in registers may not be under way when one ends
// (ir/loop_plan.h). So readers of a product's result run in its own turn, although the schedule has
// them early in the next. Where that fits, it costs nothing, and the schedule that says so is the
// one that runs: the same II, the same roles and rings, cycles that the program obeys.
//
// Not a search: the order is the lowering's. Cycles are the least that data, the roles' order and
// the ends of turns allow, at or behind those that were solved; the judge of schedules accepts them
// or they are not taken.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ir/schedule.h"
#include "scheduler/graph.h"

namespace tilec::scheduler {

// Where the lowering runs an op of the graph.
struct TurnPlace {
  int role = -1;      // of the schedule; −1: it has no place of its own, and keeps its cycle
  int stage = 0;      // in turn i it works for iteration i − stage
  int64_t rank = 0;   // in the role's order
  bool done = false;  // a product that is complete when its turn ends
};

// `places`: by op of the graph. nullopt: not at this II.
std::optional<ir::Schedule> InTurns(const Graph& graph, const ir::Schedule& solved,
                                    const std::vector<TurnPlace>& places, int64_t ii);

// The least II at which that order runs, up to `most` of the solved one; nullopt: none is known.
std::optional<int64_t> PeriodInTurns(const Graph& graph, const ir::Schedule& solved,
                                     const std::vector<TurnPlace>& places, int64_t most = 2);

}  // namespace tilec::scheduler
