// SPDX-License-Identifier: Apache-2.0
#include "ir/operand_reads.h"

#include "ir/isa.h"
#include "support/expr.h"

namespace tilec::ir {

int64_t OperandReads(MatrixUnit unit, const ProductShape& product, int warpgroups, WgSplit split,
                     int64_t across, bool left_in_registers) {
  const MatrixUnitInfo& info = Info(unit);
  if (unit == MatrixUnit::kNone || info.async_reads || info.completion != Completion::kAtOnce)
    return 0;
  const int64_t blocks = CeilDiv(product.m, info.rows);
  const int64_t rows = info.rows * (split == WgSplit::kM ? CeilDiv(blocks, warpgroups) : blocks);
  const int64_t columns = split == WgSplit::kN ? CeilDiv(product.n, warpgroups) : product.n;
  const int64_t own_rows = left_in_registers ? 0 : rows * across / isa::kWarpgroupWarps;
  return isa::kWarpgroupWarps * warpgroups * (own_rows + columns / across) * product.k *
         ByteSize(product.dtype);
}

int64_t OperandReads(const Function& fn, const Op& dot, const DotPlan& plan, int warpgroups) {
  const Type &a = fn.type(dot.operands[0]), &sum = fn.type(dot.results[0]);
  return OperandReads(plan.unit, {a.dtype, a.shape[0], sum.shape[1], plan.k_padded}, warpgroups,
                      plan.split, plan.across, plan.a.how == OperandPlan::How::kRegister);
}

}  // namespace tilec::ir
