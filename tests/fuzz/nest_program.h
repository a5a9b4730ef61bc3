// Random nests: loops to depth 3 around products, whose bounds depend on variables of loops around,
// on positions of the grid and on loaded scalars, which may have no iteration; branches on scalars
// around loops and inside of them. Valid by construction; the same seed gives the same program on
// every machine.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/fuzz/tile_program.h"

namespace tilec::fuzz {

TileProgram GenerateNest(uint64_t seed);
// The same where the loop over heads loads a tile that the products of the loops inside read, which
// are often short and of known length: its ring lies around theirs.
TileProgram GenerateNestOfTiles(uint64_t seed);

}  // namespace tilec::fuzz
