// Blocks that no execution reaches, whatever the sizes: the conditions on the way there exclude
// each other. Mutants there are no mistake. Nothing of this is shared with the verifier, which may
// walk such blocks, since it forgets what late turns have to do with each other.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/function.h"

namespace tilec::ir {

// True: proved.
bool NeverExecuted(const Function& fn, BlockId block);

}  // namespace tilec::ir
