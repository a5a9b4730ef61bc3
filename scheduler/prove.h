// Refutations as propositional proofs: what a certificate's `refuted` rests on, in a form that
// needs no belief in this solver or any other. Here they are looked for; what they must satisfy is
// in certify/, which knows no solver.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "certify/refutation.h"
#include "scheduler/scheduler.h"

namespace tilec::scheduler {

struct InfeasibilityProof {
  enum class Kind {
    kRefuted,     // `refutation` was found and accepted by certify::CheckRefutation
    kConsistent,  // the laws do not contradict each other
    kUnknown,     // the budget ended, or the laws are not the graph's
  };
  Kind kind = Kind::kUnknown;
  std::string problem;  // empty where refuted
  certify::Refutation refutation;
  bool complete() const { return kind == Kind::kRefuted; }
};

// Proves that the graph has no schedule at this II (and, where no cycle is pinned, at none below).
InfeasibilityProof ProveInfeasible(const Graph& graph, int64_t ii, const SolveOptions& options,
                                   int64_t conflict_limit = 2'000'000);

// The same from laws that are said to contradict each other, as a certificate names them. Overflows
// are found one by one: no other solver is asked. `conflict_limit`: of each question.
InfeasibilityProof ProveCore(const Graph& graph, int64_t ii, const std::vector<CoreItem>& core,
                             std::vector<certify::Cover> covers = {},
                             int64_t conflict_limit = 2'000'000);

// The laws in the order in which certificates name them.
std::vector<CoreItem> InOrder(const Graph& graph, int64_t ii, std::vector<CoreItem> core);

// `LAW OPS TEXT`, as certificates and proofs write it.
std::string ToText(const CoreItem& item);

// Checks a proof without a solver (certify/refutation.h). Returns what it refutes, or a diagnostic.
Result<certify::Refutation> VerifyProof(const Graph& graph, std::string_view text, int32_t file,
                                        DiagSink& diags);

}  // namespace tilec::scheduler
