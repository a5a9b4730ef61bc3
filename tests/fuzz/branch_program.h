// Random kernels with branches in and around their innermost loops: by positions, parameters,
// numbers that are loaded or carried, or by what a tile holds; over products, arithmetic, loads,
// stores, scalars alone; with `else`, nested, or as `select`. Valid by construction.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "tests/fuzz/tile_program.h"

namespace tilec::fuzz {

TileProgram GenerateBranches(uint64_t seed);

}  // namespace tilec::fuzz
