// Halves between what is known without a solver: the bound below, and above it a first answer and
// what narrower questions reach.
//
// SPDX-License-Identifier: Apache-2.0
#include "scheduler/smallest.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "scheduler/first_answer.h"
#include "scheduler/role_guess.h"
#include "scheduler/routes.h"

namespace tilec::scheduler {

bool CyclesPinned(const Graph& graph) {
  return std::any_of(graph.pins.begin(), graph.pins.end(),
                     [](const Graph::Pin& pin) { return pin.cycle >= 0; });
}

namespace {

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

Range Smallest(Search& search, int64_t bound, int64_t* first_ii, const Guessed* wider,
               const Range* above);

// A graph with routes is a plain one with more freedom. What the plain one reaches, by as many
// resources as its own search has, is known before the larger question is asked.
std::optional<Search::Found> WithoutCrossing(const Search& search, int64_t bound) {
  const Graph& graph = search.graph();
  if (!HasRoutes(graph)) return std::nullopt;
  std::vector<int> kept;
  const Graph plain = WithoutRoutes(graph, &kept);
  Search narrow(plain, search.options());
  int64_t first_ii = 0;
  std::optional<Search::Found> found = Smallest(narrow, bound, &first_ii, nullptr, nullptr).best;
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
Range Smallest(Search& search, int64_t bound, int64_t* first_ii, const Guessed* wider,
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
    TakeBetter(Smallest(narrow, first_bound, &first, &guessed, &range).best, &range.best);
  }
  return range;
}

}  // namespace

Range SmallestOf(Search& search, int64_t bound, int64_t* first_ii) {
  return Smallest(search, bound, first_ii, nullptr, nullptr);
}

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
    if (verdict.answer == Answer::kUnsat) range.proved_below = std::max(range.proved_below, ii + 1);
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

}  // namespace tilec::scheduler
