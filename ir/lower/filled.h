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
// threads cast for a product is there beside what they cast it from: both must fit. A row kernel
// must have what it is taken to want. Where roles have no quotas they have what the launch leaves a
// thread.
//
// If ptxas, which knows better, is not asked of what is taken, that holds of products that fly,
// too, and of row kernels; and what is complete at once must fit beside what else ptxas keeps in
// such an iteration: places of tensors that threads access and of further sums
// (`beside_access_at_once`).
struct Filling {
  int64_t lacks = 0;     // registers of a thread, of the fullest role; more than 0: taken to spill
  bool at_once = false;  // products of that role are complete at once
};
Filling FillingOf(const Function& warps, const Target& target, bool asked);

}  // namespace tilec::ir
