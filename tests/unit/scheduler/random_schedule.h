// Schedules for tests without a solver: greedy ones that are often right, and damaged copies that
// are often wrong.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <random>

#include "ir/schedule.h"
#include "scheduler/graph.h"

namespace tilec::scheduler {

using Random = std::mt19937_64;
// In low…high.
int Pick(Random& random, int low, int high);

// Roles by width, ops one after the other in the first free slot, rings as deep as lives ask for.
// Order edges of units of one instance are written down too. Dependences from earlier iterations
// and capacities are left to luck.
ir::Schedule GreedySchedule(const Graph& graph, int64_t ii, Random& random);

// One random change.
void Damage(const Graph& graph, Random& random, ir::Schedule* schedule);

}  // namespace tilec::scheduler
