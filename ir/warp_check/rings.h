// Rings that only their counters tell apart. Transfer c of a ring of depth d uses slot c mod d and
// parity ⌊c / d⌋ mod 2, on every side. If nothing else in the program names a slot or a parity of
// the ring, then a state and the same state t transfers later (every counter of the ring + t,
// every slot k renamed to (k + t) mod d, every phase to match) have the same futures: the program
// cannot tell them apart. The key of a state may therefore count from the slowest counter of each
// ring, which keeps rings of different depths from multiplying.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <vector>

#include "ir/warp_check/program.h"

namespace tilec::ir::warp_check {

struct RingGroup {
  int64_t depth = 1;
  std::vector<ValueId> counters, mbars, buffers;
};

struct Rings {
  Rings() = default;  // none are known
  explicit Rings(const Program& program);
  std::vector<RingGroup> groups;
  std::map<int32_t, int> of_counter;    // counter -> group
  std::map<int32_t, ValueId> count_of;  // slot, iteration or parity -> the count it was made from
  std::map<int32_t, int> of_count;      // count -> group
};

}  // namespace tilec::ir::warp_check
