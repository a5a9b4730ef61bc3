// A box of several dims as rows of a product.
//
//     %x = load X[n, y, x, c] {modes = "rrrr", sizes = [2, 8, 8, 64]}; reshape(%x, 128, 64)   →
//     load X[n, y, x, c] {modes = "ffrr", …} : [128, 64]
//
// A convolution reads its image so: positions of a block of the image are the rows of a product.
// As a tile of four dims they would come to registers, be put into shared memory as they are asked
// for, and from there into the product; folded, the copy engine brings the box as the operand's
// rows. A store of a product's rows to a box is the same backwards. The order of elements does not
// change, so neither does a value.
//
// Folded is what is loaded for nothing but the reshape, or stored from it, where the copy engine
// brings or takes it, in functions with products.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ir/lower/operands.h"
#include "ir/passes/passes.h"
#include "ir/passes/rewrite.h"
#include "ir/uses.h"

namespace tilec::ir {
namespace {

class RowFolder {
 public:
  RowFolder(Function& fn, PassContext& cx) : fn_(fn), cx_(cx), uses_(fn), forward_(fn) {}

  void Run(BlockId block) {
    RebuildBlock(fn_, block, [&](OpId id, std::vector<OpId>& out) {
      forward_.ResolveOperands(fn_.ops[id]);
      if (FoldsLoad(id)) return;
      FoldStore(id);
      out.push_back(id);
      const std::vector<BlockId> regions = fn_.ops[id].regions;
      for (BlockId region : regions) Run(region);
    });
  }

 private:
  // Is `flat` the tile `box` with all dims but the last as one, element for element?
  bool Flattens(const Op& op, const Type& box, const Type& flat) const {
    if (op.kind != OpKind::kRearrange || op.i("first") != 0 || box.rank() < 3 || flat.rank() != 2 ||
        box.shape.back() != flat.shape.back() || box.elements() != flat.elements())
      return false;
    const Type& to = fn_.type(op.results[0]);
    std::vector<int64_t> strides(static_cast<size_t>(to.rank()), 1);
    for (size_t d = strides.size() - 1; d-- > 0;) strides[d] = strides[d + 1] * to.shape[d + 1];
    for (size_t d = 0; d < strides.size(); ++d)
      if (to.shape[d] > 1 && op.ints("strides")[d] != strides[d]) return false;
    return true;
  }

  // The access' modes with all ranges but the last two folded; "": not all are ranges.
  static std::string Folded(std::string modes) {
    if (modes.find_first_not_of("rs") != std::string::npos || modes.back() != 'r') return "";
    for (size_t d = modes.rfind('r', modes.size() - 2); d-- > 0;)
      if (modes[d] == 'r') modes[d] = 'f';
    return modes;
  }

  // The reshape is gone: its load has its type.
  bool FoldsLoad(OpId id) {
    const Op& op = fn_.ops[id];
    if (op.kind != OpKind::kRearrange) return false;
    const ValueId box = op.operands[0];
    Op* load = fn_.values[box].def.valid() ? &fn_.ops[fn_.values[box].def] : nullptr;
    if (!load || load->kind != OpKind::kLoad || uses_.count(box) != 1 ||
        !Flattens(op, fn_.type(box), fn_.type(op.results[0])))
      return false;
    const std::string modes = Folded(load->s("modes")), before = load->s("modes");
    if (modes.empty()) return false;
    const Type type = fn_.type(box);
    load->set("modes", modes);
    fn_.values[box].type = fn_.type(op.results[0]);
    if (!TmaAccess(fn_, *load, cx_.target)) {
      load->set("modes", before);
      fn_.values[box].type = type;
      return false;
    }
    forward_.Replace(op.results[0], box);
    ++cx_.changes;
    return true;
  }

  void FoldStore(OpId id) {
    Op& store = fn_.ops[id];
    if (store.kind != OpKind::kStore) return;
    const ValueId box = store.operands[1];
    const Op* reshape = fn_.def(box);
    if (!reshape || reshape->kind != OpKind::kRearrange ||
        !Flattens(*reshape, fn_.type(box), fn_.type(reshape->operands[0])))
      return;
    const std::string modes = Folded(store.s("modes")), before = store.s("modes");
    if (modes.empty()) return;
    store.set("modes", modes);
    store.operands[1] = reshape->operands[0];
    if (!TmaAccess(fn_, store, cx_.target)) {
      store.set("modes", before);
      store.operands[1] = box;
      return;
    }
    ++cx_.changes;
  }

  Function& fn_;
  PassContext& cx_;
  const Uses uses_;
  Forwarding forward_;
};

}  // namespace

Result<> FoldRows(Function& fn, PassContext& cx) {
  const bool products = std::any_of(fn.ops.begin(), fn.ops.end(),
                                    [](const Op& op) { return op.kind == OpKind::kDot; });
  if (products) RowFolder(fn, cx).Run(fn.body);
  return Done();
}

}  // namespace tilec::ir
