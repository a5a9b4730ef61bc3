// From tile IR to a proved warp program: the line shape → schedule → lower → prove, walked for one
// strategy after the other until one passes. What a step makes is kept, so that a kernel is cleaned
// up once, shaped once for each shape and solved once for each problem, whatever is tried; a
// refusal prunes every strategy that must fail for the same cause.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compile/losses.h"
#include "compile/strategy.h"
#include "ir/function.h"
#include "ir/lower/sequential.h"
#include "ir/pass.h"
#include "ir/target.h"
#include "scheduler/copy_lines.h"
#include "scheduler/program.h"
#include "scheduler/solution_store.h"
#include "support/diag.h"
#include "support/expr.h"
#include "support/result.h"

namespace tilec::compile {

struct Request {
  const ir::Target* target = nullptr;
  Wish wish;
  std::string schedule;                         // as --schedule named it, for messages
  std::optional<scheduler::ScheduleFile> file;  // of wish.from_file
  scheduler::SolutionStore* store = nullptr;    // never null
  std::optional<ir::GivenPlan> plan;            // obeyed in place of the planners' where it is of
                                                // the program, or refused
  bool wants_plan = false;                      // Compiled::plan is to be filled
  bool first_schedules = false;                 // what the scheduler finds without a proof
  bool foretell = true;                         // R622: nobody is going to ask ptxas
  bool prove = true;                            // false: the program is looked at, never emitted
  ir::PassOptions passes;                       // what to print and where to stop
  // Values of dims and integer scalars. With them, decisions have predicted times.
  std::optional<Bindings> sizes;
  scheduler::RowStarts row_starts;  // of these sizes (scheduler/copy_lines.h)
};

struct StepTime {
  std::string step;
  double milliseconds = 0;
};

struct Compiled {
  ir::Function fn;  // proved, at the warp level; where it was to stop earlier, what is there
  Strategy strategy;
  std::optional<scheduler::ProgramSchedule> schedule;  // that it obeys
  ir::ScheduledResources resources;                    // rings and quotas that it has
  std::vector<Loss> losses;                            // what of the schedule it has not
  std::string plan;                                    // its text (ir/plan_text.h)
  std::string printed;
  bool stopped = false;
};

// What the walk did, also where it failed.
struct Account {
  std::vector<Decision> decisions;  // all candidates, in order
  std::vector<StepTime> times;      // of every attempt
};

// `tile`: a verified tile function as the front end makes it.
Result<Compiled> Compile(const ir::Function& tile, const Request& request, Account* account,
                         DiagSink& diags);

// For people: a line for each candidate.
std::string ToText(const std::vector<Decision>& decisions);

// Is there code for the function's products on the target? Names what is missing, at the product.
Result<> CheckProducts(const ir::Function& fn, const ir::Target& target, DiagSink& diags);

}  // namespace tilec::compile
