// Long reductions whose terms are dealt out to the CTAs of a cluster.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "ir/function.h"
#include "ir/passes/persist_tiles.h"

namespace tilec::ir {

// `ctas` (2, 4 or 8) CTAs in place of one; or why not, and nothing is changed.
std::optional<Obstacle> SplitReductions(Function& fn, int64_t ctas);

}  // namespace tilec::ir
