// Branches of innermost loops that choose between scalars, or between little, become selects
// (a part of the pass `canonicalize`).
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/function.h"

namespace tilec::ir {

// How many became selects.
int ConvertBranches(Function& fn);

}  // namespace tilec::ir
