// How a state lies that a loop carries and reduces along rows in each of its turns: the [channels,
// N] of a selective scan. Nothing of it is in memory meanwhile, so it need not be laid out for
// access, and lanes that share a row would meet in every turn: a row is one thread's, or a few
// lanes'.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ir/function.h"
#include "ir/layout.h"
#include "ir/uses.h"

namespace tilec::ir {

// Of the tiles that share a layout; nullopt: they are no such state. In programs without products.
std::optional<Layout> StatesLayout(const Function& fn, const Uses& uses,
                                   const std::vector<ValueId>& members, int64_t threads);

}  // namespace tilec::ir
