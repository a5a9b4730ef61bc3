// Which ops every schedule keeps in one role: by carried registers, edges that may not cross, pins,
// and the one role of loads.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <numeric>
#include <vector>

#include "scheduler/graph.h"

namespace tilec::scheduler {

class RoleSets {
 public:
  explicit RoleSets(const Graph& g) : parent_(g.ops.size()) {
    std::iota(parent_.begin(), parent_.end(), 0);
    int load = -1;
    for (size_t v = 0; v < g.ops.size(); ++v) {
      if (!g.ops[v].variable_latency) continue;
      if (load >= 0) Join(load, static_cast<int>(v));
      load = static_cast<int>(v);
    }
    for (const GraphEdge& e : g.edges)
      if (e.HasRoute()) {
        Join(e.store, e.from);
        Join(e.load, e.to);
      } else if (!e.crossable || (e.kind == EdgeKind::kRegister && e.distance > 0)) {
        Join(e.from, e.to);
      }
    for (const Graph::Pin& pin : g.pins)
      if (const int a = g.FindOp(pin.op), b = g.FindOp(pin.same_role_as); a >= 0 && b >= 0)
        Join(a, b);
  }
  int Find(int v) {
    while (parent_[v] != v) v = parent_[v] = parent_[parent_[v]];
    return v;
  }

  void Join(int a, int b) { parent_[Find(a)] = Find(b); }

 private:
  std::vector<int> parent_;
};

}  // namespace tilec::scheduler
