// Two kinds of roles: the producer that runs ahead and fills rings, the consumers that empty them.
//
// Each channel has one transfer counter per role, never reset: transfer c uses slot c mod depth,
// and the phase it waits for is ⌊c / depth⌋. Consumers wait on the full barrier for parity
// ⌊c/depth⌋ mod 2, the producer on the empty barrier for the opposite parity, so that its first
// `depth` waits pass at once. Both sides walk the same loops and branches, so they make the same
// number of transfers whatever the trip counts.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ir/lower/emitter.h"
#include "ir/lower/role_needs.h"
#include "ir/lower/scalars.h"

namespace tilec::ir {

ValueId Emitter::TokenSlot(const OrderToken& planned, const Token& token) {
  const Type i32 = Type::Scalar(DType::kI32);
  const ValueId count = b_.Value(OpKind::kCounterRead, {token.counter}, i32);
  return b_.Binary(OpKind::kMod, count, b_.Int(planned.slots, DType::kI32));
}

// Each warp of the role passes the token on once it has come here.
void Emitter::Signal(const Op& op) {
  if (!op.attr("signal") || PutsTile(op)) return;
  for (int64_t id : op.ints("signal")) {
    const OrderToken& planned = p_.tokens.at(id);
    if (planned.from != role_) continue;
    const Token& token = tokens_.at(id);
    const ValueId slot = TokenSlot(planned, token);
    Arrive(token.mbar, slot);
    b_.Add(OpKind::kCounterAdd, {token.counter}, {}, {{"by", int64_t{1}}});
  }
}

void Emitter::Await(const Op& op) {
  if (!op.attr("await") || TakesTile(op)) return;
  for (int64_t id : op.ints("await")) {
    const OrderToken& planned = p_.tokens.at(id);
    if (planned.to != role_) continue;
    const Token& token = tokens_.at(id);
    const ValueId count =
        b_.Value(OpKind::kCounterRead, {token.counter}, Type::Scalar(DType::kI32));
    const ValueId turn = b_.Binary(OpKind::kDiv, count, b_.Int(planned.slots, DType::kI32));
    const ValueId parity = b_.Binary(OpKind::kAnd, turn, b_.Int(1, DType::kI32));
    b_.Add(OpKind::kMbarWait, {token.mbar, parity, TokenSlot(planned, token)}, {});
    b_.Add(OpKind::kCounterAdd, {token.counter}, {}, {{"by", int64_t{1}}});
  }
}

void Emitter::BeginRole() {
  auto counter = [&] {
    return b_.Value(OpKind::kCounter, {}, Type::Counter(), {{"init", int64_t{0}}});
  };
  early_.clear();
  if (mbar_.valid() && part_ != Part::kProducer) phase_ = counter();
  if (out_.launch.cluster > 1 && part_ == Part::kProducer)
    cluster_rank_ =
        b_.Cast(b_.Value(OpKind::kClusterRank, {}, Type::Scalar(DType::kI32)), DType::kI64);
  due_.clear();
  issued_.clear();
  sums_.assign(p_.sums.size(), {});
  if (part_ == Part::kIssuer) return BeginIssuer();
  if (part_ == Part::kProducer) {
    brought_ = PositionsToBring(in_, plan_).value_or(std::vector<BroughtPositions>());
    if (brought_.empty()) brought_.push_back({});
    positions_.assign(brought_.size(), {});
    at_hand_ = 0;
  }
  for (size_t i = 0; i < rings_.size(); ++i)
    if (part_ == Part::kProducer ||
        (p_.rings[i].sites[0].readers.count(role_) && !ServedByIssuer(i)))
      rings_[i].counter = counter();
  for (auto& [sum, ring] : accumulators_)
    if (part_ == Part::kCompute && p_.sum_for.at(sum) == role_) ring.counter = counter();
  for (const auto& [of, mbar] : sum_mbars_)
    if (part_ != Part::kProducer && of.first == role_)
      sums_[of.second].mbar = mbar, sums_[of.second].counter = counter();
  for (const auto& [id, pass] : p_.passes)
    if (part_ == Part::kProducer && pass.scalar()) passes_.at(id).counter = counter();
  if (part_ != Part::kCompute) return;
  for (size_t i = 0; i < operand_cursors_.size(); ++i)
    if (const OperandRing& ring = p_.operand_rings[i];
        ring.slots > 1 && Mine(ring.operands[0].first))
      operand_cursors_[i].counter = counter();
  for (const auto& [id, token] : p_.tokens)
    if (token.to == role_ || token.from == role_) tokens_.at(id).counter = counter();
  for (const auto& [id, pass] : p_.passes)
    if (pass.to == role_ || pass.from == role_) passes_.at(id).counter = counter();
}

// Reads the channel's counter, waits for the slot to be ready for this side, and returns the slot
// (invalid for one-slot rings).
ValueId Emitter::NextSlot(size_t channel, bool producer) {
  const PlannedRing& ring = p_.rings[channel];
  return NextSlot(rings_[channel], producer,
                  producer ? FilledByOne(ring) : p_.ReleasedByCommit(ring), OfPair(channel));
}
// `pair`: the other CTA arrives at its barriers.
ValueId Emitter::NextSlot(const Ring& ring, bool producer, bool alone, bool pair) {
  const Type i32 = Type::Scalar(DType::kI32);
  const ValueId count = b_.Value(OpKind::kCounterRead, {ring.counter}, i32);
  ValueId slot, turn = count;
  if (ring.depth > 1) {
    const ValueId depth = b_.Int(ring.depth, DType::kI32);
    slot = b_.Binary(OpKind::kMod, count, depth);
    turn = b_.Binary(OpKind::kDiv, count, depth);
  }
  ValueId parity = b_.Binary(OpKind::kAnd, turn, b_.Int(1, DType::kI32));
  if (producer) parity = b_.Binary(OpKind::kXor, parity, b_.Int(1, DType::kI32));
  std::vector<ValueId> operands = {producer ? ring.empty : ring.full, parity};
  if (slot.valid()) operands.push_back(slot);
  // Where one thread issues what reads the slot, and commits release it, that thread alone waits:
  // the others could still be at this wait when the slot is filled again. Likewise where one thread
  // of several warps fills it: the others could still be here when it was read and released.
  const Attrs attrs = pair ? Attrs{{"cluster", int64_t{1}}} : Attrs{};
  if (alone)
    Elect([&](Builder& inner) { inner.Add(OpKind::kMbarWait, std::move(operands), {}, attrs); });
  else
    b_.Add(OpKind::kMbarWait, std::move(operands), {}, attrs);
  b_.Add(OpKind::kCounterAdd, {ring.counter}, {}, {{"by", int64_t{1}}});
  return slot;
}

// Producer: one filling of the ring, at the place of the channel's last load.
void Emitter::Produce(size_t channel, size_t site) {
  const PlannedRing& plan = p_.rings[channel];
  const std::vector<OpId>& loads = plan.sites[site].loads;
  const Ring& ring = rings_[channel];
  std::vector<std::vector<std::vector<ValueId>>> coords;
  if (ChunkOf(loads[0]) > 0) {
    const ValueId slot = NextSlot(channel, true);
    for (OpId load : loads) CopyByThreads(load, slot);
    std::vector<ValueId> full = {ring.full};
    if (slot.valid()) full.push_back(slot);
    b_.Add(OpKind::kCpArrive, std::move(full), {});
    return;
  }
  std::vector<OpId> copied, brought;
  for (OpId load : loads) (plan_.loads.at(load).threads ? brought : copied).push_back(load);
  for (OpId load : copied) coords.push_back(CoordsOf(load));
  std::vector<ValueId> held;
  for (size_t i = 0; i < HeldWhileAwaited(in_, brought).loads; ++i)
    held.push_back(Fetch(brought[i]));
  const ValueId slot = NextSlot(channel, true);
  if (!copied.empty()) Copy(channel, site, copied, coords, slot);
  if (brought.empty()) return;
  for (size_t i = 0; i < brought.size(); ++i)
    Bring(brought[i], i < held.size() ? held[i] : Fetch(brought[i]), slot);
  FenceAsync();
  Arrive(ring.full, slot);
}

// By one thread: the bytes that the phase expects, and the boxes that bring them.
void Emitter::Copy(size_t channel, size_t site, const std::vector<OpId>& loads,
                   const std::vector<std::vector<std::vector<ValueId>>>& coords, ValueId slot) {
  const PlannedRing& plan = p_.rings[channel];
  const int64_t filling = plan.BytesOf(plan.sites[site]);
  const Ring& ring = rings_[channel];
  Elect([&](Builder& inner) {
    std::vector<ValueId> expect = {ring.full};
    if (slot.valid()) expect.push_back(slot);
    const OpId bytes = inner.Add(OpKind::kMbarExpect, std::move(expect), {}, {{"bytes", filling}});
    if (OfPair(channel)) {
      out_.ops[bytes].set("bytes", filling * p_.cluster);
      out_.ops[bytes].set("leader", int64_t{1});
    }
    for (size_t i = 0; i < loads.size(); ++i) Boxes(loads[i], ring.full, slot, inner, coords[i]);
  });
}

// Producer, at its end: the arrival of a commit must find the CTA's shared memory still there. As
// many waits as there are slots: those for slots that were never filled pass at once.
void Emitter::AwaitCommits() {
  for (size_t i = 0; i < rings_.size(); ++i)
    if (p_.ReleasedByCommit(p_.rings[i]))
      for (int64_t slot = 0; slot < rings_[i].depth; ++slot) NextSlot(i, true);
}

// Consumer: before the first reader, which tells the site.
void Emitter::AwaitFull(size_t channel, OpId reader) {
  rings_[channel].slot = NextSlot(channel, false);
  const Span here = b_.span();
  for (const RingSite& site : p_.rings[channel].sites) {
    const auto mine = site.readers.find(role_);
    if (mine == site.readers.end() || mine->second.first != reader) continue;
    for (OpId load : site.loads)
      if (plan_.loads.at(load).registers) IntoRegisters(load);
  }
  b_.SetSpan(here);
}

// Consumer: after the last reader. A product in flight still reads the slot: its wait releases.
void Emitter::Release(size_t channel) {
  for (auto flight = flights_.rbegin(); flight != flights_.rend(); ++flight)
    if (std::count(flight->channels.begin(), flight->channels.end(), channel)) {
      flight->releases.push_back({channel, rings_[channel].slot, {}});
      return;
    }
  EmitRelease({channel, rings_[channel].slot, {}});
}

void Emitter::EmitRelease(const Due& due) {
  const auto& [channel, slot, when] = due;
  const Ring& ring = rings_[channel];
  if (p_.ReleasedByCommit(p_.rings[channel])) return CommitTo(ring.empty, slot);
  AwaitReadersOf(channel);
  // Ordinary reads must be ordered before TMA's next writes; before those of threads
  // the barrier does.
  if (p_.rings[channel].generic_reads) FenceAsync();
  Arrive(ring.empty, slot, p_.rings[channel].multicast ? Attrs{{"cluster", int64_t{1}}} : Attrs{},
         when);
}

// Each warp of the role, once its lanes have come here.
void Emitter::Arrive(ValueId mbar, ValueId slot, Attrs attrs, ValueId when) {
  std::vector<ValueId> operands = {mbar};
  if (slot.valid()) operands.push_back(slot);
  const auto arrive = [&](Builder& inner) {
    inner.Add(OpKind::kMbarArrive, std::move(operands), {}, std::move(attrs));
  };
  Elect(arrive, {{"scope", std::string("warp")}}, when);
}

ValueId Emitter::SlotOf(OpId load) const {
  const auto it = p_.site_of.find(load);
  return it == p_.site_of.end() ? ValueId() : rings_[it->second.first].slot;
}

namespace {

// Do two blocks do the same? `same` maps values of the one to values of the other.
bool Alike(const Function& fn, BlockId a, BlockId b, std::map<ValueId, ValueId>* same) {
  const std::vector<OpId>&x = fn.blocks[a].ops, &y = fn.blocks[b].ops;
  const std::vector<ValueId>&from = fn.blocks[a].args, &to = fn.blocks[b].args;
  if (x.size() != y.size() || from.size() != to.size()) return false;
  for (size_t i = 0; i < from.size(); ++i) (*same)[from[i]] = to[i];
  for (size_t i = 0; i < x.size(); ++i) {
    const Op &p = fn.ops[x[i]], &q = fn.ops[y[i]];
    if (p.kind != q.kind || p.attrs != q.attrs || p.operands.size() != q.operands.size() ||
        p.results.size() != q.results.size() || p.regions.size() != q.regions.size())
      return false;
    for (size_t k = 0; k < p.operands.size(); ++k) {
      const auto it = same->find(p.operands[k]);
      if ((it == same->end() ? p.operands[k] : it->second) != q.operands[k]) return false;
    }
    for (size_t k = 0; k < p.results.size(); ++k) {
      if (fn.type(p.results[k]) != fn.type(q.results[k])) return false;
      (*same)[p.results[k]] = q.results[k];
    }
    for (size_t k = 0; k < p.regions.size(); ++k)
      if (!Alike(fn, p.regions[k], q.regions[k], same)) return false;
  }
  return true;
}

}  // namespace

// Versions of an iteration differ in what they compute, not in what they load: then the producer
// need not ask which one it is.
void Emitter::DropEqualArms(OpId branch, const std::vector<ValueId>& results) {
  const std::vector<BlockId> arms = out_.ops[branch].regions;
  std::map<ValueId, ValueId> same;
  if (arms.size() != 2 || !Alike(out_, arms[0], arms[1], &same)) return;
  std::vector<OpId>& here = out_.blocks[b_.block()].ops;
  CHECK(here.back() == branch, "a branch is not the last op of its block");
  here.pop_back();
  for (OpId id : out_.blocks[arms[0]].ops) {
    if (out_.ops[id].kind == OpKind::kYield) {
      for (size_t k = 0; k < results.size(); ++k) Bind(results[k], out_.ops[id].operands[k]);
      continue;
    }
    out_.ops[id].block = b_.block();
    out_.blocks[b_.block()].ops.push_back(id);
  }
}

Result<> Emitter::ProducerWhile(const Op& op) {
  std::vector<ValueId> operands;
  std::vector<Type> types;
  std::vector<size_t> kept;
  for (size_t i = 0; i < op.results.size(); ++i) {
    if (!ProducerWants(op.results[i])) continue;
    kept.push_back(i);
    operands.push_back(Scalar(op.operands[i]));
    types.push_back(WarpType(op.results[i]));
  }
  const OpId loop = b_.Add(OpKind::kWhile, std::move(operands), types, op.attrs);
  for (BlockId region : op.regions) {
    const BlockId body = out_.AddBlock(loop);
    out_.ops[loop].regions.push_back(body);
    for (size_t k = 0; k < kept.size(); ++k)
      Bind(in_.blocks[region].args[kept[k]], out_.AddArg(body, types[k]));
    TRY_VOID(Region(region, body));
  }
  for (size_t k = 0; k < kept.size(); ++k) Bind(op.results[kept[k]], out_.ops[loop].results[k]);
  return Done();
}

// The share that a serving role has of one op: of the producer its loads, the structure around
// them, and the scalars both need.
Result<> Emitter::ProducerOp(OpId id) {
  const Op& op = in_.ops[id];
  if (auto it = p_.site_of.find(id); it != p_.site_of.end()) {
    const auto [channel, site] = it->second;
    if (part_ == Part::kProducer && p_.rings[channel].sites[site].loads.back() == id)
      Produce(channel, site);
    return Done();
  }
  switch (op.kind) {
    case OpKind::kParallel: return Parallel_(op);
    case OpKind::kFor: {
      if (!Walks(id)) return Done();
      std::vector<ValueId> operands = {Scalar(op.operands[0]), Scalar(op.operands[1])};
      std::vector<Type> types;
      std::vector<size_t> kept;
      for (size_t i = 0; i < op.results.size(); ++i) {
        if (!ProducerWants(op.results[i])) continue;
        kept.push_back(i);
        operands.push_back(Scalar(op.operands[2 + i]));
        types.push_back(WarpType(op.results[i]));
      }
      const std::vector<size_t> sums = SumsCarriedBy(id);
      for (size_t sum : sums) {
        operands.push_back(sums_[sum].adds);
        types.push_back(Type::Scalar(DType::kBool));
      }
      const OpId loop = b_.Add(OpKind::kFor, std::move(operands), types, op.attrs);
      const BlockId body = out_.AddBlock(loop);
      out_.ops[loop].regions.push_back(body);
      const Block& from = in_.blocks[op.regions[0]];
      Bind(from.args[0], out_.AddArg(body, Type::Scalar(DType::kI64)));
      for (size_t k = 0; k < kept.size(); ++k)
        Bind(from.args[1 + kept[k]], out_.AddArg(body, types[k]));
      for (size_t k = 0; k < sums.size(); ++k)
        sums_[sums[k]].adds = out_.AddArg(body, types[kept.size() + k]);
      TRY_VOID(Region(op.regions[0], body));
      for (size_t k = 0; k < kept.size(); ++k) Bind(op.results[kept[k]], out_.ops[loop].results[k]);
      for (size_t k = 0; k < sums.size(); ++k)
        sums_[sums[k]].adds = out_.ops[loop].results[kept.size() + k];
      return Done();
    }
    case OpKind::kIf: {
      if (!Walks(id)) return Done();
      std::vector<Type> types;
      std::vector<ValueId> results;
      for (ValueId r : op.results)
        if (ProducerWants(r)) types.push_back(WarpType(r)), results.push_back(r);
      const OpId branch = b_.Add(OpKind::kIf, {Scalar(op.operands[0])}, types, op.attrs);
      for (BlockId region : op.regions) {
        const BlockId body = out_.AddBlock(branch);
        out_.ops[branch].regions.push_back(body);
        TRY_VOID(Region(region, body));
      }
      for (size_t k = 0; k < results.size(); ++k) Bind(results[k], out_.ops[branch].results[k]);
      DropEqualArms(branch, results);
      return Done();
    }
    case OpKind::kWhile: return Walks(id) ? ProducerWhile(op) : Done();
    case OpKind::kYield: {
      const OpId parent = in_.blocks[op.block].parent;
      if (!parent.valid() || in_.ops[parent].kind == OpKind::kParallel) return Done();
      std::vector<ValueId> values;
      const Op& around = in_.ops[parent];
      // The condition of a `while` stands in front of what it carries.
      const bool asks = around.kind == OpKind::kWhile && around.regions[0] == op.block;
      if (asks) values.push_back(Scalar(op.operands[0]));
      for (size_t i = 0; i < around.results.size(); ++i)
        if (ProducerWants(around.results[i]))
          values.push_back(Scalar(op.operands[i + (asks ? 1 : 0)]));
      for (size_t sum : SumsCarriedBy(parent)) values.push_back(sums_[sum].adds);
      b_.Yield(std::move(values));
      return Done();
    }
    default: break;
  }
  if (const auto handed = handed_.find(id); part_ == Part::kProducer && handed != handed_.end())
    return TakeHanded(op, handed->second), Done();
  if (op.results.size() != 1 || !ProducerWants(op.results[0])) return Done();
  return Squeezed(in_.type(op.results[0]).shape).empty() ? Op_(id) : Positions_(id);
}

}  // namespace tilec::ir
