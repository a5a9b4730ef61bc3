// A branch that hardly ever runs, made in a launch of its own behind all others.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>

#include "ir/function.h"
#include "ir/passes/persist_tiles.h"

namespace tilec::ir {

struct Deferral {
  Function likely;     // the grid as it was, without the branch; marks the tiles that want it
  Function again;      // reads the marks, and does for those tiles what stands in the branch
  size_t tensors = 1;  // the last of either's: the marks
};

// Has it a branch that its author calls unlikely?
bool HasUnlikely(const Function& fn);
Span UnlikelyAt(const Function& fn);  // where the first of them stands

// Both functions have the same tensor behind those of `fn`, which the runtime provides: `likely`
// writes and `again` reads it. Or why the branch has to stay where it is.
std::optional<Obstacle> DeferUnlikely(const Function& fn, Deferral* out);

// What is left where nothing unlikely happens, by which programs are chosen: `likely`, or `fn`.
Function Likely(Function fn);

}  // namespace tilec::ir
