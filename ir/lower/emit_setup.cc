// What stands in front of the roles: barriers and buffers in the order of the plan, buffers that
// are cleared once, the barriers' counts, and the meeting after which everybody may use them.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ir/lower/emitter.h"

namespace tilec::ir {

ValueId Emitter::NewBarrier(int64_t slots) {
  return b_.Value(OpKind::kMbarAlloc, {}, Type::Mbar(slots), {{"offset", int64_t{0}}});
}

Emitter::Ring Emitter::NewRing(int64_t slots) {
  Ring ring;
  ring.depth = slots;
  ring.full = NewBarrier(slots);
  ring.empty = NewBarrier(slots);
  return ring;
}

void Emitter::Allocate(size_t index) {
  const PlannedBuffer& buffer = p_.buffers[index];
  const ValueId value = b_.Value(OpKind::kSmemAlloc, {}, buffer.type, {{"offset", buffer.offset}});
  buffers_[index] = value;
  for (int64_t slot = 0; buffer.cleared && slot < buffer.type.depth; ++slot) {
    std::vector<ValueId> operands = {value};
    if (buffer.type.depth > 1) operands.push_back(b_.Int(slot, DType::kI32));
    b_.Add(OpKind::kSmemZero, std::move(operands), {});
  }
}

void Emitter::SetUp() {
  buffers_.resize(p_.buffers.size());
  operand_cursors_.resize(p_.operand_rings.size());
  for (const PlannedRing& ring : p_.rings) rings_.push_back(NewRing(ring.slots));
  for (const auto& [id, token] : p_.tokens) tokens_[id].mbar = NewBarrier(token.slots);
  std::set<size_t> done;
  const auto allocate = [&](size_t buffer) {
    if (done.insert(buffer).second) Allocate(buffer);
  };
  for (const auto& [id, pass] : p_.passes) {
    passes_[id] = NewRing(pass.slots);
    if (pass.scalar()) handed_[pass.put] = id;
    allocate(pass.buffer);
  }
  std::set<size_t> exchanged;
  for (const auto& [id, exchange] : p_.exchanges) exchanged.insert(exchange.buffer);
  for (size_t i = 0; i < p_.buffers.size(); ++i)
    if (!exchanged.count(i)) allocate(i);
  for (const auto& [id, exchange] : p_.exchanges) {
    allocate(exchange.buffer);
    exchanges_[id] = NewBarrier(exchange.barriers);
  }
  if (p_.copy_barrier) mbar_ = NewBarrier(1);
  for (const auto& [of, column] : p_.sum_columns)
    if (!LeftToIssuer(of.second)) sum_mbars_[of] = NewBarrier(1);
  SetUpAccumulators();
  const bool barriers =
      p_.copy_barrier || !rings_.empty() || !exchanges_.empty() || !sum_mbars_.empty();
  if (barriers) InitBarriers();
  const bool cleared = std::any_of(p_.buffers.begin(), p_.buffers.end(),
                                   [](const PlannedBuffer& buffer) { return buffer.cleared; });
  if (cleared) FenceAsync();
  if (p_.pair) AllocateColumns();  // in both, before one of them issues products for both
  if (out_.launch.cluster > 1)     // nobody writes to a CTA that is not ready
    b_.Add(OpKind::kClusterSync, {}, {});
  else if (p_.copy_barrier || cleared || !rings_.empty() || !sum_mbars_.empty())
    b_.Add(OpKind::kCtaSync, {}, {}, {{"id", int64_t{0}}});
  if (!p_.pair) AllocateColumns();
}

void Emitter::AllocateColumns() {
  if (p_.tensor_columns == 0) return;
  int64_t columns = kLeastTensorColumns;
  while (columns < p_.tensor_columns) columns *= 2;
  Attrs attrs = {{"columns", columns}, {"offset", int64_t{0}}};
  if (p_.pair) attrs.emplace_back("pair", int64_t{1});
  tensor_memory_ = b_.Value(OpKind::kTmemAlloc, {}, Type::Scalar(DType::kI32), std::move(attrs));
  emitted_.tensor_memory = tensor_memory_;
}

// By one thread, before anybody looks at them. They lie in the order in which they are set up.
void Emitter::InitBarriers() {
  Elect([&](Builder& inner) {
    const auto init = [&](ValueId mbar, int64_t arrivals, bool cluster = false) {
      emitted_.barriers.push_back(mbar);
      const OpId op = inner.Add(OpKind::kMbarInit, {mbar}, {}, {{"count", arrivals}});
      if (cluster) out_.ops[op].set("cluster", int64_t{1});
    };
    const bool by_threads = std::any_of(
        plan_.loads.begin(), plan_.loads.end(),
        [&](const auto& load) { return load.second.chunk > 0 && !p_.site_of.count(load.first); });
    if (mbar_.valid()) init(mbar_, by_threads ? plan_.threads() : 1);
    for (size_t i = 0; i < rings_.size(); ++i) {
      init(rings_[i].full, FullArrivals(p_.rings[i]));
      init(rings_[i].empty, p_.rings[i].arrivals, p_.rings[i].multicast);
    }
    for (const auto& [id, token] : p_.tokens) init(tokens_.at(id).mbar, token.arrivals);
    for (const auto& [id, pass] : p_.passes) {
      init(passes_.at(id).full, pass.arrivals);
      init(passes_.at(id).empty, pass.scalar() ? p_.load_warps() : pass.arrivals);
    }
    for (const auto& [id, exchange] : p_.exchanges)
      init(exchanges_.at(id), exchange.arrivals, !exchange.sent(in_));
    for (const auto& [of, mbar] : sum_mbars_) init(mbar, 1);
    for (const auto& [sum, ring] : accumulators_) {
      init(ring.full, 1);
      init(ring.empty, Accumulator(sum).arrivals, p_.pair);
    }
    inner.Add(OpKind::kFenceMbarInit, {}, {});
  });
}

}  // namespace tilec::ir
