// The part of a ProgramPlan that follows from the rest and the function: what each role executes,
// what the producer recomputes, which op feeds which product, and the indices by load and product.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/program_plan.h"

namespace tilec::ir {

void DerivePlan(const Function& fn, ProgramPlan* plan);

}  // namespace tilec::ir
