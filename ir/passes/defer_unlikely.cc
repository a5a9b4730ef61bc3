// A role that loads for others runs ahead of them, into the next tile while this one is finished.
// A branch on what was computed stops it: it has to know whether the branch loads something before
// it goes on (H200, attention that looks whether a row has overflowed: 7 to 10 %, where none had).
// Where the author says that the branch hardly ever runs, all tiles are made without it, and those
// that want it are marked. A second launch reads the marks and does the rest:
//
//     parallel i, … { v = f(i); if unlikely any(c(v)) { A(i) } else { B(v) } }
//  →  parallel i, … { v = f(i); M[tile, :] = c(v); B(v) }
//     parallel groups { if any(M[group, :]) { for i in group { if any(M[tile, :]) { A(i) } } } }
//
// What B stores is stored for every tile, so it has to be what A stores as well, at the same place;
// and what A needs beside the inputs is computed again, so nothing may be read that was written.
// Marks are those of which the condition asks whether any holds, one for each row: threads need not
// meet to agree on them.
//
// SPDX-License-Identifier: Apache-2.0
#include "ir/passes/defer_unlikely.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "ir/arms.h"
#include "ir/lower/scalars.h"
#include "ir/passes/rewrite.h"

namespace tilec::ir {
namespace {

constexpr int64_t kGroup = 16;     // tiles whose marks one CTA of the second launch looks at
constexpr int64_t kAligned = 256;  // of what the runtime allocates

class Defer {
 public:
  explicit Defer(const Function& fn) : fn_(fn) {}

  std::optional<Obstacle> Run(Deferral* out) {
    if (std::optional<Obstacle> obstacle = Find()) return obstacle;
    if (std::optional<Obstacle> obstacle = CheckReads()) return obstacle;
    if (std::optional<Obstacle> obstacle = CheckStores()) return obstacle;
    out->likely = MakeLikely();
    out->again = MakeAgain();
    return std::nullopt;
  }

 private:
  std::optional<Obstacle> Find() {
    for (OpId id : fn_.blocks[fn_.body].ops)
      if (fn_.ops[id].kind == OpKind::kParallel) grid_ = id;
    if (!grid_.valid()) return Obstacle{"it has no grid", {}};
    const Op& grid = fn_.ops[grid_];
    for (OpId id : fn_.blocks[grid.regions[0]].ops)
      if (fn_.ops[id].i("unlikely") != 0) branch_ = id;
    if (!branch_.valid())
      return Obstacle{"it stands in a loop or in another branch", UnlikelyAt(fn_)};
    const Op& branch = fn_.ops[branch_];
    const std::vector<OpId>& ops = fn_.blocks[grid.regions[0]].ops;
    for (OpId id : OpsInOrder(fn_))  // what nobody reads is no result
      for (ValueId read : fn_.ops[id].operands)
        if (std::count(branch.results.begin(), branch.results.end(), read))
          return Obstacle{"what it assigns is used behind it", branch.at};
    if (ops.size() < 2 || ops[ops.size() - 2] != branch_)
      return Obstacle{"something stands behind it", branch.at};
    if (grid.i("cluster", 1) > 1) return Obstacle{"CTAs of a cluster work together", grid.at};
    for (size_t d = 0; d < grid.ints("steps").size(); ++d) {
      const std::optional<Expr> low = ToExpr(fn_, grid.operands[2 * d]);
      const std::optional<Expr> high = ToExpr(fn_, grid.operands[2 * d + 1]);
      if (!low || !high) return Obstacle{"its grid is not known at the launch", grid.at};
      const Expr length = Expr::Make(Expr::Op::kSub, *high, *low);
      counts_.push_back(Simplify(
          Expr::Make(Expr::Op::kMax, Expr::Const(0),
                     Expr::Make(Expr::Op::kCeilDiv, length, Expr::Const(grid.ints("steps")[d])))));
    }
    mark_ = branch.operands[0];
    if (const Op* any = fn_.def(mark_); any && any->kind == OpKind::kReduce &&
                                        any->s("kind") == "any" &&
                                        fn_.type(any->operands[0]).rank() == 1)
      mark_ = any->operands[0];
    return std::nullopt;
  }

  // All is computed from what the launch is given.
  std::optional<Obstacle> CheckReads() const {
    for (OpId id : OpsInOrder(fn_)) {
      const Op& op = fn_.ops[id];
      if (op.kind == OpKind::kLoad && !IsReadOnlyLoad(fn_, op))
        return Obstacle{"what is read here the kernel writes as well", op.at};
      if (Fetches(op)) return Obstacle{"what this finds in memory is another thing later", op.at};
    }
    return std::nullopt;
  }

  // The stores of an arm; `plain`: it writes nothing but by these, each time it runs.
  std::vector<OpId> StoresOf(BlockId arm, bool* plain) const {
    std::vector<OpId> stores;
    *plain = true;
    for (OpId id : fn_.blocks[arm].ops) {
      if (fn_.ops[id].kind == OpKind::kStore) {
        stores.push_back(id);
        continue;
      }
      *plain = *plain && Info(fn_.ops[id].kind).effect != OpEffect::kWrite;
      for (OpId inner : OpsInside(fn_, id))
        *plain = *plain && Info(fn_.ops[inner].kind).effect != OpEffect::kWrite;
    }
    return stores;
  }

  std::optional<Obstacle> CheckStores() const {
    const Op& branch = fn_.ops[branch_];
    bool plain = true;
    const std::vector<OpId> stored = StoresOf(branch.regions[0], &plain);
    const std::vector<OpId> instead = StoresOf(branch.regions[1], &plain);
    if (!plain) return Obstacle{"`else` writes in a loop, in a branch or atomically", branch.at};
    for (OpId store : instead)
      if (std::none_of(stored.begin(), stored.end(),
                       [&](OpId other) { return SamePlace(fn_.ops[store], fn_.ops[other]); }))
        return Obstacle{"it stores something else than `else` does, or elsewhere",
                        fn_.ops[store].at};
    return std::nullopt;
  }
  bool SamePlace(const Op& a, const Op& b) const {
    if (a.operands[0] != b.operands[0] || a.operands.size() != b.operands.size() ||
        a.s("modes") != b.s("modes") || a.ints("sizes") != b.ints("sizes"))
      return false;
    for (size_t i = 2; i < a.operands.size(); ++i)
      if (!Same(a.operands[i], b.operands[i], 0)) return false;
    return true;
  }
  bool Same(ValueId a, ValueId b, int depth) const {
    constexpr int kDeepest = 32;
    if (a == b) return true;
    const Op *x = fn_.def(a), *y = fn_.def(b);
    if (!x || !y || depth > kDeepest || x->kind != y->kind || !x->regions.empty() ||
        x->attrs != y->attrs || x->operands.size() != y->operands.size() ||
        Info(x->kind).effect != OpEffect::kPure || fn_.type(a) != fn_.type(b))
      return false;
    for (size_t i = 0; i < x->operands.size(); ++i)
      if (!Same(x->operands[i], y->operands[i], depth + 1)) return false;
    return true;
  }

  // ---- both launches

  // [tiles, what a tile is marked by]
  ValueId AddMarks(Function& fn, Direction direction) const {
    Expr tiles = Expr::Const(1);
    for (const Expr& count : counts_) tiles = Expr::Make(Expr::Op::kMul, tiles, count);
    Param param;
    param.name = "marks";
    while (fn.param(param.name)) param.name += "_";
    param.direction = direction;
    const int64_t marks = Marks(), bytes = marks * static_cast<int64_t>(ByteSize(DType::kI32));
    param.dims = {Simplify(tiles), Expr::Const(marks)};
    param.facts = {.base_align_bytes = kAligned,
                   .stride_align_bytes = std::min(kAligned, bytes & -bytes),
                   .last_dim_align = marks & -marks,
                   .last_contiguous = true};
    param.at = fn_.ops[branch_].at;
    return fn.AddParam(std::move(param), Type::Tensor(DType::kI32, 2));
  }
  int64_t Marks() const { return fn_.type(mark_).rank() == 0 ? 1 : fn_.type(mark_).elements(); }

  // The number of the tile that begins at these places.
  ValueId Tile(Builder& b, const std::vector<ValueId>& at) const {
    const Op& grid = fn_.ops[grid_];
    ValueId tile = b.Int(0);
    for (size_t d = counts_.size(); d-- > 0;) {
      const ValueId from = b.Binary(OpKind::kSub, at[d], grid.operands[2 * d]);
      const ValueId place = b.Binary(OpKind::kDiv, from, b.Int(grid.ints("steps")[d]));
      tile = b.Binary(OpKind::kAdd, b.Binary(OpKind::kMul, tile, b.FromExpr(counts_[d])), place);
    }
    return tile;
  }

  Function MakeLikely() const {
    Function fn = fn_;
    fn.name += "_likely";
    const ValueId marks = AddMarks(fn, Direction::kOut);
    const BlockId body = fn.ops[grid_].regions[0];
    const OpId yield = fn.blocks[body].ops.back();
    fn.blocks[body].ops.resize(fn.blocks[body].ops.size() - 2);
    Builder b(fn, body);
    b.SetSpan(fn.ops[branch_].at);
    const ValueId tile = Tile(b, fn.blocks[body].args);
    const ValueId mark = b.Cast(mark_, DType::kI32);
    if (fn.type(mark_).rank() == 0)
      b.Add(OpKind::kStore, {marks, mark, tile, b.Int(0)}, {},
            {{"modes", std::string("ss")}, {"sizes", std::vector<int64_t>{1, 1}}});
    else
      b.Add(OpKind::kStore, {marks, mark, tile, b.Int(0), b.Int(Marks())}, {},
            {{"modes", std::string("sr")}, {"sizes", std::vector<int64_t>{1, Marks()}}});
    const BlockId instead = fn.ops[branch_].regions[1];
    for (OpId id : std::vector<OpId>(fn.blocks[instead].ops)) {
      if (fn.ops[id].kind == OpKind::kYield) continue;
      fn.ops[id].block = body;
      fn.blocks[body].ops.push_back(id);
    }
    fn.blocks[body].ops.push_back(yield);
    return fn;
  }

  // Does one of `tiles` tiles from this one on want it?
  ValueId Marked(Builder& b, ValueId marks, ValueId tile, int64_t tiles) const {
    const int64_t each = Marks();
    const ValueId read =
        b.Value(OpKind::kLoad, {marks, tile, b.Int(0)}, Type::Tile(DType::kI32, {tiles, each}),
                {{"modes", std::string("rr")}, {"sizes", std::vector<int64_t>{tiles, each}}});
    const ValueId set = b.Cmp("ne", read, b.Constant(b.fn().type(read), 0));
    const auto any = [&](ValueId of, std::vector<int64_t> shape) {
      const int64_t axis = static_cast<int64_t>(shape.size());
      return b.Value(OpKind::kReduce, {of}, Type::Tile(DType::kBool, std::move(shape)),
                     {{"kind", std::string("any")}, {"axis", axis}});
    };
    return any(any(set, {tiles}), {});
  }

  // Nothing is written a second time.
  void RemoveWrites(Function& fn, BlockId block) const {
    std::erase_if(fn.blocks[block].ops, [&](OpId id) {
      return id != branch_ && Info(fn.ops[id].kind).effect == OpEffect::kWrite;
    });
    for (OpId id : std::vector<OpId>(fn.blocks[block].ops))
      if (id != branch_)
        for (BlockId region : std::vector<BlockId>(fn.ops[id].regions)) RemoveWrites(fn, region);
  }

  // A branch of these ops, at the end of b's block.
  static BlockId If(Builder& b, ValueId condition) {
    Function& fn = b.fn();
    const OpId branch = b.Add(OpKind::kIf, {condition}, {}, {{"unlikely", int64_t{1}}});
    const BlockId then = fn.AddBlock(branch), otherwise = fn.AddBlock(branch);
    fn.ops[branch].regions = {then, otherwise};
    const Span at = b.span();
    Builder none(fn, otherwise);
    none.SetSpan(at);
    none.Yield({});
    return then;
  }

  Function MakeAgain() const {
    Function fn = fn_;
    const ValueId marks = AddMarks(fn, Direction::kIn);
    const BlockId region = fn.ops[grid_].regions[0];
    RemoveWrites(fn, region);
    std::vector<OpId> ops = fn.blocks[region].ops;
    const OpId yield = ops.back();
    ops.resize(ops.size() - 2);
    std::vector<int64_t> steps = fn.ops[grid_].ints("steps");
    const int64_t step = steps[0];
    steps[0] *= kGroup;
    fn.ops[grid_].set("steps", steps);
    fn.blocks[region].ops.clear();

    Builder b(fn, region);
    b.SetSpan(fn.ops[branch_].at);
    std::vector<ValueId> at = fn.blocks[region].args;
    const ValueId first = at[0];
    const BlockId some = If(b, Marked(b, marks, Tile(b, at), kGroup));
    fn.blocks[region].ops.push_back(yield);

    b.SetBlock(some);
    const ValueId end = b.Binary(OpKind::kMin, b.Binary(OpKind::kAdd, first, b.Int(step * kGroup)),
                                 fn.ops[grid_].operands[1]);
    const OpId loop = b.Add(OpKind::kFor, {first, end}, {}, {{"step", step}});
    const BlockId body = fn.AddBlock(loop);
    fn.ops[loop].regions.push_back(body);
    at[0] = fn.AddArg(body, Type::Scalar(DType::kI64), fn.values[first].name);
    b.Yield({});

    b.SetBlock(body);
    Forwarding forward(fn);
    forward.Replace(first, at[0]);
    const BlockId then = If(b, Marked(b, marks, Tile(b, at), 1));
    b.Yield({});
    for (OpId id : fn.blocks[fn.ops[branch_].regions[0]].ops) ops.push_back(id);
    fn.ops[ops.back()].operands.clear();  // it yields nothing now
    for (OpId id : ops) {
      fn.ops[id].block = then;
      fn.blocks[then].ops.push_back(id);
      ReplaceOperands(fn, id, forward);
    }
    return fn;
  }

  const Function& fn_;
  OpId grid_, branch_;
  ValueId mark_;              // bools of which one wants the branch, or the condition itself
  std::vector<Expr> counts_;  // tiles along each range of the grid
};

OpId FirstUnlikely(const Function& fn) {
  const std::vector<OpId> ops = OpsInOrder(fn);  // others were left behind
  const auto at =
      std::find_if(ops.begin(), ops.end(), [&](OpId id) { return fn.ops[id].i("unlikely") != 0; });
  return at == ops.end() ? OpId() : *at;
}

}  // namespace

bool HasUnlikely(const Function& fn) { return FirstUnlikely(fn).valid(); }

Span UnlikelyAt(const Function& fn) {
  const OpId first = FirstUnlikely(fn);
  return first.valid() ? fn.ops[first].at : Span{};
}

std::optional<Obstacle> DeferUnlikely(const Function& fn, Deferral* out) {
  return Defer(fn).Run(out);
}

Function Likely(Function fn) {
  Deferral deferral;
  if (!HasUnlikely(fn) || DeferUnlikely(fn, &deferral)) return fn;
  return std::move(deferral.likely);
}

}  // namespace tilec::ir
