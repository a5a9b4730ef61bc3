// What products cost beside the matrix unit where it has its operands from registers: every warp
// reads the rows and the columns of its own part of the sum out of shared memory, so that a grid of
// many thin parts reads more than the unit has time for.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "ir/function.h"
#include "ir/matrix_unit.h"
#include "ir/program_plan.h"

namespace tilec::ir {

// Bytes that the warpgroups of a role read for one product; 0 where the unit reads by itself.
// `across`: warps of a warpgroup side by side along N.
int64_t OperandReads(MatrixUnit unit, const ProductShape& product, int warpgroups, WgSplit split,
                     int64_t across, bool left_in_registers);
// The same of a product as it is planned.
int64_t OperandReads(const Function& fn, const Op& dot, const DotPlan& plan, int warpgroups);

}  // namespace tilec::ir
