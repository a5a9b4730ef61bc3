// SPDX-License-Identifier: Apache-2.0
#include "scheduler/held_slots.h"

#include <algorithm>
#include <map>

#include "ir/isa.h"
#include "ir/lower/waits.h"

namespace tilec::scheduler {

namespace {

constexpr int64_t kEnoughSlots = 3;

int64_t StagedBytes(const ir::Type& tile) { return tile.elements() * ir::ByteSize(tile.dtype); }

// The most that tiles on their way out could take.
int64_t MostStaged(const ir::Function& fn) {
  int64_t bytes = 0;
  for (const ir::Op& op : fn.ops)
    if (op.kind == ir::OpKind::kStore) bytes += StagedBytes(fn.type(op.operands[1]));
  return bytes;
}

// What they take in a CTA that stays (ProgramPlanner::PanelsInFlight).
int64_t Staged(const ir::Function& fn, const ir::Target& target, const ir::LayoutPlan& plan) {
  int64_t staged = 0;
  for (const auto& [id, store] : plan.stores) {
    if (!store.tma) continue;
    const ir::Type& tile = fn.type(fn.ops[id].operands[1]);
    const int64_t columns = tile.shape.back(), all = StagedBytes(tile);
    if (store.transposed || store.smem.panel_cols == 0 || columns % store.smem.panel_cols != 0) {
      staged += all;
      continue;
    }
    const int64_t panels = columns / store.smem.panel_cols, bytes = all / panels;
    int64_t buffers =
        2 * std::max<int64_t>(1, ir::isa::kLineBytes / std::max(1, store.smem.swizzle_bytes));
    while (buffers > 2 && buffers * bytes > target.lowering.staging_bytes) buffers /= 2;
    staged += std::min(buffers, panels) * bytes;
  }
  return staged;
}

}  // namespace

int64_t HeldBySlots(const ir::Function& fn, const ir::Target& target, const Graph& graph,
                    std::optional<ir::LayoutPlan>* plan) {
  const int tensor = graph.FindUnit("tensor");
  int64_t bytes = 0, latency = 0, product = 0;
  std::map<int, int64_t> copies;  // cycles by unit
  for (const GraphOp& op : graph.ops) {
    if (op.variable_latency) {
      bytes += op.smem_bytes;
      latency = std::max(latency, op.latency);
    }
    for (const UnitUse& use : op.uses) {
      if (op.variable_latency) copies[use.unit] += use.cycles;
      if (use.unit == tensor) product += use.cycles;
    }
  }
  const int64_t room = graph.machine.smem_bytes;
  if (bytes == 0 || (room - MostStaged(fn)) / bytes >= kEnoughSlots) return 0;
  if (!*plan) *plan = ir::MakePlan(fn, target, 0, /*runs_ahead=*/true);
  const int64_t slots = std::max<int64_t>(1, (room - Staged(fn, target, **plan)) / bytes);
  if (slots >= kEnoughSlots) return 0;
  int64_t copied = 0;
  for (const auto& [unit, cycles] : copies)
    copied = std::max(copied, cycles / graph.units[static_cast<size_t>(unit)].capacity);
  return (latency + target.model.memory_cycles + copied + product) / slots;
}

int64_t LostInDecoding(const ir::Function& fn, const ir::Target& target,
                       const Extraction& extraction, int64_t cycles) {
  bool decodes = false;
  int64_t product = 0;
  for (const OpOrigin& origin : extraction.origins)
    for (const OriginStep& step : origin.steps) {
      if (step.kind != StepKind::kOp || fn.ops[step.op].kind != ir::OpKind::kDot) continue;
      product += ir::ProductCycles(fn, fn.ops[step.op], target);
      decodes = decodes || ir::DecodedByThreads(fn, fn.ops[step.op].operands[0]);
    }
  return decodes && 2 * product >= cycles ? target.model.hand_over_cycles : 0;
}

}  // namespace tilec::scheduler
