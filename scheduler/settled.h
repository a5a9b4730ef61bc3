// Exact answers without a solver where who shares a role with whom is settled: is there a schedule
// with this period, so few stages, so little shared memory, so much slack?
//
// Once roles are settled, two ops that take turns (on a unit of one instance, or in the instruction
// stream of their role) leave one thing open: how many whole periods lie between them. For each
// number the law is two inequalities between their cycles, and so are dependences, stages and
// rings. So the search decides such numbers one after the other and keeps the longest paths between
// all ops up to date: what they leave no room for is never tried. Streams that are full to the last
// cycle, which a solver counts through order by order, are cut off by sums: Jackson's order, most
// urgent first, with interruptions. Ops that nothing ties together from both sides move by whole
// periods as they like, so only their slots count.
//
// Registers and memory are laws of what is found, not of the search: a schedule that breaks them is
// mended by moving single ops, and where that fails the question stays open.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "scheduler/graph.h"
#include "scheduler/needs.h"
#include "scheduler/scheduler.h"
#include "scheduler/solver.h"

namespace tilec::scheduler {

// What is asked about: a graph and the roles on offer.
struct SettledProblem {
  const Graph& graph;
  const Graph& ties;  // says which ops share a role; `graph` but where laws are left out one by one
  const SolveOptions& options;
  const RoleOffer& offer;
};

struct SettledQuestion {
  int64_t ii = 0;
  std::optional<int64_t> cross_bytes, waits, stages, smem_bytes;  // at most
  std::optional<int64_t> slack;                                   // at least
};

struct SettledReply {
  Answer answer = Answer::kUnknown;
  bool asked = false;          // divisions are few
  bool short_of_work = false;  // kUnknown: more of it might have answered
  Placement placement;         // kSat: every law holds (scheduler/check.h)
};

// Graphs and options whose laws this search knows.
bool SettledApplies(const Graph& graph, const SolveOptions& options);

// Of all divisions into the roles of the offer, where they are few. `only_refute`: kSat says no
// more than that turns rule nothing out. `work`: what is left, in decisions by the square of the
// number of ops, and less afterwards.
SettledReply AskSettled(const SettledProblem& problem, const SettledQuestion& question,
                        int64_t* work, bool only_refute = false);

// Any schedule with this period. A refutation rests on dependences, units, issue and roles alone.
// `unplaced`: periods that were asked for in vain before; each halves what this one may take.
// `by_stages`: in any number of stages there is none to be found, so only with few.
SettledReply PlaceSettled(const SettledProblem& problem, int64_t ii, int unplaced, bool by_stages,
                          int64_t* work);

// The laws that such a refutation rests on, as few as can be left: also those that say why roles of
// the offer stay empty.
std::vector<CoreItem> SettledCore(const Graph& graph, const SolveOptions& options,
                                  const RoleOffer& offer, int64_t ii);

// The divisions of ops among the roles of the offer, but for names of roles; none: too many.
std::optional<std::vector<std::vector<int>>> Divisions(const Graph& graph, const Graph& ties,
                                                       const RoleOffer& offer);

}  // namespace tilec::scheduler
