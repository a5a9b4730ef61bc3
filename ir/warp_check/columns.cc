// Tensor memory as regions: columns, cut where an access begins or ends.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>

#include "ir/matrix_unit.h"
#include "ir/warp_check/program.h"

namespace tilec::ir::warp_check {

// Columns of tensor memory that an op touches: the first, and one behind the last.
std::optional<std::pair<int64_t, int64_t>> TensorColumnsOf(const Function& fn, const Op& op) {
  const auto from = [&](int64_t m, int64_t n) {
    return std::pair(op.i("column"), op.i("column") + TensorColumns(m, n));
  };
  if (op.kind == OpKind::kTcMma) return from(op.i("m"), op.i("n"));
  if (op.kind != OpKind::kTmemLoad && op.kind != OpKind::kTmemStore) return {};
  const Type& tile = fn.type(op.kind == OpKind::kTmemLoad ? op.results[0] : op.operands[0]);
  return from(tile.shape[0], tile.shape[1]);
}

void Program::FindColumns() {
  std::set<int64_t> points;
  WalkOps(fn, fn.body, [&](OpId id) {
    if (const auto columns = TensorColumnsOf(fn, fn.ops[id]))
      points.insert(columns->first), points.insert(columns->second);
  });
  tensor_columns.assign(points.begin(), points.end());
}

std::pair<int, int> Program::TensorRegionsOf(int64_t first, int64_t end) const {
  const auto place = [&](int64_t column) {
    return first_tensor_region() +
           static_cast<int>(std::lower_bound(tensor_columns.begin(), tensor_columns.end(), column) -
                            tensor_columns.begin());
  };
  return {place(first), place(end)};
}

}  // namespace tilec::ir::warp_check
