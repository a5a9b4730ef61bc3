// Persistent kernels: the grid becomes as many CTAs as run at once, each with a loop over tiles.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "ir/function.h"

namespace tilec::ir {

// What keeps a kernel from being persistent, and where.
struct Obstacle {
  std::string why;  // "tiles take …"
  Span at;
};
inline constexpr const char* kNoClusters = "the target has no clusters of CTAs";

// `ctas` run at once: SMs × CTAs on each. With an obstacle the function is unchanged.
std::optional<Obstacle> PersistTiles(Function& fn, int64_t ctas);

// CTAs of one tile each, of which `ctas` run at once: tiles that take unequally long, longest
// first. False: nothing changed.
bool OrderTiles(Function& fn, int64_t ctas);

}  // namespace tilec::ir
