// Masks behind the wait for what they mask. What says which elements of a tile count (indices,
// compared with bounds) stands in front of the wait for the product that makes the tile, where the
// author wrote it. Threads would hold an answer for each of a row's elements across that wait, and
// have no room for so many: in attention with 128 keys, 128 of them beside a row of weights, which
// ptxas spilled. Comparing anew costs no more behind the wait than in front of it.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/function.h"

namespace tilec::ir {

// Moves tiles of indices and answers that are made of nothing but indices and scalars down to their
// first readers, past loads from tensor memory.
void SinkMasks(Function* warps);

}  // namespace tilec::ir
