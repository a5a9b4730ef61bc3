// What a loop's ops read: through carried values so many iterations back, and what every reader
// computes anew (loop_plan.h).
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ir/loop_plan.h"
#include ""
#include "ir/queries.h"

namespace tilec::ir {

BodyRef Resolve(const Function& fn, OpId loop, ValueId v) {
  const BlockId body = fn.ops[loop].regions[0];
  const std::vector<ValueId>& args = fn.blocks[body].args;
  const Op& yield = fn.ops[fn.blocks[body].ops.back()];
  BodyRef ref;
  ref.value = v;
  while (fn.values[ref.value].block == body) {
    const size_t i =
        static_cast<size_t>(std::find(args.begin(), args.end(), ref.value) - args.begin());
    if (i == 0) {
      ref.kind = ref.args.empty() ? BodyRef::Kind::kPosition : BodyRef::Kind::kUnclear;
      return ref;
    }
    if (yield.operands[i - 1] == ref.value && ref.args.empty()) {  // never changes
      ref.kind = BodyRef::Kind::kOutside;
      ref.value = fn.ops[loop].operands[1 + i];
      return ref;
    }
    if (std::count(ref.args.begin(), ref.args.end(), i - 1)) {
      ref.kind = BodyRef::Kind::kUnclear;
      return ref;
    }
    ref.args.push_back(i - 1);
    ref.value = yield.operands[i - 1];
  }
  const OpId def = fn.values[ref.value].def;
  const bool inside = def.valid() && fn.ops[def].block == body;
  ref.kind = inside ? BodyRef::Kind::kDefined : BodyRef::Kind::kOutside;
  return ref;
}

bool IsReplicated(const Function& fn, const Op& op) {
  if (IsFree(op.kind) || IsReadOnlyLoad(fn, op)) return true;
  return Info(op.kind).effect == OpEffect::kPure && op.results.size() == 1 && op.regions.empty() &&
         Squeezed(fn.type(op.results[0]).shape).empty();
}

}  // namespace tilec::ir
