// The products of an iteration in one short turn, where warpgroups multiply in turns.
//
// A solved schedule takes the warpgroups of a role for one that executes its program, and puts
// other work of the iteration under each of its products. Two warpgroups whose products are
// ordered (ir/lower/turns.h) are not in step: while one waits, the other computes, and what stands
// between the products of a turn lengthens it for the other one. ptxas lengthens it more: a
// product is issued in parts, and it moves work between them (exponentials, 20 between two parts
// of attention's first product).
//
// Where II is what the role issues, in any order, the order is free. Of two products, of which the
// second multiplies what is made of the first one's result, the first is then followed by what is
// left to do of the iteration before behind its longest op, that by the second product, and all
// that waits for the first one's result comes last. What the second one adds to is made in front.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/loop_plan.h"

namespace tilec::scheduler {

// Rewrites the cycles of a loop's ops, stages included; `longest`: the op that issues for longest.
// False: it is no such loop, or its one role is not two warpgroups, and nothing changed.
bool IssueTogether(const ir::Function& fn, ir::OpId loop, ir::OpId longest,
                   ir::LoopSchedule* schedule);

}  // namespace tilec::scheduler
