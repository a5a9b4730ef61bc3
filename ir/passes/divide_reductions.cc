// A cluster has eight CTAs. One query of one head and 65536 keys could keep a hundred busy, so the
// iterations of its loop are dealt out twice: to groups, and in each group to the CTAs of a cluster
// (split_reductions.cc). What a group has goes to memory, and a second launch puts it together:
//
//     parallel g in 0..n, i, … { x = for k in (group g's part of lo..hi) (x = 0) { x + f(k) }
//                                P[g, tile, …] = x }
//     parallel i, …            { c = P[0, tile, …] + … + P[n − 1, tile, …]
//                                rest(x0 + c) }
//
// Two launches, since nothing may wait for a CTA that has not begun: the second begins while the
// first ends (griddepcontrol). Groups are added up in their order, so equal shapes give equal bits
// whatever the timing. Sums that are kept relative to a largest value come with that value: the
// largest of all is found first, then each group's sums are rescaled by the loop's own factor.
//
// SPDX-License-Identifier: Apache-2.0
#include "ir/passes/divide_reductions.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "ir/lower/scalars.h"
#include "ir/passes/rewrite.h"
#include "ir/passes/split_reductions.h"
#include "support/check.h"

namespace tilec::ir {
namespace {

class Divide {
 public:
  Divide(const Function& fn, int64_t groups) : fn_(fn), groups_(groups) {}

  std::optional<Obstacle> Find() {
    if (std::optional<Obstacle> obstacle = FindLongReduction(fn_, &found_)) return obstacle;
    const Op& grid = fn_.ops[found_.grid];
    for (size_t d = 0; d < grid.ints("steps").size(); ++d) {
      const std::optional<Expr> low = ToExpr(fn_, grid.operands[2 * d]);
      const std::optional<Expr> high = ToExpr(fn_, grid.operands[2 * d + 1]);
      if (!low || !high) return Obstacle{"its grid is not known at the launch", grid.at};
      const Expr length = Expr::Make(Expr::Op::kSub, *high, *low);
      counts_.push_back(Simplify(
          Expr::Make(Expr::Op::kMax, Expr::Const(0),
                     Expr::Make(Expr::Op::kCeilDiv, length, Expr::Const(grid.ints("steps")[d])))));
    }
    const Op& loop = fn_.ops[found_.loop];
    for (ValueId result : loop.results)
      if (fn_.type(result).shape.empty() || fn_.type(result).shape.size() > 2)
        return Obstacle{"its loop carries something else than rows and tiles", loop.at};
    return std::nullopt;
  }
  size_t tensors() const { return fn_.ops[found_.loop].results.size(); }

 private:
  // One for each result of the loop: [groups, tiles, the tile's shape].
  std::vector<ValueId> AddTensors(Function& fn, Direction direction) const {
    Expr tiles = Expr::Const(1);
    for (const Expr& count : counts_) tiles = Expr::Make(Expr::Op::kMul, tiles, count);
    std::vector<ValueId> out;
    for (ValueId result : fn_.ops[found_.loop].results) {
      const Type type = fn_.type(result);
      Param param;
      param.name = "part" + std::to_string(out.size());
      while (fn.param(param.name)) param.name += "_";
      param.direction = direction;
      param.dims = {Expr::Const(groups_), Simplify(tiles)};
      int64_t bytes = static_cast<int64_t>(ByteSize(type.dtype));
      for (int64_t extent : type.shape) param.dims.push_back(Expr::Const(extent)), bytes *= extent;
      const int64_t columns = type.shape.back();
      const int64_t row = columns * static_cast<int64_t>(ByteSize(type.dtype));
      const int64_t pitch = type.shape.size() == 2 ? row : bytes;
      param.facts = {.base_align_bytes = kAligned,
                     .stride_align_bytes = std::min(kAligned, pitch & -pitch),
                     .last_dim_align = columns & -columns,
                     .last_contiguous = true};
      param.at = fn_.ops[found_.loop].at;
      const auto rank = static_cast<int64_t>(param.dims.size());
      out.push_back(fn.AddParam(std::move(param), Type::Tensor(type.dtype, rank)));
    }
    return out;
  }

  // The tile's number. `first`: of the grid's variables among its block's arguments.
  ValueId Tile(Builder& b, Function& fn, size_t first) const {
    const Op grid = fn_.ops[found_.grid];
    const std::vector<ValueId> args = fn.blocks[grid.regions[0]].args;
    ValueId tile = b.Int(0);
    for (size_t d = counts_.size(); d-- > 0;) {
      const ValueId from = b.Binary(OpKind::kSub, args[first + d], grid.operands[2 * d]);
      const ValueId at = b.Binary(OpKind::kDiv, from, b.Int(grid.ints("steps")[d]));
      tile = b.Binary(OpKind::kAdd, b.Binary(OpKind::kMul, tile, b.FromExpr(counts_[d])), at);
    }
    return tile;
  }

  static std::string Modes(const Type& type) { return "ss" + std::string(type.shape.size(), 'r'); }

  // In front of the grid, so that its bounds can be these.
  static std::pair<ValueId, ValueId> Range(Function& fn, OpId grid, int64_t high) {
    std::vector<OpId>& ops = fn.blocks[fn.body].ops;
    const auto at = std::find(ops.begin(), ops.end(), grid);
    const std::vector<OpId> behind(at, ops.end());
    ops.erase(at, ops.end());
    Builder b(fn, fn.body);
    b.SetSpan(fn.ops[grid].at);
    const std::pair<ValueId, ValueId> range = {b.Int(0), b.Int(high)};
    std::vector<OpId>& all = fn.blocks[fn.body].ops;
    all.insert(all.end(), behind.begin(), behind.end());
    return range;
  }

 public:
  Function Parts() const {
    Function fn = fn_;
    fn.name += "_parts";
    const std::vector<ValueId> tensors = AddTensors(fn, Direction::kOut);
    const auto [none, all] = Range(fn, found_.grid, groups_);
    Op& grid = fn.ops[found_.grid];
    grid.operands.insert(grid.operands.begin(), {none, all});
    std::vector<int64_t> steps = grid.ints("steps");
    steps.insert(steps.begin(), 1);
    grid.set("steps", steps);
    const BlockId body = grid.regions[0];
    const ValueId group = fn.AddArg(body, Type::Scalar(DType::kI64), "group");
    std::vector<ValueId>& args = fn.blocks[body].args;
    std::rotate(args.begin(), args.end() - 1, args.end());

    const std::vector<OpId> old = fn.blocks[body].ops;
    const auto place = std::find(old.begin(), old.end(), found_.loop);
    fn.blocks[body].ops.assign(old.begin(), place);
    Builder b(fn, body);
    const Op loop = fn.ops[found_.loop];
    b.SetSpan(loop.at);
    const int64_t step = loop.i("step");
    const ValueId low = loop.operands[0], high = loop.operands[1];
    const ValueId length = b.Binary(OpKind::kSub, high, low);
    const ValueId more = b.Binary(OpKind::kAdd, length, b.Int(step * groups_ - 1));
    const ValueId chunk = b.Binary(OpKind::kDiv, more, b.Int(step * groups_));
    const ValueId part = b.Binary(OpKind::kMul, chunk, b.Int(step));
    const ValueId begin = b.Binary(OpKind::kAdd, low, b.Binary(OpKind::kMul, group, part));
    const ValueId end = b.Binary(OpKind::kMin, high, b.Binary(OpKind::kAdd, begin, part));
    std::vector<ValueId> operands = {begin, end};
    for (size_t i = 0; i < loop.results.size(); ++i) {
      const ValueId start = loop.operands[2 + i];
      const bool sum = found_.kinds[i] == "add" && !IsZero(fn, start);  // added in `whole`
      operands.push_back(sum ? b.Constant(fn.type(start), 0) : start);
    }
    fn.ops[found_.loop].operands = std::move(operands);
    fn.blocks[body].ops.push_back(found_.loop);
    const ValueId tile = Tile(b, fn, 1);
    for (size_t i = 0; i < loop.results.size(); ++i) {
      const Type type = fn.type(loop.results[i]);
      std::vector<ValueId> to = {tensors[i], loop.results[i], group, tile};
      for (int64_t extent : type.shape) to.push_back(b.Int(0)), to.push_back(b.Int(extent));
      b.Add(OpKind::kStore, std::move(to), {}, {{"modes", Modes(type)}, {"sizes", Sizes(type)}});
    }
    fn.blocks[body].ops.push_back(old.back());
    return fn;
  }

 private:
  static std::vector<int64_t> Sizes(const Type& type) {
    std::vector<int64_t> sizes = {1, 1};
    sizes.insert(sizes.end(), type.shape.begin(), type.shape.end());
    return sizes;
  }

  // v of the loop's body, with other values in place of some, in b's block.
  ValueId Cloned(Builder& b, Function& fn, ValueId v, ValueMap& map) const {
    const OpId def = fn.values[v].def;
    if (map.count(v) > 0 || !def.valid() || fn.ops[def].block != fn.ops[found_.loop].regions[0])
      return At(map, v);
    for (ValueId operand : std::vector<ValueId>(fn.ops[def].operands)) Cloned(b, fn, operand, map);
    CloneOp(b, fn, def, map);
    return At(map, v);
  }

 public:
  Function Whole() const {
    Function fn = fn_;
    const std::vector<ValueId> tensors = AddTensors(fn, Direction::kIn);
    const BlockId body = fn.ops[found_.grid].regions[0];
    const std::vector<OpId> old = fn.blocks[body].ops;
    const auto place = std::find(old.begin(), old.end(), found_.loop);
    fn.blocks[body].ops.assign(old.begin(), place);
    const Op loop = fn.ops[found_.loop];
    Builder b(fn, body);
    b.SetSpan(loop.at);
    const ValueId tile = Tile(b, fn, 0);
    const auto part = [&](size_t i, int64_t group) {
      const Type type = fn.type(loop.results[i]);
      std::vector<ValueId> from = {tensors[i], b.Int(group), tile};
      for (size_t d = 0; d < type.shape.size(); ++d) from.push_back(b.Int(0));
      return b.Value(OpKind::kLoad, std::move(from), type,
                     {{"modes", Modes(type)}, {"sizes", Sizes(type)}});
    };
    const auto combined = [&](const std::string& kind, ValueId before, ValueId next) {
      CHECK(kind == "add" || kind == "max" || kind == "min", "a part's " + kind);
      if (!before.valid()) return next;
      const OpKind op = kind == "add" ? OpKind::kAdd : kind == "max" ? OpKind::kMax : OpKind::kMin;
      return b.Binary(op, before, next);
    };
    std::vector<ValueId> all(loop.results.size()), own;
    ValueId reference;  // where a row has seen nothing but −∞: 0, if the loop does not say what
    const auto& rescaled = found_.rescaled;
    if (rescaled)
      for (int64_t g = 0; g < groups_; ++g) own.push_back(part(rescaled->reference, g));
    // Some groups' loads in front of all that uses them: one wait for these, not one for each.
    const auto together = static_cast<size_t>(std::max<int64_t>(1, kHeldElements / Largest(fn)));
    std::vector<std::vector<ValueId>> parts;  // of each group, of each result
    const auto load = [&] {
      const auto groups = static_cast<size_t>(groups_);
      for (const size_t end = std::min(groups, parts.size() + together); parts.size() < end;) {
        std::vector<ValueId> next(all.size());
        for (size_t i = 0; i < all.size(); ++i)
          if (!rescaled || i != rescaled->reference)
            next[i] = part(i, static_cast<int64_t>(parts.size()));
        parts.push_back(std::move(next));
      }
    };
    load();
    if (rescaled) {
      ValueId& largest = all[rescaled->reference];
      for (ValueId m : own) largest = combined("max", largest, m);
      reference = largest;
      if (!rescaled->guarded) {
        const Type type = fn.type(largest);
        const ValueId none =
            b.Cmp("eq", largest, b.Constant(type, -std::numeric_limits<double>::infinity()));
        reference = b.Value(OpKind::kSelect, {none, b.Constant(type, 0), largest}, type);
      }
    }
    for (size_t g = 0; g < static_cast<size_t>(groups_); ++g) {
      if (g == parts.size()) load();
      for (size_t i = 0; i < all.size(); ++i) {
        if (rescaled && i == rescaled->reference) continue;
        ValueId next = parts[g][i];
        if (rescaled)
          if (const auto sum = rescaled->sums.find(i); sum != rescaled->sums.end()) {
            ValueMap map = {{rescaled->old, own[g]}, {rescaled->next, reference}};
            next = b.Binary(OpKind::kMul, next, Cloned(b, fn, sum->second, map));
          }
        all[i] = combined(found_.kinds[i], all[i], next);
      }
    }
    Forwarding forward(fn);
    for (size_t i = 0; i < loop.results.size(); ++i) {
      const ValueId start = loop.operands[2 + i];
      const bool sum = found_.kinds[i] == "add" && !IsZero(fn, start);
      forward.Replace(loop.results[i], sum ? b.Binary(OpKind::kAdd, start, all[i]) : all[i]);
    }
    for (auto it = place + 1; it != old.end(); ++it) {
      fn.blocks[body].ops.push_back(*it);
      ReplaceOperands(fn, *it, forward);
    }
    return fn;
  }

 private:
  // Elements of the largest tile that a group has.
  int64_t Largest(const Function& fn) const {
    int64_t most = 1;
    for (ValueId result : fn_.ops[found_.loop].results)
      most = std::max(most, fn.type(result).elements());
    return most;
  }

  static constexpr int64_t kAligned = 256;  // of what the runtime allocates
  // Of parts that are loaded together: 128 registers of each of 128 threads.
  static constexpr int64_t kHeldElements = 16384;
  const Function& fn_;
  const int64_t groups_;
  LongReduction found_;
  std::vector<Expr> counts_;  // tiles along each range of the grid
};

}  // namespace

std::optional<Obstacle> DivideReductions(const Function& fn, int64_t groups, Division* out) {
  Divide divide(fn, groups);
  if (std::optional<Obstacle> obstacle = divide.Find()) return obstacle;
  *out = {divide.Parts(), divide.Whole(), divide.tensors()};
  return std::nullopt;
}

std::optional<Obstacle> PartsOfReductions(const Function& fn, int64_t groups, Function* out) {
  Divide divide(fn, groups);
  if (std::optional<Obstacle> obstacle = divide.Find()) return obstacle;
  *out = divide.Parts();
  return std::nullopt;
}

Function WholeOfReductions(const Function& fn, int64_t groups) {
  Divide divide(fn, groups);
  CHECK(!divide.Find(), "it has parts");
  return divide.Whole();
}

}  // namespace tilec::ir
