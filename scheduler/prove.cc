// SPDX-License-Identifier: Apache-2.0
#include "scheduler/prove.h"

#include <fmt/format.h>

#include <algorithm>

#include "scheduler/search.h"

namespace tilec::scheduler {

InfeasibilityProof ProveInfeasible(const Graph& graph, int64_t ii, const SolveOptions& options,
                                   int64_t conflict_limit) {
  InfeasibilityProof proof;
  Search search(graph, options);
  const Search::Verdict verdict = search.At(ii, search.query_limit());
  if (verdict.answer != Answer::kUnsat) {
    proof.problem = verdict.answer == Answer::kSat ? fmt::format("II {} is feasible", ii)
                                                   : "the budget ended before a refutation";
    return proof;
  }
  const int64_t spread = StageSpread(graph, ii);
  for (const Search::Refutation& refutation : verdict.refutations) {
    Model& model = refutation.session->model;
    const std::vector<Lit> core = search.Minimize(*refutation.session, refutation.core);
    OfferProof offer;
    offer.roles = RolesText(model.offer());
    std::vector<Lit> guards;
    for (const Model::Guard& guard : model.guards()) {
      guards.push_back(guard.lit);
      if (std::find(core.begin(), core.end(), guard.lit) != core.end())
        offer.core.push_back({LawName(guard.law), guard.text, guard.ops});
    }
    std::vector<std::pair<int64_t, int64_t>> range(model.formulas().num_ints(), {0, 0});
    for (int v = 0; v < static_cast<int>(graph.ops.size()); ++v) {
      range[model.stage(v).index] = {-spread, spread};
      range[model.slot(v).index] = {0, ii - 1};
    }
    offer.cnf = OrderEncode(model.formulas(), guards, core, range);
    const SatAnswer answer = SolveWithProof(offer.cnf, conflict_limit, &offer.drat);
    if (answer == SatAnswer::kUnsat) offer.check = CheckDrat(offer.cnf, offer.drat);
    const bool accepted = offer.check.accepted;
    if (!accepted && proof.problem.empty())
      proof.problem =
          answer == SatAnswer::kUnsat
              ? fmt::format("{}: {}", offer.roles, offer.check.problem)
              : fmt::format("{}: no propositional proof within the budget", offer.roles);
    proof.offers.push_back(std::move(offer));
  }
  proof.complete = proof.problem.empty();
  return proof;
}

}  // namespace tilec::scheduler
