// A schedule, played: every op of every iteration issues in its cycle, reads what it finds and
// occupies what it needs. No formula of check.cc is used here; where both agree, neither is likely
// to be wrong in the same way. Here is what does not depend on time: the loop that is played, who
// sits where, and what is counted up once the play (simulate_play.cc) is over.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "scheduler/check.h"
#include "scheduler/player.h"

namespace tilec::scheduler {

namespace {

constexpr size_t kEnough = 16;  // violations after which nothing new is learnt

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

}  // namespace

Player::Player(const Graph& graph, const ir::Schedule& schedule)
    : g_(Loop(graph, schedule)), s_(schedule) {}

CheckReport Player::Play(int periods) {
  if (!Read()) return std::move(report_);
  Shape();
  Quotas();
  if (!Prepare(periods)) return std::move(report_);
  for (cycle_ = start_; cycle_ < stop_ && report_.violations.size() < kEnough; ++cycle_) Step();
  if (report_.violations.empty()) Orders();
  if (report_.violations.empty()) report_.event_period = s_.ii;
  return std::move(report_);
}

bool Player::Read() {
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
void Player::Shape() {
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

// The quotas written down; undecided ones are judged in Pool, after the play.
void Player::Quotas() {
  for (const ir::ScheduledRole& role : s_.roles)
    if (role.regs != 0 && (role.regs < 24 || role.regs > 256 || role.regs % 8 != 0))
      Fail("registers", fmt::format("no quota: {}", role.regs));
}

void Player::Orders() {
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

CheckReport Simulate(const Graph& graph, const ir::Schedule& schedule, int periods) {
  return Player(graph, schedule).Play(periods);
}

}  // namespace tilec::scheduler
