// SPDX-License-Identifier: Apache-2.0
#include "ir/lower/emit_rules.h"

#include "ir/lower/operands.h"
#include "ir/lower/scalars.h"

namespace tilec::ir {

bool IsPlainBranch(const Function& fn, const Op& op) {
  for (BlockId region : op.regions)
    for (OpId id : fn.blocks[region].ops) {
      const Op& inner = fn.ops[id];
      if (!Info(inner.kind).elementwise() && !IsFree(inner.kind) && inner.kind != OpKind::kYield)
        return false;
    }
  return true;
}

std::vector<int64_t> ShapeInMemory(const Type& tile) {
  return tile.shape.empty() ? std::vector<int64_t>{1} : tile.shape;
}

SmemLayout PassLayout(DType dtype, const std::vector<int64_t>& shape) {
  int64_t rows = 1;
  for (size_t d = 0; d + 1 < shape.size(); ++d) rows *= shape[d];
  SmemLayout smem{rows, shape.back(), shape.back(), 0};
  if (rows > 1)
    if (const auto staged = StagingLayout(Type::Tile(dtype, {rows, shape.back()}))) smem = *staged;
  while (smem.swizzle_bytes && SmemBytes(smem, dtype) % 1024 != 0) smem.rows += 8;
  return smem;
}

std::vector<int> KeptDims(const Function& fn, const Op& broadcast) {
  const std::vector<int64_t>& from = fn.type(broadcast.operands[0]).shape;
  const std::vector<int64_t>& to = fn.type(broadcast.results[0]).shape;
  std::vector<int> keep;
  for (size_t i = 0; i < from.size(); ++i)
    if (from[i] != 1) keep.push_back(SqueezedDim(to, broadcast.ints("axes")[i]));
  return keep;
}

}  // namespace tilec::ir
