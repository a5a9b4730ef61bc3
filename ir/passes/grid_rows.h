// Rows of a grid's tiles that have nothing to do with each other, and may be divided among more
// CTAs: keep_rows.cc takes fewer of them where more would not find room on the chip.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "ir/function.h"
#include "ir/row_classes.h"

namespace tilec::ir {

// The dim of the grid along which rows may be divided; extent 1: there is none.
struct GridRows {
  size_t dim = 0;
  int64_t extent = 1;
  std::optional<RowClasses> classes;
  std::set<OpId> ends;  // scalars that say where a tile ends
};

// Those that all of `tiles` are tiles of. The grid may step by fewer of them: its position says
// nothing but where rows begin, whatever is written is rows (of a tensor always along the same dim,
// and never read), and nothing looks along them or numbers them.
GridRows RowsOfGrid(const Function& fn, OpId grid, const std::vector<ValueId>& tiles);

// Tiles of `to` rows.
void NarrowRows(Function& fn, OpId grid, const GridRows& rows, int64_t to);

}  // namespace tilec::ir
