// What a float has room for is summed as floats: integers of few bits are converted before, not
// after, something that a row shares is added or subtracted.
//
//     cast(w − z[:, None])   →   cast(w) − cast(z)[:, None]
//
// Weights in four bits less their zeros: converted first, two of them take one permutation, and a
// subtraction of pairs each for the magic bits and for the zero (backend/small_ints.h); afterwards
// each passes through the conversion unit. Only where both terms and the sum are integers that
// the float holds exactly, so that nothing is rounded either way, and where one of them is a tile
// of few bits and the other is fewer numbers than the tile.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>

#include "ir/integer_range.h"
#include "ir/passes/passes.h"
#include "ir/passes/rewrite.h"

namespace tilec::ir {
namespace {

struct Narrower {
  Function& fn;
  PassContext& cx;
  Forwarding forward;
  IntegerRanges known;

  // Integers up to here have no more bits than the float.
  static std::optional<int64_t> MostExact(DType d) {
    if (d == DType::kBF16) return int64_t{1} << 8;
    if (d == DType::kF16) return int64_t{1} << 11;
    return std::nullopt;
  }
  bool Within(ValueId v, int64_t most) {
    const KnownRange range = known.Of(v);
    return range && range->least >= -most && range->most <= most;
  }
  bool IsShared(ValueId v) const {
    const Op* def = fn.def(v);
    return def && def->kind == OpKind::kBroadcast && !ConstantOf(fn, def->operands[0]) &&
           fn.type(def->operands[0]).elements() < fn.type(v).elements();
  }
  // As many bits as are put into a float by logic.
  bool IsFew(ValueId v, int64_t most) {
    const KnownRange range = known.Of(v);
    return range && range->least >= 0 && range->most < most;
  }

  ValueId Cast(Builder& b, ValueId v, DType to) {
    const Op* def = fn.def(v);
    Type type = fn.type(v);
    type.dtype = to;
    if (!IsShared(v)) return b.Value(OpKind::kCast, {v}, type);
    const ValueId shared = def->operands[0];
    const Attrs attrs = def->attrs;
    return b.Value(OpKind::kBroadcast, {Cast(b, shared, to)}, type, attrs);
  }

  // True if the op is gone; what stands for it was added to `out`.
  bool Rewrite(OpId id, std::vector<OpId>& out) {
    const Op op = fn.ops[id];
    if (op.kind != OpKind::kCast || !fn.type(op.results[0]).is_tile()) return false;
    const DType to = fn.type(op.results[0]).dtype;
    const std::optional<int64_t> most = MostExact(to);
    const Op* sum = fn.def(op.operands[0]);
    if (!most || !IsInteger(fn.type(op.operands[0]).dtype) || !sum ||
        (sum->kind != OpKind::kAdd && sum->kind != OpKind::kSub))
      return false;
    const OpKind kind = sum->kind;
    const ValueId x = sum->operands[0], y = sum->operands[1];
    if (!Within(x, *most) || !Within(y, *most) || !Within(op.operands[0], *most)) return false;
    if (!(IsShared(y) && IsFew(x, *most / 2)) && !(IsShared(x) && IsFew(y, *most / 2)))
      return false;
    const BlockId block = op.block;
    const size_t before = fn.blocks[block].ops.size();
    Builder b(fn, block);
    b.SetSpan(op.at);
    const ValueId by = b.Value(kind, {Cast(b, x, to), Cast(b, y, to)}, fn.type(op.results[0]));
    std::vector<OpId>& added = fn.blocks[block].ops;
    out.insert(out.end(), added.begin() + static_cast<std::ptrdiff_t>(before), added.end());
    added.resize(before);
    fn.values[by].name = fn.values[op.results[0]].name;
    forward.Replace(op.results[0], by);
    ++cx.changes;
    return true;
  }

  void Run(BlockId block) {
    RebuildBlock(fn, block, [&](OpId id, std::vector<OpId>& out) {
      forward.ResolveOperands(fn.ops[id]);
      if (Rewrite(id, out)) return;
      out.push_back(id);
      const std::vector<BlockId> regions = fn.ops[id].regions;
      for (BlockId region : regions) Run(region);
    });
  }
};

}  // namespace

Result<> ExactCasts(Function& fn, PassContext& cx) {
  Narrower{fn, cx, Forwarding(fn), IntegerRanges(fn)}.Run(fn.body);
  return Done();
}

}  // namespace tilec::ir
