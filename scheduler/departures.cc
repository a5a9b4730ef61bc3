// SPDX-License-Identifier: Apache-2.0
#include "scheduler/departures.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "ir/queries.h"
#include "scheduler/as_loop.h"
#include "scheduler/check.h"
#include "scheduler/in_turns.h"
#include "scheduler/objective.h"
#include "scheduler/search.h"
#include "scheduler/to_schedule.h"
#include "support/expr.h"

namespace tilec::scheduler {

namespace {

using ir::OpId;

// Where the lowering's turns run the ops of the graph. Empty: parts of an op stand in two turns.
std::vector<TurnPlace> PlacesOf(const LoopReport& report, const ir::LoopPlan& plan) {
  std::map<OpId, size_t> rank;
  for (size_t i = 0; i < plan.order.size(); ++i) rank[plan.order[i].op] = i;
  std::map<std::string, int> roles = RolesByName(report.solution.schedule);
  std::vector<TurnPlace> places(report.extraction.graph.ops.size());
  for (size_t g = 0; g < places.size(); ++g)
    for (OpId id : report.extraction.origins[g].members()) {
      const auto at = rank.find(id);
      if (at == rank.end() || plan.order[at->second].role < 0) continue;
      const ir::PlannedOp& planned = plan.order[at->second];
      TurnPlace& place = places[g];
      if (place.role >= 0 && place.stage != planned.stage) return {};
      if (place.role < 0 || place.rank > static_cast<int64_t>(at->second))
        place.rank = static_cast<int64_t>(at->second);
      place.role = roles.at(report.extraction.graph.ops[g].name);
      place.stage = planned.stage;
      place.done = place.done || plan.awaited.count(id) > 0;
    }
  return places;
}

bool SameProgram(const ir::LoopPlan& a, const ir::LoopPlan& b) {
  const auto same = [](const ir::PlannedOp& x, const ir::PlannedOp& y) {
    return x.op == y.op && x.role == y.role && x.stage == y.stage;
  };
  const auto token = [](const ir::PlannedToken& x, const ir::PlannedToken& y) {
    return x.from == y.from && x.to == y.to && x.turns == y.turns;
  };
  return a.stages == b.stages && a.going_on == b.going_on &&
         std::equal(a.order.begin(), a.order.end(), b.order.begin(), b.order.end(), same) &&
         std::equal(a.tokens.begin(), a.tokens.end(), b.tokens.begin(), b.tokens.end(), token);
}

// A solution whose schedule is another one: its certificate says no more than holds of it.
void Restate(const Graph& graph, ir::Schedule schedule, Solution* solution) {
  Certificate& c = solution->certificate;
  solution->schedule = std::move(schedule);
  solution->report = Check(graph, solution->schedule);
  c.schedule_ii = solution->schedule.ii;
  if (c.schedule_ii > c.within) {
    c.ii = c.schedule_ii;
    c.within = LargestWithin(c.ii, c.epsilon);
    c.proof = Proof::kNone;
    c.core.clear();
  }
  const Search::Found found = FoundOf(graph, solution->schedule);
  Objective objective = ObjectiveOf(graph, {}, found);
  objective.slack = SlackOf(graph, found);
  c.objective_proved = c.objective_proved && objective == c.objective;
  c.objective = objective;
}

// The same schedule, the turn of the role that the plan names first beginning at slot 0: of turns
// that cost the same the planner takes the one that begins in the earliest slot.
ir::Schedule FromItsTurn(const Graph& graph, ir::Schedule schedule,
                         const std::vector<TurnPlace>& places) {
  const TurnPlace* first = nullptr;
  for (const TurnPlace& place : places)
    if (place.role >= 0 && (first == nullptr || place.rank < first->rank)) first = &place;
  if (first == nullptr) return schedule;
  int64_t begin = INT64_MAX;
  for (const ir::ScheduledOp& op : schedule.ops) {
    const int v = graph.FindOp(op.name);
    if (v < 0 || places[static_cast<size_t>(v)].role != first->role) continue;
    begin = std::min(begin, op.cycle - places[static_cast<size_t>(v)].stage * schedule.ii);
  }
  int64_t least = INT64_MAX;
  for (const ir::ScheduledOp& op : schedule.ops) least = std::min(least, op.cycle - begin);
  const int64_t by = begin + FloorDiv(least, schedule.ii) * schedule.ii;
  for (ir::ScheduledOp& op : schedule.ops) op.cycle -= by;
  return schedule;
}

}  // namespace

ir::LoopSchedule LoopScheduleOf(const CutProgram& c, const LoopReport& report,
                                const std::map<int, int>& compute) {
  ir::LoopSchedule schedule = ToLoopSchedule(c.fn, report, compute, c.schedule.slices);
  schedule.warpgroups = c.schedule.warpgroups;
  schedule.in_flight = c.in_flight;
  schedule.in_place = c.in_place;
  schedule.close = c.close;
  return schedule;
}

// Turns of the solved schedule that one as the program runs it may take. Results that are used as
// soon as they are made come one after the other, however many turns were solved for them.
constexpr int64_t kMostTurns = 2, kMostTurnsOfClose = 16;

bool SettleDepartures(const CutProgram& c, OpId loop, const std::map<int, int>& compute,
                      const ir::LoopPlan& plan, LoopReport* report) {
  if (plan.departures.empty()) return true;
  const Graph& graph = report->extraction.graph;
  const ir::Schedule& solved = report->solution.schedule;
  const int64_t ii = solved.ii;
  std::vector<TurnPlace> places;
  if (!c.schedule.apart && !c.at_once) places = PlacesOf(*report, plan);
  const std::optional<int64_t> period =
      places.empty()
          ? std::nullopt
          : PeriodInTurns(graph, solved, places, c.close ? kMostTurnsOfClose : kMostTurns);
  bool told = false;
  if (period) {
    std::vector<ir::Schedule> ways;
    if (std::optional<ir::Schedule> runs = InTurns(graph, solved, places, *period))
      ways = {*runs, FromItsTurn(graph, *runs, places)};
    for (size_t way = 0; way < ways.size() && !told; ++way) {
      LoopReport settled = *report;
      Restate(graph, std::move(ways[way]), &settled.solution);
      std::string why;
      const auto again = PlanLoop(c.fn, loop, LoopScheduleOf(c, settled, compute), &why);
      told = again && SameProgram(*again, plan);
      if (told) *report = std::move(settled);
    }
  }
  if (told && *period == ii) return true;
  for (const std::string& departure : plan.departures)
    report->notes.push_back(
        period && *period > ii ? fmt::format("{}: {} cycles in place of {}", departure, *period, ii)
                               : departure);
  // Where `tilec schedule` writes the schedule that runs, a file has no reason for another.
  if (told && *period > ii) report->lost = report->notes.back();
  return told;
}

}  // namespace tilec::scheduler
