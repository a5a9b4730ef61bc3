// A grid of few tiles leaves SMs idle however long its loops are. If all that a loop
// carries is added up (or its largest or smallest is kept), its iterations may be dealt out:
//
//     parallel i, … { x = for k in lo..hi step s (x = x0) { x + f(k) }  rest(x) }   →
//     parallel {cluster = n} z in 0..n, i, … {
//         p = for k in lo + z·chunk·s .. min(hi, lo + (z + 1)·chunk·s) step s (x = 0) { x + f(k) }
//         c = cluster_reduce(p)
//         if z == 0 { x = x0 + c  rest(x) } }
//
// with chunk = ⌈iterations / n⌉. Products are sums. CTA z takes neighbouring iterations in their
// order, and the parts are added up in an order of their own: the result does not depend on timing.
// What stands before the loop and is not needed inside goes behind it, into the branch.
//
// Where all that stands behind sums of products follows their columns (ir/passes/slice_columns.h),
// and each run of columns lies in the same registers of all threads, no CTA collects them:
//
//     c = cluster_reduce {slices = s} (p)      if z < s { x = x0[z·w : w] + c  rest(x) }
//
// A largest or smallest value starts from x0 in every CTA, which is the same.
//
// Sums that the loop keeps relative to a largest value (softmax: ir/passes/rescaled_sums.h) are
// combined relative to the largest of all parts, by the loop's own factor:
//
//     n = cluster_reduce_all(max, m)      l = cluster_reduce(add, l · f(m, n))
//
// A part in which a row has seen nothing but −∞ has m = −∞; the loop as it was written may count on
// having seen more, so its factors and terms take 0 for such an m', which makes all of them 0.
//
// SPDX-License-Identifier: Apache-2.0
#include "ir/passes/split_reductions.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ir/lower/plan.h"
#include "ir/passes/loop_parts.h"
#include "ir/passes/rewrite.h"
#include "ir/passes/slice_columns.h"
#include "ir/passes/split_loops.h"
#include "ir/uses.h"

namespace tilec::ir {
namespace {

class ReductionSplit {
 public:
  ReductionSplit(Function& fn, int64_t ctas) : fn_(fn), ctas_(ctas), uses_(fn) {}

  std::optional<Obstacle> Run() {
    if (std::optional<Obstacle> obstacle = Look()) return obstacle;
    Rewrite();
    return std::nullopt;
  }

  // Each CTA stores columns of its own. False: it may not, or there is another obstacle.
  bool RunInSlices(const Target& target) {
    if (Look() || !FindSlices()) return false;
    Rewrite();
    const LayoutPlan plan = MakePlan(fn_, target, 0, /*runs_ahead=*/true);
    return std::all_of(sliced_.begin(), sliced_.end(), [&](size_t i) {
      const ValueId c = combined_[i];
      return SlicesFit(plan, *fn_.def(c), fn_.type(c));
    });
  }

  std::optional<Obstacle> Guard() {
    std::optional<Obstacle> obstacle = Look();
    if (!obstacle) GuardReference(fn_, parts_);
    return obstacle;
  }

  std::optional<Obstacle> Find(LongReduction* found) {
    std::optional<Obstacle> obstacle = Look();
    if (!obstacle && !parts_.places.empty())
      return No("its loop keeps the place of something", fn_.ops[loop_].at);
    if (!obstacle) *found = {grid_, loop_, parts_.kinds, parts_.rescaled};
    return obstacle;
  }

 private:
  const std::vector<OpId>& Body() const { return fn_.blocks[fn_.ops[grid_].regions[0]].ops; }
  static Obstacle No(std::string why, Span at) { return {std::move(why), at}; }

  std::optional<Obstacle> Look() {
    for (OpId id : fn_.blocks[fn_.body].ops)
      if (fn_.ops[id].kind == OpKind::kParallel) grid_ = id;
    if (!grid_.valid() || fn_.ops[grid_].operands.empty()) return No("it has no grid", {});
    const Op& grid = fn_.ops[grid_];
    if (grid.i("cluster", 1) > 1) return No("its CTAs come in clusters already", grid.at);
    for (OpId id : Body()) {
      const Op& op = fn_.ops[id];
      if (op.kind == OpKind::kWhile) return No("it has a `while`", op.at);
      if (op.kind != OpKind::kFor) continue;
      if (loop_.valid()) return No("it has several loops, one after the other", op.at);
      loop_ = id;
    }
    if (!loop_.valid()) return No("it has no loop", grid.at);
    const Op& loop = fn_.ops[loop_];
    if (loop.results.empty()) return No("nothing comes of its loop but what it stores", loop.at);
    if (loop.i("narrow", 0) != 0) return No("its loop counts in 32 bits", loop.at);
    for (OpId id : Body()) {
      if (id == loop_) break;
      if (Writes(fn_, id)) return No("it writes before its loop", fn_.ops[id].at);
    }
    if (std::optional<Obstacle> obstacle = MayGoAnywhere(fn_, loop.regions[0])) return obstacle;
    return FindLoopParts(fn_, uses_, loop_, &parts_);
  }

  std::vector<OpId> Tail() const {
    const std::vector<OpId>& all = Body();
    return {std::find(all.begin(), all.end(), loop_) + 1, all.end() - 1};
  }

  // May CTAs have runs of columns of what the loop makes?
  bool FindSlices() {
    const Op& loop = fn_.ops[loop_];
    const Op& yield = fn_.ops[fn_.blocks[loop.regions[0]].ops.back()];
    if (!parts_.places.empty()) return false;
    for (size_t i = 0; i < loop.results.size(); ++i) {
      const Op* product = fn_.def(yield.operands[i]);
      const bool sum = parts_.kinds[i] == "add" && product && product->kind == OpKind::kDot;
      if (sum)
        sliced_.insert(i);
      else if (!parts_.rescaled || !parts_.rescaled->Has(i) || fn_.type(loop.results[i]).rank() > 1)
        return false;  // of what is kept relative to it rows are everybody's
    }
    const std::vector<ValueId> sums = Sliced(loop);
    if (sums.empty() || fn_.type(sums[0]).rank() != 2) return false;
    for (ValueId sum : sums)
      if (fn_.type(sum) != fn_.type(sums[0])) return false;
    const ColumnSlices columns(fn_, sums, Tail(), ctas_);
    slices_ = columns.slices();
    if (!columns.Possible()) return false;
    for (size_t i : sliced_)
      if (!columns.MayCut(loop.operands[2 + i], 1)) return false;
    return true;
  }

  // Results of the loop whose columns are cut.
  std::vector<ValueId> Sliced(const Op& loop) const {
    std::vector<ValueId> out;
    for (size_t i : sliced_) out.push_back(loop.results[i]);
    return out;
  }

  // What stands behind, once for each slice; `block` has what is needed of the whole already.
  void StoreSlices(Builder& b, const Op& loop, const std::vector<OpId>& tail, ValueId z,
                   const std::vector<std::pair<size_t, ValueId>>& starts) {
    ColumnSlices columns(fn_, Sliced(loop), tail, ctas_);
    columns.Begin(b.Binary(OpKind::kMul, z, b.Int(slices_.width)));
    std::map<ValueId, ValueId> slices;
    for (size_t i : sliced_) slices[loop.results[i]] = combined_[i];
    for (const auto& [i, start] : starts)
      slices[loop.results[i]] = b.Binary(OpKind::kAdd, columns.Of(b, start, 1), combined_[i]);
    columns.Store(b, slices);
  }

  // What has none of the sums in it is stored by the first CTA. `moved`: what stands around the
  // loop; copies of it are made.
  void StoreOthers(Builder& b, const Op& loop, ValueId z, const std::vector<OpId>& tail,
                   const std::set<OpId>& moved) {
    const std::vector<OpId> others = ColumnSlices(fn_, Sliced(loop), tail, ctas_).others();
    if (others.empty()) return;
    const ValueId first = b.Cmp("eq", z, b.Int(0));
    const OpId branch = b.Add(OpKind::kIf, {first}, {});
    const BlockId then = fn_.AddBlock(branch), otherwise = fn_.AddBlock(branch);
    fn_.ops[branch].regions = {then, otherwise};
    Builder(fn_, otherwise).Yield({});
    Builder in(fn_, then);
    in.SetSpan(loop.at);
    ValueMap map;
    const std::function<void(OpId)> copy = [&](OpId id) {
      for (ValueId v : std::vector<ValueId>(fn_.ops[id].operands))
        if (const OpId def = fn_.values[v].def;
            map.count(v) == 0 && def.valid() && moved.count(def) > 0)
          copy(def);
      CloneOp(in, fn_, id, map);
    };
    for (OpId id : others) copy(id);
    in.Yield({});
  }

  // Without what only the whole tile needed.
  void DropUnused(BlockId block) {
    std::set<ValueId> used;
    std::vector<OpId> kept;
    const std::vector<OpId> ops = fn_.blocks[block].ops;
    for (auto it = ops.rbegin(); it != ops.rend(); ++it) {
      const Op& op = fn_.ops[*it];
      const bool wanted = Writes(fn_, *it) || op.kind == OpKind::kYield || !op.regions.empty() ||
                          std::any_of(op.results.begin(), op.results.end(),
                                      [&](ValueId v) { return used.count(v) > 0; });
      if (!wanted) continue;
      kept.push_back(*it);
      ReplaceOperands(fn_, *it, [&](ValueId v) { return used.insert(v), v; });
    }
    fn_.blocks[block].ops.assign(kept.rbegin(), kept.rend());
  }

  // Ops before the loop that its iterations or bounds need.
  void Need(ValueId v) {
    const OpId def = fn_.values[v].def;
    if (!def.valid() || fn_.ops[def].block != fn_.ops[grid_].regions[0]) return;
    if (!needed_.insert(def).second) return;
    NeedOperands(def);
  }
  void NeedOperands(OpId id) {
    for (ValueId v : std::vector<ValueId>(fn_.ops[id].operands)) Need(v);
    for (BlockId region : fn_.ops[id].regions)
      for (OpId inner : fn_.blocks[region].ops) NeedOperands(inner);
  }

  // By result of the loop, what the parts of all CTAs come to. What is reduced behind the loop
  // anyway is combined then: rows in place of tiles; `replaced` is what it stands for.
  using Starts = std::vector<std::pair<size_t, ValueId>>;  // results, and what is added behind
  std::vector<ValueId> Combine(Builder& b, const Op& loop, ValueId z, const Starts& starts,
                               std::vector<OpId>* tail, std::vector<ValueId>* replaced) {
    const BlockId body = fn_.ops[grid_].regions[0];
    std::vector<ValueId> sums;
    *replaced = loop.results;
    std::map<size_t, ValueId> together = CombineRescaled(b, fn_, parts_, false, slices_, sliced_);
    together.merge(CombinePlaces(b, fn_, parts_, z, false));
    for (size_t i = 0; i < loop.results.size(); ++i) {
      if (const auto known = together.find(i); known != together.end()) {
        sums.push_back(known->second);
        continue;
      }
      const bool late = std::any_of(starts.begin(), starts.end(),
                                    [&](const auto& start) { return start.first == i; });
      const OpId reduce =
          late ? OpId() : ReducedBehind(fn_, uses_, loop.results[i], parts_.kinds[i], *tail);
      if (reduce.valid()) {
        (*replaced)[i] = fn_.ops[reduce].results[0];
        fn_.blocks[body].ops.push_back(reduce);
        std::erase(*tail, reduce);
      }
      Type type = fn_.type((*replaced)[i]);
      Attrs attrs = {{"kind", parts_.kinds[i]}};
      if (slices_.count > 1)
        type.shape[1] = slices_.width, attrs.emplace_back("slices", slices_.count);
      sums.push_back(
          b.Value(OpKind::kClusterReduce, {(*replaced)[i]}, std::move(type), std::move(attrs)));
      fn_.values[sums[i]].name = fn_.values[(*replaced)[i]].name;
    }
    return sums;
  }

  void Rewrite() {
    GuardReference(fn_, parts_);
    const BlockId body = fn_.ops[grid_].regions[0];
    const std::vector<OpId> old = Body();
    const auto place = std::find(old.begin(), old.end(), loop_);
    std::vector<OpId> tail(place + 1, old.end() - 1);
    const OpId yield = old.back();

    const ValueId z = AddClusterRange(fn_, grid_, ctas_);

    // What stands before the loop, as far as it is needed there.
    const Op loop = fn_.ops[loop_];
    Starts starts;  // added behind the loop
    for (size_t i = 0; i < loop.results.size(); ++i) {
      const ValueId start = loop.operands[2 + i];
      if (parts_.kinds[i] == "add" && !IsZero(fn_, start))
        starts.emplace_back(i, start);
      else
        Need(start);
    }
    Need(loop.operands[0]), Need(loop.operands[1]);
    for (OpId inner : fn_.blocks[loop.regions[0]].ops) NeedOperands(inner);
    std::vector<OpId> later;
    fn_.blocks[body].ops.clear();
    for (auto it = old.begin(); it != place; ++it)
      (needed_.count(*it) ? fn_.blocks[body].ops : later).push_back(*it);

    // This CTA's turns.
    Builder b(fn_, body);
    b.SetSpan(loop.at);
    const auto [begin, end] = TurnsOf(b, loop, z, ctas_);
    std::vector<ValueId> operands = {begin, end};
    for (size_t i = 0; i < loop.results.size(); ++i) operands.push_back(loop.operands[2 + i]);
    for (const auto& [i, start] : starts)
      operands[2 + i] = b.Constant(fn_.type(loop.results[i]), 0);
    fn_.ops[loop_].operands = std::move(operands);
    fn_.blocks[body].ops.push_back(loop_);

    std::vector<ValueId> replaced;
    std::vector<ValueId> sums = Combine(b, loop, z, starts, &tail, &replaced);
    combined_ = sums;

    Forwarding forward(fn_);
    if (slices_.count > 1) {
      for (size_t i = 0; i < loop.results.size(); ++i)
        if (sliced_.count(i) == 0) forward.Replace(replaced[i], sums[i]);
      for (OpId id : tail) ReplaceOperands(fn_, id, forward);
      std::set<OpId> moved(tail.begin(), tail.end());
      moved.insert(later.begin(), later.end());
      StoreOthers(b, loop, z, tail, moved);
    }

    // The rest, in one of them, or in those that have slices.
    const ValueId first =
        slices_.count > 1 ? b.Cmp("lt", z, b.Int(slices_.count)) : b.Cmp("eq", z, b.Int(0));
    const OpId branch = b.Add(OpKind::kIf, {first}, {});
    const BlockId then = fn_.AddBlock(branch), otherwise = fn_.AddBlock(branch);
    fn_.ops[branch].regions = {then, otherwise};
    Builder(fn_, otherwise).Yield({});
    Builder in(fn_, then);
    in.SetSpan(loop.at);
    const auto move = [&](OpId id) {
      fn_.ops[id].block = then;
      fn_.blocks[then].ops.push_back(id);
    };
    for (OpId id : later) move(id);
    if (slices_.count > 1) {
      for (OpId id : tail)
        if (fn_.ops[id].kind != OpKind::kStore) move(id);
      StoreSlices(in, loop, tail, z, starts);
      in.Yield({});
      DropUnused(then);
      fn_.blocks[body].ops.push_back(yield);
      return;
    }
    for (const auto& [i, start] : starts) sums[i] = in.Binary(OpKind::kAdd, start, sums[i]);
    for (size_t i = 0; i < loop.results.size(); ++i) forward.Replace(replaced[i], sums[i]);
    for (OpId id : tail) {
      move(id);
      ReplaceOperands(fn_, id, forward);
    }
    in.Yield({});
    fn_.blocks[body].ops.push_back(yield);
  }

  Function& fn_;
  const int64_t ctas_;
  const Uses uses_;
  OpId grid_, loop_;
  LoopParts parts_;
  std::set<OpId> needed_;
  Slices slices_;
  std::set<size_t> sliced_;        // results of the loop whose columns are cut
  std::vector<ValueId> combined_;  // by result of the loop
};

}  // namespace

std::optional<Obstacle> FindLongReduction(const Function& fn, LongReduction* found) {
  Function copy = fn;
  return ReductionSplit(copy, 1).Find(found);
}

std::optional<Obstacle> SplitReductions(Function& fn, int64_t ctas, const Target& target) {
  if (HasSeveralLoops(fn)) return SplitLoops(fn, ctas);
  Function sliced = fn;
  if (ReductionSplit(sliced, ctas).RunInSlices(target)) {
    fn = std::move(sliced);
    return std::nullopt;
  }
  return ReductionSplit(fn, ctas).Run();
}

std::optional<Obstacle> GuardParts(Function& fn) { return ReductionSplit(fn, 1).Guard(); }

}  // namespace tilec::ir
