// SPDX-License-Identifier: Apache-2.0
#include "tests/warp_check/columns.h"

#include <algorithm>

#include "ir/matrix_unit.h"

namespace tilec::ir {
namespace {

// Of a product: what it adds to, its left operand, the scales of both.
std::vector<ColumnRun> OfProduct(const Function& fn, const Op& op) {
  const int64_t m = op.i("m"), n = op.i("n"), column = op.i("column"), left = op.i("a_column");
  std::vector<ColumnRun> out;
  const auto add = [&](int64_t from, int64_t count, bool write) {
    out.push_back({from, from + count, write, -1});
  };
  if (left >= 0) add(left, TensorOperandColumns(m, op.i("k_begin") + op.i("k")), false);
  if (const int64_t block = op.i("block"); block > 0) {
    const bool pairs = fn.type(op.operands[2]).dtype == DType::kE2M1X2;
    const int64_t scales = CeilDiv(op.i("k") * (pairs ? 2 : 1), block);
    add(op.i("a_scales"), TensorScaleColumns(m, scales), false);
    add(op.i("b_scales"), TensorScaleColumns(n, scales), false);
  }
  add(column, TensorColumns(m, n), true);
  return out;
}

// Of threads: a tile lies in blocks of 128 rows, each as wide as n; warpgroups share the blocks or
// the columns of each, or all have all, and then the first one stores.
std::vector<ColumnRun> OfThreads(const Type& tile, const Op& op, int groups) {
  const bool write = op.kind != OpKind::kTmemLoad;
  const int64_t bytes = ByteSize(tile.dtype);
  const int64_t n = RoundUp(op.i("n"), kTensorColumnStep);
  const int64_t blocks = CeilDiv(tile.shape[0], kTensorLanes);
  const bool across = op.s("split") == "n", along = op.s("split") == "m";
  const int64_t parts = across ? groups : 1, wide = n / parts;
  const int64_t width = std::min(wide, RoundUp(tile.shape[1], kTensorColumnStep));
  std::vector<ColumnRun> out;
  for (int64_t block = 0; block < blocks; ++block)
    for (int64_t part = 0; part < parts; ++part) {
      const int64_t at = block * n + part * wide + op.i("first");
      ColumnRun run;
      run.first = op.i("column") + at * bytes / 4;
      run.end = run.first + width * bytes / 4;
      run.write = write;
      run.group = across  ? static_cast<int>(part)
                  : along ? static_cast<int>(block / CeilDiv(blocks, groups))
                  : write ? 0
                          : -1;
      out.push_back(run);
    }
  return out;
}

}  // namespace

std::vector<ColumnRun> ColumnsOf(const Function& fn, const Op& op, int warps) {
  switch (op.kind) {
    case OpKind::kTcMma: return OfProduct(fn, op);
    case OpKind::kTmemLoad: return OfThreads(fn.type(op.results[0]), op, warps / 4);
    case OpKind::kTmemStore: return OfThreads(fn.type(op.operands[0]), op, warps / 4);
    case OpKind::kTmemScales: {
      const std::vector<int64_t>& shape = fn.type(op.operands[0]).shape;
      const int64_t rows = shape[static_cast<size_t>(op.i("rows"))];
      const int64_t columns = TensorScaleColumns(rows, shape[0] * shape[1] / rows);
      return {{op.i("column"), op.i("column") + columns, true, 0}};
    }
    default: return {};
  }
}

}  // namespace tilec::ir
