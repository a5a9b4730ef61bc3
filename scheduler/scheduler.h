// Solve: the smallest initiation interval any schedule of the graph can have, proved; then, within
// a stated ε of it, the best schedule by the lexicographic objective. docs/scheduler.md explains
// the formulation so that it can be re-implemented.
//
// Deterministic: bounded by solver resource counts, never by wall time; `unknown` is never read as
// infeasible.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "certify/refutation.h"
#include "ir/schedule.h"
#include "scheduler/bounds.h"
#include "scheduler/check.h"
#include "scheduler/graph.h"

namespace tilec::scheduler {

struct SolveOptions {
  double epsilon = 0.01;          // secondary objective searched in II <= (1+ε)·II*
  int64_t resource_limit = 0;     // Z3 rlimit per query; 0: the default budget
  int64_t total_limit = 0;        // of all queries together; 0: the default budget
  bool modulo_scheduling = true;  // first answers without a solver
  bool first_answer = false;      // the first answer is as good as any: for estimates
  bool optimize_secondary = true;
  bool settled = true;  // hard questions of fixed roles without the solver (settled.h)
  int max_roles = 0;    // 0: as many as the machine's warps allow
  // Ablations (the paper's): false switches the law or freedom off.
  bool cross_role_transfers = true;
  bool register_limits = true;
  bool warp_constraints = true;     // roles, widths, issue
  std::optional<int64_t> fixed_ii;  // only this II
  std::optional<int> fixed_stages, fixed_compute_roles;

  // What a compilation can spend: about a second or two. The default is for those who ask for
  // proofs.
  static SolveOptions ForCompilation() {
    SolveOptions options;
    options.resource_limit = 10'000'000;  // one hard question may take all there is
    options.total_limit = 2'500'000;
    return options;
  }
};

// Why no schedule exists at some II: named laws, minimised.
struct CoreItem {
  std::string law;   // row of constraints.def: "unit", "registers", …
  std::string text;  // instantiated: "registers of a compute role: 240"
  std::vector<int> ops;
  Span at;  // of a pin, where it has a place
};

enum class Proof { kNone, kBound, kRefuted };

struct Objective {  // lexicographic, smaller is better
  int64_t compute_groups = 0, warps = 0, cross_bytes = 0, waits = 0, stages = 0, smem_bytes = 0;
  // Then, larger is better: cycles by which any result may be late before another role waits for
  // it; II where none could.
  int64_t slack = 0;
  bool operator==(const Objective&) const = default;
};

struct Certificate {
  std::string graph, machine;
  uint64_t graph_hash = 0;
  int64_t ii = 0;              // II*, the smallest feasible
  Bound bound;                 // best elementary bound
  Proof proof = Proof::kNone;  // kBound: bound.ii == ii; kRefuted: ii − 1 refuted
  std::vector<CoreItem> core;  // of the refutation at ii − 1
  double epsilon = 0;          // in steps of a millionth
  int64_t within = 0;  // the largest II at which the objective was looked for: ⌊(1+ε)·ii⌋
  int64_t schedule_ii = 0;  // of the schedule returned, <= within
  Objective objective;
  bool objective_proved = false;
};

struct Solution {
  ir::Schedule schedule;
  CheckReport report;
  Certificate certificate;
  int64_t lower_bound = 0;  // proved; == certificate.ii when the gap is closed
  int64_t first_ii = 0;     // of the answer found without a solver, 0: none
  int64_t resources = 0;    // solver resource units spent

  // How much smaller the initiation interval could be, as a share of the proved bound.
  double gap() const {
    return lower_bound > 0 ? static_cast<double>(certificate.ii - lower_bound) /
                                 static_cast<double>(lower_bound)
                           : 0;
  }
};

// Fails with a diagnostic (S3xx): no schedule at any II (core as sentences), budget exhausted
// before any answer, contradictory pins.
Result<Solution> Solve(const Graph& graph, const SolveOptions& options, DiagSink& diags);

// Feasibility at one II only: kFeasible with a schedule, kInfeasible with a core, or kUnknown.
struct Feasibility {
  enum class Kind { kFeasible, kInfeasible, kUnknown };
  Kind kind = Kind::kUnknown;
  ir::Schedule schedule;
  std::vector<CoreItem> core;
};
Feasibility FeasibleAt(const Graph& graph, int64_t ii, const SolveOptions& options);

std::string ToText(const Certificate& certificate);
Result<Certificate> ParseCertificate(std::string_view text, int32_t file, DiagSink& diags);
// ε in millionths, and the largest II that it allows.
int64_t Millionths(double epsilon);
int64_t LargestWithin(int64_t ii, double epsilon);

// Derives every field again (scheduler/verify.cc says how) and refuses what it cannot: names and
// hash from the graph, the schedule by Check and Simulate, the bound and the objective by computing
// them, the refutation at ii − 1 by a proof that certify/ accepts, `proved` by asking the solver.
// `proof`: a refutation that VerifyProof (scheduler/prove.h) has accepted; without one, the one
// that the core promises is looked for.
Result<> VerifyCertificate(const Graph& graph, const ir::Schedule& schedule,
                           const Certificate& certificate, DiagSink& diags,
                           const certify::Refutation* proof = nullptr);

}  // namespace tilec::scheduler
