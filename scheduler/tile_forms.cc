// SPDX-License-Identifier: Apache-2.0
#include "scheduler/tile_forms.h"

#include <algorithm>

#include "ir/clean_up.h"
#include "ir/passes/arrange_grid.h"
#include "ir/passes/cluster_tiles.h"
#include "ir/passes/split_reductions.h"
#include "ir/queries.h"
#include "support/check.h"

namespace tilec::scheduler {

namespace {

bool Follows(const ir::Function& fn, ir::ValueId v, ir::ValueId from) {
  const ir::Op* const def = fn.def(v);
  return v == from || (def != nullptr && std::any_of(def->operands.begin(), def->operands.end(),
                                                     [&](ir::ValueId operand) {
                                                       return Follows(fn, operand, from);
                                                     }));
}

const ir::Op* GridOf(const ir::Function& fn) {
  for (ir::OpId id : fn.blocks[fn.body].ops)
    if (fn.ops[id].kind == ir::OpKind::kParallel) return &fn.ops[id];
  return nullptr;
}

// Do columns of what is stored follow this range of the grid?
bool StoresAlong(const ir::Function& fn, int64_t along) {
  const ir::Op* const grid = GridOf(fn);
  if (grid == nullptr) return false;
  const std::vector<ir::ValueId>& ranges = fn.blocks[grid->regions[0]].args;
  return along < static_cast<int64_t>(ranges.size()) &&
         std::any_of(fn.ops.begin(), fn.ops.end(), [&](const ir::Op& op) {
           if (op.kind != ir::OpKind::kStore) return false;
           const std::string& modes = op.s("modes");
           if (modes.empty() || !ir::IsRange(modes.back())) return false;
           const ir::ValueId begins = op.operands[op.operands.size() - 2];
           return Follows(fn, begins, ranges[static_cast<size_t>(along)]);
         });
}

}  // namespace

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

bool ComesAgain(const ir::Function& fn, const ir::Target& target, const Bindings& names) {
  const ir::WorkCount work = ir::CountWork(fn, names, target, {.edges = false});
  if (work.least_bytes - work.stored_bytes <= target.model.cached_bytes) return false;
  const ir::Op* const grid = GridOf(fn);
  const ir::Param* const end = grid == nullptr ? nullptr : fn.param(grid->operands[1]);
  const auto known = end == nullptr ? names.end() : names.find(end->name);
  return known == names.end() || known->second > grid->ints("steps")[0];
}

std::vector<Neighbours> NeighboursOf(const ir::Function& fn, const ir::Target& target) {
  constexpr int64_t kRanges = 2;
  std::vector<Neighbours> all;
  for (int64_t along = 0; along < kRanges; ++along) {
    ir::Function turned = fn;
    if (along > 0 && !ir::ArrangeGrid(turned, along)) break;
    const double asked = ShareAsked(turned, target);
    if (asked >= 1) continue;
    CHECK(!ir::ClusterTiles(turned, target.lowering.cluster_ctas), "it asks for less by that");
    const bool stores = StoresAlong(fn, along);
    all.push_back({along, asked, stores, std::make_unique<Form>(std::move(turned))});
  }
  return all;
}

}  // namespace tilec::scheduler
