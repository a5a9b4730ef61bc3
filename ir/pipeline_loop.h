// Rewrites a loop so that its turns run as a plan says: ops in the order of their roles' slots,
// an op of stage s working for the iteration s turns ago. Tile IR in, tile IR out, the same meaning
// bit for bit (no floating-point operation is reordered, only moved in time), so the interpreter
// checks it. With S the largest stage and n the trip count:
//
//     if n >= S {                        // S > 0 only
//       S prologue turns                 stages 0 … t in turn t
//       for turns S … n − 1 { all stages; what crosses turns is carried }
//       S epilogue turns                 stages e … S in turn n − 1 + e
//     } else { the loop as it was }      // S > 1 only: a loop of no turns needs nothing
//
// Ops get the mark `role`; order tokens become the marks `signal` and `await`. A token that pairs a
// turn with the next one may be passed on in front of the loop and taken back behind it: then the
// loop itself carries the marks.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/function.h"
#include "ir/loop_plan.h"

namespace tilec::ir {

// `next_token` numbers the order tokens of the kernel. False: the loop reads across turns in a way
// that this rewrite does not know; nothing has changed then.
bool PipelineLoop(Function& fn, OpId loop, const LoopPlan& plan, int64_t* next_token);

}  // namespace tilec::ir
