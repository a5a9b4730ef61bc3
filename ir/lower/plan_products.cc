// How products read their operands: from which buffers, in which form, or from registers.
//
// SPDX-License-Identifier: Apache-2.0
#include "ir/lower/layout_planner.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "ir/lower/operands.h"
#include "ir/lower/waits.h"
#include "ir/lower/widest_product.h"
#include "ir/queries.h"

namespace tilec::ir {

// Is an operand made by threads?
bool LayoutPlanner::IsComputed(ValueId v) const {
  const Op* def = fn_.def(Without(fn_, OpKind::kTranspose, v).value);
  return def && def->kind != OpKind::kLoad;
}

void LayoutPlanner::PlanDot(OpId id) {
  const Op& op = fn_.ops[id];
  DotPlan dot;
  const Type& ta = fn_.type(op.operands[0]);
  const Type& tb = fn_.type(op.operands[1]);
  const int64_t m = ta.shape[0], k = ta.shape[1], n = tb.shape[1];
  dot.unit = IsOnUnit(fn_, op, target_) ? target_.matrix_unit.kind : MatrixUnit::kNone;
  dot.promote = op.i("promote");
  dot.k_padded = k;
  // A product with scales has all lanes, whatever its rows.
  const bool all_lanes = op.operands.size() > 3 && InTensorMemory(dot.unit);
  const int64_t rows = all_lanes ? std::max(m, kTensorLanes) : m;
  if (dot.unit != MatrixUnit::kNone) {
    const bool mn_major_b =
        MayBeMnMajor(dot.unit, tb.dtype) && !Without(fn_, OpKind::kTranspose, op.operands[1]).odd();
    dot.k_padded = StagedDepth(dot.unit, ta.dtype, k);
    const Accumulator acc = Place(dot.unit, {ta.dtype, rows, n, k, mn_major_b}, plan_.warpgroups);
    dot.split = acc.split;
    dot.acc = acc.layout;
    if (MayShareRows(op))
      dot.across =
          WarpsAcross(dot.unit, {ta.dtype, m, n, k, mn_major_b}, plan_.warpgroups, dot.split);
    if (dot.across > 1)
      dot.acc = AccumulatorOf(dot.unit, ta.dtype, m, n, plan_.warpgroups, dot.split, dot.across);
  }
  if (op.operands.size() > 3) WantScales(op, dot);
  dot.a = PlanOperand(op.operands[0], dot, /*is_a=*/true, StagedRows(dot.unit, ta.dtype, rows));
  dot.b = PlanOperand(op.operands[1], dot, /*is_a=*/false, StagedColumns(dot.unit, tb.dtype, n));
  plan_.dots[id] = std::move(dot);
}

// Scales are best loaded as tmem_scales, or the product, wants them.
void LayoutPlanner::WantScales(const Op& dot, const DotPlan& plan) {
  for (size_t i : {3, 4}) {
    const Stripped bare = Without(fn_, OpKind::kTranspose, dot.operands[i]);
    const std::vector<int64_t>& shape = fn_.type(bare.value).shape;
    const int rows_dim = bare.odd() == (i == 4) ? 0 : 1;
    if (shape.size() != 2 || shape[0] == 1 || shape[1] == 1) continue;
    const int64_t rows = shape[static_cast<size_t>(rows_dim)],
                  scales = shape[static_cast<size_t>(1 - rows_dim)];
    wanted_.push_back({bare.value, InTensorMemory(plan.unit)
                                       ? ScalesLayout(rows, scales, rows_dim, plan_.warpgroups)
                                       : ScalesLayout({i == 3, rows, scales, rows_dim},
                                                      plan_.warpgroups, plan.split, plan.across)});
  }
}

// May several warps hold parts of a row of the accumulator? Not where rows are reduced, or where
// what threads make of one product is the left operand of another: both want whole rows.
bool LayoutPlanner::MayShareRows(const Op& dot) const {
  return !IsComputed(dot.operands[0]) && std::none_of(order_.begin(), order_.end(), [&](OpId id) {
    const Op& op = fn_.ops[id];
    const bool reduces = op.kind == OpKind::kReduce || op.kind == OpKind::kArgReduce;
    return (reduces && fn_.type(op.operands[0]).rank() > 1) ||
           (op.kind == OpKind::kDot && IsComputed(op.operands[0]));
  });
}

// `outer`: rows (M or N) the instructions touch.
OperandPlan LayoutPlanner::PlanOperand(ValueId v, const DotPlan& dot, bool is_a, int64_t outer) {
  OperandPlan plan;
  // A is [M, K]: its natural (K-major) buffer is itself. B is [K, N]: the natural buffer is Bᵀ,
  // so an untransposed B is MN-major.
  const Stripped bare = Without(fn_, OpKind::kTranspose, v);
  const bool mn_major = bare.odd() == is_a;
  plan.source = bare.value;
  plan.trans = mn_major;
  const Type& type = fn_.type(plan.source);
  const bool k_major_only = dot.unit != MatrixUnit::kNone && !MayBeMnMajor(dot.unit, type.dtype);
  const Op* def = fn_.def(plan.source);
  if (mn_major && k_major_only) {
    plan.trans = false;
    plan.store_transposed = true;
  } else if (def && def->kind == OpKind::kLoad && type.rank() == 2) {
    plan.how = OperandPlan::How::kBuffer;
  }
  int64_t rows = type.shape[0], cols = type.shape[1];
  if (plan.store_transposed) std::swap(rows, cols);
  BufferNeed need;
  need.tile_rows = rows;
  need.tile_cols = cols;
  need.plain = dot.unit == MatrixUnit::kNone;
  if (dot.unit != MatrixUnit::kNone) {
    need.cols_contracted = !plan.trans;
    need.rows_contracted = plan.trans;
    need.rows = plan.trans ? dot.k_padded : outer;
    need.cols = plan.trans ? outer : dot.k_padded;
    if (!is_a && plan.trans && dot.split == WgSplit::kN) need.col_piece = cols / plan_.warpgroups;
  } else {
    need.rows = rows;
    need.cols = cols;
  }
  if (plan.how == OperandPlan::How::kBuffer) {
    const OpId load = fn_.values[plan.source].def;
    auto [it, fresh] = needs_.try_emplace(load, need);
    if (!fresh && !it->second.Merge(need)) {
      // One product wants a swizzled, the other a plain buffer: the second gets a copy.
      plan.how = OperandPlan::How::kStore;
    }
  }
  if (plan.how != OperandPlan::How::kBuffer) {
    plan.smem = need.Layout(type.dtype);
    plan.zero_padding = need.NeedsZero(type.dtype);
    forced_.insert(plan.source);
  }
  return plan;
}

// Do threads make the left operand, as it is multiplied?
bool LayoutPlanner::MadeByThreads(const DotPlan& dot) {
  return dot.unit != MatrixUnit::kNone && dot.a.how == OperandPlan::How::kStore && !dot.a.trans &&
         !dot.a.store_transposed;
}

// How it would lie if the instruction took it from registers.
std::optional<Layout> LayoutPlanner::RegisterOperand(const DotPlan& dot) const {
  if (!MadeByThreads(dot)) return {};
  return LeftInRegisters(dot.unit, fn_.type(dot.a.source), plan_.warpgroups, dot.split);
}

// What is computed from loaded tiles alone is loaded so that it need not go through shared memory
// again: for sums that a loop carries, whose products are awaited together anyway, and where it is
// decoded, which is more than the product waits for.
void LayoutPlanner::WantRegisterOperand(OpId id, const DotPlan& dot) {
  const bool wants = AddsUp(fn_, fn_.ops[id]) || DecodedByThreads(fn_, dot.a.source);
  if (!wants || dot.split != WgSplit::kM ||
      fn_.type(dot.a.source).shape[0] % Info(dot.unit).rows != 0)
    return;
  if (const std::optional<Layout> layout = RegisterOperand(dot))
    wanted_.push_back({dot.a.source, *layout});
}

// P of attention, too: a 16-bit tile in the accumulator layout feeds the product as it is.
void LayoutPlanner::PlanRegisterOperand(DotPlan& dot) {
  if (StoredToTensorMemory(dot)) dot.a.how = OperandPlan::How::kTensor;
  const auto it = plan_.layouts.find(dot.a.source);
  if (MadeByThreads(dot) && it != plan_.layouts.end() &&
      BecomesLeft(dot.unit, fn_.type(dot.a.source), it->second, plan_.warpgroups, dot.split))
    dot.a.how = OperandPlan::How::kRegister;
}

// Where a unit reads its left operand from tensor memory, threads that have its rows put them
// there.
bool LayoutPlanner::StoredToTensorMemory(const DotPlan& dot) const {
  const OperandPlan& a = dot.a;
  if (!MadeByThreads(dot) || dot.promote > 0) return false;
  const Type& tile = fn_.type(a.source);
  const auto layout = plan_.layouts.find(a.source);
  return 8 * ByteSize(tile.dtype) == Info(dot.unit).left_tensor_bits &&
         tile.shape[1] == dot.k_padded && layout != plan_.layouts.end() &&
         SplitOfLanes(dot.unit, tile, layout->second, plan_.warpgroups).has_value();
}

}  // namespace tilec::ir
