// What the choice of tunes reads off a tile function and off the warp program that it becomes.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "ir/function.h"
#include "ir/target.h"
#include "scheduler/copy_lines.h"
#include "scheduler/kernel_time.h"

namespace tilec::api {

// How many times as long a program of products takes, because rows of a tile are no whole lines of
// 128 bytes (beside what scheduler/copy_lines.h counts).
double CutLines(const ir::Function& fn, const ir::Target& target);

// Of the bytes that come into a CTA, the share that it asks the L2 for: CTAs of a cluster that
// copy for each other ask for a part each.
double AskedFor(const ir::Function& warps);

// How a program runs, for the sizes in `names`. `likely`: what was said of it before it was lowered
// (api/split.h).
scheduler::LaunchShape ShapeOf(const ir::Function& warps, const ir::Target& target,
                               const Bindings& names, const scheduler::Asked& copies,
                               const scheduler::LaunchShape& likely);

// Cycles beyond what the bytes take until an instance is stored where threads store a tile
// themselves, by pieces of a sector: each is asked of the L2 like a line that rows cut. (H200,
// causal attention of D = 256, 960 heads of 292: 246, 257 and 287 us in 128 x 64, 48 and 80, whose
// tiles leave so for lack of shared memory, 177, 183 and 174 said without; 180 in 112 x 64, which
// leaves by copies.)
double StoredByThreads(const ir::Function& warps, const ir::Target& target);

// Does each turn of a loop of products wait for the copies that it asked for itself? No ring fits,
// and one role does it all.
bool AwaitsCopies(const ir::Function& warps);

// Are tiles of a loop more than what fills a role, whatever order it takes: what it carries, and
// beside that one product that is added to none of it? Such a program is taken to spill
// (ir/lower/filled.h), which this says before it is lowered. Never where products are not a
// warpgroup's, or one warpgroup makes them, whose quota is not known.
bool FillsRegisters(const ir::Function& fn, const ir::Target& target);
// Would its loops of one warpgroup fill the registers if this iteration's products and the next
// one's were there at a time, as the solver may order them?
bool FillsAsSolved(const ir::Function& fn, const ir::Target& target);

// Do its innermost loops do more than copy, multiply, and scale what was multiplied?
bool DoesMore(const ir::Function& fn);

// Does a product of a loop wait, in its iteration, for what threads reduce (the largest of a row)?
bool AwaitsReductions(const ir::Function& fn);

// How many turns of the loop at `at` a turn of the lowered one makes; 0: that is another loop.
int64_t TurnsWrittenOut(const ir::Function& clean, Span at, const ir::Op& lowered);

}  // namespace tilec::api
