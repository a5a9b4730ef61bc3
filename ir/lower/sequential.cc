// SPDX-License-Identifier: Apache-2.0
#include "ir/lower/sequential.h"

#include <limits>
#include <utility>

#include "ir/lower/pressure.h"
#include "ir/lower/program_planner.h"
#include "ir/lower/realise.h"
#include "support/check.h"

namespace tilec::ir {

namespace {

Result<Function> OneRole(const Function& fn, const Target& target, const SequentialOptions& options,
                         ProgramPlan* made, DiagSink& diags) {
  TRY(*made, ProgramPlanner(fn, target, options, 0).Run(diags));
  RegistersFull registers_full;
  return Realise(fn, *made, target, options, &registers_full, diags);
}

// Tiles that pass through shared memory only because that is faster do not where it is full.
Result<Function> Unstaged(const Function& fn, const Target& target,
                          const SequentialOptions& options, ProgramPlan* made, DiagSink& diags) {
  Target never = target;
  never.lowering.staged_elements = std::numeric_limits<int64_t>::max();
  return OneRole(fn, never, options, made, diags);
}

}  // namespace

Result<Function> Sequentialize(const Function& fn, const Target& target,
                               const SequentialOptions& options, DiagSink& diags,
                               ProgramPlan* made) {
  CHECK(fn.level == Level::kTile, "the sequential lowering takes a tile function");
  ProgramPlan plan;
  if (!made) made = &plan;
  if (options.plan) return ObeyPlan(fn, target, options, made, diags);
  DiagSink attempt;
  Result<Function> first = OneRole(fn, target, options, made, attempt);
  if (!first.ok() && made->smem_bytes > target.limits.smem_bytes)
    return Unstaged(fn, target, options, made, diags);
  attempt.MoveTo(diags);
  TRY(Function out, std::move(first));
  SequentialOptions with = options;
  with.slice_epilogues = true;
  const int64_t most = target.limits.regs_per_thread - target.registers.beside_sequential;
  for (OpId id : out.blocks[out.body].ops)
    if (out.ops[id].kind == OpKind::kRole && PeakRegisters(out, id) > most)
      return OneRole(fn, target, with, made, diags);
  return out;
}

}  // namespace tilec::ir
