// Products that are complete when their instructions are (mma.sync): an ordinary value. No fence,
// no group, nothing to await; what they read of shared memory they have read, as ordinary loads
// have, so a slot is released behind them with the fence that ordinary reads need
// (emit_channels.cc).
//
// SPDX-License-Identifier: Apache-2.0
#include "ir/lower/emitter.h"

namespace tilec::ir {

ValueId Emitter::IssueAtOnce(const Product& product, ValueId into, const Columns& of) {
  return Multiply(product, into, product.a, of);
}

}  // namespace tilec::ir
