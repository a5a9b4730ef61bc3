// SPDX-License-Identifier: Apache-2.0
#include "ir/lower/resident_sums.h"

#include <algorithm>
#include <optional>

#include "ir/lower/emit_rules.h"
#include "ir/lower/operands.h"
#include "ir/lower/scalars.h"
#include "ir/lower/tensor_sums.h"
#include "ir/queries.h"

namespace tilec::ir {

namespace {

class ResidentSumFinder {
 public:
  ResidentSumFinder(const Function& fn, const LayoutPlan& tiles, const Uses& uses,
                    const std::set<OpId>& apart)
      : fn_(fn), tiles_(tiles), uses_(uses), apart_(apart) {}

  std::vector<TensorSum> Run() {
    Walk(fn_.body);
    return std::move(sums_);
  }

 private:
  // Where the values of a sum come to an end in a block: it yields them as number `index`, or
  // `value` is the last one, and threads load it.
  struct Ending {
    std::optional<size_t> index;
    ValueId value;
  };

  void Walk(BlockId block) {
    for (OpId id : fn_.blocks[block].ops) {
      const Op& op = fn_.ops[id];
      if (op.kind == OpKind::kFor)
        for (size_t i = 0; i < op.results.size(); ++i) Begin(id, i);
      for (BlockId region : op.regions) Walk(region);
    }
  }

  void Begin(OpId home, size_t carried) {
    const Op& loop = fn_.ops[home];
    const BlockId body = loop.regions[0];
    const ValueId from = fn_.blocks[body].args[1 + carried];
    if (taken_.count(from)) return;
    TensorSum sum;
    sum.home = home;
    sum.carried = carried;
    const Ending inside = Follow(from, body, &sum, true);
    if (inside.index != carried || sum.dots.empty()) return;
    if (sum.changes.empty() && !ThroughBranch(sum)) return;  // products alone, one after another
    const Ending end = Follow(loop.results[carried], loop.block, &sum, false);
    sum.result = end.value;
    sum.inside.erase(end.value);
    sum.first = sum.last = home;
    sum.init = loop.operands[2 + carried];
    sum.always = true;
    if (Sliced(from)) {
      sum.entry = Leading(sum, home, [&](const Uses::Use& use) {
        return use.reader == home && use.operand == 2 + carried;
      });
      if (!sum.entry && !HasSlices(sum.init)) return;
    } else if (!(tiles_.layouts.at(from) == tiles_.dots.at(sum.dots[0]).acc)) {
      return;
    }
    taken_.insert(sum.inside.begin(), sum.inside.end());
    sums_.push_back(std::move(sum));
  }

  // Does a product of the sum stand in an arm of a branch?
  bool ThroughBranch(const TensorSum& sum) const {
    const BlockId body = fn_.ops[sum.home].regions[0];
    return std::any_of(sum.dots.begin(), sum.dots.end(), [&](OpId dot) {
      for (BlockId at = fn_.ops[dot].block; at != body; at = fn_.ops[fn_.blocks[at].parent].block)
        if (fn_.ops[fn_.blocks[at].parent].kind == OpKind::kIf) return true;
      return false;
    });
  }

  // From `v` on to the end of its block, which may yield it. Where the sum ends, what is noted ends
  // with its last product, loop or branch: what changes it behind that is the threads' own work.
  Ending Follow(ValueId v, BlockId block, TensorSum* sum, bool yields) const {
    TensorSum kept = *sum;
    ValueId last = v;
    const auto stop = [&] {
      *sum = std::move(kept);
      sum->inside.insert(last);
      return Ending{{}, last};
    };
    while (true) {
      const std::vector<Uses::Use> uses = In(block, v);
      if (!InPlace(v, *sum) || uses.empty()) return stop();
      sum->inside.insert(v);
      const OpId where = AncestorIn(fn_, block, uses[0].reader);
      const Op& op = fn_.ops[where];
      if (op.kind == OpKind::kIf && where != uses[0].reader) {
        const std::optional<size_t> result = ThroughArms(v, where, sum);
        if (!result) return stop();
        v = op.results[*result];
      } else if (uses.size() != 1) {
        return stop();
      } else if (op.kind == OpKind::kYield) {
        if (!yields) return stop();
        return {uses[0].operand, v};
      } else if (op.kind == OpKind::kDot) {
        if (uses[0].operand != 2 || !Alike(where, *sum)) return stop();
        sum->dots.push_back(where);
        v = op.results[0];
      } else if (op.kind == OpKind::kFor) {
        const size_t carried = uses[0].operand - 2;
        if (where != uses[0].reader || uses[0].operand < 2 || !ThroughLoop(where, carried, sum))
          return stop();
        v = op.results[carried];
      } else if (const std::optional<ValueId> changed = Change(v, where, sum)) {
        v = *changed;
        continue;
      } else {
        return stop();
      }
      kept = *sum;
      last = v;
    }
  }

  // Its uses in a block and what is in it.
  std::vector<Uses::Use> In(BlockId block, ValueId v) const {
    std::vector<Uses::Use> out;
    for (const Uses::Use& use : uses_.of(v))
      if (AncestorIn(fn_, block, use.reader).valid()) out.push_back(use);
    return out;
  }

  bool ThroughLoop(OpId id, size_t carried, TensorSum* sum) const {
    const BlockId body = fn_.ops[id].regions[0];
    TensorSum inner = *sum;
    const Ending end = Follow(fn_.blocks[body].args[1 + carried], body, &inner, true);
    if (end.index != carried) return false;
    *sum = std::move(inner);
    return true;
  }

  // Every arm uses it, or yields it as it is, and yields the sum as the same result.
  std::optional<size_t> ThroughArms(ValueId v, OpId branch, TensorSum* sum) const {
    TensorSum inner = *sum;
    std::optional<size_t> result;
    for (const Uses::Use& use : uses_.of(v))
      if (AncestorIn(fn_, fn_.ops[branch].block, use.reader).valid() &&
          AncestorIn(fn_, fn_.ops[branch].block, use.reader) != branch)
        return {};
    for (BlockId arm : fn_.ops[branch].regions) {
      const Ending end = Follow(v, arm, &inner, true);
      if (!end.index || (result && *result != *end.index)) return {};
      result = end.index;
    }
    if (result) *sum = std::move(inner);
    return result;
  }

  // Elementwise work of the block that reads `v` and makes the next value of the sum of it.
  std::optional<ValueId> Change(ValueId v, OpId first, TensorSum* sum) const {
    OpId head;
    ValueId next = v;
    std::set<OpId> chain;
    for (OpId at = first; Changes(at, next, *sum);) {
      head = at;
      chain.insert(at);
      next = fn_.ops[at].results[0];
      const std::span<const Uses::Use> uses = uses_.of(next);
      if (uses.size() != 1 || fn_.ops[uses[0].reader].block != fn_.ops[head].block) break;
      at = uses[0].reader;
    }
    if (!head.valid()) return {};
    const std::optional<std::set<OpId>> ops =
        Leading(*sum, head, [&](const Uses::Use& use) { return chain.count(use.reader) > 0; });
    TensorSum::Change change{v, chain};
    if (ops) change.ops.insert(ops->begin(), ops->end());
    for (OpId id : change.ops)
      for (ValueId read : fn_.ops[id].operands)
        if (read != v && !change.ops.count(fn_.values[read].def) && !HasSlices(read)) return {};
    sum->changes[head] = std::move(change);
    return next;
  }

  bool Changes(OpId id, ValueId v, const TensorSum& sum) const {
    const Op& op = fn_.ops[id];
    if (!Info(op.kind).elementwise() || Marked(op, sum) || op.results.size() != 1 ||
        fn_.type(op.results[0]) != fn_.type(v) || !InPlace(op.results[0], sum) ||
        !Sliced(op.results[0]))
      return false;
    for (size_t i = 0; i < op.operands.size(); ++i)
      if (op.operands[i] == v && !MadeByColumns(fn_, tiles_, op, i)) return false;
    return true;
  }

  // What the role may not do elsewhere than in its place, or another role does.
  bool Marked(const Op& op, const TensorSum& sum) const {
    return op.attr("signal") || op.attr("await") ||
           (op.attr("role") && !sum.dots.empty() && op.i("role") != fn_.ops[sum.dots[0]].i("role"));
  }

  // Elementwise work and broadcasts in front of `end` that only lead to what `reads` it, by
  // columns; nothing: there is none.
  template <typename F>
  std::optional<std::set<OpId>> Leading(const TensorSum& sum, OpId end, const F& reads) const {
    std::set<OpId> out;
    std::set<ValueId> whole;
    const auto by_columns = [&](OpId id) {
      const Op& op = fn_.ops[id];
      for (size_t i = 0; i < op.operands.size(); ++i)
        if (!MadeByColumns(fn_, tiles_, op, i)) whole.insert(op.operands[i]);
    };
    const std::vector<OpId>& block = fn_.blocks[fn_.ops[end].block].ops;
    for (auto at = std::find(block.rbegin(), block.rend(), end); at != block.rend(); ++at) {
      const Op& op = fn_.ops[*at];
      const bool kind = Info(op.kind).elementwise() || op.kind == OpKind::kBroadcast;
      if (*at == end || !kind || Marked(op, sum) || whole.count(op.results[0]) ||
          !tiles_.layouts.count(op.results[0]))
        continue;
      const std::span<const Uses::Use> uses = uses_.of(op.results[0]);
      if (uses.empty() || !std::all_of(uses.begin(), uses.end(), [&](const Uses::Use& use) {
            return out.count(use.reader) > 0 || reads(use);
          }))
        continue;
      out.insert(*at);
      by_columns(*at);
    }
    for (OpId id : out)
      for (ValueId read : fn_.ops[id].operands)
        if (!out.count(fn_.values[read].def) && !HasSlices(read)) return {};
    if (out.empty()) return {};
    return out;
  }

  // May it be a value of the sum? What changes it is made a few columns at a time.
  bool InPlace(ValueId v, const TensorSum& sum) const {
    const auto layout = tiles_.layouts.find(v);
    if (layout == tiles_.layouts.end() || fn_.type(v).dtype != DType::kF32) return false;
    if (!sum.dots.empty() && !(layout->second == tiles_.dots.at(sum.dots[0]).acc)) return false;
    return Sliced(v) || tiles_.warpgroups > 1;
  }
  // May threads have the tile a few columns at a time? Not where warpgroups have other columns
  // each: such a sum is stored and loaded as a whole.
  bool Sliced(ValueId v) const { return ColumnsOfSlice(fn_.type(v), tiles_.layouts.at(v)) > 0; }
  // May what is read as a whole be cut into slices? Vectors are broadcast.
  bool HasSlices(ValueId v) const {
    const Op* def = fn_.def(v);
    if (def && def->kind == OpKind::kConstant) return true;
    const auto layout = tiles_.layouts.find(v);
    return layout == tiles_.layouts.end() || layout->second.rank < 2 ||
           ColumnsOfSlice(fn_.type(v), layout->second) > 0;
  }

  // A product that may add to the sum: the same unit, role, shape and split as those before it.
  bool Alike(OpId id, const TensorSum& sum) const {
    const auto plan = tiles_.dots.find(id);
    if (plan == tiles_.dots.end() || !InTensorMemory(plan->second.unit) ||
        plan->second.promote != 0 || apart_.count(id))
      return false;
    const auto layout = tiles_.layouts.find(fn_.ops[id].results[0]);
    if (layout == tiles_.layouts.end() || !(layout->second == plan->second.acc)) return false;
    if (sum.dots.empty()) return true;
    const DotPlan& a = tiles_.dots.at(sum.dots[0]);
    return a.unit == plan->second.unit && a.split == plan->second.split &&
           a.acc == plan->second.acc && fn_.ops[sum.dots[0]].i("role") == fn_.ops[id].i("role") &&
           fn_.type(fn_.ops[sum.dots[0]].results[0]) == fn_.type(fn_.ops[id].results[0]);
  }

  const Function& fn_;
  const LayoutPlan& tiles_;
  const Uses& uses_;
  const std::set<OpId>& apart_;
  std::vector<TensorSum> sums_;
  std::set<ValueId> taken_;
};

}  // namespace

std::vector<TensorSum> FindResidentSums(const Function& fn, const LayoutPlan& tiles,
                                        const Uses& uses, const std::set<OpId>& apart) {
  return ResidentSumFinder(fn, tiles, uses, apart).Run();
}

}  // namespace tilec::ir
