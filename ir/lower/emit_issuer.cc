// The role that issues the products of the compute roles, and the accumulators between it and them
// (plan_issuer.cc says when there is one).
//
// An accumulator is a ring in tensor memory. The issuer waits until a slot is empty, issues the
// products of a sum into it, and commits to the slot's full barrier. The threads of the compute
// role wait for that, load the tile, and arrive at the empty barrier as soon as they have all of it
// in registers: what they do with the last slice runs under the next tile's products. Each side is
// behind a fence of tensor memory: after its wait, and before its arrival (a commit has it in it).
//
// Where CTAs come in pairs the first one's issuer makes the products of both. A ring's slot is full
// at its barrier there, once the boxes of both CTAs have come; a commit releases the slots of both,
// and fills the accumulators of both; warps of both arrive at its empty barrier there.
//
// The issuer stands for every compute role in turn: of each ring it has a counter for each role
// that it reads the ring for, and commits as often.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ir/lower/emitter.h"

namespace tilec::ir {

void Emitter::SetUpAccumulators() {
  for (const auto& [sum, accumulator] : p_.accumulator_of)
    accumulators_[sum] = NewRing(p_.accumulators[accumulator].slots);
}

void Emitter::BeginIssuer() {
  const auto counter = [&] {
    return b_.Value(OpKind::kCounter, {}, Type::Counter(), {{"init", int64_t{0}}});
  };
  served_.clear();
  for (int role = 0; role < p_.compute_roles; ++role) {
    std::vector<Ring> rings = rings_;
    for (size_t i = 0; i < rings.size(); ++i)
      if (ServedByIssuer(i) && p_.rings[i].sites[0].readers.count(role))
        rings[i].counter = counter();
    served_[role] = std::move(rings);
  }
  for (auto& [sum, ring] : accumulators_) ring.counter = counter();
  role_ = 0;
  rings_ = served_.at(0);
}

// From here on the rings are as this compute role reads them.
void Emitter::Serve(int role) {
  if (role == role_) return;
  served_[role_] = rings_;
  rings_ = served_.at(role);
  role_ = role;
}

void Emitter::FenceAfterAlone() {
  Elect([&](Builder& inner) { inner.Add(OpKind::kTcFence, {}, {}, {{"after", int64_t{1}}}); });
}

// The next slot, which `producer` fills or else threads load.
void Emitter::NextAccumulator(size_t sum, bool producer) {
  Ring& ring = accumulators_.at(sum);
  ring.slot = NextSlot(ring, producer, producer, p_.pair);
  sums_[sum].address = {};
  if (!ring.slot.valid()) return;
  const std::vector<int64_t>& shape = in_.type(p_.sums[sum].result).shape;
  const ValueId columns = b_.Int(TensorColumns(shape[0], shape[1]), DType::kI32);
  sums_[sum].address =
      b_.Binary(OpKind::kAdd, tensor_memory_, b_.Binary(OpKind::kMul, ring.slot, columns));
}

void Emitter::BeginAccumulators(OpId first) {
  for (const auto& [sum, accumulator] : p_.accumulator_of) {
    if (p_.sums[sum].first != first) continue;
    NextAccumulator(sum, true);
    FenceAfterAlone();
    sums_[sum].adds = b_.Constant(Type::Scalar(DType::kBool), 0);
  }
}

void Emitter::EndAccumulators(OpId last) {
  for (const auto& [sum, accumulator] : p_.accumulator_of)
    if (p_.sums[sum].last == last) CommitTo(accumulators_.at(sum).full, accumulators_.at(sum).slot);
}

// Threads: the products into the slot are complete.
void Emitter::TakeAccumulator(size_t sum) {
  NextAccumulator(sum, false);
  b_.Add(OpKind::kTcFence, {}, {}, {{"after", int64_t{1}}});
  sums_[sum].committed = false;
  sums_[sum].loaded = 0;
}

// Threads: they have the tile.
void Emitter::ReleaseAccumulator(size_t sum) {
  const Ring& ring = accumulators_.at(sum);
  b_.Add(OpKind::kTcFence, {}, {}, {{"after", int64_t{0}}});
  Arrive(ring.empty, ring.slot, p_.pair ? Attrs{{"leader", int64_t{1}}} : Attrs{});
}

// The issuer's share of one op: its products, with the slots that they read, and the structure
// around them.
Result<> Emitter::IssuerOp(OpId id) {
  const auto served = [&](const auto& of, const auto& visit) {
    for (int role = 0; role < p_.compute_roles; ++role) {
      const auto it = of.find({role, id});
      if (it == of.end()) continue;
      for (size_t channel : it->second)
        if (ServedByIssuer(channel)) Serve(role), visit(channel);
    }
  };
  served(p_.awaits, [&](size_t channel) { rings_[channel].slot = NextSlot(channel, false); });
  BeginAccumulators(id);
  if (const auto sum = p_.sum_of.find(id); sum != p_.sum_of.end() && p_.issued.count(id)) {
    Serve(p_.sum_for.at(sum->second));
    IssueByBarrier(id, sum->second, {false, 0, plan_.dots.at(id).k_padded});
  } else {
    TRY_VOID(ProducerOp(id));
  }
  EndAccumulators(id);
  served(p_.releases, [&](size_t channel) { Release(channel); });
  return Done();
}

}  // namespace tilec::ir
