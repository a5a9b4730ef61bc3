// SPDX-License-Identifier: Apache-2.0
#include "compile/planning.h"

#include <fmt/format.h>

#include "ir/diagnostics.h"
#include "ir/plan_text.h"

namespace tilec::compile {

namespace {

constexpr char kCtasPerSm[] = "ctas-per-sm";

// As many CTAs side by side as the plan says that there is to be room for.
Result<> ObeyCtasPerSm(const ir::ProgramPlan& plan, int32_t file, const ir::Target& target,
                       ir::Function& fn, DiagSink& diags) {
  for (const ir::PlannedChange& change : plan.changed) {
    if (change.what != kCtasPerSm) continue;
    if (change.to < 1 || change.to > target.limits.max_ctas_per_sm)
      return diags.Report(ir::kPlanValue, Span{file, 0, 0},
                          fmt::format("{}={}: an SM has 1 to {}", kCtasPerSm, change.to,
                                      target.limits.max_ctas_per_sm));
    fn.launch.ctas_per_sm = change.to;
  }
  return Done();
}

}  // namespace

void NoteCtasPerSm(int64_t from, int64_t to, std::string* plan) {
  if (plan->empty() || from == to) return;
  size_t at = 0;  // behind what is said of roles and of other changes
  for (size_t next = 0; next < plan->size(); next = plan->find('\n', next) + 1) {
    const std::string_view line = std::string_view(*plan).substr(next);
    for (const char* head : {"plan ", "program ", "cta ", "role ", "changed "})
      if (line.starts_with(head)) at = plan->find('\n', next) + 1;
  }
  plan->insert(at, fmt::format("changed what={} from={} to={} why=between_what_was_solved_and_what_"
                               "its_own_order_leaves_room_for\n",
                               kCtasPerSm, from, to));
}

Result<> LowerBy(const Planning& planning, bool roles, ir::SequentialOptions options,
                 bool* specialized, ir::Function& fn, ir::PassContext& cx) {
  if (planning.given) {
    const uint64_t hash = ir::ProgramHash(fn), wanted = ir::ProgramOf(planning.given->text);
    if (hash != wanted) {
      const size_t found = planning.given->text.find("program ");
      const auto at = static_cast<uint32_t>(found == std::string_view::npos ? 0 : found);
      return cx.diags.Report(ir::kPlanOfAnother, Span{planning.given->file, at, at}, fn.name,
                             fmt::format("{:016x}", wanted), fmt::format("{:016x}", hash));
    }
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
  if (planning.given) TRY_VOID(ObeyCtasPerSm(made, planning.given->file, cx.target, fn, cx.diags));
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
