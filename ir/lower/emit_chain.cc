// Products that stay under way from one turn of a loop to the next.
//
//     for k { acc = acc + a(k) · b(k) }
// asks for nothing between two products: the tensor core adds them up in order. Awaiting each one in
// its own turn leaves the tensor core idle from the end of one product until the next is issued. So
// the accumulator is carried while a product still works on it, and a turn awaits the product of the
// turn before, once its own is issued. The slots that one has read are given back then, a turn late:
// their numbers are carried along, and the first turn has none to give.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ir/lower/emitter.h"

namespace tilec::ir {

namespace {

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
  if (const auto due = releases_.find({role_, chain.dot}); due != releases_.end())
    chain.channels = due->second;
  for (size_t channel : chain.channels)
    if (rings_[channel].depth < 2) return {};
  return chain;
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
    const auto chain = std::find_if(found.begin(), found.end(),
                                    [&](const Chain& c) { return c.dot == *op; });
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

// Products of the turn before are under way: at the head of a turn, or behind the loop.
void Emitter::FlyOn(const std::vector<Chain>& chains, const std::vector<ValueId>& lands,
                    const std::vector<ValueId>& slots) {
  size_t next = 0;
  for (size_t i = 0; i < chains.size(); ++i) {
    Flight flight{chains[i].dot, lands[i], map_.at(lands[i]), {}, {}, {}};
    for (size_t channel : chains[i].channels) {
      const ValueId slot = slots[next++];
      flight.releases.push_back(
          {channel, slot, b_.Cmp("ge", slot, b_.Int(kNoSlot + 1, DType::kI32))});
    }
    flights_.push_back(std::move(flight));
  }
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

// What a turn hands to the next beside its values: the slots its products under way still read.
void Emitter::YieldSlots(OpId loop, std::vector<ValueId>& values) {
  const auto chains = chains_.find(loop);
  if (chains == chains_.end()) return;
  for (const Chain& chain : chains->second) {
    const Flight* flight = Flying(in_.ops[chain.dot].results[0]);
    for (size_t channel : chain.channels) {
      ValueId slot;
      if (flight)
        for (const Due& due : flight->releases)
          if (due.channel == channel) slot = due.slot;
      values.push_back(slot.valid() ? slot : b_.Int(kNoSlot, DType::kI32));
    }
  }
  if (!chains->second.empty()) flights_.clear();
}

}  // namespace tilec::ir
