// A graph's solution: the smallest period (smallest.h), the best schedule of it, what is proved of
// both, and the judgement of the checker.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "scheduler/diagnostics.h"
#include "scheduler/first_answer.h"
#include "scheduler/objective.h"
#include "scheduler/prove.h"
#include "scheduler/search.h"
#include "scheduler/smallest.h"
#include "scheduler/to_schedule.h"

namespace tilec::scheduler {

namespace {

// Feasible or not by the laws that the checker knows: ablations switch some off.
bool Judged(const SolveOptions& options) {
  return options.register_limits && options.warp_constraints;
}

Span PlaceOf(const Graph& graph) { return graph.ops.empty() ? Span{} : graph.ops.front().at; }

DiagBuilder WithCore(DiagBuilder builder, const std::vector<CoreItem>& core) {
  for (const CoreItem& item : core) builder.Note(item.law + ": " + item.text);
  return builder;
}

Result<Solution> Fail(Search& search, const Range& range, DiagSink& diags) {
  const Graph& graph = search.graph();
  const SolveOptions& options = search.options();
  const int64_t asked = options.fixed_ii.value_or(0);
  const bool refuted =
      range.refutation &&
      (asked > 0 ? range.proved_below > asked : range.proved_below > search.LargestUsefulIi());
  if (!refuted) return diags.Report(kOutOfBudget, PlaceOf(graph), graph.name, range.proved_below);
  const std::vector<CoreItem> core = search.Explain(*range.refutation);
  const std::string at = asked > 0 ? fmt::format(" at II {}", asked) : "";
  std::vector<Span> pins;
  const bool of_author = std::any_of(graph.pins.begin(), graph.pins.end(),
                                     [](const Graph::Pin& pin) { return pin.OfAuthor(); });
  bool pinned = false;
  for (const CoreItem& item : core) {
    pinned = pinned || (of_author && item.law == LawName(Law::kPin));
    const bool known = std::any_of(pins.begin(), pins.end(),
                                   [&](const Span& s) { return s.begin == item.at.begin; });
    if (item.at.known() && !known) pins.push_back(item.at);
  }
  if (pinned) {
    DiagBuilder report =
        diags.Report(kContradictoryPins, pins.empty() ? PlaceOf(graph) : pins[0], graph.name, at);
    for (size_t i = 1; i < pins.size(); ++i) report.Label(pins[i], "with this pin");
    return WithCore(report, core);
  }
  return WithCore(diags.Report(kNoSchedule, PlaceOf(graph), graph.name, at), core);
}

// The smallest II within [low, best.ii] at which a schedule as good exists.
void TightenPeriod(Search& search, int64_t low, Optimum* best) {
  constexpr int kQuestions = 3;
  constexpr int64_t kLimit = 3'000'000;
  int64_t ii = low;
  if (ii < best->found.ii)
    if (const std::optional<Search::Found> found =
            BetterAnswer(search.graph(), search.options(), ii, best->objective, true)) {
      best->found = *found;
      return;
    }
  for (int i = 0; i < kQuestions && ii < best->found.ii; ++i) {
    const RoleOffer& offer = best->found.offer;
    const Objective& o = best->objective;
    const SettledQuestion question{ii, o.cross_bytes, o.waits, o.stages, o.smem_bytes, {}};
    std::optional<Placement> placement;
    if (search.hard()) {  // a proof says nothing of this period, so nothing dear is asked
      placement = search.Dare(offer, question);
    } else {
      const std::shared_ptr<Session> session = search.SessionFor(ii, offer);
      Session::Outcome outcome = search.Ask(*session, ObjectiveBounds(*session, search.graph(), o),
                                            question, search.Limit(kLimit));
      if (outcome.answer == Answer::kSat) placement = std::move(outcome.placement);
    }
    if (placement) {
      Search::Found found{*std::move(placement), offer, ii};
      const Objective objective = ObjectiveOf(search.graph(), search.options(), found);
      if (!(objective == best->objective)) return;
      best->found = std::move(found);
      return;
    }
    ii = ii + (best->found.ii - ii + 1) / 2;
  }
}

// Rings read without hold may be overwritten in the cycle of the read. Two such rings can wait for
// each other: lawful cycle by cycle, a deadlock for programs. A hold of one cycle rules that out.
std::optional<Graph> WithHolds(const Graph& graph) {
  Graph held = graph;
  bool changed = false;
  for (GraphEdge& edge : held.edges)
    if (edge.kind != EdgeKind::kOrder && edge.hold == 0 && edge.from != edge.to &&
        (graph.ops[edge.from].smem_bytes > 0 || graph.ops[edge.from].tmem_columns > 0)) {
      edge.hold = 1;
      changed = true;
    }
  if (!changed) return std::nullopt;
  return held;
}

constexpr int64_t kMuchOpen = 20;  // a twentieth

// Solves `laws`, and judges the answer as a schedule of `graph`: the same, or less strict.
// `before`: a search that knows a period, of which only a shorter one is worth finding; no proof is
// asked for.
Result<Solution> SolveAs(const Graph& graph, const Graph& laws, const SolveOptions& options,
                         DiagSink& diags, const Search* before = nullptr, int64_t known = 0) {
  const bool exact = &graph == &laws;
  Search search(laws, options);
  Solution solution;
  Certificate& c = solution.certificate;
  c.graph = graph.name;
  c.machine = graph.machine.name;
  c.graph_hash = Hash(graph);
  c.bound = search.LowerBound();
  c.epsilon = options.optimize_secondary && !options.fixed_ii
                  ? static_cast<double>(Millionths(options.epsilon)) / 1e6
                  : 0;

  Range range = before ? FindShorter(search, c.bound.ii, known, *before)
                       : SmallestOf(search, c.bound.ii, &solution.first_ii);
  if (!range.best) return Fail(search, range, diags);
  // What stays open by much without the solver may be easy with it.
  if (search.hard() && !options.first_answer &&
      kMuchOpen * (range.best->ii - range.proved_below) > range.best->ii) {
    SolveOptions by_solver = options;
    by_solver.settled = false;
    DiagSink unsaid;
    Result<Solution> other = SolveAs(graph, laws, by_solver, unsaid,
                                     search.hurried() ? &search : nullptr, range.best->ii);
    if (other.ok() && other->certificate.ii < range.best->ii) {
      other->first_ii = solution.first_ii;
      unsaid.MoveTo(diags);
      return other;
    }
    unsaid.Clear();
  }

  c.ii = range.best->ii;
  // Pinned cycles move to another slot with the period: no refutation says anything of smaller
  // ones.
  const bool monotone = !CyclesPinned(laws);
  c.within = LargestWithin(c.ii, c.epsilon);
  solution.lower_bound = monotone ? std::min(range.proved_below, c.ii) : c.bound.ii;
  if (c.bound.ii == c.ii) {
    c.proof = Proof::kBound;
    solution.lower_bound = c.ii;
  } else if (!exact) {
    solution.lower_bound = c.bound.ii;  // refutations of stricter laws prove nothing
  } else if (!monotone) {
    c.proof = Proof::kNone;
  } else if (range.proved_below == c.ii && range.refutation) {
    c.proof = Proof::kRefuted;
    c.core = InOrder(graph, c.ii - 1, search.Explain(*range.refutation));
  }

  Optimum best{*range.best, ObjectiveOf(laws, options, *range.best), false};
  if (options.optimize_secondary) {
    best = Optimize(search, *range.best, c.within);
    if (!best.proved) Compact(laws, options, &best);
    TightenPeriod(search, c.ii, &best);
    MaximizeSlack(search, &best);
  }
  c.schedule_ii = best.found.ii;
  c.objective = best.objective;
  c.objective.slack = SlackOf(laws, best.found);
  c.objective_proved = best.proved && exact;
  solution.schedule = ToSchedule(graph, options, best.found);
  solution.resources = search.resources();
  solution.report = Check(graph, solution.schedule);
  if (Judged(options) && !solution.report.violations.empty()) {
    const Violation& violation = solution.report.violations.front();
    if (exact && violation.law == "liveness")
      if (const std::optional<Graph> held = WithHolds(graph))
        return SolveAs(graph, *held, options, diags);
    return diags.Report(kWrongSolution, PlaceOf(graph), graph.name,
                        violation.law + ": " + violation.text);
  }
  return solution;
}

}  // namespace

Result<Solution> Solve(const Graph& graph, const SolveOptions& options, DiagSink& diags) {
  return SolveAs(graph, graph, options, diags);
}

Feasibility FeasibleAt(const Graph& graph, int64_t ii, const SolveOptions& options) {
  Feasibility result;
  Search search(graph, options);
  const Search::Verdict verdict = search.At(ii, search.query_limit());
  switch (verdict.answer) {
    case Answer::kSat:
      result.kind = Feasibility::Kind::kFeasible;
      result.schedule = ToSchedule(graph, options, verdict.found);
      break;
    case Answer::kUnsat:
      result.kind = Feasibility::Kind::kInfeasible;
      result.core = search.Explain(verdict);
      break;
    case Answer::kUnknown: break;
  }
  return result;
}

}  // namespace tilec::scheduler
