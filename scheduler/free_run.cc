// SPDX-License-Identifier: Apache-2.0
#include "scheduler/free_run.h"

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "scheduler/routes.h"
#include "support/expr.h"

namespace tilec::scheduler {

namespace {

class Run {
 public:
  Run(const Graph& graph, const ir::Schedule& schedule, int iterations)
      : g_(graph), s_(schedule), n_(static_cast<int>(graph.ops.size())), iterations_(iterations) {
    cycle_.assign(n_, 0);
    programs_.resize(schedule.roles.size());
    for (const ir::ScheduledOp& op : schedule.ops) {
      const int v = graph.FindOp(op.name);
      if (v < 0 || op.role < 0 || op.role >= static_cast<int>(programs_.size())) continue;
      cycle_[v] = op.cycle;
      programs_[op.role].push_back(v);
    }
    first_ = INT64_MAX;
    for (int v = 0; v < n_; ++v) first_ = std::min(first_, FloorDiv(cycle_[v], s_.ii));
    for (std::vector<int>& ops : programs_)
      std::stable_sort(ops.begin(), ops.end(), [&](int a, int b) {
        const int64_t x = FloorMod(cycle_[a], s_.ii), y = FloorMod(cycle_[b], s_.ii);
        return x != y ? x < y : cycle_[a] > cycle_[b];
      });
    start_.assign(n_, std::vector<std::optional<int64_t>>(iterations));
    depth_.assign(n_, 0);
    for (const ir::Channel& channel : schedule.channels)
      if (const int v = graph.FindOp(channel.value); v >= 0) depth_[v] = channel.depth;
    role_.assign(n_, 0);
    for (size_t r = 0; r < programs_.size(); ++r)
      for (int v : programs_[r]) role_[v] = static_cast<int>(r);
  }

  double Period() {
    std::vector<size_t> at(programs_.size(), 0);  // position in the unrolled program
    std::vector<int64_t> stream(programs_.size(), 0), unit(g_.units.size(), 0);
    while (true) {
      int pick = -1;
      int64_t earliest = INT64_MAX;
      bool left = false;
      for (size_t r = 0; r < programs_.size(); ++r) {
        while (at[r] < Length(r) && !Exists(r, at[r])) ++at[r];
        if (at[r] >= Length(r)) continue;
        left = true;
        const std::optional<int64_t> ready = Ready(Op(r, at[r]), Iteration(r, at[r]));
        if (!ready) continue;
        const int64_t start = std::max(*ready, stream[r]);
        if (start < earliest) earliest = start, pick = static_cast<int>(r);
      }
      if (!left) break;
      if (pick < 0) return 0;
      const int v = Op(pick, at[pick]);
      int64_t start = earliest;
      for (const UnitUse& use : g_.ops[v].uses)
        if (Exclusive(use.unit)) start = std::max(start, unit[use.unit]);
      for (const UnitUse& use : g_.ops[v].uses)
        if (Exclusive(use.unit)) unit[use.unit] = start + use.cycles;
      // An engine keeps what it is given in a queue; other work holds its role until it starts.
      stream[pick] = (g_.ops[v].async ? earliest : start) + g_.ops[v].issue;
      start_[v][Iteration(pick, at[pick])] = start;
      ++at[pick];
    }
    // The slowest op's mean over the second half.
    double period = 0;
    const int from = iterations_ / 2, to = iterations_ - 1;
    for (int v = 0; v < n_; ++v)
      if (start_[v][from] && start_[v][to])
        period =
            std::max(period, static_cast<double>(*start_[v][to] - *start_[v][from]) / (to - from));
    for (size_t f = 0; f < g_.units.size(); ++f) {
      int64_t busy = 0;
      for (const GraphOp& op : g_.ops)
        for (const UnitUse& use : op.uses)
          if (use.unit == static_cast<int>(f)) busy += use.cycles;
      period =
          std::max(period, static_cast<double>(busy) / static_cast<double>(g_.units[f].capacity));
    }
    return period;
  }

 private:
  bool Exclusive(int unit) const { return !g_.units[unit].fluid && g_.units[unit].capacity == 1; }
  int64_t Stage(int v) const { return FloorDiv(cycle_[v], s_.ii) - first_; }
  int64_t Turns() const { return iterations_ + 64; }
  size_t Length(size_t r) const { return programs_[r].size() * static_cast<size_t>(Turns()); }
  int Op(size_t r, size_t at) const { return programs_[r][at % programs_[r].size()]; }
  int Iteration(size_t r, size_t at) const {
    return static_cast<int>(static_cast<int64_t>(at / programs_[r].size()) - Stage(Op(r, at)));
  }
  bool Exists(size_t r, size_t at) const {
    const int i = Iteration(r, at);
    return i >= 0 && i < iterations_;
  }

  // When everything that v of iteration i waits for has happened; nothing: not known yet.
  std::optional<int64_t> Ready(int v, int i) const {
    int64_t ready = 0;
    auto after = [&](int u, int64_t j, int64_t delay) {
      if (j < 0 || j >= iterations_) return true;
      if (!start_[u][j]) return false;
      ready = std::max(ready, *start_[u][j] + delay);
      return true;
    };
    for (const GraphEdge& e : g_.edges) {
      if (e.to == v && !(e.from == v && e.distance == 0) &&
          !after(e.from, i - e.distance, e.delay + (role_[e.from] != role_[v] ? e.transfer : 0)))
        return std::nullopt;
      if (e.from == v && e.to != v && e.kind != EdgeKind::kOrder && depth_[v] > 0 &&
          !after(e.to, i - depth_[v] + e.distance, e.hold))
        return std::nullopt;
    }
    for (const ir::OrderEdge& order : s_.order) {
      if (!order.enforced || order.to != g_.ops[v].name) continue;
      const int u = g_.FindOp(order.from), f = g_.FindUnit(order.unit);
      if (u < 0 || f < 0) continue;
      int64_t busy = 0;
      for (const UnitUse& use : g_.ops[u].uses) busy += use.unit == f ? use.cycles : 0;
      const int64_t turn =
          i + Stage(v) - (FloorMod(cycle_[u], s_.ii) < FloorMod(cycle_[v], s_.ii) ? 0 : 1);
      if (!after(u, turn - Stage(u), busy)) return std::nullopt;
    }
    return ready;
  }

  const Graph& g_;
  const ir::Schedule& s_;
  const int n_;
  const int iterations_;
  int64_t first_ = 0;
  std::vector<int64_t> cycle_;
  std::vector<std::vector<int>> programs_;
  std::vector<int> role_, depth_;
  std::vector<std::vector<std::optional<int64_t>>> start_;  // by op, by iteration
};

}  // namespace

double FreeRunningPeriod(const Graph& graph, const ir::Schedule& schedule, int iterations) {
  if (graph.ops.empty() || schedule.ii < 1 || iterations < 4) return 0;
  if (HasRoutes(graph)) return Run(RoutedBy(graph, schedule), schedule, iterations).Period();
  return Run(graph, schedule, iterations).Period();
}

void LeaveOutTurns(const Graph& graph, ir::Schedule* schedule) {
  for (ir::OrderEdge& edge : schedule->order) {
    if (!edge.enforced) continue;
    edge.enforced = false;
    const double period = FreeRunningPeriod(graph, *schedule);
    edge.enforced = period == 0 || period > static_cast<double>(schedule->ii);
  }
}

}  // namespace tilec::scheduler
