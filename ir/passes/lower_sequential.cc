// The lowerings as passes; the work is in ir/lower.
//
// SPDX-License-Identifier: Apache-2.0
#include "ir/lower/sequential.h"
#include "ir/passes/passes.h"

namespace tilec::ir {

Result<> LowerSequential(Function& fn, PassContext& cx) {
  TRY(fn, Sequentialize(fn, cx.target, {}, cx.diags));
  ++cx.changes;
  return Done();
}

Result<> LowerRoles(Function& fn, PassContext& cx) {
  bool specialized = false;
  TRY(fn, Specialize(fn, cx.target, {}, &specialized, cx.diags));
  cx.changes += specialized ? 2 : 1;
  return Done();
}

}  // namespace tilec::ir
