// Kernels of few rows that are walked several times, as softmax and norms walk long ones: the turns
// of all their loops are dealt out to the CTAs of a cluster.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "ir/function.h"
#include "ir/passes/persist_tiles.h"

namespace tilec::ir {

// Does the grid have several loops, one after the other?
bool HasSeveralLoops(const Function& fn);

// `ctas` (2 to 8) CTAs in place of one; or why not, and nothing is changed.
std::optional<Obstacle> SplitLoops(Function& fn, int64_t ctas);

}  // namespace tilec::ir
