// SPDX-License-Identifier: Apache-2.0
#include "certify/arcs.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>

namespace tilec::certify {

using scheduler::EdgeKind;
using scheduler::Graph;
using scheduler::GraphEdge;
using scheduler::GraphOp;

namespace {

std::string Between(const Graph& graph, int from, int to, int64_t distance) {
  return graph.ops[from].name + " -> " + graph.ops[to].name +
         (distance > 0 ? fmt::format(" (next {})", distance) : "");
}

}  // namespace

std::vector<Arc> Arcs(const Graph& graph) {
  std::vector<Arc> arcs, of_routes;
  for (const GraphEdge& e : graph.edges) {
    Arc arc;
    arc.from = e.from;
    arc.to = e.to;
    arc.value = e.kind != EdgeKind::kOrder;
    arc.carried = e.kind == EdgeKind::kRegister && e.distance > 0;
    arc.fixed = !e.crossable;
    arc.delay = e.delay;
    arc.transfer = e.store < 0 ? e.transfer : 0;
    arc.distance = e.distance;
    arc.hold = e.hold;
    arc.text = Between(graph, e.from, e.to, e.distance);
    if (e.store >= 0) {
      arc.when = When::kTogether;
      arc.first = e.from;
      arc.second = e.to;
      const GraphOp &store = graph.ops[e.store], &load = graph.ops[e.load];
      auto leg = [&](int from, int to, int64_t delay, int64_t hold, bool fixed) {
        Arc part;
        part.from = from;
        part.to = to;
        part.value = true;
        part.fixed = fixed;
        part.delay = delay;
        part.hold = hold;
        part.when = When::kApart;
        part.first = e.from;
        part.second = e.to;
        part.text = Between(graph, from, to, 0);
        of_routes.push_back(part);
      };
      // Into the store in u's role, through shared memory, out of the load in v's role.
      leg(e.from, e.store, e.delay, store.issue, true);
      leg(e.store, e.load, store.latency + e.transfer, load.issue, false);
      leg(e.load, e.to, load.latency, e.hold, true);
    }
    arcs.push_back(std::move(arc));
  }
  arcs.insert(arcs.end(), of_routes.begin(), of_routes.end());
  return arcs;
}

std::vector<int> Owners(const Graph& graph) {
  std::vector<int> owner;
  for (size_t v = 0; v < graph.ops.size(); ++v) owner.push_back(static_cast<int>(v));
  for (const GraphEdge& e : graph.edges)
    if (e.store >= 0) owner[e.store] = e.from, owner[e.load] = e.to;
  return owner;
}

int LoadWarps(const Graph& graph) {
  int warps = 0;
  for (const GraphOp& op : graph.ops)
    if (op.variable_latency) warps = std::max(warps, op.warps);
  return warps;
}

std::vector<Width> Widths(const Graph& graph) {
  std::map<int, std::vector<int>, std::greater<>> ops;
  for (size_t v = 0; v < graph.ops.size(); ++v)
    if (!graph.ops[v].variable_latency && !graph.ops[v].routed)
      ops[graph.ops[v].warps].push_back(static_cast<int>(v));
  int64_t left = graph.machine.max_warps - LoadWarps(graph);
  for (const auto& [warps, of] : ops) left -= warps;  // one role of each
  std::vector<Width> widths;
  for (const auto& [warps, of] : ops) {
    const int64_t most = left < 0 ? 0 : 1 + left / warps;
    widths.push_back({warps, static_cast<int>(std::min<int64_t>(most, std::ssize(of))), of});
  }
  return widths;
}

int64_t RegisterPool(const Graph& graph, int64_t warpgroups) {
  constexpr int64_t kThreads = 128, kStep = 8;  // of a warpgroup; of a quota
  if (warpgroups <= 0) return 0;
  const int64_t share = graph.machine.registers / (kThreads * warpgroups);
  return (share - share % kStep) * warpgroups;
}

int64_t StageReach(const Graph& graph, int64_t ii) {
  int64_t most = ii;
  for (const Arc& arc : Arcs(graph))
    most = std::max({most, arc.delay + arc.transfer + ii, arc.distance * ii});
  int64_t reach = (std::ssize(graph.ops) * (most + 1)) / ii + 2;
  for (const Graph::Pin& pin : graph.pins) {
    reach = std::max(reach, reach + pin.cycle / ii + 1);
    reach = std::max<int64_t>(reach, reach + pin.stage + 1);
  }
  return reach;
}

bool PinsTime(const Graph& graph) {
  return std::any_of(graph.pins.begin(), graph.pins.end(),
                     [](const Graph::Pin& pin) { return pin.cycle >= 0 || pin.stage >= 0; });
}

bool PinsCycle(const Graph& graph) {
  return std::any_of(graph.pins.begin(), graph.pins.end(),
                     [](const Graph::Pin& pin) { return pin.cycle >= 0; });
}

}  // namespace tilec::certify
