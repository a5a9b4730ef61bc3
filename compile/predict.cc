// SPDX-License-Identifier: Apache-2.0
#include "compile/predict.h"

#include <map>
#include <tuple>

#include "ir/count_work.h"
#include "ir/passes/cluster_tiles.h"
#include "ir/passes/split_reductions.h"
#include "scheduler/copy_lines.h"
#include "scheduler/kernel_time.h"
#include "scheduler/sms_shared.h"

namespace tilec::compile {

namespace {

std::optional<double> Predict(const Strategy& strategy, const ir::Function& clean,
                              const ir::Target& target, const Bindings& sizes,
                              const scheduler::RowStarts& row_starts) {
  if (!strategy.roles()) return std::nullopt;
  ir::Function fn = clean;
  if (strategy.shape == Shape::kSplit && ir::SplitReductions(fn, strategy.ctas, target))
    return std::nullopt;
  scheduler::LaunchShape shape;
  const scheduler::Asked asked = scheduler::AskedByCopies(fn, target, row_starts, sizes);
  shape.lines = asked.lines;
  shape.written = asked.written;
  shape.leaves = asked.leaves;
  const bool clustered =
      strategy.shape == Shape::kClustered || strategy.shape == Shape::kClusteredOnce;
  const int64_t neighbours = strategy.ctas > 1 ? strategy.ctas : target.lowering.cluster_ctas;
  if (clustered) {
    shape.share = scheduler::ShareAsked(clean, target, neighbours);
    if (ir::ClusterTiles(fn, neighbours)) return std::nullopt;
  }
  const ir::WorkCount work = ir::CountWork(fn, sizes, target, {.edges = false});
  auto periods = scheduler::BoundPeriods(
      fn, scheduler::SharedBy(target, work.instances,
                              asked.Times(work.instances, target) * shape.share));
  if (!periods) return std::nullopt;
  for (scheduler::LoopPeriod& period : *periods)
    if (strategy.order == Order::kRule) period.cycles += period.cycles / target.model.unsolved_part;
  if (strategy.shape == Shape::kPersistent) shape.ctas = target.limits.sms;
  if (strategy.shape == Shape::kClustered)
    shape.ctas = scheduler::SmsOfClusters(target, neighbours);
  if (strategy.shape == Shape::kSplit) shape.cluster = strategy.ctas;
  if (clustered) shape.cluster = neighbours;
  const scheduler::KernelTime time = scheduler::EstimateTime(fn, target, work, *periods, shape);
  if (time.ms <= 0) return std::nullopt;
  return 1e3 * time.ms;
}

}  // namespace

void PredictTimes(const ir::Function& fn, const ir::Target& target, const Bindings& sizes,
                  const scheduler::RowStarts& row_starts, std::vector<Decision>* decisions) {
  // Of strategies that differ in what the model does not see, once.
  std::map<std::tuple<Shape, bool, bool>, std::optional<double>> known;
  for (Decision& decision : *decisions) {
    const Strategy& s = decision.strategy;
    const auto [at, fresh] = known.try_emplace({s.shape, s.scheduled(), s.roles()});
    if (fresh) at->second = Predict(s, fn, target, sizes, row_starts);
    decision.predicted_us = at->second;
  }
}

}  // namespace tilec::compile
