// How many stages a schedule has at least, by sums: a question to the solver that is answered here
// costs nothing. Most loops that run ahead by one stage do so because an iteration alone cannot
// fill its period: what waits for loads leaves its instruction stream idle for longer than the
// period has room for, however it is ordered.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "scheduler/graph.h"
#include "scheduler/needs.h"

namespace tilec::scheduler {

// No schedule at this II among roles of this offer has fewer stages.
int64_t LeastStages(const Graph& graph, int64_t ii, const RoleOffer& offer);

}  // namespace tilec::scheduler
