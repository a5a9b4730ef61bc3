// In how many ways ops can be divided among the roles of an offer, where they are few.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include "scheduler/role_sets.h"
#include "scheduler/settled.h"

namespace tilec::scheduler {

namespace {

constexpr size_t kDivisions = 32;  // more are left to the solver

// Nothing asks for this op's role: no law speaks of it.
bool Idle(const Graph& graph, int v) {
  const GraphOp& op = graph.ops[v];
  if (op.issue > 0 || !op.uses.empty() || !op.part.empty()) return false;
  return std::none_of(graph.edges.begin(), graph.edges.end(),
                      [&](const GraphEdge& e) { return e.from == v || e.to == v; });
}

}  // namespace

std::optional<std::vector<std::vector<int>>> Divisions(const Graph& graph, const Graph& ties,
                                                       const RoleOffer& offer) {
  const int n = static_cast<int>(graph.ops.size()), base = offer.load ? 1 : 0;
  RoleSets sets(ties);
  std::vector<std::pair<int, std::vector<int>>> atoms;  // width, ops
  std::map<std::pair<int, int>, size_t> atom_of;
  std::vector<int> group(n, 0);
  for (int v = 0; v < n; ++v) {
    const int width = graph.ops[v].warps;
    if (graph.ops[v].variable_latency) continue;
    const auto role = std::find(offer.widths.begin(), offer.widths.end(), width);
    if (role == offer.widths.end()) return std::vector<std::vector<int>>();
    group[v] = static_cast<int>(role - offer.widths.begin()) + base;
    if (Idle(graph, v)) continue;
    const auto [at, fresh] = atom_of.try_emplace({width, sets.Find(v)}, atoms.size());
    if (fresh) atoms.push_back({width, {}});
    atoms[at->second].second.push_back(v);
  }
  std::vector<std::vector<int>> all;
  std::vector<bool> used(offer.widths.size(), false);
  const auto legal = [&] {  // parts of one unit share no role
    for (size_t v = 0; v < graph.ops.size(); ++v)
      for (size_t u = 0; u < v && !graph.ops[v].part.empty(); ++u)
        if (graph.ops[u].part == graph.ops[v].part && group[u] == group[v]) return false;
    return true;
  };
  std::function<bool(size_t)> divide = [&](size_t i) {
    if (i == atoms.size()) {
      if (legal()) all.push_back(group);
      return all.size() <= kDivisions;
    }
    for (size_t r = 0; r < offer.widths.size(); ++r) {
      if (offer.widths[r] != atoms[i].first) continue;
      const bool fresh = !used[r];
      used[r] = true;
      for (int v : atoms[i].second) group[v] = static_cast<int>(r) + base;
      if (!divide(i + 1)) return false;
      if (fresh) {
        used[r] = false;
        break;  // roles are alike until something is in them
      }
    }
    return true;
  };
  if (!divide(0)) return std::nullopt;
  return all;
}

}  // namespace tilec::scheduler
