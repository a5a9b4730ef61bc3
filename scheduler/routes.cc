// SPDX-License-Identifier: Apache-2.0
#include "scheduler/routes.h"

#include <algorithm>

namespace tilec::scheduler {

bool HasRoutes(const Graph& graph) {
  return std::any_of(graph.edges.begin(), graph.edges.end(),
                     [](const GraphEdge& e) { return e.HasRoute(); });
}

std::vector<RoutedEdge> AllEdges(const Graph& graph) {
  std::vector<RoutedEdge> edges, routes;
  for (const GraphEdge& e : graph.edges) {
    edges.push_back({e});
    if (!e.HasRoute()) continue;
    RoutedEdge& direct = edges.back();
    direct.first = e.from;
    direct.second = e.to;
    direct.edge.store = direct.edge.load = -1;
    direct.edge.transfer = 0;
    auto add = [&](int from, int to, EdgeKind kind, int64_t delay, int64_t transfer, int64_t hold,
                   bool crossable) {
      routes.push_back({{from, to, kind, delay, 0, transfer, hold, crossable}, e.from, e.to, true});
    };
    const GraphOp &store = graph.ops[e.store], &load = graph.ops[e.load];
    add(e.from, e.store, EdgeKind::kRegister, e.delay, 0, store.issue, false);
    add(e.store, e.load, EdgeKind::kSmem, store.latency, e.transfer, load.issue, true);
    add(e.load, e.to, EdgeKind::kRegister, load.latency, 0, e.hold, false);
  }
  edges.insert(edges.end(), routes.begin(), routes.end());
  return edges;
}

std::vector<int> RoleOwners(const Graph& graph) {
  std::vector<int> owner(graph.ops.size());
  for (size_t v = 0; v < owner.size(); ++v) owner[v] = static_cast<int>(v);
  for (const GraphEdge& e : graph.edges)
    if (e.HasRoute()) {
      owner[e.store] = e.from;
      owner[e.load] = e.to;
    }
  return owner;
}

std::vector<bool> Absent(const Graph& graph, const std::vector<int>& group) {
  std::vector<bool> absent(graph.ops.size());
  for (size_t v = 0; v < absent.size(); ++v) absent[v] = graph.ops[v].routed;
  for (const GraphEdge& e : graph.edges)
    if (e.HasRoute() && group[e.from] != group[e.to]) absent[e.store] = absent[e.load] = false;
  return absent;
}

Graph Routed(const Graph& graph, const std::vector<int>& group) {
  Graph plain = graph;
  const std::vector<bool> absent = Absent(graph, group);
  for (size_t v = 0; v < plain.ops.size(); ++v) {
    GraphOp& op = plain.ops[v];
    op.routed = false;
    if (!absent[v]) continue;
    op.issue = op.latency = op.regs = op.smem_bytes = 0;
    op.uses.clear();
  }
  plain.edges.clear();
  for (const RoutedEdge& e : AllEdges(graph))
    if (e.Holds(group)) plain.edges.push_back(e.edge);
  return plain;
}

Graph WithoutRoutes(const Graph& graph, std::vector<int>* kept) {
  Graph plain = graph;
  plain.ops.clear();
  std::vector<int> index(graph.ops.size(), -1);
  for (size_t v = 0; v < graph.ops.size(); ++v) {
    if (graph.ops[v].routed) continue;
    index[v] = static_cast<int>(plain.ops.size());
    kept->push_back(static_cast<int>(v));
    plain.ops.push_back(graph.ops[v]);
  }
  for (GraphEdge& e : plain.edges) {
    if (e.HasRoute()) {
      e.crossable = false;
      e.store = e.load = -1;
    }
    e.from = index[e.from];
    e.to = index[e.to];
  }
  return plain;
}

void Settle(const Graph& graph, Placement* placement) {
  if (!HasRoutes(graph)) return;
  const std::vector<int> owner = RoleOwners(graph);
  const std::vector<bool> absent = Absent(graph, placement->group);
  for (size_t v = 0; v < owner.size(); ++v) {
    placement->group[v] = placement->group[owner[v]];
    if (absent[v]) placement->cycle[v] = placement->cycle[owner[v]];
  }
}

Graph RoutedBy(const Graph& graph, const ir::Schedule& schedule, std::vector<int>* kept) {
  const size_t n = graph.ops.size();
  std::vector<int> role(n, -1), index(n, -1);
  for (const ir::ScheduledOp& op : schedule.ops)
    if (const int v = graph.FindOp(op.name); v >= 0) role[v] = op.role;
  const std::vector<bool> absent = Absent(graph, role);
  Graph plain = Routed(graph, role);
  std::vector<GraphOp> ops;
  for (size_t v = 0; v < n; ++v) {
    if (absent[v]) continue;
    index[v] = static_cast<int>(ops.size());
    ops.push_back(std::move(plain.ops[v]));
    if (kept != nullptr) kept->push_back(static_cast<int>(v));
  }
  plain.ops = std::move(ops);
  for (GraphEdge& e : plain.edges) {
    e.from = index[e.from];
    e.to = index[e.to];
  }
  return plain;
}

}  // namespace tilec::scheduler
