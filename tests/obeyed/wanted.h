// What the scheduler decided for a loop, as the comparison wants it.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "scheduler/program.h"
#include "support/source.h"
#include "tests/obeyed/compare.h"

namespace tilec::obeyed {

WantedLoop WantedOf(const scheduler::ProgramSchedule& decided, const scheduler::LoopReport& loop,
                    const SourceMap& sources);

}  // namespace tilec::obeyed
