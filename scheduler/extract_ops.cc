// An op of the problem: what it costs on the machine, which memory its result takes and how much of
// it, under which name, and what the author pinned. A branch costs what its longer arm does.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "ir/arms.h"
#include "ir/isa.h"
#include "scheduler/extractor.h"
#include "support/expr.h"

namespace tilec::scheduler {

using ir::Op;
using ir::OpId;
using ir::OpKind;
using ir::Type;
using ir::ValueId;

namespace {

constexpr int64_t kLanes = 128;  // of tensor memory, of 4 bytes each per column

}  // namespace

int64_t Extractor::Bytes(ValueId v) const {
  return CeilDiv(Elements(v) * ir::Info(fn_.type(v).dtype).bits, 8);
}

int64_t Extractor::Registers(int64_t bytes, int warps) const {
  return std::max<int64_t>(1, CeilDiv(bytes, 4 * ir::isa::kWarpThreads * warps));
}

int64_t Extractor::Columns(int64_t bytes) const { return CeilDiv(bytes, 4 * kLanes); }

// Bytes of a tile as threads and columns have it: rows of accumulators in tensor memory, and of
// what is computed of them, are padded to its lanes.
int64_t Extractor::Spread(ValueId v) const {
  const Type& type = fn_.type(v);
  if (!tensor_memory_ || accumulators_.count(type.shape) == 0) return Bytes(v);
  const int64_t rows = type.shape[0] / (Sliced(v) ? slices_ : 1);
  return Bytes(v) * ir::StagedRows(target_.matrix_unit.kind, type.dtype, rows) / rows;
}

ir::Work Extractor::WorkOf(const Op& op) const {
  return scheduler::WorkOf(target_, fn_, op, [&](ValueId v) { return Sliced(v) ? slices_ : 1; });
}

std::string Extractor::Unique(std::string name) {
  for (char& c : name)
    if (c == '#' || c == '=' || c == ',' || c == ':' || c <= ' ') c = '_';
  if (name.empty()) name = "op";
  if (taken_.insert(name).second) return name;
  for (int i = 2;; ++i)
    if (std::string other = fmt::format("{}.{}", name, i); taken_.insert(other).second)
      return other;
}

void Extractor::AddOp(OpId id) {
  const Op& op = fn_.ops[id];
  // One op per slice, or one.
  std::vector<int> slices = {static_cast<int>(op.i("slice", -1))};
  if (replicated_.count(id) > 0 || (slices_ > 1 && SlicedOp(op)))
    slices.assign(all_slices_.begin(), all_slices_.end());
  const ir::OpCost& cost = Cost(op);
  const ir::Work work = WorkOf(op);
  std::string base = op.results.empty() ? "" : fn_.values[op.results[0]].name;
  if (base.empty()) base = ir::Info(op.kind).mnemonic;
  base = Unique(base);
  for (int s : slices) {
    GraphOp g = CostedOp(cost, work, op.at);
    g.name = slices.size() > 1 ? Unique(fmt::format("{}_{}", base, s)) : base;
    g.slice = s;
    Home home = Home::kRegisters;
    if (op.kind == OpKind::kLoad && cost.variable) {
      home = Home::kShared;
      g.smem_bytes = Bytes(op.results[0]);
    } else if (op.kind == OpKind::kDot && tensor_memory_) {
      home = Home::kTensor;
      g.tmem_columns = Columns(Spread(op.results[0]));
    } else if (!op.results.empty()) {
      g.regs = Registers(Spread(op.results[0]), g.warps);
    }
    if (facts_.masks.count(id) > 0 && !options_.masks_every_turn && arms_.empty()) {
      g.issue = g.latency = 0;
      g.uses.clear();
      if (op.kind != OpKind::kSelect) g.regs = 0;
    }
    if (op.kind == OpKind::kDot) products_.insert(static_cast<int>(graph_.ops.size()));
    instances_[id].push_back(static_cast<int>(graph_.ops.size()));
    AddPins(op, g);
    home_.push_back(home);
    const ValueId value = op.results.empty() ? ValueId() : op.results[0];
    origins_.push_back({{{StepKind::kOp, id, value, op.at}}, 0, g.slice});
    graph_.ops.push_back(std::move(g));
  }
}

Extractor::Spent Extractor::SpentIn(ir::BlockId arm) const {
  Spent spent;
  const auto add = [&](const Spent& more) {
    spent.cycles += more.cycles;
    for (const auto& [unit, busy] : more.units) spent.units[unit] += busy;
  };
  for (OpId id : fn_.blocks[arm].ops) {
    const Op& op = fn_.ops[id];
    if (!op.regions.empty()) {
      Spent longest;
      for (ir::BlockId region : op.regions) longest.Longer(SpentIn(region));
      add(longest);
      continue;
    }
    if (op.kind == OpKind::kYield || op.kind == OpKind::kPrint || op.kind == OpKind::kAssert ||
        IsFree(op.kind) || costed_.count(id) > 0)
      continue;
    if (IsScalar(fn_, op)) continue;
    const GraphOp g = CostedOp(Cost(op), WorkOf(op), op.at);
    Spent one;
    one.cycles = g.async || g.variable_latency ? g.latency : g.issue;
    for (const UnitUse& use : g.uses) one.units[use.unit] += use.cycles;
    add(one);
  }
  return spent;
}

void Extractor::AddArms(OpId id) {
  const Op& op = fn_.ops[id];
  Spent longest;
  for (ir::BlockId arm : op.regions) longest.Longer(SpentIn(arm));
  GraphOp g;
  g.kind = ir::Info(op.kind).mnemonic;
  g.issue = g.latency = std::max<int64_t>(1, longest.cycles);
  g.warps = kComputeWarps;
  for (const auto& [unit, busy] : longest.units)
    if (busy > 0) g.uses.push_back({unit, busy});
  for (ValueId v : op.results)
    if (fn_.type(v).rank() > 0) g.regs += Registers(Bytes(v), g.warps);
  std::string base = op.results.empty() ? "" : fn_.values[op.results[0]].name;
  if (base.empty()) base = g.kind;
  g.name = Unique(base);
  g.at = op.at;
  instances_[id].push_back(static_cast<int>(graph_.ops.size()));
  for (OpId inside : OpsInside(fn_, id))
    if (costed_.count(inside) == 0) AddPins(fn_.ops[inside], g);
  home_.push_back(Home::kRegisters);
  const ValueId value = op.results.empty() ? ValueId() : op.results[0];
  origins_.push_back({{{StepKind::kOp, id, value, op.at}}, 0, g.slice});
  graph_.ops.push_back(std::move(g));
}

// Decisions of the author, as the source's pins left them on the op.
void Extractor::AddPins(const Op& op, const GraphOp& g) {
  Graph::Pin pin;
  pin.op = g.name;
  pin.at = op.at;
  if (g.smem_bytes > 0) pin.depth = static_cast<int>(op.i("pin_depth"));
  pin.stage = static_cast<int>(op.i("pin_stage", -1));
  if (const std::string& role = op.s("pin_role"); !role.empty() && !g.variable_latency) {
    const auto [it, first] = role_pins_.try_emplace({role, g.slice}, g.name);
    if (!first) pin.same_role_as = it->second;
  }
  if (pin.depth > 0 || pin.stage >= 0 || !pin.same_role_as.empty()) graph_.pins.push_back(pin);
}

}  // namespace tilec::scheduler
