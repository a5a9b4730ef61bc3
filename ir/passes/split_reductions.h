// Long reductions whose terms are dealt out to the CTAs of a cluster.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ir/function.h"
#include "ir/passes/persist_tiles.h"
#include "ir/passes/rescaled_sums.h"
#include "ir/target.h"

namespace tilec::ir {

// The one loop of a grid whose iterations may be dealt out.
struct LongReduction {
  OpId grid, loop;
  std::vector<std::string> kinds;  // by result of the loop: add, max, min
  std::optional<RescaledSums> rescaled;
};
// Or why there is none.
std::optional<Obstacle> FindLongReduction(const Function& fn, LongReduction* found);

// `ctas` (2 to 8) CTAs in place of one; or why not, and nothing is changed. How the target holds
// tiles in registers says whether each of them may store columns of its own.
std::optional<Obstacle> SplitReductions(Function& fn, int64_t ctas, const Target& target);

// Of a function whose loop makes one part of many, nobody's cluster: a row of it may have seen
// nothing but −∞. Or why nothing is changed.
std::optional<Obstacle> GuardParts(Function& fn);

}  // namespace tilec::ir
