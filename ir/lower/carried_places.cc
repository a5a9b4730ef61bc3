// Registers that what a loop of products carries cannot share, although not all of it is alive at
// once.
//
// SPDX-License-Identifier: Apache-2.0
#include "ir/lower/pressure.h"

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "ir/queries.h"

namespace tilec::ir {

namespace {

// What a loop carries has the same registers in every iteration: a tile that is computed from
// another carried one is written to where its own last one was, not in the other's place. A product
// under way has a third place if the one is read and the other written meanwhile, although not more
// than two of them are alive at any moment. (A score tile carried to its exponentials, those
// carried to the next product, and scores in flight: 200 registers alive, 266 needed, 616 bytes
// spilled.)
class Places {
 public:
  explicit Places(const Function& fn) : fn_(fn) {}
  int64_t most() const { return most_; }

  void Walk(BlockId block) {
    for (OpId id : fn_.blocks[block].ops) {
      const Op& op = fn_.ops[id];
      if (op.kind == OpKind::kFor) Turn(op.regions[0], Carried(op));
      for (BlockId region : op.regions) Walk(region);
    }
  }

 private:
  struct Place {
    ValueId begins, ends;  // a carried tile in front of an iteration, and behind it
  };
  struct Flight {
    size_t from = 0, to = 0;  // in its block: the product, the wait
    ValueId result, adds_to, operand;
  };

  std::vector<Place> Carried(const Op& loop) const {
    const Block& body = fn_.blocks[loop.regions[0]];
    const std::vector<ValueId>& yields = fn_.ops[body.ops.back()].operands;
    std::vector<Place> places;
    for (size_t i = 1; i < body.args.size(); ++i)
      if (fn_.type(body.args[i]).is_tile()) places.push_back({body.args[i], yields[i - 1]});
    return places;
  }
  // The block of an iteration, and the versions that a branch in it chooses from.
  void Turn(BlockId block, const std::vector<Place>& places) {
    Look(block, places);
    for (OpId id : fn_.blocks[block].ops) {
      const Op& op = fn_.ops[id];
      if (op.kind != OpKind::kIf) continue;
      for (BlockId arm : op.regions) {
        const std::vector<ValueId>& yields = fn_.ops[fn_.blocks[arm].ops.back()].operands;
        std::vector<Place> inside = places;
        for (Place& place : inside)
          for (size_t i = 0; i < op.results.size(); ++i)
            if (op.results[i] == place.ends) place.ends = yields[i];
        Turn(arm, inside);
      }
    }
  }
  ValueId BehindFence(ValueId v) const {
    const Op* def = fn_.def(v);
    for (size_t i = 0; def && def->kind == OpKind::kMmaFence && i < def->results.size(); ++i)
      if (def->results[i] == v) return def->operands[i];
    return v;
  }
  int64_t Registers(ValueId v) const {
    const Type& type = fn_.type(v);
    if (!type.layout.valid() || type.dtype == DType::kBool) return 0;
    return (fn_.layouts[type.layout].regs() * ByteSize(type.dtype) + 3) / 4;
  }
  void Look(BlockId block, const std::vector<Place>& places) {
    const std::vector<OpId>& ops = fn_.blocks[block].ops;
    std::map<ValueId, size_t> made, last;  // by place in the block
    std::vector<Flight> flights;
    for (size_t i = 0; i < ops.size(); ++i) {
      const Op& op = fn_.ops[ops[i]];
      for (ValueId v : op.results) made[v] = i;
      if (op.kind != OpKind::kYield)
        for (ValueId v : op.operands) last[v] = i;
      if (op.kind == OpKind::kMma) {
        const bool fresh = op.i("zero") != 0;
        const bool registers = fn_.type(op.operands[1]).is_tile();
        flights.push_back({i, ops.size(), op.results[0],
                           fresh ? ValueId() : BehindFence(op.operands[0]),
                           registers ? BehindFence(op.operands[1]) : ValueId()});
      }
      if (op.kind == OpKind::kMmaWait)
        for (Flight& flight : flights)
          if (std::find(op.operands.begin(), op.operands.end(), flight.result) != op.operands.end())
            flight.to = i;
    }
    for (const Flight& flight : flights) {
      if (flight.adds_to.valid() || flight.to == ops.size()) continue;
      std::set<ValueId> beside = {flight.result}, carried;
      for (const Flight& other : flights) {
        if (other.to < flight.from || other.from > flight.to) continue;
        if (other.operand.valid()) beside.insert(other.operand);
        (other.adds_to.valid() ? carried : beside)
            .insert(other.adds_to.valid() ? other.adds_to : other.result);
      }
      int64_t needed = 0;
      for (ValueId v : beside) needed += Registers(v);
      for (const Place& place : places) {
        const auto read = last.find(place.begins);
        const auto written = made.find(place.ends);
        const bool kept = place.begins == place.ends;
        if (kept || carried.count(place.begins) ||
            (read != last.end() && read->second > flight.from) ||
            (written != made.end() && written->second < flight.to))
          needed += Registers(place.begins);
      }
      most_ = std::max(most_, needed);
    }
  }

  const Function& fn_;
  int64_t most_ = 0;
};

}  // namespace

int64_t PlacedRegisters(const Function& fn, OpId role) {
  // ptxas moves some of them after all: 164 fitted in 160.
  constexpr int64_t kMoved = 16;
  Places places(fn);
  places.Walk(fn.ops[role].regions[0]);
  return std::max<int64_t>(0, places.most() - kMoved);
}

}  // namespace tilec::ir
