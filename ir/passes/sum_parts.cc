// A product whose parts the grid adds up in memory: each instance has some of the contracted dim
// and adds what it makes of them. One part each is as many atomics as multiplications by BK: the
// memory is busy with sums, and each part waits for its own operands with nothing ahead of it.
// Parts of one place are added up by a CTA first, as many as leave every SM a CTA:
//
//     parallel i, j, k in lo..hi step s { atomic add C[i, j], f(k) }   →
//     parallel i, j, z in 0..parts { acc = for k in lo + z·chunk·s .. min(hi, lo + (z+1)·chunk·s)
//                                      step s (acc = 0) { acc + f(k) }
//                                    atomic add C[i, j], acc }
//
// with chunk = ⌈tiles of k / min(tiles of k, SMs / tiles of the other ranges)⌉ and parts =
// ⌈tiles of k / chunk⌉, so that no part is empty. What comes of it is a loop of products like any
// other: its loads run ahead.
//
// Sums may be taken in any order (language/spec.md, 12), and atomics come in any. Types of fewer
// than 32 bits stay: memory rounds every part.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "ir/passes/passes.h"
#include "ir/passes/rewrite.h"
#include "ir/uses.h"

namespace tilec::ir {
namespace {

class PartSums {
 public:
  PartSums(Function& fn, const Target& target) : fn_(fn), target_(target), uses_(fn) {}

  bool Run() {
    for (OpId id : fn_.blocks[fn_.body].ops)
      if (fn_.ops[id].kind == OpKind::kParallel) grid_ = id;
    if (!grid_.valid()) return false;
    const std::vector<ValueId>& args = Args();
    if (args.size() < 2 || fn_.ops[grid_].i("cluster", 1) > 1) return false;
    for (size_t d = args.size(); d-- > 0;)
      if (AddsUpAlong(args[d])) {
        Rewrite(d);
        return true;
      }
    return false;
  }

 private:
  const std::vector<ValueId>& Args() const { return fn_.blocks[fn_.ops[grid_].regions[0]].args; }

  // Is all that instances along `along` leave behind sums of products at the same places?
  bool AddsUpAlong(ValueId along) {
    inner_.clear(), sums_.clear();
    std::set<ValueId> changes = {along};  // with the place along the range
    bool multiplies = false;
    for (OpId id : fn_.blocks[fn_.ops[grid_].regions[0]].ops) {
      const Op& op = fn_.ops[id];
      if (op.kind == OpKind::kYield) continue;
      if (!op.regions.empty()) return false;
      const auto moves = [&](ValueId v) { return changes.count(v) > 0; };
      if (Info(op.kind).effect == OpEffect::kWrite) {
        if (!Sums(op)) return false;
        for (size_t i = 0; i < op.operands.size(); ++i)
          if (moves(op.operands[i]) != (i == kSummed)) return false;
        sums_.push_back(id);
        continue;
      }
      if (op.kind == OpKind::kLoad && !IsReadOnlyLoad(fn_, op)) return false;
      if (std::none_of(op.operands.begin(), op.operands.end(), moves)) continue;
      inner_.insert(id);
      multiplies = multiplies || op.kind == OpKind::kDot;
      changes.insert(op.results.begin(), op.results.end());
    }
    return multiplies && !sums_.empty();
  }

  bool Sums(const Op& op) const {
    if (op.kind != OpKind::kAtomic || Fetches(op) || op.s("kind") != "add") return false;
    const Type& tile = fn_.type(op.operands[kSummed]);
    return tile.is_tile() && ByteSize(tile.dtype) == 4 && tile.dtype != DType::kBool &&
           uses_.count(op.operands[kSummed]) == 1;
  }

  static ValueId TilesOf(Builder& b, ValueId low, ValueId high, int64_t step) {
    const ValueId rounded =
        b.Binary(OpKind::kAdd, b.Binary(OpKind::kSub, high, low), b.Int(step - 1));
    return b.Binary(OpKind::kMax, b.Int(0), b.Binary(OpKind::kDiv, rounded, b.Int(step)));
  }

  // ⌈all / each⌉
  static ValueId Shares(Builder& b, ValueId all, ValueId each) {
    const ValueId up = b.Binary(OpKind::kSub, b.Binary(OpKind::kAdd, all, each), b.Int(1));
    return b.Binary(OpKind::kDiv, up, each);
  }

  // A product adds to what is there by itself.
  ValueId Added(Builder& b, ValueId carried, ValueId term) {
    const OpId dot = fn_.values[term].def;
    if (fn_.ops[dot].kind != OpKind::kDot || !IsZero(fn_, fn_.ops[dot].operands[2]))
      return b.Binary(OpKind::kAdd, carried, term);
    fn_.ops[dot].operands[2] = carried;
    return term;
  }

  void Rewrite(size_t dim) {
    const BlockId body = fn_.ops[grid_].regions[0];
    const std::vector<ValueId> ranges = fn_.ops[grid_].operands;
    std::vector<int64_t> steps = fn_.ops[grid_].ints("steps");
    const int64_t step = steps[dim];
    const ValueId low = ranges[2 * dim], high = ranges[2 * dim + 1], position = Args()[dim];

    // How many parts, in front of the grid.
    std::vector<OpId>& top = fn_.blocks[fn_.body].ops;
    const auto at = std::find(top.begin(), top.end(), grid_);
    const std::vector<OpId> behind(at, top.end());
    top.erase(at, top.end());
    Builder outer(fn_, fn_.body);
    outer.SetSpan(fn_.ops[grid_].at);
    const ValueId zero = outer.Int(0), one = outer.Int(1);
    ValueId others = one;
    for (size_t d = 0; d < steps.size(); ++d)
      if (d != dim)
        others = outer.Binary(OpKind::kMul, others,
                              TilesOf(outer, ranges[2 * d], ranges[2 * d + 1], steps[d]));
    const ValueId tiles = TilesOf(outer, low, high, step);
    const ValueId wanted = outer.Binary(OpKind::kDiv, outer.Int(target_.limits.sms),
                                        outer.Binary(OpKind::kMax, one, others));
    const ValueId most = outer.Binary(OpKind::kMax, one, outer.Binary(OpKind::kMin, tiles, wanted));
    const ValueId chunk = outer.Binary(OpKind::kMax, one, Shares(outer, tiles, most));
    const ValueId parts = Shares(outer, tiles, chunk);
    top.insert(top.end(), behind.begin(), behind.end());
    steps[dim] = 1;
    fn_.ops[grid_].set("steps", steps);
    fn_.ops[grid_].operands[2 * dim] = zero;
    fn_.ops[grid_].operands[2 * dim + 1] = parts;

    // This part's turns: what stays the same, the loop, the sums.
    const std::vector<OpId> old = std::exchange(fn_.blocks[body].ops, {});
    for (OpId id : old)
      if (inner_.count(id) == 0 && fn_.ops[id].kind != OpKind::kYield &&
          std::count(sums_.begin(), sums_.end(), id) == 0)
        fn_.blocks[body].ops.push_back(id);
    Builder b(fn_, body);
    b.SetSpan(fn_.ops[grid_].at);
    const ValueId turns = b.Binary(OpKind::kMul, chunk, b.Int(step));
    const ValueId begin = b.Binary(OpKind::kAdd, low, b.Binary(OpKind::kMul, position, turns));
    const ValueId end = b.Binary(OpKind::kMin, high, b.Binary(OpKind::kAdd, begin, turns));
    std::vector<ValueId> operands = {begin, end}, terms;
    std::vector<Type> types;
    for (OpId id : sums_) {
      terms.push_back(fn_.ops[id].operands[kSummed]);
      types.push_back(fn_.type(terms.back()));
      operands.push_back(b.Constant(types.back(), 0));
    }
    const OpId loop = b.Add(OpKind::kFor, operands, types, {{"step", step}});
    const BlockId inside = fn_.AddBlock(loop);
    fn_.ops[loop].regions = {inside};
    const ValueId turn = fn_.AddArg(inside, Type::Scalar(DType::kI64), fn_.values[position].name);
    fn_.values[position].name = "part";
    std::vector<ValueId> carried;
    for (size_t i = 0; i < terms.size(); ++i)
      carried.push_back(fn_.AddArg(inside, types[i], "acc"));
    for (OpId id : old) {
      if (inner_.count(id) == 0) continue;
      fn_.ops[id].block = inside;
      fn_.blocks[inside].ops.push_back(id);
      ReplaceOperands(fn_, id, [&](ValueId v) { return v == position ? turn : v; });
    }
    Builder in(fn_, inside);
    std::vector<ValueId> next;
    for (size_t i = 0; i < terms.size(); ++i) {
      in.SetSpan(fn_.ops[sums_[i]].at);
      next.push_back(Added(in, carried[i], terms[i]));
    }
    in.Yield(next);
    for (size_t i = 0; i < sums_.size(); ++i) {
      fn_.ops[sums_[i]].operands[kSummed] = fn_.ops[loop].results[i];
      fn_.blocks[body].ops.push_back(sums_[i]);
    }
    fn_.blocks[body].ops.push_back(old.back());
  }

  Function& fn_;
  const Target& target_;
  const Uses uses_;
  static constexpr size_t kSummed = 1;  // operand of an atomic
  OpId grid_;
  std::set<OpId> inner_;    // what changes along the range
  std::vector<OpId> sums_;  // atomics
};

}  // namespace

Result<> SumParts(Function& fn, PassContext& cx) {
  cx.changes += PartSums(fn, cx.target).Run();
  return Done();
}

}  // namespace tilec::ir
