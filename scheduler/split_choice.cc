// SPDX-License-Identifier: Apache-2.0
#include "scheduler/split_choice.h"

#include <algorithm>
#include <optional>

#include "ir/count_work.h"
#include "ir/passes/cluster_tiles.h"
#include "ir/passes/split_reductions.h"
#include "scheduler/copy_lines.h"
#include "scheduler/kernel_time.h"
#include "support/check.h"

namespace tilec::scheduler {

namespace {

class Choice {
 public:
  Choice(const ir::Function& fn, const ir::Target& target, const Bindings& names,
         const RowStarts& row_starts, const ShapeOf& shape_of)
      : target_(target),
        names_(names),
        shape_of_(shape_of),
        asked_(AskedByCopies(fn, target, row_starts)) {}

  // `share`: of the lines that it needs, what a CTA asks for itself. `stays`: as many CTAs as SMs,
  // which walk over tiles.
  std::optional<KernelTime> TimeOf(const ir::Function& fn, double share, int64_t cluster,
                                   bool stays = false) {
    const ir::WorkCount work = ir::CountWork(fn, names_, target_, {.edges = false});
    whole_flops = work.whole_flops;
    if (work.instances == 0) return std::nullopt;
    const auto periods = BoundPeriods(fn, SharedBy(target_, work.instances, asked_.times * share));
    if (!periods) return std::nullopt;
    LaunchShape shape = shape_of_ ? shape_of_(fn, work) : LaunchShape();
    shape.cluster = cluster;
    shape.share = share;
    shape.lines = asked_.lines;
    shape.written = asked_.written;
    shape.leaves = asked_.leaves;
    if (stays) shape.ctas = std::min(target_.limits.sms, work.instances);
    return EstimateTime(fn, target_, work, *periods, shape);
  }
  double whole_flops = 0;

 private:
  const ir::Target& target_;
  const Bindings& names_;
  const ShapeOf& shape_of_;
  const Asked asked_;
};

}  // namespace

SplitChoice ChooseSplit(const ir::Function& fn, const ir::Target& target, const Bindings& names,
                        const RowStarts& row_starts, int64_t most, const ShapeOf& shape_of) {
  SplitChoice choice;
  Choice model(fn, target, names, row_starts, shape_of);
  const std::optional<KernelTime> alone = model.TimeOf(fn, 1, 1);
  choice.whole_flops = model.whole_flops;
  if (!alone) return choice;
  choice.alone_ms = alone->ms;
  const auto take = [&](const KernelTime& time) { choice.ms = time.ms, choice.busy = time.busy(); };
  take(*alone);
  if (const double asked = ShareAsked(fn, target); CutsLines(fn, row_starts) && asked < 1) {
    ir::Function clustered = fn;  // with CTAs that have no tile, where its grid is none of clusters
    CHECK(!ir::ClusterTiles(clustered, target.lowering.cluster_ctas), "it asks for less by that");
    const auto shared = model.TimeOf(clustered, asked, target.lowering.cluster_ctas, true);
    const auto stays = model.TimeOf(fn, 1, 1, true);
    choice.share_copies = shared && stays && shared->ms < stays->ms;
    if (choice.share_copies || stays) take(choice.share_copies ? *shared : *stays);
  }
  if (!target.Has("clusters") || 2 * alone->ctas > target.limits.sms) return choice;
  for (int64_t ctas = 2; ctas <= most; ctas *= 2) {
    ir::Function split = fn;
    if (ir::SplitReductions(split, ctas)) break;  // an obstacle
    const std::optional<KernelTime> time = model.TimeOf(split, 1, ctas);
    if (!time || time->ms >= choice.ms || time->ms > (1 - target.model.split_margin) * alone->ms ||
        time->ms > alone->ms - target.model.split_least_ms)
      continue;
    choice.ctas = ctas;
    take(*time);
  }
  return choice;
}

double TimeInParts(const ir::Function& fn, const ir::Target& target, const Bindings& names,
                   const RowStarts& row_starts, int64_t parts) {
  Choice model(fn, target, names, row_starts, {});
  ir::Function split = fn;
  if (parts > 1 && ir::SplitReductions(split, parts)) return 0;
  const std::optional<KernelTime> time = model.TimeOf(split, 1, parts);
  return time ? time->ms : 0;
}

}  // namespace tilec::scheduler
