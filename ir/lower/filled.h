// Is a tile size that its author has not tried taken to spill? Where many are compared, one that
// ptxas would spill looks best of all: it has the largest tiles.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/function.h"
#include "ir/target.h"

namespace tilec::ir {

// Of a program that products fly from: do its tiles fill more than a share of what a role has
// (`filled_percent`)? Of one whose products are complete at once ptxas orders as it likes, and what
// threads cast for a product is there beside what they cast it from: both must fit. Where roles
// have no quotas, those of products have what the launch leaves a thread, if ptxas, which knows
// better, is not asked of what is taken.
bool TakenToSpill(const Function& warps, const Target& target, bool asked);

}  // namespace tilec::ir
