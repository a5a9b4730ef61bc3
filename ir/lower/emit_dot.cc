// Matrix products: tensor-core products through wgmma, others by multiply-adds.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ir/integer_range.h"
#include "ir/lower/emitter.h"
#include "ir/lower/operands.h"
#include "ir/lower/scalars.h"

namespace tilec::ir {

ValueId Emitter::OperandBuffer(OpId dot, bool is_a) {
  const OperandPlan& operand = is_a ? plan_.dots.at(dot).a : plan_.dots.at(dot).b;
  if (operand.how == OperandPlan::How::kBuffer) return LoadBuffer(in_.values[operand.source].def);
  return buffers_[*p_.operand_rings[p_.operand_ring_of.at({dot, is_a})].buffer];
}

void Emitter::NextOperandSlots(OpId dot) {
  for (size_t i : p_.OperandRingsOf(dot)) {
    OperandCursor& ring = operand_cursors_[i];
    const int64_t slots = p_.operand_rings[i].slots;
    if (slots == 1) continue;
    const ValueId count = b_.Value(OpKind::kCounterRead, {ring.counter}, Type::Scalar(DType::kI32));
    ring.slot = b_.Binary(OpKind::kMod, count, b_.Int(slots, DType::kI32));
    b_.Add(OpKind::kCounterAdd, {ring.counter}, {}, {{"by", int64_t{1}}});
  }
}

// Puts a computed operand where the product reads it; the caller brackets with barriers.
void Emitter::StoreOperand(OpId dot, bool is_a) {
  const OperandPlan& operand = is_a ? plan_.dots.at(dot).a : plan_.dots.at(dot).b;
  if (operand.how != OperandPlan::How::kStore) return;
  const std::vector<int64_t>& shape = in_.type(operand.source).shape;
  ValueId tile = Tile(operand.source);
  const Layout layout = out_.type(tile).shape.empty() ? ReplicatedLayout(shape, plan_.threads())
                                                      : Unsqueeze(out_.layout(tile), shape);
  tile = Reshape_(tile, shape, layout);
  std::vector<ValueId> operands = {tile, OperandBuffer(dot, is_a)};
  if (const size_t ring = p_.operand_ring_of.at({dot, is_a}); p_.operand_rings[ring].slots > 1)
    operands.push_back(operand_cursors_[ring].slot);
  b_.Add(OpKind::kSmemStore, std::move(operands), {},
         {{"transposed", int64_t{operand.store_transposed}}});
}

// What threads compute for the product goes to shared memory.
void Emitter::StoreOperands(OpId id) {
  const DotPlan& dot = plan_.dots.at(id);
  const auto stored = [](const OperandPlan& o) { return o.how == OperandPlan::How::kStore; };
  if (!stored(dot.a) && !stored(dot.b)) return;
  // Bring the tiles into registers first: that may flush loads, whose barriers then serve here.
  for (const OperandPlan* o : {&dot.a, &dot.b})
    if (stored(*o)) Tile(o->source);
  FlushLoads();
  // Of several slots the next one is free (PlanOperandRings).
  if (p_.OneSlot(id)) SettleAll(), Sync();
  NextOperandSlots(id);
  StoreOperand(id, true);
  StoreOperand(id, false);
  FenceAsync();
  Sync();
}

// Ring slots, if an operand comes through a channel or lies in one of several places.
std::vector<ValueId> Emitter::OperandSlots(OpId id) {
  const DotPlan& dot = plan_.dots.at(id);
  std::vector<ValueId> slots(2);
  for (size_t i = 0; i < slots.size(); ++i) {
    const OperandPlan& o = i == 0 ? dot.a : dot.b;
    if (o.how == OperandPlan::How::kBuffer) slots[i] = SlotOf(in_.values[o.source].def);
    if (const auto ring = p_.operand_ring_of.find({id, i == 0}); ring != p_.operand_ring_of.end())
      slots[i] = operand_cursors_[ring->second].slot;
  }
  if (!slots[0].valid() && !slots[1].valid()) return {};
  for (ValueId& slot : slots)
    if (!slot.valid()) slot = b_.Int(0, DType::kI32);
  return slots;
}

Result<> Emitter::Dot_(OpId id) {
  const Op& op = in_.ops[id];
  const DotPlan& dot = plan_.dots.at(id);
  const ValueId result = op.results[0];
  const Type& type = in_.type(result);
  StoreOperands(id);
  FlushLoads();

  // The accumulator: in its class layout outside, in the instruction's layout inside.
  const auto it = plan_.layouts.find(result);
  const Layout outside = it == plan_.layouts.end() ? ReplicatedLayout(type.shape, plan_.threads())
                                                   : Unsqueeze(it->second, type.shape);
  const Layout inside = dot.tensor_core ? dot.acc : outside;
  const Type inner = Type::Tile(type.dtype, type.shape, out_.Intern(inside));
  const Op* init = in_.def(op.operands[2]);
  const bool zero = init && init->kind == OpKind::kConstant && init->number("value") == 0;
  ValueId acc, adds;
  if (zero && dot.tensor_core && dot.promote == 0)
    acc = b_.Constant(inner, 0);
  else if (acc = GoOn(id, op.operands[2], &adds); !acc.valid())
    acc = InLayout(Reshape_(Tile(op.operands[2]), type.shape, outside), inside);

  auto finish = [&](ValueId value) {
    Land(result, value);
    return Done();
  };

  if (!dot.tensor_core) {
    const int64_t k = in_.type(op.operands[0]).shape[1];
    return finish(
        b_.Value(OpKind::kSimtDot, {acc, OperandBuffer(id, true), OperandBuffer(id, false)}, inner,
                 {{"k", k}, {"trans_a", int64_t{dot.a.trans}}, {"trans_b", int64_t{dot.b.trans}}}));
  }

  const std::vector<ValueId> slots = OperandSlots(id);
  const bool a_regs = dot.a.how == OperandPlan::How::kRegister;
  const ValueId a = a_regs ? Tile(dot.a.source) : OperandBuffer(id, true);
  const ValueId b = OperandBuffer(id, false);
  const char* split = dot.split == WgSplit::kM ? "m" : dot.split == WgSplit::kN ? "n" : "none";
  auto product = [&](ValueId into, bool ignore, int64_t begin, int64_t k) {
    ValueId a_in = a;
    std::vector<ValueId> through = {into};
    std::vector<Type> types = {inner};
    if (a_regs) {
      through.push_back(a);
      types.push_back(out_.type(a));
    }
    const OpId fence = b_.Add(OpKind::kMmaFence, through, types);
    if (a_regs) a_in = out_.ops[fence].results[1];
    std::vector<ValueId> operands = {out_.ops[fence].results[0], a_in, b};
    operands.insert(operands.end(), slots.begin(), slots.end());
    if (adds.valid() && slots.size() == 2) operands.push_back(adds);
    const ValueId mma = b_.Value(OpKind::kMma, std::move(operands), inner,
                                 {{"k", k},
                                  {"split", std::string(split)},
                                  {"trans_a", int64_t{dot.a.trans}},
                                  {"trans_b", int64_t{dot.b.trans}},
                                  {"zero", int64_t{ignore}},
                                  {"k_begin", begin}});
    b_.Add(OpKind::kMmaCommit, {}, {});
    if (specialized() && dot.promote == 0) {  // awaited where it is first used
      flights_.push_back({id, result, mma, a_regs ? a_in : ValueId(), p_.RingsReadBy(in_, id), {}});
      return ValueId();
    }
    std::vector<ValueId> waited = {mma};
    if (a_regs) waited.push_back(a_in);
    const OpId wait =
        b_.Add(OpKind::kMmaWait, std::move(waited), {inner}, {{"pending", int64_t{0}}});
    return out_.ops[wait].results[0];
  };
  if (dot.promote == 0) {
    const ValueId value = product(acc, zero, 0, dot.k_padded);
    return value.valid() ? finish(value) : Done();
  }
  // fp8 with promotion: partial products of `promote` columns, added in f32.
  for (int64_t k = 0; k < dot.k_padded; k += dot.promote) {
    const ValueId part =
        product(b_.Constant(inner, 0), true, k, std::min(dot.promote, dot.k_padded - k));
    acc = b_.Binary(OpKind::kAdd, acc, part);
  }
  return finish(acc);
}

// Registers of an operand may be those of the one before it, which the product still reads: ptxas
// then serializes all products (C7513). So that product is awaited first. But what the operand is
// made of is there before: a wait that reads it cannot stand in front of it. Of an integer that is
// converted that is its f32.
void Emitter::BeforeFeeder(OpId id) {
  const auto fed = p_.feeders.find(id);
  if (fed == p_.feeders.end()) return;
  const auto carried = [&] {  // from the turn before
    size_t count = 0;
    for (size_t i = 0; i < flights_.size(); ++i)
      if (flights_[i].a.valid() && fed->second.count(flights_[i].dot) &&
          in_.values[plan_.dots.at(flights_[i].dot).a.source].block.valid())
        count = i + 1;
    return count;
  };
  if (carried() == 0) return;
  std::vector<ValueId> made;
  const Op& op = in_.ops[id];
  if (Info(op.kind).elementwise() && MadeOfLoads(in_, op.results[0]))
    for (ValueId v : op.operands) {
      if (!plan_.layouts.count(v)) continue;
      const Op* def = in_.def(v);
      if (def && (def->kind == OpKind::kConstant || def->kind == OpKind::kBroadcast)) continue;
      ValueId tile = Tile(v);
      if (ConvertsFewBits(op)) tile = halfway_[id] = b_.Cast(tile, DType::kF32);
      if (!out_.type(tile).shape.empty()) made.push_back(tile);
    }
  Settle(carried(), made);
}

// A conversion that may go by way of f32, which loses nothing of such integers.
bool Emitter::ConvertsFewBits(const Op& op) const {
  constexpr int64_t kExact = int64_t{1} << 24;
  const DType to = in_.type(op.results[0]).dtype;
  if (op.kind != OpKind::kCast || !IsFloat(to) || ByteSize(to) != 2) return false;
  const std::optional<IntegerRange> range = RangeOf(in_, op.operands[0]);
  return range && range->least >= -kExact && range->most <= kExact;
}

void Emitter::Land(ValueId result, ValueId value) {
  const Type& type = in_.type(result);
  const auto it = plan_.layouts.find(result);
  const Layout outside = it == plan_.layouts.end() ? ReplicatedLayout(type.shape, plan_.threads())
                                                   : Unsqueeze(it->second, type.shape);
  value = InLayout(value, outside);
  Bind(result,
       Reshape_(value, Squeezed(type.shape), it == plan_.layouts.end() ? Layout{} : it->second));
}

// Groups complete in commit order: waiting for one waits for all before it. Accumulators that are
// complete pass through the wait; register operands of every product still under way stay inputs
// of it, so that nobody reuses their registers while the tensor core reads them.
void Emitter::Settle(size_t count, const std::vector<ValueId>& made) {
  if (count == 0) return;
  const auto middle = flights_.begin() + static_cast<std::ptrdiff_t>(count);
  const std::vector<Flight> done(flights_.begin(), middle);
  std::vector<ValueId> operands;
  std::vector<Type> types;
  for (const Flight& f : done) {
    if (!f.acc.valid()) continue;
    operands.push_back(f.acc);
    types.push_back(out_.type(f.acc));
  }
  for (const Flight& f : flights_)
    if (f.a.valid()) operands.push_back(f.a);
  operands.insert(operands.end(), made.begin(), made.end());
  flights_.erase(flights_.begin(), middle);
  const OpId wait = b_.Add(OpKind::kMmaWait, std::move(operands), std::move(types),
                           {{"pending", static_cast<int64_t>(flights_.size())}});
  size_t landed = 0;
  for (const Flight& f : done) {
    for (const Due& due : f.releases) EmitRelease(due);
    if (f.acc.valid()) Land(f.lands, out_.ops[wait].results[landed++]);
  }
}

}  // namespace tilec::ir
