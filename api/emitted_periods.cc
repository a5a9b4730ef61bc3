// SPDX-License-Identifier: Apache-2.0
#include "api/emitted_periods.h"

#include <algorithm>

#include "api/tune_facts.h"
#include "ir/matrix_unit.h"
#include "ir/warp_check/rate.h"

namespace tilec::api {

namespace {

// The period of the schedule that a loop is lowered by; 0: of none.
int64_t Solved(const Lowered& how, Span at) {
  if (!how.by_schedule) return 0;
  for (const scheduler::LoopReport& loop : how.schedule.loops)
    if (loop.applied && loop.at.file == at.file && loop.at.begin == at.begin)
      return loop.solution.certificate.schedule_ii;
  return 0;
}

// A loop whose products are overlapped by rule. Where they hang on each other it takes what was
// emitted, or its chain, and no more for want of an order, nor for warpgroups that fall in step.
// (H200: one query by 128 keys, D 64, 1762 cycles said, 1738 to 1800 taken; 26 queries 2070, 1983;
// 128x128, D 128, 2865, 2730 and 2820. Of several warpgroups nothing else was measured, so of their
// two products that is said of an author's tiles alone, of one CTA each.)
void ByRule(const EmittedProgram& program, scheduler::LoopPeriod* period) {
  const ir::TargetModel& model = program.target.model;
  const bool known = period->hangs || (period->chained && period->products == 2 && program.tried &&
                                       program.warps.launch.cluster == 1);
  if (!known || program.target.unit().completion != ir::Completion::kGroups) {
    period->cycles += period->cycles / model.unsolved_part;
    return;
  }
  period->chained = false;
  period->cycles = std::max(period->cycles, period->chain);
}

}  // namespace

void AdoptEmitted(const EmittedProgram& program, std::vector<scheduler::LoopPeriod>* periods) {
  const auto& [clean, warps, how, target, shares_copies, tried] = program;
  DiagSink quiet;
  const auto rates = ir::RatesOf(warps, target, quiet);
  if (!rates.ok()) return;
  for (scheduler::LoopPeriod& period : *periods) {
    // Of a loop whose turns are written out and what is left of it, the former has the turns.
    int64_t most = 1;
    const auto turns = [&](const ir::LoopRate& rate) {
      return TurnsWrittenOut(clean, period.at, warps.ops[rate.loops.front()]);
    };
    for (const ir::LoopRate& rate : *rates) most = std::max(most, turns(rate));
    const bool by_barrier = ir::InTensorMemory(target.matrix_unit.kind);
    const int64_t solved = by_barrier ? Solved(how, period.at) : 0;
    if (solved > 0) period.cycles = solved;
    for (const ir::LoopRate& rate : *rates) {
      if (turns(rate) != most) continue;
      // Where CTAs share copies, each asks for its part: less than the bound of one alone.
      period.cycles =
          std::max({shares_copies ? 0 : period.cycles, CeilDiv(rate.Cycles(), most), period.least});
      period.busy = std::max(shares_copies ? 0 : period.busy, CeilDiv(rate.busy, most));
      if (!how.by_schedule) ByRule(program, &period);
    }
  }
}

}  // namespace tilec::api
