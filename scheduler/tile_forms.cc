// SPDX-License-Identifier: Apache-2.0
#include "scheduler/tile_forms.h"

#include "ir/clean_up.h"
#include "ir/passes/cluster_tiles.h"
#include "ir/passes/split_reductions.h"
#include "support/check.h"

namespace tilec::scheduler {

FormPtr Split(ir::Function fn, int64_t ctas, const ir::Target& target) {
  if (ir::SplitReductions(fn, ctas, target)) return nullptr;  // an obstacle
  return std::make_unique<Form>(std::move(fn));
}

FormPtr SplitRows(ir::Function loops, int64_t ctas, const ir::Target& target) {
  if (ir::SplitLoopsOfRows(loops, ctas, target)) return nullptr;  // an obstacle
  return std::make_unique<Form>(std::move(loops));
}

DividedPtr Divide(const ir::Function& fn, int64_t groups, int64_t cluster,
                  const ir::Target& target) {
  ir::Division divided;
  if (ir::DivideReductions(fn, groups, &divided)) return nullptr;
  if (cluster > 1 ? ir::SplitReductions(divided.parts, cluster, target)
                  : ir::GuardParts(divided.parts))
    return nullptr;
  return std::make_unique<Divided>(std::move(divided));
}

FormPtr Cluster(ir::Function fn, int64_t ctas) {
  CHECK(!ir::ClusterTiles(fn, ctas), "it asks for less by that");
  return std::make_unique<Form>(std::move(fn));
}

}  // namespace tilec::scheduler
