// The two ends that solved schedules and schedules of files have in common: a kernel cut into row
// slices with the problems of its loops, and the rewrite of the loops once they have schedules.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <set>
#include <string>

#include "scheduler/program.h"

namespace tilec::scheduler {

struct CutProgram {
  ir::Function fn;
  ProgramSchedule schedule;       // one report per innermost loop, extracted where `extracted`
  std::set<ir::OpId> in_flight;   // see ir::LoopSchedule
  bool at_once = false;           // it has products that are complete when they are issued
  bool turns = false;             // … and its warpgroups take turns with them (ir/lower/turns.h)
  bool in_place = false;          // sums stay where products add to them (ir/loop_plan.h)
  bool close = false;             // ir::LoopSchedule::close
  std::set<ir::OpId> by_threads;  // loads that threads may bring, should a plan say so
  bool given = false;             // its schedules are a file's
  int64_t ii = 0;                 // of all loops together, once they are solved
  std::set<size_t> in_order;      // innermost loops whose turns stay in the program's order
};

// nullopt: the slices would share what each can only compute for itself. Loops that are no
// scheduling problem carry a note that says why. The graph of the first loop has the kernel's name,
// that of loop N `NAME.loopN`.
// `crossing`: values may pass between compute roles (scheduler/crossing.h). `warpgroups`: of a
// compute role; 0: as many as its tiles ask for. `own_loads`: loads that no ring brings are
// done with what reads them (scheduler/own_loads.h).
std::optional<CutProgram> CutRows(const ir::Function& fn, int slices, const ir::Target& target,
                                  bool crossing = false, int warpgroups = 0,
                                  bool own_loads = false);
// The same in one slice, of which only the loops are looked at: its `fn` is left empty, and `fn`
// stands for it.
CutProgram CutWhole(const ir::Function& fn, const ir::Target& target);

// The same with its loops solved (`applied`) as far as they can be, and not yet rewritten. `tied`:
// the solver finds all ops of a slice tied to one role (Graph::Pin), the report's graph is the
// same.
std::optional<CutProgram> SolveCut(const ir::Function& fn, int slices,
                                   const ProgramOptions& options, bool tied = false);

// Loops whose report says `applied`.
int SolvedLoops(const CutProgram& cut);

// Rewrites the loops whose report says `applied`. False: the schedules of a sliced kernel do not
// fit its slices; the report of the loop to blame is no longer `applied` and its last note says
// why.
bool ApplySchedules(CutProgram& cut);

// Is each slice one compute role, in all loops whose report says `applied`?
bool HasRoleForEachSlice(const CutProgram& cut);

}  // namespace tilec::scheduler
