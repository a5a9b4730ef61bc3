// A good schedule without a solver: guessed roles (scheduler/role_guess.h) and modulo scheduling
// (scheduler/modulo.h) over growing initiation intervals, then back towards the bound. What it
// finds is an upper bound; where it meets the lower bound nothing is left to prove.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "scheduler/search.h"

namespace tilec::scheduler {

// Every placement has passed Check. Nothing where pins of cycles or stages leave it to the solver,
// or nothing was found. `bound` is a proved lower bound.
std::optional<Search::Found> FirstAnswer(const Graph& graph, const SolveOptions& options,
                                         int64_t bound);

// The best by the objective that is found at this II; nothing if none is better than `known`, or
// as good where that will do.
std::optional<Search::Found> BetterAnswer(const Graph& graph, const SolveOptions& options,
                                          int64_t ii, const Objective& known, bool as_good);

// Smaller is better, components in order.
bool Better(const Objective& a, const Objective& b);

}  // namespace tilec::scheduler
