// Scales of a scaled product, from where threads have them to where the unit reads them.
//
// Products that are complete at once read them from registers (ScalesAtOnce). In tensor memory
// every warp of the first warpgroup has the scales of all rows, so that no copy through shared
// memory is needed: tensor memory wants them four times, once in each quarter of its lanes. The
// product is awaited before the next one's scales are stored; they have the same columns.
//
// SPDX-License-Identifier: Apache-2.0
#include "ir/lower/emitter.h"
#include "ir/lower/operands.h"

namespace tilec::ir {

// Those of the left (0) or the right (1) operand, whose dim of rows that is.
ValueId Emitter::ScaleTile(OpId id, int rows_dim, const Layout& wanted) {
  const ValueId v = in_.ops[id].operands[static_cast<size_t>(3 + rows_dim)];
  const std::vector<int64_t>& shape = in_.type(v).shape;
  const ValueId tile = Tile(v);
  const Layout layout = out_.type(tile).shape.empty() ? ReplicatedLayout(shape, plan_.threads())
                                                      : Unsqueeze(out_.layout(tile), shape);
  return InLayout(Reshape_(tile, shape, layout), wanted);
}

std::vector<ValueId> Emitter::ScaleTiles(OpId id) {
  const DotPlan& dot = plan_.dots.at(id);
  std::vector<ValueId> tiles;
  if (in_.ops[id].operands.size() <= 3 || Info(dot.unit).completion != Completion::kAtOnce)
    return tiles;
  for (int rows_dim : {0, 1}) {
    const auto dim = static_cast<size_t>(rows_dim);
    const std::vector<int64_t> shape = in_.type(in_.ops[id].operands[3 + dim]).shape;
    tiles.push_back(ScaleTile(id, rows_dim,
                              ScalesLayout({rows_dim == 0, shape[dim], shape[1 - dim], rows_dim},
                                           plan_.warpgroups, dot.split, dot.across)));
  }
  return tiles;
}

void Emitter::StoreScales(OpId id) {
  const auto [left, right] = p_.scale_columns.at({role_, id});
  std::vector<ValueId> tiles;
  for (int rows_dim : {0, 1}) {
    const auto dim = static_cast<size_t>(rows_dim);
    const std::vector<int64_t> shape = in_.type(in_.ops[id].operands[3 + dim]).shape;
    tiles.push_back(ScaleTile(
        id, rows_dim, ScalesLayout(shape[dim], shape[1 - dim], rows_dim, plan_.warpgroups)));
  }
  MeetBeforeStores();
  for (int rows_dim : {0, 1})
    b_.Add(OpKind::kTmemScales, {tiles[static_cast<size_t>(rows_dim)], tensor_memory_}, {},
           {{"column", rows_dim == 0 ? left : right}, {"rows", int64_t{rows_dim}}});
}

}  // namespace tilec::ir
