// Judges a ProgramPlan against its function and the limits of a machine: law by law
// (plan_laws.def), without a solver and without asking who decided. What breaks no law may still be
// slow; whether the emitted program can hang or race is proved separately (ir/warp_check).
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/program_plan.h"
#include "support/diag.h"
#include "support/result.h"

namespace tilec::ir {

struct PlanLimits {
  int64_t smem_bytes = 0;      // of a CTA
  int64_t registers = 0;       // of an SM
  int64_t warps = 0;           // of a CTA
  int64_t named_barriers = 0;  // of a CTA
};

// Reports every breach, then fails if there was one.
Result<> CheckPlan(const ProgramPlan& plan, const Function& fn, const PlanLimits& limits,
                   DiagSink& diags);

}  // namespace tilec::ir
