// Timed event graphs: what a program of roles, waits and rings does over time, with everything but
// order and delay forgotten.
//
// A node fires once per period. An edge says: firing p of `to` happens no earlier than `delay`
// after firing p − `tokens` of `from`. A circle of edges with no token is a deadlock; otherwise the
// rate of the whole graph is its largest circle ratio Σ delay / Σ tokens, exactly.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace tilec::ir {

struct EventEdge {
  int from = 0, to = 0;
  int64_t delay = 0;   // >= 0
  int64_t tokens = 0;  // may be negative: then `to` runs ahead, and some other edge must pay
};

struct EventGraph {
  int nodes = 0;
  std::vector<EventEdge> edges;
};

// A circle whose tokens add up to zero or less, as indices of edges in order; empty: live.
std::vector<int> DeadCircle(const EventGraph& graph);

// The exact period of a live graph.
struct Period {
  int64_t delay = 0;        // of the critical circle
  int64_t tokens = 1;       // the period is delay / tokens
  std::vector<int> circle;  // edges of the critical circle, in order; empty: no circle at all
  int64_t Ceil() const { return (delay + tokens - 1) / tokens; }
};
Period ExactPeriod(const EventGraph& graph);

}  // namespace tilec::ir
