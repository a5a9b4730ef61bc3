// SPDX-License-Identifier: Apache-2.0
#include "ir/lower/stored_over.h"

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "ir/queries.h"

namespace tilec::ir {
namespace {

// scale · base + add; base invalid: a constant.
struct OverPlace {
  ValueId base;
  int64_t scale = 1, add = 0, size = 1;
};

std::optional<int64_t> Constant(const Function& fn, ValueId v) {
  const Op* def = fn.def(v);
  if (!def || def->kind != OpKind::kConstant || !fn.type(v).is_scalar()) return std::nullopt;
  return static_cast<int64_t>(def->number("value"));
}

OverPlace SplitPlace(const Function& fn, ValueId v) {
  OverPlace place{v};
  while (const Op* def = fn.def(place.base)) {
    if (const auto number = Constant(fn, place.base)) {
      place.add += place.scale * *number;
      place.base = ValueId();
      break;
    }
    if (def->kind == OpKind::kCast && IsInteger(fn.type(def->operands[0]).dtype)) {
      place.base = def->operands[0];
      continue;
    }
    const bool difference = def->kind == OpKind::kSub;
    if (def->kind != OpKind::kAdd && def->kind != OpKind::kMul && !difference) break;
    const auto left = Constant(fn, def->operands[0]);
    const auto right = Constant(fn, def->operands[1]);
    if (!left && !right) break;
    const int64_t number = left ? *left : *right;
    if (def->kind == OpKind::kMul)
      place.scale *= number;
    else if (difference && left)
      place.add += place.scale * number, place.scale = -place.scale;
    else
      place.add += (difference ? -place.scale : place.scale) * number;
    place.base = def->operands[left ? 1 : 0];
  }
  return place;
}

class StoredOverFinder {
 public:
  explicit StoredOverFinder(const Function& fn) : fn_(fn) {
    for (OpId id : OpsInOrder(fn))
      if (fn.ops[id].kind == OpKind::kStore) stores_[fn.ops[id].operands[0]].push_back(id);
  }

  std::map<OpId, std::vector<OpId>> Run() const {
    std::map<OpId, std::vector<OpId>> over;
    for (const auto& [tensor, stores] : stores_)
      for (OpId a : stores)
        for (OpId b : stores)
          if (a == b ? MayComeBack(a) : !Apart(a, b) && !Instead(a, b)) over[a].push_back(b);
    return over;
  }

 private:
  // The loops around a store that its program has, without the one over tiles.
  std::vector<OpId> Loops(OpId store) const {
    std::vector<OpId> loops;
    for (OpId at = LoopAround(fn_, store); at.valid(); at = LoopAround(fn_, at))
      if (fn_.ops[at].i("narrow", 0) == 0) loops.push_back(at);
    return loops;
  }

  // Where the store begins and how long it is, by dim of the tensor; nothing: gathered.
  std::vector<std::optional<OverPlace>> Places(OpId store) const {
    const Op& op = fn_.ops[store];
    const std::string& modes = op.s("modes");
    const std::vector<int64_t>& sizes = op.ints("sizes");
    std::vector<std::optional<OverPlace>> places;
    size_t operand = 2;
    for (size_t d = 0; d < modes.size(); ++d) {
      places.emplace_back();
      if (!IsGathered(modes[d])) {
        places.back() = SplitPlace(fn_, op.operands[operand]);
        if (IsRange(modes[d])) places.back()->size = sizes[d];
      }
      operand += OperandsOf(modes[d], true);
    }
    return places;
  }

  // Every loop carries some dim on, or back, by as much as is stored, or further.
  bool MayComeBack(OpId store) const {
    const auto places = Places(store);
    for (OpId id : Loops(store)) {
      const Op& loop = fn_.ops[id];
      if (loop.kind != OpKind::kFor) return true;
      const ValueId position = fn_.blocks[loop.regions[0]].args[0];
      bool moves = false;
      for (const auto& place : places)
        moves = moves || (place && place->base == position &&
                          std::abs(place->scale) * loop.i("step") >= place->size);
      if (!moves) return true;
    }
    return false;
  }

  bool Inside(ValueId v, OpId loop) const {
    if (!v.valid() || fn_.param(v)) return false;
    OpId at = fn_.blocks[BlockOf(fn_, v)].parent;
    while (at.valid() && at != loop) at = ParentOf(fn_, at);
    return at == loop;
  }

  // Some dim begins so far from where the other's does that they do not meet, whatever the
  // iterations.
  bool Apart(OpId a, OpId b) const {
    const auto here = Places(a), there = Places(b);
    for (size_t d = 0; d < here.size() && d < there.size(); ++d) {
      if (!here[d] || !there[d]) continue;
      const OverPlace &x = *here[d], &y = *there[d];
      if (x.base != y.base || (x.base.valid() && x.scale != y.scale)) continue;
      bool fixed = true;
      for (OpId store : {a, b})
        for (OpId loop : Loops(store)) fixed = fixed && !Inside(x.base, loop);
      if (fixed && (x.add + x.size <= y.add || y.add + y.size <= x.add)) return true;
    }
    return false;
  }

  // Do they store at one place, each in another arm of a branch, and does no iteration come back
  // to it? One of them is made then.
  bool Instead(OpId a, OpId b) const {
    const BlockId here = fn_.ops[a].block, there = fn_.ops[b].block;
    const OpId branch = fn_.blocks[here].parent;
    if (here == there || branch != fn_.blocks[there].parent || !branch.valid() ||
        fn_.ops[branch].kind != OpKind::kIf || MayComeBack(a) || MayComeBack(b))
      return false;
    const Op &x = fn_.ops[a], &y = fn_.ops[b];
    if (x.s("modes") != y.s("modes") || x.ints("sizes") != y.ints("sizes")) return false;
    size_t operand = 2;
    for (char mode : x.s("modes")) {
      if (x.operands[operand] != y.operands[operand]) return false;
      operand += OperandsOf(mode, true);
    }
    return true;
  }

  const Function& fn_;
  std::map<ValueId, std::vector<OpId>> stores_;
};

}  // namespace

StoresOver StoredOver(const Function& fn) { return StoredOverFinder(fn).Run(); }

bool MeetsOthers(const Function& fn, const StoresOver& over, const Op& store) {
  return std::any_of(over.begin(), over.end(), [&](const auto& met) {
    return &fn.ops[met.first] == &store && (met.second.size() > 1 || met.second[0] != met.first);
  });
}

bool OverOthersInTurns(const Function& fn, const StoresOver& over, OpId store) {
  const OpId loop = LoopAround(fn, store);
  return loop.valid() && fn.ops[loop].i("narrow", 0) == 0 && MeetsOthers(fn, over, fn.ops[store]);
}

void StoreTogether(const StoresOver& over, std::map<OpId, StorePlan>& stores) {
  for (bool again = true; again;) {
    again = false;
    for (const auto& [id, others] : over)
      for (OpId other : others)
        if (stores[id].tma && !stores[other].tma) stores[id] = {}, again = true;
  }
}

}  // namespace tilec::ir
