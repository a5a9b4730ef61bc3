// SPDX-License-Identifier: Apache-2.0
#include "scheduler/needs.h"

#include <algorithm>

#include "ir/isa.h"
#include "scheduler/routes.h"
#include "support/expr.h"

namespace tilec::scheduler {

using ir::isa::kLeastQuota;
using ir::isa::kWarpgroupWarps;

int64_t RegisterPool(int64_t registers, int64_t warpgroups) {
  if (warpgroups == 0) return 0;
  const int64_t threads = int64_t{32} * kWarpgroupWarps * warpgroups;
  return registers / threads / 8 * 8 * warpgroups;
}

int64_t QuotaOf(int64_t registers) { return std::max(kLeastQuota, RoundUp(registers, 8)); }

int LoadWarps(const Graph& graph) {
  int warps = 0;
  for (const GraphOp& op : graph.ops)
    if (op.variable_latency) warps = std::max(warps, op.warps);
  return warps;
}

int64_t PinnedDepth(const Graph& graph, int op) {
  int64_t depth = 0;
  for (const Graph::Pin& pin : graph.pins)
    if (pin.depth > 0 && pin.op == graph.ops[op].name) depth = pin.depth;
  return depth;
}

bool PinsTime(const Graph& graph) {
  return std::any_of(graph.pins.begin(), graph.pins.end(),
                     [](const Graph::Pin& pin) { return pin.cycle >= 0 || pin.stage >= 0; });
}

Rotation FewestStages(const Graph& graph, int64_t ii, const Placement& p) {
  std::vector<int64_t> cycles;
  for (size_t v = 0; v < graph.ops.size(); ++v)
    if (!graph.ops[v].variable_latency) cycles.push_back(p.cycle[v]);
  Rotation best;
  if (cycles.empty()) return best;
  const auto [first, last] = std::minmax_element(cycles.begin(), cycles.end());
  best.stages = FloorDiv(*last, ii) - FloorDiv(*first, ii) + 1;
  if (PinsTime(graph)) return best;
  // From the first op on, nothing begins earlier.
  const int64_t stages = (*last - *first) / ii + 1;
  if (stages < best.stages) best = {FloorMod(*first, ii), stages};
  return best;
}

namespace {

// What the roles that are used take of the launch. Those narrower than a warpgroup are packed,
// widest first, and share a quota.
void PackRoles(const Graph& graph, const RoleOffer& offer, bool roles,
               const std::vector<bool>& used, Needs* needs) {
  int packed = 0;
  int64_t packed_quota = 0;
  int warpgroups = 0;
  const int load_warps = LoadWarps(graph);
  for (int g = 0; g < static_cast<int>(used.size()); ++g) {
    if (!used[g]) continue;
    needs->groups_used.push_back(g);
    const int width = roles ? offer.WidthOf(g, load_warps) : kWarpgroupWarps;
    needs->warps += width;
    if (width >= kWarpgroupWarps) ++needs->compute_groups;
    needs->quota[g] = QuotaOf(needs->group_regs[g]);
    if (width % kWarpgroupWarps != 0) {
      packed += width;
      packed_quota = std::max(packed_quota, needs->quota[g]);
    } else {
      warpgroups += width / kWarpgroupWarps;
      needs->pool_used += needs->quota[g] * (width / kWarpgroupWarps);
    }
  }
  const int packed_groups = (packed + kWarpgroupWarps - 1) / kWarpgroupWarps;
  warpgroups += packed_groups;
  needs->pool_used += packed_quota * packed_groups;
  needs->pool = RegisterPool(graph.machine.registers, warpgroups);
  needs->warpgroups = warpgroups;
  needs->narrow_warps = packed;
  needs->narrow_quota = packed_quota;
  for (int g : needs->groups_used)
    if (roles && offer.WidthOf(g, load_warps) % kWarpgroupWarps != 0)
      needs->quota[g] = packed_quota;
}

}  // namespace

Needs Measure(const Graph& graph, int64_t ii, const RoleOffer& offer, bool roles,
              const Placement& p) {
  if (HasRoutes(graph)) return Measure(Routed(graph, p.group), ii, offer, roles, p);
  Needs needs;
  const int n = static_cast<int>(graph.ops.size());
  const int groups = std::max(1, offer.Groups());
  needs.group_regs.assign(groups, 0);
  needs.group_peak.assign(groups, -1);
  needs.quota.assign(groups, 0);
  needs.depth.assign(n, 0);
  std::vector<int64_t> life(n, 0);
  for (const GraphEdge& edge : graph.edges)
    if (edge.kind != EdgeKind::kOrder)
      life[edge.from] = std::max(
          life[edge.from], p.cycle[edge.to] + edge.distance * ii + edge.hold - p.cycle[edge.from]);
  // Slots of the period and whole periods of lives, once: the searches measure thousands of times.
  std::vector<int64_t> slot(n), periods(n), rest(n);
  for (int v = 0; v < n; ++v) {
    slot[v] = FloorMod(p.cycle[v], ii);
    periods[v] = FloorDiv(life[v], ii);
    rest[v] = life[v] - periods[v] * ii;
  }
  // Instances of the value of `v` alive when `e` issues.
  auto live_at = [&](int v, int e) {
    const int64_t since = slot[e] - slot[v];
    return periods[v] + ((since < 0 ? since + ii : since) < rest[v] ? 1 : 0);
  };
  std::vector<bool> used(groups, false);
  for (int v = 0; v < n; ++v) used[p.group[v]] = true;
  for (int e = 0; e < n; ++e) {
    const GraphOp& at = graph.ops[e];
    if (at.regs > 0) {
      int64_t live = 0;
      for (int v = 0; v < n; ++v)
        if (graph.ops[v].regs > 0 && p.group[v] == p.group[e])
          live += graph.ops[v].regs * live_at(v, e);
      if (live > needs.group_regs[p.group[e]]) {
        needs.group_regs[p.group[e]] = live;
        needs.group_peak[p.group[e]] = e;
      }
    }
    if (at.tmem_columns > 0) {
      int64_t live = 0;
      for (int v = 0; v < n; ++v)
        if (graph.ops[v].tmem_columns > 0) live += graph.ops[v].tmem_columns * live_at(v, e);
      if (live > needs.tmem_columns) needs.tmem_columns = live, needs.tmem_peak = e;
    }
    if (at.smem_bytes > 0) {
      needs.depth[e] = std::max<int64_t>({1, RoundUp(life[e], ii) / ii, PinnedDepth(graph, e)});
      needs.smem_bytes += needs.depth[e] * (at.smem_bytes + graph.machine.barrier_bytes);
    }
  }
  PackRoles(graph, offer, roles, used, &needs);
  return needs;
}

}  // namespace tilec::scheduler
