// What a role holds where its threads wait for each other or for memory: what arithmetic uses up
// piece by piece is not counted. A header of its own, for the files that tell ptxas of it.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/function.h"

namespace tilec::ir {

// `whole`: a tile alone is there as a whole, too. `merged`: what is read again from shared memory
// is kept from the first time.
int64_t HeldRegisters(const Function& fn, OpId role, bool whole, bool merged);

}  // namespace tilec::ir
