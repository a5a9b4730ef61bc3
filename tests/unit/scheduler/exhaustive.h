// The smallest initiation interval by trying everything: slots and roles one by one, then stages.
// Only for graphs of a handful of ops. Written from the definitions in scheduler/graph.h; shares
// nothing with the solver's model or the checker.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "scheduler/graph.h"
#include "scheduler/scheduler.h"

namespace tilec::scheduler {

// Whether any schedule with this initiation interval exists.
bool ExhaustivelyFeasible(const Graph& graph, int64_t ii);
// Of a graph without routes; nothing: more than so many placements would have to be looked at.
std::optional<bool> ExhaustivelyFeasible(const Graph& graph, int64_t ii, int64_t most_placements);

// The best objective, criterion by criterion, of any schedule with this initiation interval.
// Wherever the loop is said to begin: every rotation of a schedule is one too.
std::optional<Objective> ExhaustiveObjective(const Graph& graph, int64_t ii);

// What is added to the seeds of random graphs: the environment variable TILEC_SEED, else 0. Other
// stretches than those of every change (docs/testing.md).
uint64_t SeedShift();

// A random graph of at most `max_ops` ops with small costs; `memory` gives it capacities that bind.
Graph RandomGraph(uint64_t seed, int max_ops, bool memory);

// A random graph of three or four ops of 1 to 16 warps on a machine of few registers: roles are
// bought with quotas, and a launch of more warpgroups may have more registers (rounding).
Graph RandomPoolGraph(uint64_t seed);

// The graph with routes of random costs along most edges within an iteration, whose values are in
// registers then; `most` of them.
Graph WithRoutes(Graph graph, uint64_t seed, int most);

}  // namespace tilec::scheduler
