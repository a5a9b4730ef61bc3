// Products that are complete when their instructions are: every warp has read its operands as
// ordinary loads do, and the result is a tile like any other.
//
// SPDX-License-Identifier: Apache-2.0
#include "ir/warp_check/machine.h"

namespace tilec::ir::warp_check {

Step Machine::IssueAtOnce(OpId id) {
  const Op& op = fn_.ops[id];
  if (!NothingFlying(id)) return Step::kFailed;
  const auto operand = [&](size_t i) {
    return i < op.operands.size() ? op.operands[i] : ValueId();
  };
  for (size_t side : {size_t{1}, size_t{2}})
    if (fn_.type(op.operands[side]).kind == TypeKind::kSmem &&
        !AccessBuffer(id, op.operands[side], operand(side + 2), Proxy::kGeneric, false))
      return Step::kFailed;
  return Step::kDone;
}

}  // namespace tilec::ir::warp_check
