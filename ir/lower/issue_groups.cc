// Products that complete in groups (wgmma): a fence before the registers they touch, a group for
// each, and a wait that ends groups in the order of their commits. Until then a product is in
// flight: its accumulator and its register operand must not be touched, its slots not be released.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ir/integer_range.h"
#include "ir/lower/emitter.h"
#include "ir/lower/operands.h"
#include "ir/lower/scalars.h"
#include "ir/lower/waits.h"

namespace tilec::ir {

// In a role of its own a product is awaited where its result is first used: nothing is returned.
ValueId Emitter::IssueInGroup(const Product& product, ValueId into, const Columns& of) {
  const DotPlan& dot = plan_.dots.at(product.dot);
  const bool a_regs = dot.a.how == OperandPlan::How::kRegister;
  std::vector<ValueId> through = {into};
  std::vector<Type> types = {product.inner};
  if (a_regs) {
    through.push_back(product.a);
    types.push_back(out_.type(product.a));
  }
  const OpId fence = b_.Add(OpKind::kMmaFence, through, types);
  const ValueId a = a_regs ? out_.ops[fence].results[1] : product.a;
  const ValueId mma = Multiply(product, out_.ops[fence].results[0], a, of);
  b_.Add(OpKind::kMmaCommit, {}, {});
  if (specialized() && dot.promote == 0) {
    flights_.push_back({product.dot,
                        in_.ops[product.dot].results[0],
                        mma,
                        a_regs ? a : ValueId(),
                        p_.RingsReadBy(in_, product.dot),
                        {}});
    return {};
  }
  std::vector<ValueId> waited = {mma};
  if (a_regs) waited.push_back(a);
  const OpId wait =
      b_.Add(OpKind::kMmaWait, std::move(waited), {product.inner}, {{"pending", int64_t{0}}});
  return out_.ops[wait].results[0];
}

// Groups complete in commit order: waiting for one waits for all before it. Accumulators that are
// complete pass through the wait; register operands of every product still in flight stay inputs
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

// Do threads fill bytes for the product that are this load's slots before?
bool Emitter::TakesBytesOf(OpId dot, OpId load) const {
  const PlannedBuffer& slots = p_.buffers[p_.load_buffers.at(load)];
  for (size_t ring : p_.OperandRingsOf(dot)) {
    const PlannedBuffer& filled = p_.buffers[*p_.operand_rings[ring].buffer];
    if (filled.offset < slots.offset + slots.bytes && slots.offset < filled.offset + filled.bytes)
      return true;
  }
  return false;
}

// Bytes that threads fill for `dot` may be written again when the products that read such bytes are
// done. Others, whose operands are registers or in rings that keep their bytes, stay in flight.
void Emitter::SettleReaders(OpId dot) {
  if (!p_.sums.empty()) return SettleAll();
  size_t count = 0;
  for (size_t i = 0; i < flights_.size(); ++i) {
    const DotPlan& flying = plan_.dots.at(flights_[i].dot);
    for (const OperandPlan* operand : {&flying.a, &flying.b}) {
      const OpId load = in_.values[operand->source].def;
      const bool ring = operand->how == OperandPlan::How::kBuffer && p_.site_of.count(load) > 0 &&
                        !TakesBytesOf(dot, load);
      if (!ring && operand->how != OperandPlan::How::kRegister) count = i + 1;
    }
  }
  Settle(count);
}

// Registers of an operand may be those of the one before it, which the product still reads: ptxas
// then serializes all products (C7513). So that product is awaited first. But what the operand is
// made of is there before: a wait that reads it cannot stand in front of it. Of an integer that is
// converted that is its f32.
void Emitter::BeforeFeeder(OpId id) {
  const auto fed = p_.feeders.find(id);
  if (fed == p_.feeders.end()) return;
  const auto carried = [&] {  // from the iteration before
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
  if (Info(op.kind).elementwise() &&
      (MadeOfLoads(in_, op.results[0]) || MadeOfTiles(in_, op.results[0], op.block)))
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

}  // namespace tilec::ir
