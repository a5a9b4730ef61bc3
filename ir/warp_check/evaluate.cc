// The scalars that steer a role: what ops make of what is known.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>
#include <optional>
#include <vector>

#include "ir/warp_check/machine.h"

namespace tilec::ir::warp_check {

Scalar Machine::Get(ValueId v) {
  const auto it = me().env.find(v.index);  // parameters are never there
  if (it != me().env.end()) return it->second;
  if (fn_.param(v)) return terms_.Of({Atom::Kind::kParam, v.index, 0, {}});
  return terms_.Of({Atom::Kind::kPrivate, -1 - v.index, 0, {}});
}

// What the op makes of these. Most make what they made last: slots and parities of a short ring.
Scalar Machine::Made(OpId id, const std::vector<Scalar>& args) {
  made_.resize(static_cast<size_t>(fn_.ops.size()));
  std::optional<LastMade>& last = made_[static_cast<size_t>(id.index)];
  if (!last || last->args != args) {
    const Op& op = fn_.ops[id];
    last = LastMade{args, terms_.Apply(op, fn_.type(op.results[0]).dtype, args)};
  }
  return last->made;
}

// The scalar an op gives, for scalars that steer.
void Machine::Evaluate(OpId id) {
  const Op& op = fn_.ops[id];
  const ValueId result = op.results[0];
  const DType dtype = fn_.type(result).dtype;
  if (agreed && op.kind != OpKind::kCounterRead) {
    const auto known = [&](ValueId v) { return me().env.count(v.index) != 0; };
    const bool computed = (Info(op.kind).elementwise() || op.kind == OpKind::kConstant) &&
                          (dtype == DType::kBool || IsInteger(dtype)) &&
                          std::all_of(op.operands.begin(), op.operands.end(), known);
    if (!computed) {
      me().env.erase(result.index);
      return;
    }
  }
  const bool scalars = std::all_of(op.operands.begin(), op.operands.end(),
                                   [&](ValueId v) { return fn_.type(v).is_scalar(); });
  std::vector<Scalar>& args = args_;
  args.clear();
  if (op.kind == OpKind::kCounterRead) {
    const auto it = me().counters.find(op.operands[0].index);
    const Op* counter = fn_.def(op.operands[0]);
    if (const auto c = me().counted.find(op.operands[0].index); c != me().counted.end()) {
      Use(c->second).needed = true;
      me().counted.erase(c);
    }
    me().env[result.index] = {0, it != me().counters.end() ? it->second
                                 : counter                 ? counter->i("init")
                                                           : 0};
    const int64_t now = me().env[result.index].add;
    Use(id).divides = std::gcd(Use(id).divides, now);
    Use(id).largest = std::max(Use(id).largest, now);
    return;
  }
  if (op.kind == OpKind::kPin) {
    Know(result.index, Get(op.operands[0]));
    return;
  }
  if (op.kind == OpKind::kGLoadScalar) {
    const Param* tensor = fn_.param(op.operands[0]);
    if (tensor && tensor->direction == Direction::kIn) {
      for (ValueId v : op.operands) args.push_back(Get(v));
      me().env[result.index] =
          terms_.Of({Atom::Kind::kOp, static_cast<int64_t>(op.kind) * 64, op.i("has_fill"), args});
      return;
    }
  } else if (op.kind == OpKind::kProgramId) {
    me().env[result.index] =
        terms_.Of({Atom::Kind::kOp, static_cast<int64_t>(op.kind) * 64, 0, {}});
    return;
  } else if (scalars && (Info(op.kind).elementwise() || op.kind == OpKind::kConstant)) {
    for (ValueId v : op.operands) args.push_back(Get(v));
    auto whole = [](DType d) { return d == DType::kBool || IsInteger(d); };
    const bool from_whole = op.operands.empty() || whole(fn_.type(op.operands.back()).dtype);
    if (op.kind == OpKind::kCast && whole(dtype) && dtype != DType::kBool && from_whole)
      Know(result.index, args[0]);
    else if (op.kind == OpKind::kCmp && !from_whole)
      me().env[result.index] =
          terms_.Of({Atom::Kind::kOp, static_cast<int64_t>(op.kind) * 64,
                     kFloatCompare + op.s("pred")[0] * 256 + op.s("pred")[1], args});
    else
      Know(result.index, Made(id, args));
    return;
  }
  const int64_t tag = static_cast<int64_t>(role_) << 32 | id.index;
  me().env[result.index] = terms_.Of({Atom::Kind::kPrivate, tag, s_->privates[tag]++, {}});
}

}  // namespace tilec::ir::warp_check
