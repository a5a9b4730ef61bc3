// Which schedules are the same, and which are to be others. A search that meets every rotation of a
// loop, and every interchange of slices that are alike, proves each bound many times over; whoever
// asks for the next answer wants one that is more than that.
//
// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <set>

#include "scheduler/model.h"

namespace tilec::scheduler {

// Rotating a schedule changes nothing (stages are counted from the first op, not from cycle 0), so
// one op may sit at cycle 0; interchanging two alike slices changes nothing, so the first may be
// the earlier one. Neither holds once an author pins.
void Model::AddSymmetry() {
  if (PinsTime(graph_)) return;
  int root = -1;
  int64_t most = -1;
  for (size_t v = 0; v < graph_.ops.size(); ++v) {
    if (graph_.ops[v].variable_latency || graph_.ops[v].routed) continue;
    int64_t busy = 0;
    for (const UnitUse& use : graph_.ops[v].uses) busy = std::max(busy, use.cycles);
    if (busy > most) most = busy, root = static_cast<int>(v);
  }
  if (root < 0) root = 0;
  if (graph_.ops.empty()) return;
  for (IntVar var : {k_[root], r_[root]}) {
    formulas_.Add({formulas_.AtLeast(var, Formulas::Zero(), 0)});
    formulas_.Add({formulas_.AtMost(var, Formulas::Zero(), 0)});
  }
  if (!graph_.pins.empty()) return;
  for (const std::vector<int>& swap : swaps_)
    if (swap[root] != root) formulas_.Add({formulas_.AtLeast(k_[swap[root]], Formulas::Zero(), 0)});
}

Clause Model::Different(const Placement& p) {
  Clause clause;
  const int n = static_cast<int>(graph_.ops.size());
  for (int v = 0; v < n; ++v)
    for (int u = 0; u < v; ++u) {
      if (graph_.ops[u].routed || graph_.ops[v].routed) continue;
      const Lit same = Same(u, v);
      clause.push_back(p.group[u] == p.group[v] ? ~same : same);
    }
  // As seen from the first user w of a unit: does u come before v? It does if at least two of
  // w < u, u < v and v < w hold.
  for (size_t f = 0; f < graph_.units.size(); ++f) {
    if (graph_.units[f].fluid || graph_.units[f].capacity != 1) continue;
    std::vector<int> users;
    for (int v = 0; v < n; ++v)
      for (const UnitUse& use : graph_.ops[v].uses)
        if (use.unit == static_cast<int>(f) && use.cycles > 0 && !graph_.ops[v].routed)
          users.push_back(v);
    for (size_t i = 1; i < users.size(); ++i)
      for (size_t j = 1; j < i; ++j) {
        const int w = users[0], u = users[j], v = users[i];
        auto from_w = [&](int op) { return FloorMod(p.cycle[op] - p.cycle[w], ii_); };
        const bool is = from_w(u) < from_w(v);
        const Lit other = formulas_.NewBool();
        const Lit is_not[] = {OrderOf(w, u), OrderOf(u, v), OrderOf(v, w)};
        for (int k = 0; k < 3; ++k) {
          const Lit a = is_not[k], b = is_not[(k + 1) % 3];
          formulas_.Add({~other, is ? ~a : a, is ? ~b : b});
        }
        clause.push_back(other);
      }
  }
  return clause;
}

std::vector<std::vector<int>> SliceSwaps(const Graph& graph) {
  const int n = static_cast<int>(graph.ops.size());
  std::map<int, std::vector<int>> slices;
  for (int v = 0; v < n; ++v)
    if (graph.ops[v].slice >= 0) slices[graph.ops[v].slice].push_back(v);
  std::vector<std::vector<int>> swaps;
  if (slices.size() < 2) return swaps;
  auto cost = [&](int v) {
    const GraphOp& op = graph.ops[v];
    std::vector<int64_t> c = {
        op.issue,        op.latency,          op.warps,    op.regs, op.smem_bytes,
        op.tmem_columns, op.variable_latency, op.streaming};
    for (const UnitUse& use : op.uses) c.push_back(use.unit), c.push_back(use.cycles);
    c.push_back(op.part.empty() ? 0 : 1);
    c.push_back(op.routed ? 1 : 0);
    return c;
  };
  using Row = std::tuple<int, int, int, int64_t, int64_t, int64_t, int64_t, bool, int, int>;
  auto row = [](const GraphEdge& e, auto&& image) {
    return Row(image(e.from), image(e.to), static_cast<int>(e.kind), e.delay, e.distance,
               e.transfer, e.hold, e.crossable, e.HasRoute() ? image(e.store) : -1,
               e.HasRoute() ? image(e.load) : -1);
  };
  std::multiset<Row> rows;
  for (const GraphEdge& e : graph.edges) rows.insert(row(e, [](int v) { return v; }));
  const std::vector<int>& first = slices.begin()->second;
  for (auto it = std::next(slices.begin()); it != slices.end(); ++it) {
    if (it->second.size() != first.size()) continue;
    std::vector<int> map(n);
    for (int v = 0; v < n; ++v) map[v] = v;
    bool alike = true;
    for (size_t i = 0; i < first.size(); ++i) {
      map[first[i]] = it->second[i];
      map[it->second[i]] = first[i];
      alike = alike && cost(first[i]) == cost(it->second[i]);
    }
    const auto apart = [&](int a, int b) {  // who may not share a role with whom
      return !graph.ops[a].part.empty() && graph.ops[a].part == graph.ops[b].part;
    };
    for (int v = 1; v < n; ++v)
      for (int u = 0; u < v; ++u) alike = alike && apart(u, v) == apart(map[u], map[v]);
    std::multiset<Row> images;
    for (const GraphEdge& e : graph.edges) images.insert(row(e, [&](int v) { return map[v]; }));
    if (alike && images == rows) swaps.push_back(std::move(map));
  }
  return swaps;
}

}  // namespace tilec::scheduler
