// Tensor memory as regions: columns, cut where an access begins or ends, and where those of another
// warpgroup begin.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>

#include "ir/matrix_unit.h"
#include "ir/warp_check/program.h"

namespace tilec::ir::warp_check {

// Runs of columns that hold scales: those that a product reads, or that threads store.
std::vector<std::pair<int64_t, int64_t>> ScaleColumnsOf(const Function& fn, const Op& op) {
  const auto run = [](int64_t column, int64_t rows, int64_t scales) {
    return std::pair(column, column + TensorScaleColumns(rows, scales));
  };
  if (op.kind == OpKind::kTmemScales) {
    const std::vector<int64_t>& shape = fn.type(op.operands[0]).shape;
    const int64_t rows = shape[static_cast<size_t>(op.i("rows"))];
    return {run(op.i("column"), rows, shape[0] * shape[1] / rows)};
  }
  if (op.kind != OpKind::kTcMma || op.i("block") == 0) return {};
  const int64_t of_element = fn.type(op.operands[2]).dtype == DType::kE2M1X2 ? 2 : 1;
  const int64_t scales = CeilDiv(op.i("k") * of_element, op.i("block"));
  return {run(op.i("a_scales"), op.i("m"), scales), run(op.i("b_scales"), op.i("n"), scales)};
}

namespace {

// The address operand of an access; invalid: it is none.
ValueId TensorAddressOf(const Op& op) {
  switch (op.kind) {
    case OpKind::kTcMma:
    case OpKind::kTmemLoad: return op.operands[0];
    case OpKind::kTmemStore:
    case OpKind::kTmemScales: return op.operands[1];
    default: return {};
  }
}

int64_t ConstantAt(const Function& fn, const Op& op, size_t i) {
  const Op* def = fn.def(op.operands[i]);
  return def && def->kind == OpKind::kConstant ? static_cast<int64_t>(def->number("value")) : -1;
}

}  // namespace

TensorBase TensorBaseOf(const Function& fn, const Op& op) {
  const ValueId address = TensorAddressOf(op);
  if (!address.valid()) return {};
  TensorBase base;
  const auto allocates = [&](ValueId v) {
    const Op* def = fn.def(v);
    if (!def || def->kind != OpKind::kTmemAlloc) return false;
    base.allocation = fn.values[v].def;
    return true;
  };
  if (allocates(address)) return base;
  const Op* sum = fn.def(address);
  if (!sum || sum->kind != OpKind::kAdd) return {};
  const Op* product = fn.def(sum->operands[1]);
  if (!product || product->kind != OpKind::kMul || !allocates(sum->operands[0])) return {};
  const Op* slot = fn.def(product->operands[0]);
  base.pitch = ConstantAt(fn, *product, 1);
  base.slots = slot && slot->kind == OpKind::kMod ? ConstantAt(fn, *slot, 1) : -1;
  base.slot = product->operands[0];
  return base.pitch > 0 && base.slots > 0 ? base : TensorBase{};
}

// Of CTAs that are walked together each has columns of its own (cluster.cc).
int64_t FirstColumnOf(const Function& fn, const TensorBase& base) {
  return base.allocation.valid() ? fn.ops[base.allocation].i("first") : 0;
}

// Runs of columns of tensor memory that an op touches: the first, and one behind the last.
std::vector<std::pair<int64_t, int64_t>> TensorColumnsOf(const Function& fn, const Op& op,
                                                         int warps) {
  if (op.kind == OpKind::kTcMma) {
    const int64_t m = op.i("m"), column = op.i("column"), left = op.i("a_column");
    std::vector<std::pair<int64_t, int64_t>> out = {{column, column + TensorColumns(m, op.i("n"))}};
    if (left >= 0)
      out.emplace_back(left, left + TensorOperandColumns(m, op.i("k_begin") + op.i("k")));
    for (const auto& scales : ScaleColumnsOf(fn, op)) out.push_back(scales);
    return out;
  }
  if (op.kind == OpKind::kTmemScales) return ScaleColumnsOf(fn, op);
  if (op.kind != OpKind::kTmemLoad && op.kind != OpKind::kTmemStore) return {};
  const Type& tile = fn.type(op.kind == OpKind::kTmemLoad ? op.results[0] : op.operands[0]);
  return TensorRuns(op, tile, warps / 4);
}

// The warpgroup whose threads make an access of a column; -1: several do.
int WarpgroupAt(const Function& fn, const Op& op, int warps, int64_t column) {
  const int64_t groups = warps / 4;
  if (groups == 1 || op.kind == OpKind::kTmemScales) return 0;  // the first one stores them
  const bool store = op.kind == OpKind::kTmemStore;
  const Type& tile = fn.type(store ? op.operands[0] : op.results[0]);
  const int64_t n = RoundUp(op.i("n"), kTensorColumnStep) * ByteSize(tile.dtype) / 4;
  const TensorBase base = TensorBaseOf(fn, op);
  const int64_t at = (column - op.i("column")) %
                     std::max<int64_t>(1, base.slot.valid() ? base.pitch : kTensorColumns);
  const std::string& split = op.s("split");
  if (split == "m")
    return static_cast<int>(at / (n * CeilDiv(CeilDiv(tile.shape[0], kTensorLanes), groups)));
  if (split == "n") return static_cast<int>(at % n / (n / groups));
  return store ? 0 : -1;  // all have it, the first one stores it
}

namespace {

// An instruction that reads elements of 16 bits does not say how wide their block is; where the
// next one begins follows from it.
ColumnTile TileFrom(int64_t column, int64_t m, int64_t n, int64_t bytes) {
  const int64_t blocks = m <= kTensorLanes / 2 ? 0 : CeilDiv(m, kTensorLanes);
  const bool says = bytes == 4 || blocks > 1;
  return {column, says ? RoundUp(n, kTensorColumnStep) : 0, bytes, blocks};
}

}  // namespace

ColumnTile TileByThreads(const Function& fn, const Op& op) {
  if (op.kind == OpKind::kTmemScales) return ScalesFrom(op.i("column"));
  const Type& tile = fn.type(op.kind == OpKind::kTmemLoad ? op.results[0] : op.operands[0]);
  return TileFrom(op.i("column"), tile.shape[0], op.i("n"), ByteSize(tile.dtype));
}

ColumnTile SumOfProduct(const Op& op) { return TileFrom(op.i("column"), op.i("m"), op.i("n"), 4); }

ColumnTile LeftOfProduct(const Op& op) {
  return TileFrom(op.i("a_column"), op.i("m"), op.i("k_begin") + op.i("k"), 2);
}

ColumnTile ScalesFrom(int64_t column) { return {column, 0, 1, 0}; }

std::vector<std::pair<int64_t, int64_t>> AllTensorColumnsOf(const Function& fn, const Op& op,
                                                            int warps) {
  const auto first = TensorColumnsOf(fn, op, warps);
  const TensorBase base = TensorBaseOf(fn, op);
  std::vector<std::pair<int64_t, int64_t>> all;
  const int64_t cta = FirstColumnOf(fn, base);
  for (int64_t slot = 0; slot < base.slots; ++slot)
    for (const auto& [begin, end] : first)
      all.emplace_back(cta + begin + slot * base.pitch, cta + end + slot * base.pitch);
  return all;
}

void Program::FindColumns() {
  std::set<int64_t> points;
  for (size_t r = 1; r < roles.size(); ++r)
    WalkOps(fn, roles[r].body, [&](OpId id) {
      const Op& op = fn.ops[id];
      const bool by_threads = op.kind == OpKind::kTmemLoad || op.kind == OpKind::kTmemStore;
      const int64_t cta = by_threads ? FirstColumnOf(fn, TensorBaseOf(fn, op)) : 0;
      const auto group = [&](int64_t column) {
        return WarpgroupAt(fn, op, roles[r].warps, column - cta);
      };
      for (const auto& [first, end] : AllTensorColumnsOf(fn, op, roles[r].warps)) {
        points.insert(first), points.insert(end);
        // A warpgroup knows only its own accesses: where the next one's begin is another region.
        for (int64_t column = first + 1; by_threads && column < end; ++column)
          if (group(column) != group(column - 1)) points.insert(column);
      }
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
