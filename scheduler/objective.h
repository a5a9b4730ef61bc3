// The best schedule at one period, and what "best" is: the criteria of Objective, one after the
// other. objective.cc descends; compact.cc and slack.cc do what follows where questions are left.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "scheduler/search.h"

namespace tilec::scheduler {

// In the order in which they count.
inline constexpr std::pair<int64_t Objective::*, std::string_view> kObjectiveNames[] = {
    {&Objective::compute_groups, "wide_roles"},
    {&Objective::warps, "warps"},
    {&Objective::cross_bytes, "cross_bytes"},
    {&Objective::waits, "waits"},
    {&Objective::stages, "stages"},
    {&Objective::smem_bytes, "smem_bytes"},
    {&Objective::slack, "slack"}};

// Found from any.
struct Optimum {
  Search::Found found;
  Objective objective;
  bool proved = false;
};
Optimum Optimize(Search& search, const Search::Found& start, int64_t ii);
// Lowers the criteria but the roles one after the other, within the session's offer and II. `last`:
// nothing else is asked of the session, so what sums answer need not be.
void Improve(Search& search, Session& session, Optimum* best, bool last);
// Where the descent ran out of budget: each op's period anew, at its role and slot. Taken only if
// the objective is better and Check finds no law broken.
void Compact(const Graph& graph, const SolveOptions& options, Optimum* best);
// Raises the slack of a schedule whose other criteria stay as good, at its II.
void MaximizeSlack(Search& search, Optimum* best);
int64_t SlackOf(const Graph& graph, const Search::Found& found);
// Literals that hold every component but the roles at these values or better.
std::vector<Lit> ObjectiveBounds(Session& session, const Graph& graph, const Objective& objective);
Objective ObjectiveOf(const Graph& graph, const SolveOptions& options, const Search::Found& found);

}  // namespace tilec::scheduler
