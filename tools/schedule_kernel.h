// tilec schedule FILE[:KERNEL]: the loops of a kernel, with given tile sizes or with those that the
// model likes best.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "scheduler/nest.h"
#include "scheduler/program.h"
#include "tools/session.h"

namespace tilec::tools {

// The kernel with these values, as the scheduler meets it. Fails if it had loops and none is left.
Result<ir::Function> CleanedUp(Session& session, const char* command,
                               const std::vector<std::string>& words);

// The kernel's loops as a compilation schedules them; with --schedule, as that file says. At least
// one has a schedule.
Result<scheduler::ProgramSchedule> ScheduleOfKernel(Session& session,
                                                    const scheduler::SolveOptions& solve);

// --nest: the loop over tiles, with the kernel's loops solved as a compilation solves them.
struct SolvedNest {
  scheduler::Nest nest;
  scheduler::Solution solution;
};
Result<SolvedNest> NestOfKernel(Session& session, const scheduler::SolveOptions& solve);

// --tune=model: a table of all tile sizes and slicings, best first, in cycles per unit of work.
Result<> RankTunes(Session& session);

}  // namespace tilec::tools
