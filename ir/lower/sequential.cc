// SPDX-License-Identifier: Apache-2.0
#include "ir/lower/sequential.h"

#include <iterator>

#include "ir/check_plan.h"
#include "ir/lower/diagnostics.h"
#include "ir/lower/emitter.h"
#include "ir/lower/finish.h"
#include "ir/lower/pressure.h"
#include "ir/lower/program_planner.h"
#include "ir/plan_ground.h"
#include "ir/plan_text.h"

namespace tilec::ir {

namespace {

// Of an SM and of a CTA (hopper.md §12).
constexpr int64_t kRegistersOfAnSm = 65536, kWarpsOfACta = 32, kNamedBarriers = 16;
constexpr int kDeepest = 8;                    // ring
constexpr int64_t kSequentialRegisters = 232;  // of tiles, where a thread may have 255

// What is tried, in order: what costs registers, from the fastest program to the smallest.
struct Form {
  bool slice_epilogues, early_loads;
};
constexpr Form kForms[] = {{false, true}, {false, false}, {true, true}, {true, false}};

Result<Function> Realise(const Function& fn, ProgramPlan& plan, const SequentialOptions& options,
                         bool* registers_full, DiagSink& diags) {
  const bool own = !options.plan && !(options.scheduled && options.scheduled->binding);
  if (own) TRY_VOID(CheckSharedMemory(fn, plan, options, diags));
  TRY_VOID(CheckPlan(
      plan, fn, {options.smem_limit_bytes, kRegistersOfAnSm, kWarpsOfACta, kNamedBarriers}, diags));
  TRY(Emitted emitted, Emitter(fn, plan, diags).Run());
  return Finish(std::move(emitted), plan, options, registers_full, diags);
}

// What somebody else planned, obeyed to the letter.
Result<Function> ObeyPlan(const Function& fn, const SequentialOptions& options, ProgramPlan* made,
                          DiagSink& diags) {
  TRY(*made, ParsePlan(options.plan->text, options.plan->file, fn, diags));
  SequentialOptions form = options;
  form.early_loads = made->early_loads;
  form.slice_epilogues = made->slice_epilogues;
  form.scheduled = nullptr;
  ProgramPlanner planner(fn, form, made->specialized ? kDeepest : 0);
  if (!planner.sound())
    return diags.Report(lower_diag::kRolesNotApart, Span{}, fn.name)
        .Help("use --schedule=sequential");
  TRY(const ProgramPlan own, planner.Run(diags));
  TRY_VOID(CheckGround(*made, own, fn, diags));
  bool registers_full = false;
  return Realise(fn, *made, options, &registers_full, diags);
}

Result<Function> OneRole(const Function& fn, const SequentialOptions& options, ProgramPlan* made,
                         DiagSink& diags) {
  TRY(*made, ProgramPlanner(fn, options, 0).Run(diags));
  bool registers_full = false;
  return Realise(fn, *made, options, &registers_full, diags);
}

}  // namespace

ScheduledResources ResourcesOf(const ProgramPlan& plan, const Function& fn) {
  ScheduledResources out;
  for (const PlannedRing& ring : plan.rings)
    for (const RingSite& site : ring.sites)
      for (OpId load : site.loads) out.rings.push_back({fn.ops[load].at, ring.slots});
  for (const PlannedRole& role : plan.roles) {
    if (role.kind == PlannedRole::Kind::kProducer)
      out.load_registers = role.registers;
    else
      out.registers.push_back(role.registers);
  }
  return out;
}

Result<Function> Sequentialize(const Function& fn, const SequentialOptions& options,
                               DiagSink& diags, ProgramPlan* made) {
  CHECK(fn.level == Level::kTile, "the sequential lowering takes a tile function");
  ProgramPlan plan;
  if (!made) made = &plan;
  if (options.plan) return ObeyPlan(fn, options, made, diags);
  TRY(Function out, OneRole(fn, options, made, diags));
  SequentialOptions with = options;
  with.slice_epilogues = true;
  for (OpId id : out.blocks[out.body].ops)
    if (out.ops[id].kind == OpKind::kRole && PeakRegisters(out, id) > kSequentialRegisters)
      return OneRole(fn, with, made, diags);
  return out;
}

Result<Function> Specialize(const Function& fn, const SequentialOptions& options, bool* specialized,
                            DiagSink& diags, ProgramPlan* made) {
  CHECK(fn.level == Level::kTile, "the lowering takes a tile function");
  *specialized = false;
  if (options.plan) {
    ProgramPlan plan;
    TRY(Function out, ObeyPlan(fn, options, &plan, diags));
    *specialized = plan.specialized;
    if (made) *made = std::move(plan);
    return out;
  }
  SequentialOptions with = options;
  for (const Form& form : kForms) {
    if ((options.slice_epilogues && !form.slice_epilogues) ||
        (!options.early_loads && form.early_loads))
      continue;  // what is asked for stays
    with.slice_epilogues = form.slice_epilogues;
    with.early_loads = form.early_loads;
    const bool last = &form == std::end(kForms) - 1;
    bool registers_full = false;
    // The deepest rings that fit; below two slots nothing overlaps.
    for (int depth = kDeepest; depth >= 2 && !registers_full; --depth) {
      DiagSink attempt;
      ProgramPlanner planner(fn, with, depth);
      if (!planner.sound())
        return diags.Report(lower_diag::kRolesNotApart, Span{}, fn.name)
            .Help("use --schedule=sequential");
      if (!planner.specialized()) return Sequentialize(fn, options, diags, made);
      Result<ProgramPlan> plan = planner.Run(attempt);
      const bool binding = options.scheduled && options.scheduled->binding;
      if (plan.ok() && plan->smem_bytes > options.smem_limit_bytes && !binding)
        continue;  // buffers alone
      if (plan.ok()) {
        Result<Function> out = Realise(fn, *plan, with, &registers_full, attempt);
        if (out.ok()) {
          *specialized = true;
          if (made) *made = std::move(*plan);
          return out;
        }
        if (plan->smem_bytes > options.smem_limit_bytes && !binding) continue;
      }
      if (!registers_full || last) {
        attempt.MoveTo(diags);
        return DiagSink::Propagate();
      }
    }
    if (!registers_full) break;  // no rings fit
  }
  return Sequentialize(fn, options, diags, made);
}

}  // namespace tilec::ir
