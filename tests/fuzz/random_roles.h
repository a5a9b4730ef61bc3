// A loop's ops divided among compute roles at random, so that tiles pass between them.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "ir/schedule.h"
#include "scheduler/graph.h"
#include "tests/fuzz/tile_expr.h"

namespace tilec::fuzz {

// `graph` has routes (scheduler/crossing.h). The ops come one after the other, then nearer to each
// other as far as the judge of schedules agrees. nullopt: all ops belong together.
std::optional<ir::Schedule> WithRandomRoles(const scheduler::Graph& graph, Rng& rng);

}  // namespace tilec::fuzz
