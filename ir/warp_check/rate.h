// How fast an emitted program turns: its loops as timed event graphs (ir/event_graph.h), made from
// the ops the roles really execute, with the costs of a machine file. What a schedule promises can
// be compared with what was emitted.
//
// Counted: issue in program order, latency of values, products and copies, waits for what ends
// them, and how long each unit is busy per turn. Not counted: scalar code, barriers and branches
// themselves.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/event_graph.h"
#include "ir/function.h"
#include "ir/target.h"
#include "support/diag.h"
#include "support/result.h"

namespace tilec::ir {

struct LoopRate {
  std::vector<OpId> loops;  // one per role that takes part
  EventGraph graph;
  std::vector<std::string> events;  // of its nodes: "compute: mma"
  Period order;                     // what waits, order and latency allow
  std::string unit;                 // the busiest unit
  int64_t busy = 0;                 // its cycles per iteration
  int64_t Cycles() const { return order.Ceil() > busy ? order.Ceil() : busy; }
};

// Of every loop whose trip count is not known, in program order of the first role in it. `fn`: a
// program CheckWarps has accepted.
Result<std::vector<LoopRate>> RatesOf(const Function& fn, const Target& target, DiagSink& diags);

}  // namespace tilec::ir
