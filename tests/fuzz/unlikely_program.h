// Random kernels with `if unlikely(c)`: behind all else, where it can be made in a launch of its
// own, and where it cannot be (in a loop, in a branch, something behind it, an output that is
// read); grids of one to three ranges, dims of 0, conditions of tiles, of scalars and of positions,
// arms that store the same, more, less or elsewhere, add atomically, multiply, branch again. Valid
// by construction.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "tests/fuzz/tile_program.h"

namespace tilec::fuzz {

TileProgram GenerateUnlikely(uint64_t seed);

}  // namespace tilec::fuzz
