// SPDX-License-Identifier: Apache-2.0
#include "ir/passes/arrange_grid.h"

#include <algorithm>
#include <vector>

namespace tilec::ir {

bool ArrangeGrid(Function& fn, int64_t first) {
  const std::vector<OpId>& top = fn.blocks[fn.body].ops;
  const auto at = std::find_if(top.begin(), top.end(), [&](OpId id) {
    return fn.ops[id].kind == OpKind::kParallel;
  });
  if (at == top.end()) return false;
  Op& grid = fn.ops[*at];
  std::vector<ValueId>& args = fn.blocks[grid.regions[0]].args;
  if (first <= 0 || first >= static_cast<int64_t>(args.size())) return false;
  std::vector<int64_t> steps = grid.ints("steps");
  std::rotate(args.begin(), args.begin() + first, args.begin() + first + 1);
  std::rotate(steps.begin(), steps.begin() + first, steps.begin() + first + 1);
  std::rotate(grid.operands.begin(), grid.operands.begin() + 2 * first,
              grid.operands.begin() + 2 * first + 2);
  grid.set("steps", steps);
  return true;
}

}  // namespace tilec::ir
