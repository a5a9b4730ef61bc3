// Forms in which one role does all of a CTA's ops in program order. It waits for its own copies, so
// an SM is kept busy by other CTAs beside it, and not by copies that run ahead: where a tile's loop
// has a turn or two, a ring has nothing to run ahead of, and where a turn is as long as its chain
// (decoding), several chains side by side draw what one alone leaves of the memory.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ir/count_work.h"
#include "ir/function.h"
#include "ir/target.h"
#include "scheduler/kernel_time.h"

namespace tilec::scheduler {

// CTAs of such a program side by side on an SM, before it is lowered: by its tiles in registers and
// by what its products read in shared memory.
int64_t CtasOfOneRole(const ir::Function& fn, const ir::Target& target);

// Is the form looked at, and how much less must the model say of it than of several roles to be
// believed? `loops`: of `fn`; `beside`: CtasOfOneRole. Nothing: it is left out.
std::optional<double> MarginOfOneRole(const ir::Function& fn, const ir::Target& target,
                                      const ir::WorkCount& work,
                                      const std::vector<LoopPeriod>& loops, int64_t beside);

}  // namespace tilec::scheduler
