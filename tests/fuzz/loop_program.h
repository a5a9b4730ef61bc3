// Random kernels around one loop, for schedules: 1 to 3 loads, 1 to 4 products, chains of
// elementwise ops and reductions, masks, values carried over one and two iterations. The extents
// are chosen around the trip counts at which pipelines begin and end. Every value stays small, so
// that the interpreter's bounds stay tight. No two arithmetic ops begin at one place in the text,
// so that a reader of the PTX can tell them apart.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/fuzz/tile_program.h"

namespace tilec::fuzz {

// With `pins`, statements of the loop carry random pins of stages and ring depths; otherwise the
// same program.
TileProgram GenerateLoop(uint64_t seed, bool pins = false);

}  // namespace tilec::fuzz
