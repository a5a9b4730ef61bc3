// May the rows of instances become rows of one tile? Their dim is followed through the ops: along
// the rows nothing may vary but by their position.
//
// SPDX-License-Identifier: Apache-2.0
#include "ir/passes/row_packer.h"

#include <algorithm>
#include <string>
#include <vector>

#include "ir/uses.h"

namespace tilec::ir {

// Dims of the tensor by their operands: which of them is this one of?
size_t RowPacker::DimOf(const Op& access, size_t operand) {
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
size_t RowPacker::OperandOf(const Op& access, size_t dim) {
  const bool store = access.kind != OpKind::kLoad;
  size_t at = store ? 2 : 1;
  for (size_t d = 0; d < dim; ++d) at += OperandsOf(access.s("modes")[d], store);
  return at;
}

std::optional<Obstacle> RowPacker::Look() {
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

RowPacker::Rows RowPacker::Of(ValueId v) const {
  const auto at = of_.find(v);
  return at == of_.end() ? Rows() : at->second;
}

// What of the block's tiles lies along the rows.
std::optional<Obstacle> RowPacker::Follow(BlockId block) {
  for (OpId id : std::vector<OpId>(fn_.blocks[block].ops))
    if (std::optional<Obstacle> why = FollowOp(id)) return why;
  return std::nullopt;
}

std::optional<Obstacle> RowPacker::FollowOp(OpId id) {
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

std::optional<Obstacle> RowPacker::Moves(const Op& op) {
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

std::optional<Obstacle> RowPacker::Accesses(OpId id) {
  const Op& op = fn_.ops[id];
  const auto own = accesses_.find(id);
  const bool store = op.kind == OpKind::kStore;
  if (own != accesses_.end()) {
    if (!store) {
      if (fn_.type(op.results[0]).shape[0] != rows_) return No("its tiles have other rows", op.at);
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
std::optional<Obstacle> RowPacker::FollowLoop(OpId id) {
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

}  // namespace tilec::ir
