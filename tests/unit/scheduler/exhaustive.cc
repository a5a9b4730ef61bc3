// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/scheduler/exhaustive.h"

#include <algorithm>
#include <array>

#include "tests/unit/scheduler/exhaustive_search.h"

namespace tilec::scheduler {

namespace {

using Criteria = std::array<int64_t, 4>;
Criteria Key(const Objective& o) { return {o.compute_groups, o.warps, o.cross_bytes, o.waits}; }

// A division of the ops among roles, and the graph without routes that it makes.
struct Division {
  Graph graph;
  std::vector<int> roles;
  Objective criteria;
};

// Stores and loads come as ordinary ops behind the others, where a route is taken.
Division Divided(const Graph& g, const Graph& without, std::vector<int> roles) {
  Division d{without, std::move(roles), {}};
  std::vector<int> number(g.ops.size(), -1);  // in `d`
  int next = 0;
  for (size_t v = 0; v < g.ops.size(); ++v)
    if (!g.ops[v].routed) number[v] = next++;
  d.graph.edges.clear();
  for (const GraphEdge& e : g.edges) {
    GraphEdge edge = e;
    edge.from = number[e.from];
    edge.to = number[e.to];
    edge.store = edge.load = -1;
    if (!e.HasRoute() || d.roles[edge.from] == d.roles[edge.to]) {
      d.graph.edges.push_back(edge);
      continue;
    }
    const int reader = edge.to;
    for (int v : {e.store, e.load}) {
      if (number[v] >= 0) continue;
      number[v] = static_cast<int>(d.graph.ops.size());
      d.graph.ops.push_back(g.ops[v]);
      d.roles.push_back(d.roles[v == e.store ? edge.from : reader]);
    }
    edge.to = number[e.store];
    edge.transfer = 0;
    edge.hold = g.ops[e.store].issue;
    d.graph.edges.push_back(edge);
    edge = {number[e.store], number[e.load],     EdgeKind::kSmem, g.ops[e.store].latency, 0,
            e.transfer,      g.ops[e.load].issue};
    d.graph.edges.push_back(edge);
    edge = {number[e.load], reader, EdgeKind::kRegister, g.ops[e.load].latency, 0, 0, e.hold};
    d.graph.edges.push_back(edge);
  }
  return d;
}

std::vector<Division> Divisions(const Graph& graph, int64_t ii) {
  Graph without = graph;
  std::erase_if(without.ops, [](const GraphOp& op) { return op.routed; });
  std::vector<int> number;
  int next = 0;
  for (const GraphOp& op : graph.ops) number.push_back(op.routed ? -1 : next++);
  for (GraphEdge& e : without.edges) {
    e.from = number[e.from];
    e.to = number[e.to];
    e.store = e.load = -1;
  }
  std::vector<Division> divisions;
  for (std::vector<int>& roles : Exhaustive(without, ii).Divisions())
    divisions.push_back(Divided(graph, without, std::move(roles)));
  for (Division& d : divisions) d.criteria = Exhaustive(d.graph, ii).CriteriaOfRoles(d.roles);
  return divisions;
}

}  // namespace

bool ExhaustivelyFeasible(const Graph& graph, int64_t ii) {
  if (std::none_of(graph.ops.begin(), graph.ops.end(), [](const GraphOp& op) { return op.routed; }))
    return Exhaustive(graph, ii).Run();
  const std::vector<Division> divisions = Divisions(graph, ii);
  return std::any_of(divisions.begin(), divisions.end(),
                     [&](const Division& d) { return Exhaustive(d.graph, ii).Run(d.roles); });
}

std::optional<bool> ExhaustivelyFeasible(const Graph& graph, int64_t ii, int64_t most_placements) {
  return Exhaustive(graph, ii).Run(most_placements);
}

// From the best division to the worst; in the first that works, the rest of the objective.
std::optional<Objective> ExhaustiveObjective(const Graph& graph, int64_t ii) {
  std::vector<Division> divisions = Divisions(graph, ii);
  std::stable_sort(divisions.begin(), divisions.end(), [](const Division& a, const Division& b) {
    return Key(a.criteria) < Key(b.criteria);
  });
  std::optional<Objective> best;
  for (const Division& d : divisions) {
    if (best && Key(d.criteria) > Key(*best)) break;
    const std::optional<Objective> better =
        Exhaustive(d.graph, ii).Best(d.roles, best ? &*best : nullptr);
    if (better) best = better;
  }
  return best;
}

}  // namespace tilec::scheduler
