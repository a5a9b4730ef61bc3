// What one iteration of a steady loop of the emitted PTX costs a role, counted: products, copies,
// waits and instructions. For tables and for the replay test; compare.h judges, this only counts.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "tests/obeyed/ptx_code.h"

namespace tilec::obeyed {

// Waits: `full` for a ring's slot or another role, `mma` for products, `sync` of named barriers.
struct Iteration {
  int products = 0, copies = 0, full = 0, mma = 0, sync = 0, instructions = 0;
};

// Innermost loops that copy or multiply, for the elected thread of a warp. Of two that do the same,
// one is for fewer iterations than there are stages: the other has first iterations in front of it.
std::vector<const Loop*> SteadyLoops(const Code& code, int warp);

// Along the shortest way through the loop's blocks: that is the version without masks, where there
// are two, and a wait that is over when it is tried. Nothing where there are too many ways.
std::optional<Iteration> CountIteration(const Code& code, const Loop& loop, int warp);

}  // namespace tilec::obeyed
