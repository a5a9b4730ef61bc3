// How fast the innermost loops of a tile function turn, before anything is solved: bounds of the
// schedule's period, and what was measured that bounds do not say (a turn begins no sooner than its
// slot is free, warpgroups hold whole instructions, a chain of products, threads that meet). The
// sum over a kernel is kernel_time.h's.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ir/function.h"
#include "ir/target.h"

namespace tilec::scheduler {

// One innermost loop: how fast it turns, and what its first and last iterations cost besides.
struct LoopPeriod {
  Span at;
  int64_t cycles = 0;
  int64_t busy = 0;  // of them the busiest unit works
  int64_t fill = 0;
  int64_t hot = 0;       // of them the unit works that the clock depends on
  int64_t least = 0;     // that a turn of products takes however small its tiles are
  bool chained = false;  // several warpgroups make products of what comes of others
  bool hangs = false;    // one warpgroup does
  int64_t chain = 0;     // of that: a turn whose ops stay in the program's order
  int64_t products = 0;  // of a turn
  int64_t in_order = 0;  // of one role that does all in program order and awaits its own copies
  int64_t units = 0;     // that its busiest unit works, which CTAs side by side share
};

// Lower bounds of all innermost loops; nullopt: some tile cannot fit registers or shared memory.
// `warpgroups`, if given: CutWarpgroups, which is found out on the way.
std::optional<std::vector<LoopPeriod>> BoundPeriods(const ir::Function& fn,
                                                    const ir::Target& target,
                                                    double* warpgroups = nullptr);

// Of a role that has all rows of the tiles of `fn`.
double CutWarpgroups(const ir::Function& fn, const ir::Target& target);

// The unit that the clock depends on most; −1: none.
int HotUnit(const ir::Target& target);

}  // namespace tilec::scheduler
