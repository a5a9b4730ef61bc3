// What the body of a loop takes for granted: masks, and values that live around the loop.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <set>
#include <vector>

#include "ir/function.h"

namespace tilec::scheduler {

// A tile made before the loop and read in it: it takes its place for the whole loop.
struct LiveIn {
  ir::ValueId value;
  bool loaded_operand = false;  // a load that products read: in shared memory, else in registers
};

struct BodyFacts {
  // Ops that only decide which elements count: comparisons of positions, and a select between a
  // value and a constant by such a comparison. Where the comparison is known for a whole tile, as
  // in all but a few iterations of a loop, nothing is left of them.
  std::set<ir::OpId> masks;
  std::vector<LiveIn> live_in;  // in the order of first use
  bool multiplies = false;      // the kernel has products
};

BodyFacts FactsOf(const ir::Function& fn, ir::OpId loop);

// Is it a branch whose last arm stores to the tensor that its first arm stores to? The last one is
// for the rare tile (ir/passes/whole_stores.cc).
bool StoresInstead(const ir::Function& fn, const ir::Op& op);

}  // namespace tilec::scheduler
