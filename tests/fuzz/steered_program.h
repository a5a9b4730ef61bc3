// Random programs whose loads are steered by what the program computes, or are not such as copies
// bring: `while`s that end when a tile says so, early exits, branches and bounds from sums, from
// the place of a maximum and from loaded scalars, loops that may have no iteration; operands with
// free strides, gathered rows, rows that are not aligned. Valid by construction; the same seed
// gives the same program on every machine.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/fuzz/tile_program.h"

namespace tilec::fuzz {

TileProgram GenerateSteered(uint64_t seed);

}  // namespace tilec::fuzz
