// Parts of a reduction that all take as many turns: what lies behind the reduction's end is loaded
// as nothing, so that neighbours of a cluster copy for each other in every turn.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/function.h"

namespace tilec::ir {

// Of what DivideReductions made. False: its loop is none of sums of products alone.
bool EvenParts(Function& parts);

}  // namespace tilec::ir
