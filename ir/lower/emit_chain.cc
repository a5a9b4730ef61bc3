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

#include "ir/lower/emitter.h"

namespace tilec::ir {

namespace {

// A slot for the product that works, one for the next, one that is being filled.
constexpr int64_t kChainDepth = 3;

int64_t Uses(const Function& fn, ValueId v) {
  int64_t uses = 0;
  for (const Op& op : fn.ops) uses += std::count(op.operands.begin(), op.operands.end(), v);
  return uses;
}

}  // namespace

std::optional<Emitter::Chain> Emitter::ChainAt(const Op& loop, size_t carried) const {
  const BlockId body = loop.regions[0];
  const ValueId arg = in_.blocks[body].args[1 + carried];
  const ValueId next = in_.ops[in_.blocks[body].ops.back()].operands[carried];
  const Op* dot = in_.def(next);
  if (!dot || dot->kind != OpKind::kDot || dot->block != body || dot->operands[2] != arg) return {};
  if (Uses(in_, arg) != 1 || Uses(in_, next) != 1) return {};
  Chain chain{carried, in_.values[next].def, {}};
  const DotPlan& plan = plan_.dots.at(chain.dot);
  if (!Mine(chain.dot) || !plan.tensor_core || plan.promote != 0) return {};
  for (const OperandPlan* o : {&plan.a, &plan.b})
    if (o->how != OperandPlan::How::kBuffer) return {};
  // Nothing may lie between the instruction's accumulator and the carried value.
  for (ValueId v : {arg, next, loop.results[carried]}) {
    const auto layout = plan_.layouts.find(v);
    if (layout == plan_.layouts.end() || layout->second != plan.acc) return {};
  }
  chain.channels = GivenBackBy(chain.dot);
  // The slot in question is that of the last transfer before the turn.
  for (size_t channel : chain.channels) {
    int64_t transfers = 0;
    for (const ChannelSite& site : channels_->channels[channel].sites)
      for (BlockId at = in_.ops[site.loads[0]].block; at.valid();) {
        transfers += at == body;
        const OpId parent = in_.blocks[at].parent;
        if (!parent.valid()) break;
        at = in_.ops[parent].block;
      }
    if (rings_[channel].depth < kChainDepth || transfers != 1) return {};
  }
  return chain;
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
             Info(in_.ops[*op].kind).effect == OpEffect::kWrite)
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
    flights_.push_back(std::move(flight));
  }
}

// The last products are awaited where there was a turn at all: where there was none, other
// instructions set the accumulators, and with a wait on both ways ptxas serializes (C7515).
Result<> Emitter::ChainedTurns(const Op& op, const std::vector<size_t>& kept,
                               std::vector<ValueId> operands, std::vector<Type> types,
                               const std::vector<Chain>& chains) {
  const std::vector<Type> results = types;
  const std::vector<ValueId> initial(operands.begin() + 2, operands.end());
  const OpId branch = b_.Add(OpKind::kIf, {b_.Cmp("lt", operands[0], operands[1])}, results);
  const BlockId some = out_.AddBlock(branch), none = out_.AddBlock(branch);
  out_.ops[branch].regions = {some, none};
  const BlockId home = b_.block();
  b_.SetBlock(some);
  types.push_back(Type::Scalar(DType::kBool));
  operands.push_back(b_.Constant(types.back(), 0));
  TRY(const OpId loop, Turns(op, kept, std::move(operands), std::move(types), chains));
  const std::vector<ValueId> made = out_.ops[loop].results;
  for (size_t k = 0; k < kept.size(); ++k) Bind(op.results[kept[k]], made[k]);
  std::vector<ValueId> flying;
  for (const Chain& chain : chains) flying.push_back(op.results[chain.carried]);
  FlyOn(chains, flying, {});
  SettleAll();
  std::vector<ValueId> settled;
  for (size_t i : kept) settled.push_back(map_.at(op.results[i]));
  b_.Yield(std::move(settled));
  b_.SetBlock(none);
  b_.Yield(initial);
  b_.SetBlock(home);
  for (size_t k = 0; k < kept.size(); ++k) Bind(op.results[kept[k]], out_.ops[branch].results[k]);
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
ValueId Emitter::GoOn(OpId dot, ValueId acc) {
  for (Flight& f : flights_)
    if (f.dot == dot && f.lands == acc) {
      const ValueId value = f.acc;
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
