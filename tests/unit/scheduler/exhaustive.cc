// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/scheduler/exhaustive.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <random>
#include <set>

namespace tilec::scheduler {

namespace {

int64_t CeilDiv(int64_t a, int64_t b) { return a >= 0 ? (a + b - 1) / b : -(-a / b); }
int64_t Floor(int64_t a, int64_t b) { return a >= 0 ? a / b : -CeilDiv(-a, b); }

class Exhaustive {
 public:
  Exhaustive(const Graph& graph, int64_t ii)
      : g_(graph), ii_(ii), n_(static_cast<int>(graph.ops.size())) {
    slot_.assign(n_, 0);
    stage_.assign(n_, 0);
    role_.assign(n_, 0);
    for (const GraphOp& op : g_.ops)
      memory_ = memory_ || op.regs > 0 || op.smem_bytes > 0 || op.tmem_columns > 0;
  }

  bool Run() { return n_ == 0 || Place(0, 0); }
  // Nothing: more placements would have to be looked at than that.
  std::optional<bool> Run(int64_t most_placements) {
    left_ = most_placements;
    const bool found = Run();
    return left_ < 0 ? std::nullopt : std::optional(found);
  }

  // All lawful divisions among roles.
  std::vector<std::vector<int>> Divisions() {
    std::vector<std::vector<int>> all;
    Divide(0, 0, &all);
    return all;
  }

  // With these roles.
  bool Run(const std::vector<int>& roles) {
    role_ = roles;
    return PlaceSlots(0, 0);
  }

  // With these roles, better than `best`: fewer stages, then less shared memory, then more slack.
  std::optional<Objective> Best(const std::vector<int>& roles, const Objective* best) {
    role_ = roles;
    rotate_ = true;
    most_stages_ = best != nullptr ? best->stages : INT64_MAX;
    least_smem_ = best != nullptr ? best->smem_bytes : INT64_MAX;
    most_slack_ = best != nullptr ? best->slack : INT64_MIN;
    PlaceSlots(0, ii_ - 1);
    if (!improved_) return std::nullopt;
    Objective objective = CriteriaOfRoles(roles);
    objective.stages = most_stages_;
    objective.smem_bytes = least_smem_;
    objective.slack = most_slack_;
    return objective;
  }

  Objective CriteriaOfRoles(const std::vector<int>& roles) {
    role_ = roles;
    return CriteriaOfRoles();
  }

 private:
  void Divide(int v, int roles, std::vector<std::vector<int>>* out) {
    if (v == n_) {
      out->push_back(role_);
      return;
    }
    const bool load = g_.ops[v].variable_latency;
    for (int role = load ? -1 : 0; role <= (load ? -1 : roles); ++role) {
      role_[v] = role;
      if (RolesLegal(v)) Divide(v + 1, std::max(roles, role + 1), out);
    }
  }

  // 32 lanes a warp, 4 bytes a register; 128 lanes of 4 bytes a column.
  Objective CriteriaOfRoles() const {
    Objective o;
    std::set<int> seen, crossing;
    std::set<std::pair<int, int>> waits;
    for (int v = 0; v < n_; ++v)
      if (seen.insert(role_[v]).second) {
        o.warps += g_.ops[v].warps;
        o.compute_groups += g_.ops[v].warps >= 4 ? 1 : 0;
      }
    for (const GraphEdge& e : g_.edges) {
      if (role_[e.from] == role_[e.to]) continue;
      if (e.kind != EdgeKind::kOrder) crossing.insert(e.from);
      if (g_.ops[e.to].warps >= 4 && !g_.ops[e.to].variable_latency) waits.insert({e.from, e.to});
    }
    for (int v : crossing)
      o.cross_bytes += 128 * g_.ops[v].regs * g_.ops[v].warps + g_.ops[v].smem_bytes +
                       512 * g_.ops[v].tmem_columns;
    o.waits = static_cast<int64_t>(waits.size());
    return o;
  }

  // `last`: of the first op, which may stand anywhere.
  bool PlaceSlots(int v, int64_t last) {
    if (v == n_) return Stages();
    for (int64_t slot = 0; slot <= (v == 0 ? last : ii_ - 1); ++slot) {
      slot_[v] = slot;
      if (Reserved(v) && PlaceSlots(v + 1, last)) return true;
    }
    return false;
  }

  // Of ops but loads: what an author sees as the depth of the pipeline.
  bool TooManyStages(int v) {
    int64_t first = 0, last = -1;
    for (int u = 0; u <= v; ++u) {
      if (g_.ops[u].variable_latency) continue;
      if (last < first) {
        first = last = stage_[u];
      } else {
        first = std::min(first, stage_[u]);
        last = std::max(last, stage_[u]);
      }
    }
    stages_ = last - first + 1;
    return stages_ > most_stages_;
  }

  // Roles: −1 is the load role; others are numbered by first use.
  bool Place(int v, int roles) {
    if (v == n_) return Stages();
    const bool load = g_.ops[v].variable_latency;
    for (int role = load ? -1 : 0; role <= (load ? -1 : roles); ++role) {
      role_[v] = role;
      if (!RolesLegal(v)) continue;
      for (int64_t slot = 0; slot < (v == 0 ? 1 : ii_); ++slot) {
        slot_[v] = slot;
        if (Reserved(v) && Place(v + 1, std::max(roles, role + 1))) return true;
      }
    }
    return false;
  }

  bool RolesLegal(int v) const {
    std::set<int> seen;
    int64_t warps = 0;
    for (int u = 0; u <= v; ++u) {
      if (u < v && role_[u] == role_[v] && !g_.ops[v].part.empty() &&
          g_.ops[u].part == g_.ops[v].part)
        return false;
      if (role_[u] == role_[v] && g_.ops[u].warps != g_.ops[v].warps) return false;
      if (seen.insert(role_[u]).second) warps += g_.ops[u].warps;
    }
    if (warps > g_.machine.max_warps) return false;
    for (const GraphEdge& e : g_.edges)
      if (e.from <= v && e.to <= v && role_[e.from] != role_[e.to] &&
          (!e.crossable || (e.kind == EdgeKind::kRegister && e.distance > 0)))
        return false;
    return true;
  }

  // Modular tables of ops 0…v, cell by cell.
  bool Reserved(int v) const {
    for (size_t f = 0; f < g_.units.size(); ++f) {
      std::vector<int64_t> table(ii_, 0);
      for (int u = 0; u <= v; ++u)
        for (const UnitUse& use : g_.ops[u].uses)
          if (use.unit == static_cast<int>(f))
            for (int64_t c = 0; c < use.cycles; ++c)
              if (++table[(slot_[u] + c) % ii_] > g_.units[f].capacity) return false;
    }
    std::vector<bool> busy(ii_, false);
    for (int u = 0; u <= v; ++u) {
      if (role_[u] != role_[v]) continue;
      for (int64_t c = 0; c < g_.ops[u].issue; ++c) {
        if (busy[(slot_[u] + c) % ii_]) return false;
        busy[(slot_[u] + c) % ii_] = true;
      }
    }
    return true;
  }

  // k(to) − k(from) must be at least this.
  int64_t LeastStages(const GraphEdge& e) const {
    const int64_t delay = e.delay + (role_[e.from] != role_[e.to] ? e.transfer : 0);
    return CeilDiv(delay - e.distance * ii_ - (slot_[e.to] - slot_[e.from]), ii_);
  }

  bool Stages() {
    // Longest paths: without memory a solution is as good as any.
    std::vector<int64_t> k(n_, 0);
    int64_t widest = 1;
    for (int round = 0;; ++round) {
      bool changed = false;
      for (const GraphEdge& e : g_.edges) {
        const int64_t least = LeastStages(e);
        widest = std::max({widest, least, -least});
        if (k[e.from] + least > k[e.to]) k[e.to] = k[e.from] + least, changed = true;
      }
      if (!changed) break;
      if (round > n_) return false;
    }
    if (!memory_ && !rotate_) return true;
    // Ops further apart than any edge can ask for may move closer, so gaps are bounded.
    reach_ = (widest + 1) * (n_ - 1);
    return ChooseStage(1);
  }

  bool ChooseStage(int v) {
    if (rotate_ && TooManyStages(v - 1)) return false;
    if (v == n_) return Fits();
    int64_t low = -reach_, high = reach_;
    for (const GraphEdge& e : g_.edges) {
      const int64_t least = LeastStages(e);
      if (e.to == v && e.from < v) low = std::max(low, stage_[e.from] + least);
      if (e.from == v && e.to < v) high = std::min(high, stage_[e.to] - least);
    }
    for (int64_t k = low; k <= high; ++k) {
      stage_[v] = k;
      if (ChooseStage(v + 1)) return true;
    }
    return false;
  }

  bool Fits() {
    if (--left_ < 0) return true;  // ends the search
    std::vector<int64_t> begin(n_), end(n_);
    for (int v = 0; v < n_; ++v) begin[v] = end[v] = stage_[v] * ii_ + slot_[v];
    for (const GraphEdge& e : g_.edges)
      if (e.kind != EdgeKind::kOrder)
        end[e.from] = std::max(end[e.from], begin[e.to] + e.distance * ii_ + e.hold);
    int64_t smem = 0;
    for (int v = 0; v < n_; ++v)
      if (g_.ops[v].smem_bytes > 0)
        smem += std::max<int64_t>(1, CeilDiv(end[v] - begin[v], ii_)) *
                (g_.ops[v].smem_bytes + g_.machine.barrier_bytes);
    if (smem > g_.machine.smem_bytes) return false;
    std::vector<int64_t> peak(n_ + 1, 0);  // by role + 1
    for (int64_t tau = 0; tau < ii_; ++tau) {
      std::vector<int64_t> regs(n_ + 1, 0);
      int64_t tmem = 0;
      for (int v = 0; v < n_; ++v) {
        // Instances i with begin + i·II <= tau < end + i·II.
        const int64_t live = Floor(tau - begin[v], ii_) - Floor(tau - end[v], ii_);
        regs[role_[v] + 1] += live * g_.ops[v].regs;
        tmem += live * g_.ops[v].tmem_columns;
      }
      if (tmem > g_.machine.tmem_columns) return false;
      for (int r = 0; r <= n_; ++r) {
        if (regs[r] > g_.machine.max_regs_per_thread) return false;
        peak[r] = std::max(peak[r], regs[r]);
      }
    }
    return QuotasFit(peak, smem);
  }

  int64_t Slack() const {
    int64_t slack = ii_;
    for (const GraphEdge& e : g_.edges) {
      if (role_[e.from] == role_[e.to] || g_.ops[e.from].streaming) continue;
      const int64_t ready = stage_[e.from] * ii_ + slot_[e.from] + e.delay + e.transfer;
      slack = std::min(slack, (stage_[e.to] + e.distance) * ii_ + slot_[e.to] - ready);
    }
    return slack;
  }

  bool QuotasFit(const std::vector<int64_t>& peak, int64_t smem) {
    int64_t narrow_warps = 0, narrow_quota = 0, groups = 0, sum = 0;
    std::set<int> seen;
    for (int v = 0; v < n_; ++v) {
      if (!seen.insert(role_[v]).second) continue;
      const int64_t quota = std::max<int64_t>(24, (peak[role_[v] + 1] + 7) / 8 * 8);
      const int warps = g_.ops[v].warps;
      if (warps % 4 != 0) {
        narrow_warps += warps;
        narrow_quota = std::max(narrow_quota, quota);
      } else {
        groups += warps / 4;
        sum += quota * (warps / 4);
      }
    }
    groups += (narrow_warps + 3) / 4;
    sum += narrow_quota * ((narrow_warps + 3) / 4);
    if (sum > g_.machine.registers / (128 * groups) / 8 * 8 * groups) return false;
    if (!rotate_) return true;
    // Noted, and the search goes on.
    const std::array<int64_t, 3> now = {stages_, smem, -Slack()},
                                 best = {most_stages_, least_smem_, -most_slack_};
    if (now < best) {
      improved_ = true;
      most_stages_ = stages_;
      least_smem_ = smem;
      most_slack_ = Slack();
    }
    return false;
  }

  const Graph& g_;
  const int64_t ii_;
  const int n_;
  bool memory_ = false;
  bool rotate_ = false;  // every placement of the first op, for the best objective
  bool improved_ = false;
  int64_t stages_ = 0, most_stages_ = 0, least_smem_ = 0, most_slack_ = 0;
  int64_t reach_ = 0;
  int64_t left_ = INT64_MAX;  // placements that may be looked at
  std::vector<int64_t> slot_, stage_;
  std::vector<int> role_;
};

}  // namespace

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

Graph WithRoutes(Graph g, uint64_t seed, int most) {
  std::mt19937_64 random(seed);
  auto pick = [&](int low, int high) {
    return low + static_cast<int>(random() % static_cast<uint64_t>(high - low + 1));
  };
  std::vector<int> store(g.ops.size(), -1);
  auto add = [&](const std::string& name, int warps, bool is_store) {
    GraphOp op;
    op.name = name;
    op.kind = is_store ? "smem_store" : "smem_load";
    op.issue = pick(0, 2);
    op.latency = pick(0, 3);
    if (pick(0, 2) == 0)
      op.uses.push_back({pick(0, static_cast<int>(g.units.size()) - 1), pick(1, 3)});
    op.warps = warps;
    if (is_store) op.smem_bytes = 100 * pick(1, 2);
    if (!is_store) op.regs = pick(0, 1) * 8;
    op.routed = true;
    g.ops.push_back(op);
    return static_cast<int>(g.ops.size()) - 1;
  };
  int routes = 0;
  for (GraphEdge& e : g.edges) {
    if (routes == most || e.kind == EdgeKind::kOrder || e.distance > 0 || e.from == e.to ||
        g.ops[e.from].variable_latency || g.ops[e.to].variable_latency || pick(0, 5) == 0)
      continue;
    e.kind = EdgeKind::kRegister;
    e.crossable = true;
    const int from_warps = g.ops[e.from].warps, to_warps = g.ops[e.to].warps;
    if (store[e.from] < 0) store[e.from] = add("s" + std::to_string(e.from), from_warps, true);
    e.store = store[e.from];
    e.load = add("l" + std::to_string(routes++), to_warps, false);
  }
  return g;
}

uint64_t SeedShift() {
  const char* value = std::getenv("TILEC_SEED");
  return value ? std::strtoull(value, nullptr, 10) : 0;
}

Graph RandomGraph(uint64_t seed, int max_ops, bool memory) {
  std::mt19937_64 random(seed);
  auto pick = [&](int low, int high) {
    return low + static_cast<int>(random() % static_cast<uint64_t>(high - low + 1));
  };
  Graph g;
  g.name = "random";
  g.machine.name = "random";
  g.machine.max_warps = pick(0, 3) == 0 ? 5 : 16;
  const int units = pick(1, 3);
  for (int f = 0; f < units; ++f)
    g.units.push_back({std::string(1, static_cast<char>('a' + f)), pick(0, 3) == 0 ? 2 : 1});
  const int n = pick(2, max_ops);
  const bool load = pick(0, 2) == 0, narrow = pick(0, 3) == 0;
  for (int v = 0; v < n; ++v) {
    GraphOp op;
    op.name = "v" + std::to_string(v);
    op.kind = "op";
    op.issue = pick(0, 2);
    op.latency = pick(0, 4);
    if (pick(0, 3) > 0) op.uses.push_back({pick(0, units - 1), pick(1, 3)});
    if (load && v == 0) {
      op.variable_latency = op.streaming = op.async = true;
      op.warps = 1;
      if (memory) op.smem_bytes = 100;
    } else if (narrow && v == n - 1) {
      op.warps = 1;
    }
    if (memory && !op.variable_latency) {
      op.regs = pick(0, 2) * 8;
      op.tmem_columns = pick(0, 3) == 0 ? 32 : 0;
    }
    g.ops.push_back(op);
  }
  if (memory) {
    g.machine.max_regs_per_thread = pick(1, 5) * 8;
    g.machine.registers = pick(0, 2) == 0 ? 128 * 8 * pick(6, 12) : 65536;
    g.machine.tmem_columns = 32 * pick(1, 3);
    g.machine.smem_bytes = pick(1, 4) * 116;
  }
  const int edges = pick(n - 1, 2 * n);
  for (int i = 0; i < edges; ++i) {
    GraphEdge e;
    e.from = pick(0, n - 1);
    e.to = pick(0, n - 1);
    e.distance = e.from < e.to ? (pick(0, 5) == 0 ? 1 : 0) : pick(1, 2);
    if (g.ops[e.to].variable_latency && e.distance == 0) continue;
    e.delay = pick(0, 5) == 0 ? pick(0, 4) : g.ops[e.from].latency;
    e.transfer = pick(0, 2);
    e.hold = pick(0, 2) == 0 ? pick(0, 3) : 0;
    const bool apart = g.ops[e.from].warps != g.ops[e.to].warps ||
                       g.ops[e.from].variable_latency != g.ops[e.to].variable_latency;
    const int kind = pick(0, 4);
    e.kind = kind == 0            ? EdgeKind::kOrder
             : kind == 1 || apart ? EdgeKind::kSmem
                                  : EdgeKind::kRegister;
    e.crossable = apart || pick(0, 6) > 0;
    g.edges.push_back(e);
  }
  return g;
}

Graph RandomPoolGraph(uint64_t seed) {
  std::mt19937_64 random(seed);
  auto pick = [&](int low, int high) {
    return low + static_cast<int>(random() % static_cast<uint64_t>(high - low + 1));
  };
  Graph g;
  g.name = g.machine.name = "pool";
  g.machine.max_warps = pick(0, 4) == 0 ? pick(8, 16) : 40;
  const int widths[] = {16, 8, 4, 4, 4, 3, 1};
  const int n = pick(0, 3) == 0 ? 4 : 3;
  int64_t warpgroups = 0;
  for (int v = 0; v < n; ++v) {
    GraphOp op;
    op.name = std::string(1, static_cast<char>('a' + v));
    op.kind = "op";
    op.issue = pick(0, 2);
    op.latency = pick(0, 2);
    op.warps = v > 0 && pick(0, 1) == 0 ? g.ops[v - 1].warps : widths[pick(0, 6)];
    op.warps = std::min<int>(op.warps, static_cast<int>(g.machine.max_warps) / n);
    op.regs = pick(0, 6) * 8;
    warpgroups += (op.warps + 3) / 4;
    g.ops.push_back(op);
  }
  // About as many registers as quotas of 24 to 48 ask for.
  g.machine.registers = 128 * (warpgroups * pick(20, 48) + pick(0, 7));
  const int edges = pick(1, n + 1);
  for (int i = 0; i < edges; ++i) {
    GraphEdge e;
    e.from = pick(0, n - 1);
    e.to = pick(0, n - 1);
    e.distance = e.from < e.to ? 0 : 1;
    e.delay = g.ops[e.from].latency;
    e.transfer = pick(0, 2);
    e.hold = pick(0, 1);
    const bool apart = g.ops[e.from].warps != g.ops[e.to].warps;
    e.kind = apart && e.distance > 0 ? EdgeKind::kSmem : EdgeKind::kRegister;
    g.edges.push_back(e);
  }
  return g;
}

}  // namespace tilec::scheduler
