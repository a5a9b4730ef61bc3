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

#include <optional>
#include <string>
#include <vector>

#include "ir/count_work.h"
#include "ir/function.h"
#include "ir/target.h"

namespace tilec::scheduler {

// One innermost loop: how fast it turns, and what its first and last iterations cost besides.
struct LoopPeriod {
  Span at;
  int64_t cycles = 0;
  int64_t busy = 0;  // of them the busiest unit works
  int64_t fill = 0;
  int64_t hot = 0;    // of them the unit works that the clock depends on
  int64_t least = 0;  // that a turn of products takes however small its tiles are
  bool chained = false;  // several warpgroups make products of what comes of others
  bool hangs = false;    // one warpgroup does: a turn is as long as its chain
  int64_t in_order = 0;  // of one role that does all in program order and awaits its own copies
  int64_t units = 0;     // that its busiest unit works, which CTAs side by side share
};

// Lower bounds of all innermost loops; nullopt: some tile cannot fit registers or shared memory.
// `warpgroups`, if given: CutWarpgroups, which is found out on the way.
std::optional<std::vector<LoopPeriod>> BoundPeriods(const ir::Function& fn,
                                                    const ir::Target& target,
                                                    double* warpgroups = nullptr);

// How CTAs find what they share: how many of those that share a port are there (0 none, 1 all),
// and how often they need it, of as often as the machine's costs say.
struct Sharing {
  double beside = 0, times = 1;
  auto operator<=>(const Sharing&) const = default;
};
Sharing SharingOf(const ir::Target& target, int64_t ctas, double times);
// `target` as they find it. `out` is a copy of it, whose costs become so.
void ShareCosts(const ir::Target& target, const Sharing& sharing, ir::Target* out);
ir::Target SharedBy(const ir::Target& target, const Sharing& sharing);
inline ir::Target SharedBy(const ir::Target& target, int64_t ctas, double times) {
  return SharedBy(target, SharingOf(target, ctas, times));
}

// Multiprocessors that clusters of so many CTAs run on at a time.
int64_t SmsOfClusters(const ir::Target& target, int64_t ctas);

// Of a role that has all rows of the tiles of `fn`.
double CutWarpgroups(const ir::Function& fn, const ir::Target& target);

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
