// Long reductions that more CTAs share than a cluster has: two launches, with parts in memory
// between them.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "ir/function.h"
#include "ir/passes/persist_tiles.h"

namespace tilec::ir {

constexpr int64_t kMostGroups = 16;  // of CTAs, each a cluster

struct Division {
  Function parts;      // a grid with a range of groups; writes what each group of them has
  Function whole;      // the grid as it was; reads that and does the rest
  size_t tensors = 0;  // the last of either's: what is between them
};

// `groups` (2 to 8) parts of the loop's iterations; or why not. Both functions have the same
// tensors behind those of `fn`, which the runtime provides: `parts` writes and `whole` reads them.
// Nothing of `parts` says yet that a row may have seen nothing but −∞: it is to be dealt out to a
// cluster as well (SplitReductions), which does.
std::optional<Obstacle> DivideReductions(const Function& fn, int64_t groups, Division* out);
// One of the two alone; the other of what has parts.
std::optional<Obstacle> PartsOfReductions(const Function& fn, int64_t groups, Function* out);
Function WholeOfReductions(const Function& fn, int64_t groups);

}  // namespace tilec::ir
