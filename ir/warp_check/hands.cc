// Scalars that one role hands to another through shared memory: which buffers are for that alone.
//
// Such a buffer has one slot and holds one element; one op puts a scalar there, one op of another
// role takes it, and nothing else touches its bytes. The walk demands that puts and takes
// alternate (machine.cc), so the n-th take reads the n-th put. Where both are executed in the same
// iterations, the two scalars are congruent (agreement.h).
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ir/warp_check/program.h"

namespace tilec::ir::warp_check {
namespace {

// The one op of each kind that touches a buffer; `others`: more of a kind, or another kind.
struct Touching {
  OpId put, take;
  bool others = false;
};

}  // namespace

bool Program::HasBytesAlone(ValueId buffer) const {
  const Buffer& b = buffers.at(buffer);
  if (!b.over.empty()) return false;
  const int64_t end = b.offset + b.depth * b.slot_bytes;
  for (const auto& [v, other] : buffers)
    if (v != buffer && other.offset < end &&
        b.offset < other.offset + other.depth * other.slot_bytes)
      return false;
  bool alone = true;
  WalkOps(fn, fn.body, [&](OpId id) {
    const Op& op = fn.ops[id];
    if (op.attr("scratch") && op.i("scratch") >= 0) alone = alone && op.i("scratch") >= end;
  });
  return alone;
}

void Program::FindHands() {
  std::map<ValueId, Touching> touching;
  std::map<ValueId, std::vector<ValueId>> renamed;  // scalars, by the tile of one element
  WalkOps(fn, fn.body, [&](OpId id) {
    const Op& op = fn.ops[id];
    for (size_t i = 0; i < op.operands.size(); ++i) {
      const auto it = buffers.find(op.operands[i]);
      if (it == buffers.end() || it->second.depth != 1) continue;
      Touching& t = touching[op.operands[i]];
      OpId* const as = op.kind == OpKind::kSmemStore && i == 1  ? &t.put
                       : op.kind == OpKind::kSmemLoad && i == 0 ? &t.take
                                                                : nullptr;
      t.others = t.others || !as || as->valid();
      if (as) *as = id;
    }
    if (op.kind == OpKind::kWarpReshape && fn.type(op.results[0]).is_scalar())
      renamed[op.operands[0]].push_back(op.results[0]);
  });
  for (const auto& [buffer, t] : touching) {
    if (t.others || !t.put.valid() || !t.take.valid() || !HasBytesAlone(buffer)) continue;
    const Op* given = fn.def(fn.ops[t.put].operands[0]);
    if (!given || given->kind != OpKind::kWarpReshape || !fn.type(given->operands[0]).is_scalar())
      continue;
    const auto number = static_cast<int32_t>(hands.size());
    hands.push_back({t.put, t.take, given->operands[0]});
    hand_of[t.put] = hand_of[t.take] = number;
    for (ValueId taken : renamed[fn.ops[t.take].results[0]]) taken_from[taken] = number;
  }
}

}  // namespace tilec::ir::warp_check
