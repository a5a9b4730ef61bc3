// Resident sums: accumulators in tensor memory that a loop carries and changes between its products
// (attention rescales its output). They are values of the function that are used one after another,
// through loops and arms of branches:
//
//     carried ─▶ acc · α ─▶ product ─▶ yielded ─▶ result of the loop ─▶ …
//
// so all of them can be the same columns: what changes them is made there, a slice of columns at a
// time, and threads never hold the whole tile.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <set>
#include <vector>

#include "ir/program_plan.h"
#include "ir/uses.h"

namespace tilec::ir {

// In program order of the loops that begin them; none of the products in `apart`.
std::vector<TensorSum> FindResidentSums(const Function& fn, const LayoutPlan& tiles,
                                        const Uses& uses, const std::set<OpId>& apart);

}  // namespace tilec::ir
