// Instances of a grid that differ in whose rows they compute, and read the same otherwise, become
// rows of one tile, as query heads of a group that share keys do:
//
//     parallel q in 0..S step n, h in 0..H {
//       g = h / R   x = load X[h, q : n, …]   …   store Y[h, q : n, …] }   →
//     parallel q in 0..S step n/p, j in 0..⌈H / R⌉ · ⌈R / p⌉ {
//       g = j / ⌈R / p⌉   h = g · R + j mod ⌈R / p⌉ · p
//       x = load X[h : p, q : n/p, …]   …   store Y[h : p, q : n/p, …] }
//
// Row r of a tile is row r mod n/p of instance (q, h + r / (n/p)). Few rows of many heads fill a
// product that few rows of one do not, and what the heads share is read once.
//
// Right where rows do not meet (no sum over them, no product that contracts them), h is used for
// nothing but the group and whose rows they are, and q for positions and bounds, which begin at
// multiples of n/p then. Along the rows nothing may vary but by their position: that is followed
// through the ops, dim by dim.
//
// SPDX-License-Identifier: Apache-2.0
#include "ir/passes/pack_rows.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "ir/passes/rewrite.h"
#include "ir/uses.h"

namespace tilec::ir {
namespace {

// Of a tile: the dim along which its rows lie, −1: it is the same for all rows; other dims along
// which it varies, a bit each.
struct Rows {
  int64_t dim = -1;
  uint64_t others = 0;
  friend bool operator==(const Rows&, const Rows&) = default;
};

class Packer {
 public:
  Packer(Function& fn, int64_t heads) : fn_(fn), heads_(heads), uses_(fn) {}

  std::optional<Obstacle> Run() {
    for (OpId id : fn_.blocks[fn_.body].ops)
      if (fn_.ops[id].kind == OpKind::kParallel) grid_ = id;
    if (!grid_.valid()) return No("it has no grid", {});
    const Op& grid = fn_.ops[grid_];
    if (grid.i("cluster", 1) > 1) return No("its CTAs come in clusters already", grid.at);
    const std::vector<ValueId>& args = fn_.blocks[grid.regions[0]].args;
    std::optional<Obstacle> why = No("no range of its grid is cut into groups", grid.at);
    for (size_t d = 0; d < args.size(); ++d) {
      share_ = ValueId();
      if (grid.ints("steps")[d] != 1 || !IsInt(grid.operands[2 * d], 0) || !CutIntoGroups(args[d]))
        continue;
      h_ = d;
      why = Look();
      if (!why) {
        Rewrite();
        return std::nullopt;
      }
    }
    return why;
  }

 private:
  static Obstacle No(std::string why, Span at) { return {std::move(why), at}; }
  bool IsInt(ValueId v, int64_t n) const {
    const int64_t* value = IntConstantOf(fn_, v);
    return value && *value == n;
  }
  ValueId Arg(size_t d) const { return fn_.blocks[fn_.ops[grid_].regions[0]].args[d]; }

  // Is h used for h / R and positions of tensors only? R is a scalar that ops before the grid could
  // make.
  bool CutIntoGroups(ValueId h) {
    for (const Uses::Use& use : uses_.of(h)) {
      const Op& op = fn_.ops[use.reader];
      if (op.kind == OpKind::kLoad || op.kind == OpKind::kStore) continue;
      if (op.kind != OpKind::kDiv || use.operand != 0) return false;
      if (share_.valid() && share_ != op.operands[1]) return false;
      share_ = op.operands[1];
    }
    return share_.valid() && OfTheLaunch(share_);
  }
  bool OfTheLaunch(ValueId v) const {
    const OpId def = fn_.values[v].def;
    if (!def.valid()) return fn_.param(v) != nullptr;
    const Op& op = fn_.ops[def];
    return (op.kind == OpKind::kConstant || Info(op.kind).elementwise()) &&
           fn_.type(v).is_scalar() &&
           std::all_of(op.operands.begin(), op.operands.end(),
                       [&](ValueId operand) { return OfTheLaunch(operand); });
  }

  // Dims of the tensor by their operands: which of them is this one of?
  static size_t DimOf(const Op& access, size_t operand) {
    const bool store = access.kind != OpKind::kLoad;
    size_t at = store ? 2 : 1, d = 0;
    for (const std::string& modes = access.s("modes"); d < modes.size(); ++d) {
      const size_t next = at + OperandsOf(modes[d], store);
      if (operand < next) break;
      at = next;
    }
    return d;
  }
  // Operand of dim d.
  static size_t OperandOf(const Op& access, size_t dim) {
    const bool store = access.kind != OpKind::kLoad;
    size_t at = store ? 2 : 1;
    for (size_t d = 0; d < dim; ++d) at += OperandsOf(access.s("modes")[d], store);
    return at;
  }

  std::optional<Obstacle> Look() {
    // Whose rows they are, and at which of them they begin.
    accesses_.clear(), iotas_.clear();
    const std::vector<ValueId>& args = fn_.blocks[fn_.ops[grid_].regions[0]].args;
    for (const Uses::Use& use : uses_.of(Arg(h_))) {
      const Op& op = fn_.ops[use.reader];
      if (op.kind == OpKind::kDiv) continue;
      const std::string& modes = op.s("modes");
      const size_t h = DimOf(op, use.operand), q = h + 1;
      if (h >= modes.size() || modes[h] != 's' || q >= modes.size() || modes[q] != 'r' ||
          modes.find_first_of("fgp") != std::string::npos || modes.back() != 'r' ||
          q + 1 >= modes.size() || std::count(modes.begin(), modes.end(), 'r') != 2)
        return No("its rows are no box of a tensor", op.at);
      const ValueId start = op.operands[OperandOf(op, q)];
      const auto d = static_cast<size_t>(std::find(args.begin(), args.end(), start) - args.begin());
      if (d == args.size() || (!accesses_.empty() && d != q_))
        return No("its rows do not begin at a position of the grid", op.at);
      q_ = d;
      accesses_[use.reader] = h;
    }
    if (accesses_.empty()) return No("it has no rows of its own", fn_.ops[grid_].at);
    rows_ = fn_.ops[grid_].ints("steps")[q_];
    if (rows_ % heads_ != 0 || (rows_ / heads_ & (rows_ / heads_ - 1)) != 0)
      return No("a tile has no such part of the rows", fn_.ops[grid_].at);
    of_.clear();
    scalars_ = {Arg(q_)};
    return Follow(fn_.ops[grid_].regions[0]);
  }

  Rows Of(ValueId v) const {
    const auto at = of_.find(v);
    return at == of_.end() ? Rows() : at->second;
  }

  // What of the block's tiles lies along the rows.
  std::optional<Obstacle> Follow(BlockId block) {
    for (OpId id : std::vector<OpId>(fn_.blocks[block].ops))
      if (std::optional<Obstacle> why = FollowOp(id)) return why;
    return std::nullopt;
  }

  std::optional<Obstacle> FollowOp(OpId id) {
    const Op& op = fn_.ops[id];
    const Obstacle meet = No("its rows meet", op.at);
    // Scalars that hang on q: positions and bounds.
    const bool of_q = std::any_of(op.operands.begin(), op.operands.end(),
                                  [&](ValueId v) { return scalars_.count(v) > 0; });
    if (Info(op.kind).elementwise() && of_q) {
      switch (op.kind) {
        case OpKind::kAdd:
        case OpKind::kSub:
        case OpKind::kMin:
        case OpKind::kMax:
        case OpKind::kCast:
        case OpKind::kCmp:
        case OpKind::kSelect: break;
        default: return No("it computes with its position in the grid", op.at);
      }
      if (fn_.type(op.results[0]).is_scalar()) {
        scalars_.insert(op.results[0]);
        return std::nullopt;
      }
    }
    if (Info(op.kind).elementwise()) {
      Rows out;
      for (ValueId v : op.operands) out.dim = std::max(out.dim, Of(v).dim);
      for (ValueId v : op.operands) {
        const Rows in = Of(v);
        if (in.dim >= 0 && in.dim != out.dim) return meet;
        out.others |= in.others;
      }
      if (out.dim >= 0 && (out.others >> out.dim & 1) != 0) return meet;
      of_[op.results[0]] = out;
      return std::nullopt;
    }
    switch (op.kind) {
      case OpKind::kConstant:
      case OpKind::kYield: return std::nullopt;
      case OpKind::kIota: {
        const bool own = op.operands[0] == Arg(q_);
        if (scalars_.count(op.operands[0]) > 0 && !own)
          return No("it computes with its position in the grid", op.at);
        if (own && fn_.type(op.results[0]).shape[0] != rows_) return meet;
        of_[op.results[0]] = own ? Rows{0, 0} : Rows{-1, 1};
        if (own) iotas_.push_back(id);
        return std::nullopt;
      }
      case OpKind::kReshape:
      case OpKind::kBroadcast:
      case OpKind::kTranspose: return Moves(op);
      case OpKind::kReduce: {
        Rows in = Of(op.operands[0]);
        const int64_t gone = op.i("axis");
        if (in.dim == gone) return meet;
        const uint64_t below = (uint64_t{1} << gone) - 1;
        in.others = (in.others & below) | (in.others >> 1 & ~below);
        in.dim -= in.dim > gone;
        of_[op.results[0]] = in;
        return std::nullopt;
      }
      case OpKind::kDot: {
        const Rows a = Of(op.operands[0]), b = Of(op.operands[1]), c = Of(op.operands[2]);
        if (op.operands.size() > 3 || a.dim == 1 || b.dim == 0 || (a.dim == 0 && b.dim == 1))
          return meet;
        Rows out{a.dim == 0 ? 0 : b.dim == 1 ? 1 : c.dim, c.others};
        if (a.dim != 0) out.others |= a.others & 1;
        if (b.dim != 1) out.others |= b.others & 2;
        if ((c.dim >= 0 && c.dim != out.dim) || (out.dim >= 0 && (out.others >> out.dim & 1) != 0))
          return meet;
        of_[op.results[0]] = out;
        return std::nullopt;
      }
      case OpKind::kLoad:
      case OpKind::kStore: return Accesses(id);
      case OpKind::kFor: return FollowLoop(id);
      default: return No("it has an op that rows of several heads do not have", op.at);
    }
  }

  std::optional<Obstacle> Moves(const Op& op) {
    const Rows in = Of(op.operands[0]);
    const Type &from = fn_.type(op.operands[0]), &to = fn_.type(op.results[0]);
    Rows out;
    int64_t at = 0;  // of a reshape
    for (int64_t d = 0; d < from.rank(); ++d) {
      int64_t there = -1;
      if (op.kind == OpKind::kBroadcast) {
        there = op.ints("axes")[static_cast<size_t>(d)];
      } else if (op.kind == OpKind::kTranspose) {
        const std::vector<int64_t>& perm = op.ints("perm");
        there = std::find(perm.begin(), perm.end(), d) - perm.begin();
      } else if (from.shape[static_cast<size_t>(d)] != 1) {
        while (to.shape[static_cast<size_t>(at)] == 1) ++at;
        there = at++;
      }
      if (there < 0) continue;
      if (in.dim == d) out.dim = there;
      if ((in.others >> d & 1) != 0) out.others |= uint64_t{1} << there;
    }
    of_[op.results[0]] = out;
    return std::nullopt;
  }

  std::optional<Obstacle> Accesses(OpId id) {
    const Op& op = fn_.ops[id];
    const auto own = accesses_.find(id);
    const bool store = op.kind == OpKind::kStore;
    if (own != accesses_.end()) {
      if (!store) {
        if (fn_.type(op.results[0]).shape[0] != rows_)
          return No("its tiles have other rows", op.at);
        of_[op.results[0]] = {0, ~uint64_t{1}};
      } else if (const Rows rows = Of(op.operands[1]); rows.dim > 0 || (rows.others & 1) != 0) {
        return No("what it stores are not its rows", op.at);
      }
      return std::nullopt;
    }
    if (store) return No("it stores what is not of its rows", op.at);
    for (ValueId v : op.operands)
      if (scalars_.count(v) > 0 || Of(v).dim >= 0)
        return No("what it reads hangs on its position in the grid", op.at);
    of_[op.results[0]] = {-1, ~uint64_t{0}};
    return std::nullopt;
  }

  // What is carried lies as its start does, or as what the first turn makes of it.
  std::optional<Obstacle> FollowLoop(OpId id) {
    const Op& loop = fn_.ops[id];
    const BlockId body = loop.regions[0];
    const std::vector<ValueId>& args = fn_.blocks[body].args;
    for (size_t i = 0; i < loop.results.size(); ++i) {
      if (scalars_.count(loop.operands[2 + i]) > 0)
        return No("it computes with its position in the grid", loop.at);
      of_[args[1 + i]] = Of(loop.operands[2 + i]);
    }
    for (int turn = 0; turn < 3; ++turn) {
      const size_t iotas = iotas_.size();
      if (std::optional<Obstacle> why = Follow(body)) return why;
      bool same = true;
      const std::vector<OpId>& ops = fn_.blocks[body].ops;
      for (size_t i = 0; i < loop.results.size(); ++i) {
        const Rows was = of_[args[1 + i]], is = Of(fn_.ops[ops.back()].operands[i]);
        if (was.dim >= 0 && is.dim >= 0 && was.dim != is.dim) return No("its rows meet", loop.at);
        const Rows both{std::max(was.dim, is.dim), was.others | is.others};
        same = same && both == was;
        of_[args[1 + i]] = of_[loop.results[i]] = both;
      }
      if (same) return std::nullopt;
      iotas_.resize(iotas);
    }
    return No("its rows meet", loop.at);
  }

  void Rewrite() {
    const BlockId body = fn_.ops[grid_].regions[0];
    const std::vector<OpId> outer = fn_.blocks[fn_.body].ops;
    const std::vector<OpId> old = fn_.blocks[body].ops;
    const Span at = fn_.ops[grid_].at;
    const ValueId h = Arg(h_), q = Arg(q_), all = fn_.ops[grid_].operands[2 * h_ + 1];
    const int64_t each = rows_ / heads_;

    // Groups, and pieces of each, before the grid.
    fn_.blocks[fn_.body].ops.assign(outer.begin(), std::find(outer.begin(), outer.end(), grid_));
    Builder top(fn_, fn_.body);
    top.SetSpan(at);
    ValueMap before;
    const ValueId share =
        top.Binary(OpKind::kMax, OfLaunch(top, share_, before), top.Int(1));  // no heads, no group
    const ValueId pieces = UpTo(top, share, top.Int(heads_));
    const ValueId groups = UpTo(top, OfLaunch(top, all, before), share);
    fn_.ops[grid_].operands[2 * h_ + 1] = top.Binary(OpKind::kMul, groups, pieces);
    fn_.blocks[fn_.body].ops.insert(fn_.blocks[fn_.body].ops.end(),
                                    std::find(outer.begin(), outer.end(), grid_), outer.end());
    std::vector<int64_t> steps = fn_.ops[grid_].ints("steps");
    steps[q_] = each;
    fn_.ops[grid_].set("steps", steps);

    // Whose rows they are.
    fn_.blocks[body].ops.clear();
    Builder b(fn_, body);
    b.SetSpan(at);
    const ValueId group = b.Binary(OpKind::kDiv, h, pieces);
    const ValueId base = b.Binary(OpKind::kMul, group, share);
    const ValueId piece = b.Binary(OpKind::kMod, h, pieces);
    const ValueId first =
        b.Binary(OpKind::kAdd, base, b.Binary(OpKind::kMul, piece, b.Int(heads_)));
    const ValueId end = b.Binary(OpKind::kMin, all, b.Binary(OpKind::kAdd, base, share));
    const std::vector<OpId> made = fn_.blocks[body].ops;
    fn_.blocks[body].ops.insert(fn_.blocks[body].ops.end(), old.begin(), old.end());
    part_ = {h, q, group, first, end, each, std::set<OpId>(made.begin(), made.end())};
    Forwarding forward(fn_);
    Change(body, forward);
    for (OpId id : fn_.blocks[body].ops)
      if (part_.made.count(id) == 0) ReplaceOperands(fn_, id, forward);
  }

  // The value in front of the grid.
  ValueId OfLaunch(Builder& b, ValueId v, ValueMap& map) {
    const OpId def = fn_.values[v].def;
    if (!def.valid() || fn_.ops[def].block == fn_.body) return v;
    if (map.count(v) > 0) return At(map, v);
    for (ValueId operand : std::vector<ValueId>(fn_.ops[def].operands)) OfLaunch(b, operand, map);
    CloneOp(b, fn_, def, map);
    return At(map, v);
  }
  static ValueId UpTo(Builder& b, ValueId n, ValueId by) {
    return b.Binary(OpKind::kDiv, b.Binary(OpKind::kSub, b.Binary(OpKind::kAdd, n, by), b.Int(1)),
                    by);
  }

  // Divisions of h become the group, positions of rows those in their part of the tile.
  void Change(BlockId block, Forwarding& forward) {
    RebuildBlock(fn_, block, [&](OpId id, std::vector<OpId>& out) {
      if (part_.made.count(id) > 0) return out.push_back(id);
      const Op& op = fn_.ops[id];
      if (op.kind == OpKind::kDiv && op.operands[0] == part_.h)
        return forward.Replace(op.results[0], part_.group);
      if (op.kind == OpKind::kIota && std::count(iotas_.begin(), iotas_.end(), id) > 0) {
        forward.Replace(op.results[0], Positions(id, block));
        return TakeMade(block, out);
      }
      if (const auto access = accesses_.find(id); access != accesses_.end()) {
        Widen(id, access->second, block);
        TakeMade(block, out);
      }
      out.push_back(id);
      for (BlockId region : std::vector<BlockId>(fn_.ops[id].regions)) Change(region, forward);
    });
  }
  // The block is empty while it is rebuilt, but for what was just made.
  void TakeMade(BlockId block, std::vector<OpId>& out) {
    out.insert(out.end(), fn_.blocks[block].ops.begin(), fn_.blocks[block].ops.end());
    fn_.blocks[block].ops.clear();
  }

  // q + (0, 1, … mod n/p)
  ValueId Positions(OpId iota, BlockId block) {
    Builder b(fn_, block);
    b.SetSpan(fn_.ops[iota].at);
    const ValueId old = fn_.ops[iota].results[0];
    const Type type = fn_.type(old);
    const auto everywhere = [&](ValueId v) {
      return b.Value(OpKind::kBroadcast, {v}, type, {{"axes", std::vector<int64_t>{}}});
    };
    const ValueId number = b.Value(OpKind::kIota, {b.Int(0)}, type);
    const ValueId mask = everywhere(b.Int(part_.rows - 1, DType::kI32));
    const ValueId from = everywhere(b.Cast(part_.q, DType::kI32));
    const ValueId row = b.Binary(OpKind::kAdd, b.Binary(OpKind::kAnd, number, mask), from);
    fn_.values[row].name = fn_.values[old].name;
    return row;
  }

  // [h, q : n] → [h : p, q : n/p]; of a store with the ends of both.
  void Widen(OpId id, size_t h, BlockId block) {
    Op& op = fn_.ops[id];
    const bool store = op.kind == OpKind::kStore;
    const size_t at = OperandOf(op, h);
    std::string modes = op.s("modes");
    std::vector<int64_t> sizes = op.ints("sizes");
    op.operands[at] = part_.first;
    modes[h] = 'f';
    sizes[h] = heads_, sizes[h + 1] = part_.rows;
    op.set("modes", modes), op.set("sizes", sizes);
    if (!store) return;
    op.operands.insert(op.operands.begin() + static_cast<ptrdiff_t>(at) + 1, part_.end);
    Builder b(fn_, block);  // the end of the rows was that of a whole tile
    b.SetSpan(op.at);
    const ValueId end = op.operands[at + 3];
    const ValueId own = b.Binary(OpKind::kAdd, op.operands[at + 2], b.Int(part_.rows));
    const ValueId least = b.Binary(OpKind::kMin, end, own);
    fn_.ops[id].operands[at + 3] = least;
  }

  Function& fn_;
  const int64_t heads_;
  const Uses uses_;
  OpId grid_;
  size_t h_ = 0, q_ = 0;             // ranges of the grid
  int64_t rows_ = 0;                 // of a tile
  ValueId share_;                    // R
  std::map<OpId, size_t> accesses_;  // of its rows: the tensor's dim of h
  std::set<ValueId> scalars_;        // that hang on q
  std::map<ValueId, Rows> of_;
  std::vector<OpId> iotas_;
  struct {
    ValueId h, q, group, first, end;
    int64_t rows = 0;
    std::set<OpId> made;
  } part_;  // of the tile that heads of a group share
};

}  // namespace

std::optional<Obstacle> PackRows(Function& fn, int64_t heads) { return Packer(fn, heads).Run(); }

}  // namespace tilec::ir
