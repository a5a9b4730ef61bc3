// A kernel that stays on its multiprocessor and works through many tiles.
//
//     parallel i, j { body }   →   parallel p in 0..min(tiles, ctas) {
//                                    for t in p..tiles step ctas { i, j = place(t); body } }
//
// What the load role gains: it goes on to the next tile while the compute roles finish this one, so
// rings are full when the next tile begins; stores drain behind the next tile's work. Ranges of a
// `parallel` have no order, so `place` is free: where tiles along each of the first two ranges
// share what they load, they go in sections of a few rows in place of long lines, so that CTAs at
// work together ask the L2 for fewer operands.
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
#include <vector>

#include "ir/passes/rewrite.h"

namespace tilec::ir {
namespace {

// Rows of a section. On an H200 gemm 8192³ gained 4 % over plain lines, 65536×1024×1024 7 %.
constexpr int64_t kSectionRows = 8;

class Persist {
 public:
  Persist(Function& fn, int64_t ctas) : fn_(fn), ctas_(ctas) {}

  std::optional<Obstacle> Run() {
    for (OpId id : fn_.blocks[fn_.body].ops)
      if (fn_.ops[id].kind == OpKind::kParallel) grid_ = id;
    if (!grid_.valid()) return Obstacle{"it has no grid", {}};
    const BlockId body = fn_.ops[grid_].regions[0];
    if (!HasProductLoop(body, false))
      return Obstacle{"it has no loop of products, whose loads would run ahead", fn_.ops[grid_].at};
    for (OpId id : fn_.blocks[body].ops)
      for (ValueId arg : fn_.blocks[body].args)
        if (const OpId loop = Uneven(id, arg); loop.valid())
          return Obstacle{
              "tiles take unequally long, because turns of this loop depend on the tile",
              fn_.ops[loop].at};
    const std::vector<ValueId> args = fn_.blocks[body].args;
    sections_ = args.size() >= 2 && Shares(body, args[0], false) && Shares(body, args[1], false);
    Rewrite();
    return std::nullopt;
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

  // A loop in the op whose trip count depends on the position of the tile.
  OpId Uneven(OpId id, ValueId arg) const {
    const Op& op = fn_.ops[id];
    if (op.kind == OpKind::kFor &&
        (DependsOn(op.operands[0], arg) || DependsOn(op.operands[1], arg)))
      return id;
    for (BlockId region : op.regions)
      for (OpId inner : fn_.blocks[region].ops)
        if (const OpId loop = Uneven(inner, arg); loop.valid()) return loop;
    return {};
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
    const ValueId ctas = b.Binary(OpKind::kMin, tiles, b.Int(ctas_));
    fn_.blocks[fn_.body].ops.insert(fn_.blocks[fn_.body].ops.end(), tail.begin(), tail.end());

    Op& parallel = fn_.ops[grid_];
    parallel.operands = {zero, ctas};
    parallel.set("steps", std::vector<int64_t>{1});
    fn_.blocks[region].args.clear();
    fn_.blocks[region].ops.clear();
    const ValueId first = fn_.AddArg(region, Type::Scalar(DType::kI64), "cta");
    Builder outer(fn_, region);
    outer.SetSpan(grid.at);
    const OpId loop = outer.Add(OpKind::kFor, {first, tiles}, {}, {{"step", ctas_}});
    const BlockId body = fn_.AddBlock(loop);
    fn_.ops[loop].regions.push_back(body);
    const ValueId tile = fn_.AddArg(body, Type::Scalar(DType::kI64), "tile");
    outer.Yield({});

    // Which tile is number t?
    Builder in(fn_, body);
    in.SetSpan(grid.at);
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

  // Is some load in a loop the same for all tiles along this range?
  bool Shares(BlockId block, ValueId arg, bool in_loop) const {
    return std::any_of(fn_.blocks[block].ops.begin(), fn_.blocks[block].ops.end(), [&](OpId id) {
      const Op& op = fn_.ops[id];
      if (op.kind == OpKind::kLoad && in_loop)
        return std::none_of(op.operands.begin(), op.operands.end(),
                            [&](ValueId v) { return DependsOn(v, arg); });
      return std::any_of(op.regions.begin(), op.regions.end(), [&](BlockId region) {
        return Shares(region, arg, in_loop || op.kind == OpKind::kFor);
      });
    });
  }

  // The index in every range of tile number t: the first range runs fastest, or the first two in
  // sections.
  std::vector<ValueId> Place(Builder& b, ValueId t, const std::vector<ValueId>& counts) {
    std::vector<ValueId> index(counts.size());
    size_t d = 0;
    if (sections_) {
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
    const ValueId group = b.Int(kSectionRows);
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
  int64_t ctas_;
  OpId grid_;
  bool sections_ = false;
};

}  // namespace

std::optional<Obstacle> PersistTiles(Function& fn, int64_t ctas) { return Persist(fn, ctas).Run(); }

}  // namespace tilec::ir
