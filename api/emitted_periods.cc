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

}  // namespace

void AdoptEmitted(const EmittedProgram& program, std::vector<scheduler::LoopPeriod>* periods) {
  const auto& [clean, warps, how, target, shares_copies] = program;
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
      if (!how.by_schedule) period.cycles += period.cycles / target.model.unsolved_part;
    }
  }
}

}  // namespace tilec::api
