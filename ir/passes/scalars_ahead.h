// Factors of a loop of products, loaded an iteration ahead (scalars_ahead.cc): a part of the pass
// `row-vectors`, which does the same for vectors.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/function.h"

namespace tilec::ir {

// How many loads were moved.
int LoadScalarsAhead(Function& fn);

}  // namespace tilec::ir
