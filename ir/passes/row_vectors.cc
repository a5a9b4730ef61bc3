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
// Where it must not act:
//   - outside of loops of products, since nothing runs ahead there;
//   - in loops of several products, which hide each other's waits: there the ring's own waits cost
//     more than they bring (docs/perf_log.md, 2026-11-26: 5 to 27 %);
//   - where the operands of the product are computed from the vector, for the same reason.
//     (Neither holds where all products of an iteration take less than memory does: nothing hides
//     its wait then. Weights of four bits at 16 rows: a wait of 3000 cycles beside 128.)
//   - on tensors that no copy may read (TmaAccess), on vectors that are no multiple of 16 bytes, or
//     longer than a box.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "ir/lower/operands.h"
#include "ir/lower/waits.h"
#include "ir/passes/passes.h"
#include "ir/passes/rewrite.h"
#include "ir/passes/scalars_ahead.h"
#include "ir/uses.h"

namespace tilec::ir {
namespace {

class Vectors {
 public:
  Vectors(Function& fn, PassContext& cx) : fn_(fn), cx_(cx), uses_(fn) {}

  void Run() { Run(fn_.body, Wanted::kNone); }

 private:
  enum class Wanted : uint8_t { kNone, kOfResults, kAll };

  void Run(BlockId block, Wanted wanted) {
    RebuildBlock(fn_, block, [&](OpId id, std::vector<OpId>& out) {
      ReplaceOperands(fn_, id, row_of_);
      if (wanted != Wanted::kNone && fn_.ops[id].kind == OpKind::kLoad) {
        Load(block, id, wanted, out);
        return;
      }
      out.push_back(id);
      const Op& op = fn_.ops[id];
      const Wanted inner = op.kind == OpKind::kFor ? Of(op.regions[0]) : wanted;
      const std::vector<BlockId> regions = op.regions;
      for (BlockId region : regions) Run(region, inner);
    });
  }

  Wanted Of(BlockId body) const {
    if (WaitsForMemory(fn_, body, cx_.target)) return Wanted::kAll;
    // What several products add up to one value is one product in pieces.
    const OpId loop = fn_.blocks[body].parent;
    const int64_t products = ProductsIn(body);
    if (products == 0) return Wanted::kNone;
    for (size_t i = 0; i < fn_.ops[loop].results.size(); ++i)
      if (const std::vector<OpId> chain = AddedUp(fn_, uses_, fn_.ops[loop], i);
          FromRegisters() && std::ssize(chain) == products &&
          DecodedByThreads(fn_, fn_.ops[chain[0]].operands[0]))
        return Wanted::kAll;
    return products == 1 ? Wanted::kOfResults : Wanted::kNone;
  }

  // Does the machine take left operands from registers while it goes on?
  bool FromRegisters() const { return cx_.target.unit().completion == Completion::kGroups; }

  // In the block itself or in branches of it.
  int64_t ProductsIn(BlockId block) const {
    int64_t count = 0;
    for (OpId id : fn_.blocks[block].ops) {
      const Op& op = fn_.ops[id];
      count += op.kind == OpKind::kDot;
      if (op.kind == OpKind::kFor) continue;
      for (BlockId region : op.regions) count += ProductsIn(region);
    }
    return count;
  }

  // Does what is computed from the value become an operand of a product, in the same iteration?
  bool Feeds(ValueId v, std::set<ValueId>& seen) const {
    if (!seen.insert(v).second) return false;
    return std::any_of(uses_.of(v).begin(), uses_.of(v).end(), [&](const Uses::Use& use) {
      const Op& op = fn_.ops[use.reader];
      if (op.kind == OpKind::kDot) return use.operand < 2;
      return std::any_of(op.results.begin(), op.results.end(),
                         [&](ValueId r) { return Feeds(r, seen); });
    });
  }

  // A copy of the op that brings one row; nullopt if no copy can.
  std::optional<Op> AsRow(const Op& vector, Wanted wanted) const {
    Op row = vector;
    std::string modes = row.s("modes");
    const Type& type = fn_.type(row.results[0]);
    if (std::set<ValueId> seen; wanted != Wanted::kAll && Feeds(vector.results[0], seen))
      return std::nullopt;
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

  void Load(BlockId block, OpId id, Wanted wanted, std::vector<OpId>& out) {
    out.push_back(id);
    const std::optional<Op> row = AsRow(fn_.ops[id], wanted);
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
  Uses uses_;        // before the pass
  ValueMap row_of_;  // the vector of each row
};

}  // namespace

Result<> RowVectors(Function& fn, PassContext& cx) {
  if (!cx.target.Has("tma")) return Done();
  Vectors(fn, cx).Run();
  if (cx.target.unit().completion == Completion::kGroups) cx.changes += LoadScalarsAhead(fn);
  return Done();
}

}  // namespace tilec::ir
