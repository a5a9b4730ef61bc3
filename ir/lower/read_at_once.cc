// SPDX-License-Identifier: Apache-2.0
#include "ir/lower/read_at_once.h"

#include <algorithm>
#include <map>

#include "ir/queries.h"

namespace tilec::ir {

bool ReadAtOnce(const Function& fn, int64_t bytes) {
  std::map<ValueId, int64_t> read;
  for (OpId id : OpsInOrder(fn)) {
    const Op& op = fn.ops[id];
    if (op.kind == OpKind::kFor || op.kind == OpKind::kWhile) return false;
    const bool own = std::any_of(op.operands.begin(), op.operands.end(), [&](ValueId v) {
      const Op* def = fn.def(v);
      return fn.type(v).is_scalar() && !(def && def->kind == OpKind::kConstant);
    });
    if (op.kind == OpKind::kLoad && own)
      read[op.operands[0]] +=
          fn.type(op.results[0]).elements() * ByteSize(fn.type(op.results[0]).dtype);
  }
  return std::all_of(read.begin(), read.end(), [&](const auto& of) { return of.second <= bytes; });
}

}  // namespace tilec::ir
