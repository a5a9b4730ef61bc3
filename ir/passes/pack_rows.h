// Neighbours of a grid that read the same operand become rows of one tile.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "ir/function.h"
#include "ir/passes/persist_tiles.h"

namespace tilec::ir {

constexpr int64_t kMostPacked = 16;  // that pay: more rows than an instruction has

// `heads` (a power of two) neighbours in place of one; or why not, and nothing is changed.
std::optional<Obstacle> PackRows(Function& fn, int64_t heads);

}  // namespace tilec::ir
