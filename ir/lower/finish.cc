// SPDX-License-Identifier: Apache-2.0
#include "ir/lower/finish.h"

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "ir/isa.h"
#include "ir/lower/bring.h"
#include "ir/lower/diagnostics.h"
#include "ir/lower/pressure.h"
#include "ir/lower/sink_masks.h"
#include "ir/lower/turns.h"
#include "ir/lower/widest_product.h"
#include "ir/matrix_unit.h"
#include "ir/queries.h"
#include "ir/row_run.h"

namespace tilec::ir {

namespace {

using ScratchOps = std::vector<std::pair<OpId, int64_t>>;  // and their bytes

bool IsReduction(const Function& fn, OpId id) {
  const OpKind kind = fn.ops[id].kind;
  return kind == OpKind::kWarpReduce || kind == OpKind::kWarpArgReduce;
}

// Reductions with bytes of their own, which saves a barrier each: nobody has to wait until others
// have read what passed through these bytes before. So it is where they run once, and in loops
// where threads meet a second time in each turn: who writes the bytes again has met everybody
// there, behind what they read. The number is `alone`: 1, or 2 where the reduction shares the
// barrier of the next. Beside products those that run once have bytes of their own, and no more.
std::map<OpId, int64_t> AloneOf(const Function& fn, const ScratchOps& all, bool products) {
  constexpr int64_t kMostBytes = 512;
  std::map<OpId, int64_t> bytes(all.begin(), all.end());
  const auto may = [&](OpId id) {
    const auto at = bytes.find(id);
    return at != bytes.end() && IsReduction(fn, id) && at->second <= kMostBytes;
  };
  std::map<OpId, int64_t> alone;
  std::set<BlockId> blocks;
  for (const auto& [id, size] : all) blocks.insert(fn.ops[id].block);
  for (BlockId block : blocks) {
    // Reductions that stand side by side and do not read each other can meet together.
    std::vector<std::vector<OpId>> groups;
    size_t meetings = 0, single = 0;  // of groups, and if each came by itself
    OpId before;
    for (OpId id : fn.blocks[block].ops) {
      const Op& op = fn.ops[id];
      const bool exchange = bytes.count(id) > 0 &&
                            (op.kind == OpKind::kWarpScan || op.kind == OpKind::kWarpRearrange);
      single += exchange || may(id);
      meetings += exchange;
      if (may(id)) {
        const bool joins = !groups.empty() && before == groups.back().back() &&
                           std::none_of(groups.back().begin(), groups.back().end(), [&](OpId one) {
                             return fn.ops[one].results[0] == op.operands[0];
                           });
        if (!joins) groups.emplace_back();
        groups.back().push_back(id);
      }
      before = id;
    }
    meetings += groups.size();
    const bool once = groups.empty() || !InLoop(fn, groups[0][0]);
    if (!once && (single < 2 || products)) continue;
    for (const std::vector<OpId>& group : groups)
      for (OpId id : group)
        alone[id] = id != group.back() && !products && (once || meetings > 1) ? 2 : 1;
  }
  return alone;
}

// A store that passes through bytes that nothing else does, once: nobody has to wait for who read
// them before.
OpId StoresAlone(const Function& fn, const ScratchOps& all,
                 const std::map<OpId, int64_t>& of_reductions) {
  OpId only;
  for (const auto& [op, bytes] : all) {
    if (of_reductions.count(op)) continue;
    if (only.valid() || fn.ops[op].kind != OpKind::kGStore || InLoop(fn, op)) return OpId();
    only = op;
  }
  return only;
}

// Behind the buffers scratch, then the barriers.
void PlaceInMemory(Emitted& emitted, ProgramPlan& plan) {
  Function& out = emitted.fn;
  const int64_t first = plan.barriers_at;  // where the buffers end
  int64_t top = first;
  for (const auto& [role, scratch] : emitted.scratch) {
    int64_t shared = 0;
    std::map<OpId, int64_t> alone = AloneOf(out, scratch.ops, !plan.tiles.dots.empty());
    if (const OpId store = StoresAlone(out, scratch.ops, alone); store.valid()) alone[store] = 1;
    for (const auto& [op, bytes] : scratch.ops)
      if (!alone.count(op)) out.ops[op].set("scratch", top), shared = std::max(shared, bytes);
    top = RoundUp(top + shared, 128);
    for (const auto& [op, bytes] : scratch.ops) {
      if (!alone.count(op)) continue;
      out.ops[op].set("scratch", top);
      out.ops[op].set("alone", alone.at(op));
      top = RoundUp(top + bytes, 128);
    }
  }
  // Counters: nobody else has these bytes meanwhile. Those of one row are the same ones.
  std::map<std::vector<ValueId>, int64_t> counters;
  for (OpId id : OpsInOrder(out)) {
    if (!CountsIn(out, id).valid()) continue;
    Op& op = out.ops[id];
    std::vector<ValueId> row(op.operands.begin(), op.operands.end() - 1);
    row.erase(row.begin() + 1);  // the value
    const auto [at, fresh] = counters.try_emplace(std::move(row), top);
    op.set("scratch", at->second);
    if (fresh) top = RoundUp(top + ScratchBytesOf(out, op), 128);
  }
  plan.scratch_bytes = top - first;
  plan.barriers_at = top;
  for (ValueId barrier : emitted.barriers) {
    out.ops[out.values[barrier].def].set("offset", top);
    top += isa::kBarrierBytes * out.type(barrier).depth;
  }
  if (emitted.tensor_memory.valid()) {
    out.ops[out.values[emitted.tensor_memory].def].set("offset", top);
    top += isa::kBarrierBytes;  // of which it takes half
  }
  out.launch.smem_bytes = plan.smem_bytes = top;
}

// Registers of a thread that the widest instruction of products by such a role needs: its
// accumulators, and what the assembler wants beside them. 0: none is a warpgroup's.
int64_t WidestInstruction(const Function& fn, OpId role, const Target& target) {
  int64_t widest = 0;
  const int64_t groups = fn.ops[role].i("warps") / isa::kWarpgroupWarps;
  for (OpId id : OpsInOrder(fn)) {
    const Op& op = fn.ops[id];
    if (op.kind != OpKind::kMma || op.attr("split") == nullptr || groups == 0) continue;
    const Type& sum = fn.type(op.results[0]);
    // Integer products come in fewer widths: of 200 columns they have 208.
    const int64_t whole = StagedColumns(UnitOf(op), sum.dtype, sum.shape[1]);
    const int64_t columns = whole / (op.s("split") == "n" ? groups : 1);
    widest = std::max(widest, RegistersOfInstruction(columns, sum.dtype, target));
  }
  return widest;
}

// The most registers that a loop of products inside the block keeps, of what it uses itself.
int64_t PeakOfLoops(const Function& fn, BlockId block) {
  int64_t most = 0;
  for (OpId id : fn.blocks[block].ops)
    for (BlockId region : fn.ops[id].regions) {
      const std::vector<OpId>& ops = fn.blocks[region].ops;
      const bool products = std::any_of(
          ops.begin(), ops.end(), [&](OpId inner) { return fn.ops[inner].kind == OpKind::kMma; });
      most = std::max(most, IsLoop(fn.ops[id].kind) && products ? PeakRegisters(fn, region)
                                                                : PeakOfLoops(fn, region));
    }
  return most;
}

// Registers of a thread that the compute roles were scheduled for; 0: nobody decided.
int64_t ScheduledQuota(const SequentialOptions& options) {
  if (!options.scheduled || options.scheduled->registers.empty()) return 0;
  return *std::max_element(options.scheduled->registers.begin(),
                           options.scheduled->registers.end());
}

// A role that runs ahead is worth nothing if the compute roles spill.
Result<> CheckRegisters(const Function& out, const Target& target, const SequentialOptions& options,
                        bool brings, RegistersFull* registers_full, DiagSink& diags) {
  int64_t tiles_leave = options.scheduled
                            ? std::max(options.spare_registers, BesideScheduled(out, target))
                            : options.spare_registers;
  // Rows that no engine loads it does not store either: threads have their addresses, twice what is
  // taken beside tiles elsewhere (two results of 128 x 192: 162 registers of tiles, 140 bytes
  // spilled of 200).
  if (brings) tiles_leave = std::max(tiles_leave, 2 * target.registers.beside_by_rule);
  const int64_t beside_held = options.scheduled ? BesideHeld(out, target) : 0;
  for (OpId id : out.blocks[out.body].ops) {
    const Op& op = out.ops[id];
    if (op.kind != OpKind::kRole) continue;
    const int64_t quota = op.i("regs") > 0           ? op.i("regs")
                          : target.Has("setmaxnreg") ? target.limits.regs_per_thread
                                                     : target.RegistersAtLaunch(out.launch.warps);
    const bool groups = target.unit().completion == Completion::kGroups;
    const int64_t widest = groups ? WidestInstruction(out, id, target) : 0;
    const int64_t at_launch = target.RegistersAtLaunch(out.launch.warps);
    if (widest > at_launch) {
      if (options.need) *options.need = {LowerNeed::What::kRegisters, widest, at_launch};
      return diags
          .Report(lower_diag::kInstructionTooWide, Span{}, op.s("name"), out.name, widest,
                  isa::kWarpThreads * out.launch.warps, at_launch)
          .Help("choose smaller tiles with NAME=VALUE for the kernel's tune constants");
    }
    const int64_t peak = PeakRegisters(out, id);
    if (peak == 0 || (options.spare_registers < 0 && !brings)) continue;
    // What is held leaves enough: more is alive only where it is used up piece by piece. (A role
    // that has fewer than it was scheduled for, since the load role wants some, was scheduled for
    // more at once: attention under a mask, 132 held of 164, 264 bytes spilled of 232 for 240.)
    if (beside_held > 0 && quota >= ScheduledQuota(options) &&
        HeldRegisters(out, id) + beside_held <= quota)
      continue;
    // One warp has no tiles but scalars that it was handed: what tiles of a warpgroup leave free is
    // no measure of it.
    const bool one_warp = op.i("warps") < isa::kWarpgroupWarps && !brings;
    if (one_warp && peak + target.registers.least_beside <= quota) continue;
    const int64_t spare = options.spare_for_products ? std::max(SpareRegisters(out, target, id),
                                                                PlacedRegisters(out, id) - peak)
                                                     : 0;
    registers_full->refused = peak + std::max(tiles_leave, spare) > quota;
    registers_full->in_loop =
        registers_full->refused && beside_held == 0 && PeakOfLoops(out, op.regions[0]) == peak;
    if (registers_full->refused && options.need)
      *options.need = {peak + tiles_leave <= quota ? LowerNeed::What::kRegistersOfProducts
                                                   : LowerNeed::What::kRegisters,
                       peak + std::max(tiles_leave, spare), quota};
    if (registers_full->refused && peak + tiles_leave <= quota)
      return diags
          .Report(lower_diag::kRegistersTight, Span{}, op.s("name"), out.name, peak, spare, quota)
          .Help("choose smaller tiles with NAME=VALUE for the kernel's tune constants");
    if (registers_full->refused)
      return diags.Report(lower_diag::kRegistersFull, Span{}, op.s("name"), out.name, peak, quota)
          .Help("choose smaller tiles with NAME=VALUE for the kernel's tune constants");
  }
  return Done();
}

}  // namespace

Result<> CheckSharedMemory(const Function& fn, const ProgramPlan& plan, const Target& target,
                           DiagSink& diags) {
  if (plan.smem_bytes <= target.limits.smem_bytes) return Done();
  return diags
      .Report(lower_diag::kSharedMemoryFull, fn.params.empty() ? Span{} : fn.params[0].at, fn.name,
              plan.smem_bytes, target.limits.smem_bytes)
      .Help("choose smaller tiles with NAME=VALUE for the kernel's tune constants");
}

Result<Function> Finish(Emitted emitted, ProgramPlan& plan, const Target& target,
                        const SequentialOptions& options, RegistersFull* registers_full,
                        DiagSink& diags) {
  PlaceInMemory(emitted, plan);
  Function out = std::move(emitted.fn);
  if (plan.smem_bytes > target.limits.smem_bytes && options.need)
    *options.need = {LowerNeed::What::kSharedMemory, plan.smem_bytes, target.limits.smem_bytes};
  TRY_VOID(CheckSharedMemory(out, plan, target, diags));
  SinkMasks(&out);
  if (plan.specialized) {
    TakeTurns(plan, target, &out);
    TRY_VOID(CheckRegisters(out, target, options, BringsAny(plan.tiles), registers_full, diags));
    return out;
  }
  const bool rows_kept = std::count_if(plan.tiles.loads.begin(), plan.tiles.loads.end(),
                                       [](const auto& load) { return load.second.kept; }) > 1;
  for (OpId id : out.blocks[out.body].ops)
    if (out.ops[id].kind == OpKind::kRole)
      out.launch.ctas_per_sm = CtasPerSm(out, target, id, rows_kept);
  return out;
}

}  // namespace tilec::ir
