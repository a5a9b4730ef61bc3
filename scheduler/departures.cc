// SPDX-License-Identifier: Apache-2.0
#include "scheduler/departures.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "ir/queries.h"
#include "scheduler/as_loop.h"
#include "scheduler/check.h"
#include "scheduler/in_turns.h"
#include "scheduler/search.h"

namespace tilec::scheduler {

namespace {

using ir::OpId;

// Are loops solved again under the law? Their programs are right, and by the model 1 to 4 % faster
// (attention of D = 128: 2405 cycles in place of 2506). On an H200 they lose 5 to 7 % without a
// mask (docs/perf_log.md, 2026-11-28): the model misses what their order costs.
constexpr bool kSolvedAgain = false;
// The law is tried with products so many turns behind the first one, of so many products.
constexpr int kTurnsBehind = 2;
constexpr size_t kProducts = 3;
// II that is given for fewer registers: what they are needed for is not all in the model.
constexpr double kForRegisters = 0.01;
// Of the product that comes first: loads and what is made of them may be two turns ahead.
constexpr int kFirstStage = 2;

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

// A product, and who reads what it makes, with their distances.
struct Together {
  int product = 0;
  std::vector<std::pair<int, int64_t>> readers;
};

// By what comes first in an iteration. Empty too where there are more than are tried.
std::vector<Together> ProductsRead(const CutProgram& c, const LoopReport& report) {
  const Graph& graph = report.extraction.graph;
  const auto product = [&](int g) {
    const OpOrigin& origin = report.extraction.origins[static_cast<size_t>(g)];
    const OriginStep& main = origin.steps[static_cast<size_t>(origin.main)];
    return main.kind == StepKind::kOp && c.in_flight.count(main.op) > 0;
  };
  std::map<int, Together> found;
  for (const GraphEdge& e : graph.edges)
    if (e.kind == EdgeKind::kRegister && product(e.from) && !product(e.to)) {
      found[e.from].product = e.from;
      found[e.from].readers.push_back({e.to, e.distance});
    }
  std::vector<Together> all;
  for (auto& [g, together] : found) all.push_back(std::move(together));
  if (all.size() > kProducts) return {};
  const auto cycle = [&](int g) {
    for (const ir::ScheduledOp& op : report.solution.schedule.ops)
      if (op.name == graph.ops[static_cast<size_t>(g)].name) return op.cycle;
    return int64_t{0};
  };
  std::stable_sort(all.begin(), all.end(), [&](const Together& a, const Together& b) {
    return cycle(a.product) < cycle(b.product);
  });
  return all;
}

// Pins for products that come so many turns behind the first one; empty: they contradict.
std::vector<Graph::Pin> PinsOf(const Graph& graph, const std::vector<Together>& products,
                               const std::vector<int>& behind) {
  std::map<int, int64_t> stages;
  for (size_t i = 0; i < products.size(); ++i) {
    const int64_t stage = kFirstStage + behind[i];
    if (stages.emplace(products[i].product, stage).first->second != stage) return {};
    for (const auto& [reader, distance] : products[i].readers)
      if (stages.emplace(reader, stage - distance).first->second != stage - distance) return {};
  }
  std::vector<Graph::Pin> pins;
  for (const auto& [g, stage] : stages) {
    if (stage < 0) return {};
    Graph::Pin pin;
    pin.op = graph.ops[static_cast<size_t>(g)].name;
    pin.stage = static_cast<int>(stage);
    pins.push_back(std::move(pin));
  }
  return pins;
}

int64_t MostRegisters(const Solution& solution) {
  const std::vector<int64_t>& regs = solution.report.role_regs;
  return regs.empty() ? 0 : *std::max_element(regs.begin(), regs.end());
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

}  // namespace

ir::LoopSchedule LoopScheduleOf(const CutProgram& c, const LoopReport& report,
                                const std::map<int, int>& compute) {
  ir::LoopSchedule schedule = ToLoopSchedule(c.fn, report, compute, c.schedule.slices);
  schedule.warpgroups = c.schedule.warpgroups;
  schedule.in_flight = c.in_flight;
  schedule.in_place = c.in_place;
  return schedule;
}

void SolveInTurns(const CutProgram& c, OpId loop, const ProgramOptions& options, Graph* graph,
                  LoopReport* report) {
  if (!kSolvedAgain || c.at_once || c.in_place || c.schedule.slices > 1) return;
  const auto compute = ComputeRoles(report->extraction.graph, report->solution.schedule, 1);
  if (!compute || compute->size() != 1) return;
  std::string why;
  const auto plan = PlanLoop(c.fn, loop, LoopScheduleOf(c, *report, *compute), &why);
  if (!plan || plan->departures.empty()) return;
  const std::vector<TurnPlace> places = PlacesOf(*report, *plan);
  if (places.empty() ||
      InTurns(*graph, report->solution.schedule, places, report->solution.schedule.ii))
    return;
  const auto runs = PeriodInTurns(*graph, report->solution.schedule, places);
  const std::vector<Together> products = ProductsRead(c, *report);
  if (products.empty()) return;

  const int64_t most = MostRegisters(report->solution);
  std::optional<Solution> best;
  std::vector<Graph::Pin> law;
  std::vector<int> behind(products.size(), 0);
  for (bool more = true; more;) {
    Graph pinned = *graph;
    const std::vector<Graph::Pin> pins = PinsOf(*graph, products, behind);
    pinned.pins.insert(pinned.pins.end(), pins.begin(), pins.end());
    DiagSink attempt;
    Result<Solution> solution = pins.empty()
                                    ? Result<Solution>(DiagSink::Propagate())
                                    : SolveStored(pinned, options.solve, options.store, attempt);
    if (solution.ok()) {
      LoopReport tried = *report;
      tried.solution = *solution;
      const auto again = ComputeRoles(tried.extraction.graph, tried.solution.schedule, 1);
      const auto order =
          again ? PlanLoop(c.fn, loop, LoopScheduleOf(c, tried, *again), &why) : std::nullopt;
      const auto ii = static_cast<double>(solution->schedule.ii);
      const bool better =
          !best || (MostRegisters(*solution) < MostRegisters(*best)
                        ? ii <= (1 + kForRegisters) * static_cast<double>(best->schedule.ii)
                        : (1 + kForRegisters) * ii < static_cast<double>(best->schedule.ii));
      // What needs more registers may not be lowered at all.
      const bool fits = MostRegisters(*solution) <= most;
      if (order && order->departures.empty() && better && fits) {
        best = std::move(*solution);
        law = pins;
      }
    }
    more = false;
    for (size_t i = 1; i < behind.size() && !more; ++i) {
      more = ++behind[i] <= kTurnsBehind;
      if (!more) behind[i] = 0;
    }
  }
  if (!best || (runs && best->schedule.ii >= *runs)) return;
  report->solution = std::move(*best);
  report->turns = law;
  graph->pins.insert(graph->pins.end(), law.begin(), law.end());
}

void SettleDepartures(const CutProgram& c, OpId loop, const std::map<int, int>& compute,
                      const ir::LoopPlan& plan, LoopReport* report) {
  if (plan.departures.empty()) return;
  const Graph& graph = report->extraction.graph;
  const ir::Schedule& solved = report->solution.schedule;
  const int64_t ii = solved.ii;
  std::vector<TurnPlace> places;
  if (!c.schedule.apart && !c.at_once) places = PlacesOf(*report, plan);
  const std::optional<int64_t> period =
      places.empty() ? std::nullopt : PeriodInTurns(graph, solved, places);
  bool told = false;
  if (period) {
    if (std::optional<ir::Schedule> runs = InTurns(graph, solved, places, *period)) {
      LoopReport settled = *report;
      Restate(graph, std::move(*runs), &settled.solution);
      std::string why;
      const auto again = PlanLoop(c.fn, loop, LoopScheduleOf(c, settled, compute), &why);
      told = again && SameProgram(*again, plan);
      if (told) *report = std::move(settled);
    }
  }
  if (told && *period == ii) return;
  for (const std::string& departure : plan.departures)
    report->notes.push_back(
        period && *period > ii ? fmt::format("{}: {} cycles in place of {}", departure, *period, ii)
                               : departure);
  // Where `tilec schedule` writes the schedule that runs, a file has no reason for another.
  if (told && *period > ii) report->lost = report->notes.back();
}

}  // namespace tilec::scheduler
