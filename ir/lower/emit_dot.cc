// Matrix products: what is the same whatever multiplies: where operands lie, accumulators from and
// to their class's layout. How a unit's products are issued and awaited: issue_groups.cc,
// issue_at_once.cc; without a unit they are multiply-adds.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ir/lower/emitter.h"
#include "ir/lower/operands.h"
#include "ir/lower/scalars.h"
#include "support/check.h"

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
  if (p_.OneSlot(id)) SettleReaders(id);
  if (p_.OneSlot(id) && !p_.MetBefore(id)) Sync();
  NextOperandSlots(id);
  StoreOperand(id, true);
  StoreOperand(id, false);
  AwaitFreed(id);
  if (dot.unit == MatrixUnit::kNone || Info(dot.unit).async_reads) FenceAsync();
  Sync();
}

// The left operand as the instruction takes it from registers.
ValueId Emitter::RegisterOperand(OpId id) {
  const DotPlan& dot = plan_.dots.at(id);
  const ValueId tile = Tile(dot.a.source);
  const auto layout =
      LeftInRegisters(dot.unit, in_.type(dot.a.source), plan_.warpgroups, dot.split);
  CHECK(layout, "an operand that no instruction takes from registers");
  return InLayout(tile, *layout);
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
  if (p_.sum_of.count(id)) return Accumulate(id);
  StoreOperands(id);
  const std::vector<ValueId> scales = ScaleTiles(id);
  FlushLoads();

  // The accumulator: in its class layout outside, in the instruction's layout inside.
  const auto it = plan_.layouts.find(result);
  const Layout outside = it == plan_.layouts.end() ? ReplicatedLayout(type.shape, plan_.threads())
                                                   : Unsqueeze(it->second, type.shape);
  const bool on_unit = dot.unit != MatrixUnit::kNone;
  const Layout inside = on_unit ? dot.acc : outside;
  const Type inner = Type::Tile(type.dtype, type.shape, out_.Intern(inside));
  const Op* init = in_.def(op.operands[2]);
  const bool zero = init && init->kind == OpKind::kConstant && init->number("value") == 0;
  ValueId acc, adds;
  if (zero && on_unit && dot.promote == 0)
    acc = b_.Constant(inner, 0);
  else if (acc = GoOn(id, op.operands[2], &adds); !acc.valid())
    acc = InLayout(Reshape_(Tile(op.operands[2]), type.shape, outside), inside);

  auto finish = [&](ValueId value) {
    Land(result, value);
    return Done();
  };

  if (!on_unit) {
    const int64_t k = in_.type(op.operands[0]).shape[1];
    return finish(
        b_.Value(OpKind::kSimtDot, {acc, OperandBuffer(id, true), OperandBuffer(id, false)}, inner,
                 {{"k", k}, {"trans_a", int64_t{dot.a.trans}}, {"trans_b", int64_t{dot.b.trans}}}));
  }

  const bool a_regs = dot.a.how == OperandPlan::How::kRegister;
  Product product{id,
                  a_regs ? RegisterOperand(id) : OperandBuffer(id, true),
                  OperandBuffer(id, false),
                  OperandSlots(id),
                  scales,
                  adds,
                  inner};
  if (dot.promote == 0) {
    const ValueId value = Issue(product, acc, {zero, 0, dot.k_padded});
    return value.valid() ? finish(value) : Done();
  }
  // fp8 with promotion: partial products of `promote` columns, added in f32.
  for (int64_t k = 0; k < dot.k_padded; k += dot.promote) {
    const ValueId part =
        Issue(product, b_.Constant(inner, 0), {true, k, std::min(dot.promote, dot.k_padded - k)});
    acc = b_.Binary(OpKind::kAdd, acc, part);
  }
  return finish(acc);
}

// The unit's own file says how: issue_groups.cc, issue_at_once.cc.
ValueId Emitter::Issue(const Product& product, ValueId into, const Columns& of) {
  switch (Info(plan_.dots.at(product.dot).unit).completion) {
    case Completion::kAtOnce: return IssueAtOnce(product, into, of);
    case Completion::kGroups: return IssueInGroup(product, into, of);
    case Completion::kBarrier: break;
  }
  UNREACHABLE("no products are emitted for this unit");
}

// The product itself, the same on every unit.
ValueId Emitter::Multiply(const Product& product, ValueId into, ValueId a, const Columns& of) {
  const DotPlan& dot = plan_.dots.at(product.dot);
  const char* split = dot.split == WgSplit::kM ? "m" : dot.split == WgSplit::kN ? "n" : "none";
  std::vector<ValueId> operands = {into, a, product.b};
  std::vector<ValueId> slots = product.slots;
  const bool scaled = !product.scales.empty();
  if (scaled && slots.empty()) slots = {b_.Int(0, DType::kI32), b_.Int(0, DType::kI32)};
  operands.insert(operands.end(), slots.begin(), slots.end());
  if (product.adds.valid() && slots.size() == 2) operands.push_back(product.adds);
  operands.insert(operands.end(), product.scales.begin(), product.scales.end());
  Attrs attrs = {{"k", of.k},
                 {"split", std::string(split)},
                 {"trans_a", int64_t{dot.a.trans}},
                 {"trans_b", int64_t{dot.b.trans}},
                 {"zero", int64_t{of.first}},
                 {"k_begin", of.begin}};
  if (dot.unit != kOfOld) attrs.push_back({"unit", std::string(Info(dot.unit).name)});
  if (scaled)
    attrs.push_back({"block", BlockOfScale(in_.type(in_.ops[product.dot].operands[0]),
                                           in_.type(in_.ops[product.dot].operands[3]))});
  return b_.Value(OpKind::kMma, std::move(operands), product.inner, std::move(attrs));
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

}  // namespace tilec::ir
