// What the lowering moves, and what it costs.
//
// The law of turns. A role's program has turns. What a product makes lies in registers, and ptxas
// serializes products whose registers are alive while they are under way again (C7514): so a
// product's result is read in the product's own turn, and nothing of it is under way when the turn
// ends. A schedule on a circle knows no turns; the lowering moves what would break the law, and the
// schedule that runs is stated here. (Told the law as pins, a product and its readers in one stage,
// the solver finds shorter ones, which lose 5 to 7 % on an H200: docs/perf_log.md, 2026-11-28.)
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>

#include "ir/loop_plan.h"
#include "scheduler/program_cut.h"

namespace tilec::scheduler {

// The loop's schedule for its lowering, with what the program says of products.
ir::LoopSchedule LoopScheduleOf(const CutProgram& c, const LoopReport& report,
                                const std::map<int, int>& compute);

// What the lowering moved as a schedule of the same II: then nothing is lost, and that schedule is
// the report's. What does not fit is a note, with what it costs. False: the plan's order is no
// schedule that says it, and the report has the solved one.
bool SettleDepartures(const CutProgram& c, ir::OpId loop, const std::map<int, int>& compute,
                      const ir::LoopPlan& plan, LoopReport* report);

}  // namespace tilec::scheduler
