// SPDX-License-Identifier: Apache-2.0
#include "ir/lower/realise.h"

#include <algorithm>
#include <set>
#include <utility>

#include "ir/check_plan.h"
#include "ir/isa.h"
#include "ir/lower/bring.h"
#include "ir/lower/diagnostics.h"
#include "ir/lower/emitter.h"
#include "ir/lower/finish.h"
#include "ir/lower/program_planner.h"
#include "ir/lower/waits.h"
#include "ir/plan_ground.h"
#include "ir/plan_text.h"

namespace tilec::ir {

namespace {

// How deep the rings of a plan in loops are: what the planners are asked for, to compare. Products
// in flight from iteration to iteration exist from three slots on.
int DepthOf(const ProgramPlan& plan) {
  if (!plan.specialized) return 0;
  constexpr int64_t kLeast = 2, kOfChains = 3;
  int64_t depth = kLeast;
  for (const PlannedRing& ring : plan.rings)
    if (ring.in_loop && !ring.around) depth = std::max(depth, ring.slots);
  for (const auto& [key, loop] : plan.loops)
    if (!loop.chains.empty()) depth = std::max(depth, kOfChains);
  return static_cast<int>(depth);
}

// Rings around others, as deep as the plan has them.
ScheduledResources OuterRingsOf(const ProgramPlan& plan, const Function& fn) {
  ScheduledResources outer;
  for (const PlannedRing& ring : plan.rings)
    for (const RingSite& site : ring.sites)
      for (OpId load : site.loads)
        if (ring.around) outer.rings.push_back({fn.ops[load].at, ring.slots, true});
  return outer;
}

}  // namespace

Result<Function> Realise(const Function& fn, ProgramPlan& plan, const Target& target,
                         const SequentialOptions& options, RegistersFull* registers_full,
                         DiagSink& diags) {
  const bool own = !options.plan && !(options.scheduled && options.scheduled->binding);
  if (plan.smem_bytes > target.limits.smem_bytes && options.need)
    *options.need = {LowerNeed::What::kSharedMemory, plan.smem_bytes, target.limits.smem_bytes};
  if (own) TRY_VOID(CheckSharedMemory(fn, plan, target, diags));
  const TargetLimits& limits = target.limits;
  TRY_VOID(CheckPlan(
      plan, fn, {limits.smem_bytes, limits.registers, isa::kMostCtaWarps, limits.named_barriers},
      diags));
  TRY(Emitted emitted, Emitter(fn, plan, RunLimits(target), diags).Run());
  return Finish(std::move(emitted), plan, target, options, registers_full, diags);
}

SequentialOptions::Staging StagingOf(const ProgramPlan& plan) {
  using Staging = SequentialOptions::Staging;
  std::set<size_t> buffers;
  bool drains = false;
  for (const auto& [store, first] : plan.store_buffers)
    if (!buffers.insert(first).second) return Staging::kShares;
  for (const auto& [store, epilogue] : plan.epilogues)
    drains = drains || epilogue.drains || epilogue.freed_at.valid();
  return drains ? Staging::kDrains : Staging::kAwaits;
}

int64_t CtasSideBySide(const Function& fn, const ProgramPlan& plan, const Target& target) {
  const int64_t wanted = CtasWanted(fn, target);
  if (!plan.specialized || wanted < 2) return 1;
  const Target share = ShareOf(target, wanted);
  int64_t all = 0;
  for (const PlannedRole& role : plan.roles)
    all += role.registers * CeilDiv(role.warps, isa::kWarpgroupWarps);
  const int64_t groups = CeilDiv(plan.warps, isa::kWarpgroupWarps);
  const bool fits = all > 0 && all <= share.RegistersAtLaunch(plan.warps) * groups &&
                    plan.smem_bytes <= share.limits.smem_bytes;
  return fits ? wanted : 1;
}

Result<Function> ObeyPlan(const Function& fn, const Target& machine,
                          const SequentialOptions& options, ProgramPlan* made, DiagSink& diags) {
  TRY(*made, ParsePlan(options.plan->text, options.plan->file, fn, diags));
  const int64_t beside = CtasSideBySide(fn, *made, machine);
  const Target target = ShareOf(machine, beside);
  made->tiles.async_proxy = target.Has("async_proxy");
  SequentialOptions form = options;
  form.early_loads = made->early_loads;
  form.slice_epilogues = made->slice_epilogues;
  form.joined_rings = made->joined_rings;
  form.bring = BringsAny(made->tiles);
  form.staging = StagingOf(*made);
  const ScheduledResources outer = OuterRingsOf(*made, fn);
  form.scheduled = &outer;
  form.outer_slots = true;
  if (InTensorMemory(target.matrix_unit.kind)) form.share = made->tiles.warpgroups;
  ProgramPlanner planner(fn, target, form, DepthOf(*made));
  if (!planner.sound())
    return diags.Report(lower_diag::kRolesNotApart, Span{}, fn.name)
        .Help("use --schedule=sequential");
  TRY(const ProgramPlan own, planner.Run(diags));
  TRY_VOID(CheckGround(*made, own, fn, diags));
  RegistersFull registers_full;
  TRY(Function out, Realise(fn, *made, target, options, &registers_full, diags));
  if (beside > 1) out.launch.ctas_per_sm = beside;
  return out;
}

ScheduledResources ResourcesOf(const ProgramPlan& plan, const Function& fn) {
  ScheduledResources out;
  for (const PlannedRing& ring : plan.rings)
    for (const RingSite& site : ring.sites)
      for (OpId load : site.loads) out.rings.push_back({fn.ops[load].at, ring.slots});
  for (const PlannedRole& role : plan.roles) {
    if (role.kind == PlannedRole::Kind::kProducer)
      out.load_registers = role.registers;
    else if (role.computes())
      out.registers.push_back(role.registers);
  }
  return out;
}

}  // namespace tilec::ir
