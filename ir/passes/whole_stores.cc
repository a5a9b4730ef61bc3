// Tiles whose last rows memory decides are stored by the copy engine where they are whole.
//
//     store Y[t .. end, n]   →   if t ≥ 0 and t + rows ≤ end { store Y[t .. M, n] }
//                                else { store Y[t .. end, n] }
//
// The rows of a group end where a list says, and the engine clips boxes to the tensor alone, so
// threads stored every tile of a grouped product: 64 stores of 4 bytes a thread, with nothing
// beside them. All tiles of a group but its last are whole, and for those the tensor's end is as
// good. What is computed for the store alone stands in both arms, so that either may compute it
// piece by piece.
//
// Only where it lets the engine store what a product made: in a function with products, a tile of
// two ranges of which the first ends at no extent, and nothing else in the way.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>
#include <set>

#include "ir/lower/operands.h"
#include "ir/lower/scalars.h"
#include "ir/passes/passes.h"
#include "ir/passes/rewrite.h"
#include "ir/uses.h"

namespace tilec::ir {
namespace {

// The range of a store that memory ends: its operands, its length, and the tensor's extent there.
struct OpenEnd {
  size_t start = 0, end = 0;
  int64_t rows = 0;
  ValueId extent;
};

class WholeStorer {
 public:
  WholeStorer(Function& fn, PassContext& cx) : fn_(fn), cx_(cx), uses_(fn) {}

  void Run(BlockId block) {
    const std::vector<OpId> old = fn_.blocks[block].ops;
    for (OpId id : old) {
      const std::vector<BlockId> regions = fn_.ops[id].regions;
      for (BlockId region : regions) Run(region);
    }
    for (OpId id : old)
      if (const std::optional<OpenEnd> open = OpenEndOf(id)) Version(block, id, *open);
  }

 private:
  ValueId DimOf(const Expr& extent) const {
    for (const Param& p : fn_.params)
      if (p.kind == ParamKind::kDim && Simplify(extent) == Expr::Name(p.name)) return p.value;
    return ValueId();
  }

  // What would stand in the engine's way if this range ended at its extent?
  std::optional<OpenEnd> OpenEndOf(OpId id) const {
    Op op = fn_.ops[id];
    if (op.kind != OpKind::kStore || !OfProducts(op.operands[1])) return std::nullopt;
    const Type& tile = fn_.type(op.operands[1]);
    const Param* tensor = fn_.param(op.operands[0]);
    if (!tensor || tile.rank() != 2 ||
        tile.elements() < cx_.target.lowering.staged_elements || TmaAccess(fn_, op, cx_.target))
      return std::nullopt;
    const std::string& modes = op.s("modes");
    OpenEnd open{2};
    for (size_t d = 0; d + 1 < modes.size() && modes[d] != 'r'; ++d)
      open.start += OperandsOf(modes[d], true);
    const size_t dim = modes.find('r');
    if (dim == std::string::npos || dim + 1 >= modes.size()) return std::nullopt;
    open.end = open.start + 1;
    open.rows = op.ints("sizes")[dim];
    open.extent = DimOf(tensor->dims[dim]);
    if (!open.extent.valid()) return std::nullopt;
    op.operands[open.start] = op.operands[open.end] = open.extent;  // no less than 0
    if (!TmaAccess(fn_, op, cx_.target)) return std::nullopt;
    return open;
  }

  // Is it made of a product's result, element by element?
  bool OfProducts(ValueId v, int depth = 0) const {
    const Op* def = fn_.def(v);
    if (!def || fn_.type(v).is_scalar() || depth > 16) return false;
    if (def->kind == OpKind::kDot) return true;
    if (def->kind == OpKind::kFor) {
      const std::vector<ValueId>& yields = fn_.ops[fn_.blocks[def->regions[0]].ops.back()].operands;
      const auto at = std::find(def->results.begin(), def->results.end(), v);
      return OfProducts(yields[static_cast<size_t>(at - def->results.begin())], depth + 1);
    }
    return Info(def->kind).elementwise() &&
           std::any_of(def->operands.begin(), def->operands.end(),
                       [&](ValueId o) { return OfProducts(o, depth + 1); });
  }

  // Elementwise work of the store's block that it alone needs.
  std::set<OpId> OwnOf(OpId store) const {
    std::set<OpId> own;
    const std::vector<OpId>& ops = fn_.blocks[fn_.ops[store].block].ops;
    for (auto at = std::find(ops.rbegin(), ops.rend(), store); at != ops.rend(); ++at) {
      const Op& op = fn_.ops[*at];
      const bool kind = Info(op.kind).elementwise() || op.kind == OpKind::kBroadcast ||
                        op.kind == OpKind::kReshape;
      if (!kind || fn_.type(op.results[0]).is_scalar()) continue;
      const std::span<const Uses::Use> uses = uses_.of(op.results[0]);
      if (!uses.empty() && std::all_of(uses.begin(), uses.end(), [&](const Uses::Use& use) {
            return use.reader == store || own.count(use.reader) > 0;
          }))
        own.insert(*at);
    }
    return own;
  }

  void Version(BlockId block, OpId store, const OpenEnd& open) {
    const std::set<OpId> own = OwnOf(store);
    const std::vector<OpId> old = fn_.blocks[block].ops;
    std::vector<OpId> moved;
    for (OpId id : old)
      if (id == store || own.count(id)) moved.push_back(id);
    const auto place = std::find(old.begin(), old.end(), store);
    std::vector<OpId>& ops = fn_.blocks[block].ops;
    ops.clear();
    std::copy_if(old.begin(), place, std::back_inserter(ops),
                 [&](OpId id) { return !own.count(id); });
    const ValueId start = fn_.ops[store].operands[open.start];
    const ValueId end = fn_.ops[store].operands[open.end];
    Builder b(fn_, block);
    b.SetSpan(fn_.ops[store].at);
    // What begins outside stores nothing either way, and is no sum that overflows.
    const ValueId inside = b.Binary(OpKind::kAnd, b.Cmp("lt", b.Int(-1), start),
                                    b.Cmp("lt", start, open.extent));
    const ValueId whole = b.Cmp("le", b.Binary(OpKind::kAdd, start, b.Int(open.rows)), end);
    const OpId branch = b.Add(OpKind::kIf, {b.Binary(OpKind::kAnd, inside, whole)}, {});
    for (const bool by_engine : {true, false}) {
      const BlockId arm = fn_.AddBlock(branch);
      fn_.ops[branch].regions.push_back(arm);
      Builder in(fn_, arm);
      in.SetSpan(fn_.ops[store].at);
      ValueMap map;
      for (OpId id : moved) {
        if (!by_engine) {
          fn_.ops[id].block = arm;
          fn_.blocks[arm].ops.push_back(id);
        } else if (const OpId copy = CloneOp(in, fn_, id, map); id == store) {
          fn_.ops[copy].operands[open.end] = open.extent;
        }
      }
      in.Yield({});
    }
    fn_.blocks[block].ops.insert(fn_.blocks[block].ops.end(), place + 1, old.end());
    ++cx_.changes;
  }

  Function& fn_;
  PassContext& cx_;
  const Uses uses_;
};

}  // namespace

Result<> WholeStores(Function& fn, PassContext& cx) {
  const bool products = std::any_of(fn.ops.begin(), fn.ops.end(),
                                    [](const Op& op) { return op.kind == OpKind::kDot; });
  if (products) WholeStorer(fn, cx).Run(fn.body);
  return Done();
}

}  // namespace tilec::ir
