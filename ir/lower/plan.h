// The decisions of the sequential lowering, taken before any warp op is emitted:
// how many warpgroups, which register layout each tile has, how each product reads its operands.
//
// Layouts are decided for *classes* of values, not for values: elementwise ops, casts and
// loop-carried values tie their operands and results into one class (union-find), so that nothing
// inside a loop needs a conversion unless two products disagree. A class that holds a product's
// result gets that accumulator's layout; a class that is a reduction or broadcast of a decided
// class gets its slice; what is left is blocked for coalesced access. Ops that meet values of two
// layouts convert explicitly (emission, emit_tiles.cc).
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/program_plan.h"
#include "ir/target.h"

namespace tilec::ir {

// `warpgroups` of a compute role; 0: chosen from the products and tiles. `runs_ahead`: a role of
// its own may start copies iterations before they are needed, so tiles of loops that no product
// reads as they are go by TMA, too.
LayoutPlan MakePlan(const Function& fn, const Target& target, int warpgroups = 0,
                    bool runs_ahead = false);
// The warpgroups that MakePlan chooses, which needs no layout.
int PlannedWarpgroups(const Function& fn, const Target& target);

// Does every slice of what a cluster_reduce combines lie in the same registers of all threads, as a
// tile that is laid out like the slice? (plan_rings.cc)
bool SlicesFit(const LayoutPlan& plan, const Op& reduce, const Type& slice);

}  // namespace tilec::ir
