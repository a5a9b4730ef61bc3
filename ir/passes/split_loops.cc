// A row of a hundred thousand columns is reduced, and then walked again with what came of that. If
// there are fewer rows than SMs, several CTAs walk each:
//
//     parallel i, … { x = for c in lo..hi step s (x = x0) { x + f(c) }
//                     for c in lo..hi step s { Y[i, c] = g(x, c) } }   →
//     parallel {cluster = n} z in 0..n, i, … {
//         p = for c in (CTA z's part of lo..hi) (x = 0) { x + f(c) }
//         x = x0 + cluster_reduce_all(p)
//         for c in (CTA z's part of lo..hi) { Y[i, c] = g(x, c) } }
//
// What a loop of the grid's body carries has to be what parts can be made one of
// (ir/passes/loop_parts.h); all CTAs get it, in the order of their ranks and so the same bits. What
// it stores has to be each turn's own elements. What is written between the loops is written by the
// first CTA. Products stay as they are: their tiles are too large to be given to all.
//
// SPDX-License-Identifier: Apache-2.0
#include "ir/passes/split_loops.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "ir/passes/loop_parts.h"
#include "ir/passes/rewrite.h"
#include "ir/queries.h"
#include "ir/uses.h"

namespace tilec::ir {
namespace {

Obstacle NotSplit(std::string why, Span at) { return {std::move(why), at}; }

OpId GridOf(const Function& fn) {
  OpId grid;
  for (OpId id : fn.blocks[fn.body].ops)
    if (fn.ops[id].kind == OpKind::kParallel) grid = id;
  return grid;
}

class Split {
 public:
  Split(Function& fn, int64_t ctas) : fn_(fn), ctas_(ctas), uses_(fn), grid_(GridOf(fn)) {}

  std::optional<Obstacle> Run() {
    if (std::optional<Obstacle> obstacle = Look()) return obstacle;
    Rewrite();
    return std::nullopt;
  }

 private:
  BlockId Body() const { return fn_.ops[grid_].regions[0]; }

  std::optional<Obstacle> Look() {
    const Op& grid = fn_.ops[grid_];
    if (grid.operands.empty()) return NotSplit("it has no grid", {});
    if (grid.i("cluster", 1) > 1) return NotSplit("its CTAs come in clusters already", grid.at);
    if (std::optional<Obstacle> obstacle = Everywhere(Body())) return obstacle;
    for (OpId id : fn_.blocks[Body()].ops) {
      const Op& op = fn_.ops[id];
      if (op.kind == OpKind::kWhile) return NotSplit("it has a `while`", op.at);
      if (op.kind != OpKind::kFor) {
        if (Writes(fn_, id) && !op.results.empty())
          return NotSplit("it writes what it takes a result of", op.at);
        continue;
      }
      if (op.i("narrow", 0) != 0) return NotSplit("a loop counts in 32 bits", op.at);
      if (std::optional<Obstacle> obstacle = StoresApart(op)) return obstacle;
      if (op.results.empty()) continue;
      LoopParts& parts = parts_[id];
      if (std::optional<Obstacle> obstacle = FindLoopParts(fn_, uses_, id, &parts)) return obstacle;
      if (parts.rescaled && Writes(fn_, id))
        return NotSplit("a loop writes beside sums relative to a value that only it has", op.at);
    }
    if (parts_.empty()) return NotSplit("nothing comes of its loops but what they store", grid.at);
    return std::nullopt;
  }

  std::optional<Obstacle> Everywhere(BlockId block) {
    for (OpId id : fn_.blocks[block].ops) {
      const Op& op = fn_.ops[id];
      if (op.kind == OpKind::kDot) return NotSplit("it has several loops, and products", op.at);
      if (op.kind == OpKind::kLoad && !IsReadOnlyLoad(fn_, op))
        return NotSplit("it reads a tensor that it writes", op.at);
      if (op.kind == OpKind::kStore || op.kind == OpKind::kAtomic) ++written_[op.operands[0]];
      for (BlockId region : op.regions)
        if (std::optional<Obstacle> obstacle = Everywhere(region)) return obstacle;
    }
    return std::nullopt;
  }

  // Does every turn write elements that nothing else writes?
  std::optional<Obstacle> StoresApart(const Op& loop) const {
    const BlockId body = loop.regions[0];
    const ValueId position = fn_.blocks[body].args[0];
    for (OpId id : fn_.blocks[body].ops) {
      if (!Writes(fn_, id)) continue;
      const Op& op = fn_.ops[id];
      if (op.kind != OpKind::kStore || written_.at(op.operands[0]) > 1)
        return NotSplit("a loop writes something else than elements of its own", op.at);
      const std::string& modes = op.s("modes");
      bool apart = false;
      for (size_t d = 0, operand = 2; d < modes.size(); operand += OperandsOf(modes[d++], true)) {
        const int64_t size = modes[d] == 'r' ? op.ints("sizes")[d] : 1;
        const bool moves = modes[d] == 'r' || modes[d] == 's';
        apart = apart || (moves && op.operands[operand] == position && size <= loop.i("step"));
      }
      if (!apart) return NotSplit("turns of a loop write the same elements", op.at);
    }
    return std::nullopt;
  }

  void Rewrite() {
    for (const auto& [id, parts] : parts_) GuardReference(fn_, parts);
    const ValueId z = AddClusterRange(fn_, grid_, ctas_);
    const BlockId body = Body();
    std::vector<OpId> old = std::move(fn_.blocks[body].ops);
    fn_.blocks[body].ops.clear();
    Forwarding forward(fn_);
    Builder b(fn_, body);
    ValueId first;
    for (size_t i = 0; i < old.size(); ++i) {
      const OpId id = old[i];
      ReplaceOperands(fn_, id, forward);
      b.SetSpan(fn_.ops[id].at);
      if (fn_.ops[id].kind == OpKind::kFor) {
        Loop(b, id, z, {old.begin() + static_cast<ptrdiff_t>(i) + 1, old.end()}, forward);
      } else if (Writes(fn_, id)) {
        if (!first.valid()) first = b.Cmp("eq", z, b.Int(0));
        const OpId branch = b.Add(OpKind::kIf, {first}, {});
        const BlockId then = fn_.AddBlock(branch), otherwise = fn_.AddBlock(branch);
        fn_.ops[branch].regions = {then, otherwise};
        Builder(fn_, otherwise).Yield({});
        fn_.ops[id].block = then;
        fn_.blocks[then].ops.push_back(id);
        Builder(fn_, then).Yield({});
      } else if (moved_.count(id) == 0) {
        fn_.blocks[body].ops.push_back(id);
      }
    }
  }

  // A CTA's turns. Parts of one length, which is known, say so (ir/passes/keep_rows.cc). The last
  // turn of all may reach beyond the loop's end, as it does in one CTA.
  std::pair<ValueId, ValueId> PartOf(Builder& b, const Op& loop, ValueId z) const {
    const int64_t* lo = IntConstantOf(fn_, loop.operands[0]);
    const int64_t* hi = IntConstantOf(fn_, loop.operands[1]);
    int64_t all = 0;
    const int64_t step = loop.i("step");
    if (!lo || !hi || __builtin_sub_overflow(*hi, *lo, &all) || all <= 0 ||
        CeilDiv(all, step) % ctas_ != 0)
      return TurnsOf(b, loop, z, ctas_);
    const ValueId length = b.Int(CeilDiv(all, step) / ctas_ * step);
    const ValueId begin =
        b.Binary(OpKind::kAdd, loop.operands[0], b.Binary(OpKind::kMul, z, length));
    return {begin, b.Binary(OpKind::kAdd, begin, length)};
  }

  void Loop(Builder& b, OpId id, ValueId z, const std::vector<OpId>& behind, Forwarding& forward) {
    const Op loop = fn_.ops[id];
    // Loops alike have one part, so what they read again can be kept.
    const auto number = [&](size_t i) {
      const int64_t* known = IntConstantOf(fn_, loop.operands[i]);
      return known ? std::pair(ValueId(), *known) : std::pair(loop.operands[i], int64_t{0});
    };
    const auto [known, fresh] = turns_.try_emplace({number(0), number(1), loop.i("step")});
    if (fresh) known->second = PartOf(b, loop, z);
    const auto [begin, end] = known->second;
    std::vector<ValueId> operands = loop.operands;
    operands[0] = begin, operands[1] = end;
    const auto found = parts_.find(id);
    const LoopParts none, &parts = found == parts_.end() ? none : found->second;
    std::map<size_t, ValueId> starts;  // added behind the loop
    for (size_t i = 0; i < loop.results.size(); ++i) {
      if (parts.kinds[i] != "add" || IsZero(fn_, loop.operands[2 + i])) continue;
      starts[i] = loop.operands[2 + i];
      operands[2 + i] = b.Constant(fn_.type(loop.results[i]), 0);
    }
    fn_.ops[id].operands = std::move(operands);
    fn_.blocks[Body()].ops.push_back(id);
    std::map<size_t, ValueId> together = CombineRescaled(b, fn_, parts, true);
    together.merge(CombinePlaces(b, fn_, parts, z, true));
    for (size_t i = 0; i < loop.results.size(); ++i) {
      ValueId own = loop.results[i];
      if (const auto known = together.find(i); known != together.end()) {
        Give(forward, own, known->second);
        continue;
      }
      // What is reduced behind the loop anyway is combined then: rows in place of tiles.
      if (const OpId reduce = ReducedBehind(fn_, uses_, own, parts.kinds[i], behind);
          reduce.valid() && starts.count(i) == 0) {
        moved_.insert(reduce);
        fn_.blocks[Body()].ops.push_back(reduce);
        own = fn_.ops[reduce].results[0];
      }
      const ValueId all = b.Value(OpKind::kClusterReduce, {own}, fn_.type(own),
                                  {{"kind", parts.kinds[i]}, {"all", int64_t{1}}});
      const auto start = starts.find(i);
      Give(forward, own, start == starts.end() ? all : b.Binary(OpKind::kAdd, start->second, all));
    }
  }
  void Give(Forwarding& forward, ValueId part, ValueId whole) {
    fn_.values[whole].name = fn_.values[part].name;
    forward.Replace(part, whole);
  }

  Function& fn_;
  const int64_t ctas_;
  const Uses uses_;
  const OpId grid_;
  std::map<OpId, LoopParts> parts_;           // by loop that carries something
  using Bound = std::pair<ValueId, int64_t>;  // or a number
  std::map<std::tuple<Bound, Bound, int64_t>, std::pair<ValueId, ValueId>> turns_;
  std::map<ValueId, int> written_;  // in how many places, by tensor
  std::set<OpId> moved_;            // from behind a loop to its end
};

}  // namespace

bool HasSeveralLoops(const Function& fn) {
  const OpId grid = GridOf(fn);
  if (!grid.valid()) return false;
  const std::vector<OpId>& ops = fn.blocks[fn.ops[grid].regions[0]].ops;
  return std::count_if(ops.begin(), ops.end(),
                       [&](OpId id) { return fn.ops[id].kind == OpKind::kFor; }) > 1;
}

std::optional<Obstacle> SplitLoops(Function& fn, int64_t ctas) { return Split(fn, ctas).Run(); }

}  // namespace tilec::ir
