// Where the registers of a tile's slices are (cluster_reduce with `slices`): a slice is a run of
// columns, the last of which may be shorter, that every thread has in registers of the same
// numbers.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "ir/layout.h"

namespace tilec::ir {

// For each register of `to`, a slice that begins at column `first`: the register of `from`. −1: the
// tile's `columns`, whole eights, end before. ColumnsMap (ir/layout.h) for a slice that is whole.
inline std::optional<std::vector<int>> SliceMap(const Layout& from, const Layout& to, int64_t first,
                                                int64_t columns) {
  if (from.rank != to.rank || from.rank == 0 || from.thread != to.thread) return std::nullopt;
  std::map<std::vector<int64_t>, int> at;
  for (int64_t q = 0; q < from.regs(); ++q) at[from.RegCoord(q)] = static_cast<int>(q);
  std::vector<int> map;
  for (int64_t r = 0; r < to.regs(); ++r) {
    std::vector<int64_t> want = to.RegCoord(r);
    want.back() += first;
    const auto it = at.find(want);
    if (want.back() < columns && it == at.end()) return std::nullopt;
    map.push_back(want.back() < columns ? it->second : -1);
  }
  return map;
}

}  // namespace tilec::ir
