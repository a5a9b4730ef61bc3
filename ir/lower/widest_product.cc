// SPDX-License-Identifier: Apache-2.0
#include "ir/lower/widest_product.h"

#include <algorithm>

#include "ir/isa.h"
#include "ir/lower/plan.h"
#include "ir/matrix_unit.h"
#include "support/expr.h"

namespace tilec::ir {

namespace {

// 64 rows of up to so many columns, spread over 128 threads.
constexpr int64_t kMostColumns = 256, kThreadsARow = 2;

int64_t AtLaunch(int64_t warpgroups, const Target& target) {
  return target.RegistersAtLaunch(isa::kWarpgroupWarps * (warpgroups + 1));
}

}  // namespace

int64_t RegistersOfInstruction(int64_t columns, DType sum, const Target& target) {
  return std::min(columns, kMostColumns) / kThreadsARow * ByteSize(sum) / 4 +
         target.registers.beside_instruction;
}

bool WantsTooWideInstruction(const Function& fn, const Target& target) {
  if (target.unit().completion != Completion::kGroups) return false;
  const LayoutPlan plan = MakePlan(fn, target, 0, /*runs_ahead=*/true);
  const int64_t at_launch = AtLaunch(plan.warpgroups, target);
  return std::any_of(plan.dots.begin(), plan.dots.end(), [&](const auto& entry) {
    const auto& [id, dot] = entry;
    if (dot.unit == MatrixUnit::kNone) return false;
    const Type& sum = fn.type(fn.ops[id].results[0]);
    const int64_t groups = dot.split == WgSplit::kN ? plan.warpgroups : 1;
    return RegistersOfInstruction(sum.shape.back() / groups, sum.dtype, target) > at_launch;
  });
}

int WarpgroupsOfRows(int64_t rows, const Target& target) {
  const int64_t blocks = CeilDiv(rows, target.unit().rows);
  return blocks % 2 == 0 ? 2 : blocks % 3 == 0 ? 3 : 1;
}

bool TooWideInRows(int64_t rows, int64_t columns, DType sum, const Target& target) {
  return WarpgroupsOfRows(rows, target) == 3 &&
         RegistersOfInstruction(columns, sum, target) > AtLaunch(3, target);
}

}  // namespace tilec::ir
