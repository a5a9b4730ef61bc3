// From schedules of loops to a kernel that obeys them: chooses into how many row slices a kernel is
// cut, solves its innermost loops, and rewrites the tile IR so that what it says in order is what
// the schedules say in cycles (ir/slice_rows.h, ir/pipeline_loop.h). The lowering that follows
// takes roles from the marks and order from the program.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "ir/function.h"
#include "ir/target.h"
#include "scheduler/extract.h"
#include "scheduler/scheduler.h"

namespace tilec::scheduler {

struct ProgramOptions {
  const ir::Target* target = nullptr;
  SolveOptions solve;
  int slices = 0;  // 0: chosen
};

// What became of one innermost loop.
struct LoopReport {
  Span at;
  Extraction extraction;  // as solved: ops of the sliced function
  Solution solution;
  bool applied = false;
  std::vector<std::string> notes;  // what the lowering gave up, or why the loop kept its order
};

struct ProgramSchedule {
  int slices = 1;
  int warpgroups = 1;  // of each compute role
  int roles = 1;       // compute roles
  std::vector<LoopReport> loops;
};

// `fn` is a cleaned-up tile function; it is rewritten. Loops without a schedule keep their order,
// and their report says why.
ProgramSchedule ScheduleProgram(ir::Function& fn, const ProgramOptions& options);

// The graph of a role of several warpgroups: every op takes the warps of all of them, a thread
// holds and issues its share. Registers stay in their role.
void ShapeForLowering(Graph& graph, int warpgroups);

}  // namespace tilec::scheduler
