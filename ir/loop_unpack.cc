// Fields of words that a later iteration reads are taken out of them there: what is carried is the
// words, which are fewer, or nothing, where they wait in shared memory.
//
// Weights of four bits, eight in a word: a schedule may have the shift in one iteration and the
// conversion in the next. The loop then carries twice as many registers as there are words (of two
// CTAs that share an SM no thread has so many), and what takes a field out and what makes a float
// of it are apart, where together they are one instruction (backend/word_fields.h).
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "ir/loop_planner.h"
#include "ir/queries.h"

namespace tilec::ir {
namespace {

int64_t BytesOf(const Type& tile) { return tile.elements() * ByteSize(tile.dtype); }

}  // namespace

// Do CTAs side by side hide each other's waits (ir/lower/waits.h)? There the tensor core works less
// than half of the time, and no CTAs divide a tile. A CTA that is alone has its own waits to hide:
// it reads words early, and takes fields out meanwhile.
bool LoopPlanner::SharesUnits() const {
  const auto divided = [](const Op& op) {
    return op.kind == OpKind::kParallel && op.i("cluster", 1) > 1;
  };
  return 2 * schedule_.tensor < schedule_.ii &&
         std::none_of(fn_.ops.begin(), fn_.ops.end(), divided);
}

// Does an op take fields out of words, or put such in another order?
bool LoopPlanner::Unpacks(OpId id) const {
  const Op& op = fn_.ops[id];
  if (op.results.size() != 1 || !(Info(op.kind).elementwise() || op.kind == OpKind::kRearrange))
    return false;
  const Type& made = fn_.type(op.results[0]);
  return made.is_tile() && IsInteger(made.dtype);
}

// Of the tiles that such ops begin with.
int64_t LoopPlanner::BytesUnpacked(OpId id) const {
  int64_t sum = 0;
  for (ValueId v : reads_.at(id)) {
    const Op* def = fn_.def(v);
    if (!def || !fn_.type(v).is_tile() || def->block != body_) continue;
    const OpId made = fn_.values[v].def;
    const bool between = !times_.count(made) && def->kind != OpKind::kLoad;
    sum += Unpacks(made) || between ? BytesUnpacked(made) : BytesOf(fn_.type(v));
  }
  return sum;
}

void LoopPlanner::UnpackInTheirTurn() {
  const std::vector<OpId>& ops = fn_.blocks[body_].ops;
  for (auto it = ops.rbegin(); it != ops.rend(); ++it) {  // who reads them stands below
    const auto at = places_.find(*it);
    if (at == places_.end() || at->second.role < 0 || !Unpacks(*it)) continue;
    const Op& op = fn_.ops[*it];
    if (BytesUnpacked(*it) >= BytesOf(fn_.type(op.results[0]))) continue;
    // The iterations until it is read first, and where in that one.
    int64_t age = INT64_MAX, slot = INT64_MAX;
    for (const auto& [reader, place] : places_) {
      std::vector<Read> reads;
      for (ValueId v : reads_.at(reader)) Leaves(v, reader, 0, &reads);
      for (const Read& r : reads) {
        if (r.from != *it) continue;
        const bool own = place.role == at->second.role;
        const int64_t later = own ? place.stage - at->second.stage + r.distance : 0;
        if (later < age) age = later, slot = place.slot;
        if (later == age) slot = std::min(slot, place.slot);
      }
    }
    if (age <= 0 || age == INT64_MAX) continue;
    at->second.stage += static_cast<int>(age);
    at->second.slot = slot;
    plan_.departures.push_back(std::string("`") + Info(op.kind).mnemonic +
                               "` runs in the turn of what reads it: it makes more than it reads");
  }
}

}  // namespace tilec::ir
