// A placement as a schedule that people and the backend read: names, quotas, channels, tokens.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "ir/isa.h"
#include "scheduler/search.h"
#include "scheduler/to_schedule.h"

namespace tilec::scheduler {

using ir::isa::kWarpgroupWarps;

namespace {

// Spare registers go to the wide roles, evenly, in steps of 8.
void SpreadQuotas(const Needs& needs, const RoleOffer& offer, int load_warps, int64_t most,
                  std::vector<int64_t>* quota) {
  int64_t spare = needs.pool - needs.pool_used;
  for (bool raised = true; raised;) {
    raised = false;
    int64_t least = INT64_MAX;
    int pick = -1;
    for (int g : needs.groups_used) {
      const int width = offer.WidthOf(g, load_warps);
      if (width % kWarpgroupWarps != 0 || (*quota)[g] + 8 > most) continue;
      if (8 * (width / kWarpgroupWarps) > spare || (*quota)[g] >= least) continue;
      least = (*quota)[g];
      pick = g;
    }
    if (pick < 0) break;
    (*quota)[pick] += 8;
    spare -= 8 * (offer.WidthOf(pick, load_warps) / kWarpgroupWarps);
    raised = true;
  }
}

// Loads that run ahead come when memory likes, not when the schedule says: what shared memory is
// left makes their rings deeper, until each bears a load that takes twice its time.
void DeepenRings(const Graph& graph, const std::vector<int64_t>& life, int64_t ii,
                 std::vector<ir::Channel>* channels) {
  int64_t left = graph.machine.smem_bytes;
  for (const ir::Channel& channel : *channels)
    if (const int v = graph.FindOp(channel.value); graph.ops[v].smem_bytes > 0)
      left -= channel.depth * (graph.ops[v].smem_bytes + graph.machine.barrier_bytes);
  for (bool grown = true; grown;) {
    grown = false;
    for (ir::Channel& channel : *channels) {
      const int v = graph.FindOp(channel.value);
      const GraphOp& op = graph.ops[v];
      const int64_t slot = op.smem_bytes + graph.machine.barrier_bytes;
      if (!op.streaming || op.smem_bytes == 0 || slot > left || PinnedDepth(graph, v) > 0 ||
          channel.depth * ii >= life[v] + op.latency)
        continue;
      ++channel.depth;
      left -= slot;
      grown = true;
    }
  }
}

// Rings in shared memory, and values that cross between roles: as many slots as live at once.
std::vector<ir::Channel> ChannelsOf(const Graph& graph, const Search::Found& found) {
  std::vector<ir::Channel> channels;
  std::vector<int64_t> lives(graph.ops.size(), 0);
  for (int v = 0; v < static_cast<int>(graph.ops.size()); ++v) {
    const GraphOp& op = graph.ops[v];
    bool crosses = false, by_register = false;
    int64_t& life = lives[v];
    for (const GraphEdge& edge : graph.edges) {
      if (edge.from != v || edge.kind == EdgeKind::kOrder) continue;
      if (found.placement.group[edge.to] != found.placement.group[v]) {
        crosses = true;
        by_register = by_register || edge.kind == EdgeKind::kRegister;
      }
      life = std::max(life, found.placement.cycle[edge.to] + edge.distance * found.ii + edge.hold -
                                found.placement.cycle[v]);
    }
    const int depth =
        static_cast<int>(std::max<int64_t>(1, FloorDiv(life + found.ii - 1, found.ii)));
    if (op.smem_bytes > 0) {
      int pinned_depth = 0;
      for (const Graph::Pin& pin : graph.pins)
        if (pin.op == op.name) pinned_depth = std::max(pinned_depth, pin.depth);
      channels.push_back({op.name, "smem", std::max(depth, pinned_depth)});
    } else if (op.tmem_columns > 0) {
      if (crosses) channels.push_back({op.name, "tmem", depth});
    } else if (crosses && by_register) {
      // One slot more where the next value comes in the very cycle of the last read.
      channels.push_back({op.name, "reg", depth + (life % found.ii == 0 ? 1 : 0)});
    }
  }
  DeepenRings(graph, lives, found.ii, &channels);
  return channels;
}

std::vector<ir::OrderEdge> OrderEdges(const Graph& graph, const Search::Found& found) {
  std::vector<ir::OrderEdge> edges;
  for (size_t f = 0; f < graph.units.size(); ++f) {
    if (graph.units[f].capacity != 1 || graph.units[f].fluid) continue;
    std::vector<int> users;
    for (int v = 0; v < static_cast<int>(graph.ops.size()); ++v)
      for (const UnitUse& use : graph.ops[v].uses)
        if (use.unit == static_cast<int>(f) && use.cycles > 0) users.push_back(v);
    const std::vector<int64_t>& cycle = found.placement.cycle;
    std::stable_sort(users.begin(), users.end(), [&](int a, int b) {
      return FloorMod(cycle[a], found.ii) < FloorMod(cycle[b], found.ii);
    });
    if (users.size() < 2) continue;
    for (size_t i = 0; i < users.size(); ++i) {
      const int a = users[i], b = users[(i + 1) % users.size()];
      if (found.placement.group[a] == found.placement.group[b]) continue;
      // Engines that run behind their role's back take work in the order in which it arrives: the
      // order is kept by a token. Others share the issue slots and sort themselves out.
      const bool enforced = graph.ops[a].async && graph.ops[b].async;
      edges.push_back({graph.ops[a].name, graph.ops[b].name, graph.units[f].name, enforced});
    }
  }
  return edges;
}

}  // namespace

ir::Schedule ToSchedule(const Graph& graph, const SolveOptions& options,
                        const Search::Found& as_found) {
  Search::Found found = as_found;
  if (HasRoutes(graph)) {
    const std::vector<bool> absent = Absent(graph, found.placement.group);
    ir::Schedule s = ToSchedule(Routed(graph, found.placement.group), options, found);
    s.graph_hash = Hash(graph);
    std::erase_if(s.ops, [&](const ir::ScheduledOp& op) { return absent[graph.FindOp(op.name)]; });
    return s;
  }
  const int64_t cut = FewestStages(graph, found.ii, found.placement).cut;
  for (int64_t& cycle : found.placement.cycle) cycle -= cut;
  const Needs needs =
      Measure(graph, found.ii, found.offer, options.warp_constraints, found.placement);
  const int load_warps = LoadWarps(graph);
  ir::Schedule s;
  s.graph = graph.name;
  s.graph_hash = Hash(graph);
  s.machine = graph.machine.name;
  s.ii = found.ii;

  std::vector<int> role_of(std::max(1, found.offer.Groups()), 0);
  std::vector<int64_t> quota = needs.quota;
  SpreadQuotas(needs, found.offer, load_warps, graph.machine.max_regs_per_thread, &quota);
  int compute = 0, narrow = 0;
  for (int g : needs.groups_used) {
    role_of[g] = static_cast<int>(s.roles.size());
    ir::ScheduledRole role;
    role.warps = options.warp_constraints ? found.offer.WidthOf(g, load_warps) : kWarpgroupWarps;
    role.regs = options.register_limits && options.warp_constraints ? quota[g] : 0;
    bool all_async = true;
    for (size_t v = 0; v < graph.ops.size(); ++v)
      if (found.placement.group[v] == g) all_async = all_async && graph.ops[v].async;
    if (found.offer.load && g == 0)
      role.name = "load";
    else if (role.warps >= kWarpgroupWarps)
      role.name = fmt::format("compute{}", compute++);
    else
      role.name = fmt::format("{}{}", all_async ? "mma" : "narrow", narrow++);
    s.roles.push_back(std::move(role));
  }

  // Whole periods only: slots and orders stay.
  int64_t least = 0;
  if (!PinsTime(graph))
    for (size_t v = 0; v < graph.ops.size(); ++v)
      least = v == 0 ? FloorDiv(found.placement.cycle[v], found.ii)
                     : std::min(least, FloorDiv(found.placement.cycle[v], found.ii));
  for (size_t v = 0; v < graph.ops.size(); ++v)
    s.ops.push_back({graph.ops[v].name, found.placement.cycle[v] - least * found.ii,
                     role_of[found.placement.group[v]]});
  s.channels = ChannelsOf(graph, found);
  s.order = OrderEdges(graph, found);
  s.assumptions.push_back(
      fmt::format("costs of machine {}; transfer times per edge", graph.machine.name));
  return s;
}

// A schedule as the model sees it: roles numbered widest first, the load role before all.
Search::Found FoundOf(const Graph& graph, const ir::Schedule& schedule) {
  Search::Found found;
  found.ii = schedule.ii;
  std::vector<bool> load(schedule.roles.size(), false);
  for (const ir::ScheduledOp& op : schedule.ops)
    if (graph.ops[graph.FindOp(op.name)].variable_latency) load[op.role] = true;
  std::vector<int> order(schedule.roles.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    if (load[a] != load[b]) return static_cast<bool>(load[a]);
    return schedule.roles[a].warps > schedule.roles[b].warps;
  });
  std::vector<int> group(schedule.roles.size());
  for (size_t i = 0; i < order.size(); ++i) {
    group[order[i]] = static_cast<int>(i);
    if (load[order[i]])
      found.offer.load = true;
    else
      found.offer.widths.push_back(schedule.roles[order[i]].warps);
  }
  found.placement.cycle.resize(graph.ops.size());
  found.placement.group.resize(graph.ops.size());
  for (const ir::ScheduledOp& op : schedule.ops) {
    const int v = graph.FindOp(op.name);
    found.placement.cycle[v] = op.cycle;
    found.placement.group[v] = group[op.role];
  }
  Settle(graph, &found.placement);
  return found;
}

}  // namespace tilec::scheduler
