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
#include <set>
#include <string>
#include <vector>

#include "ir/passes/rewrite.h"
#include "ir/passes/row_packer.h"
#include "ir/uses.h"

namespace tilec::ir {

std::optional<Obstacle> RowPacker::Run() {
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

bool RowPacker::IsInt(ValueId v, int64_t n) const {
  const int64_t* value = IntConstantOf(fn_, v);
  return value && *value == n;
}

// Is h used for h / R and positions of tensors only? R is a scalar that ops before the grid could
// make.
bool RowPacker::CutIntoGroups(ValueId h) {
  for (const Uses::Use& use : uses_.of(h)) {
    const Op& op = fn_.ops[use.reader];
    if (op.kind == OpKind::kLoad || op.kind == OpKind::kStore) continue;
    if (op.kind != OpKind::kDiv || use.operand != 0) return false;
    if (share_.valid() && share_ != op.operands[1]) return false;
    share_ = op.operands[1];
  }
  return share_.valid() && OfTheLaunch(share_);
}

bool RowPacker::OfTheLaunch(ValueId v) const {
  const OpId def = fn_.values[v].def;
  if (!def.valid()) return fn_.param(v) != nullptr;
  const Op& op = fn_.ops[def];
  return (op.kind == OpKind::kConstant || Info(op.kind).elementwise()) && fn_.type(v).is_scalar() &&
         std::all_of(op.operands.begin(), op.operands.end(),
                     [&](ValueId operand) { return OfTheLaunch(operand); });
}

void RowPacker::Rewrite() {
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
  const ValueId first = b.Binary(OpKind::kAdd, base, b.Binary(OpKind::kMul, piece, b.Int(heads_)));
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
ValueId RowPacker::OfLaunch(Builder& b, ValueId v, ValueMap& map) {
  const OpId def = fn_.values[v].def;
  if (!def.valid() || fn_.ops[def].block == fn_.body) return v;
  if (map.count(v) > 0) return At(map, v);
  for (ValueId operand : std::vector<ValueId>(fn_.ops[def].operands)) OfLaunch(b, operand, map);
  CloneOp(b, fn_, def, map);
  return At(map, v);
}

ValueId RowPacker::UpTo(Builder& b, ValueId n, ValueId by) {
  return b.Binary(OpKind::kDiv, b.Binary(OpKind::kSub, b.Binary(OpKind::kAdd, n, by), b.Int(1)),
                  by);
}

// Divisions of h become the group, positions of rows those in their part of the tile.
void RowPacker::Change(BlockId block, Forwarding& forward) {
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
void RowPacker::TakeMade(BlockId block, std::vector<OpId>& out) {
  out.insert(out.end(), fn_.blocks[block].ops.begin(), fn_.blocks[block].ops.end());
  fn_.blocks[block].ops.clear();
}

// q + (0, 1, … mod n/p)
ValueId RowPacker::Positions(OpId iota, BlockId block) {
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
void RowPacker::Widen(OpId id, size_t h, BlockId block) {
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

std::optional<Obstacle> PackRows(Function& fn, int64_t heads) { return RowPacker(fn, heads).Run(); }

}  // namespace tilec::ir
