// Loops of rows written out, each chunk loaded once: what keep_rows.cc decides is done here.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/function.h"
#include "ir/passes/loops_of_rows.h"

namespace tilec::ir {

// All chunks are loaded in front of the first loop. Later loops read what it had (`registers`), or
// load "again" (mark `kept`: which time) from shared memory.
void UnrollRows(Function& fn, BlockId block, const RowLoops& loops, bool registers);

}  // namespace tilec::ir
