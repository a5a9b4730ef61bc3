// Refutations as propositional proofs: what a certificate's `refuted` rests on, in a form that
// needs no belief in this solver or any other.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "scheduler/cnf.h"
#include "scheduler/drat.h"
#include "scheduler/needs.h"
#include "scheduler/scheduler.h"

namespace tilec::scheduler {

// One offer of roles: the laws of the minimised core as clauses, and their contradiction.
struct OfferProof {
  std::string roles;                 // "2 compute roles of 4 warps"
  std::vector<int> widths;           // of the compute roles
  std::vector<int> guards;           // of the model, by number: the core
  std::vector<Placement> overflows;  // placements that the model's cuts are made from
  std::vector<CoreItem> core;
  Cnf cnf;
  std::string drat;
  DratCheck check;  // of this proof, by the small checker
};

struct InfeasibilityProof {
  // All offers that contain every other are refuted and every proof was accepted.
  bool complete = false;
  std::string problem;  // empty where complete
  int64_t ii = 0;
  std::vector<OfferProof> offers;
};

// Proves that the graph has no schedule at this II (and, by monotonicity, at none below it).
InfeasibilityProof ProveInfeasible(const Graph& graph, int64_t ii, const SolveOptions& options,
                                   int64_t conflict_limit = 2'000'000);

// As text: `proof GRAPH`, `hash`, `ii`, and per offer of roles its widths, the laws used, the
// placements whose overflows became cuts, and the DRAT lines.
std::string ToText(const Graph& graph, const InfeasibilityProof& proof);

// Checks a proof without a solver: the laws are written down again from the graph, the cuts made
// again, and every lemma must follow. Returns the initiation interval refuted, or a diagnostic.
Result<int64_t> VerifyProof(const Graph& graph, std::string_view text, int32_t file,
                            DiagSink& diags);

}  // namespace tilec::scheduler
