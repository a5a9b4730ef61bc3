// CTAs of a cluster are neighbours along the first range of the grid. Those that copy for each
// other must make the same copies in the same order, so every pass that adds or moves control has
// to know which values they have in common.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "ir/function.h"

namespace tilec::ir {

class ClusterValues {
 public:
  // `grid`: a `parallel`. The function is looked at now; values that are made later are judged by
  // their operands.
  ClusterValues(const Function& fn, OpId grid);

  // May neighbours have different values?
  bool Differs(ValueId v) const;

 private:
  void Spread(BlockId block);
  void Mark(ValueId v, bool differs);
  bool AnyDiffers(const std::vector<ValueId>& values) const;
  bool IsCluster(const Op& op) const;
  const Op& Yield(BlockId block) const { return fn_.ops[fn_.blocks[block].ops.back()]; }

  const Function& fn_;
  OpId grid_;
  std::vector<char> differs_;  // by value
  bool changed_ = false;
};

}  // namespace tilec::ir
