// Copies into shared memory that nobody needs to wait with stand in front of what threads load.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/function.h"

namespace tilec::ir {

// Of the grid's block: loads of rows that are kept (mark `kept`) move in front of the first load by
// threads, for what is made of that has to be waited for and their copies need not. Where CTAs of a
// cluster wait for each other, so do vectors that are read behind the wait.
void CopiesFirst(Function& fn, OpId grid);

}  // namespace tilec::ir
