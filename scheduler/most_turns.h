// How many turns a loop can have, where its bounds say it: the part of a row that a CTA of several
// has may be one tile. A loop that never has as many turns as its schedule has stages never runs
// as scheduled: its pipelined form is there (ir/pipeline_loop.cc), LLVM takes it out, and what is
// left is in the order of the program. With as many turns, or one more, what fills the pipeline and
// what empties it is all, or all but one turn, and no loop is left. Whoever reads the program back
// must know it.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "ir/function.h"

namespace tilec::scheduler {

// Nothing where the bounds do not say.
std::optional<int64_t> MostTurns(const ir::Function& fn, ir::OpId loop);

// Of a loop whose schedule has so many stages behind the first; "" where it may turn in them.
std::string TooFewTurns(const ir::Function& fn, ir::OpId loop, int stages);

}  // namespace tilec::scheduler
