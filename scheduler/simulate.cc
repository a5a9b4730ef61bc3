// A schedule, played: every op of every iteration issues in its cycle, reads what it finds and
// occupies what it needs. No formula of check.cc is used here; where both agree, neither is likely
// to be wrong in the same way.
//
// Values of iterations before the first (live-ins) appear in the cycle in which the steady state
// would define them, or at the very start.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "scheduler/check.h"

namespace tilec::scheduler {

namespace {

constexpr int64_t kMostCycles = 50'000'000;
constexpr size_t kEnough = 16;  // violations after which nothing new is learnt

// A value of one iteration.
struct Instance {
  bool made = false;
  int64_t readers = 0;            // still to come
  int64_t last_read = INT64_MIN;  // completion of the latest read so far
  bool DeadAt(int64_t cycle) const { return made && readers == 0 && last_read <= cycle; }
};

// The loop that is played, for the roles that ops have: an edge that crosses and has a route is
// three, one that stays is itself, and stores and loads that no edge needs are struck out.
Graph Loop(Graph g, const ir::Schedule& schedule) {
  std::vector<int> role(g.ops.size(), -1);
  for (const ir::ScheduledOp& op : schedule.ops)
    if (const int v = g.FindOp(op.name); v >= 0) role[v] = op.role;
  std::set<int> used;
  for (size_t i = 0, count = g.edges.size(); i < count; ++i) {
    const GraphEdge e = g.edges[i];
    if (e.load < 0) continue;
    g.edges[i].load = g.edges[i].store = -1;
    if (role[e.from] == role[e.to]) continue;
    used.insert({e.store, e.load});
    g.edges[i].to = e.store;
    g.edges[i].crossable = false;
    g.edges[i].hold = g.ops[e.store].issue;
    g.edges.push_back({e.store, e.load, EdgeKind::kSmem, g.ops[e.store].latency, 0, e.transfer,
                       g.ops[e.load].issue});
    g.edges.push_back(
        {e.load, e.to, EdgeKind::kRegister, g.ops[e.load].latency, 0, 0, e.hold, false});
  }
  for (int v = static_cast<int>(g.ops.size()) - 1; v >= 0; --v) {
    if (!g.ops[v].routed || used.count(v) > 0) continue;
    g.ops.erase(g.ops.begin() + v);
    for (GraphEdge& e : g.edges) {
      e.from -= e.from > v ? 1 : 0;
      e.to -= e.to > v ? 1 : 0;
    }
  }
  return g;
}

class Player {
 public:
  Player(const Graph& graph, const ir::Schedule& schedule)
      : g_(Loop(graph, schedule)), s_(schedule) {}

  CheckReport Play(int periods) {
    if (!Read()) return std::move(report_);
    Shape();
    Quotas();
    if (!Prepare(periods)) return std::move(report_);
    for (cycle_ = start_; cycle_ < stop_ && report_.violations.size() < kEnough; ++cycle_) Step();
    if (report_.violations.empty()) Orders();
    if (report_.violations.empty()) report_.event_period = s_.ii;
    return std::move(report_);
  }

 private:
  using Event = std::pair<int, int64_t>;  // op, iteration; negative: a live-in appears

  void Fail(const char* law, std::string text, std::vector<int> ops = {}) {
    report_.violations.push_back({law, std::move(text), std::move(ops)});
  }

  bool Read() {
    const size_t n = g_.ops.size();
    at_.resize(n);
    std::vector<int> times(n, 0);
    for (const ir::ScheduledOp& op : s_.ops) {
      const int v = g_.FindOp(op.name);
      if (v < 0 || op.role < 0 || op.role >= static_cast<int>(s_.roles.size())) {
        Fail("complete", fmt::format("op {} or its role is unknown", op.name));
        continue;
      }
      ++times[v];
      at_[v] = op;
    }
    for (size_t v = 0; v < n; ++v)
      if (times[v] != 1)
        Fail("complete", fmt::format("op {} is scheduled {} times", g_.ops[v].name, times[v]));
    if (s_.ii < 1) Fail("complete", "no initiation interval");
    return report_.violations.empty();
  }

  // Who sits where: nothing here depends on time.
  void Shape() {
    std::set<int> load_roles, other_roles;
    int64_t warps = 0;
    for (const ir::ScheduledRole& role : s_.roles) warps += role.warps;
    if (warps > g_.machine.max_warps) Fail("warps", fmt::format("{} warps", warps));
    for (size_t v = 0; v < at_.size(); ++v) {
      (g_.ops[v].variable_latency ? load_roles : other_roles).insert(at_[v].role);
      if (s_.roles[at_[v].role].warps != g_.ops[v].warps)
        Fail("width", g_.ops[v].name + " in a role of another width");
    }
    std::set<std::pair<std::string, int>> parts;
    for (size_t v = 0; v < at_.size(); ++v)
      if (!g_.ops[v].part.empty() && !parts.emplace(g_.ops[v].part, at_[v].role).second)
        Fail("apart", g_.ops[v].name + " beside another part of its unit");
    if (load_roles.size() > 1) Fail("load-role", "two load roles");
    for (int role : load_roles)
      if (other_roles.count(role) > 0) Fail("load-role", "other ops in the load role");
    std::vector<int64_t> shared(g_.units.size(), 0);  // of fluid units, per period
    for (const GraphOp& op : g_.ops)
      for (const UnitUse& use : op.uses) shared[use.unit] += use.cycles;
    for (size_t f = 0; f < shared.size(); ++f)
      if (g_.units[f].fluid && shared[f] > g_.units[f].capacity * s_.ii)
        Fail("unit", fmt::format("{} cycles of unit {}", shared[f], g_.units[f].name));
    std::map<std::string, int> rings;
    for (const ir::Channel& channel : s_.channels) {
      const int v = g_.FindOp(channel.value);
      if (v < 0 || channel.depth < 1 || !rings.emplace(channel.value, channel.depth).second) {
        Fail("ring", fmt::format("channel of {}", channel.value));
        continue;
      }
      const GraphOp& op = g_.ops[v];
      if ((channel.medium == "smem") != (op.smem_bytes > 0) ||
          (channel.medium == "tmem") != (op.tmem_columns > 0 && op.smem_bytes == 0))
        Fail("ring", fmt::format("the medium of {}", channel.value));
    }
    ring_.assign(at_.size(), 0);
    for (size_t v = 0; v < at_.size(); ++v)
      if (auto it = rings.find(g_.ops[v].name); it != rings.end()) ring_[v] = it->second;
    int64_t bytes = 0;
    for (size_t v = 0; v < at_.size(); ++v) {
      if (g_.ops[v].smem_bytes == 0) continue;
      if (ring_[v] == 0) Fail("ring", g_.ops[v].name + " has no ring");
      bytes += ring_[v] * (g_.ops[v].smem_bytes + g_.machine.barrier_bytes);
    }
    report_.smem_bytes = bytes;
    if (bytes > g_.machine.smem_bytes) Fail("smem", fmt::format("{} bytes", bytes));
    for (const GraphEdge& e : g_.edges) {
      if (at_[e.from].role == at_[e.to].role) continue;
      const GraphOp& from = g_.ops[e.from];
      if (!e.crossable) Fail("same-role", from.name + " crosses");
      if (e.kind == EdgeKind::kOrder) continue;
      if (e.kind == EdgeKind::kRegister && e.distance > 0) Fail("carried-role", from.name);
      if (ring_[e.from] == 0 &&
          (from.tmem_columns > 0 || (from.smem_bytes == 0 && e.kind == EdgeKind::kRegister)))
        Fail("ring", from.name + " crosses without a channel");
    }
    for (const Graph::Pin& pin : g_.pins) {
      const int v = g_.FindOp(pin.op), w = g_.FindOp(pin.same_role_as);
      if (v < 0) continue;
      if (pin.cycle >= 0 && at_[v].cycle != pin.cycle) Fail("pin", pin.op + " by cycle");
      if (pin.stage >= 0 &&
          (at_[v].cycle < pin.stage * s_.ii || at_[v].cycle >= (pin.stage + int64_t{1}) * s_.ii))
        Fail("pin", pin.op + " by stage");
      if (w >= 0 && at_[v].role != at_[w].role) Fail("pin", pin.op + " by role");
      if (pin.depth > 0 && g_.ops[v].smem_bytes > 0 && ring_[v] != pin.depth)
        Fail("pin", pin.op + " by depth");
      if (pin.depth > 0 && ring_[v] == 0) ring_[v] = pin.depth;  // its life is pinned all the same
      if (pin.depth > 0) ring_[v] = std::min(ring_[v], pin.depth);
    }
  }

  bool Prepare(int periods) {
    start_ = INT64_MAX;
    int64_t end = INT64_MIN;
    for (size_t v = 0; v < at_.size(); ++v) {
      start_ = std::min(start_, at_[v].cycle);
      end = std::max({end, at_[v].cycle + g_.ops[v].issue, at_[v].cycle + g_.ops[v].latency});
      for (const UnitUse& use : g_.ops[v].uses) end = std::max(end, at_[v].cycle + use.cycles);
    }
    for (const GraphEdge& e : g_.edges)
      end = std::max(end, at_[e.to].cycle + e.distance * s_.ii + std::max(e.hold, e.delay));
    if (at_.empty()) start_ = end = 0;
    warm_ = start_ + (end - start_ + s_.ii - 1) / s_.ii * s_.ii + s_.ii;
    stop_ = warm_ + (periods + 1) * s_.ii;
    if (stop_ - start_ > kMostCycles) {
      Fail("complete", fmt::format("{} cycles are too many to play", stop_ - start_));
      return false;
    }
    const size_t length = static_cast<size_t>(stop_ - start_);
    busy_.assign(g_.units.size(), std::vector<int32_t>(length, 0));
    issuing_.assign(s_.roles.size(), std::vector<int32_t>(length, 0));
    log_.resize(g_.units.size());
    events_.resize(length);
    report_.role_regs.assign(s_.roles.size(), 0);
    report_.length = end - start_;
    value_edges_.resize(at_.size());
    inputs_.resize(at_.size());
    past_.assign(at_.size(), 0);
    for (size_t i = 0; i < g_.edges.size(); ++i) {
      const GraphEdge& e = g_.edges[i];
      inputs_[e.to].push_back(static_cast<int>(i));
      if (e.kind == EdgeKind::kOrder) continue;
      value_edges_[e.from].push_back(static_cast<int>(i));
      past_[e.from] = std::max(past_[e.from], e.distance);
    }
    values_.resize(at_.size());
    issued_.resize(at_.size());
    for (size_t v = 0; v < at_.size(); ++v) {
      for (int64_t i = -past_[v]; at_[v].cycle + i * s_.ii < stop_; ++i) {
        Instance instance;
        for (int edge : value_edges_[v])
          if (i + g_.edges[edge].distance >= 0) ++instance.readers;
        values_[v].push_back(instance);
        const int64_t when = std::max(start_, at_[v].cycle + i * s_.ii);
        if (when < stop_ && (i >= 0 || instance.readers > 0))
          events_[static_cast<size_t>(when - start_)].emplace_back(static_cast<int>(v), i);
        if (i >= 0) issued_[v].push_back(INT64_MIN);
      }
    }
    return true;
  }

  Instance* Value(int v, int64_t iteration) {
    const int64_t index = iteration + past_[v];
    if (index < 0 || index >= static_cast<int64_t>(values_[v].size())) return nullptr;
    return &values_[v][static_cast<size_t>(index)];
  }

  enum class State { kReady, kBlocked, kBroken };

  // May this op issue now? `why` names the law if not.
  State Ready(const Event& event, const char** why, int* culprit) {
    const auto& [v, iteration] = event;
    if (iteration >= 0)
      for (int i : inputs_[v]) {
        const GraphEdge& e = g_.edges[i];
        const int64_t from = iteration - e.distance;
        if (from < 0) continue;  // set up before the loop
        *why = "dependence";
        *culprit = e.from;
        const auto& times = issued_[e.from];
        if (from >= static_cast<int64_t>(times.size())) return State::kBroken;
        const int64_t when = times[static_cast<size_t>(from)];
        if (when == INT64_MIN) return State::kBlocked;
        const int64_t wait = e.delay + (at_[e.from].role != at_[v].role ? e.transfer : 0);
        if (cycle_ < when + wait) return State::kBroken;
      }
    if (ring_[v] > 0) {
      *why = "ring";
      *culprit = v;
      // The slot's last tenant; a live-in nobody reads was never there. What only this op still has
      // to read, it may overwrite in place.
      const Instance* tenant = Value(v, iteration - ring_[v]);
      if (tenant != nullptr && (iteration - ring_[v] >= 0 || tenant->readers > 0 || tenant->made)) {
        Instance seen = *tenant;
        for (int i : value_edges_[v]) {
          const GraphEdge& e = g_.edges[i];
          if (iteration >= 0 && e.to == v && e.distance == ring_[v] && e.hold == 0) --seen.readers;
        }
        if (!seen.DeadAt(cycle_)) return State::kBlocked;
      }
    }
    return State::kReady;
  }

  void Occupy(std::vector<int32_t>* table, int64_t cycles, int64_t capacity, const char* law,
              const std::string& name) {
    for (int64_t c = cycle_; c < std::min(cycle_ + cycles, stop_); ++c)
      if (++(*table)[static_cast<size_t>(c - start_)] > capacity) {
        Fail(law, fmt::format("{} has no room at cycle {}", name, c));
        return;
      }
  }

  void Issue(const Event& event) {
    const auto& [v, iteration] = event;
    Instance* value = Value(v, iteration);
    value->made = true;
    value->last_read = std::max(value->last_read, cycle_);
    living_.emplace_back(v, iteration);
    if (iteration < 0) return;
    const GraphOp& op = g_.ops[v];
    issued_[v][static_cast<size_t>(iteration)] = cycle_;
    Occupy(&issuing_[at_[v].role], op.issue, 1, "issue", op.name);
    for (const UnitUse& use : op.uses) {
      if (g_.units[use.unit].fluid) continue;
      Occupy(&busy_[use.unit], use.cycles, g_.units[use.unit].capacity, "unit", op.name);
      if (use.cycles > 0) log_[use.unit].emplace_back(cycle_, v);
    }
    for (int i : inputs_[v]) {
      const GraphEdge& e = g_.edges[i];
      if (e.kind == EdgeKind::kOrder) continue;
      Instance* read = Value(e.from, iteration - e.distance);
      if (read == nullptr) continue;
      --read->readers;
      read->last_read = std::max(read->last_read, cycle_ + e.hold);
    }
  }

  void Step() {
    std::vector<Event>& events = events_[static_cast<size_t>(cycle_ - start_)];
    if (events.empty()) return;
    // What issues in one cycle does so in any order in which each finds what it needs.
    const char* why = "";
    int culprit = -1;
    while (!events.empty()) {
      std::vector<Event> waiting;
      for (const Event& event : events) {
        const State state = Ready(event, &why, &culprit);
        if (state == State::kBroken)
          Fail(why,
               fmt::format("{} of iteration {} issues at cycle {}, too early after {}",
                           g_.ops[event.first].name, event.second, cycle_, g_.ops[culprit].name));
        if (state == State::kBlocked)
          waiting.push_back(event);
        else
          Issue(event);
      }
      if (waiting.size() == events.size()) {
        for (const Event& event : waiting) {
          (void)Ready(event, &why, &culprit);
          const bool together = std::any_of(waiting.begin(), waiting.end(), [&](const Event& e) {
            return e.first == culprit && e.first != event.first;
          });
          Fail(together ? "liveness" : why,
               fmt::format("{} of iteration {} cannot issue at cycle {} because of {}",
                           g_.ops[event.first].name, event.second, cycle_, g_.ops[culprit].name));
        }
        return;
      }
      events = std::move(waiting);
    }
    Count();
  }

  void Count() {
    std::vector<Event> living;
    std::vector<int64_t> regs(s_.roles.size(), 0);
    int64_t columns = 0;
    for (const Event& event : living_) {
      if (Value(event.first, event.second)->DeadAt(cycle_)) continue;
      living.push_back(event);
      regs[at_[event.first].role] += g_.ops[event.first].regs;
      columns += g_.ops[event.first].tmem_columns;
    }
    living_ = std::move(living);
    report_.tmem_columns = std::max(report_.tmem_columns, columns);
    if (columns > g_.machine.tmem_columns)
      Fail("tmem", fmt::format("{} columns at cycle {}", columns, cycle_));
    for (size_t r = 0; r < regs.size(); ++r) {
      report_.role_regs[r] = std::max(report_.role_regs[r], regs[r]);
      const int64_t quota = s_.roles[r].regs;
      if (regs[r] > g_.machine.max_regs_per_thread || (quota > 0 && regs[r] > quota))
        Fail("registers",
             fmt::format("{} in role {} at cycle {}", regs[r], s_.roles[r].name, cycle_));
    }
  }

  // The quotas written down; undecided ones are judged in Pool, after the play.
  void Quotas() {
    for (const ir::ScheduledRole& role : s_.roles)
      if (role.regs != 0 && (role.regs < 24 || role.regs > 256 || role.regs % 8 != 0))
        Fail("registers", fmt::format("no quota: {}", role.regs));
  }

  void Orders() {
    for (const ir::OrderEdge& edge : s_.order) {
      const int unit = g_.FindUnit(edge.unit);
      const int from = g_.FindOp(edge.from), to = g_.FindOp(edge.to);
      bool seen_from = false, seen_to = false, follows = true;
      if (unit >= 0 && g_.units[unit].capacity == 1)
        for (size_t i = 0; i + 1 < log_[unit].size(); ++i) {
          if (log_[unit][i].first < warm_) continue;
          seen_from = seen_from || log_[unit][i].second == from;
          seen_to = seen_to || log_[unit][i].second == to;
          if (log_[unit][i].second == from && log_[unit][i + 1].second != to) follows = false;
        }
      if (!seen_from || !seen_to || !follows)
        Fail("order", fmt::format("{} is not followed by {} on {}", edge.from, edge.to, edge.unit));
    }
    // Registers of a launch: one number for all its warpgroups.
    int64_t sum = 0, groups = 0, narrow = 0, narrow_regs = 0;
    for (size_t r = 0; r < s_.roles.size(); ++r) {
      int64_t regs = s_.roles[r].regs;
      if (regs == 0)
        for (regs = 24; regs < report_.role_regs[r];) regs += 8;
      if (s_.roles[r].warps % 4 != 0) {
        narrow += s_.roles[r].warps;
        narrow_regs = std::max(narrow_regs, regs);
        continue;
      }
      groups += s_.roles[r].warps / 4;
      sum += regs * (s_.roles[r].warps / 4);
    }
    for (; narrow > 0; narrow -= 4) {
      ++groups;
      sum += narrow_regs;
    }
    if (groups == 0) return;
    int64_t each = 0;
    while ((each + 8) * groups * 128 <= g_.machine.registers) each += 8;
    if (sum > each * groups)
      Fail("register-pool", fmt::format("{} of {} registers per thread", sum, each * groups));
  }

  const Graph g_;
  const ir::Schedule& s_;
  CheckReport report_;
  std::vector<ir::ScheduledOp> at_;  // by op
  std::vector<int> ring_;            // by op; 0: none
  int64_t start_ = 0, warm_ = 0, stop_ = 0, cycle_ = 0;
  std::vector<std::vector<int>> value_edges_, inputs_;     // by op
  std::vector<int64_t> past_;                              // live-ins of each op's value, at most
  std::vector<std::vector<Instance>> values_;              // by op and iteration + past
  std::vector<std::vector<int64_t>> issued_;               // by op and iteration
  std::vector<std::vector<int32_t>> busy_, issuing_;       // by unit or role, and cycle
  std::vector<std::vector<std::pair<int64_t, int>>> log_;  // by unit: who issued when
  std::vector<std::vector<Event>> events_;                 // by cycle
  std::vector<Event> living_;
};

}  // namespace

CheckReport Simulate(const Graph& graph, const ir::Schedule& schedule, int periods) {
  return Player(graph, schedule).Play(periods);
}

}  // namespace tilec::scheduler
