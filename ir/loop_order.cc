// In which order the placed ops of a loop go, so that operands stand above their readers and nobody
// needs a copy of registers that a product in flight writes.
//
// SPDX-License-Identifier: Apache-2.0
#include "ir/loop_planner.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <vector>

#include "ir/queries.h"

namespace tilec::ir {

// A product updates its accumulator in place. Who else reads the old value in the same iteration
// reads it before the product is issued, so that nobody needs a copy of registers in flight; and
// if nothing but products touches these registers, before those that will be in flight with it,
// or ptxas awaits them first (C7517, seen).
void LoopPlanner::ReadBeforeUpdate() {
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

// Does its role read the product's result of this iteration in front of `slot`?
bool LoopPlanner::ReadBefore(OpId product, int64_t slot) const {
  for (const auto& [reader, at] : places_) {
    if (at.role != places_.at(product).role || at.slot >= slot) continue;
    std::vector<Read> reads;
    for (ValueId v : reads_.at(reader)) Leaves(v, reader, 0, &reads);
    for (const Read& r : reads)
      if (r.from == product && at.stage - places_.at(product).stage + r.distance == 0) return true;
  }
  return false;
}

// Each role's cyclic order, and operands of the same iteration first.
bool LoopPlanner::Order() {
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

void LoopPlanner::Tokens() {
  for (const LoopSchedule::Token& t : schedule_.tokens) {
    const auto from = places_.find(t.from), to = places_.find(t.to);
    if (from == places_.end() || to == places_.end()) continue;
    const int64_t turns = t.distance + to->second.stage - from->second.stage;
    if (turns == 0 || turns == 1)
      plan_.tokens.push_back({t.from, t.to, static_cast<int>(turns)});
    else
      plan_.notes.push_back("an order token over " + std::to_string(turns) + " turns is left out");
  }
}

}  // namespace tilec::ir
