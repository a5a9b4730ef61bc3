// Vectors that a loop of products reads become tiles of one row, which the copy engine can bring.
//
//     for k { load S[%b, %m] {modes = "sr"} … dot }   →
//     for k { reshape(load S[%b, %m] {modes = "rr", one row}) … dot }
//
// Why. Scales, row sums and biases of an iteration are a few hundred bytes, and whoever wants them
// waits for memory: 600 to 900 cycles of each iteration, as long as the products of a block of
// fp8. A tile of two ranges comes through a ring, iterations ahead, like operands do. So the
// scalar position in front of the range becomes a range of one row.
//
// Where it must not act: outside of loops of products, since nothing runs ahead there; on tensors
// that no copy may read (TmaAccess); on vectors that are no multiple of 16 bytes, or longer than a
// box.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>
#include <string>

#include "ir/lower/operands.h"
#include "ir/passes/passes.h"
#include "ir/passes/rewrite.h"

namespace tilec::ir {
namespace {

class Vectors {
 public:
  Vectors(Function& fn, PassContext& cx) : fn_(fn), cx_(cx) {}

  void Run(BlockId block, bool products) {
    RebuildBlock(fn_, block, [&](OpId id, std::vector<OpId>& out) {
      ReplaceOperands(fn_, id, row_of_);
      if (products && fn_.ops[id].kind == OpKind::kLoad) {
        Load(block, id, out);
        return;
      }
      out.push_back(id);
      const bool inner =
          products || (fn_.ops[id].kind == OpKind::kFor && HasProduct(fn_.ops[id].regions[0]));
      const std::vector<BlockId> regions = fn_.ops[id].regions;
      for (BlockId region : regions) Run(region, inner);
    });
  }

 private:
  // In the block itself or in branches of it.
  bool HasProduct(BlockId block) const {
    return std::any_of(fn_.blocks[block].ops.begin(), fn_.blocks[block].ops.end(), [&](OpId id) {
      const Op& op = fn_.ops[id];
      if (op.kind == OpKind::kFor) return false;
      return op.kind == OpKind::kDot || std::any_of(op.regions.begin(), op.regions.end(),
                                                    [&](BlockId r) { return HasProduct(r); });
    });
  }

  // A copy of the op that brings one row; nullopt if no copy can.
  std::optional<Op> AsRow(const Op& vector) const {
    Op row = vector;
    std::string modes = row.s("modes");
    const Type& type = fn_.type(row.results[0]);
    if (modes.size() < 2 || !modes.ends_with("sr") || type.rank() != 1) return std::nullopt;
    modes[modes.size() - 2] = 'r';
    row.set("modes", modes);
    BufferNeed need;
    need.rows = need.tile_rows = 1;
    need.cols = need.tile_cols = type.shape[0];
    need.plain = true;
    if (!TmaAccess(fn_, row, cx_.target) || !need.TmaFits(type.dtype)) return std::nullopt;
    return row;
  }

  void Load(BlockId block, OpId id, std::vector<OpId>& out) {
    out.push_back(id);
    const std::optional<Op> row = AsRow(fn_.ops[id]);
    if (!row) return;
    const ValueId result = row->results[0];
    const Type vector = fn_.type(result);
    Type tile = vector;
    tile.shape.insert(tile.shape.begin(), 1);
    fn_.ops[id] = *row;
    fn_.values[result].type = tile;
    Builder b(fn_, block);
    b.SetSpan(row->at);
    const ValueId flat = b.Value(OpKind::kReshape, {result}, vector);
    out.push_back(fn_.values[flat].def);
    row_of_[result] = flat;
    ++cx_.changes;
  }

  Function& fn_;
  PassContext& cx_;
  ValueMap row_of_;  // the vector of each row
};

}  // namespace

Result<> RowVectors(Function& fn, PassContext& cx) {
  if (cx.target.Has("tma")) Vectors(fn, cx).Run(fn.body, false);
  return Done();
}

}  // namespace tilec::ir
