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
#include "ir/lower/scalars.h"

namespace tilec::ir {

// Barriers of every channel; channels outside of loops, or around the loops of others, need one
// slot.
void Emitter::PlanRings() {
  const std::vector<ChannelPlan>& channels = channels_->channels;
  for (size_t i = 0; i < channels.size(); ++i) {
    Ring ring;
    ring.depth = channels[i].in_loop && !channels[i].around ? depth_ : 1;
    ring.consumers = static_cast<int>(channels[i].sites[0].readers.size());
    for (const ChannelSite& site : channels[i].sites)
      for (OpId load : site.loads)
        if (CanShare(load)) shared_.insert(load), ring.cluster = true;
    if (ring.cluster) out_.launch.cluster = cluster_;
    ring.full = b_.Value(OpKind::kMbarAlloc, {}, Type::Mbar(ring.depth), {{"offset", int64_t{0}}});
    ring.empty = b_.Value(OpKind::kMbarAlloc, {}, Type::Mbar(ring.depth), {{"offset", int64_t{0}}});
    rings_.push_back(ring);
    // What is filled once need not be given back early.
    const bool early = channels[i].in_loop && !channels[i].generic_reads;
    for (size_t k = 0; k < channels[i].sites.size(); ++k) {
      const ChannelSite& site = channels[i].sites[k];
      for (const auto& [role, readers] : site.readers) {
        awaits_[{role, readers.first}].push_back(i);
        PlanRelease(i, role, readers.last, early ? &site.reads : nullptr);
      }
      for (OpId load : site.loads) {
        channel_of_[load] = i;
        site_of_[load] = {i, k};
        // Every slot starts a swizzle pattern: spare rows bring it to a multiple of 1024 bytes.
        SmemLayout& smem = plan_.loads[load].smem;
        const DType dtype = in_.type(in_.ops[load].results[0]).dtype;
        while (ring.depth > 1 && smem.swizzle_bytes && SmemBytes(smem, dtype) % 1024 != 0)
          smem.rows += 8;
      }
    }
  }
}

// Behind the last reader; where that is a branch, in each of its arms as early as that one can.
void Emitter::PlanRelease(size_t channel, int role, OpId last, const std::set<OpId>* reads) {
  const Op& op = in_.ops[last];
  if (!reads || op.kind != OpKind::kIf || reads->count(last) || IsPlainBranch(op)) {
    releases_[{role, last}].push_back(channel);
    return;
  }
  for (BlockId arm : op.regions) {
    OpId reader;
    for (OpId id : in_.blocks[arm].ops)
      if (std::any_of(reads->begin(), reads->end(), [&](OpId r) { return Contains(id, r); }))
        reader = id;
    if (reader.valid())
      PlanRelease(channel, role, reader, reads);
    else
      arm_releases_[{role, arm}].push_back(channel);
  }
}

bool Emitter::Contains(OpId outer, OpId inner) const {
  while (inner.valid() && inner != outer) inner = in_.blocks[in_.ops[inner].block].parent;
  return inner.valid();
}

// One barrier per order token; its ends are the roles of the ops that carry the marks.
void Emitter::PlanTokens() {
  for (OpId id : OpsInOrder(in_)) {
    const Op& op = in_.ops[id];
    if (op.kind == OpKind::kFor || PutsTile(op) || TakesTile(op)) continue;
    const int role = static_cast<int>(op.i("role"));
    if (op.attr("signal"))
      for (int64_t token : op.ints("signal")) tokens_[token].from = role;
    if (op.attr("await"))
      for (int64_t token : op.ints("await")) tokens_[token].to = role;
  }
  for (auto& [id, token] : tokens_)
    token.mbar =
        b_.Value(OpKind::kMbarAlloc, {}, Type::Mbar(kTokenDepth), {{"offset", int64_t{0}}});
}

ValueId Emitter::TokenSlot(const Token& token) {
  const Type i32 = Type::Scalar(DType::kI32);
  const ValueId count = b_.Value(OpKind::kCounterRead, {token.counter}, i32);
  return b_.Binary(OpKind::kMod, count, b_.Int(kTokenDepth, DType::kI32));
}

// Each warp of the role passes the token on once it has come here.
void Emitter::Signal(const Op& op) {
  if (!op.attr("signal") || PutsTile(op)) return;
  for (int64_t id : op.ints("signal")) {
    const Token& token = tokens_.at(id);
    if (token.from != role_) continue;
    const ValueId slot = TokenSlot(token);
    Arrive(token.mbar, slot);
    b_.Add(OpKind::kCounterAdd, {token.counter}, {}, {{"by", int64_t{1}}});
  }
}

void Emitter::Await(const Op& op) {
  if (!op.attr("await") || TakesTile(op)) return;
  for (int64_t id : op.ints("await")) {
    const Token& token = tokens_.at(id);
    if (token.to != role_) continue;
    const ValueId count =
        b_.Value(OpKind::kCounterRead, {token.counter}, Type::Scalar(DType::kI32));
    const ValueId turn = b_.Binary(OpKind::kDiv, count, b_.Int(kTokenDepth, DType::kI32));
    const ValueId parity = b_.Binary(OpKind::kAnd, turn, b_.Int(1, DType::kI32));
    b_.Add(OpKind::kMbarWait, {token.mbar, parity, TokenSlot(token)}, {});
    b_.Add(OpKind::kCounterAdd, {token.counter}, {}, {{"by", int64_t{1}}});
  }
}

int Emitter::OwnerOf(OpId id) const {
  if (!specialized()) return 0;
  int owner = -1;
  for (int role = 0; role < roles_; ++role) {
    if (needs_[static_cast<size_t>(role)].ops.count(id) == 0) continue;
    if (owner >= 0) return -1;
    owner = role;
  }
  return owner;
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
  for (size_t i = 0; i < rings_.size(); ++i)
    if (part_ == Part::kProducer || channels_->channels[i].sites[0].readers.count(role_))
      rings_[i].counter = counter();
  for (OperandRing& ring : operand_rings_)
    if (part_ == Part::kCompute && ring.depth > 1 && Mine(ring.operands[0].first))
      ring.counter = counter();
  for (auto& [id, token] : tokens_)
    if (part_ == Part::kCompute && (token.to == role_ || token.from == role_))
      token.counter = counter();
  for (auto& [id, pass] : passes_)
    if (part_ == Part::kCompute && (pass.to == role_ || pass.from == role_))
      pass.ring.counter = counter();
}

// Reads the channel's counter, waits for the slot to be ready for this side, and returns the slot
// (invalid for one-slot rings).
ValueId Emitter::NextSlot(size_t channel, bool producer) {
  return NextSlot(rings_[channel], producer);
}
ValueId Emitter::NextSlot(const Ring& ring, bool producer) {
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
  b_.Add(OpKind::kMbarWait, std::move(operands), {});
  b_.Add(OpKind::kCounterAdd, {ring.counter}, {}, {{"by", int64_t{1}}});
  return slot;
}

// Producer: one filling of the ring, at the place of the channel's last load.
void Emitter::Produce(size_t channel, size_t site) {
  const ChannelPlan& plan = channels_->channels[channel];
  const std::vector<OpId>& loads = plan.sites[site].loads;
  const Ring& ring = rings_[channel];
  std::vector<std::vector<std::vector<ValueId>>> coords;
  for (OpId load : loads) coords.push_back(CoordsOf(load));
  const ValueId slot = NextSlot(channel, true);
  Elect([&](Builder& inner) {
    std::vector<ValueId> expect = {ring.full};
    if (slot.valid()) expect.push_back(slot);
    inner.Add(OpKind::kMbarExpect, std::move(expect), {}, {{"bytes", plan.bytes}});
    for (size_t i = 0; i < loads.size(); ++i) Boxes(loads[i], ring.full, slot, inner, coords[i]);
  });
}

// Consumer: before the first reader, which tells the site.
void Emitter::AwaitFull(size_t channel, OpId reader) {
  rings_[channel].slot = NextSlot(channel, false);
  const Span here = b_.span();
  for (const ChannelSite& site : channels_->channels[channel].sites) {
    const auto mine = site.readers.find(role_);
    if (mine == site.readers.end() || mine->second.first != reader) continue;
    for (OpId load : site.loads)
      if (plan_.loads[load].registers) IntoRegisters(load);
  }
  b_.SetSpan(here);
}

// Consumer: after the last reader. A product under way still reads the slot: its wait releases.
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
  // Ordinary reads must be ordered before the copy engine's next writes.
  if (channels_->channels[channel].generic_reads) b_.Add(OpKind::kFenceAsync, {}, {});
  Arrive(ring.empty, slot, ring.cluster ? Attrs{{"cluster", int64_t{1}}} : Attrs{}, when);
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
  const auto it = channel_of_.find(load);
  return it == channel_of_.end() ? ValueId() : rings_[it->second].slot;
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

// Versions of a turn differ in what they compute, not in what they load: then the producer need
// not ask which one it is.
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

// The producer's share of one op: its loads, the structure around them, and the scalars both need.
Result<> Emitter::ProducerOp(OpId id) {
  const Op& op = in_.ops[id];
  if (auto it = site_of_.find(id); it != site_of_.end()) {
    const auto [channel, site] = it->second;
    if (channels_->channels[channel].sites[site].loads.back() == id) Produce(channel, site);
    return Done();
  }
  switch (op.kind) {
    case OpKind::kParallel: return Parallel_(op);
    case OpKind::kFor: {
      if (!channels_->structure.count(id)) return Done();
      std::vector<ValueId> operands = {Scalar(op.operands[0]), Scalar(op.operands[1])};
      std::vector<Type> types;
      std::vector<size_t> kept;
      for (size_t i = 0; i < op.results.size(); ++i) {
        if (!ProducerWants(op.results[i])) continue;
        kept.push_back(i);
        operands.push_back(Scalar(op.operands[2 + i]));
        types.push_back(WarpType(op.results[i]));
      }
      const OpId loop = b_.Add(OpKind::kFor, std::move(operands), types, op.attrs);
      const BlockId body = out_.AddBlock(loop);
      out_.ops[loop].regions.push_back(body);
      const Block& from = in_.blocks[op.regions[0]];
      Bind(from.args[0], out_.AddArg(body, Type::Scalar(DType::kI64)));
      for (size_t k = 0; k < kept.size(); ++k)
        Bind(from.args[1 + kept[k]], out_.AddArg(body, types[k]));
      TRY_VOID(Region(op.regions[0], body));
      for (size_t k = 0; k < kept.size(); ++k) Bind(op.results[kept[k]], out_.ops[loop].results[k]);
      return Done();
    }
    case OpKind::kIf: {
      if (!channels_->structure.count(id)) return Done();
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
    case OpKind::kYield: {
      const OpId parent = in_.blocks[op.block].parent;
      if (!parent.valid() || in_.ops[parent].kind == OpKind::kParallel) return Done();
      std::vector<ValueId> values;
      const std::vector<ValueId>& results = in_.ops[parent].results;
      for (size_t i = 0; i < results.size(); ++i)
        if (ProducerWants(results[i])) values.push_back(Scalar(op.operands[i]));
      b_.Yield(std::move(values));
      return Done();
    }
    default: break;
  }
  if (op.results.size() == 1 && ProducerWants(op.results[0])) return Op_(id);
  return Done();
}

}  // namespace tilec::ir
