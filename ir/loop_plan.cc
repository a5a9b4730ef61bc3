// SPDX-License-Identifier: Apache-2.0
#include "ir/loop_plan.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "ir/arms.h"
#include "ir/lower/operands.h"
#include "ir/lower/scalars.h"
#include "ir/lower/waits.h"
#include "ir/queries.h"
#include "support/expr.h"

namespace tilec::ir {
namespace {

class LoopPlanner {
 public:
  LoopPlanner(const Function& fn, OpId loop, const LoopSchedule& schedule)
      : fn_(fn), loop_(loop), body_(fn.ops[loop].regions[0]), schedule_(schedule) {}

  std::optional<LoopPlan> Run(std::string* why) {
    if (!Collect() || !Anchor()) {
      *why = why_;
      return std::nullopt;
    }
    std::set<int> roles;
    for (const auto& [id, time] : times_) roles.insert(time.role);
    for (int role : roles)
      if (role >= 0) Rotate(role);
    Shift();
    KeepResultsInTheirTurn();
    UnpackInTheirTurn();
    if (schedule_.close && roles.size() - roles.count(-1) == 1) {
      UseInTheirTurn();
      DrawClose();
    }
    ReadBeforeUpdate();
    if (!Order()) {
      *why = "its order contradicts the data";
      return std::nullopt;
    }
    for (const PlannedOp& op : plan_.order) plan_.stages = std::max(plan_.stages, op.stage);
    Tokens();
    return std::move(plan_);
  }

 private:
  struct Place {
    int role;
    int stage;
    int64_t slot;
  };
  // A read of a placed value: by op `to`, `distance` iterations later.
  struct Read {
    OpId from, to;
    int64_t distance;
  };

  bool Fail(std::string why) {
    why_ = std::move(why);
    return false;
  }

  bool Collect() {
    for (OpId id : fn_.blocks[body_].ops) {
      const Op& op = fn_.ops[id];
      rank_[id] = static_cast<int64_t>(rank_.size());
      if (op.kind == OpKind::kYield) continue;
      reads_[id] = ReadBy(fn_, id);
      if (!op.regions.empty() && op.kind != OpKind::kIf) return Fail("it has a loop inside");
      if (auto it = schedule_.ops.find(id); it != schedule_.ops.end())
        times_[id] = it->second;
      else if (!IsReplicated(fn_, op) && !schedule_.replicated.count(id))
        return Fail(std::string("the schedule has no place for its `") + Info(op.kind).mnemonic +
                    "`");
    }
    return true;
  }

  // Replicated ops whose values are carried need a place after all: where their operands are made.
  bool Anchor() {
    const Op& yield = fn_.ops[fn_.blocks[body_].ops.back()];
    for (ValueId v : yield.operands) {
      const BodyRef ref = Resolve(fn_, loop_, v);
      if (ref.kind == BodyRef::Kind::kUnclear || ref.kind == BodyRef::Kind::kPosition)
        return Fail("a carried value is the position itself");
      if (ref.kind == BodyRef::Kind::kDefined && !AnchorOp(fn_.values[ref.value].def)) return false;
      if (ref.kind == BodyRef::Kind::kOutside && !ref.args.empty())
        return Fail("a carried value is replaced by one from outside");
    }
    return true;
  }
  bool AnchorOp(OpId id) {
    if (times_.count(id)) return true;
    // On a circle of carried scalars: its own operands lead back to it.
    times_[id] = {-1, 0};
    LoopSchedule::Time best{-1, 0};
    for (ValueId v : reads_.at(id)) {
      if (!AnchorCarried(v)) return false;
      std::vector<Read> reads;
      Leaves(v, id, 0, &reads);
      for (const Read& r : reads) {
        const LoopSchedule::Time& t = times_.at(r.from);
        if (t.role < 0) continue;
        const int64_t at = t.cycle - r.distance * schedule_.ii;
        if (best.role >= 0 && best.role != t.role) return Fail("a carried value joins two roles");
        if (best.role < 0 || at > best.cycle) best = {t.role, at};
      }
    }
    times_[id] = best;
    return true;
  }
  // Carried values that v is computed from through replicated ops.
  bool AnchorCarried(ValueId v) {
    const BodyRef ref = Resolve(fn_, loop_, v);
    if (ref.kind == BodyRef::Kind::kUnclear) return Fail("a carried value is the position itself");
    if (ref.kind != BodyRef::Kind::kDefined) return true;
    const OpId def = fn_.values[ref.value].def;
    if (times_.count(def)) return true;
    if (!ref.args.empty()) return AnchorOp(def);
    for (ValueId operand : reads_.at(def))
      if (!AnchorCarried(operand)) return false;
    return true;
  }

  // The placed ops v comes from, through ops without a place.
  void Leaves(ValueId v, OpId reader, int64_t distance, std::vector<Read>* out) const {
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

  std::vector<Read> ReadsOf(int role) const {
    std::vector<Read> reads;
    for (const auto& [id, time] : times_)
      if (time.role == role)
        for (ValueId v : reads_.at(id)) Leaves(v, id, 0, &reads);
    return reads;
  }

  // The loads that a role reads, through ops without a place, and how many iterations back.
  std::vector<Read> LoadsOf(int role) const {
    std::vector<Read> loads;
    for (const auto& [id, time] : times_)
      if (time.role == role)
        for (ValueId v : reads_.at(id)) LoadsBehind(v, id, 0, &loads);
    return loads;
  }
  void LoadsBehind(ValueId v, OpId reader, int64_t distance, std::vector<Read>* out) const {
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
  std::map<int64_t, int> Ahead(const std::vector<Read>& loads, int64_t cut, int least) const {
    std::map<int64_t, int> ahead;
    for (const Read& r : loads)
      if (const auto of = load_stages_.find(r.from); of != load_stages_.end())
        ++ahead[of->second - (StageAt(r.to, cut) - least - r.distance)];
    return ahead;
  }
  // The same for roles that are still to come, each at its best: how many offsets in all.
  size_t AheadOfOthers(int role, const std::vector<Read>& loads, int64_t cut) const {
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
  void Align(const std::vector<Read>& loads, const std::map<int64_t, int>& ahead, int role) {
    const auto most =
        std::max_element(ahead.begin(), ahead.end(),
                         [](const auto& a, const auto& b) { return a.second < b.second; });
    const int64_t by = most == ahead.end() ? 0 : most->first;
    if (by < 0)
      for (auto& [load, stage] : load_stages_) stage -= by;
    for (auto& [id, place] : places_)
      if ((place.role == role) == (by > 0)) place.stage += static_cast<int>(std::abs(by));
    for (const Read& r : loads) load_stages_[r.from] = places_.at(r.to).stage - r.distance;
  }

  int64_t SlotOf(int64_t cycle) const {
    return cycle - FloorDiv(cycle, schedule_.ii) * schedule_.ii;
  }
  int StageAt(OpId id, int64_t cut) const {
    return static_cast<int>(FloorDiv(times_.at(id).cycle - cut, schedule_.ii));
  }

  // Where this role's iteration begins.
  void Rotate(int role) {
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
          schedule_.in_place ? Ahead(loads, cut, least).size() + AheadOfOthers(role, loads, cut)
                             : 0,
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
      plan_.departures.push_back(
          "role " + std::to_string(role) + ": " + std::to_string(awaited.size()) +
          " product(s) would be under way when its turn ends; awaited there");
    plan_.going_on += static_cast<int>(across - awaited.size());
    if (schedule_.in_place) Align(loads, Ahead(loads, chosen, least), role);
  }

  // Values that pass between roles may not come from a later iteration than the one that reads
  // them.
  void Shift() {
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

  // A product's result that later iterations read would be alive while the same product is in
  // flight again: ptxas then serializes (C7514, seen). Readers that can run at the end of the
  // result's iteration do, and what they make crosses instead.
  void KeepResultsInTheirTurn() {
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
  // Does an op take fields out of words, or put such in another order?
  bool Unpacks(OpId id) const {
    const Op& op = fn_.ops[id];
    return (Info(op.kind).elementwise() || op.kind == OpKind::kRearrange) &&
           op.results.size() == 1 && fn_.type(op.results[0]).is_tile() &&
           IsInteger(fn_.type(op.results[0]).dtype);
  }
  // Of the tiles that such ops begin with.
  int64_t BytesRead(OpId id) const {
    int64_t sum = 0;
    for (ValueId v : reads_.at(id)) {
      const Op* def = fn_.def(v);
      if (!def || !fn_.type(v).is_tile() || def->block != body_) continue;
      const OpId made = fn_.values[v].def;
      sum += Unpacks(made) || (!times_.count(made) && def->kind != OpKind::kLoad)
                 ? BytesRead(made)
                 : fn_.type(v).elements() * ByteSize(fn_.type(v).dtype);
    }
    return sum;
  }

  // Fields of words that a later iteration reads are taken out of them there: the words are carried,
  // which are fewer. (GPTQ, 16 rows: 64 fields of a thread of 32 words; two CTAs of an SM have no
  // registers for them. And what takes a field out and what makes a float of it stand together,
  // where the two are one instruction.)
  void UnpackInTheirTurn() {
    const auto bytes = [&](OpId id) {
      int64_t sum = 0;
      for (ValueId v : fn_.ops[id].results)
        sum += fn_.type(v).elements() * ByteSize(fn_.type(v).dtype);
      return sum;
    };
    const std::vector<OpId>& ops = fn_.blocks[body_].ops;
    for (auto it = ops.rbegin(); it != ops.rend(); ++it) {  // who reads them stands below
      const auto at = places_.find(*it);
      const Op& op = fn_.ops[*it];
      if (at == places_.end() || at->second.role < 0 || !Unpacks(*it)) continue;
      if (BytesRead(*it) >= bytes(*it)) continue;
      int64_t age = INT64_MAX, slot = INT64_MAX;
      for (const auto& [reader, place] : places_) {
        std::vector<Read> its;
        for (ValueId v : reads_.at(reader)) Leaves(v, reader, 0, &its);
        for (const Read& r : its) {
          if (r.from != *it) continue;
          const int64_t own = place.role == at->second.role
                                  ? place.stage - at->second.stage + r.distance
                                  : 0;
          if (own < age) age = own, slot = place.slot;
          if (own == age) slot = std::min(slot, place.slot);
        }
      }
      if (age <= 0 || age == INT64_MAX) continue;
      at->second.stage += static_cast<int>(age);
      at->second.slot = slot;
      plan_.departures.push_back(std::string("`") + Info(op.kind).mnemonic +
                                 "` runs in the turn of what reads it: it makes more than it reads");
    }
  }

  // What is made of nothing but such results, and takes no more registers than they do, is made
  // there as well, and crosses in their place.
  void UseInTheirTurn() {
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
  void DrawClose() {
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

  // A product updates its accumulator in place. Who else reads the old value in the same iteration
  // reads it before the product is issued, so that nobody needs a copy of registers in flight; and
  // if nothing but products touches these registers, before those that will be in flight with it,
  // or ptxas awaits them first (C7517, seen).
  void ReadBeforeUpdate() {
    for (auto& [dot, place] : places_) {
      const Op& op = fn_.ops[dot];
      if (op.kind != OpKind::kDot) continue;
      std::vector<Read> updated;
      Leaves(op.operands[2], dot, 0, &updated);
      for (const Read& u : updated)
        for (auto& [reader, at] : places_) {
          if (reader == dot || at.role != place.role) continue;
          std::vector<Read> reads;
          for (ValueId v : reads_.at(reader)) Leaves(v, reader, 0, &reads);
          const bool old = std::any_of(reads.begin(), reads.end(), [&](const Read& r) {
            return r.from == u.from && r.distance + at.stage == u.distance + place.stage;
          });
          if (!old) continue;
          const auto early = [&](const Place& first) {
            return at.slot > first.slot &&
                   std::all_of(reads.begin(), reads.end(), [&](const Read& r) {
                     const Place& from = places_.at(r.from);
                     return from.slot < first.slot || at.stage - from.stage + r.distance > 0;
                   });
          };
          OpId before = dot;
          if (IsProduct(u.from))
            for (const auto& [other, first] : places_)
              if (first.role == place.role && IsProduct(other) && early(first) &&
                  first.slot < places_.at(before).slot &&
                  !ReadBefore(other, std::min(at.slot, place.slot)))
                before = other;
          if (early(places_.at(before))) before_[before].insert(reader);
        }
    }
    for (const auto& [dot, readers] : before_)
      for (OpId reader : readers) places_.at(reader).slot = places_.at(dot).slot;
  }
  bool IsProduct(OpId id) const { return schedule_.in_flight.count(id) > 0; }
  // Does it add to a sum of earlier iterations that has columns of its own? What reads it awaits it
  // there, whichever iteration that is.
  bool StaysInPlace(OpId product) const {
    const Op* sum = fn_.def(fn_.ops[product].operands[2]);
    return schedule_.in_place && !(sum && sum->kind == OpKind::kConstant);
  }
  // Does its role read the product's result of this iteration in front of `slot`?
  bool ReadBefore(OpId product, int64_t slot) const {
    for (const auto& [reader, at] : places_) {
      if (at.role != places_.at(product).role || at.slot >= slot) continue;
      std::vector<Read> reads;
      for (ValueId v : reads_.at(reader)) Leaves(v, reader, 0, &reads);
      for (const Read& r : reads)
        if (r.from == product && at.stage - places_.at(product).stage + r.distance == 0)
          return true;
    }
    return false;
  }

  // Each role's cyclic order, and operands of the same iteration first.
  bool Order() {
    std::vector<OpId> ops;
    std::set<OpId> first;  // of their slots: what was moved in front of a product
    for (const auto& [dot, readers] : before_) first.insert(readers.begin(), readers.end());
    for (const auto& [id, place] : places_) ops.push_back(id);
    std::sort(ops.begin(), ops.end(), [&](OpId a, OpId b) {
      const auto key = [&](OpId id) {
        const Place& at = places_.at(id);
        return std::tuple(at.role, at.slot, first.count(id) == 0, rank_.at(id));
      };
      return key(a) < key(b);
    });
    std::map<OpId, std::set<OpId>> above = before_;
    for (OpId id : ops) {
      std::vector<Read> reads;
      for (ValueId v : reads_.at(id)) Leaves(v, id, 0, &reads);
      for (const Read& r : reads) {
        const int64_t age = places_.at(id).stage - places_.at(r.from).stage + r.distance;
        if (age < 0) return false;
        if (age == 0 && r.from != id) above[id].insert(r.from);
      }
    }
    // What shares a slot, as the parts of one scheduled op do, stands behind all of the slot
    // before.
    size_t before = 0, here = 0;  // first ops of these slots
    for (size_t i = 1; i < ops.size(); ++i) {
      const Place &a = places_.at(ops[i - 1]), &b = places_.at(ops[i]);
      if (a.role != b.role) before = here = i;
      if (a.role == b.role && a.slot != b.slot) before = here, here = i;
      if (b.role >= 0) above[ops[i]].insert(&ops[before], &ops[here]);
    }
    std::set<OpId> done;
    while (done.size() < ops.size()) {
      bool any = false;
      for (OpId id : ops) {
        if (done.count(id)) continue;
        const std::set<OpId>& before = above[id];
        if (!std::all_of(before.begin(), before.end(), [&](OpId b) { return done.count(b); }))
          continue;
        done.insert(id);
        plan_.order.push_back({id, places_.at(id).role, places_.at(id).stage});
        any = true;
      }
      if (!any) return false;
    }
    return true;
  }

  void Tokens() {
    for (const LoopSchedule::Token& t : schedule_.tokens) {
      const auto from = places_.find(t.from), to = places_.find(t.to);
      if (from == places_.end() || to == places_.end()) continue;
      const int64_t turns = t.distance + to->second.stage - from->second.stage;
      if (turns == 0 || turns == 1)
        plan_.tokens.push_back({t.from, t.to, static_cast<int>(turns)});
      else
        plan_.notes.push_back("an order token over " + std::to_string(turns) +
                              " turns is left out");
    }
  }

  const Function& fn_;
  OpId loop_;
  BlockId body_;
  const LoopSchedule& schedule_;
  std::map<OpId, int64_t> rank_;
  std::map<OpId, std::vector<ValueId>> reads_;  // of the body's ops
  std::map<OpId, LoopSchedule::Time> times_;
  std::map<OpId, Place> places_;
  std::map<OpId, int64_t>
      load_stages_;  // of loads that roles read so far, where sums stay in place
  std::map<OpId, std::set<OpId>> before_;  // of ops of one slot: these first
  LoopPlan plan_;
  std::string why_;
};

}  // namespace

std::optional<LoopPlan> PlanLoop(const Function& fn, OpId loop, const LoopSchedule& schedule,
                                 std::string* why) {
  return LoopPlanner(fn, loop, schedule).Run(why);
}

}  // namespace tilec::ir
