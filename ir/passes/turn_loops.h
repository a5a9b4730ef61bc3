// Loops of products of few rows, turned round.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/function.h"
#include "ir/target.h"

namespace tilec::ir {

// True: all that is computed in the grid is transposed now (turn_loops.cc).
bool TurnLoops(Function& fn, const Target& target);

}  // namespace tilec::ir
