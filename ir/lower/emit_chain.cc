// Products that stay in flight from one iteration of a loop to the next.
//
//     for k { acc = acc + a(k) · b(k) }
// asks for nothing between two products: the tensor core adds them up in order. Awaiting each one
// in its own iteration leaves the tensor core idle from the end of one product until the next is
// issued, unless another warpgroup has work for it. So the accumulator is carried while a product
// still works on it, and an iteration awaits the product of the iteration before, once its own is
// issued. The slots that one has read are released then, an iteration late; the first iteration has
// none to give.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ir/lower/emitter.h"

namespace tilec::ir {

const PlannedLoop& Emitter::LoopPlanOf(OpId loop) const {
  static const PlannedLoop kNone;
  const auto it = p_.loops.find({role_, loop});
  return part_ == Part::kCompute && it != p_.loops.end() ? it->second : kNone;
}

const Emitter::Flight* Emitter::Flying(ValueId v) const {
  for (const Flight& f : flights_)
    if (f.lands == v) return &f;
  return nullptr;
}

// Products of the iteration before are in flight; `when` says whether there was one.
void Emitter::FlyOn(const std::vector<PlannedChain>& chains, const std::vector<ValueId>& lands,
                    ValueId when) {
  for (size_t i = 0; i < chains.size(); ++i) {
    Flight flight{chains[i].dot, lands[i], map_.at(lands[i]), {}, {}, {}};
    for (size_t channel : chains[i].rings) {
      const Ring& ring = rings_[channel];
      const ValueId next =
          b_.Value(OpKind::kCounterRead, {ring.counter}, Type::Scalar(DType::kI32));
      const ValueId last = b_.Binary(OpKind::kAdd, next, b_.Int(ring.depth - 1, DType::kI32));
      const ValueId slot = b_.Binary(OpKind::kMod, last, b_.Int(ring.depth, DType::kI32));
      flight.releases.push_back({channel, slot, when});
    }
    if (chains[i].from_zero) flight.adds = when;
    flights_.push_back(std::move(flight));
  }
}

// Anew, from the position of the iteration: it is pinned behind what was emitted so far.
Result<std::vector<ValueId>> Emitter::MadeAgain(const BeforeLastWait& again) {
  std::vector<ValueId> pinned;
  const auto pin = [&](ValueId v) {
    const ValueId now = map_.at(v);
    return b_.Value(OpKind::kPin, {now}, out_.type(now));
  };
  const std::map<ValueId, ValueId> before = map_;
  const Span here = b_.span();
  if (!again.ops.empty()) Bind(again.position, pin(again.position));
  for (OpId id : again.ops) Elementwise(in_.ops[id]);
  for (ValueId v : again.read) {
    pinned.push_back(pin(v));
    Bind(v, pinned.back());
  }
  TRY(const std::vector<ValueId> loaded, LoadedEarly(again));
  pinned.insert(pinned.end(), loaded.begin(), loaded.end());
  b_.SetSpan(here);
  map_ = before;
  return pinned;
}

Result<std::vector<ValueId>> Emitter::LoadedEarly(const BeforeLastWait& again) {
  std::vector<ValueId> loaded;
  for (OpId id : again.loads) {
    b_.SetSpan(in_.ops[id].at);
    TRY_VOID(Load_(id));
    loaded.push_back(map_.at(in_.ops[id].results[0]));
  }
  return loaded;
}

// The last products are awaited where there was an iteration at all: where there was none, other
// instructions set the accumulators, and with a wait on both ways ptxas serializes (C7515).
Result<> Emitter::ChainedTurns(OpId id, const std::vector<size_t>& kept,
                               std::vector<ValueId> operands, std::vector<Type> types) {
  const Op& op = in_.ops[id];
  const std::vector<PlannedChain>& chains = LoopPlanOf(id).chains;
  const BeforeLastWait& again = LoopPlanOf(id).before_wait;
  std::vector<Type> results = types;
  for (ValueId v : again.read) results.push_back(in_.type(v));
  for (OpId id : again.loads) results.push_back(WarpType(in_.ops[id].results[0]));
  const std::vector<ValueId> initial(operands.begin() + 2, operands.end());
  const OpId branch = b_.Add(OpKind::kIf, {b_.Cmp("lt", operands[0], operands[1])}, results);
  out_.ops[branch].set("apart", int64_t{1});
  const BlockId some = out_.AddBlock(branch), none = out_.AddBlock(branch);
  out_.ops[branch].regions = {some, none};
  const BlockId home = b_.block();
  b_.SetBlock(some);
  types.push_back(Type::Scalar(DType::kBool));
  operands.push_back(b_.Constant(types.back(), 0));
  TRY(const OpId loop, Turns(op, kept, std::move(operands), std::move(types), chains));
  out_.ops[loop].set("some", int64_t{1});
  const std::vector<ValueId> made = out_.ops[loop].results;
  for (size_t k = 0; k < kept.size(); ++k) Bind(op.results[kept[k]], made[k]);
  std::vector<ValueId> flying;
  for (const PlannedChain& chain : chains) flying.push_back(op.results[chain.carried]);
  FlyOn(chains, flying, {});
  TRY(const std::vector<ValueId> pinned, MadeAgain(again));
  SettleAll();
  std::vector<ValueId> settled;
  for (size_t i : kept) settled.push_back(map_.at(op.results[i]));
  settled.insert(settled.end(), pinned.begin(), pinned.end());
  b_.Yield(std::move(settled));
  b_.SetBlock(none);
  std::vector<ValueId> unturned = initial;
  for (ValueId v : again.read) unturned.push_back(map_.at(v));
  TRY(const std::vector<ValueId> loaded, LoadedEarly(again));
  unturned.insert(unturned.end(), loaded.begin(), loaded.end());
  b_.Yield(std::move(unturned));
  b_.SetBlock(home);
  for (size_t k = 0; k < kept.size(); ++k) Bind(op.results[kept[k]], out_.ops[branch].results[k]);
  size_t at = kept.size();
  for (ValueId v : again.read) Bind(v, out_.ops[branch].results[at++]);
  for (OpId id : again.loads) {
    Bind(in_.ops[id].results[0], out_.ops[branch].results[at++]);
    early_.insert(id);
  }
  return Done();
}

// How many of the youngest products the iteration that ends here hands to the next.
size_t Emitter::FlyingPast(OpId loop) const {
  const std::vector<PlannedChain>& chains = LoopPlanOf(loop).chains;
  if (chains.empty()) return 0;
  size_t flying = 0;
  for (const Flight& f : flights_) {
    const bool chained = std::any_of(chains.begin(), chains.end(),
                                     [&](const PlannedChain& c) { return c.dot == f.dot; });
    flying = chained && f.lands == in_.ops[f.dot].results[0] ? flying + 1 : 0;
  }
  return flying;
}

// The accumulator of a product that goes on where its predecessor, still in flight, will end.
// `adds`: whether there is one, if that is not sure; without one the product makes what it would
// add.
ValueId Emitter::GoOn(OpId dot, ValueId acc, ValueId* adds) {
  for (Flight& f : flights_)
    if (f.lands == acc && (in_.values[acc].block.valid() || p_.goes_on.count({role_, dot}))) {
      const ValueId value = f.acc;
      *adds = f.adds;
      f.acc = f.lands = {};
      return value;
    }
  return {};
}

// What an iteration hands to the next beside its values: whether products are in flight.
void Emitter::YieldChains(OpId loop, std::vector<ValueId>& values) {
  const std::vector<PlannedChain>& chains = LoopPlanOf(loop).chains;
  if (chains.empty()) return;
  CHECK(flights_.size() == chains.size(), "a chain was awaited in its turn");
  for (size_t i = 0; i < flights_.size(); ++i) {
    const std::vector<size_t>& later = chains[i].rings;
    for (const Due& due : flights_[i].releases)
      CHECK(std::count(later.begin(), later.end(), due.channel), "a slot is never given back");
  }
  values.push_back(b_.Constant(Type::Scalar(DType::kBool), 1));
  flights_.clear();
}

}  // namespace tilec::ir
