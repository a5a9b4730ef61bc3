// SPDX-License-Identifier: Apache-2.0
#include "scheduler/in_order.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <vector>

#include "scheduler/check.h"
#include "support/expr.h"

namespace tilec::scheduler {

namespace {

class OrderKeeper {
 public:
  OrderKeeper(const Graph& graph, const ir::Schedule& solved)
      : graph_(graph), made_(solved), at_(graph.ops.size(), 0), role_(graph.ops.size(), -1) {
    for (const ir::ScheduledOp& op : solved.ops)
      if (const int v = graph.FindOp(op.name); v >= 0) role_[static_cast<size_t>(v)] = op.role;
  }

  std::optional<ir::Schedule> Run() {
    PlaceComputing();
    PlaceLoads();
    made_.ii = Period();
    Shift();
    for (ir::ScheduledOp& op : made_.ops)
      if (const int v = graph_.FindOp(op.name); v >= 0) op.cycle = at_[static_cast<size_t>(v)];
    if (!Check(graph_, made_).violations.empty()) return std::nullopt;
    return std::move(made_);
  }

 private:
  bool Loads(int v) const { return graph_.ops[static_cast<size_t>(v)].variable_latency; }
  bool Placed(int v) const { return role_[static_cast<size_t>(v)] >= 0; }
  int64_t& At(int v) { return at_[static_cast<size_t>(v)]; }
  int64_t Delay(const GraphEdge& e) const {
    const bool crosses = role_[static_cast<size_t>(e.from)] != role_[static_cast<size_t>(e.to)];
    return e.delay + (crosses ? e.transfer : 0);
  }

  void PlaceComputing() {
    int64_t next = 0;
    for (int v = 0; v < static_cast<int>(graph_.ops.size()); ++v) {
      if (Loads(v) || !Placed(v)) continue;
      At(v) = next;
      for (const GraphEdge& e : graph_.edges)
        if (e.to == v && e.distance == 0 && !Loads(e.from) && Placed(e.from))
          At(v) = std::max(At(v), At(e.from) + Delay(e));
      next = At(v) + graph_.ops[static_cast<size_t>(v)].issue;
    }
  }

  // The last one that is needed first, each as late as its readers and the one behind it allow.
  void PlaceLoads() {
    std::vector<int> loads(graph_.ops.size());
    std::iota(loads.begin(), loads.end(), 0);
    loads.erase(
        std::remove_if(loads.begin(), loads.end(), [&](int v) { return !Loads(v) || !Placed(v); }),
        loads.end());
    for (int v : loads) {
      int64_t latest = 0;
      for (const GraphEdge& e : graph_.edges)
        if (e.from == v && e.distance == 0 && Placed(e.to) && !Loads(e.to))
          latest = std::min(latest, At(e.to) - Delay(e));
      At(v) = latest;
    }
    std::stable_sort(loads.begin(), loads.end(), [&](int a, int b) { return At(a) > At(b); });
    int64_t behind = std::numeric_limits<int64_t>::max();
    for (int v : loads) {
      const GraphOp& op = graph_.ops[static_cast<size_t>(v)];
      int64_t takes = op.issue;
      for (const UnitUse& use : op.uses) takes = std::max(takes, use.cycles);
      At(v) = std::min(At(v), behind - takes);
      behind = At(v);
    }
  }

  // No less than was solved, what a value takes to the next turn, and what a role's or a unit's ops
  // take together.
  int64_t Period() {
    int64_t ii = made_.ii;
    for (const GraphEdge& e : graph_.edges)
      if (e.distance > 0 && Placed(e.from) && Placed(e.to) && !Loads(e.from) && !Loads(e.to))
        ii = std::max(ii, CeilDiv(At(e.from) + Delay(e) - At(e.to), e.distance));
    for (const bool loads : {false, true}) {
      int64_t first = std::numeric_limits<int64_t>::max(), last = 0;
      for (int v = 0; v < static_cast<int>(graph_.ops.size()); ++v) {
        if (!Placed(v) || Loads(v) != loads) continue;
        const GraphOp& op = graph_.ops[static_cast<size_t>(v)];
        int64_t takes = op.issue;
        for (const UnitUse& use : op.uses)
          if (!graph_.units[static_cast<size_t>(use.unit)].fluid)
            takes = std::max(takes, use.cycles);
        const bool empty = first == std::numeric_limits<int64_t>::max();
        first = std::min(first, At(v));
        last = empty ? At(v) + takes : std::max(last, At(v) + takes);
      }
      if (first != std::numeric_limits<int64_t>::max()) ii = std::max(ii, last - first);
    }
    return ii;
  }

  // What computes begins a period, so that its ops have the order of their slots.
  void Shift() {
    int64_t first = 0;
    for (int v = 0; v < static_cast<int>(graph_.ops.size()); ++v)
      if (Placed(v)) first = std::min(first, At(v));
    const int64_t periods = CeilDiv(-first, made_.ii);
    for (int64_t& cycle : at_) cycle += periods * made_.ii;
  }

  const Graph& graph_;
  ir::Schedule made_;
  std::vector<int64_t> at_;
  std::vector<int> role_;  // −1: the op is not there (routes)
};

}  // namespace

std::optional<ir::Schedule> ScheduleInOrder(const Graph& graph, const ir::Schedule& solved) {
  return OrderKeeper(graph, solved).Run();
}

}  // namespace tilec::scheduler
