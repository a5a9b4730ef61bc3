// How many registers the tiles of a role need at once: liveness over its structured program. A
// bound for refusing programs that ptxas would spill, not a prediction: tiles made in place of
// their operands count once, what costs no data (broadcasts, constants, positions) counts nothing.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/function.h"

namespace tilec::ir {

// 32-bit registers per thread, at the worst place of one role of a warp function.
int64_t PeakRegisters(const Function& fn, OpId role);

}  // namespace tilec::ir
