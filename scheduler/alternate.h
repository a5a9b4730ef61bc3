// Warpgroups that take turns at the matrix unit, where nothing else could run under a product.
//
// What threads make of a product's result ptxas puts behind the wait of whatever product is in
// flight, also where the schedule has it in front: an iteration late it hides nothing, and the
// result is copied, register by register, to be read while the next one is made. (block-scaled
// fp8 of the library, 128 x 128 x 128, H200: 885 TF/s with the sum one iteration late, 64 moves and
// no multiply-add under the product; 1046 with it in its own iteration.) What runs under a product
// there is the other warpgroup: one multiplies while the other adds up.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <set>

#include "scheduler/graph.h"

namespace tilec::scheduler {

// If threads compute, but for little, what is made of products, and no product is made of that: a
// product holds its warpgroup's stream until its own share is complete, 1 / `warpgroups` of the
// unit's time. `products`: indices into graph->ops; `into_sums`: of multiplications that are one
// instruction with the sum that reads them, and cost nothing there.
void LetWarpgroupsAlternate(const std::set<int>& products, const std::set<int>& into_sums,
                            int warpgroups, Graph* graph);

}  // namespace tilec::scheduler
