// Where the ops of a loop stand: at which op the iteration of a role begins, and by how many
// iterations each op is behind the first.
//
// SPDX-License-Identifier: Apache-2.0
#include "ir/loop_planner.h"

#include <algorithm>
#include <cstdlib>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "ir/arms.h"
#include "ir/lower/operands.h"
#include "ir/lower/waits.h"
#include "ir/queries.h"
#include "support/expr.h"

namespace tilec::ir {

// The placed ops v comes from, through ops without a place.
void LoopPlanner::Leaves(ValueId v, OpId reader, int64_t distance, std::vector<Read>* out) const {
  const BodyRef ref = Resolve(fn_, loop_, v);
  if (ref.kind != BodyRef::Kind::kDefined) return;
  const OpId def = fn_.values[ref.value].def;
  distance += static_cast<int64_t>(ref.args.size());
  if (times_.count(def)) {
    out->push_back({def, reader, distance});
    return;
  }
  for (ValueId operand : reads_.at(def)) Leaves(operand, reader, distance, out);
}

std::vector<LoopPlanner::Read> LoopPlanner::ReadsOf(int role) const {
  std::vector<Read> reads;
  for (const auto& [id, time] : times_)
    if (time.role == role)
      for (ValueId v : reads_.at(id)) Leaves(v, id, 0, &reads);
  return reads;
}

// The loads that a role reads, through ops without a place, and how many iterations back.
std::vector<LoopPlanner::Read> LoopPlanner::LoadsOf(int role) const {
  std::vector<Read> loads;
  for (const auto& [id, time] : times_)
    if (time.role == role)
      for (ValueId v : reads_.at(id)) LoadsBehind(v, id, 0, &loads);
  return loads;
}

void LoopPlanner::LoadsBehind(ValueId v, OpId reader, int64_t distance,
                              std::vector<Read>* out) const {
  const BodyRef ref = Resolve(fn_, loop_, v);
  if (ref.kind != BodyRef::Kind::kDefined) return;
  const OpId def = fn_.values[ref.value].def;
  distance += static_cast<int64_t>(ref.args.size());
  if (times_.count(def)) return;
  if (fn_.ops[def].kind == OpKind::kLoad) return out->push_back({def, reader, distance});
  for (ValueId operand : reads_.at(def)) LoadsBehind(operand, reader, distance, out);
}

// By how many iterations a role is ahead of the roles before it, by how many of the loads that
// they share: where there is more than one entry, some tile is loaded twice.
std::map<int64_t, int> LoopPlanner::Ahead(const std::vector<Read>& loads, int64_t cut,
                                          int least) const {
  std::map<int64_t, int> ahead;
  for (const Read& r : loads)
    if (const auto of = load_stages_.find(r.from); of != load_stages_.end())
      ++ahead[of->second - (StageAt(r.to, cut) - least - r.distance)];
  return ahead;
}

// The same for roles that are still to come, each at its best: how many offsets in all.
size_t LoopPlanner::AheadOfOthers(int role, const std::vector<Read>& loads, int64_t cut) const {
  std::map<int, std::set<int64_t>> cuts;
  for (const auto& [id, time] : times_)
    if (time.role > role) cuts[time.role].insert(SlotOf(time.cycle));
  std::map<OpId, int64_t> stages;
  for (const Read& r : loads) stages[r.from] = StageAt(r.to, cut) - r.distance;
  size_t sum = 0;
  for (const auto& [other, its] : cuts) {
    const std::vector<Read> theirs = LoadsOf(other);
    size_t least = SIZE_MAX;
    for (int64_t at : its) {
      std::set<int64_t> ahead;
      for (const Read& r : theirs)
        if (const auto of = stages.find(r.from); of != stages.end())
          ahead.insert(of->second - (StageAt(r.to, at) - r.distance));
      least = std::min(least, ahead.size());
    }
    sum += least;
  }
  return sum;
}

// The role begins as many iterations later as most of its loads ask for, or the others do.
void LoopPlanner::Align(const std::vector<Read>& loads, const std::map<int64_t, int>& ahead,
                        int role) {
  const auto most = std::max_element(
      ahead.begin(), ahead.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  const int64_t by = most == ahead.end() ? 0 : most->first;
  if (by < 0)
    for (auto& [load, stage] : load_stages_) stage -= by;
  for (auto& [id, place] : places_)
    if ((place.role == role) == (by > 0)) place.stage += static_cast<int>(std::abs(by));
  for (const Read& r : loads) load_stages_[r.from] = places_.at(r.to).stage - r.distance;
}

// Where this role's iteration begins.
void LoopPlanner::Rotate(int role) {
  const std::vector<Read> reads = ReadsOf(role);
  std::set<int64_t> cuts;
  std::vector<OpId> ops;
  for (const auto& [id, time] : times_)
    if (time.role == role) {
      ops.push_back(id);
      cuts.insert(SlotOf(time.cycle));
    }
  const std::vector<Read> loads = schedule_.in_place ? LoadsOf(role) : std::vector<Read>();
  std::tuple<int64_t, size_t, int64_t, int64_t, int64_t> best{INT64_MAX, 0, 0, 0, 0};
  int64_t chosen = 0;
  size_t across = 0;  // products in flight when the iteration ends
  const bool take_turns = schedule_.warpgroups > 1 && 2 * schedule_.tensor >= schedule_.ii;
  std::set<OpId>
      awaited;  // of those in flight when the iteration ends: read then by who is no product
  for (int64_t cut : cuts) {
    int least = INT32_MAX, most = INT32_MIN;
    for (OpId id : ops) {
      least = std::min(least, StageAt(id, cut));
      most = std::max(most, StageAt(id, cut));
    }
    std::set<OpId> crossing, carried, read, waiting;
    int64_t bytes = 0;
    for (const Read& r : reads) {
      if (times_.at(r.from).role != role) continue;
      const int64_t age = StageAt(r.to, cut) - StageAt(r.from, cut) + r.distance;
      const Op& to = fn_.ops[r.to];
      if (age == 0 && !take_turns && IsProduct(r.to) && AddsUp(fn_, to) &&
          fn_.values[to.operands[0]].def == r.from &&
          (MadeOfLoads(fn_, to.operands[0], body_) || MadeOfTiles(fn_, to.operands[0], body_)))
        waiting.insert(r.to);
      if (age <= 0) continue;
      const Op& from = fn_.ops[r.from];
      if (IsProduct(r.from)) crossing.insert(r.from);
      if (IsProduct(r.from) && !IsProduct(r.to) && !StaysInPlace(r.from)) read.insert(r.from);
      if (carried.insert(r.from).second)
        for (ValueId v : from.results)
          bytes += age * fn_.type(v).elements() * ByteSize(fn_.type(v).dtype);
    }
    // A product that takes what threads make of loads from registers is awaited in its iteration:
    // made in the iteration before, it is issued first, and the next is made beside it. Where the
    // tensor core works most of the time warpgroups had better take turns: they make theirs while
    // another's product works (weights of 8 and 4 bits, 128x128x128: 7 and 14 % faster on an
    // H200; with products of 128x16 22 % slower; of words of four bits 15 and 16 %).
    const std::tuple<int64_t, size_t, int64_t, int64_t, int64_t> cost{
        static_cast<int64_t>(schedule_.in_place ? read.size() : crossing.size()),
        schedule_.in_place ? Ahead(loads, cut, least).size() + AheadOfOthers(role, loads, cut) : 0,
        static_cast<int64_t>(waiting.size()), most - least, bytes};
    if (cost < best) {
      best = cost;
      chosen = cut;
      awaited = read;
      across = crossing.size();
    }
  }
  int least = INT32_MAX;
  for (OpId id : ops) least = std::min(least, StageAt(id, chosen));
  for (OpId id : ops) {
    const int64_t turn = times_.at(id).cycle - chosen;
    places_[id] = {role, StageAt(id, chosen) - least,
                   turn - FloorDiv(turn, schedule_.ii) * schedule_.ii};
  }
  plan_.awaited.insert(awaited.begin(), awaited.end());
  if (!awaited.empty())
    plan_.departures.push_back("role " + std::to_string(role) + ": " +
                               std::to_string(awaited.size()) +
                               " product(s) would be under way when its turn ends; awaited there");
  plan_.going_on += static_cast<int>(across - awaited.size());
  if (schedule_.in_place) Align(loads, Ahead(loads, chosen, least), role);
}

// Values that pass between roles may not come from a later iteration than the one that reads
// them.
void LoopPlanner::Shift() {
  for (const auto& [id, time] : times_)
    if (time.role < 0) places_[id] = {-1, 0, -1};
  for (size_t round = 0; round < times_.size(); ++round) {
    bool changed = false;
    for (const auto& [id, time] : times_) {
      std::vector<Read> reads;
      for (ValueId v : reads_.at(id)) Leaves(v, id, 0, &reads);
      for (const Read& r : reads) {
        const Place from = places_.at(r.from), to = places_.at(id);
        const int64_t age = to.stage - from.stage + r.distance;
        if (from.role == to.role || age >= 0) continue;
        for (auto& [other, place] : places_)
          if (place.role == to.role) place.stage += static_cast<int>(-age);
        changed = true;
      }
    }
    if (!changed) return;
  }
}

// A load that a role reads in several iterations comes once for each of them: through a slot of its
// ring and from memory again (a product with the sums of its operands' squares, 128 x 128 x 64,
// brought 48 KB an iteration where it reads 32). What is no product and can run in the iteration
// that reads the load first does, at its end, as a whole; what it makes crosses in the load's
// place, if it is no more.
void LoopPlanner::ReadLoadsInOneTurn(int role) {
  const auto bytes = [&](ValueId v) {
    return fn_.type(v).elements() * ByteSize(fn_.type(v).dtype);
  };
  const std::vector<Read> loads = LoadsOf(role);
  std::map<OpId, int64_t> first;
  for (const Read& r : loads) {
    const int64_t turn = places_.at(r.to).stage - r.distance;
    const auto [it, fresh] = first.try_emplace(r.from, turn);
    if (!fresh) it->second = std::min(it->second, turn);
  }
  std::map<int64_t, int64_t> late;   // by how many iterations, by the time of an op
  std::map<int64_t, int64_t> taken;  // bytes of such loads
  for (const Read& r : loads) {
    const int64_t by = places_.at(r.to).stage - r.distance - first.at(r.from);
    if (by == 0) continue;
    int64_t& most = late[times_.at(r.to).cycle];
    most = std::max(most, by);
    taken[times_.at(r.to).cycle] += bytes(fn_.ops[r.from].results[0]);
  }
  for (const auto& [cycle, by] : late) {
    std::set<OpId> ops;  // that the schedule has as one
    for (const auto& [id, time] : times_)
      if (time.role == role && time.cycle == cycle) ops.insert(id);
    bool possible = true;
    int64_t made = 0;
    for (OpId id : ops) {
      possible = possible && fn_.ops[id].kind != OpKind::kDot && places_.at(id).stage >= by;
      std::vector<Read> reads;
      for (ValueId v : reads_.at(id)) Leaves(v, id, 0, &reads);
      for (const Read& r : reads)
        possible =
            possible && (ops.count(r.from) > 0 ||
                         places_.at(id).stage - by - places_.at(r.from).stage >= -r.distance);
    }
    std::set<OpId> crosses;
    for (const Read& r : ReadsOf(role))
      if (ops.count(r.from) && !ops.count(r.to) && crosses.insert(r.from).second)
        for (ValueId v : fn_.ops[r.from].results) made += bytes(v);
    if (!possible || made > taken.at(cycle)) continue;
    for (OpId id : ops) {
      places_.at(id).stage -= static_cast<int>(by);
      places_.at(id).slot = INT64_MAX;
    }
    const auto named = std::find_if(ops.begin(), ops.end(), [&](OpId id) {
      return fn_.ops[id].kind == OpKind::kReduce;
    });
    const OpId name = named == ops.end() ? *ops.rbegin() : *named;
    plan_.departures.push_back("`" + std::string(Info(fn_.ops[name].kind).mnemonic) +
                               "` runs in the turn that brings what it reads");
  }
}

// A product's result that later iterations read would be alive while the same product is in
// flight again: ptxas then serializes (C7514, seen). Readers that can run at the end of the
// result's iteration do, and what they make crosses instead.
void LoopPlanner::KeepResultsInTheirTurn() {
  for (auto& [reader, at] : places_) {
    if (at.role < 0 || fn_.ops[reader].kind == OpKind::kDot) continue;
    std::vector<Read> reads;
    for (ValueId v : reads_.at(reader)) Leaves(v, reader, 0, &reads);
    int64_t age = 0;
    for (const Read& r : reads) {
      if (IsProduct(r.from) && places_.at(r.from).role == at.role && !StaysInPlace(r.from))
        age = std::max(age, at.stage - places_.at(r.from).stage + r.distance);
    }
    const bool possible =
        age > 0 && at.stage >= age && std::all_of(reads.begin(), reads.end(), [&](const Read& r) {
          return at.stage - age - places_.at(r.from).stage + r.distance >= 0;
        });
    if (!possible) continue;
    at.stage -= static_cast<int>(age);
    at.slot = INT64_MAX;
    plan_.departures.push_back(std::string("`") + Info(fn_.ops[reader].kind).mnemonic +
                               "` runs at the end of the turn of the product that it reads");
  }
}

// What is made of nothing but such results, and takes no more registers than they do, is made
// there as well, and crosses in their place.
void LoopPlanner::UseInTheirTurn() {
  const auto bytes = [&](OpId id) {
    int64_t sum = 0;
    for (ValueId v : fn_.ops[id].results)
      sum += fn_.type(v).elements() * ByteSize(fn_.type(v).dtype);
    return sum;
  };
  for (OpId id : fn_.blocks[body_].ops) {  // what they read stands above
    const auto at = places_.find(id);
    if (at == places_.end() || at->second.role < 0 || at->second.slot == INT64_MAX) continue;
    const Op& op = fn_.ops[id];
    if (op.kind == OpKind::kDot || Info(op.kind).effect != OpEffect::kPure || !op.regions.empty())
      continue;
    std::vector<Read> reads;
    for (ValueId v : reads_.at(id)) Leaves(v, id, 0, &reads);
    int64_t stage = 0, read = 0;
    const bool crosses = !reads.empty() && std::all_of(reads.begin(), reads.end(), [&](auto& r) {
      const Place& from = places_.at(r.from);
      stage = std::max<int64_t>(stage, from.stage);
      read += bytes(r.from);
      return from.role == at->second.role && from.slot == INT64_MAX && r.distance == 0;
    });
    if (!crosses || stage > at->second.stage || bytes(id) > read) continue;
    at->second.stage = static_cast<int>(stage);
    at->second.slot = INT64_MAX;
  }
}

// The fewest iterations between those that make and those that read, the order within one being
// what it is.
void LoopPlanner::DrawClose() {
  const auto before = [&](OpId a, OpId b) {
    const Place &x = places_.at(a), &y = places_.at(b);
    return std::pair(x.slot, rank_.at(a)) < std::pair(y.slot, rank_.at(b));
  };
  std::map<OpId, int64_t> least;
  for (size_t round = 0; round <= places_.size(); ++round) {
    bool changed = false;
    for (const auto& [id, at] : places_) {
      if (at.role < 0) continue;
      std::vector<Read> reads;
      for (ValueId v : reads_.at(id)) Leaves(v, id, 0, &reads);
      for (const Read& r : reads) {
        if (places_.at(r.from).role != at.role || r.from == id) continue;
        const int64_t turns = before(r.from, id) ? 0 : 1;
        const int64_t stage = least[r.from] - r.distance + turns;
        if (stage > least[id]) least[id] = stage, changed = true;
      }
    }
    if (!changed) break;
  }
  for (auto& [id, at] : places_) {
    if (at.role >= 0) at.stage = static_cast<int>(std::min<int64_t>(at.stage, least[id]));
  }
}

// Does it add to a sum of earlier iterations that has columns of its own? What reads it awaits it
// there, whichever iteration that is.
bool LoopPlanner::StaysInPlace(OpId product) const {
  const Op* sum = fn_.def(fn_.ops[product].operands[2]);
  return schedule_.in_place && !(sum && sum->kind == OpKind::kConstant);
}

}  // namespace tilec::ir
