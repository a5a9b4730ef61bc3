// SPDX-License-Identifier: Apache-2.0
#include "ir/lower/row_runs.h"

#include <algorithm>
#include <bit>

#include "ir/isa.h"
#include "ir/lower/scalars.h"
#include "ir/lower/slides.h"
#include "ir/queries.h"
#include "ir/row_run.h"
#include "support/expr.h"

namespace tilec::ir {

namespace {
constexpr int64_t kLeastBytes = 1024;  // of a run: less is no more than a request or two of a warp
constexpr int64_t kWideBytes = 8;      // of a direct access that is as good
constexpr int64_t kMostElements = 32;  // of a row in one thread
}  // namespace

namespace {
// No products, and no position in front of the tensor.
bool IsPlain(const Function& fn, const Op& op) {
  const bool store = op.kind == OpKind::kStore;
  size_t operand = store ? 2 : 1;
  for (char mode : op.s("modes")) {
    if (!NonNegative(fn, op.operands[operand])) return false;
    operand += OperandsOf(mode, store);
  }
  return std::none_of(fn.ops.begin(), fn.ops.end(),
                      [](const Op& other) { return other.kind == OpKind::kDot; });
}
// Does the row, or the piece of it, begin at a multiple of 16 bytes?
bool BeginsAligned(const Function& fn, const Op& op) {
  const TensorFacts& facts = fn.param(op.operands[0])->facts;
  const size_t behind = op.kind == OpKind::kStore ? 2 : op.i("has_fill") ? 2 : 1;
  const size_t start = op.operands.size() - behind;
  const int64_t bytes = ByteSize(fn.type(op.operands[0]).dtype);
  return facts.base_align_bytes % kAccessBytes == 0 &&
         (op.s("modes").size() == 1 || facts.stride_align_bytes % kAccessBytes == 0) &&
         AlignOf(fn, op.operands[start]) * bytes % kAccessBytes == 0;
}
}  // namespace

bool MayShift(const Function& fn, const Op& op, RunLimits limits) {
  if (op.kind != OpKind::kLoad && op.kind != OpKind::kStore) return false;
  Op shifted = op;
  shifted.set("shifted", int64_t{1});
  const std::optional<RowRun> run = RowRunOf(fn, shifted);
  if (!run || run->row_dim >= 0) return false;
  const DType dtype = fn.type(op.operands[0]).dtype;
  const int64_t bytes = RowRunBytes(*run, dtype);
  const bool store = op.kind == OpKind::kStore;
  if (store && (bytes < kLeastBytes || bytes > limits.any ||
                run->columns * ByteSize(dtype) % kAccessBytes != 0))
    return false;
  if (!store && fn.param(op.operands[0])->direction != Direction::kIn) return false;
  if (ByteSize(dtype) >= limits.side_by_side && !BeginsAligned(fn, op)) return false;
  return AccessLimit(fn, op) * ByteSize(dtype) < kWideBytes && IsPlain(fn, op);
}

std::vector<RowAccess> RowAccesses(const Function& fn, const std::vector<const Op*>& ops,
                                   RunLimits limits, bool slides) {
  std::vector<RowAccess> out;
  bool shifts = true;
  const auto narrow = [](const RowAccess& a) { return a.limit * a.bytes < kWideBytes; };
  for (const Op* op : ops) {
    const Type& tile = fn.type(op->kind == OpKind::kLoad ? op->results[0] : op->operands[1]);
    out.push_back({tile.elements(), ByteSize(tile.dtype), AccessLimit(fn, *op)});
    shifts = shifts && (!narrow(out.back()) || MayShift(fn, *op, limits));
  }
  for (RowAccess& a : out)
    if ((shifts && narrow(a)) || (slides && a.elements > 1)) a.limit = kAccessBytes / a.bytes;
  return out;
}

bool MayRun(const Function& fn, OpId id, RunLimits limits) {
  const Op& op = fn.ops[id];
  const std::optional<RowRun> run = RowRunOf(fn, op);
  if (!run) return false;
  const OpId loop = LoopAround(fn, id);
  if (loop.valid() && run->row_dim >= 0) return false;
  const bool store = op.kind == OpKind::kStore;
  if (!store && fn.param(op.operands[0])->direction != Direction::kIn) return false;
  const int64_t bytes = RowRunBytes(*run, fn.type(op.operands[0]).dtype);
  const bool one = run->row_dim < 0 && !loop.valid();
  if (bytes < kLeastBytes || bytes > (one ? limits.whole_row : limits.any)) return false;
  return IsPlain(fn, op);
}

bool RunPays(const Function& fn, const Op& op, const Layout& layout, int64_t vector) {
  if (vector * ByteSize(fn.type(op.operands[0]).dtype) < kWideBytes) return true;
  const int last = layout.rank - 1;  // lanes have rows of their own, in several accesses
  return layout.rank > 1 && RunAlong(layout, last).extent > vector &&
         std::none_of(layout.thread.begin(), layout.thread.end(),
                      [&](const LayoutDigit& d) { return d.dim == last; });
}

std::optional<Layout> RowsLayout(const std::vector<int64_t>& shape, int64_t threads) {
  if (shape.size() != 2 || threads % isa::kWarpThreads != 0) return std::nullopt;
  const int64_t rows = shape[0], columns = shape[1];
  const int64_t lanes =
      std::max(CeilPow2(CeilDiv(columns, kMostElements)), CeilPow2(CeilDiv(threads, rows)));
  if (lanes > isa::kWarpThreads) return std::nullopt;
  Layout out;
  out.rank = 2;
  const auto add = [](std::vector<LayoutDigit>& digits, int64_t extent, int dim, int64_t stride) {
    if (extent > 1) digits.push_back({extent, dim, stride});
  };
  add(out.thread, lanes, 1, 1);
  add(out.thread, threads / lanes, 0, 1);
  add(out.reg, CeilDiv(columns, lanes), 1, lanes);
  add(out.reg, CeilDiv(rows, threads / lanes), 0, threads / lanes);
  return out;
}

}  // namespace tilec::ir
