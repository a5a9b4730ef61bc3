// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/random_roles.h"

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "scheduler/check.h"
#include "scheduler/role_sets.h"
#include "scheduler/routes.h"

namespace tilec::fuzz {
namespace {

using scheduler::Graph;
using scheduler::GraphEdge;
using scheduler::GraphOp;
using scheduler::RoutedEdge;

// Slots of rings as the lives of their values need them.
void AddChannels(const Graph& graph, ir::Schedule* s) {
  const Graph plain = scheduler::RoutedBy(graph, *s);
  std::map<std::string, int64_t> cycles;
  for (const ir::ScheduledOp& op : s->ops) cycles[op.name] = op.cycle;
  s->channels.clear();
  for (size_t v = 0; v < plain.ops.size(); ++v) {
    if (plain.ops[v].smem_bytes == 0) continue;
    int64_t life = 1;
    for (const GraphEdge& e : plain.edges)
      if (e.from == static_cast<int>(v) && e.kind != scheduler::EdgeKind::kOrder)
        life = std::max(life, cycles.at(plain.ops[static_cast<size_t>(e.to)].name) +
                                  e.distance * s->ii + e.hold - cycles.at(plain.ops[v].name));
    s->channels.push_back(
        {plain.ops[v].name, "smem", static_cast<int>((life + s->ii - 1) / s->ii)});
  }
}

// Does the value of v pass on to u within the iteration?
std::vector<int> InOrder(const Graph& graph, const std::vector<RoutedEdge>& edges) {
  std::vector<int> order;
  std::vector<bool> done(graph.ops.size());
  while (order.size() < graph.ops.size()) {
    const size_t before = order.size();
    for (size_t v = 0; v < graph.ops.size(); ++v) {
      const bool ready =
          !done[v] && std::all_of(edges.begin(), edges.end(), [&](const RoutedEdge& e) {
            return e.edge.to != static_cast<int>(v) || e.edge.distance > 0 ||
                   done[static_cast<size_t>(e.edge.from)];
          });
      if (!ready) continue;
      done[v] = true;
      order.push_back(static_cast<int>(v));
    }
    if (order.size() == before) return {};
  }
  return order;
}

}  // namespace

std::optional<ir::Schedule> WithRandomRoles(const Graph& graph, Rng& rng) {
  scheduler::RoleSets sets(graph);
  const int roles = 2 + (rng.Chance(30) ? 1 : 0);
  std::map<int, int> role_of;
  for (size_t v = 0; v < graph.ops.size(); ++v)
    if (graph.ops[v].variable_latency) role_of[sets.Find(static_cast<int>(v))] = 0;
  std::vector<int> role(graph.ops.size());
  std::map<int, int> used, warps;
  for (size_t v = 0; v < graph.ops.size(); ++v) {
    const auto [it, fresh] = role_of.try_emplace(sets.Find(static_cast<int>(v)), 0);
    if (fresh) it->second = 1 + rng.Below(roles);
    role[v] = used.try_emplace(it->second, static_cast<int>(used.size())).first->second;
    warps[role[v]] = static_cast<int>(graph.ops[v].warps);
  }
  const int compute = static_cast<int>(used.size()) - static_cast<int>(used.count(0));
  if (compute < 2) return std::nullopt;

  ir::Schedule s;
  s.graph = graph.name;
  s.graph_hash = scheduler::Hash(graph);
  s.machine = graph.machine.name;
  for (const auto& [r, w] : warps) {
    const bool load = used.count(0) > 0 && r == used.at(0);
    s.roles.push_back({load ? "load" : "compute" + std::to_string(r), w, 0});
  }
  std::vector<RoutedEdge> edges;
  for (const RoutedEdge& e : scheduler::AllEdges(graph))
    if (e.Holds(role)) edges.push_back(e);
  const std::vector<bool> absent = scheduler::Absent(graph, role);
  std::vector<int64_t> cycle(graph.ops.size());
  int64_t now = 0, ii = 1;
  for (int v : InOrder(graph, edges)) {
    const auto at = static_cast<size_t>(v);
    if (absent[at]) continue;
    for (const RoutedEdge& e : edges)
      if (e.edge.to == v && e.edge.distance == 0)
        now =
            std::max(now, cycle[static_cast<size_t>(e.edge.from)] + e.edge.delay + e.edge.transfer);
    cycle[at] = now;
    s.ops.push_back({graph.ops[at].name, now, role[at]});
    int64_t busy = std::max<int64_t>(1, graph.ops[at].issue);
    for (const scheduler::UnitUse& use : graph.ops[at].uses) busy = std::max(busy, use.cycles);
    now += busy;
  }
  if (s.ops.empty()) return std::nullopt;
  ii = now;
  for (const RoutedEdge& e : edges)
    if (e.edge.distance > 0)
      ii = std::max(ii, (e.edge.delay + e.edge.transfer + cycle[static_cast<size_t>(e.edge.from)] -
                         cycle[static_cast<size_t>(e.edge.to)] + e.edge.distance - 1) /
                            e.edge.distance);
  for (int64_t percent : {20 + rng.Below(30), 55, 70, 85, 100}) {
    s.ii = std::max<int64_t>(1, ii * percent / 100);
    AddChannels(graph, &s);
    if (scheduler::Check(graph, s).violations.empty()) return s;
  }
  return std::nullopt;
}

}  // namespace tilec::fuzz
