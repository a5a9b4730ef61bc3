// SPDX-License-Identifier: Apache-2.0
#include "ir/passes/loops_of_rows.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <set>
#include <string>
#include <tuple>

#include "ir/queries.h"

namespace tilec::ir {
namespace {

using Kept = KeptLoad;
using Loops = RowLoops;

class Finder {
 public:
  explicit Finder(const Function& fn) : fn_(fn) {}

  std::vector<Loops> Find(BlockId block) const {
    std::map<std::tuple<ValueId, int64_t, int64_t, int64_t>, Loops> alike;
    for (OpId id : fn_.blocks[block].ops) {
      const Op& op = fn_.ops[id];
      if (op.kind != OpKind::kFor) continue;
      const std::optional<Bounds> at = BoundsOf(op);
      if (!at || at->lo >= at->hi || !Straight(op)) continue;
      int64_t length = 0;
      const int64_t step = op.i("step");
      if (__builtin_sub_overflow(at->hi, at->lo, &length) || length > kMostUnrolledTurns * step)
        continue;
      Loops& loops = alike[{at->base, at->lo, at->hi, step}];
      loops.ids.push_back(id);
      loops.base = at->base;
      loops.lo = at->lo;
      loops.step = step;
      loops.turns = (length + step - 1) / step;
    }
    std::vector<Loops> out;
    for (auto& [bounds, loops] : alike) {
      FindKept(loops);
      if (!loops.kept.empty()) out.push_back(std::move(loops));
    }
    return out;
  }

 private:
  struct Bounds {
    ValueId base;
    int64_t lo = 0, hi = 0;
  };
  // Numbers; or `base` and a number more: a CTA's part of a loop (ir/passes/split_loops.cc).
  std::optional<Bounds> BoundsOf(const Op& loop) const {
    const int64_t* lo = IntConstantOf(fn_, loop.operands[0]);
    const int64_t* hi = IntConstantOf(fn_, loop.operands[1]);
    if (lo && hi) return Bounds{{}, *lo, *hi};
    const Op* end = fn_.def(loop.operands[1]);
    if (lo || !end || end->kind != OpKind::kAdd || end->operands[0] != loop.operands[0])
      return std::nullopt;
    const int64_t* length = IntConstantOf(fn_, end->operands[1]);
    if (!length) return std::nullopt;
    return Bounds{loop.operands[0], 0, *length};
  }
  // Without branches, and nothing says how it is to be pipelined.
  bool Straight(const Op& loop) const {
    for (OpId id : fn_.blocks[loop.regions[0]].ops) {
      const Op& op = fn_.ops[id];
      if (!op.regions.empty() || op.attr("pin_depth") || op.attr("pin_stage") ||
          op.attr("pin_role"))
        return false;
    }
    return true;
  }

  // Leaves the loops that read something that another one reads.
  void FindKept(Loops& loops) const {
    std::vector<Kept> all;
    for (size_t i = 0; i < loops.ids.size(); ++i)
      for (OpId id : fn_.blocks[loops.body(fn_, i)].ops) {
        const Op& op = fn_.ops[id];
        if (!IsReadOnlyLoad(fn_, op) || !Moves(loops, i, op)) continue;
        if (fn_.type(op.results[0]).rank() < 2) {  // of vectors all rows read the same: caches do
          loops.vectors.push_back({{{i, id}}, true});
          continue;
        }
        auto known = std::find_if(all.begin(), all.end(), [&](const Kept& k) {
          const auto& [first, load] = *k.in.begin();
          return Same(loops, first, fn_.ops[load].results[0], i, op.results[0]);
        });
        if (known == all.end()) known = all.insert(all.end(), Kept{});
        known->in.emplace(i, id);
      }
    std::set<size_t> used;
    for (Kept& k : all) {
      if (k.in.size() < 2) continue;
      for (const auto& [i, load] : k.in) used.insert(i);
      loops.kept.push_back(std::move(k));
    }
    std::map<size_t, size_t> to;
    std::vector<OpId> left;
    for (size_t i : used) {
      to[i] = left.size();
      left.push_back(loops.ids[i]);
    }
    loops.ids = std::move(left);
    std::erase_if(loops.vectors, [&](const Kept& k) { return to.count(k.in.begin()->first) == 0; });
    for (std::vector<Kept>* some : {&loops.kept, &loops.vectors})
      for (Kept& k : *some) {
        std::map<size_t, OpId> in;
        for (const auto& [i, load] : k.in) in[to.at(i)] = load;
        k.in = std::move(in);
      }
  }

  bool Inside(const Loops& loops, size_t i, ValueId v) const {
    return BlockOf(fn_, v) == loops.body(fn_, i);
  }
  // Are the two the same function of their loop's position, and of nothing else that changes?
  bool Same(const Loops& loops, size_t i, ValueId a, size_t j, ValueId b) const {
    if (loops.IsPosition(fn_, i, a)) return loops.IsPosition(fn_, j, b);
    if (const Op* x = fn_.def(a), *y = fn_.def(b);
        x && y && x->kind == OpKind::kConstant && y->kind == OpKind::kConstant)
      return fn_.type(a) == fn_.type(b) && SameBits(*x->attr("value"), *y->attr("value"));
    if (!Inside(loops, i, a)) return a == b;
    if (fn_.values[a].block.valid() || !Inside(loops, j, b) || fn_.values[b].block.valid())
      return false;
    const Op &x = *fn_.def(a), &y = *fn_.def(b);
    if (x.kind != y.kind || x.attrs != y.attrs || x.results.size() != 1 ||
        x.operands.size() != y.operands.size() || fn_.type(a) != fn_.type(b))
      return false;
    if (Info(x.kind).effect != OpEffect::kPure && !IsReadOnlyLoad(fn_, x)) return false;
    for (size_t k = 0; k < x.operands.size(); ++k)
      if (!Same(loops, i, x.operands[k], j, y.operands[k])) return false;
    return true;
  }
  static bool SameBits(const AttrValue& a, const AttrValue& b) {  // 0 is not −0
    const double *x = std::get_if<double>(&a), *y = std::get_if<double>(&b);
    return x && y ? std::bit_cast<uint64_t>(*x) == std::bit_cast<uint64_t>(*y) : a == b;
  }
  // One range of it begins at the position, others do not depend on the turn.
  bool Moves(const Loops& loops, size_t i, const Op& load) const {
    const std::string& modes = load.s("modes");
    if (modes.empty() || modes.back() != 'r' || !fn_.type(load.results[0]).is_tile() ||
        modes.find('f') != std::string::npos)
      return false;
    int moving = 0;
    for (size_t k = 1; k < load.operands.size(); ++k) {
      const ValueId v = load.operands[k];
      const Op* def = fn_.def(v);
      const bool fixed = !Inside(loops, i, v) || (def && def->kind == OpKind::kConstant);  // a fill
      const bool moves = loops.IsPosition(fn_, i, v) && k <= modes.size() && modes[k - 1] == 'r';
      if (!fixed && !moves) return false;
      moving += moves;
    }
    return moving == 1;
  }

  const Function& fn_;
};

}  // namespace

std::vector<RowLoops> FindLoopsOfRows(const Function& fn, BlockId block) {
  return Finder(fn).Find(block);
}

}  // namespace tilec::ir
