// A kernel that stays on its multiprocessor and works through many tiles.
//
//     parallel i, j { body }   →   parallel p in 0..min(tiles, ctas) {
//                                    for t in p..tiles step ctas { i, j = place(t); body } }
//
// What the load role gains: it goes on to the next tile while the compute roles finish this one, so
// rings are full when the next tile begins; stores drain behind the next tile's work. Ranges of a
// `parallel` have no order, so `place` is free: tiles that are at work at the same time should
// share what they load. Where two ranges can share, they go in groups of `group` rows, the other
// range moving slower (a raster of sections instead of long lines).
//
// Who gets which tile is fixed beforehand, so tiles must take equally long: a kernel with a loop
// whose trip count depends on the tile (a causal mask) stays as it is, and CTAs that end early make
// room for others. On an H200 causal attention was 4 % slower with the longest tiles dealt out
// first, and as much with tiles in their own order (docs/perf_log.md).
//
// A rewrite of tile IR: the interpreter runs it like any other program.
//
// SPDX-License-Identifier: Apache-2.0
#include "ir/passes/persist_tiles.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "ir/passes/rewrite.h"

namespace tilec::ir {
namespace {

class Persist {
 public:
  Persist(Function& fn, const PersistOptions& options) : fn_(fn), options_(options) {}

  bool Run() {
    for (OpId id : fn_.blocks[fn_.body].ops)
      if (fn_.ops[id].kind == OpKind::kParallel) grid_ = id;
    if (!grid_.valid()) return false;
    const BlockId body = fn_.ops[grid_].regions[0];
    if (!HasProductLoop(body, false)) return false;
    for (ValueId arg : fn_.blocks[body].args) {
      facts_.emplace_back();
      for (OpId id : fn_.blocks[body].ops) Look(id, arg, false, &facts_.back());
      if (facts_.back().uneven) return false;
    }
    Rewrite();
    return true;
  }

 private:
  // A loop of products: its loads run ahead. Without one there is nothing to gain here.
  bool HasProductLoop(BlockId block, bool in_loop) const {
    for (OpId id : fn_.blocks[block].ops) {
      const Op& op = fn_.ops[id];
      if (op.kind == OpKind::kDot && in_loop) return true;
      for (BlockId region : op.regions)
        if (HasProductLoop(region, in_loop || op.kind == OpKind::kFor)) return true;
    }
    return false;
  }

  bool DependsOn(ValueId v, ValueId arg, int depth = 0) const {
    if (v == arg || depth > 32) return true;
    const Op* def = fn_.def(v);
    if (!def || !def->regions.empty()) return false;
    return std::any_of(def->operands.begin(), def->operands.end(),
                       [&](ValueId o) { return DependsOn(o, arg, depth + 1); });
  }

  // What the body of one tile says of a range.
  struct Facts {
    bool shares = false;  // some load in a loop is the same for all its tiles
    bool uneven = false;  // the trip count of some loop depends on it
  };
  void Look(OpId id, ValueId arg, bool in_loop, Facts* facts) const {
    const Op& op = fn_.ops[id];
    if (op.kind == OpKind::kLoad && in_loop)
      facts->shares = facts->shares || std::none_of(op.operands.begin(), op.operands.end(),
                                                    [&](ValueId v) { return DependsOn(v, arg); });
    if (op.kind == OpKind::kFor)
      facts->uneven =
          facts->uneven || DependsOn(op.operands[0], arg) || DependsOn(op.operands[1], arg);
    for (BlockId region : op.regions)
      for (OpId inner : fn_.blocks[region].ops)
        Look(inner, arg, in_loop || op.kind == OpKind::kFor, facts);
  }

  void Rewrite() {
    const Op grid = fn_.ops[grid_];
    const BlockId region = grid.regions[0];
    const std::vector<int64_t>& steps = grid.ints("steps");
    const size_t dims = steps.size();
    const std::vector<ValueId> old_args = fn_.blocks[region].args;
    const std::vector<OpId> old_ops = fn_.blocks[region].ops;

    // In front: how many tiles there are.
    std::vector<OpId>& top = fn_.blocks[fn_.body].ops;
    const size_t place =
        static_cast<size_t>(std::find(top.begin(), top.end(), grid_) - top.begin());
    const std::vector<OpId> tail(top.begin() + static_cast<std::ptrdiff_t>(place), top.end());
    top.resize(place);
    Builder b(fn_, fn_.body);
    b.SetSpan(grid.at);
    const ValueId zero = b.Int(0), one = b.Int(1);
    std::vector<ValueId> counts;
    ValueId tiles = one;
    for (size_t d = 0; d < dims; ++d) {
      const ValueId extent = b.Binary(OpKind::kSub, grid.operands[2 * d + 1], grid.operands[2 * d]);
      const ValueId rounded = b.Binary(OpKind::kAdd, extent, b.Int(steps[d] - 1));
      counts.push_back(
          b.Binary(OpKind::kMax, zero, b.Binary(OpKind::kDiv, rounded, b.Int(steps[d]))));
      tiles = d == 0 ? counts[0] : b.Binary(OpKind::kMul, tiles, counts[d]);
    }
    // CTAs of a cluster take neighbouring tiles, and as many.
    const int64_t cluster = grid.i("cluster", 1), most = options_.ctas / cluster * cluster;
    const ValueId ctas = b.Binary(OpKind::kMin, tiles, b.Int(most));
    const ValueId groups = cluster > 1 ? b.Binary(OpKind::kDiv, tiles, b.Int(cluster)) : tiles;
    fn_.blocks[fn_.body].ops.insert(fn_.blocks[fn_.body].ops.end(), tail.begin(), tail.end());

    Op& parallel = fn_.ops[grid_];
    parallel.operands = {zero, ctas};
    parallel.set("steps", std::vector<int64_t>{1});
    fn_.blocks[region].args.clear();
    fn_.blocks[region].ops.clear();
    const ValueId first = fn_.AddArg(region, Type::Scalar(DType::kI64), "cta");
    Builder outer(fn_, region);
    outer.SetSpan(grid.at);
    ValueId begin = first, rank;
    if (cluster > 1) {
      begin = outer.Binary(OpKind::kDiv, first, outer.Int(cluster));
      rank = outer.Binary(OpKind::kMod, first, outer.Int(cluster));
    }
    const OpId loop = outer.Add(OpKind::kFor, {begin, groups}, {}, {{"step", most / cluster}});
    const BlockId body = fn_.AddBlock(loop);
    fn_.ops[loop].regions.push_back(body);
    ValueId tile = fn_.AddArg(body, Type::Scalar(DType::kI64), "tile");
    outer.Yield({});

    // Which tile is number t?
    Builder in(fn_, body);
    in.SetSpan(grid.at);
    if (cluster > 1)
      tile = in.Binary(OpKind::kAdd, in.Binary(OpKind::kMul, tile, in.Int(cluster)), rank);
    const std::vector<ValueId> index = Place(in, tile, counts);
    Forwarding forward(fn_);
    for (size_t d = 0; d < dims; ++d) {
      const ValueId start = in.Binary(OpKind::kAdd, grid.operands[2 * d],
                                      in.Binary(OpKind::kMul, index[d], in.Int(steps[d])));
      fn_.values[start].name = fn_.values[old_args[d]].name;
      forward.Replace(old_args[d], start);
    }
    for (OpId id : old_ops) {
      fn_.ops[id].block = body;
      fn_.blocks[body].ops.push_back(id);
      Resolve(id, forward);
    }
  }

  void Resolve(OpId id, const Forwarding& forward) {
    forward.ResolveOperands(fn_.ops[id]);
    for (BlockId region : fn_.ops[id].regions)
      for (OpId inner : fn_.blocks[region].ops) Resolve(inner, forward);
  }

  // The index in every range of tile number t: the first range runs fastest, or the first two in
  // sections.
  std::vector<ValueId> Place(Builder& b, ValueId t, const std::vector<ValueId>& counts) {
    std::vector<ValueId> index(counts.size());
    size_t d = 0;
    if (counts.size() >= 2 && options_.group > 1 && facts_[0].shares && facts_[1].shares) {
      t = Section(b, t, counts, &index);
      d = 2;
    }
    for (; d < counts.size(); ++d) {
      const bool last = d + 1 == counts.size();
      index[d] = last ? t : b.Binary(OpKind::kMod, t, counts[d]);
      if (!last) t = b.Binary(OpKind::kDiv, t, counts[d]);
    }
    return index;
  }

  // t = (section · columns + column) · rows of the section + row; what is left counts the planes
  // of the other ranges.
  ValueId Section(Builder& b, ValueId t, const std::vector<ValueId>& counts,
                  std::vector<ValueId>* index) {
    ValueId plane = t;
    if (counts.size() > 2) {
      const ValueId size = b.Binary(OpKind::kMul, counts[0], counts[1]);
      plane = b.Binary(OpKind::kMod, t, size);
      t = b.Binary(OpKind::kDiv, t, size);
    }
    const ValueId group = b.Int(options_.group);
    const ValueId size = b.Binary(OpKind::kMul, group, counts[1]);
    const ValueId base = b.Binary(OpKind::kMul, b.Binary(OpKind::kDiv, plane, size), group);
    const ValueId rows =
        b.Binary(OpKind::kMax, b.Int(1),  // says that it is positive
                 b.Binary(OpKind::kMin, group, b.Binary(OpKind::kSub, counts[0], base)));
    const ValueId rest = b.Binary(OpKind::kMod, plane, size);
    (*index)[0] = b.Binary(OpKind::kAdd, base, b.Binary(OpKind::kMod, rest, rows));
    (*index)[1] = b.Binary(OpKind::kDiv, rest, rows);
    return t;
  }

  Function& fn_;
  const PersistOptions& options_;
  OpId grid_;
  std::vector<Facts> facts_;  // by range
};

}  // namespace

bool PersistTiles(Function& fn, const PersistOptions& options) {
  return Persist(fn, options).Run();
}

}  // namespace tilec::ir
