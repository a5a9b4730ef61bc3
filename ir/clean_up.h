// The clean-up of kernels that walk rows several times, in two halves. Where a row fits on the chip
// its loops are unrolled (ir/passes/keep_rows.cc), and then no CTAs can share their turns any more.
// So whoever weighs that keeps what the kernel was before.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ir/function.h"
#include "ir/pass.h"
#include "ir/passes/persist_tiles.h"

namespace tilec::ir {

// kCleanUp is these, one behind the other.
std::vector<PassStep> CleanUpUntilRows();
std::vector<PassStep> CleanUpOfRows();

// A function behind the first half, if its turns might be dealt out only there.
std::optional<Function> LoopsOfRows(const Function& fn);

// Of such a function: its loops' turns are dealt out to `ctas` CTAs and the second half has run; or
// why not, and it is undefined.
std::optional<Obstacle> SplitLoopsOfRows(Function& loops, int64_t ctas, const Target& target);

}  // namespace tilec::ir
