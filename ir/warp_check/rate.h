// How fast an emitted program turns: its loops as timed event graphs (ir/event_graph.h), made from
// the ops the roles really execute, with the costs of a machine file. What a schedule promises can
// be compared with what was emitted.
//
// Counted: issue in program order, latency of values, products and copies, waits for what ends
// them, and how long each unit is busy per turn. Products that are complete at once hold up who
// issues them, and as nothing but turns (ir/lower/turns.h) keeps roles and warpgroups apart, all of
// them: those that fall in step multiply together, and then compute together. Not counted: scalar
// code, barriers and branches themselves.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
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
  int64_t others = 0;  // products at once of other roles, for which a role stands still
  int64_t Cycles() const { return std::max(order.Ceil() + others, busy); }
};

// For how long a product of two warpgroups in turns, which takes `together` cycles for both, holds
// up one of them. Of two products an iteration, neither of which can begin before what threads make
// of the other is there, one more goes by for nothing: own, the other's, own, and the other's again
// while nothing is left to compute, so three halves of its own; and each turn is handed over.
int64_t HeldUpByTurns(int64_t together, const Target& target);

// Of every loop whose trip count is not known, in program order of the first role in it. `fn`: a
// program CheckWarps has accepted.
Result<std::vector<LoopRate>> RatesOf(const Function& fn, const Target& target, DiagSink& diags);

}  // namespace tilec::ir
