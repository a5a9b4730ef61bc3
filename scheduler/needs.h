// What a placement of ops needs of the machine: registers, memory, warps. Computed from the
// definitions in scheduler/graph.h, for whoever looks for schedules; the judges (scheduler/check.h)
// have their own way.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "scheduler/graph.h"

namespace tilec::scheduler {

// The roles on offer: group 0 is the load role where there is one. Groups may stay empty.
struct RoleOffer {
  bool load = false;
  std::vector<int> widths;  // warps of each compute group, widest first
  int Groups() const { return static_cast<int>(widths.size()) + (load ? 1 : 0); }
  int WidthOf(int group, int load_warps) const {
    return load && group == 0 ? load_warps : widths[group - (load ? 1 : 0)];
  }
};

// One schedule, as the model sees it.
struct Placement {
  std::vector<int64_t> cycle;  // by op
  std::vector<int> group;      // by op
};

// What a placement needs, shared with nothing in check.cc.
struct Needs {
  std::vector<int> groups_used;
  std::vector<int64_t> group_regs;  // peak live registers per thread, by group
  std::vector<int> group_peak;      // the op whose definition is the peak, −1: none
  std::vector<int64_t> quota;       // multiple of 8 >= peak, by group; 0 for unused ones
  int warps = 0, compute_groups = 0;
  int64_t pool = 0, pool_used = 0;  // Σ over warpgroups
  int64_t warpgroups = 0;           // of the launch, with those that narrow roles are packed into
  int64_t narrow_warps = 0, narrow_quota = 0;  // of the roles that are no whole warpgroups
  std::vector<int64_t> depth;                  // of the ring of each op, 0: not in shared memory
  int64_t smem_bytes = 0;
  int64_t tmem_columns = 0;
  int tmem_peak = -1;
};

// With roles = false everything is one program of a warpgroup.
Needs Measure(const Graph& graph, int64_t ii, const RoleOffer& offer, bool roles,
              const Placement& placement);

// A loop may begin anywhere in its period: t' = t − cut is as good a schedule, and its ops may span
// fewer stages. The cut that makes them fewest, and how many (of ops but loads; 0: there are none).
// Where an author pinned a cycle or a stage the loop begins at cycle 0.
struct Rotation {
  int64_t cut = 0, stages = 0;
};
Rotation FewestStages(const Graph& graph, int64_t ii, const Placement& placement);
// An author pinned a cycle or a stage.
bool PinsTime(const Graph& graph);

// Registers per thread, added up over so many warpgroups, that a launch of that size has: each
// thread's share is rounded down to a multiple of 8, so more warpgroups may have more of them.
int64_t RegisterPool(int64_t registers, int64_t warpgroups);

// What a role whose threads hold so many registers of values is given of them.
int64_t QuotaOf(int64_t registers);

// Warps of the load role: the widest of its ops; 0 without one.
int LoadWarps(const Graph& graph);
// Depth that a pin asks of the ring of an op, 0: free.
int64_t PinnedDepth(const Graph& graph, int op);

// Floor division for any sign.
constexpr int64_t FloorDiv(int64_t a, int64_t b) {
  const int64_t q = a / b;
  return q - ((a % b != 0) && ((a < 0) != (b < 0)) ? 1 : 0);
}
constexpr int64_t FloorMod(int64_t a, int64_t b) { return a - FloorDiv(a, b) * b; }

}  // namespace tilec::scheduler
