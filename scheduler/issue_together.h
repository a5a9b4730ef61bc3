// The products of an iteration issued back to back, where warpgroups multiply in turns.
//
// A solved schedule takes the warpgroups of a role for one that executes its program: what waits
// for a product would wait, so the solver puts other work of the iteration in between, and each
// product runs under its own role's work. Two warpgroups whose products are ordered (ir/lower/turns.h)
// are not in step: while one waits, the other computes. What stands between the products of a turn
// then only lengthens the turn, and the other one waits for its end: ptxas, which issues a product
// in parts, puts the work between them.
//
// So of two products, where the second multiplies what is made of the first one's result, the
// second of the iteration before is issued right behind the first, and everything else follows in
// the order in which the schedule has it. The least II is that of the schedule: it is bound by what
// the warpgroups issue together, which is the same in any order.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/loop_plan.h"

namespace tilec::scheduler {

// Rewrites the cycles of a loop's ops, stages included. False: it is no such loop, or its one role
// is not two warpgroups, and nothing changed.
bool IssueTogether(const ir::Function& fn, ir::OpId loop, ir::LoopSchedule* schedule);

}  // namespace tilec::scheduler
