// Products that complete in groups: fences, groups, and registers that are not touched while the
// matrix unit works; it reads shared memory through the asynchronous proxy until the wait.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ir/warp_check/machine.h"

namespace tilec::ir::warp_check {

Step Machine::FencePass(OpId id) {
  const Op& op = fn_.ops[id];
  for (size_t i = 0; i < op.results.size(); ++i) {
    CoreTile t = TileOf(op.operands[i]);
    if (t.kind != CoreTile::kFlying) t = {CoreTile::kFenced, me().ids++};
    me().core[op.results[i].index] = t;
  }
  return Step::kDone;
}

Step Machine::IssueInGroup(OpId id) {
  const Op& op = fn_.ops[id];
  Role& r = me();
  Flight flight;
  flight.id = r.ids++;
  flight.op = id;
  if (trace) flight.event = static_cast<int>(trace->size()) - 1;
  const CoreTile acc = TileOf(op.operands[0]);
  if (acc.kind == CoreTile::kPlain)
    return Fail(kWarpProduct, op,
                "no mma_fence stands between other uses of its accumulator and it");
  if (acc.kind == CoreTile::kFlying &&
      std::none_of(r.flights.begin(), r.flights.end(),
                   [&](const Flight& f) { return f.id == acc.id; }))
    return Fail(kWarpProduct, op,
                "its accumulator is that of a product as it was before its mma_wait");
  const bool two = fn_.type(op.operands[1]).kind == TypeKind::kSmem;
  if (!two) {
    const CoreTile a = TileOf(op.operands[1]);
    if (a.kind == CoreTile::kFlying)
      return Fail(kWarpProduct, op, "its register operand is a product not yet awaited");
    if (a.kind == CoreTile::kPlain)
      return Fail(kWarpProduct, op,
                  "no mma_fence stands between other uses of its register operand and it");
    flight.held.push_back(a.id);
  }
  auto operand = [&](size_t i) { return i < op.operands.size() ? op.operands[i] : ValueId(); };
  Record how;
  how.flight = flight.id;
  if (two && !AccessBuffer(id, op.operands[1], operand(3), Proxy::kProduct, false, how))
    return Step::kFailed;
  if (!AccessBuffer(id, op.operands[2], operand(4), Proxy::kProduct, false, how))
    return Step::kFailed;
  r.flights.push_back(std::move(flight));
  r.core[op.results[0].index] = {CoreTile::kFlying, r.flights.back().id};
  return Step::kDone;
}

void Machine::Commit() {
  for (Flight& f : me().flights)
    if (f.group < 0) f.group = me().commits;
  ++me().commits;
}

Step Machine::WaitProducts(OpId id) {
  const Op& op = fn_.ops[id];
  Role& r = me();
  const int64_t pending = op.i("pending");
  auto done = [&](const Flight& f) { return f.group >= 0 && f.group < r.commits - pending; };
  for (const Flight& f : r.flights) {
    if (!done(f)) continue;
    if (trace) trace->back().after.push_back(f.event);
    for (int32_t held : f.held) {
      const CoreTile last = op.operands.empty() ? CoreTile{} : TileOf(op.operands.back());
      if (last.kind == CoreTile::kFenced && last.id == held) Use(id).holds = true;
      const bool kept = std::any_of(op.operands.begin(), op.operands.end(), [&](ValueId v) {
        const CoreTile t = TileOf(v);
        return t.kind == CoreTile::kFenced && t.id == held;
      });
      if (!kept)
        return Fail(kWarpProduct, op,
                    "it ends a product whose register operand was not kept until here");
    }
    for (Region& region : s_->regions)
      for (Record& record : region.records)
        if (record.proxy == Proxy::kProduct && record.component == 2 * role_ &&
            record.flight == f.id)
          record.end = r.now;
  }
  for (size_t i = 0; i < op.results.size(); ++i) {
    const CoreTile t = TileOf(op.operands[i]);
    for (const Flight& f : r.flights)
      if (t.kind == CoreTile::kFlying && f.id == t.id && !done(f))
        return Fail(kWarpProduct, op,
                    f.group < 0 ? "it passes on a product that was never committed"
                                : fmt::format("with {} groups pending it passes on a product that "
                                              "may be under way",
                                              pending));
  }
  std::erase_if(r.flights, done);
  for (ValueId v : op.results) r.core[v.index] = {};
  return Step::kDone;
}

}  // namespace tilec::ir::warp_check
