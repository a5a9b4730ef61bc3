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
    if (!grid_.valid() || !HasProductLoop(fn_.ops[grid_].regions[0], false)) return false;
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

  // How an integer moves with an argument of the parallel region.
  enum class Trend { kNone, kUp, kDown, kUnclear };
  static Trend Opposite(Trend t) {
    return t == Trend::kUp ? Trend::kDown : t == Trend::kDown ? Trend::kUp : t;
  }
  static Trend Both(Trend x, Trend y) {
    if (x == Trend::kNone || x == y) return y;
    return y == Trend::kNone ? x : Trend::kUnclear;
  }
  Trend TrendOf(ValueId v, ValueId arg, int depth = 0) const {
    if (v == arg) return Trend::kUp;
    const Op* def = fn_.def(v);
    if (!def || !def->regions.empty()) return Trend::kNone;
    if (depth > 32) return Trend::kUnclear;
    std::vector<Trend> in;
    Trend all = Trend::kNone;
    for (ValueId o : def->operands) {
      in.push_back(TrendOf(o, arg, depth + 1));
      all = Both(all, in.back());
    }
    if (all == Trend::kNone) return all;
    switch (def->kind) {
      case OpKind::kAdd:
      case OpKind::kMin:
      case OpKind::kMax:
      case OpKind::kCast: return all;
      case OpKind::kSub: return Both(in[0], Opposite(in[1]));
      case OpKind::kNeg: return Opposite(in[0]);
      case OpKind::kMul:
      case OpKind::kDiv:
        if (const int64_t* c = IntConstantOf(fn_, def->operands[1]); c && *c > 0) return in[0];
        return Trend::kUnclear;
      default: return Trend::kUnclear;
    }
  }

  // What the body of one tile says of a range.
  struct Facts {
    bool shares = false;        // some load in a loop is the same for all its tiles
    Trend work = Trend::kNone;  // of the trip counts of loops
  };
  void Look(OpId id, ValueId arg, bool in_loop, Facts* facts) const {
    const Op& op = fn_.ops[id];
    if (op.kind == OpKind::kLoad && in_loop)
      facts->shares =
          facts->shares || std::all_of(op.operands.begin(), op.operands.end(),
                                       [&](ValueId v) { return TrendOf(v, arg) == Trend::kNone; });
    if (op.kind == OpKind::kFor)
      facts->work = Both(
          facts->work, Both(Opposite(TrendOf(op.operands[0], arg)), TrendOf(op.operands[1], arg)));
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
    const ValueId ctas = b.Binary(OpKind::kMin, tiles, b.Int(options_.ctas));
    fn_.blocks[fn_.body].ops.insert(fn_.blocks[fn_.body].ops.end(), tail.begin(), tail.end());

    Op& parallel = fn_.ops[grid_];
    parallel.operands = {zero, ctas};
    parallel.set("steps", std::vector<int64_t>{1});
    fn_.blocks[region].args.clear();
    fn_.blocks[region].ops.clear();
    const ValueId first = fn_.AddArg(region, Type::Scalar(DType::kI64), "cta");
    Builder outer(fn_, region);
    outer.SetSpan(grid.at);
    const OpId loop = outer.Add(OpKind::kFor, {first, tiles}, {}, {{"step", options_.ctas}});
    const BlockId body = fn_.AddBlock(loop);
    fn_.ops[loop].regions.push_back(body);
    const ValueId tile = fn_.AddArg(body, Type::Scalar(DType::kI64), "tile");
    outer.Yield({});

    // Which tile is number t?
    Builder in(fn_, body);
    in.SetSpan(grid.at);
    const std::vector<ValueId> index = Place(in, tile, tiles, counts, old_ops, old_args);
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

  // The index in every range of tile number t.
  std::vector<ValueId> Place(Builder& b, ValueId t, ValueId tiles,
                             const std::vector<ValueId>& counts, const std::vector<OpId>& ops,
                             const std::vector<ValueId>& args) {
    std::vector<Facts> facts(args.size());
    for (size_t d = 0; d < args.size(); ++d)
      for (OpId id : ops) Look(id, args[d], false, &facts[d]);
    // Ranges from the fastest to the slowest. One that decides how long a tile takes is slowest,
    // the longest tiles first: what is left for the end is short.
    std::vector<size_t> order;
    std::optional<size_t> heavy;
    for (size_t d = 0; d < args.size(); ++d)
      if (facts[d].work == Trend::kUp || facts[d].work == Trend::kDown) heavy = d;
    for (size_t d = 0; d < args.size(); ++d)
      if (heavy != d) order.push_back(d);
    if (heavy) {
      order.push_back(*heavy);
      t = Snake(b, t, tiles);
    }
    std::vector<ValueId> index(args.size());
    size_t from = 0;
    if (!heavy && args.size() >= 2 && options_.group > 1 && facts[0].shares && facts[1].shares) {
      t = Section(b, t, counts, &index);
      from = 2;
    }
    for (size_t i = from; i < order.size(); ++i) {
      const size_t d = order[i];
      const bool last = i + 1 == order.size();
      index[d] = last ? t : b.Binary(OpKind::kMod, t, counts[d]);
      if (!last) t = b.Binary(OpKind::kDiv, t, counts[d]);
    }
    if (heavy && facts[*heavy].work == Trend::kUp)
      index[*heavy] = b.Binary(  // the largest position first; never negative
          OpKind::kMax, b.Int(0),
          b.Binary(OpKind::kSub, b.Binary(OpKind::kSub, counts[*heavy], b.Int(1)), index[*heavy]));
    return index;
  }

  // Every other full round of the CTAs runs backwards: who had the longest tile of one round has
  // the shortest of the next.
  ValueId Snake(Builder& b, ValueId t, ValueId tiles) {
    const ValueId ctas = b.Int(options_.ctas);
    const ValueId round = b.Binary(OpKind::kDiv, t, ctas);
    const ValueId odd = b.Cmp("eq", b.Binary(OpKind::kMod, round, b.Int(2)), b.Int(1));
    const ValueId end = b.Binary(OpKind::kMul, b.Binary(OpKind::kAdd, round, b.Int(1)), ctas);
    const ValueId full = b.Cmp("le", end, tiles);
    // round · ctas + (ctas − 1 − t mod ctas)
    const ValueId back = b.Binary(OpKind::kSub, b.Binary(OpKind::kSub, end, b.Int(1)),
                                  b.Binary(OpKind::kMod, t, ctas));
    const ValueId snake = b.Value(OpKind::kSelect, {b.Binary(OpKind::kAnd, odd, full), back, t},
                                  Type::Scalar(DType::kI64));
    return b.Binary(OpKind::kMax, b.Int(0), snake);
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
};

}  // namespace

bool PersistTiles(Function& fn, const PersistOptions& options) {
  return Persist(fn, options).Run();
}

}  // namespace tilec::ir
