// Periods of loops as their program was emitted, for whoever compares tile sizes: bounds say what
// no program can be faster than, the program says more (ir/warp_check/rate.h). Products that are
// ordered by barriers take no part in that rate; of their loops the schedule they are lowered by
// says it, also where the bound, which knows one role, says more.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "api/pipeline.h"
#include "ir/function.h"
#include "ir/target.h"
#include "scheduler/kernel_time.h"

namespace tilec::api {

struct EmittedProgram {
  const ir::Function& clean;  // the tile function that the bounds are of
  const ir::Function& warps;
  const Lowered& how;
  const ir::Target& target;  // as its CTAs find it
  bool shares_copies = false;
  bool tried = false;  // an author has these tiles as defaults
};

// Periods of bounds become those of the program.
void AdoptEmitted(const EmittedProgram& program, std::vector<scheduler::LoopPeriod>* periods);

}  // namespace tilec::api
