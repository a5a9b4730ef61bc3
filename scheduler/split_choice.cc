// SPDX-License-Identifier: Apache-2.0
#include "scheduler/split_choice.h"

#include <optional>

#include "ir/count_work.h"
#include "ir/passes/split_reductions.h"
#include "scheduler/kernel_time.h"

namespace tilec::scheduler {

namespace {

std::optional<KernelTime> TimeOf(const ir::Function& fn, const ir::Target& target,
                                 const Bindings& names, double times, int64_t ctas,
                                 const ShapeOf& shape_of, double* whole_flops) {
  const ir::WorkCount work = ir::CountWork(fn, names, target, {.edges = false});
  *whole_flops = work.whole_flops;
  if (work.instances == 0) return std::nullopt;
  const auto periods = BoundPeriods(fn, SharedBy(target, work.instances, times));
  if (!periods) return std::nullopt;
  LaunchShape shape = shape_of ? shape_of(fn, work) : LaunchShape();
  shape.cluster = ctas;
  return EstimateTime(fn, target, work, *periods, shape);
}

}  // namespace

SplitChoice ChooseSplit(const ir::Function& fn, const ir::Target& target, const Bindings& names,
                        double times, int64_t most, const ShapeOf& shape_of) {
  SplitChoice choice;
  const std::optional<KernelTime> alone =
      TimeOf(fn, target, names, times, 1, shape_of, &choice.whole_flops);
  if (!alone) return choice;
  choice.ms = choice.alone_ms = alone->ms;
  if (!target.Has("clusters") || 2 * alone->ctas > target.limits.sms) return choice;
  for (int64_t ctas = 2; ctas <= most; ctas *= 2) {
    double flops = 0;
    ir::Function split = fn;
    if (ir::SplitReductions(split, ctas)) break;  // an obstacle
    const std::optional<KernelTime> time =
        TimeOf(split, target, names, times, ctas, shape_of, &flops);
    if (!time || time->ms >= choice.ms || time->ms > (1 - target.model.split_margin) * alone->ms ||
        time->ms > alone->ms - target.model.split_least_ms)
      continue;
    choice.ctas = ctas;
    choice.ms = time->ms;
  }
  return choice;
}

}  // namespace tilec::scheduler
