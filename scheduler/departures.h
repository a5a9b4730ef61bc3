// What the lowering moves, and the law behind it, told to the solver.
//
// The law of turns. A role's program has turns. What a product makes lies in registers, and ptxas
// serializes products whose registers are alive while they are under way again (C7514): so a
// product's result is read in the product's own turn, and nothing of it is under way when the turn
// ends. A schedule on a circle knows no turns. Here it learns them: a turn of the compute role
// begins at cycle 0 of a period, and a product and those who read it are in one stage, that is,
// pins (scheduler/graph.h), which the solver, the judge and the certificate know already. Which of
// several products come a turn later is tried.
//
// Only loops with one compute role: each role's turns begin somewhere else.
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

// If the lowering would depart from the report's schedule at a cost, solves the loop again under
// the law of turns, and takes the answer if it is faster than what would run. The law is then in
// `report->turns` and in `graph`.
void SolveInTurns(const CutProgram& c, ir::OpId loop, const ProgramOptions& options, Graph* graph,
                  LoopReport* report);

// What the lowering moved as a schedule of the same II: then nothing is lost, and that schedule is
// the report's. What does not fit is a note, with what it costs.
void SettleDepartures(const CutProgram& c, ir::OpId loop, const std::map<int, int>& compute,
                      const ir::LoopPlan& plan, LoopReport* report);

}  // namespace tilec::scheduler
