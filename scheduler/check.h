// The judge of schedules. Contains no solver, shares no code with one.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "ir/schedule.h"
#include "scheduler/graph.h"

namespace tilec::scheduler {

struct Violation {
  std::string law;   // "complete", "dependence", "unit", "issue", "carried-role", "same-role",
                     // "apart", "registers", "register-pool", "smem", "tmem", "ring", "load-role",
                     // "width", "warps", "pin", "order", "liveness", "period"
  std::string text;  // what was seen, with its numbers
  std::vector<int> ops;
};

struct CheckReport {
  std::vector<Violation> violations;  // empty: accepted
  int64_t length = 0;                 // last completion of iteration 0
  int stages = 0;
  std::vector<int64_t> unit_busy;   // cycles per period, by unit
  std::vector<int64_t> role_issue;  // cycles per period, by role
  std::vector<int64_t> role_regs;   // peak live registers per thread, by role
  int64_t smem_bytes = 0;           // rings and barriers
  int64_t tmem_columns = 0;
  int64_t event_period = 0;  // exact period of the timed event graph
};

// Structural laws, modular reservation tables, lifetimes (live-ins and holds included), memory,
// registers, role legality; then the timed event graph: liveness, ring depths, exact period <= II.
CheckReport Check(const Graph& graph, const ir::Schedule& schedule);

// An independent second opinion: plays `periods` periods cycle by cycle (warm-up included) and
// looks at reservations, values and rings as they happen. Slow and obvious; for tests and
// certificates.
CheckReport Simulate(const Graph& graph, const ir::Schedule& schedule, int periods = 3);

}  // namespace tilec::scheduler
