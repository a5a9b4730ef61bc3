// SPDX-License-Identifier: Apache-2.0
#include "scheduler/spell_out.h"

#include <map>
#include <string>

namespace tilec::scheduler {

Spelled SpellOut(const Graph& g, const ir::Schedule& schedule) {
  std::map<std::string, int> role;
  for (const ir::ScheduledOp& op : schedule.ops) role.emplace(op.name, op.role);
  auto role_of = [&](int v) {
    const auto it = role.find(g.ops[v].name);
    return it == role.end() ? -1 : it->second;
  };
  Spelled out{g, {}};
  out.graph.ops.clear();
  out.graph.edges.clear();
  std::map<int, int> index;
  auto take = [&](int v) {
    const auto [it, fresh] = index.try_emplace(v, static_cast<int>(out.origin.size()));
    if (fresh) {
      out.graph.ops.push_back(g.ops[v]);
      out.origin.push_back(v);
    }
    return it->second;
  };
  for (int v = 0; v < static_cast<int>(g.ops.size()); ++v)
    if (!g.ops[v].routed) take(v);
  for (const GraphEdge& e : g.edges) {
    GraphEdge direct = e;
    direct.from = take(e.from);
    direct.to = take(e.to);
    direct.store = direct.load = -1;
    if (e.store < 0 || role_of(e.from) == role_of(e.to)) {
      out.graph.edges.push_back(direct);
      continue;
    }
    const GraphOp &store = g.ops[e.store], &load = g.ops[e.load];
    GraphEdge in = direct, across = direct, back = direct;
    in.to = across.from = take(e.store);
    across.to = back.from = take(e.load);
    in.crossable = back.crossable = false;  // each end of the route is in its op's own role
    in.hold = store.issue;
    across.kind = EdgeKind::kSmem;
    across.delay = store.latency;
    across.hold = load.issue;
    back.delay = load.latency;
    for (const GraphEdge& part : {in, across, back}) out.graph.edges.push_back(part);
  }
  return out;
}

}  // namespace tilec::scheduler
