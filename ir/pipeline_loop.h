// Rewrites a loop so that its iterations run as a plan says: ops in the order of their roles'
// slots, an op of stage s working for the iteration s iterations ago. Tile IR in, tile IR out, the
// same meaning bit for bit (no floating-point operation is reordered, only moved in time), so the
// interpreter checks it. With S the largest stage and n the trip count:
//
//     if n >= S {                        // S > 0 only
//       S prologue iterations                 stages 0 … t in iteration t
//       for iterations S … n − 1 { all stages; what crosses iterations is carried }
//       S epilogue iterations                 stages e … S in iteration n − 1 + e
//     } else { the loop as it was }      // S > 1 only: a loop of no iterations needs nothing
//
// Ops get the mark `role`; order tokens become the marks `signal` and `await`. A token that pairs a
// iteration with the next one may be passed on in front of the loop and taken back behind it: then
// the loop itself carries the marks.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/function.h"
#include "ir/loop_plan.h"

namespace tilec::ir {

// `next_token` numbers the order tokens of the kernel. False: the loop reads across iterations in a
// way that this rewrite does not know; nothing has changed then.
bool PipelineLoop(Function& fn, OpId loop, const LoopPlan& plan, int64_t* next_token);

}  // namespace tilec::ir
