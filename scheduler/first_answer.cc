// SPDX-License-Identifier: Apache-2.0
#include "scheduler/first_answer.h"

#include <algorithm>
#include <tuple>

#include "scheduler/modulo.h"
#include "scheduler/objective.h"
#include "scheduler/role_guess.h"
#include "scheduler/to_schedule.h"

namespace tilec::scheduler {

namespace {

// Attempts are bounded by work, so that the same graph gives the same answer everywhere: one unit
// is one attempt at one op.
constexpr int64_t kWork = 60'000;
constexpr uint64_t kSeedsAtBound = 24, kSeeds = 9, kSeedsForObjective = 12;
constexpr int64_t kFinest = 512;  // the last step down is 1/512 of the bound

class Finder {
 public:
  Finder(const Graph& graph, const SolveOptions& options, int64_t bound)
      : graph_(graph), options_(options), guesses_(GuessRoles(graph, options, bound)) {
    for (const RoleGuess& guess : guesses_)
      if (HasRoutes(graph)) routed_.push_back(Routed(graph, guess.group));
  }

  // The first guess that works out, best objective first.
  std::optional<Search::Found> At(int64_t ii, uint64_t seeds) {
    // Made when they are first tried: the first of many guesses often answers.
    std::vector<std::unique_ptr<ModuloScheduler>> schedulers(guesses_.size());
    for (uint64_t seed = 0; seed < seeds && !Exhausted(); ++seed)
      for (size_t i = 0; i < guesses_.size() && !Exhausted(); ++i) {
        if (guesses_[i].least_ii > ii) continue;
        if (!schedulers[i])
          schedulers[i] = std::make_unique<ModuloScheduler>(Problem(guesses_[i]), ii);
        if (!schedulers[i]->Possible()) continue;
        if (std::optional<Search::Found> found = Try(guesses_[i], *schedulers[i], ii, seed + 7 * i))
          return found;
      }
    return std::nullopt;
  }

  std::optional<Search::Found> Best(int64_t ii, Objective best, bool as_good) {
    std::optional<Search::Found> answer;
    for (const RoleGuess& guess : guesses_) {
      if (guess.least_ii > ii) continue;
      if (Better(best, guess.objective)) break;
      ModuloScheduler scheduler(Problem(guess), ii);
      for (uint64_t seed = 0; seed < kSeedsForObjective && scheduler.Possible(); ++seed) {
        std::optional<Search::Found> found = Try(guess, scheduler, ii, seed);
        if (!found) continue;
        const Objective objective = ObjectiveOf(graph_, options_, *found);
        if (as_good ? Better(best, objective) : !Better(objective, best)) continue;
        if (as_good && objective == best) return found;
        best = objective;
        answer = std::move(found);
      }
    }
    return answer;
  }

  bool Exhausted() const { return work_ > kWork; }

 private:
  ModuloProblem Problem(const RoleGuess& guess) const {
    const Graph* graph = routed_.empty() ? &graph_ : &routed_[&guess - guesses_.data()];
    return {graph, guess.offer, guess.group, options_.warp_constraints,
            options_.register_limits && options_.warp_constraints};
  }

  std::optional<Search::Found> Try(const RoleGuess& guess, ModuloScheduler& scheduler, int64_t ii,
                                   uint64_t seed) {
    if (Exhausted()) return std::nullopt;
    work_ += static_cast<int64_t>(graph_.ops.size());
    std::optional<Placement> placement = scheduler.Run(seed);
    if (!placement) return std::nullopt;
    Settle(graph_, &*placement);
    Search::Found found{*std::move(placement), guess.offer, ii};
    if (options_.fixed_stages &&
        ObjectiveOf(graph_, options_, found).stages > *options_.fixed_stages)
      return std::nullopt;
    if (options_.warp_constraints && options_.register_limits &&
        !Check(graph_, ToSchedule(graph_, options_, found)).violations.empty())
      return std::nullopt;
    return found;
  }

  const Graph& graph_;
  const SolveOptions& options_;
  const std::vector<RoleGuess> guesses_;
  std::vector<Graph> routed_;  // what each guess makes of the graph; empty: nothing
  int64_t work_ = 0;
};

// The checker's laws are all that is checked.
bool Applies(const Graph& graph, const SolveOptions& options) {
  if (graph.ops.empty()) return false;
  for (const Graph::Pin& pin : graph.pins)
    if (pin.cycle >= 0 || pin.stage >= 0) return false;
  return options.warp_constraints == options.register_limits || options.warp_constraints;
}

}  // namespace

bool Better(const Objective& a, const Objective& b) {
  auto key = [](const Objective& o) {
    return std::tuple(o.compute_groups, o.warps, o.cross_bytes, o.waits, o.stages, o.smem_bytes);
  };
  return key(a) < key(b);
}

std::optional<Search::Found> FirstAnswer(const Graph& graph, const SolveOptions& options,
                                         int64_t bound) {
  if (!Applies(graph, options)) return std::nullopt;
  Finder finder(graph, options, bound);
  if (options.fixed_ii) return finder.At(*options.fixed_ii, kSeedsAtBound);
  if (std::optional<Search::Found> found = finder.At(bound, kSeedsAtBound)) return found;
  // Growing steps until something is found, then halves of what is left, down to a fine step.
  const int64_t finest = std::max<int64_t>(1, bound / kFinest);
  const int64_t most = Search(graph, options).LargestUsefulIi();
  std::optional<Search::Found> best;
  int64_t low = bound;
  for (int64_t step = finest; !best && low < most; step *= 2) {
    const int64_t ii = std::min(most, bound + step);
    best = finder.At(ii, kSeeds);
    if (!best) low = ii;
    if (finder.Exhausted()) break;
  }
  while (best && best->ii - low > finest && !finder.Exhausted()) {
    const int64_t middle = low + (best->ii - low) / 2;
    if (std::optional<Search::Found> found = finder.At(middle, kSeeds))
      best = std::move(found);
    else
      low = middle;
  }
  return best;
}

std::optional<Search::Found> BetterAnswer(const Graph& graph, const SolveOptions& options,
                                          int64_t ii, const Objective& known, bool as_good) {
  if (!Applies(graph, options)) return std::nullopt;
  return Finder(graph, options, ii).Best(ii, known, as_good);
}

}  // namespace tilec::scheduler
