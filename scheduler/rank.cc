// SPDX-License-Identifier: Apache-2.0
#include "scheduler/rank.h"

#include <algorithm>
#include <tuple>

namespace tilec::scheduler {

std::vector<Ranked> RankByModel(const std::vector<RankCandidate>& candidates, size_t keep,
                                const SolveOptions& options, SolutionStore* store) {
  std::vector<Ranked> ranking;
  for (size_t i = 0; i < candidates.size(); ++i) {
    Ranked r;
    r.candidate = i;
    r.bound = BestBound(candidates[i].graph).ii;
    r.cost = static_cast<double>(r.bound) / candidates[i].work;
    ranking.push_back(r);
  }
  // Promising ones first, so that the others meet a good mark.
  std::stable_sort(ranking.begin(), ranking.end(),
                   [](const Ranked& a, const Ranked& b) { return a.cost < b.cost; });
  std::vector<double> best;  // costs of solved ones, ascending
  for (Ranked& r : ranking) {
    if (best.size() >= keep && keep > 0 && r.cost >= best[keep - 1]) {
      r.kind = Ranked::Kind::kPruned;
      continue;
    }
    DiagSink diags;
    const Result<Solution> solution =
        SolveStored(candidates[r.candidate].graph, options, store, diags);
    if (!solution.ok()) {
      const Diagnostic& why = diags.all().front();
      r.kind = why.def->name == std::string_view("OutOfBudget") ? Ranked::Kind::kOpen
                                                                : Ranked::Kind::kRefuted;
      r.why = why.message;
      continue;
    }
    r.kind = Ranked::Kind::kSolved;
    r.ii = solution->certificate.ii;
    r.lower_bound = solution->lower_bound;
    r.cost = static_cast<double>(r.ii) / candidates[r.candidate].work;
    best.insert(std::upper_bound(best.begin(), best.end(), r.cost), r.cost);
  }
  std::stable_sort(ranking.begin(), ranking.end(), [](const Ranked& a, const Ranked& b) {
    return std::tuple(static_cast<int>(a.kind), a.cost) <
           std::tuple(static_cast<int>(b.kind), b.cost);
  });
  return ranking;
}

}  // namespace tilec::scheduler
