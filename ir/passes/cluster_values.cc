// SPDX-License-Identifier: Apache-2.0
#include "ir/passes/cluster_values.h"

#include <algorithm>

#include "ir/lower/scalars.h"
#include "ir/queries.h"

namespace tilec::ir {

ClusterValues::ClusterValues(const Function& fn, OpId grid)
    : fn_(fn), grid_(grid), differs_(static_cast<size_t>(fn.values.size()), 0) {
  const BlockId body = fn.ops[grid].regions[0];
  differs_[static_cast<size_t>(fn.blocks[body].args[0].index)] = 1;
  do {
    changed_ = false;
    Spread(body);
  } while (changed_);
}

bool ClusterValues::Differs(ValueId v) const {
  const auto at = static_cast<size_t>(v.index);
  if (at < differs_.size()) return differs_[at] != 0;
  const Op* def = fn_.def(v);
  return !def || !def->regions.empty() || AnyDiffers(def->operands);
}

bool ClusterValues::AnyDiffers(const std::vector<ValueId>& values) const {
  return std::any_of(values.begin(), values.end(), [&](ValueId v) { return Differs(v); });
}

// The number of the cluster: that of the CTA by how many there are in one.
bool ClusterValues::IsCluster(const Op& op) const {
  const Op& grid = fn_.ops[grid_];
  if (op.kind != OpKind::kDiv || op.operands[0] != fn_.blocks[grid.regions[0]].args[0])
    return false;
  const int64_t *low = IntConstantOf(fn_, grid.operands[0]),
                *by = IntConstantOf(fn_, op.operands[1]);
  return low && *low == 0 && grid.ints("steps")[0] == 1 && by && *by == grid.i("cluster", 1);
}

void ClusterValues::Mark(ValueId v, bool differs) {
  char& mark = differs_[static_cast<size_t>(v.index)];
  changed_ = changed_ || (differs && !mark);
  mark = mark || differs;
}

// Values that may differ between neighbours, by what they are made of.
void ClusterValues::Spread(BlockId block) {
  for (OpId id : fn_.blocks[block].ops) {
    const Op& op = fn_.ops[id];
    for (BlockId region : op.regions) Spread(region);
    switch (op.kind) {
      case OpKind::kFor: {
        const bool turns = Differs(op.operands[0]) || Differs(op.operands[1]);
        const std::vector<ValueId>& args = fn_.blocks[op.regions[0]].args;
        Mark(args[0], Differs(op.operands[0]));
        for (size_t i = 0; i < op.results.size(); ++i) {
          Mark(args[i + 1],
               Differs(op.operands[i + 2]) || Differs(Yield(op.regions[0]).operands[i]));
          Mark(op.results[i], turns || Differs(args[i + 1]));
        }
        break;
      }
      case OpKind::kIf:
        for (size_t i = 0; i < op.results.size(); ++i)
          Mark(op.results[i], Differs(op.operands[0]) ||
                                  Differs(Yield(op.regions[0]).operands[i]) ||
                                  Differs(Yield(op.regions[1]).operands[i]));
        break;
      case OpKind::kWhile:  // nobody looks closer
        for (ValueId v : op.results) Mark(v, true);
        for (BlockId region : op.regions)
          for (ValueId v : fn_.blocks[region].args) Mark(v, true);
        break;
      default:
        for (ValueId v : op.results)
          Mark(v, (AnyDiffers(op.operands) && !IsCluster(op)) ||
                      (op.kind == OpKind::kLoad && !IsReadOnlyLoad(fn_, op)));
    }
  }
}

}  // namespace tilec::ir
