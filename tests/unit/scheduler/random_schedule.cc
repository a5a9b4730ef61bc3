// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/scheduler/random_schedule.h"

#include <algorithm>
#include <map>

namespace tilec::scheduler {

namespace {

int64_t Mod(int64_t a, int64_t b) { return ((a % b) + b) % b; }

class Greedy {
 public:
  Greedy(const Graph& graph, int64_t ii, Random& random)
      : g_(graph), ii_(ii), random_(random), n_(static_cast<int>(graph.ops.size())) {
    s_.graph = graph.name;
    s_.machine = graph.machine.name;
    s_.ii = ii;
  }

  ir::Schedule Run() {
    Roles();
    Place();
    Rings();
    Orders();
    return std::move(s_);
  }

 private:
  // Tied ops together, others in a role of their width or a new one.
  void Roles() {
    std::vector<int> role(n_, -1);
    int load = -1;
    auto open = [&](int v) {
      s_.roles.push_back({"r" + std::to_string(s_.roles.size()), g_.ops[v].warps,
                          Pick(random_, 0, 3) == 0 ? 8 * Pick(random_, 3, 12) : 0});
      return static_cast<int>(s_.roles.size()) - 1;
    };
    for (int v = 0; v < n_; ++v) {
      if (g_.ops[v].variable_latency) {
        if (load < 0) load = open(v);
        role[v] = load;
        continue;
      }
      for (const GraphEdge& e : g_.edges) {
        const bool tied = !e.crossable || (e.kind == EdgeKind::kRegister && e.distance > 0);
        const int other = e.from == v ? e.to : e.to == v ? e.from : v;
        if (tied && other < v && role[other] != load) role[v] = role[other];
      }
      std::vector<int> fitting;
      for (int r = 0; r < static_cast<int>(s_.roles.size()); ++r)
        if (r != load && s_.roles[r].warps == g_.ops[v].warps) fitting.push_back(r);
      if (role[v] < 0 && !fitting.empty() && Pick(random_, 0, 2) > 0)
        role[v] = fitting[random_() % fitting.size()];
      if (role[v] < 0) role[v] = open(v);
    }
    for (int v = 0; v < n_; ++v) s_.ops.push_back({g_.ops[v].name, 0, role[v]});
  }

  bool Free(int v, int64_t cycle) {
    auto fits = [&](std::vector<int>& table, int64_t cycles, int64_t capacity) {
      std::vector<int> copy = table;
      for (int64_t c = 0; c < cycles; ++c)
        if (++copy[Mod(cycle + c, ii_)] > capacity) return false;
      return true;
    };
    auto& issue = issue_[s_.ops[v].role];
    if (!fits(issue, g_.ops[v].issue, 1)) return false;
    for (const UnitUse& use : g_.ops[v].uses) {
      if (!fits(unit_[use.unit], use.cycles, g_.units[use.unit].capacity)) return false;
    }
    return true;
  }

  void Place() {
    // Predecessors of the same iteration come first: edges of distance 0 may point backwards.
    std::vector<bool> done(n_, false);
    for (size_t r = 0; r < s_.roles.size(); ++r) issue_[static_cast<int>(r)].resize(ii_, 0);
    for (size_t f = 0; f < g_.units.size(); ++f) unit_[static_cast<int>(f)].resize(ii_, 0);
    for (int placed = 0; placed < n_;) {
      for (int v = 0; v < n_; ++v) {
        if (done[v]) continue;
        bool ready = true;
        int64_t earliest = Pick(random_, 0, 3) == 0 ? Pick(random_, 0, 4) : 0;
        for (const GraphEdge& e : g_.edges) {
          if (e.to != v || e.from == v) continue;
          if (e.distance == 0 && !done[e.from]) ready = false;
          if (!done[e.from]) continue;
          const int64_t transfer = s_.ops[e.from].role != s_.ops[v].role ? e.transfer : 0;
          earliest =
              std::max(earliest, s_.ops[e.from].cycle + e.delay + transfer - e.distance * ii_);
        }
        if (!ready) continue;
        if (g_.ops[v].streaming) earliest -= Pick(random_, 0, 5);
        int64_t cycle = earliest;
        while (cycle < earliest + ii_ && !Free(v, cycle)) ++cycle;
        s_.ops[v].cycle = cycle;
        for (int64_t c = 0; c < g_.ops[v].issue; ++c) ++issue_[s_.ops[v].role][Mod(cycle + c, ii_)];
        for (const UnitUse& use : g_.ops[v].uses)
          for (int64_t c = 0; c < use.cycles; ++c) ++unit_[use.unit][Mod(cycle + c, ii_)];
        done[v] = true;
        ++placed;
      }
    }
  }

  void Rings() {
    for (int v = 0; v < n_; ++v) {
      bool crosses = false;
      int64_t life = 0;
      for (const GraphEdge& e : g_.edges) {
        if (e.from != v || e.kind == EdgeKind::kOrder) continue;
        crosses = crosses || s_.ops[e.to].role != s_.ops[v].role;
        life = std::max(life, s_.ops[e.to].cycle + e.distance * ii_ + e.hold - s_.ops[v].cycle);
      }
      const GraphOp& op = g_.ops[v];
      if (!crosses && op.smem_bytes == 0) continue;
      int depth = static_cast<int>(std::max<int64_t>(1, (life + ii_ - 1) / ii_));
      if (Pick(random_, 0, 6) == 0) ++depth;
      s_.channels.push_back({op.name,
                             op.smem_bytes > 0     ? "smem"
                             : op.tmem_columns > 0 ? "tmem"
                                                   : "reg",
                             depth});
    }
  }

  void Orders() {
    for (size_t f = 0; f < g_.units.size(); ++f) {
      if (g_.units[f].capacity != 1) continue;
      std::vector<std::pair<int64_t, int>> users;
      for (int v = 0; v < n_; ++v)
        for (const UnitUse& use : g_.ops[v].uses)
          if (use.unit == static_cast<int>(f) && use.cycles > 0)
            users.emplace_back(Mod(s_.ops[v].cycle, ii_), v);
      std::sort(users.begin(), users.end());
      for (size_t i = 0; i < users.size() && users.size() > 1; ++i) {
        const int a = users[i].second, b = users[(i + 1) % users.size()].second;
        if (Pick(random_, 0, 1) == 0)
          s_.order.push_back(
              {g_.ops[a].name, g_.ops[b].name, g_.units[f].name, Pick(random_, 0, 1) == 0});
      }
    }
  }

  const Graph& g_;
  const int64_t ii_;
  Random& random_;
  const int n_;
  ir::Schedule s_;
  std::map<int, std::vector<int>> issue_, unit_;
};

}  // namespace

int Pick(Random& random, int low, int high) {
  return low + static_cast<int>(random() % static_cast<uint64_t>(high - low + 1));
}

ir::Schedule GreedySchedule(const Graph& graph, int64_t ii, Random& random) {
  return Greedy(graph, ii, random).Run();
}

void Damage(const Graph& graph, Random& random, ir::Schedule* s) {
  auto op = [&]() -> ir::ScheduledOp& { return s->ops[random() % s->ops.size()]; };
  const int kind = Pick(random, 0, 15);
  if (s->ops.empty()) return;
  if (kind <= 4) {
    op().cycle += Pick(random, 0, 1) == 0 ? Pick(random, 1, 3) : -Pick(random, 1, 3);
  } else if (kind == 5) {
    op().cycle += Pick(random, 0, 1) == 0 ? s->ii : -s->ii;
  } else if (kind == 6) {
    op().role = Pick(random, 0, static_cast<int>(s->roles.size()) - 1);
  } else if (kind == 7) {
    std::swap(op().cycle, op().cycle);
  } else if (kind == 8) {
    s->ii = std::max<int64_t>(1, s->ii + Pick(random, -1, 2));
  } else if (kind == 9 && !s->channels.empty()) {
    ir::Channel& channel = s->channels[random() % s->channels.size()];
    channel.depth += Pick(random, 0, 1) == 0 ? 1 : -1;
  } else if (kind == 10 && !s->channels.empty()) {
    const auto at = static_cast<int64_t>(random() % s->channels.size());
    if (Pick(random, 0, 1) == 0)
      s->channels.erase(s->channels.begin() + at);
    else
      s->channels[at].medium = Pick(random, 0, 1) == 0 ? "smem" : "reg";
  } else if (kind == 11) {
    ir::ScheduledRole& role = s->roles[random() % s->roles.size()];
    role.regs = std::max<int64_t>(0, role.regs + 8 * Pick(random, -2, 2));
  } else if (kind == 12) {
    s->roles[random() % s->roles.size()].warps = Pick(random, 0, 1) == 0 ? 1 : 4;
  } else if (kind == 13) {
    if (Pick(random, 0, 1) == 0)
      s->ops.pop_back();
    else
      s->ops.push_back(s->ops.front());
  } else if (kind == 14 && graph.units.size() > 0) {
    s->order.push_back({op().name, op().name, graph.units[random() % graph.units.size()].name,
                        Pick(random, 0, 1) == 0});
  } else {
    s->roles.push_back({"spare", Pick(random, 0, 1) == 0 ? 1 : 4, 8 * Pick(random, 0, 40)});
    op().role = static_cast<int>(s->roles.size()) - 1;
  }
}

}  // namespace tilec::scheduler
