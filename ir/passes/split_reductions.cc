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
#include <limits>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ir/passes/rescaled_sums.h"
#include "ir/passes/rewrite.h"
#include "ir/uses.h"

namespace tilec::ir {
namespace {

class Split {
 public:
  Split(Function& fn, int64_t ctas) : fn_(fn), ctas_(ctas), uses_(fn) {}

  std::optional<Obstacle> Run() {
    if (std::optional<Obstacle> obstacle = Look()) return obstacle;
    Rewrite();
    return std::nullopt;
  }

  std::optional<Obstacle> Find(LongReduction* found) {
    std::optional<Obstacle> obstacle = Look();
    if (!obstacle) *found = {grid_, loop_, kinds_, rescaled_};
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
      if (Writes(id)) return No("it writes before its loop", fn_.ops[id].at);
    }
    if (std::optional<Obstacle> obstacle = Inside(loop.regions[0])) return obstacle;
    const std::vector<ValueId>& args = fn_.blocks[loop.regions[0]].args;
    const Op& yield = fn_.ops[fn_.blocks[loop.regions[0]].ops.back()];
    for (size_t i = 0; i < loop.results.size(); ++i) {
      const Type& type = fn_.type(loop.results[i]);
      if (ByteSize(type.dtype) != 4 || type.dtype == DType::kBool)
        return No("its loop carries something else than 32-bit numbers", loop.at);
      if (i == 0) rescaled_ = FindRescaledSums(fn_, loop_);
      if (rescaled_ && rescaled_->Has(i)) {
        if (i != rescaled_->reference && !IsZero(fn_, loop.operands[2 + i]))
          return No("what its loop rescales starts from something", loop.at);
        kinds_.push_back(i == rescaled_->reference ? "max" : "add");
        continue;
      }
      std::string kind;
      if (uses_.count(args[1 + i]) != 1 || uses_.count(yield.operands[i]) != 1 ||
          !Accumulates(yield.operands[i], args[1 + i], loop.regions[0], &kind))
        return No(
            "its loop carries what it does not only add up, or keep the largest or smallest of",
            loop.at);
      kinds_.push_back(kind);
    }
    return std::nullopt;
  }

  bool Writes(OpId id) const {
    const Op& op = fn_.ops[id];
    if (Info(op.kind).effect == OpEffect::kWrite) return true;
    return std::any_of(op.regions.begin(), op.regions.end(), [&](BlockId region) {
      const std::vector<OpId>& ops = fn_.blocks[region].ops;
      return std::any_of(ops.begin(), ops.end(), [&](OpId inner) { return Writes(inner); });
    });
  }

  // Iterations may go anywhere if they have no effect and nobody writes what they read.
  std::optional<Obstacle> Inside(BlockId block) const {
    for (OpId id : fn_.blocks[block].ops) {
      const Op& op = fn_.ops[id];
      if (Info(op.kind).effect == OpEffect::kWrite) return No("its loop writes", op.at);
      if (op.kind == OpKind::kLoad && !IsReadOnlyLoad(fn_, op))
        return No("its loop reads a tensor that it writes elsewhere", op.at);
      for (BlockId region : op.regions)
        if (std::optional<Obstacle> obstacle = Inside(region)) return obstacle;
    }
    return std::nullopt;
  }

  // Is v the carried value and terms, by ops of one kind whose results nobody else uses?
  bool Accumulates(ValueId v, ValueId carried, BlockId block, std::string* kind) const {
    if (v == carried) return !kind->empty();
    const Op* def = fn_.def(v);
    if (!def || def->block != block || uses_.count(v) != 1) return false;
    const auto goes_on = [&](const char* by, size_t operand) {
      if (!kind->empty() && *kind != by) return false;
      std::string before = std::exchange(*kind, by);
      if (Accumulates(def->operands[operand], carried, block, kind)) return true;
      *kind = std::move(before);
      return false;
    };
    switch (def->kind) {
      case OpKind::kDot:
      case OpKind::kFma: return goes_on("add", 2);
      case OpKind::kSub: return goes_on("add", 0);
      case OpKind::kAdd: return goes_on("add", 0) || goes_on("add", 1);
      case OpKind::kMax: return goes_on("max", 0) || goes_on("max", 1);
      case OpKind::kMin: return goes_on("min", 0) || goes_on("min", 1);
      default: return false;
    }
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

  // Behind the one that makes m' in the loop: m' or, where there is no largest value yet, 0, for
  // all who read m' but the next iteration.
  void Guard() {
    const BlockId body = fn_.ops[loop_].regions[0];
    const ValueId next = rescaled_->next;
    const std::vector<OpId> old = std::move(fn_.blocks[body].ops);
    fn_.blocks[body].ops.clear();
    Builder b(fn_, body);
    ValueMap map;
    for (OpId id : old) {
      if (fn_.ops[id].kind != OpKind::kYield) ReplaceOperands(fn_, id, map);
      fn_.blocks[body].ops.push_back(id);
      if (id != fn_.values[next].def) continue;
      b.SetSpan(fn_.ops[id].at);
      map[next] = OrZero(b, next);
    }
  }
  ValueId OrZero(Builder& b, ValueId m) {
    const Type type = fn_.type(m);
    const ValueId none = b.Cmp("eq", m, b.Constant(type, -std::numeric_limits<double>::infinity()));
    return b.Value(OpKind::kSelect, {none, b.Constant(type, 0), m}, type);
  }

  // v of the loop's body, with other values in place of some, in b's block.
  ValueId Cloned(Builder& b, ValueId v, ValueMap& map) {
    const OpId def = fn_.values[v].def;
    if (map.count(v) > 0 || !def.valid() || fn_.ops[def].block != fn_.ops[loop_].regions[0])
      return At(map, v);
    for (ValueId operand : std::vector<ValueId>(fn_.ops[def].operands)) Cloned(b, operand, map);
    CloneOp(b, fn_, def, map);
    return At(map, v);
  }

  // The parts of what is kept relative to a largest value, by result of the loop.
  std::map<size_t, ValueId> Rescaled(Builder& b) {
    std::map<size_t, ValueId> parts;
    if (!rescaled_) return parts;
    const std::vector<ValueId> results = fn_.ops[loop_].results;
    const ValueId own = results[rescaled_->reference];
    const ValueId all = b.Value(OpKind::kClusterReduce, {own}, fn_.type(own),
                                {{"kind", std::string("max")}, {"all", int64_t{1}}});
    parts[rescaled_->reference] = all;
    ValueMap map = {{rescaled_->old, own}, {rescaled_->next, all}};
    for (const auto& [i, factor] : rescaled_->sums) {
      const ValueId by = Cloned(b, factor, map);
      const ValueId part = b.Binary(OpKind::kMul, results[i], by);
      parts[i] =
          b.Value(OpKind::kClusterReduce, {part}, fn_.type(part), {{"kind", std::string("add")}});
    }
    return parts;
  }

  void Rewrite() {
    if (rescaled_ && !rescaled_->guarded) Guard();
    const BlockId body = fn_.ops[grid_].regions[0];
    const std::vector<OpId> old = Body();
    const auto place = std::find(old.begin(), old.end(), loop_);
    std::vector<OpId> tail(place + 1, old.end() - 1);
    const OpId yield = old.back();

    // A new first range.
    Builder top(fn_, fn_.body);
    std::vector<OpId>& outer = fn_.blocks[fn_.body].ops;
    const auto at = std::find(outer.begin(), outer.end(), grid_);
    const std::vector<OpId> behind(at, outer.end());
    outer.erase(at, outer.end());
    top.SetSpan(fn_.ops[grid_].at);
    const ValueId none = top.Int(0), all = top.Int(ctas_);
    fn_.blocks[fn_.body].ops.insert(fn_.blocks[fn_.body].ops.end(), behind.begin(), behind.end());
    Op& grid = fn_.ops[grid_];
    grid.operands.insert(grid.operands.begin(), {none, all});
    std::vector<int64_t> steps = grid.ints("steps");
    steps.insert(steps.begin(), 1);
    grid.set("steps", steps);
    grid.set("cluster", ctas_);
    const ValueId z = fn_.AddArg(body, Type::Scalar(DType::kI64), "part");
    std::vector<ValueId>& args = fn_.blocks[body].args;
    std::rotate(args.begin(), args.end() - 1, args.end());

    // What stands before the loop, as far as it is needed there.
    const Op loop = fn_.ops[loop_];
    std::vector<std::pair<size_t, ValueId>> starts;  // added behind the loop
    for (size_t i = 0; i < loop.results.size(); ++i) {
      const ValueId start = loop.operands[2 + i];
      if (kinds_[i] == "add" && !IsZero(fn_, start))
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
    const int64_t step = loop.i("step");
    const ValueId low = loop.operands[0], high = loop.operands[1];
    const ValueId length = b.Binary(OpKind::kSub, high, low);
    const ValueId more = b.Binary(OpKind::kAdd, length, b.Int(step * ctas_ - 1));
    const ValueId chunk = b.Binary(OpKind::kDiv, more, b.Int(step * ctas_));  // iterations of each
    const ValueId part = b.Binary(OpKind::kMul, chunk, b.Int(step));
    const ValueId begin = b.Binary(
        OpKind::kAdd, low, b.Binary(OpKind::kMul, b.Binary(OpKind::kMul, z, chunk), b.Int(step)));
    const ValueId end = b.Binary(OpKind::kMin, high, b.Binary(OpKind::kAdd, begin, part));
    std::vector<ValueId> operands = {begin, end};
    for (size_t i = 0; i < loop.results.size(); ++i) operands.push_back(loop.operands[2 + i]);
    for (const auto& [i, start] : starts)
      operands[2 + i] = b.Constant(fn_.type(loop.results[i]), 0);
    fn_.ops[loop_].operands = std::move(operands);
    fn_.blocks[body].ops.push_back(loop_);

    // What is reduced behind the loop anyway is combined then: rows in place of tiles.
    std::vector<ValueId> sums, replaced = loop.results;
    const std::map<size_t, ValueId> rescaled = Rescaled(b);
    for (size_t i = 0; i < loop.results.size(); ++i) {
      if (const auto known = rescaled.find(i); known != rescaled.end()) {
        sums.push_back(known->second);
        continue;
      }
      const bool late = std::any_of(starts.begin(), starts.end(),
                                    [&](const auto& start) { return start.first == i; });
      for (auto it = tail.begin(); !late && it != tail.end(); ++it) {
        const Op& reduce = fn_.ops[*it];
        if (reduce.kind != OpKind::kReduce || reduce.operands[0] != loop.results[i] ||
            uses_.count(loop.results[i]) != 1 ||
            reduce.s("kind") != (kinds_[i] == "add" ? "sum" : kinds_[i]))
          continue;
        replaced[i] = reduce.results[0];
        fn_.blocks[body].ops.push_back(*it);
        tail.erase(it);
        break;
      }
      sums.push_back(b.Value(OpKind::kClusterReduce, {replaced[i]}, fn_.type(replaced[i]),
                             {{"kind", kinds_[i]}}));
    }

    // The rest, in one of them.
    const ValueId first = b.Cmp("eq", z, b.Int(0));
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
    for (const auto& [i, start] : starts) sums[i] = in.Binary(OpKind::kAdd, start, sums[i]);
    Forwarding forward(fn_);
    for (size_t i = 0; i < loop.results.size(); ++i) {
      fn_.values[sums[i]].name = fn_.values[replaced[i]].name;
      forward.Replace(replaced[i], sums[i]);
    }
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
  std::vector<std::string> kinds_;  // by result of the loop
  std::set<OpId> needed_;
  std::optional<RescaledSums> rescaled_;
};

}  // namespace

std::optional<Obstacle> FindLongReduction(const Function& fn, LongReduction* found) {
  Function copy = fn;
  return Split(copy, 1).Find(found);
}

std::optional<Obstacle> SplitReductions(Function& fn, int64_t ctas) {
  return Split(fn, ctas).Run();
}

}  // namespace tilec::ir
