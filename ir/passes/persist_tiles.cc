// A kernel that stays on its SM and works through many tiles.
//
//     parallel i, j { body }   →   parallel p in 0..min(tiles, ctas) {
//                                    for t in p..tiles step ctas { i, j = place(t); body } }
//
// What the load role gains: it goes on to the next tile while the compute roles finish this one, so
// rings are full when the next tile begins; stores drain behind the next tile's work. Ranges of a
// `parallel` have no order, so `place` is free: where tiles along each of the first two ranges
// share what they load, they go in sections of some rows in place of long lines, so that CTAs at
// work together need fewer operands: R rows and ctas / R columns load R · row + ctas / R · column
// bytes an iteration, least at R = √(ctas · column / row). Sections are made equally high.
//
// Tiles that take unequally long (a loop ends earlier or later with the tile's place along one
// range, as under a causal mask) go longest first. Who gets which tile is fixed beforehand, so they
// are dealt out back and forth, 0 1 2 3 3 2 1 0 0 1 …: whoever got the longest of one round gets
// the shortest of the next. 1024 tiles of 1 to 16 iterations on 132 SMs end 3 % after the
// mean; dealt out in their own order to whoever is free, 15 %. CTAs of one tile each take them
// longest first too. Where the length follows no range's order, the grid stays as it is.
//
// Longest first over all heads brings what every head reads from memory again for each round of
// CTAs. Those of one tile each go to whoever is free, so that they may go in sections of as many
// heads as a round covers, each longest first, whose tiles find in the cache what the first of them
// brought; the last rounds are one section, so that all CTAs still end together. (Of 221 grids from
// 3 to 256 tiles a head, simulated, the last CTA ends 2.2 % after the mean so, 2.1 % with one
// section for all, 8 % with sections to the end. Dealt out beforehand, sections would end 16 %
// after it.)
//
// CTAs of a cluster stay neighbours: tiles are dealt out to clusters, each as many along the first
// range as the cluster has CTAs.
//
// A rewrite of tile IR: the interpreter runs it like any other program.
//
// SPDX-License-Identifier: Apache-2.0
#include "ir/passes/persist_tiles.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "ir/arms.h"
#include "ir/lower/scalars.h"
#include "ir/passes/persistent_grid.h"
#include "ir/passes/rewrite.h"

namespace tilec::ir {

std::optional<Obstacle> PersistentGrid::Run() {
  if (std::optional<Obstacle> obstacle = Look()) return obstacle;
  const BlockId body = fn_.ops[grid_].regions[0];
  const std::vector<ValueId> args = fn_.blocks[body].args;
  if (!uneven_ && args.size() >= 2) {
    // Of a row is what does not change along it, with the second range.
    const double row = Shared(body, args[1], false), column = Shared(body, args[0], false);
    if (row > 0 && column > 0)
      section_rows_ = std::max<int64_t>(1, std::llround(std::sqrt(double(ctas_) * column / row)));
  }
  Rewrite(true);
  return std::nullopt;
}

bool PersistentGrid::Order() {
  if (Look() || !uneven_) return false;
  const BlockId body = fn_.ops[grid_].regions[0];
  in_sections_ = fn_.blocks[body].args.size() > 1 &&
                 ReadAlong(body, fn_.blocks[body].args[uneven_->dim], false);
  Rewrite(false);
  return true;
}

std::optional<Obstacle> PersistentGrid::Look() {
  for (OpId id : fn_.blocks[fn_.body].ops)
    if (fn_.ops[id].kind == OpKind::kParallel) grid_ = id;
  if (!grid_.valid()) return Obstacle{"it has no grid", {}};
  cluster_ = fn_.ops[grid_].i("cluster", 1);
  ctas_ /= cluster_;
  const BlockId body = fn_.ops[grid_].regions[0];
  if (!HasProductLoop(body, false))
    return Obstacle{"it has no loop of products, whose loads would run ahead", fn_.ops[grid_].at};
  const std::vector<ValueId> args = fn_.blocks[body].args;
  for (size_t d = 0; d < args.size(); ++d) {
    Slope length = Slope::kNone;
    OpId loop;
    for (OpId id : fn_.blocks[body].ops) length = Together(length, Length(id, args[d], &loop));
    if (length == Slope::kNone || (length == Slope::kUnknown && TogetherEven(body, args[d])))
      continue;
    if (length == Slope::kUnknown && EvenInRounds(d, args.size(), loop)) continue;
    if (length == Slope::kUnknown || uneven_)
      return Obstacle{
          "tiles take unequally long in no order, because turns of this loop depend on the tile",
          fn_.ops[loop].at};
    uneven_ = {d, length == Slope::kRises};
  }
  if (uneven_ && cluster_ > 1)
    return Obstacle{"tiles take unequally long, and CTAs of a cluster work together",
                    fn_.ops[grid_].at};
  return std::nullopt;
}

// A loop of products: its loads run ahead. Without one there is nothing to gain here: where a
// loop squares what a tile has (the inverse of a chunk), CTAs side by side hide each other's
// waits.
bool PersistentGrid::HasProductLoop(BlockId block, bool in_loop) const {
  for (OpId id : fn_.blocks[block].ops) {
    const Op& op = fn_.ops[id];
    if (op.kind == OpKind::kDot && in_loop) return true;
    const bool brings = op.kind == OpKind::kFor && Loads(id);
    for (BlockId region : op.regions)
      if (HasProductLoop(region, in_loop || brings)) return true;
  }
  return false;
}

bool PersistentGrid::Loads(OpId loop) const {
  const std::vector<OpId> inside = OpsInside(fn_, loop);
  return std::any_of(inside.begin(), inside.end(),
                     [&](OpId id) { return fn_.ops[id].kind == OpKind::kLoad; });
}

bool PersistentGrid::HasProduct(BlockId block) const {
  return std::any_of(fn_.blocks[block].ops.begin(), fn_.blocks[block].ops.end(),
                     [&](OpId id) { return fn_.ops[id].kind == OpKind::kDot; });
}

bool PersistentGrid::DependsOn(ValueId v, ValueId arg, int depth) const {
  if (v == arg || depth > 32) return true;
  const Op* def = fn_.def(v);
  if (!def || !def->regions.empty()) return false;
  return std::any_of(def->operands.begin(), def->operands.end(),
                     [&](ValueId o) { return DependsOn(o, arg, depth + 1); });
}

// Does the number rise or fall from tile to tile?
PersistentGrid::Slope PersistentGrid::SlopeOf(ValueId v, ValueId arg, int depth) const {
  if (v == arg) return Slope::kRises;
  const Op* def = fn_.def(v);
  if (!def || !DependsOn(v, arg)) return Slope::kNone;
  if (depth > 32) return Slope::kUnknown;
  auto operand = [&](size_t i) { return SlopeOf(def->operands[i], arg, depth + 1); };
  switch (def->kind) {
    case OpKind::kAdd:
    case OpKind::kMin:
    case OpKind::kMax: return Together(operand(0), operand(1));
    case OpKind::kSub: return Together(operand(0), Turned(operand(1)));
    case OpKind::kCast:
    case OpKind::kReshape: return operand(0);
    case OpKind::kMul:
    case OpKind::kDiv: {
      const Op* by = fn_.def(def->operands[1]);
      if (!by || by->kind != OpKind::kConstant || !by->attr("value")) return Slope::kUnknown;
      return by->number("value") > 0 ? operand(0) : Slope::kUnknown;
    }
    default: return Slope::kUnknown;
  }
}

// How the trip counts of the op's loops follow the place of the tile; `loop`: one that does.
PersistentGrid::Slope PersistentGrid::Length(OpId id, ValueId arg, OpId* loop) const {
  const Op& op = fn_.ops[id];
  Slope length = Slope::kNone;
  if (op.kind == OpKind::kFor) {
    length = Together(Turned(SlopeOf(op.operands[0], arg)), SlopeOf(op.operands[1], arg));
    // A loop around loops of products whose bounds stand in memory (the rows of a group) walks
    // over tiles itself; its author cuts them so that one turn, or none, is the rule.
    if (length == Slope::kUnknown && !ToExpr(fn_, op.operands[1]) &&
        HasProductLoop(op.regions[0], false) && !HasProduct(op.regions[0]))
      length = Slope::kNone;
    if (length != Slope::kNone) *loop = id;
  }
  for (BlockId region : op.regions)
    for (OpId inner : fn_.blocks[region].ops) length = Together(length, Length(inner, arg, loop));
  return length;
}

// How much a number grows with the tile's place, where that is the same everywhere.
std::optional<double> PersistentGrid::Growth(ValueId v, ValueId arg, int depth) const {
  if (v == arg) return 1.0;
  if (!DependsOn(v, arg)) return 0.0;
  const Op* def = fn_.def(v);
  if (depth > 32) return std::nullopt;
  const auto of = [&](size_t i) { return Growth(def->operands[i], arg, depth + 1); };
  if (def->kind == OpKind::kCast || def->kind == OpKind::kReshape) return of(0);
  if (def->kind != OpKind::kAdd && def->kind != OpKind::kSub) return std::nullopt;
  const std::optional<double> x = of(0), y = of(1);
  if (!x || !y) return std::nullopt;
  return def->kind == OpKind::kAdd ? *x + *y : *x - *y;
}

// Loops in front of the diagonal grow as those behind it shrink (a symmetric matrix of which one
// triangle is stored): together, by the products of an iteration, they take every tile as long.
bool PersistentGrid::TogetherEven(BlockId body, ValueId arg) const {
  double sum = 0, all = 0;
  for (OpId id : fn_.blocks[body].ops) {
    const Op& op = fn_.ops[id];
    OpId loop;
    if (Length(id, arg, &loop) == Slope::kNone) continue;
    if (op.kind != OpKind::kFor || loop != id || !HasProduct(op.regions[0])) return false;
    const std::optional<double> from = Growth(op.operands[0], arg);
    const std::optional<double> to = Growth(op.operands[1], arg);
    if (!from || !to) return false;
    double work = 0;  // of an iteration
    for (OpId inner : OpsInside(fn_, id)) {
      const Op& dot = fn_.ops[inner];
      if (dot.kind == OpKind::kFor || dot.kind == OpKind::kWhile) return false;
      if (dot.kind != OpKind::kDot) continue;
      const double terms = double(fn_.type(dot.operands[0]).shape[1]);
      work += terms * double(fn_.type(dot.results[0]).elements());
    }
    const double grown = (*to - *from) * work / double(op.i("step"));
    sum += grown, all += std::abs(grown);
  }
  return all > 0 && std::abs(sum) < 1e-6 * all;
}

// Lengths that stand in memory, by place along the last range (the tokens of an expert): tiles of
// one place along it follow each other, so that those of a round take about as long.
bool PersistentGrid::EvenInRounds(size_t dim, size_t dims, OpId loop) const {
  const Op& op = fn_.ops[loop];
  return dims > 2 && dim + 1 == dims && op.kind == OpKind::kFor && !ToExpr(fn_, op.operands[0]) &&
         !ToExpr(fn_, op.operands[1]);
}

// How many tiles there are.
PersistentGrid::Tiles PersistentGrid::CountTiles(Builder& b, const Op& grid,
                                                 const std::vector<int64_t>& steps) {
  Tiles tiles;
  tiles.none = b.Int(0);
  tiles.all = b.Int(1);
  for (size_t d = 0; d < steps.size(); ++d) {
    const ValueId extent = b.Binary(OpKind::kSub, grid.operands[2 * d + 1], grid.operands[2 * d]);
    const ValueId rounded = b.Binary(OpKind::kAdd, extent, b.Int(steps[d] - 1));
    tiles.counts.push_back(
        b.Binary(OpKind::kMax, tiles.none, b.Binary(OpKind::kDiv, rounded, b.Int(steps[d]))));
    tiles.all = d == 0 ? tiles.counts[0] : b.Binary(OpKind::kMul, tiles.all, tiles.counts[d]);
  }
  return tiles;
}

// With `stay` CTAs loop over tiles; without, each takes the tile of its number. What is said of
// tiles is said of those that a cluster has at a time, and of a CTA's number that of its cluster.
void PersistentGrid::Rewrite(bool stay) {
  const Op grid = fn_.ops[grid_];
  const BlockId region = grid.regions[0];
  std::vector<int64_t> steps = grid.ints("steps");
  const int64_t own_step = steps[0];
  steps[0] *= cluster_;
  const size_t dims = steps.size();
  const std::vector<ValueId> old_args = fn_.blocks[region].args;
  const std::vector<OpId> old_ops = fn_.blocks[region].ops;

  // In front: how many tiles there are.
  std::vector<OpId>& top = fn_.blocks[fn_.body].ops;
  const size_t place = static_cast<size_t>(std::find(top.begin(), top.end(), grid_) - top.begin());
  const std::vector<OpId> tail(top.begin() + static_cast<std::ptrdiff_t>(place), top.end());
  top.resize(place);
  Builder b(fn_, fn_.body);
  b.SetSpan(grid.at);
  const auto [zero, counts, tiles] = CountTiles(b, grid, steps);
  ValueId ctas = stay ? b.Binary(OpKind::kMin, tiles, b.Int(ctas_)) : tiles;
  if (cluster_ > 1) ctas = b.Binary(OpKind::kMul, ctas, b.Int(cluster_));
  FewTiles(tiles, grid.at);
  std::vector<ValueId> narrow;
  for (ValueId count : counts) narrow.push_back(b.Cast(count, kNarrow));
  if (section_rows_) section_ = EqualSections(b, narrow);
  if (in_sections_) Heads(b, narrow);
  fn_.blocks[fn_.body].ops.insert(fn_.blocks[fn_.body].ops.end(), tail.begin(), tail.end());

  Op& parallel = fn_.ops[grid_];
  parallel.operands = {zero, ctas};
  parallel.set("steps", std::vector<int64_t>{1});
  fn_.blocks[region].args.clear();
  fn_.blocks[region].ops.clear();
  ValueId first = fn_.AddArg(region, Type::Scalar(DType::kI64), stay ? "cta" : "tile");
  ValueId rank;  // in the cluster
  BlockId body = region;
  if (cluster_ > 1) {
    Builder of(fn_, region);
    of.SetSpan(grid.at);
    rank = of.Binary(OpKind::kMod, first, of.Int(cluster_));
    first = of.Binary(OpKind::kDiv, first, of.Int(cluster_));
  }
  ValueId tile = first;
  if (stay) {
    Builder outer(fn_, region);
    outer.SetSpan(grid.at);
    const ValueId end = uneven_ ? EndOfTurns(outer, first, tiles) : tiles;
    const OpId loop =
        outer.Add(OpKind::kFor, {first, end}, {}, {{"step", ctas_}, {"narrow", int64_t{1}}});
    body = fn_.AddBlock(loop);
    fn_.ops[loop].regions.push_back(body);
    tile = fn_.AddArg(body, Type::Scalar(DType::kI64), "tile");
    outer.Yield({});
  }

  // Which tile is number t?
  Builder in(fn_, body);
  in.SetSpan(grid.at);
  tile = in.Cast(tile, kNarrow);
  if (stay && uneven_) tile = Dealt(in, in.Cast(first, kNarrow), tile);
  const std::vector<ValueId> index = Place(in, tile, narrow);
  Forwarding forward(fn_);
  for (size_t d = 0; d < dims; ++d) {
    ValueId start =
        in.Binary(OpKind::kAdd, grid.operands[2 * d],
                  in.Binary(OpKind::kMul, in.Cast(index[d], DType::kI64), in.Int(steps[d])));
    if (d == 0 && rank.valid())
      start = in.Binary(OpKind::kAdd, start, in.Binary(OpKind::kMul, rank, in.Int(own_step)));
    fn_.values[start].name = fn_.values[old_args[d]].name;
    forward.Replace(old_args[d], start);
  }
  for (OpId id : old_ops) {
    fn_.ops[id].block = body;
    fn_.blocks[body].ops.push_back(id);
    ReplaceOperands(fn_, id, forward);
  }
}

// Bytes an iteration that loads in loops bring and that are the same for all tiles along this
// range. Of loops inside loops every iteration counts once.
double PersistentGrid::Shared(BlockId block, ValueId arg, bool in_loop) {
  double bytes = 0;
  for (OpId id : fn_.blocks[block].ops) {
    const Op& op = fn_.ops[id];
    if (op.kind == OpKind::kFor) position_of_[fn_.blocks[op.regions[0]].args[0]] = id;
    if (op.kind == OpKind::kLoad && in_loop && SameAlong(op, arg))
      bytes += TileBytes(fn_.type(op.results[0]));
    for (BlockId region : op.regions)
      bytes += Shared(region, arg, in_loop || op.kind == OpKind::kFor);
  }
  return bytes;
}

// Does a load in a loop bring what tiles elsewhere along this range read as well?
bool PersistentGrid::ReadAlong(BlockId block, ValueId arg, bool in_loop) const {
  return std::any_of(fn_.blocks[block].ops.begin(), fn_.blocks[block].ops.end(), [&](OpId id) {
    const Op& op = fn_.ops[id];
    if (op.kind == OpKind::kLoad && in_loop &&
        std::none_of(op.operands.begin() + 1, op.operands.end(),
                     [&](ValueId v) { return DependsOn(v, arg); }))
      return true;
    return std::any_of(op.regions.begin(), op.regions.end(), [&](BlockId region) {
      return ReadAlong(region, arg, in_loop || op.kind == OpKind::kFor);
    });
  });
}

// A position that is read from memory (the expert of some rows) is taken to be that of the
// neighbour; ranges that begin at such a one are not.
bool PersistentGrid::SameAlong(const Op& load, ValueId arg) const {
  const std::string& modes = load.s("modes");
  for (size_t i = 1; i < load.operands.size(); ++i) {
    const ValueId v = load.operands[i];
    const bool scalar = i <= modes.size() && modes[i - 1] == 's';
    if (!(scalar && ReadFromMemory(v)) && Follows(v, arg)) return false;
  }
  return true;
}

bool PersistentGrid::ReadFromMemory(ValueId v) const {
  const Op* def = fn_.def(v);
  while (def && def->kind == OpKind::kCast) def = fn_.def(def->operands[0]);
  return def && def->kind == OpKind::kLoad;
}

// Like DependsOn, through the positions of loops, too.
bool PersistentGrid::Follows(ValueId v, ValueId arg) const {
  if (DependsOn(v, arg)) return true;
  std::vector<ValueId> look = {v};
  for (size_t i = 0; i < look.size() && look.size() < 64; ++i) {
    const auto loop = position_of_.find(look[i]);
    if (loop != position_of_.end()) look.push_back(fn_.ops[loop->second].operands[0]);
    if (DependsOn(look[i], arg)) return true;
    const Op* def = fn_.def(look[i]);
    if (def && def->regions.empty())
      look.insert(look.end(), def->operands.begin(), def->operands.end());
  }
  return false;
}

void PersistentGrid::FewTiles(ValueId tiles, Span at) {
  const std::optional<Expr> n = ToExpr(fn_, tiles);
  if (n && !n->is_const())
    fn_.facts.push_back({Expr::Make(Expr::Op::kLt, *n, Expr::Const(int64_t{1} << 31)),
                         "fewer than 2^31 tiles", at});
}

std::optional<Obstacle> PersistTiles(Function& fn, int64_t ctas) {
  return PersistentGrid(fn, ctas).Run();
}
bool OrderTiles(Function& fn, int64_t ctas) { return PersistentGrid(fn, ctas).Order(); }

}  // namespace tilec::ir
