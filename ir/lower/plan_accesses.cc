// What loads, stores and atomics do with the tensors: who makes the access, and through which
// buffer of shared memory.
//
// SPDX-License-Identifier: Apache-2.0
#include "ir/lower/layout_planner.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "ir/isa.h"
#include "ir/lower/bring.h"
#include "ir/lower/operands.h"
#include "ir/lower/scalars.h"
#include "ir/lower/stored_over.h"
#include "ir/queries.h"

namespace tilec::ir {

// Where no product decides how threads hold tiles, they hold them as memory wants them.
bool LayoutPlanner::StoredTurned(const Op& op) {
  return op.kind == OpKind::kStore && StoresTransposed(fn_, op, target_) &&
         !MeetsOthers(fn_, over_, op) && std::any_of(order_.begin(), order_.end(), [&](OpId id) {
           return fn_.ops[id].kind == OpKind::kDot;
         });
}

void LayoutPlanner::PlanLoad(OpId id) {
  const Op& op = fn_.ops[id];
  const ValueId result = op.results[0];
  LoadPlan load;
  load.registers = InRegisters(result);
  const Type& type = fn_.type(result);
  auto need = needs_.find(id);
  // One element is a scalar, which every role reads that steers by it (`scalar_rows`).
  const bool one = Squeezed(type.shape).empty();
  std::optional<TileAccess> access = TmaAccess(fn_, op, target_);
  if (need != needs_.end()) {
    load.buffer = true;
    load.smem = need->second.Layout(type.dtype);
    load.zero_padding = need->second.NeedsZero(type.dtype);
    load.tma = access && need->second.TmaFits(type.dtype);
    const bool free = !load.tma && !need->second.plain;
    if (const auto copy = ThreadCopyAccess(fn_, op, target_); free && copy)
      access = copy->tile, load.chunk = copy->bytes;
    load.threads = free && !load.chunk && runs_ahead_ && MayBeBrought(fn_, op, target_);
    load.tma = load.tma || load.chunk || load.threads;
  } else if (const std::optional<SmemLayout> smem = OperandLayout(result); access && smem) {
    load.buffer = load.tma = true;
    load.smem = *smem;
  } else if (access && type.rank() == 2 && !one &&
             (type.elements() >= target_.lowering.staged_elements || type.shape[0] == 1) &&
             (IsAccumulator(result) || (runs_ahead_ && InLoop(fn_, id) && HasProducts()))) {
    BufferNeed plain{type.shape[0], type.shape[1], type.shape[0], type.shape[1]};
    plain.plain = type.shape[0] == 1;  // swizzled, it would take eight rows' room
    load.buffer = load.tma = plain.TmaFits(type.dtype);
    load.smem = plain.Layout(type.dtype);
  } else if (const auto row = RowCopyAccess(fn_, op, target_);
             row && !access && !one && runs_ahead_ && InLoop(fn_, id) && HasProducts()) {
    load.buffer = load.tma = true;
    access = row->tile, load.chunk = row->bytes, load.smem = RowLayout(type);
  }
  if (interleaved_.count(id)) load.every = 2;
  if (load.tma && !load.threads) load.row_dim = access->row_dim, load.col_dim = access->col_dim;
  plan_.loads[id] = load;
}

// A tile that register operands are made of: swizzled, for eight rows are read at a time.
std::optional<SmemLayout> LayoutPlanner::OperandLayout(ValueId v) {
  const Type& type = fn_.type(v);
  if (type.rank() != 2 || type.elements() < target_.lowering.staged_elements ||
      !operand_classes_.count(Find(v)))
    return {};
  return StagingLayout(type);
}

// Equal loads of one block share a buffer: the first brings the tile, the others read it again.
// What a pass keeps there and TMA cannot bring (a row of odd length, or filled with −∞) the
// threads put there that read it.
void LayoutPlanner::ShareLoads() {
  std::map<std::tuple<BlockId, std::vector<ValueId>, std::string, std::vector<int64_t>>, OpId>
      first;
  for (OpId id : order_) {
    const Op& op = fn_.ops[id];
    if (op.kind != OpKind::kLoad) continue;
    const LoadPlan& load = plan_.loads[id];
    const Type& type = fn_.type(op.results[0]);
    const bool kept = op.attr("kept") != nullptr;
    if (load.buffer || !load.registers ||
        (type.elements() < target_.lowering.staged_elements && !kept))
      continue;
    const std::optional<TileAccess> access = TmaAccess(fn_, op, target_);
    const std::optional<SmemLayout> smem = RereadLayout(type);
    if (!smem || InLoop(fn_, id) || (!access && (!kept || type.shape[0] != 1))) continue;
    const auto [it, fresh] =
        first.try_emplace({op.block, op.operands, op.s("modes"), op.ints("sizes")}, id);
    if (fresh) continue;
    LoadPlan& leader = plan_.loads[it->second];
    leader.buffer = true;
    leader.tma = access.has_value();
    leader.kept = kept;
    leader.smem = *smem;
    if (access) leader.row_dim = access->row_dim, leader.col_dim = access->col_dim;
    plan_.loads[id].shares = it->second;
  }
}

bool LayoutPlanner::HasProducts() const {
  return std::any_of(plan_.dots.begin(), plan_.dots.end(),
                     [](const auto& dot) { return dot.second.unit != MatrixUnit::kNone; });
}

bool LayoutPlanner::IsAccumulator(ValueId v) {
  for (const auto& [value, layout] : anchors_)
    if (Find(value) == Find(v)) return true;
  return false;
}

void LayoutPlanner::PlanStore(OpId id) {
  const Op& op = fn_.ops[id];
  StorePlan store;
  const Type& type = fn_.type(op.operands[1]);
  const std::optional<TileAccess> access = TmaAccess(fn_, op, target_);
  store.transposed = StoredTurned(op);
  const int64_t least =
      store.transposed ? target_.lowering.turned_elements : target_.lowering.staged_elements;
  if (access && type.rank() == 2 && (store.transposed || IsAccumulator(op.operands[1])) &&
      type.elements() >= least && !OverOthersInTurns(fn_, over_, id)) {
    // (H200, pairs along the columns of 24607x28920x112 in 256x176: 1315 us in boxes of 32 bytes,
    // 795 in halves; 292x18312x384 in 160x144 15.1 and 13.7. Where rows begin at whole sectors
    // halves lose: 24538x288x928 29.0 and 31.2, 2386x2944x48 9.2 and 10.3.)
    const Param* tensor = fn_.param(op.operands[0]);
    const bool amid = tensor != nullptr && tensor->facts.stride_align_bytes < isa::kSectorBytes;
    std::optional<SmemLayout> smem = amid ? StagingInHalves(type) : std::nullopt;
    if (!smem) smem = StagingLayout(type);
    if (smem) {
      store = {true, store.transposed, *smem, access->row_dim, access->col_dim};
    }
  }
  plan_.stores[id] = store;
}

// TMA combines tiles with a tensor if it makes all accesses to it, all of one kind:
// nothing orders what it does after what threads do, nor one copy after another.
void LayoutPlanner::PlanAtomics() {
  std::map<ValueId, std::map<OpId, StorePlan>> found;  // by tensor
  std::set<ValueId> others;                            // tensors accessed in any other way
  std::map<ValueId, std::string> kinds;
  for (OpId id : order_) {
    const Op& op = fn_.ops[id];
    if (op.kind == OpKind::kLoad || op.kind == OpKind::kStore) others.insert(op.operands[0]);
    if (op.kind != OpKind::kAtomic) continue;
    const ValueId tensor = op.operands[0];
    const Type& type = fn_.type(op.operands[1]);
    const std::optional<TileAccess> access = TmaAccess(fn_, op, target_);
    const std::optional<SmemLayout> smem =
        access && type.rank() == 2 && plan_.layouts.count(op.operands[1]) &&
                type.elements() >= target_.lowering.staged_elements &&
                EngineCombines(op.s("kind"), type.dtype) && !Fetches(op)
            ? StagingLayout(type)
            : std::nullopt;
    if (smem && kinds.try_emplace(tensor, op.s("kind")).first->second == op.s("kind"))
      found[tensor][id] = {true, false, *smem, access->row_dim, access->col_dim};
    else
      others.insert(tensor);
  }
  for (const auto& [tensor, atomics] : found)
    if (!others.count(tensor)) plan_.stores.insert(atomics.begin(), atomics.end());
}

}  // namespace tilec::ir
