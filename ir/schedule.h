// A schedule as plain data: what a scheduler decided, or an expert wrote. It is attached to
// nothing, proves nothing, and is believed by nobody: scheduler/check.h judges every schedule,
// wherever it comes from, by code that contains no solver.
//
// Cycle 0 is arbitrary. Op v of loop iteration i issues at cycle[v] + i·II; its stage is
// ⌊cycle/II⌋, its slot in the steady state cycle mod II. Ops of one role issue in the order of
// their slots; at equal slots (where no more than one op takes issue time) producers go before the
// consumers that read them and readers before the op that overwrites them.
//
// Text form (.sched): line oriented, diffable, `#` comments; printed by ToText, read by
// ParseSchedule; print then parse is the identity.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "support/diag.h"
#include "support/result.h"

namespace tilec::ir {

struct ScheduledOp {
  std::string name;   // of the graph's op: "QK0"
  int64_t cycle = 0;  // issue of iteration 0
  int role = 0;       // index into roles
};

// A group of warps with one program.
struct ScheduledRole {
  std::string name;  // "load", "compute0", "mma": for people
  int warps = 4;
  int64_t regs = 0;  // per thread: the quota, a multiple of 8 (0: not decided)
};

// A value that crosses roles, or that an asynchronous engine fills: a ring of `depth` slots.
struct Channel {
  std::string value;   // the op that produces it
  std::string medium;  // "smem", "tmem", "reg"
  int depth = 1;
};

// Consecutive ops of different roles on one unit: must the code enforce this order with a token?
struct OrderEdge {
  std::string from, to;
  std::string unit;
  bool enforced = false;
};

struct Schedule {
  std::string graph;        // name
  uint64_t graph_hash = 0;  // scheduler::Hash of the graph it was made for
  std::string machine;
  int64_t ii = 0;  // cycles
  std::vector<ScheduledRole> roles;
  std::vector<ScheduledOp> ops;
  std::vector<Channel> channels;
  std::vector<OrderEdge> order;
  std::vector<std::string> assumptions;  // free text the solver relied on
};

std::string ToText(const Schedule& schedule);
Result<Schedule> ParseSchedule(std::string_view text, int32_t file, DiagSink& diags);

}  // namespace tilec::ir
