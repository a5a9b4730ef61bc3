// Loops of products that wait for memory rather than for the matrix unit, and how many CTAs of such
// a program an SM is to have.
//
// A product of 16 rows is done in tens of cycles. What an iteration of it takes is the way of its
// tiles: a ring is awaited, threads read their part and make an operand of it, the slot goes back.
// One CTA does that step by step and leaves the SM idle between; two hide each other's waits.
//
// Facts decide, no kernel: the cycles of the iteration's products on the matrix unit, those of a
// load by threads, and whether threads decode an operand. (Where the tensor core reads what copies
// bring, deep rings hide the wait, and a CTA that has the SM alone has deeper ones.)
//
// A loop whose length a load says belongs to a tile that comes and goes with its CTA: nobody copies
// for the next one meanwhile. Where its copies take longer than its products, two CTAs fill the
// beginning and the end of each other's tiles.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "ir/function.h"
#include "ir/target.h"

namespace tilec::ir {

// Cycles that a product takes of the matrix unit.
int64_t ProductCycles(const Function& fn, const Op& dot, const Target& target);

// Do the products of a loop's iteration, its own and those of branches in it, so many times over
// take less than a load by threads? False where there is none.
bool WaitsForMemory(const Function& fn, BlockId body, const Target& target, int64_t times = 1);

// Is the operand of a product decoded by threads: made element by element of whole numbers and not
// of another product?
bool DecodedByThreads(const Function& fn, ValueId operand);
// Is the value so decoded of nothing but tiles that `body` loads, constants, scalars and whole
// numbers made of positions, through whatever shapes?
bool MadeOfTiles(const Function& fn, ValueId v, BlockId body);

// Does a loop of the block, or of one inside, begin or end where a load says?
bool LengthsAreLoaded(const Function& fn, BlockId block);

// CTAs of the tile function that an SM is to have side by side, if their registers and shared
// memory leave room (sequential.h); 1: whatever finds room.
int64_t CtasWanted(const Function& fn, const Target& target);

// A machine of one of `ctas` equal shares of each SM's registers and shared memory.
Target ShareOf(const Target& target, int64_t ctas);

}  // namespace tilec::ir
