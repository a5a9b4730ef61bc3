// SPDX-License-Identifier: Apache-2.0
#include "scheduler/split_choice.h"

#include <algorithm>
#include <optional>

#include "ir/count_work.h"
#include "ir/passes/cluster_tiles.h"
#include "ir/passes/pack_rows.h"
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
        asked_(AskedByCopies(fn, target, row_starts, names)) {}

  // `share`: of the lines that it needs, what a CTA asks for itself. `stays`: as many CTAs as SMs,
  // which walk over tiles.
  std::optional<KernelTime> TimeOf(const ir::Function& fn, double share, int64_t cluster,
                                   bool stays = false) {
    const ir::WorkCount work = ir::CountWork(fn, names_, target_, {.edges = false});
    whole_flops = work.whole_flops;
    if (work.instances == 0) return std::nullopt;
    const auto periods = BoundPeriods(
        fn, SharedBy(target_, work.instances, asked_.Times(work.instances, target_) * share));
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

namespace {

constexpr int64_t kMostPacked = 16;

// As many instances in a tile as leave the fewest tiles; 1: as it is.
int64_t ChoosePack(ir::Function* fn, const ir::Target& target, const Bindings& names) {
  const ir::Function clean = *fn;
  int64_t best = 1;
  int64_t fewest = ir::CountWork(clean, names, target, {.edges = false}).instances;
  for (int64_t heads = 2; heads <= kMostPacked; heads *= 2) {
    ir::Function packed = clean;
    if (ir::PackRows(packed, heads)) break;  // an obstacle
    const int64_t tiles = ir::CountWork(packed, names, target, {.edges = false}).instances;
    if (tiles == 0 || tiles >= fewest) continue;
    best = heads, fewest = tiles;
    *fn = std::move(packed);
  }
  return best;
}

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
    const auto instances = [&](const ir::Function& f) {
      return ir::CountWork(f, names, target, {.edges = false}).instances;
    };
    // Of a grid of one tile's height half of the CTAs would only copy.
    const bool idle = 2 * instances(fn) <= instances(clustered);
    const auto shared =
        idle ? std::nullopt : model.TimeOf(clustered, asked, target.lowering.cluster_ctas, true);
    const auto stays = model.TimeOf(fn, 1, 1, true);
    choice.share_copies = shared && stays && shared->ms < stays->ms;
    if (choice.share_copies || stays) take(choice.share_copies ? *shared : *stays);
  }
  const auto share = [&](const ir::Function& tiles, const KernelTime& whole, int64_t pack) {
    const bool idle = 2 * whole.ctas <= target.limits.sms || whole.longest_binds;
    if (!target.Has("clusters") || !idle) return;
    for (int64_t ctas = 2; ctas <= most; ctas *= 2) {
      ir::Function split = tiles;
      if (ir::SplitReductions(split, ctas)) break;  // an obstacle
      const std::optional<KernelTime> time = model.TimeOf(split, 1, ctas);
      if (!time || time->ms >= choice.ms ||
          time->ms > (1 - target.model.split_margin) * alone->ms ||
          time->ms > alone->ms - target.model.split_least_ms)
        continue;
      choice.ctas = ctas;
      choice.pack = pack;
      choice.share_copies = false;
      take(*time);
    }
  };
  share(fn, *alone, 1);
  ir::Function packed = fn;
  if (const int64_t pack = ChoosePack(&packed, target, names); pack > 1) {
    const std::optional<KernelTime> whole = model.TimeOf(packed, 1, 1);
    if (!whole) return choice;
    if (whole->ms < (1 - target.model.split_margin) * choice.ms) {
      choice.ctas = 1;
      choice.pack = pack;
      choice.share_copies = false;
      take(*whole);
    }
    share(packed, *whole, pack);
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
