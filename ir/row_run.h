// Whole rows of a tensor, one after the other in memory: a run of bytes, wherever its rows begin.
//
// Rows of 5 or 245 elements begin at no multiple of 16 bytes, so what a thread has of them cannot
// be accessed 16 bytes at a time; and where every thread has a row of its own, lanes access places
// far apart. But rows that stand side by side are one run. Threads move it 16 bytes at a time
// between the tensor and shared memory, in the order of memory, and hold it as the computation
// wants it (`gload`, `gstore` with `scratch`).
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "ir/function.h"

namespace tilec::ir {

struct RowRun {
  int row_dim = -1;     // dim of the tensor; −1: one row, or a piece of it
  int64_t rows = 1;     // of the tile
  int64_t columns = 0;  // of the tensor, all of them known and in the tile; of one row the tile's
};

// A load or store of rows of a tensor that starts at a multiple of 16 bytes (`shifted`: anywhere),
// whose last dim is contiguous. Either whole rows (the last range starts at 0 and has the tensor's
// columns, whose number is known; the dim in front of it is a range, the others are positions), or
// any range of one row (all dims but the last are positions).
std::optional<RowRun> RowRunOf(const Function& fn, const Op& op);
// Of shared memory for it: the run begins as far from a multiple of 16 bytes as in the tensor.
int64_t RowRunBytes(const RowRun& run, DType dtype);

// Do the threads of the op's role meet, because something passes through scratch?
bool MeetsInScratch(const Op& op);

// Of any op with `scratch` ≥ 0: how many bytes from there it uses.
int64_t ScratchBytesOf(const Function& fn, const Op& op);

// The outermost loop around the op, if it counts there: a warp op that adds numbers of 32 bits, in
// places that are found element by element along the last dim, to one row whose place does not
// change in the loop, and that nobody reads or stores. Its counters may then be in shared memory
// (`scratch`), zero in front of the loop, and what they came to is added behind it.
OpId CountsIn(const Function& fn, OpId atomic);
// How many counters the row has; 0 where that is not known or they are too many.
int64_t CountersOf(const Function& fn, const Op& atomic);

}  // namespace tilec::ir
