// Products that stay under way from one turn of a loop to the next.
//
//     for k { acc = acc + a(k) · b(k) }
// asks for nothing between two products: the tensor core adds them up in order. Awaiting each one
// in its own turn leaves the tensor core idle from the end of one product until the next is issued,
// unless another warpgroup has work for it. So the accumulator is carried while a product still
// works on it, and a turn awaits the product of the turn before, once its own is issued. The slots
// that one has read are given back then, a turn late; the first turn has none to give.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iterator>

#include "ir/lower/emitter.h"
#include "ir/lower/operands.h"
#include "ir/queries.h"

namespace tilec::ir {

namespace {

// A slot for the product that works, one for the next, one that is being filled.
constexpr int64_t kChainDepth = 3;

}  // namespace

// Does the product add to what the one in front of it makes, which nobody else looks at, with
// nothing between their accumulators?
bool Emitter::GoesOn(OpId dot) const {
  const Op& op = in_.ops[dot];
  const Op* first = in_.def(op.operands[2]);
  if (!first || first->kind != OpKind::kDot || first->block != op.block) return false;
  const OpId before = in_.values[op.operands[2]].def;
  if (uses_.count(op.operands[2]) != 1 || (specialized() && Mine(dot) != Mine(before)))
    return false;
  const DotPlan &a = plan_.dots.at(before), &b = plan_.dots.at(dot);
  const auto layout = plan_.layouts.find(op.operands[2]);
  return a.tensor_core && b.tensor_core && a.promote == 0 && b.promote == 0 && a.acc == b.acc &&
         layout != plan_.layouts.end() && layout->second == a.acc;
}

// The products that add up what the loop carries, if they may all be under way at once.
std::vector<OpId> Emitter::ChainedProducts(const Op& loop, size_t carried) const {
  const std::vector<OpId> dots = AddedUp(in_, uses_, loop, carried);
  if (dots.empty() || !std::all_of(dots.begin() + 1, dots.end(), [&](OpId d) { return GoesOn(d); }))
    return {};
  const DotPlan& plan = plan_.dots.at(dots[0]);
  if (!plan.tensor_core || plan.promote != 0) return {};
  // Nothing may lie between the instruction's accumulator and the carried value.
  const ValueId arg = in_.ops[dots[0]].operands[2], next = in_.ops[dots.back()].results[0];
  for (ValueId v : {arg, next, loop.results[carried]}) {
    const auto layout = plan_.layouts.find(v);
    if (layout == plan_.layouts.end() || layout->second != plan.acc) return {};
  }
  for (OpId id : dots)
    for (const OperandPlan* o : {&plan_.dots.at(id).a, &plan_.dots.at(id).b})
      if (o->how == OperandPlan::How::kRegister) return {};
  return dots;
}

// Where operands that threads compute are put. Where the products of a loop may stay under way,
// they have several places: the next turn's are written while the tensor core reads this turn's.
//
// With n products a turn, n + 2 places need no barrier but the one between what is written and its
// product. Each thread awaits, at the end of a turn, all products but the turn's last. So at the
// barrier of the product before this one (the only one in a turn of the turn before) all threads
// have awaited all products up to n + 2 back.
void Emitter::PlanOperandRings() {
  const auto add = [&](OpId dot, bool is_a, size_t ring) {
    operand_rings_[ring].operands.push_back({dot, is_a});
    operand_ring_of_[{dot, is_a}] = ring;
  };
  const auto stored = [&](OpId dot, bool is_a) -> OperandPlan* {
    DotPlan& plan = plan_.dots.at(dot);
    OperandPlan& operand = is_a ? plan.a : plan.b;
    return operand.how == OperandPlan::How::kStore ? &operand : nullptr;
  };
  const std::vector<OpId> ops = OpsInOrder(in_);
  for (OpId id : ops) {
    const Op& loop = in_.ops[id];
    if (loop.kind != OpKind::kFor || !specialized() || depth_ < kChainDepth) continue;
    for (size_t i = 0; i < loop.results.size(); ++i) {
      const size_t first = operand_rings_.size();
      for (OpId dot : ChainedProducts(loop, i))
        for (bool is_a : {true, false}) {
          OperandPlan* operand = stored(dot, is_a);
          if (!operand) continue;
          // Every slot starts a swizzle pattern: spare rows bring it to a multiple of 1024 bytes.
          const Type& type = in_.type(operand->source);
          while (operand->smem.swizzle_bytes && SmemBytes(operand->smem, type.dtype) % 1024 != 0)
            operand->smem.rows += 8;
          size_t ring = first;
          for (; ring < operand_rings_.size(); ++ring) {
            const auto [other, left] = operand_rings_[ring].operands[0];
            const OperandPlan& like = *stored(other, left);
            const bool same = in_.type(like.source) == type && like.smem == operand->smem &&
                              like.store_transposed == operand->store_transposed &&
                              like.zero_padding == operand->zero_padding;
            if (same && operand_rings_[ring].operands.back().first != dot) break;
          }
          if (ring == operand_rings_.size()) operand_rings_.emplace_back();
          add(dot, is_a, ring);
        }
      for (size_t ring = first; ring < operand_rings_.size(); ++ring)
        operand_rings_[ring].depth = static_cast<int64_t>(operand_rings_[ring].operands.size()) + 2;
    }
  }
  for (const auto& [dot, plan] : plan_.dots)
    for (bool is_a : {true, false})
      if (stored(dot, is_a) && !operand_ring_of_.count({dot, is_a})) {
        operand_rings_.emplace_back();
        add(dot, is_a, operand_rings_.size() - 1);
      }
}

std::optional<Emitter::Chain> Emitter::ChainAt(const Op& loop, size_t carried) const {
  const std::vector<OpId> dots = ChainedProducts(loop, carried);
  if (dots.empty()) return {};
  const Op* initial = in_.def(loop.operands[2 + carried]);
  const bool zero = initial && initial->kind == OpKind::kConstant && initial->number("value") == 0;
  Chain chain{carried, dots.back(), zero, {}};
  for (OpId dot : dots)
    if (!Mine(dot) || OneSlot(dot)) return {};
  chain.channels = GivenBackBy(chain.dot);
  for (size_t channel : chain.channels)
    if (rings_[channel].depth < kChainDepth || !TakesLast(chain.dot, channel)) return {};
  return chain;
}

// Is what the product reads the last that the role takes from the channel in a turn? The slot that
// is given back a turn late is that of the last transfer before it.
bool Emitter::TakesLast(OpId dot, size_t channel) const {
  const BlockId body = in_.ops[dot].block;
  const std::vector<OpId>& ops = in_.blocks[body].ops;
  const auto place = [&](OpId id) { return std::find(ops.begin(), ops.end(), id) - ops.begin(); };
  std::ptrdiff_t last = -1;
  bool mine = false;
  for (const ChannelSite& site : channels_->channels[channel].sites) {
    int inside = 0;  // blocks from the load's outwards to the body, 0: it is not inside
    int depth = 0;
    for (BlockId at = in_.ops[site.loads[0]].block; at.valid();) {
      ++depth;
      if (at == body) inside = depth;
      const OpId parent = in_.blocks[at].parent;
      if (!parent.valid()) break;
      at = in_.ops[parent].block;
    }
    if (inside == 0) continue;
    if (inside > 1) return false;  // taken in one branch, or many times
    const auto taken = site.readers.find(role_);
    if (taken == site.readers.end()) return false;
    if (place(taken->second.first) < last) continue;
    last = place(taken->second.first);
    mine = site.reads.count(dot) > 0;
  }
  return mine;
}

// What Release leaves to the wait for this product: what it reads last, or reads while a later op
// of the turn that is no product reads it last.
std::vector<size_t> Emitter::GivenBackBy(OpId dot) const {
  std::vector<size_t> reads = ReadBy(dot), out;
  const std::vector<OpId>& ops = in_.blocks[in_.ops[dot].block].ops;
  for (auto op = std::find(ops.begin(), ops.end(), dot); op != ops.end(); ++op) {
    if (*op != dot && in_.ops[*op].kind == OpKind::kDot && Mine(*op))
      for (size_t channel : ReadBy(*op)) std::erase(reads, channel);
    const auto due = releases_.find({role_, *op});
    if (due == releases_.end()) continue;
    for (size_t channel : due->second)
      if (std::count(reads.begin(), reads.end(), channel)) out.push_back(channel);
  }
  return out;
}

// The channels whose slots the instructions of a product read.
std::vector<size_t> Emitter::ReadBy(OpId dot) const {
  std::vector<size_t> out;
  const DotPlan& plan = plan_.dots.at(dot);
  for (const OperandPlan* o : {&plan.a, &plan.b}) {
    if (o->how != OperandPlan::How::kBuffer) continue;
    if (auto c = channel_of_.find(in_.values[o->source].def); c != channel_of_.end())
      out.push_back(c->second);
  }
  return out;
}

// Threads fill the buffer of a load, which products may still read: those before it are awaited.
bool Emitter::FillsByThreads(OpId load) const {
  const auto plan = plan_.loads.find(load);
  return plan != plan_.loads.end() && plan->second.buffer && !plan->second.tma;
}

// Groups end in order: a product that is awaited in its turn ends those before it.
std::vector<Emitter::Chain> Emitter::ChainsOf(const Op& loop) const {
  std::vector<Chain> chains;
  if (part_ != Part::kCompute || plain_branch_) return chains;
  std::vector<Chain> found;
  for (size_t i = 0; i < loop.results.size(); ++i)
    if (std::optional<Chain> chain = ChainAt(loop, i)) found.push_back(std::move(*chain));
  const std::vector<OpId>& ops = in_.blocks[loop.regions[0]].ops;
  for (auto op = ops.rbegin(); op != ops.rend(); ++op) {
    if (!Mine(*op)) continue;
    const auto chain =
        std::find_if(found.begin(), found.end(), [&](const Chain& c) { return c.dot == *op; });
    if (chain != found.end())
      chains.insert(chains.begin(), *chain);
    else if (in_.ops[*op].kind == OpKind::kDot || !in_.ops[*op].regions.empty() ||
             Info(in_.ops[*op].kind).effect == OpEffect::kWrite || FillsByThreads(*op))
      break;
  }
  return chains;
}

const Emitter::Flight* Emitter::Flying(ValueId v) const {
  for (const Flight& f : flights_)
    if (f.lands == v) return &f;
  return nullptr;
}

// Products of the turn before are under way; `when` says whether there was one.
void Emitter::FlyOn(const std::vector<Chain>& chains, const std::vector<ValueId>& lands,
                    ValueId when) {
  for (size_t i = 0; i < chains.size(); ++i) {
    Flight flight{chains[i].dot, lands[i], map_.at(lands[i]), {}, {}, {}};
    for (size_t channel : chains[i].channels) {
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

// What is not left to its place behind the loop, but done in front of the wait for the last
// products.
Emitter::Again Emitter::InFrontOfWait(const Op& loop) const {
  Again again;
  const OpId around = in_.blocks[loop.block].parent;
  if (!around.valid() || in_.ops[around].kind != OpKind::kFor) return again;
  again.position = in_.blocks[loop.block].args[0];
  FindScalarsBehind(loop, again);
  again.loads = LoadsBehind(loop);
  return again;
}

// What stands in a block in front of this op of it, and what from it on.
Emitter::Halves Emitter::Cut(const Op& at) const {
  const std::vector<OpId>& ops = in_.blocks[at.block].ops;
  const auto middle =
      std::find_if(ops.begin(), ops.end(), [&](OpId id) { return &in_.ops[id] == &at; });
  return {{ops.begin(), middle}, {middle, ops.end()}};
}

// Scalars of a turn of the loop around this one that are read behind it only, and that take a
// division to make: the place of a tile in its tensor. LLVM makes them where they are read, while
// the tensor core has nothing to do; made again in front of the wait for the last products they
// cost nothing.
void Emitter::FindScalarsBehind(const Op& loop, Again& again) const {
  const Halves halves = Cut(loop);
  std::set<OpId> wanted;
  for (auto op = halves.front.rbegin(); op != halves.front.rend(); ++op) {
    const Op& maker = in_.ops[*op];
    if (maker.results.size() != 1 || !Info(maker.kind).elementwise()) continue;
    const ValueId v = maker.results[0];
    const DType dtype = in_.type(v).dtype;
    if (!in_.type(v).is_scalar() || !IsInteger(dtype) || ByteSize(dtype) < 4) continue;
    bool behind = false, inside = false, leads = false;
    for (const auto& [reader, operand] : uses_.of(v)) {
      if (!Mine(reader) || channel_of_.count(reader)) continue;  // the other role's
      const OpId where = AncestorIn(in_, loop.block, reader);
      const auto found = std::find(halves.back.begin(), halves.back.end(), where);
      inside = inside || found == halves.back.begin();
      behind = behind || (found != halves.back.begin() && found != halves.back.end());
      leads = leads || wanted.count(reader) > 0;
    }
    if (behind && !inside) again.read.push_back(v);
    if ((behind && !inside) || leads) wanted.insert(*op);
  }
  const auto divides = [&](OpId id) {
    const OpKind kind = in_.ops[id].kind;
    return kind == OpKind::kDiv || kind == OpKind::kMod;
  };
  if (std::none_of(wanted.begin(), wanted.end(), divides)) {
    again.read.clear();
    return;
  }
  std::copy_if(halves.front.begin(), halves.front.end(), std::back_inserter(again.ops),
               [&](OpId id) { return wanted.count(id) > 0; });
}

// Loads behind the loop that need nothing of what is made there.
std::vector<OpId> Emitter::LoadsBehind(const Op& loop) const {
  const Halves halves = Cut(loop);
  const auto known = [&](ValueId v) {
    return !std::count(halves.back.begin(), halves.back.end(), in_.values[v].def);
  };
  std::vector<OpId> loads;
  std::copy_if(halves.back.begin(), halves.back.end(), std::back_inserter(loads), [&](OpId id) {
    const std::vector<ValueId>& operands = in_.ops[id].operands;
    return ComesEarly(id) && std::all_of(operands.begin(), operands.end(), known);
  });
  return loads;
}

// A load behind a loop, by threads, of what nobody writes: its few registers may be on their way
// while the last products are.
bool Emitter::ComesEarly(OpId id) const {
  constexpr int64_t kMostRegisters = 32;
  const Op& op = in_.ops[id];
  const auto plan = plan_.loads.find(id);
  if (!options_.early_loads || plan == plan_.loads.end() || !Mine(id) || deferred_.count(id))
    return false;
  const LoadPlan& load = plan->second;
  const auto layout = plan_.layouts.find(op.results[0]);
  return load.registers && !load.buffer && !load.shares.valid() && IsReadOnlyLoad(in_, op) &&
         layout != plan_.layouts.end() &&
         layout->second.regs() * ByteSize(in_.type(op.results[0]).dtype) <= 4 * kMostRegisters;
}

// Anew, from the position of the turn: it is pinned behind what was emitted so far.
Result<std::vector<ValueId>> Emitter::MadeAgain(const Again& again) {
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

Result<std::vector<ValueId>> Emitter::LoadedEarly(const Again& again) {
  std::vector<ValueId> loaded;
  for (OpId id : again.loads) {
    b_.SetSpan(in_.ops[id].at);
    TRY_VOID(Load_(id));
    loaded.push_back(map_.at(in_.ops[id].results[0]));
  }
  return loaded;
}

// The last products are awaited where there was a turn at all: where there was none, other
// instructions set the accumulators, and with a wait on both ways ptxas serializes (C7515).
Result<> Emitter::ChainedTurns(const Op& op, const std::vector<size_t>& kept,
                               std::vector<ValueId> operands, std::vector<Type> types,
                               const std::vector<Chain>& chains) {
  const Again again = InFrontOfWait(op);
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
  for (const Chain& chain : chains) flying.push_back(op.results[chain.carried]);
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

// How many of the youngest products the turn that ends here hands to the next.
size_t Emitter::FlyingPast(OpId loop) const {
  const auto chains = chains_.find(loop);
  if (chains == chains_.end()) return 0;
  size_t flying = 0;
  for (const Flight& f : flights_) {
    const bool chained = std::any_of(chains->second.begin(), chains->second.end(),
                                     [&](const Chain& c) { return c.dot == f.dot; });
    flying = chained && f.lands == in_.ops[f.dot].results[0] ? flying + 1 : 0;
  }
  return flying;
}

// The accumulator of a product that goes on where its predecessor, still under way, will end.
// `adds`: whether there is one, if that is not sure; without one the product makes what it would
// add.
ValueId Emitter::GoOn(OpId dot, ValueId acc, ValueId* adds) {
  for (Flight& f : flights_)
    if (f.lands == acc && (in_.values[acc].block.valid() || GoesOn(dot))) {
      const ValueId value = f.acc;
      *adds = f.adds;
      f.acc = f.lands = {};
      return value;
    }
  return {};
}

// What a turn hands to the next beside its values: whether products are under way.
void Emitter::YieldChains(OpId loop, std::vector<ValueId>& values) {
  const auto chains = chains_.find(loop);
  if (chains == chains_.end() || chains->second.empty()) return;
  CHECK(flights_.size() == chains->second.size(), "a chain was awaited in its turn");
  for (size_t i = 0; i < flights_.size(); ++i) {
    const std::vector<size_t>& later = chains->second[i].channels;
    for (const Due& due : flights_[i].releases)
      CHECK(std::count(later.begin(), later.end(), due.channel), "a slot is never given back");
  }
  values.push_back(b_.Constant(Type::Scalar(DType::kBool), 1));
  flights_.clear();
}

}  // namespace tilec::ir
