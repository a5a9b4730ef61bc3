// How long a whole kernel takes on a machine, before anything is emitted: periods of its loops,
// what stands around them, filling and draining, waves of CTAs over the SMs, and the memory that
// every byte must come from. An estimate for choosing between tile sizes of one kernel, not a
// promise.
//
// What is modelled: an SM runs `per_sm` CTAs side by side; a CTA starts when another is done, or
// stays and takes its next tile; edges cost as much as whole tiles; SMs without a CTA leave their
// share of a unit to the others; the clock falls when a unit that draws much power is busy. Without
// products, what stands outside loops: loads between two reductions are in flight together, the
// warps of a CTA meet at each reduction, and CTAs side by side use different units. What is
// not: L2 misses beyond the least traffic, imbalance between CTAs of one wave.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "ir/count_work.h"
#include "ir/function.h"
#include "ir/target.h"
#include "scheduler/loop_periods.h"

namespace tilec::scheduler {

struct LaunchShape {
  int64_t ctas = 0;  // 0: one per instance of the grid
  int64_t per_sm = 1;
  int64_t cluster = 1;    // CTAs that run in one part of the machine
  double share = 1;       // of what it needs, what a CTA asks the L2 for itself
  double lines = 1;       // that are asked for where one would do
  double written = 1;     // as long as its bytes say takes what is stored
  double leaves = 0;      // cycles more than its bytes say until an instance is stored
  double warpgroups = 0;  // CutWarpgroups, where that is known
  bool awaits = false;    // each turn waits for its own copies: other CTAs alone cover them
  bool in_order = false;  // one role does all in program order (scheduler/one_role.h)
};

// What is known of a launch before its program is lowered; none: the least.
using ShapeOf = std::function<LaunchShape(const ir::Function&, const ir::WorkCount&)>;

struct KernelTime {
  double ms = 0;
  double compute_ms = 0, memory_ms = 0;  // the larger one binds, of the other a share is uncovered
  double cycles_per_cta = 0;
  double loop_share = 0;  // of those cycles, in steady loops
  int64_t ctas = 0, waves = 0, per_sm = 1;
  bool uneven = false;         // some tiles take longer than others
  bool longest_binds = false;  // one tile takes longer than its SM's share of all
  // How much of the time is computing, where moving takes longer.
  double busy() const { return memory_ms > compute_ms ? compute_ms / memory_ms : 1; }
};

KernelTime EstimateTime(const ir::Function& fn, const ir::Target& target, const ir::WorkCount& work,
                        const std::vector<LoopPeriod>& loops, const LaunchShape& shape);

}  // namespace tilec::scheduler
