// SPDX-License-Identifier: Apache-2.0
#include "ir/lower/derive_plan.h"

#include <algorithm>
#include <set>

#include "ir/isa.h"
#include "ir/lower/buffers.h"
#include "ir/lower/producer_share.h"
#include "ir/lower/role_needs.h"
#include "ir/lower/tensor_sums.h"

namespace tilec::ir {

namespace {

// The ops that make register operands of products, also by way of carried values and branches.
void FindFeeders(const Function& fn, OpId dot, ValueId operand,
                 std::map<OpId, std::set<OpId>>& feeders) {
  std::set<ValueId> seen;
  std::vector<ValueId> work = {operand};
  while (!work.empty()) {
    const ValueId v = work.back();
    work.pop_back();
    if (!seen.insert(v).second) continue;
    const Value& value = fn.values[v];
    const auto yields = [&](const Op& op, size_t i) {
      for (BlockId region : op.regions)
        work.push_back(fn.ops[fn.blocks[region].ops.back()].operands[i]);
    };
    if (value.block.valid()) {  // carried
      const OpId parent = fn.blocks[value.block].parent;
      if (!parent.valid() || fn.ops[parent].kind != OpKind::kFor) continue;
      const std::vector<ValueId>& args = fn.blocks[value.block].args;
      const auto i = static_cast<size_t>(std::find(args.begin(), args.end(), v) - args.begin());
      if (i == 0) continue;
      work.push_back(fn.ops[parent].operands[1 + i]);
      yields(fn.ops[parent], i - 1);
    } else if (value.def.valid()) {
      const Op& op = fn.ops[value.def];
      const auto i = static_cast<size_t>(std::find(op.results.begin(), op.results.end(), v) -
                                         op.results.begin());
      if (op.kind == OpKind::kIf || op.kind == OpKind::kFor)
        yields(op, i);
      else
        feeders[value.def].insert(dot);
    }
  }
}

// A buffer has as many slots as the ring that it is the memory of.
void DeriveSlots(ProgramPlan& p) {
  std::map<size_t, int64_t> slots;
  for (const auto& [load, buffer] : p.load_buffers)
    if (const auto site = p.site_of.find(load); site != p.site_of.end())
      slots[buffer] = p.rings[site->second.first].slots;
  for (const OperandRing& ring : p.operand_rings)
    if (ring.buffer) slots[*ring.buffer] = ring.slots;
  for (const auto& [id, pass] : p.passes) slots[pass.buffer] = pass.slots;
  for (const auto& [op, exchange] : p.exchanges) slots[exchange.buffer] = exchange.parts;
  for (size_t i = 0; i < p.buffers.size(); ++i) {
    PlannedBuffer& buffer = p.buffers[i];
    if (const auto it = slots.find(i); it != slots.end()) buffer.type.depth = it->second;
    buffer.bytes = SmemBytes(buffer.type.smem, buffer.type.dtype) * buffer.type.depth;
  }
}

// Mbarriers, with all slots.
int64_t BarriersOf(const ProgramPlan& p) {
  int64_t barriers = p.copy_barrier ? 1 : 0;
  for (const PlannedRing& ring : p.rings) barriers += 2 * ring.slots;
  for (const auto& [id, token] : p.tokens) barriers += token.slots;
  for (const auto& [id, pass] : p.passes) barriers += 2 * pass.slots;
  barriers += static_cast<int64_t>(p.sum_columns.size()) + (p.sum_columns.empty() ? 0 : 1);
  for (const auto& [op, exchange] : p.exchanges) barriers += exchange.barriers;
  return barriers;
}

// Sums of these products, and where each role has them in tensor memory. `epilogues`: what is left
// to stores.
void PlaceSums(const Function& fn, const std::set<OpId>& apart, const std::set<OpId>& epilogues,
               ProgramPlan& p) {
  p.sums = FindTensorSums(fn, p.tiles, apart);
  p.sum_of.clear();
  p.change_of.clear();
  p.sum_columns.clear();
  p.operand_columns.clear();
  p.scale_columns.clear();
  p.deferred = epilogues;
  std::vector<std::vector<size_t>> of_role(static_cast<size_t>(p.compute_roles));
  for (size_t i = 0; i < p.sums.size(); ++i) {
    for (OpId dot : p.sums[i].dots) p.sum_of[dot] = i;
    for (const auto& [head, change] : p.sums[i].changes) {
      p.change_of[head] = i;
      p.deferred.insert(change.ops.begin(), change.ops.end());
    }
    if (p.sums[i].entry) p.deferred.insert(p.sums[i].entry->begin(), p.sums[i].entry->end());
    for (size_t role = 0; role < of_role.size(); ++role)
      if (!p.specialized || p.Executes(static_cast<int>(role), p.sums[i].dots[0]))
        of_role[role].push_back(i);
  }
  p.tensor_columns = PlaceTensorSums(fn, of_role, &p);
}

// Which products add to one another in tensor memory. Where the columns do not suffice for what
// loops carry there, and no schedule counts on it, the last of these sums are taken apart until
// they do: threads hold the tile between its products.
void DeriveSums(const Function& fn, ProgramPlan& p) {
  const std::set<OpId> epilogues = p.deferred;
  std::set<OpId> apart;
  PlaceSums(fn, apart, epilogues, p);
  while (p.tensor_columns > kTensorColumns && !p.specialized) {
    const auto carried = std::find_if(p.sums.rbegin(), p.sums.rend(), [](const TensorSum& sum) {
      return sum.resident() || !sum.loops.empty();
    });
    if (carried == p.sums.rend()) break;
    apart.insert(carried->dots.begin(), carried->dots.end());
    PlaceSums(fn, apart, epilogues, p);
  }
}

// Where one has no address all are placed anew.
void PlacePlan(ProgramPlan* plan) {
  std::vector<BufferLife> lives;
  bool placed = true;
  for (const PlannedBuffer& b : plan->buffers) {
    lives.push_back({b.begin, b.end, b.bytes, b.owner, 0});
    placed = placed && b.offset >= 0;
  }
  int64_t end = 0;
  if (!placed) {
    PlaceBuffers(lives);
    for (size_t i = 0; i < lives.size(); ++i) plan->buffers[i].offset = lives[i].offset;
  }
  for (const PlannedBuffer& b : plan->buffers) end = std::max(end, b.offset + b.bytes);
  plan->barriers_at = RoundUp(end, 128);
  plan->smem_bytes =
      plan->barriers_at + isa::kBarrierBytes * BarriersOf(*plan);  // scratch is known later
}

}  // namespace

void DerivePlan(const Function& fn, ProgramPlan* plan) {
  ProgramPlan& p = *plan;
  p.needs.clear();
  if (p.specialized)
    if (auto needs = NeedsOfRoles(fn, ComputeRolesOf(fn))) p.needs = std::move(*needs);
  p.site_of.clear();
  std::vector<OpId> loads;
  for (size_t i = 0; i < p.rings.size(); ++i)
    for (size_t k = 0; k < p.rings[i].sites.size(); ++k)
      for (OpId load : p.rings[i].sites[k].loads) {
        p.site_of[load] = {i, k};
        loads.push_back(load);
      }
  if (const std::optional<ProducerShare> share = ShareOfProducer(fn, loads); p.specialized && share)
    p.control = share->control, p.structure = share->structure;
  p.operand_ring_of.clear();
  for (size_t i = 0; i < p.operand_rings.size(); ++i)
    for (const auto& operand : p.operand_rings[i].operands) p.operand_ring_of[operand] = i;
  p.deferred.clear();
  for (const auto& [store, epilogue] : p.epilogues)
    p.deferred.insert(epilogue.sliced.begin(), epilogue.sliced.end());
  DeriveSums(fn, p);
  DeriveSlots(p);
  PlacePlan(plan);
  p.feeders.clear();
  for (const auto& [id, dot] : p.tiles.dots)
    if (dot.a.how == OperandPlan::How::kRegister) FindFeeders(fn, id, dot.a.source, p.feeders);
}

}  // namespace tilec::ir
