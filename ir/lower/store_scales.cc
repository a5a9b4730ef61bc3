// Scales of a scaled product, from where threads have them to tensor memory.
//
// Every warp of the first warpgroup has the scales of all rows, so that no copy through shared
// memory is needed: tensor memory wants them four times, once in each quarter of its lanes. The
// product is awaited before the next one's scales are stored; they have the same columns.
//
// SPDX-License-Identifier: Apache-2.0
#include "ir/lower/emitter.h"
#include "ir/lower/operands.h"

namespace tilec::ir {

void Emitter::StoreScales(OpId id) {
  const std::vector<ValueId> operands = in_.ops[id].operands;
  const auto [left, right] = p_.scale_columns.at({role_, id});
  std::vector<ValueId> tiles;
  for (int rows_dim : {0, 1}) {
    const ValueId v = operands[static_cast<size_t>(3 + rows_dim)];
    const std::vector<int64_t>& shape = in_.type(v).shape;
    ValueId tile = Tile(v);
    const Layout layout = out_.type(tile).shape.empty() ? ReplicatedLayout(shape, plan_.threads())
                                                        : Unsqueeze(out_.layout(tile), shape);
    tiles.push_back(InLayout(
        Reshape_(tile, shape, layout),
        ScalesLayout(shape[static_cast<size_t>(rows_dim)], shape[static_cast<size_t>(1 - rows_dim)],
                     rows_dim, plan_.warpgroups)));
  }
  MeetBeforeStores();
  for (int rows_dim : {0, 1})
    b_.Add(OpKind::kTmemScales, {tiles[static_cast<size_t>(rows_dim)], tensor_memory_}, {},
           {{"column", rows_dim == 0 ? left : right}, {"rows", int64_t{rows_dim}}});
}

}  // namespace tilec::ir
