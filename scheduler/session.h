// One question after the other to the solver about one initiation interval and one offer of roles.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "scheduler/model.h"
#include "scheduler/scheduler.h"
#include "scheduler/solver.h"

namespace tilec::scheduler {

// One initiation interval and one offer of roles: formulas, the solver that has read them, and all
// cuts found so far.
class Session {
 public:
  Session(const Graph& graph, int64_t ii, const RoleOffer& offer, const SolveOptions& options)
      : model(graph, ii, offer, options) {}

  struct Outcome {
    Answer answer = Answer::kUnknown;
    Placement placement;    // kSat
    std::vector<Lit> core;  // kUnsat: guards and extras used
  };
  // All laws and `extra`; solutions that overflow a capacity are cut off until none does.
  Outcome Query(const std::vector<Lit>& extra, int64_t resource_limit);
  // The same with these guards only.
  Outcome QueryWith(const std::vector<Lit>& guards, int64_t resource_limit);

  int64_t resources() const { return spent_ + (solver_ ? solver_->resources() : 0); }
  // Nobody asks it again: what its solver holds is given back (17 MB and more of each), so that the
  // next one takes pages that are there. Should somebody ask all the same, a new one is made.
  void Rest() {
    spent_ = resources();
    solver_.reset();
  }

  Model model;
  bool scout = false;                // began with overflows that others met (Search::AskAny)
  bool narrowed = false;             // clauses were added that are no laws of the graph
  std::vector<Placement> overflows;  // that cuts were made from, in order: what a proof replays

 private:
  std::optional<Solver> solver_;  // from the first question on: most of what a session costs
  int64_t spent_ = 0;             // by solvers that rest
};

}  // namespace tilec::scheduler
