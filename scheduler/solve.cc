// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>
#include <tuple>

#include "scheduler/diagnostics.h"
#include "scheduler/first_answer.h"
#include "scheduler/objective.h"
#include "scheduler/prove.h"
#include "scheduler/role_guess.h"
#include "scheduler/routes.h"
#include "scheduler/search.h"
#include "scheduler/to_schedule.h"

namespace tilec::scheduler {

namespace {

// Feasible or not by the laws that the checker knows: ablations switch some off.
bool Judged(const SolveOptions& options) {
  return options.register_limits && options.warp_constraints;
}

bool CyclesPinned(const Graph& graph) {
  return std::any_of(graph.pins.begin(), graph.pins.end(),
                     [](const Graph::Pin& pin) { return pin.cycle >= 0; });
}

Span PlaceOf(const Graph& graph) { return graph.ops.empty() ? Span{} : graph.ops.front().at; }

// What the search over initiation intervals found out.
struct Range {
  std::optional<Search::Found> best;          // smallest feasible
  int64_t proved_below = 0;                   // everything smaller is infeasible
  std::optional<Search::Verdict> refutation;  // at proved_below − 1, where a solver was needed
};

// From what is known without a solver: the bound first, then bisection, so that every answer halves
// the gap. Without a first answer a feasible II by growing steps, asked with a tenth of the budget
// each: a period that is full to the last cycle can be hard where one with a little air is easy.
// Where a question stays open the search goes on above it, and the gap is reported.
Range FindSmallest(Search& search, int64_t start, std::optional<Search::Found> known) {
  Range range;
  range.proved_below = start;
  range.best = std::move(known);
  if (range.best && range.best->ii <= start) return range;
  int64_t low = start;  // neither refuted nor given up
  auto ask = [&](int64_t ii, int64_t limit, bool first) {
    Search::Verdict verdict = search.At(ii, limit, first);
    if (verdict.answer == Answer::kSat) {
      if (!range.best || verdict.found.ii < range.best->ii) range.best = verdict.found;
      return true;
    }
    if (verdict.answer == Answer::kUnsat && ii + 1 > range.proved_below) {
      // Monotone: infeasible here is infeasible below.
      range.proved_below = ii + 1;
      range.refutation = std::move(verdict);
      search.Rest(0, ii);  // what explains it is asked of this period
    }
    low = ii + 1;
    return false;
  };
  const int64_t limit = search.query_limit(), quick = std::max<int64_t>(1, limit / 10);
  if (ask(start, quick, true)) return range;
  // Pinned cycles change their slot with the period, so nothing is monotone: step by one first.
  if (CyclesPinned(search.graph())) {
    constexpr int kSteps = 64;
    for (int i = 1; i <= kSteps; ++i)
      if (ask(start + i, quick, true)) return range;
  }
  const int64_t largest = std::max(start, search.LargestUsefulIi());
  for (int64_t step = std::max<int64_t>(1, start / 64); !range.best; step *= 2) {
    const int64_t ii = std::min(largest, low - 1 + step);
    if (!ask(ii, ii == largest ? limit : quick, true) && ii == largest) return range;
  }
  low = range.proved_below;
  while (low < range.best->ii && search.Limit(limit) > 0)
    ask(low + (range.best->ii - 1 - low) / 2, limit, false);
  return range;
}

// What follows asks about the period that was found and longer ones that are as good by what is
// tolerated, and about the one that was refuted last.
void RestBeside(Search& search, const Range& range) {
  const int64_t found = range.best->ii;
  const SolveOptions& options = search.options();
  search.Rest(range.proved_below, found);
  search.Rest(LargestWithin(found, options.optimize_secondary ? options.epsilon : 0) + 1,
              std::numeric_limits<int64_t>::max());
}

// The bound in few roles, and halves between it and a period that is known as long as they are
// worth it: the bound first, or, where capacities were in the way `before` (it is seldom there
// then), once a half stays open. Two questions that stay open are enough.
Range FindShorter(Search& search, int64_t start, int64_t known, const Search& before) {
  constexpr int64_t kWorth = 50;  // a fiftieth
  constexpr int64_t kBound = 750'000, kBoundLate = 500'000, kHalf = 600'000;
  constexpr int kOpen = 2;
  Range range;
  range.proved_below = start;
  int64_t low = start, high = known;
  int open = 0;
  const auto ask = [&](int64_t ii, int64_t limit, bool small_first) {
    Search::Verdict verdict = search.At(ii, limit, small_first);
    open += verdict.answer == Answer::kUnknown;
    if (verdict.answer == Answer::kUnsat)
      range.proved_below = std::max(range.proved_below, ii + 1);
    if (verdict.answer == Answer::kSat)
      high = verdict.found.ii, range.best = std::move(verdict.found);
    else
      low = std::max(low, ii + 1);
  };
  bool bound_asked = !before.met_overflows();
  if (bound_asked) ask(start, kBound, true);
  while (kWorth * (high - low) > high && open < kOpen) {
    ask(low + (high - low) / 2, kHalf, false);
    if (open > 0 && !bound_asked) {
      bound_asked = true;
      ask(start, kBoundLate, true);
    }
  }
  if (range.best) RestBeside(search, range);
  return range;
}

// The same with one role less on offer; it may go on with fewer still.
std::optional<SolveOptions> WithFewerRoles(const Search& search) {
  size_t most = 0;  // roles that some schedule fills
  for (const RoleOffer& offer : search.offers().Largest())
    most = std::max(most, search.Occupied(offer).widths.size());
  if (most <= 1 || !search.options().warp_constraints) return std::nullopt;
  SolveOptions fewer = search.options();
  const int load = search.offers().Largest().front().load ? 1 : 0;
  fewer.max_roles = static_cast<int>(most) - 1 + load;
  return fewer;
}

// A first answer, and the divisions into roles that it was looked for in.
struct Guessed {
  std::vector<RoleGuess> guesses;
  std::optional<Search::Found> found;
};

// With fewer roles on offer the divisions that come into question are often the same; so is then
// what is found in them.
Guessed GuessFirst(const Search& search, int64_t bound, const Guessed* wider) {
  const SolveOptions& options = search.options();
  Guessed guessed;
  if (!options.modulo_scheduling) return guessed;
  guessed.guesses = GuessRoles(search.graph(), options, bound);
  const auto same = [](const RoleGuess& a, const RoleGuess& b) {
    return a.group == b.group && a.offer.widths == b.offer.widths;
  };
  if (wider && std::equal(guessed.guesses.begin(), guessed.guesses.end(), wider->guesses.begin(),
                          wider->guesses.end(), same))
    guessed.found = wider->found;
  else
    guessed.found = FirstAnswer(search.graph(), options, bound);
  return guessed;
}

Range SmallestOf(Search& search, int64_t bound, int64_t* first_ii, const Guessed* wider = nullptr,
                 const Range* above = nullptr);

// A graph with routes is a plain one with more freedom. What the plain one reaches, by as many
// resources as its own search has, is known before the larger question is asked.
std::optional<Search::Found> WithoutCrossing(const Search& search, int64_t bound) {
  const Graph& graph = search.graph();
  if (!HasRoutes(graph)) return std::nullopt;
  std::vector<int> kept;
  const Graph plain = WithoutRoutes(graph, &kept);
  Search narrow(plain, search.options());
  int64_t first_ii = 0;
  std::optional<Search::Found> found = SmallestOf(narrow, bound, &first_ii).best;
  if (!found) return std::nullopt;
  Placement wide{std::vector<int64_t>(graph.ops.size(), 0), std::vector<int>(graph.ops.size(), 0)};
  for (size_t i = 0; i < kept.size(); ++i) {
    wide.cycle[kept[i]] = found->placement.cycle[i];
    wide.group[kept[i]] = found->placement.group[i];
  }
  Settle(graph, &wide);
  found->placement = std::move(wide);
  return found;
}

void TakeBetter(std::optional<Search::Found> other, std::optional<Search::Found>* best) {
  if (other && (!*best || other->ii < (*best)->ii)) *best = std::move(other);
}

// A nest that no period suffices for is seen at once, and a first answer would be looked for in
// vain at every one (a tenth of a second).
std::optional<Range> WithoutPeriod(const Search& search) {
  if (!search.nest() || search.options().fixed_ii) return std::nullopt;
  Range range;
  range.refutation = search.AtOnceAt(search.LargestUsefulIi());
  if (range.refutation->answer != Answer::kUnsat) return std::nullopt;
  range.proved_below = range.refutation->ii + 1;
  return range;
}

// More freedom never gives a worse answer: what fewer roles, or roles between which nothing
// crosses, can reach is an answer here too. Where the question stays open the narrower ones are
// asked, each with a budget of its own.
// What the wider search knows (`above`) is not asked again: what it refuted is refuted here.
Range SmallestOf(Search& search, int64_t bound, int64_t* first_ii, const Guessed* wider,
                 const Range* above) {
  const SolveOptions& options = search.options();
  if (std::optional<Range> nothing = WithoutPeriod(search)) return *std::move(nothing);
  const Guessed guessed = GuessFirst(search, bound, wider);
  std::optional<Search::Found> known = guessed.found;
  if (known) *first_ii = known->ii;
  Range range;
  const int64_t first_bound = bound;
  if (known && options.first_answer) {
    range.best = known;
    range.proved_below = bound;
    return range;
  }
  if (options.fixed_ii) {
    Search::Verdict verdict;
    if (known)
      range.best = known;
    else
      verdict = search.At(*options.fixed_ii, search.query_limit());
    if (verdict.answer == Answer::kSat) range.best = verdict.found;
    range.proved_below = bound;
    if (verdict.answer == Answer::kUnsat) {
      range.proved_below = std::max(range.proved_below, *options.fixed_ii + 1);
      range.refutation = std::move(verdict);
    }
    return range;
  }
  if (!known || known->ii > bound) TakeBetter(WithoutCrossing(search, bound), &known);
  if (above != nullptr) {
    TakeBetter(above->best, &known);
    bound = std::max(bound, above->proved_below);
  }
  range = FindSmallest(search, bound, known);
  if (range.best) {
    RestBeside(search, range);
    search.Resolve(&*range.best);
  }
  if (range.best && range.best->ii <= range.proved_below) return range;
  if (!range.best && range.proved_below > search.LargestUsefulIi()) return range;
  if (const std::optional<SolveOptions> fewer = WithFewerRoles(search)) {
    Search narrow(search, *fewer);
    int64_t first = 0;
    TakeBetter(SmallestOf(narrow, first_bound, &first, &guessed, &range).best, &range.best);
  }
  return range;
}

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

}  // namespace

namespace {

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
