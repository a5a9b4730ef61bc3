// How long a launch would take in each strategy, by the model of whole kernels
// (scheduler/kernel_time.h), before anything is solved or emitted. Periods of loops are lower
// bounds, so the times are, too.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "compile/strategy.h"
#include "ir/function.h"
#include "ir/target.h"
#include "scheduler/copy_lines.h"
#include "support/expr.h"

namespace tilec::compile {

// `fn`: cleaned up, at the tile level. `sizes`: values of its dims and integer scalars. Strategies
// that the model does not know (program order) and kernels whose sizes are not all given stay
// without a time. `row_starts`: of scheduler/copy_lines.h.
void PredictTimes(const ir::Function& fn, const ir::Target& target, const Bindings& sizes,
                  const scheduler::RowStarts& row_starts, std::vector<Decision>* decisions);

}  // namespace tilec::compile
