// Rings that only their counters tell apart. Transfer c of a ring of depth d uses slot c mod d and
// parity ⌊c / d⌋ mod 2, on every side. If nothing else in the program names a slot or a parity of
// the ring, then a moment and the same moment t transfers later (every counter of the ring + t,
// every slot k renamed to (k + t) mod d, every phase to match) have the same futures: the program
// cannot tell them apart. The key of a moment may therefore count from the slowest counter of each
// ring, which keeps rings of different depths from multiplying.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "ir/warp_check/program.h"

namespace tilec::ir::warp_check {

struct RingGroup {
  int64_t depth = 1;
  std::vector<ValueId> counters, mbars, buffers;
  std::vector<OpId> divisions;  // c mod depth, c / depth
};

struct Rings {
  explicit Rings(const Program& program);
  std::vector<RingGroup> groups;
  std::map<int32_t, int> of_counter;    // counter -> group
  std::map<int32_t, ValueId> count_of;  // slot, turn or parity -> the count it was made from
  std::map<int32_t, int> of_count;      // count -> group
};

// The same program with rings of at most `cap` slots. What is proved of it holds of the deeper rings:
// a wait for a full slot waits for the same transfer in both; a wait for an empty one waits for an
// older transfer in the deeper ring. So nothing new can hang, and whatever orders the reads of
// transfer c before the refill with c + cap also orders them before that with c + depth: the last
// edge of such a path into the filling role is either no edge of this ring, and unchanged, or the
// release of some transfer c' <= c, which the deeper ring awaits before it refills c' + depth, and
// that comes no later than c + depth. nullopt: no ring is deeper.
std::optional<Function> Shallow(const Program& program, int64_t cap);

}  // namespace tilec::ir::warp_check
