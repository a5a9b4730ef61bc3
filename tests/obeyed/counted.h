// What one iteration of a steady loop of the emitted PTX costs a role, counted: products, copies,
// waits and instructions. For tables and for the replay test; compare.h judges, this only counts.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "tests/obeyed/ptx_code.h"

namespace tilec::obeyed {

// Waits: `full` for a ring's slot or another role, `mma` for products, `sync` of named barriers.
struct Iteration {
  int products = 0, copies = 0, full = 0, mma = 0, sync = 0, instructions = 0;
};

// Innermost loops that copy or multiply, for the elected thread of a warp. Of two that do the same,
// one is for fewer iterations than there are stages: the other has first iterations in front of it.
std::vector<const Loop*> SteadyLoops(const Code& code, int warp);

// Along the shortest way through the loop's blocks: that is the version without masks, where there
// are two, and a wait that is over when it is tried. Nothing where there are too many ways.
std::optional<Iteration> CountIteration(const Code& code, const Loop& loop, int warp);

// How often instructions of a turn stand in some other part of the program, were they copied there
// as a whole: of each opcode equally many, otherwise the number is no whole one. One number says
// nothing where LLVM made one of two (the first turn's `0 * x` of two sums) or drops a place.
double CopiesAmong(const Code& code, const std::vector<int>& there, const std::vector<int>& turn);

// Turns that a loop has one behind the other (ir/passes/read_ahead.cc): most ops, given by where
// their instructions stand in order, stand in so many places, with others between.
size_t TurnsTogether(const std::vector<std::vector<size_t>>& ops);

// Where an op is whose instructions stand there: at the middle one. Where LLVM made some of one
// turn a part of their readers (a product and a sum), that may be another turn's than that of other
// ops. Then it is the middle one of the middle turn.
size_t MiddleOf(const std::vector<size_t>& at, size_t together);

}  // namespace tilec::obeyed
