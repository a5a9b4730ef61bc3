// The order of the warpgroups of one role. A role's warpgroups run the same program on other rows,
// and nothing says which of them issues its products first: those that arrive together compute
// together and multiply together, and the tensor cores idle meanwhile. Where turns are planned, a
// warpgroup issues the products of an iteration that stand back to back (no wait for a product in
// between) only when the one before it has issued its own: from then on one computes while the
// other's products run ("ping-pong"). Named barriers keep the order, one for each warpgroup.
//
// Nobody can be stuck for it. Inside a turn nothing waits but for barriers of rings, and no slot is
// released before such a wait, so that one that stands in front of its turn has released all that
// one inside needs; the last in program order can always go on (docs/lowering.md, checked by
// warp_check/turns.cc).
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/function.h"
#include "ir/program_plan.h"
#include "ir/target.h"

namespace tilec::ir {

// Products that are complete at once are turns of their own: what stands between two of them is
// what the other warpgroup multiplies beside.
//
// The plan's decision: two warpgroups whose products fly in groups, and a loop of two products an
// iteration, of which threads compute an operand of one out of the other's result. Where products
// are complete at once, only if threads compute longer than they take. `in`: the tile function as
// it is lowered.
bool TurnsPay(const Function& in, const LayoutPlan& tiles, const Target& target,
              int64_t warpgroups);

// Is, in some loop of two products that fly in groups, an operand of one made out of the other's
// result? Threads of such a loop compute between products, whatever other warpgroups do.
bool FeedsProducts(const Function& in, const LayoutPlan& tiles);

// Puts the turns of the plan's roles into the warp program: barriers from the highest number down.
void TakeTurns(const ProgramPlan& plan, const Target& target, Function* warps);

}  // namespace tilec::ir
