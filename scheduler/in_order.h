// The schedule of a loop whose turns stay in the program's order (scheduler/chain_alone.h): what
// the program does in place of the one that was solved.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "ir/schedule.h"
#include "scheduler/graph.h"

namespace tilec::scheduler {

// With the roles and rings of `solved`: ops of compute roles one behind the other as the graph has
// them, each as early as its operands are there, and loads, which have a role of their own, so far
// ahead that nobody waits for them. Its II is the least that these places allow. nullopt: the judge
// (Check) refuses it, so this is not what becomes of such a loop.
std::optional<ir::Schedule> ScheduleInOrder(const Graph& graph, const ir::Schedule& solved);

}  // namespace tilec::scheduler
