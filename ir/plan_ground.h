// What an edit of a plan may not change: layouts, routes of operands, which loads share a ring,
// lives of buffers, who executes what. These follow from the function, and the emitter relies on
// them; only the planners write them. Everything else of a plan is free under the laws of
// ir/check_plan.h.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/program_plan.h"
#include "support/diag.h"
#include "support/result.h"

namespace tilec::ir {

// `own`: what the planners make of `fn`. Fails with I296 at the first line that differs in what is
// not free: slots, counts, quotas, warps, addresses, waits and releases are.
Result<> CheckGround(const ProgramPlan& given, const ProgramPlan& own, const Function& fn,
                     DiagSink& diags);

}  // namespace tilec::ir
