// Which dims must stay below 2³¹, because a position along them becomes a number of 32 bits
// somewhere in the program.
//
// Where a tile begins is a scalar of 64 bits, and threads add to it what is inside of the tile, so
// a flat buffer of parameters may have any length. Numbers of 32 bits are `.index` (an i32 tile),
// what an author converts to i32, the coordinates of copies, and the loops that walk over tiles.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <set>
#include <string>

#include "ir/function.h"

namespace tilec::ir {

// Names of dims. At the warp level a position that follows from the number of a CTA is counted for
// every dim of the grid; one that follows from a number of the caller or of memory for every dim.
std::set<std::string> NarrowDims(const Function& fn);

}  // namespace tilec::ir
