// The products of an iteration in one short turn, where warpgroups multiply in turns.
//
// A solved schedule takes the warpgroups of a role for one that executes its program, and puts
// other work of the iteration under each of its products. Two warpgroups whose products are
// ordered (ir/lower/turns.h) are not in step: while one waits, the other computes, and what stands
// between the products of a turn lengthens it for the other one. ptxas lengthens it more: a
// product is issued in parts, and it moves work between them (exponentials, 20 between two parts
// of attention's first product).
//
// Where II is what the role issues, in any order, the order is free; where turns as solved are
// longer than II has room for, one for each warpgroup, that II is none (attention on 8-bit floats,
// an H200: 1623 cycles solved, exponentials between the products of a turn of 1030, 2240 taken). Of
// two products, of which the second multiplies what is made of the first one's result, the first is
// then followed by what is left to do of the iteration before behind its longest op, that by the
// second product, and all that waits for the first one's result comes last. What the second one
// adds to is made in front.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/loop_plan.h"

namespace tilec::scheduler {

// Do two turns, from an iteration's first product to the second one of the iteration before, take
// longer than an iteration? False also where it is no such loop.
bool TurnsOverlap(const ir::Function& fn, ir::OpId loop, const ir::LoopSchedule& schedule);

// Rewrites the cycles of a loop's ops, stages included; `longest`: the op that issues for longest.
// False: it is no such loop, or its one role is not two warpgroups, and nothing changed.
bool IssueTogether(const ir::Function& fn, ir::OpId loop, ir::OpId longest,
                   ir::LoopSchedule* schedule);

}  // namespace tilec::scheduler
