// Clusters: neighbours in the grid copy what they share once.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "ir/function.h"
#include "ir/passes/persist_tiles.h"

namespace tilec::ir {

// Marks the loads in loops that `ctas` neighbours along the grid's first range have in common, and
// makes the grid a multiple of them. With an obstacle, there are none or the kernel would notice
// CTAs without a tile, the function is unchanged. `clips`: stores that end with the range need no
// branch around them.
std::optional<Obstacle> ClusterTiles(Function& fn, int64_t ctas, bool clips = false);

}  // namespace tilec::ir
