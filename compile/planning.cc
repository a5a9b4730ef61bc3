// SPDX-License-Identifier: Apache-2.0
#include "compile/planning.h"

#include <fmt/format.h>

#include "ir/diagnostics.h"
#include "ir/plan_text.h"

namespace tilec::compile {

Result<> LowerBy(const Planning& planning, bool roles, ir::SequentialOptions options,
                 bool* specialized, ir::Function& fn, ir::PassContext& cx) {
  if (planning.given) {
    const uint64_t hash = ir::ProgramHash(fn), wanted = ir::ProgramOf(planning.given->text);
    if (hash != wanted)
      return cx.diags.Report(ir::kPlanOfAnother, Span{planning.given->file, 0, 0}, fn.name,
                             fmt::format("{:016x}", wanted), fmt::format("{:016x}", hash));
    options.plan = &*planning.given;
    if (planning.met) *planning.met = true;
  }
  std::optional<ir::Function> tile;
  if (planning.text || planning.made) tile = fn;
  ir::ProgramPlan made;
  if (roles) {
    TRY(fn, ir::Specialize(fn, cx.target, options, specialized, cx.diags, &made));
  } else {
    TRY(fn, ir::Sequentialize(fn, cx.target, options, cx.diags, &made));
  }
  if (planning.text) *planning.text = ir::ToText(made, *tile);
  if (planning.made) *planning.made = ir::ResourcesOf(made, *tile);
  return Done();
}

ir::PassStep OneRoleStep(const Planning& planning, ir::LowerNeed* need) {
  ir::PassStep step = ir::StepOf(ir::PassId::kLowerSequential);
  step.run = [planning, need](ir::Function& fn, ir::PassContext& cx) -> Result<> {
    ++cx.changes;
    ir::SequentialOptions options;
    options.need = need;
    return LowerBy(planning, false, options, nullptr, fn, cx);
  };
  return step;
}

}  // namespace tilec::compile
