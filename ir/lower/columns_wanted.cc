// SPDX-License-Identifier: Apache-2.0
#include "ir/lower/columns_wanted.h"

#include <algorithm>
#include <map>

#include "ir/lower/operands.h"
#include "ir/matrix_unit.h"
#include "ir/queries.h"

namespace tilec::ir {

namespace {

// The product that adds to what another one made has its columns.
bool Begins(const Function& fn, const Op& dot) {
  const Op* from = fn.def(dot.operands[2]);
  return from == nullptr || from->kind != OpKind::kDot;
}

int64_t ColumnsOf(const Function& fn, const Op& dot, const Target& target) {
  const Type &a = fn.type(dot.operands[0]), &sum = fn.type(dot.results[0]);
  const int64_t m = sum.shape[0];
  int64_t columns = Begins(fn, dot) ? TensorColumns(m, sum.shape[1]) : 0;
  const Op* left = fn.def(dot.operands[0]);
  const bool computed = left != nullptr && (Info(left->kind).elementwise() || IsLoop(left->kind));
  if (computed && 8 * ByteSize(a.dtype) == target.unit().left_tensor_bits)
    columns += TensorOperandColumns(m, a.shape[1]);
  return columns;
}

}  // namespace

bool WantsTooManyColumns(const Function& fn, const Target& target) {
  if (!InTensorMemory(target.matrix_unit.kind)) return false;
  std::map<BlockId, int64_t> columns;
  int64_t most = 0;
  for (OpId id : OpsInOrder(fn)) {
    const Op& op = fn.ops[id];
    if (op.kind != OpKind::kDot || fn.type(op.results[0]).rank() != 2 || !IsOnUnit(fn, op, target))
      continue;
    most = std::max(most, columns[op.block] += ColumnsOf(fn, op, target));
  }
  return most > target.limits.tmem_columns;
}

bool HasSmAlone(const Function& warps, const Target& target) {
  return std::any_of(warps.ops.begin(), warps.ops.end(), [&](const Op& op) {
    return (op.kind == OpKind::kRole && op.i("regs") > 0) ||
           (op.kind == OpKind::kTmemAlloc && 2 * op.i("columns") > target.limits.tmem_columns);
  });
}

}  // namespace tilec::ir
