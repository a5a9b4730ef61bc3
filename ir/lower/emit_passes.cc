// Tiles that pass from one compute role to another (role_needs.h says how the program marks them).
//
// Each has a ring in shared memory. The threads of the role that makes it write their fragments
// into a slot and arrive at its full barrier, a warp at a time; those of the reading role read
// theirs and arrive at the empty barrier. All sides are ordinary accesses: no proxy fence is
// needed. Transfers are counted as those of loads are, and both roles walk the same loops and
// branches. Scalars that the load role steers by come to it in the same way.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ir/isa.h"
#include "ir/lower/emit_rules.h"
#include "ir/lower/emitter.h"
#include "ir/lower/operands.h"
#include "ir/lower/role_needs.h"
#include "ir/lower/scalars.h"

namespace tilec::ir {

void Emitter::Put(const Op& op) {
  const int64_t token = op.ints("signal")[0];
  const Ring& ring = passes_.at(token);
  const std::vector<int64_t> shape = ShapeInMemory(in_.type(op.operands[0]));
  ValueId tile = Tile(op.operands[0]);
  const Layout layout = out_.type(tile).shape.empty() ? ReplicatedLayout(shape, plan_.threads())
                                                      : Unsqueeze(out_.layout(tile), shape);
  tile = Reshape_(tile, shape, layout);
  const ValueId slot = NextSlot(ring, true);
  std::vector<ValueId> operands = {tile, buffers_[p_.passes.at(token).buffer]};
  if (slot.valid()) operands.push_back(slot);
  b_.Add(OpKind::kSmemStore, std::move(operands), {});
  Arrive(ring.full, slot);
}

void Emitter::Take(const Op& op) {
  const int64_t token = op.ints("await")[0];
  const Ring& ring = passes_.at(token);
  const ValueId buffer = buffers_[p_.passes.at(token).buffer];
  const ValueId result = op.results[0];
  const Type& type = in_.type(result);
  const std::vector<int64_t> shape = ShapeInMemory(type);
  const auto it = plan_.layouts.find(result);
  const bool single = it == plan_.layouts.end();
  const Layout layout =
      single ? ReplicatedLayout(shape, plan_.threads()) : Unsqueeze(it->second, shape);
  const ValueId slot = NextSlot(ring, false);
  std::vector<ValueId> operands = {buffer};
  if (slot.valid()) operands.push_back(slot);
  const ValueId tile = b_.Value(OpKind::kSmemLoad, std::move(operands),
                                Type::Tile(type.dtype, shape, out_.Intern(layout)));
  Arrive(ring.empty, slot);
  Bind(result, Reshape_(tile, Squeezed(type.shape), single ? Layout{} : it->second));
}

// The compute role has the scalar in every thread; one of them writes it.
void Emitter::Hand(const Op& op, int64_t pass) {
  const Ring& ring = passes_.at(pass);
  const std::vector<int64_t> one = {1};
  ValueId value = Scalar(op.results[0]);
  if (out_.type(value).dtype == DType::kBool) {
    value = b_.Cast(value, DType::kI32);
    // Both roles ask the same of the same number: what steers them is congruent.
    Bind(op.results[0], b_.Cmp("ne", value, b_.Int(0, DType::kI32)));
  }
  value = Reshape_(value, one, ReplicatedLayout(one, plan_.threads()));
  NextSlot(ring, true);
  b_.Add(OpKind::kSmemStore, {value, buffers_[p_.passes.at(pass).buffer]}, {});
  Arrive(ring.full, {});
}

// Every thread of the load role reads it.
void Emitter::TakeHanded(const Op& op, int64_t pass) {
  const Ring& ring = passes_.at(pass);
  const std::vector<int64_t> one = {1};
  const DType dtype = in_.type(op.results[0]).dtype;
  const Layout layout = ReplicatedLayout(one, isa::kWarpThreads * p_.load_warps());
  const Type type = Type::Tile(HandedAs(dtype), one, out_.Intern(layout));
  NextSlot(ring, false);
  const ValueId tile = b_.Value(OpKind::kSmemLoad, {buffers_[p_.passes.at(pass).buffer]}, type);
  Arrive(ring.empty, {});
  ValueId value = Reshape_(tile, {}, Layout{});
  if (dtype == DType::kBool) value = b_.Cmp("ne", value, b_.Int(0, DType::kI32));
  Bind(op.results[0], value);
}

}  // namespace tilec::ir
