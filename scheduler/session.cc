// SPDX-License-Identifier: Apache-2.0
#include "scheduler/session.h"

namespace tilec::scheduler {

Session::Outcome Session::Query(const std::vector<Lit>& extra, int64_t resource_limit) {
  std::vector<Lit> given;
  for (const Model::Guard& guard : model.guards()) given.push_back(guard.lit);
  given.insert(given.end(), extra.begin(), extra.end());
  return QueryWith(given, resource_limit);
}

Session::Outcome Session::QueryWith(const std::vector<Lit>& given, int64_t resource_limit) {
  Outcome outcome;
  if (!solver_) solver_.emplace(model.formulas());
  Solver& solver = *solver_;
  const int64_t start = solver.resources();
  while (true) {
    const int64_t left = resource_limit - (solver.resources() - start);
    if (left <= 0) {
      outcome.answer = Answer::kUnknown;
      return outcome;
    }
    outcome.answer = solver.Check(given, left);
    if (outcome.answer == Answer::kUnsat) outcome.core = solver.core();
    if (outcome.answer != Answer::kSat) return outcome;
    outcome.placement = model.Read(solver);
    if (model.AddCuts(outcome.placement, given) == 0) return outcome;
    overflows.push_back(outcome.placement);
  }
}

}  // namespace tilec::scheduler
