// Loads go back to where they are read: into the loop that they left, in front of their first
// reader. What is loaded at one place is alive from there to the loop's end, as in every turn it is
// wanted again; loaded where it is read, one tile takes the memory of the one before it.
//
// For programs that do not fit otherwise (compile/search.cc): it costs a load in every turn.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/function.h"

namespace tilec::ir {

// How many went. Tiles of read-only tensors, and what is made of them without a branch.
int SinkLoads(Function& fn);

}  // namespace tilec::ir
