// The graph as the checker of refutations reads it: what holds always, what only where two ops
// share a role, what only where they do not (routes, scheduler/graph.h). Written from the
// definitions in docs/scheduler.md §2; the solver has a reading of its own.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "scheduler/graph.h"

namespace tilec::certify {

enum class When { kAlways, kTogether, kApart };

// t(to) + distance·II >= t(from) + delay, and `transfer` more between roles.
struct Arc {
  int from = 0, to = 0;
  bool value = false;    // `to` reads the value of `from`
  bool carried = false;  // in registers from one iteration to the next
  bool fixed = false;    // both ends are in one role
  int64_t delay = 0, transfer = 0, distance = 0, hold = 0;
  When when = When::kAlways;  // of the roles of `first` and `second`
  int first = -1, second = -1;
  std::string text;  // "a -> b (next 1)"
};

// Those of the graph's edges in their order, then three for each route.
std::vector<Arc> Arcs(const scheduler::Graph& graph);

// By op: the op whose role it has. Itself, or the end of the edge at which it stands in a route.
std::vector<int> Owners(const scheduler::Graph& graph);

// Warps of the load role, 0: there is none.
int LoadWarps(const scheduler::Graph& graph);

// How many roles of one width there can be: no more than ops of that width, nor than the machine's
// warps leave beside one role of every other width and the load role.
struct Width {
  int warps = 0;
  int roles = 0;         // 0: no room for a single one
  std::vector<int> ops;  // of that width; not the loads', not of routes
};
std::vector<Width> Widths(const scheduler::Graph& graph);  // widest first

// Registers per thread, added up over `warpgroups`, of a launch of that size (§2, law 6).
int64_t RegisterPool(const scheduler::Graph& graph, int64_t warpgroups);

// How far apart, in periods, the stages of some schedule are, if there is a schedule at all: where
// ops in order of time are further apart than every edge can ask for, the later ones may move a
// period closer. With pinned cycles or stages the loop begins at 0 and may have to reach them.
int64_t StageReach(const scheduler::Graph& graph, int64_t ii);

// An author pinned a cycle or a stage: then cycle 0 is the loop's, and no op stands before it.
bool PinsTime(const scheduler::Graph& graph);
bool PinsCycle(const scheduler::Graph& graph);

}  // namespace tilec::certify
