// From schedules of loops to a kernel that obeys them: chooses into how many row slices a kernel is
// cut, solves its innermost loops, and rewrites the tile IR so that what it says in order is what
// the schedules say in cycles (ir/slice_rows.h, ir/pipeline_loop.h). The lowering that follows
// takes roles from the marks and order from the program.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ir/function.h"
#include "ir/lower/sequential.h"
#include "ir/target.h"
#include "scheduler/extract.h"
#include "scheduler/scheduler.h"
#include "scheduler/solution_store.h"

namespace tilec::scheduler {

struct ProgramOptions {
  const ir::Target* target = nullptr;
  SolveOptions solve;
  int slices = 0;  // 0: chosen
  int warpgroups =
      0;  // of one compute role, which have parts of each tile; 0: as its tiles ask for
  // May several roles divide a slice whose chains share nothing but loads? What is read of their
  // results elsewhere then passes from role to role behind the loop.
  bool divide_slices = true;
  bool close = false;  // ir::LoopSchedule::close
  SolutionStore* store = nullptr;
  // What ptxas taught of a program (api/refine.h): registers of a thread that the solver must not
  // count on, and how many distinct answers to pass over.
  int64_t withheld_registers = 0;
  int alternative = 0;
};

// What became of one innermost loop.
struct LoopReport {
  Span at;
  Extraction extraction;  // as solved: ops of the sliced function
  Solution solution;
  bool applied = false;
  bool idle = false;  // nothing in it wants a place: no schedule, and none is missed
  bool extracted() const { return !extraction.graph.ops.empty(); }
  std::vector<std::string> notes;  // what the lowering gave up, or why the loop kept its order
  std::string lost;                // of the notes one that costs cycles; "": none does
  bool in_order = false;           // its turns stay in the program's order (scheduler/in_order.h)
  int going_on = 0;                // ir::LoopPlan::going_on
  std::map<std::string, int> outliving;  // scheduler/last_turn.h
};

// What became of a loop around scheduled ones (scheduler/nest.h).
struct NestReport {
  Span at;
  Graph graph;
  Solution solution;
  int64_t alone = 0, trips = 0;  // of Nest
  bool applied = false;
  std::string note;  // why it has no schedule
};

struct ProgramSchedule {
  int slices = 1;
  int warpgroups = 1;  // of each compute role
  int roles = 1;       // compute roles
  // Roles divide slices, as scheduled, and hand tiles to each other; else there is one for each
  // slice.
  bool apart = false;
  std::vector<LoopReport> loops;
  std::vector<NestReport> nests;  // inner ones first
  // Depths of rings and quotas of roles, as the schedules of the loops say.
  ir::ScheduledResources resources;
};

// The schedules' rings and quotas become those of the program that was made.
void Adopt(const ir::ScheduledResources& made, ProgramSchedule* schedule);

// `fn` is a cleaned-up tile function; it is rewritten. Loops without a schedule keep their order,
// and their report says why.
ProgramSchedule ScheduleProgram(ir::Function& fn, const ProgramOptions& options);

// Schedules of a .sched file in place of the solver's: a section from `schedule NAME` to the next
// for each loop, where NAME is the kernel's for its first innermost loop and `KERNEL.loopN` for
// the N-th. Loops without a section keep their order.
struct ScheduleFile {
  std::string_view text;
  int32_t file = -1;  // id of `text` in the caller's SourceMap
};

// The loops with the schedules of the file, judged but not applied; into how many slices the rows
// of `fn` are cut follows from the ops that the file names. Fails with S340…S344.
Result<ProgramSchedule> LoadSchedules(ir::Function& fn, const ProgramOptions& options,
                                      const ScheduleFile& file, DiagSink& diags);

// Rewrites `fn` so that it obeys the file, or fails and says what could not be obeyed (S345).
Result<ProgramSchedule> ScheduleProgramFrom(ir::Function& fn, const ProgramOptions& options,
                                            const ScheduleFile& file, DiagSink& diags);

// A file for `schedule`.
std::string ToText(const ProgramSchedule& schedule);

// The graph of a role of several warpgroups: every op takes the warps of all of them, a thread
// holds and issues its share. Registers stay in their role, unless they may cross.
void ShapeForLowering(Graph& graph, int warpgroups, bool crossing = false);

}  // namespace tilec::scheduler
