// How fast a schedule's program runs when nobody holds it to its cycles: roles issue their ops in
// order as soon as they can, units serve first come first served, and only enforced order is kept.
//
// The period of the timed event graph (scheduler/check.h) says what order permits; this says what
// happens. They differ where free-running roles meet on a unit at a bad moment and nothing moves
// them apart: two warpgroups of the same program do not find the best phase by themselves.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/schedule.h"
#include "scheduler/graph.h"

namespace tilec::scheduler {

// Cycles per iteration after a cold start, in the long run; at least what fluid units need. 0 if
// the program stops (no schedule that Check accepts does).
double FreeRunningPeriod(const Graph& graph, const ir::Schedule& schedule, int iterations = 96);

// Frees the orders that roles keep by themselves: a turn is a wait of a whole role, and one without
// which the program runs at its period costs and gives nothing. Of machines whose sums lie in
// tensor memory; on Hopper, where a product holds its warpgroup, turns were measured to pay.
void LeaveOutTurns(const Graph& graph, ir::Schedule* schedule);

}  // namespace tilec::scheduler
