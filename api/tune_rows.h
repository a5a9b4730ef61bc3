// Tiles of rows that the model takes for faster than they are.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>

#include "ir/function.h"

namespace tilec::api {

// How a program at the default's point has its rows.
struct RowTiles {
  int64_t slide = 0;                                   // least columns of a turn that slides
  int64_t kept = std::numeric_limits<int64_t>::max();  // most tiles of a row that is kept
};
RowTiles RowTilesOf(const ir::Function& clean);

// Does a point whose rows `split` CTAs share take longer than it is said to?
bool TakesLonger(const ir::Function& clean, int64_t split, const RowTiles& standard);

}  // namespace tilec::api
