// SPDX-License-Identifier: Apache-2.0
#include "ir/warp_check/rings.h"

#include <algorithm>
#include <numeric>
#include <set>

namespace tilec::ir::warp_check {
namespace {

// What an op does with slots: the barriers and buffers it names, each with its slot operand.
struct Naming {
  ValueId object, slot;
};
std::vector<Naming> NamedBy(const Function& fn, const Op& op) {
  std::vector<Naming> out;
  const bool product = op.kind == OpKind::kMma || op.kind == OpKind::kTcMma;
  const ValueId slot = product ? ValueId() : SlotOperand(op, fn);
  for (size_t i = 0; i < op.operands.size(); ++i) {
    const ValueId v = op.operands[i];
    const Op* def = fn.def(v);
    if (!def || (def->kind != OpKind::kSmemAlloc && def->kind != OpKind::kMbarAlloc)) continue;
    if (!product) {
      out.push_back({v, slot});
      continue;
    }
    const size_t at = i + 2;  // acc (or tensor memory), a, b, slot_a, slot_b
    out.push_back({v, at < op.operands.size() ? op.operands[at] : ValueId()});
  }
  return out;
}

class RingFinder {
 public:
  RingFinder(const Program& program, Rings& rings) : p_(program), fn_(program.fn), rings_(rings) {}

  void Run() {
    for (size_t role = 0; role < p_.roles.size(); ++role) {
      common_ = role == 0;
      Walk(p_.roles[role].body);
    }
    CheckBuffers();
    Collect();
  }

 private:
  enum class Kind { kCount, kSlot, kTurn, kParity };
  struct Made {
    ValueId counter, count;
    Kind kind = Kind::kCount;
    int64_t depth = 0;  // of slots and iterations
  };

  int64_t Constant(ValueId v) const {
    const Op* def = fn_.def(v);
    return def && def->kind == OpKind::kConstant ? static_cast<int64_t>(def->number("value")) : -1;
  }
  ValueId Find(ValueId v) {
    const auto it = parent_.find(v);
    if (it == parent_.end()) return parent_[v] = v;
    return it->second == v ? v : it->second = Find(it->second);
  }
  void Unite(ValueId a, ValueId b) {
    a = Find(a), b = Find(b);
    if (a != b) parent_[std::max(a, b)] = std::min(a, b);
  }
  void Spoil(ValueId v) { spoiled_.insert(v); }
  int64_t DepthOf(ValueId object) const { return fn_.type(object).depth; }

  void Walk(BlockId block) {
    for (OpId id : fn_.blocks[block].ops) {
      const Op& op = fn_.ops[id];
      if (op.kind == OpKind::kRole) continue;  // walked on their own
      Look(op);
      for (BlockId region : op.regions) Walk(region);
    }
  }

  void Look(const Op& op) {
    if (op.kind == OpKind::kCounter) {
      Find(op.results[0]);
      return;
    }
    if (op.kind == OpKind::kCounterRead) {
      made_[op.results[0]] = {op.operands[0], op.results[0], Kind::kCount, 0};
      return;
    }
    if (op.kind == OpKind::kCounterAdd) return;
    std::set<ValueId> expected;  // operands that may be made from counters here
    for (const auto& [object, slot] : NamedBy(fn_, op)) {
      Find(object);
      const int64_t depth = DepthOf(object);
      if (!slot.valid() || depth <= 1) {
        if (depth > 1 && !common_) Spoil(object);
        continue;
      }
      const auto it = made_.find(slot);
      if (it != made_.end() && it->second.kind == Kind::kSlot && it->second.depth == depth) {
        Unite(it->second.counter, object);
        expected.insert(slot);
      } else if (!common_ || it != made_.end()) {
        Spoil(object);
        if (it != made_.end()) Spoil(it->second.counter);
      }
    }
    if (op.kind == OpKind::kMbarWait) {
      const ValueId mbar = op.operands[0], parity = op.operands[1];
      const ValueId slot = SlotOperand(op, fn_);
      const auto it = made_.find(parity);
      const int64_t depth = fn_.def(mbar) ? DepthOf(mbar) : 0;
      const bool fits =
          it != made_.end() && it->second.kind == Kind::kParity && it->second.depth == depth &&
          (depth == 1 || (made_.count(slot) && made_.at(slot).count == it->second.count));
      if (fits) {
        Unite(it->second.counter, mbar);
        expected.insert(parity);
      } else {
        Spoil(mbar);
        for (ValueId v : {parity, slot})
          if (made_.count(v)) Spoil(made_.at(v).counter);
      }
    }
    for (size_t i = 0; i < op.operands.size(); ++i) {
      const ValueId v = op.operands[i];
      const auto it = made_.find(v);
      if (it == made_.end() || expected.count(v)) continue;
      if (!Derive(op, i, it->second)) Spoil(it->second.counter);
    }
  }

  // c mod d, c / d, (c / d) & 1, and that xor 1.
  bool Derive(const Op& op, size_t index, const Made& from) {
    if (index != 0 || op.operands.size() != 2 || op.results.size() != 1) return false;
    const int64_t c = Constant(op.operands[1]);
    Made made = from;
    if (from.kind == Kind::kCount && op.kind == OpKind::kAdd && c >= 0) {
      // an earlier or later transfer: still made from this count alone
    } else if (from.kind == Kind::kCount && (op.kind == OpKind::kMod || op.kind == OpKind::kDiv) &&
               c > 1) {
      made.kind = op.kind == OpKind::kMod ? Kind::kSlot : Kind::kTurn;
      made.depth = c;
    } else if ((from.kind == Kind::kTurn || from.kind == Kind::kCount) && op.kind == OpKind::kAnd &&
               c == 1) {
      made.kind = Kind::kParity;
      if (from.kind == Kind::kCount) made.depth = 1;
    } else if (from.kind != Kind::kParity || op.kind != OpKind::kXor || c != 1) {
      return false;
    }
    made_[op.results[0]] = made;
    return true;
  }

  // The slots of a buffer are cut alike and shared with nobody.
  void CheckBuffers() {
    int64_t scratch = INT64_MAX;
    WalkOps(fn_, fn_.body, [&](OpId id) {
      const Op& op = fn_.ops[id];
      if (op.attr("scratch") && op.i("scratch") >= 0) scratch = std::min(scratch, op.i("scratch"));
    });
    for (const auto& [v, b] : p_.buffers) {
      if (b.depth <= 1 || !parent_.count(v)) continue;
      const int64_t end = b.offset + b.depth * b.slot_bytes;
      bool alone = end <= scratch;
      for (const auto& [other, o] : p_.buffers)
        alone = alone &&
                (other == v || o.offset + o.depth * o.slot_bytes <= b.offset || end <= o.offset);
      const auto [first, last] = p_.RegionsOf(b.offset, b.offset + b.slot_bytes);
      for (int64_t s = 1; s < b.depth; ++s) {
        const int64_t at = b.offset + s * b.slot_bytes;
        const auto [begin, stop] = p_.RegionsOf(at, at + b.slot_bytes);
        alone = alone && stop - begin == last - first;
        for (int i = 0; alone && i < last - first; ++i)
          alone = p_.cuts[static_cast<size_t>(begin + i)] - at ==
                  p_.cuts[static_cast<size_t>(first + i)] - b.offset;
      }
      if (!alone) Spoil(v);
    }
  }

  void Collect() {
    std::set<ValueId> bad;
    for (ValueId v : spoiled_) bad.insert(Find(v));
    // All members of a group have one depth.
    std::map<ValueId, int64_t> depth;
    std::map<ValueId, ValueId> roots;
    for (const auto& [v, up] : parent_) roots[v] = Find(v);
    for (const auto& [v, root] : roots) {
      const Op* def = fn_.def(v);
      if (!def || def->kind == OpKind::kCounter) continue;
      const auto [it, fresh] = depth.try_emplace(root, DepthOf(v));
      if (!fresh && it->second != DepthOf(v)) bad.insert(root);
    }
    std::map<ValueId, int> group;
    for (const auto& [v, root] : roots) {
      if (bad.count(root) || !depth.count(root)) continue;
      const auto [it, fresh] = group.try_emplace(root, static_cast<int>(rings_.groups.size()));
      if (fresh) rings_.groups.emplace_back();
      RingGroup& g = rings_.groups[static_cast<size_t>(it->second)];
      g.depth = depth[root];
      switch (fn_.def(v)->kind) {
        case OpKind::kCounter:
          g.counters.push_back(v);
          rings_.of_counter[v.index] = it->second;
          break;
        case OpKind::kMbarAlloc: g.mbars.push_back(v); break;
        default: g.buffers.push_back(v); break;
      }
    }
    for (const auto& [v, made] : made_) {
      const auto it = rings_.of_counter.find(made.counter.index);
      if (it == rings_.of_counter.end()) continue;
      rings_.count_of[v.index] = made.count;
      rings_.of_count[made.count.index] = it->second;
    }
  }

  const Program& p_;
  const Function& fn_;
  Rings& rings_;
  bool common_ = true;
  std::map<ValueId, Made> made_;
  std::map<ValueId, ValueId> parent_;
  std::set<ValueId> spoiled_;
};

}  // namespace

Rings::Rings(const Program& program) { RingFinder(program, *this).Run(); }

}  // namespace tilec::ir::warp_check
