// Which range of a grid comes first. Ranges have no order, and neighbours along the first one share
// copies (ir/passes/cluster_tiles.h): of one row of tiles nobody is a neighbour along the rows, and
// all read the same rows of A; neighbours along the columns store what lies side by side.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "ir/function.h"

namespace tilec::ir {

// Makes range `first` of the grid (0: as it is) its first one. False where nothing changed.
bool ArrangeGrid(Function& fn, int64_t first);

}  // namespace tilec::ir
