// SPDX-License-Identifier: Apache-2.0
#include "ir/lower/pressure.h"

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "ir/isa.h"
#include "ir/queries.h"

namespace tilec::ir {

RolePressure FullestRole(const Function& warps, const Target& target) {
  RolePressure fullest;
  fullest.kept = -1;
  for (OpId id : warps.blocks[warps.body].ops) {
    const Op& op = warps.ops[id];
    if (op.kind != OpKind::kRole) continue;
    const int64_t peak = PeakRegisters(warps, id);
    if (peak <= fullest.kept) continue;
    fullest = {op.s("name"), peak, op.i("regs"), 0, op.i("regs")};
    fullest.held = HeldRegisters(warps, id);
  }
  if (fullest.most == 0) {
    // Every fourth warp has its registers of the same quarter (Target::RegistersAtLaunch).
    const int64_t threads = isa::kWarpThreads * RoundUp(warps.launch.warps, isa::kWarpgroupWarps);
    fullest.most = std::min(
        target.limits.regs_per_thread,
        target.limits.registers / (threads * std::max<int64_t>(1, warps.launch.ctas_per_sm)));
  }
  return fullest;
}

namespace {
// Does it stand beside products in the iterations of a loop? (persistent CTAs loop around all of
// it.)
bool BesideProducts(const Function& fn, BlockId block) {
  for (BlockId b = block; b.valid() && fn.blocks[b].parent.valid();
       b = fn.ops[fn.blocks[b].parent].block) {
    const OpKind around = fn.ops[fn.blocks[b].parent].kind;
    if (around != OpKind::kFor && around != OpKind::kWhile) continue;
    std::vector<BlockId> blocks = {b};
    bool product = false;
    for (size_t i = 0; i < blocks.size(); ++i)
      for (OpId id : fn.blocks[blocks[i]].ops) {
        const Op& op = fn.ops[id];
        if (op.kind == OpKind::kFor || op.kind == OpKind::kWhile) return false;
        product = product || op.kind == OpKind::kMma;
        blocks.insert(blocks.end(), op.regions.begin(), op.regions.end());
      }
    return product;
  }
  return false;
}
}  // namespace

int64_t SpareRegisters(const Function& fn, const Target& target, OpId role) {
  // Fitted to random programs, not derived; of others it found half of those that spill
  // (perf_log.md).
  const TargetRegisters& beside = target.registers;
  int64_t products = 0;
  std::map<ValueId, int64_t> accessed;
  for (OpId id : OpsInOrder(fn)) {
    const Op& op = fn.ops[id];
    products += op.kind == OpKind::kMma && (!role.valid() || IsWithin(fn, id, role));
    const bool atomic = op.kind == OpKind::kGAtomic;
    if (!atomic && op.kind != OpKind::kGLoad && op.kind != OpKind::kGStore) continue;
    int64_t& most = accessed[op.operands[0]];
    if (BesideProducts(fn, op.block))
      most = std::max(most, atomic ? beside.beside_atomic : beside.beside_access);
  }
  int64_t spare = beside.least_beside +
                  beside.beside_product * std::max<int64_t>(0, products - beside.products_for_free);
  for (const auto& [tensor, registers] : accessed) spare += registers;
  return spare;
}

namespace {
int64_t Accessed(const Function& fn, OpId role, bool all) {
  std::set<ValueId> accessed;
  for (OpId id : OpsInOrder(fn)) {
    const Op& op = fn.ops[id];
    const bool access =
        op.kind == OpKind::kGLoad || op.kind == OpKind::kGStore || op.kind == OpKind::kGAtomic;
    if (access && IsWithin(fn, id, role) && (all || BesideProducts(fn, op.block)))
      accessed.insert(op.operands[0]);
  }
  return static_cast<int64_t>(accessed.size());
}
}  // namespace

int64_t TensorsBesideProducts(const Function& fn, OpId role) { return Accessed(fn, role, false); }
int64_t TensorsOfThreads(const Function& fn, OpId role) { return Accessed(fn, role, true); }

namespace {
// Warpgroups that compute.
int64_t Computing(const Function& warps) {
  int64_t computing = 0;
  for (OpId id : warps.blocks[warps.body].ops) {
    const Op& op = warps.ops[id];
    if (op.kind == OpKind::kRole && op.i("warps") >= isa::kWarpgroupWarps)
      computing += op.i("warps") / isa::kWarpgroupWarps;
  }
  return computing;
}
}  // namespace

int64_t BesideScheduled(const Function& warps, const Target& target) {
  const TargetRegisters& registers = target.registers;
  return Computing(warps) == 1 ? std::max(registers.beside_scheduled, registers.beside_alone)
                               : registers.beside_scheduled;
}

int64_t BesideHeld(const Function& warps, const Target& target) {
  const TargetRegisters& registers = target.registers;
  if (registers.beside_held == 0 || Computing(warps) != 1) return registers.beside_held;
  return std::max(registers.beside_held, registers.beside_alone);
}

bool LeavesRegisters(const Function& warps, const Target& target) {
  for (OpId id : warps.blocks[warps.body].ops) {
    const Op& op = warps.ops[id];
    if (op.kind != OpKind::kRole || op.i("regs") == 0) continue;
    const int64_t peak = PeakRegisters(warps, id);
    const int64_t spare =
        SpareRegisters(warps, target, id) + target.registers.left_when_solved_again;
    if (peak > 0 && peak + spare > op.i("regs")) return false;
  }
  return true;
}

}  // namespace tilec::ir
