// The laws of a schedule, one function each, as arithmetic modulo II; then the timed event graph of
// the program that the schedule stands for. docs/scheduler.md proves that what passes here runs at
// II for any number of iterations.
//
// SPDX-License-Identifier: Apache-2.0
#include "scheduler/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "ir/event_graph.h"
#include "ir/isa.h"
#include "scheduler/spell_out.h"

namespace tilec::scheduler {

using ir::isa::kLeastQuota;
using ir::isa::kMostQuota;
using ir::isa::kQuotaStep;
using ir::isa::kWarpgroupWarps;

namespace {

int64_t Floor(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0); }
int64_t Ceil(int64_t a, int64_t b) { return -Floor(-a, b); }

// A stretch of a circle of II cycles.
struct Arc {
  int64_t begin;  // cycle, any period
  int64_t cycles;
  int op;
};

// Where arcs overlap most, and how much.
struct Overlap {
  int64_t count = 0, slot = 0;
};
Overlap LargestOverlap(const std::vector<Arc>& arcs, int64_t ii) {
  int64_t now = 0;  // in the cycle before slot 0, of arcs that reach past it, and of whole periods
  std::vector<std::pair<int64_t, int64_t>> changes;
  for (const Arc& arc : arcs) {
    now += arc.cycles / ii;
    const int64_t rest = arc.cycles % ii;
    if (rest == 0) continue;
    const int64_t begin = arc.begin - Floor(arc.begin, ii) * ii;
    changes.emplace_back(begin, +1);
    if (begin + rest > ii) ++now;
    if (begin + rest != ii) changes.emplace_back((begin + rest) % ii, -1);
  }
  std::sort(changes.begin(), changes.end());  // at one slot, ends go first
  Overlap best{now, 0};
  for (const auto& [slot, change] : changes) {
    now += change;
    if (now > best.count) best = {now, slot};
  }
  return best;
}

class Checker {
 public:
  // `graph`: what the schedule makes of `whole`.
  Checker(const Graph& graph, const Graph& whole, const ir::Schedule& schedule)
      : g_(graph),
        whole_(whole),
        s_(schedule),
        n_(static_cast<int>(graph.ops.size())),
        ii_(schedule.ii) {}

  CheckReport Run() {
    if (!Complete()) return std::move(report_);
    Measure();
    Dependences();
    Units();
    Issue();
    Roles();
    Registers();
    TensorMemory();
    Channels();
    Pins();
    Order();
    Events();
    return std::move(report_);
  }

 private:
  void Fail(const char* law, std::string text, std::vector<int> ops = {}) {
    report_.violations.push_back({law, std::move(text), std::move(ops)});
  }
  const std::string& Name(int v) const { return g_.ops[v].name; }
  const std::string& RoleName(int r) const { return s_.roles[r].name; }
  int64_t Slot(int v) const { return t_[v] - Stage(v) * ii_; }
  int64_t Stage(int v) const { return Floor(t_[v], ii_); }
  bool Cross(const GraphEdge& e) const { return role_[e.from] != role_[e.to]; }

  bool Complete() {
    if (ii_ < 1) Fail("complete", fmt::format("the initiation interval is {}", ii_));
    t_.assign(n_, 0);
    role_.assign(n_, -1);
    for (const ir::ScheduledOp& op : s_.ops) {
      const int v = g_.FindOp(op.name);
      if (v < 0) {
        const bool idle = whole_.FindOp(op.name) >= 0;
        Fail("complete", fmt::format("op {} {}", op.name,
                                     idle ? "is scheduled, and nothing goes through it"
                                          : "is not in the graph"));
      } else if (role_[v] >= 0) {
        Fail("complete", fmt::format("op {} is scheduled twice", op.name), {v});
      } else if (op.role < 0 || op.role >= static_cast<int>(s_.roles.size())) {
        Fail("complete",
             fmt::format("op {} is in role {} of {}", op.name, op.role, s_.roles.size()), {v});
        role_[v] = 0;
      } else {
        t_[v] = op.cycle;
        role_[v] = op.role;
      }
    }
    for (int v = 0; v < n_; ++v)
      if (role_[v] < 0) Fail("complete", fmt::format("op {} is not scheduled", Name(v)), {v});
    return report_.violations.empty();
  }

  void Measure() {
    life_.assign(n_, 0);
    int64_t first = INT64_MAX, last = INT64_MIN, low = INT64_MAX, high = INT64_MIN;
    for (int v = 0; v < n_; ++v) {
      int64_t busy = std::max(g_.ops[v].latency, g_.ops[v].issue);
      for (const UnitUse& use : g_.ops[v].uses) busy = std::max(busy, use.cycles);
      first = std::min(first, t_[v]);
      last = std::max(last, t_[v] + busy);
      low = std::min(low, Stage(v));
      high = std::max(high, Stage(v));
    }
    for (const GraphEdge& e : g_.edges)
      if (e.kind != EdgeKind::kOrder)
        life_[e.from] = std::max(life_[e.from], t_[e.to] + e.distance * ii_ + e.hold - t_[e.from]);
    if (n_ == 0) return;
    report_.length = last - first;
    report_.stages = static_cast<int>(high - low + 1);
  }

  void Dependences() {
    for (const GraphEdge& e : g_.edges) {
      const int64_t transfer = Cross(e) ? e.transfer : 0;
      const int64_t have = t_[e.to] + e.distance * ii_ - t_[e.from];
      if (have < e.delay + transfer)
        Fail("dependence",
             fmt::format(
                 "{} issues {} cycles after {}{}, and needs {}{}", Name(e.to), have, Name(e.from),
                 e.distance > 0 ? fmt::format(" of {} iterations before", e.distance) : "", e.delay,
                 transfer > 0 ? fmt::format(" and {} more between roles", transfer) : ""),
             {e.from, e.to});
      if (!Cross(e)) continue;
      if (e.kind == EdgeKind::kRegister && e.distance > 0)
        Fail("carried-role",
             fmt::format("{} is carried in registers to {} in another role", Name(e.from),
                         Name(e.to)),
             {e.from, e.to});
      if (!e.crossable)
        Fail("same-role", fmt::format("{} and {} must share a role", Name(e.from), Name(e.to)),
             {e.from, e.to});
    }
  }

  std::vector<int> OpsOf(const std::vector<Arc>& arcs) {
    std::vector<int> ops;
    for (const Arc& arc : arcs) ops.push_back(arc.op);
    return ops;
  }

  void Units() {
    for (size_t f = 0; f < g_.units.size(); ++f) {
      std::vector<Arc> arcs;
      int64_t busy = 0;
      for (int v = 0; v < n_; ++v)
        for (const UnitUse& use : g_.ops[v].uses)
          if (use.unit == static_cast<int>(f) && use.cycles > 0) {
            arcs.push_back({t_[v], use.cycles, v});
            busy += use.cycles;
          }
      report_.unit_busy.push_back(busy);
      if (g_.units[f].fluid) {
        if (busy > g_.units[f].capacity * ii_)
          Fail("unit",
               fmt::format("unit {} is used {} cycles in a period of {}", g_.units[f].name, busy,
                           ii_),
               OpsOf(arcs));
        continue;
      }
      const Overlap most = LargestOverlap(arcs, ii_);
      if (most.count > g_.units[f].capacity)
        Fail("unit",
             fmt::format("unit {} serves {} ops at slot {}, and has {} instance{}",
                         g_.units[f].name, most.count, most.slot, g_.units[f].capacity,
                         g_.units[f].capacity == 1 ? "" : "s"),
             OpsOf(arcs));
    }
  }

  void Issue() {
    for (int r = 0; r < static_cast<int>(s_.roles.size()); ++r) {
      std::vector<Arc> arcs;
      int64_t busy = 0;
      for (int v = 0; v < n_; ++v)
        if (role_[v] == r && g_.ops[v].issue > 0) {
          arcs.push_back({t_[v], g_.ops[v].issue, v});
          busy += g_.ops[v].issue;
        }
      report_.role_issue.push_back(busy);
      const Overlap most = LargestOverlap(arcs, ii_);
      if (most.count > 1)
        Fail("issue",
             fmt::format("role {} issues {} ops at slot {}", RoleName(r), most.count, most.slot),
             OpsOf(arcs));
    }
  }

  void Roles() {
    int64_t warps = 0;
    int load = -1;
    for (const ir::ScheduledRole& role : s_.roles) warps += role.warps;
    for (int v = 0; v < n_; ++v) {
      if (g_.ops[v].warps != s_.roles[role_[v]].warps)
        Fail("width",
             fmt::format("{} is an op of {} warps in role {} of {}", Name(v), g_.ops[v].warps,
                         RoleName(role_[v]), s_.roles[role_[v]].warps),
             {v});
      if (!g_.ops[v].variable_latency) continue;
      if (load >= 0 && role_[v] != role_[load])
        Fail("load-role",
             fmt::format("{} and {} have unpredictable latency and sit in two roles", Name(load),
                         Name(v)),
             {load, v});
      if (load < 0) load = v;
    }
    for (int v = 0; v < n_ && load >= 0; ++v)
      if (!g_.ops[v].variable_latency && role_[v] == role_[load])
        Fail("load-role", fmt::format("{} sits in the load role of {}", Name(v), Name(load)),
             {v, load});
    for (int v = 0; v < n_; ++v)
      for (int u = 0; u < v; ++u)
        if (!g_.ops[v].part.empty() && g_.ops[u].part == g_.ops[v].part && role_[u] == role_[v])
          Fail("apart",
               fmt::format("{} and {} are parts of {} and share role {}", Name(u), Name(v),
                           g_.ops[v].part, RoleName(role_[v])),
               {u, v});
    if (warps > g_.machine.max_warps)
      Fail("warps",
           fmt::format("the roles have {} warps, more than {}", warps, g_.machine.max_warps));
  }

  // Instances of v's value live at a cycle, in the steady state: those defined minus those ended.
  int64_t Live(int v, int64_t at) const {
    return Floor(at - t_[v], ii_) - Floor(at - t_[v] - life_[v], ii_);
  }

  void Registers() {
    const int roles = static_cast<int>(s_.roles.size());
    report_.role_regs.assign(roles, 0);
    std::vector<int> peak(roles, -1);
    for (int at = 0; at < n_; ++at) {  // live counts peak at definitions
      int64_t live = 0;
      for (int v = 0; v < n_; ++v)
        if (role_[v] == role_[at] && g_.ops[v].regs > 0) live += g_.ops[v].regs * Live(v, t_[at]);
      if (live > report_.role_regs[role_[at]]) {
        report_.role_regs[role_[at]] = live;
        peak[role_[at]] = at;
      }
    }
    int64_t pool_used = 0, groups = 0, narrow_warps = 0, narrow_quota = 0;
    for (int r = 0; r < roles; ++r) {
      const int64_t need = report_.role_regs[r];
      const std::string where = peak[r] < 0 ? std::string() : fmt::format(" at {}", Name(peak[r]));
      if (need > g_.machine.max_regs_per_thread)
        Fail("registers",
             fmt::format("role {} holds {} registers per thread{}, more than {}", RoleName(r), need,
                         where, g_.machine.max_regs_per_thread),
             {peak[r]});
      int64_t quota = s_.roles[r].regs;
      if (quota == 0) {
        quota = std::max(kLeastQuota, Ceil(need, kQuotaStep) * kQuotaStep);
      } else {
        if (quota % kQuotaStep != 0 || quota < kLeastQuota || quota > kMostQuota)
          Fail("registers", fmt::format("the quota {} of role {} is not a multiple of {} in {}…{}",
                                        quota, RoleName(r), kQuotaStep, kLeastQuota, kMostQuota));
        if (need > quota)
          Fail("registers",
               fmt::format("role {} holds {} registers per thread{}, more than its quota {}",
                           RoleName(r), need, where, quota),
               {peak[r]});
      }
      if (s_.roles[r].warps % kWarpgroupWarps == 0) {
        pool_used += quota * (s_.roles[r].warps / kWarpgroupWarps);
        groups += s_.roles[r].warps / kWarpgroupWarps;
      } else {
        narrow_warps += s_.roles[r].warps;
        narrow_quota = std::max(narrow_quota, quota);
      }
    }
    const int64_t narrow_groups = Ceil(narrow_warps, kWarpgroupWarps);
    groups += narrow_groups;
    pool_used += narrow_groups * narrow_quota;
    if (groups == 0) return;
    const int64_t each =
        g_.machine.registers / (groups * kWarpgroupWarps * 32) / kQuotaStep * kQuotaStep;
    if (pool_used > each * groups)
      Fail(
          "register-pool",
          fmt::format("the quotas of {} warpgroups add up to {} registers per thread, and a launch "
                      "of that size has {}",
                      groups, pool_used, each * groups));
  }

  void TensorMemory() {
    for (int at = 0; at < n_; ++at) {
      if (g_.ops[at].tmem_columns == 0) continue;
      int64_t live = 0;
      for (int v = 0; v < n_; ++v)
        if (g_.ops[v].tmem_columns > 0) live += g_.ops[v].tmem_columns * Live(v, t_[at]);
      if (live <= report_.tmem_columns) continue;
      report_.tmem_columns = live;
      if (live > g_.machine.tmem_columns)
        Fail("tmem",
             fmt::format("{} columns of tensor memory are live at {}, more than {}", live, Name(at),
                         g_.machine.tmem_columns),
             {at});
    }
  }

  void Channels() {
    depth_.assign(n_, 0);
    for (const ir::Channel& channel : s_.channels) {
      const int v = g_.FindOp(channel.value);
      if (v < 0) {
        Fail("ring", fmt::format("a channel carries {}, which is not in the graph", channel.value));
        continue;
      }
      const char* medium = g_.ops[v].smem_bytes > 0     ? "smem"
                           : g_.ops[v].tmem_columns > 0 ? "tmem"
                                                        : "reg";
      if (channel.medium != medium)
        Fail("ring",
             fmt::format("the channel of {} is in {}, its value in {}", Name(v), channel.medium,
                         medium),
             {v});
      if (depth_[v] != 0) Fail("ring", fmt::format("{} has two channels", Name(v)), {v});
      depth_[v] = channel.depth;
      if (channel.depth < 1 || channel.depth * ii_ < life_[v])
        Fail("ring",
             fmt::format("a value of {} lives {} cycles, longer than {} slots of {} cycles",
                         Name(v), life_[v], channel.depth, ii_),
             {v});
    }
    for (int v = 0; v < n_; ++v) {
      const GraphOp& op = g_.ops[v];
      bool crosses = false, by_register = false;
      for (const GraphEdge& e : g_.edges)
        if (e.from == v && e.kind != EdgeKind::kOrder && Cross(e)) {
          crosses = true;
          by_register = by_register || e.kind == EdgeKind::kRegister;
        }
      const bool needed = op.smem_bytes > 0 || (op.tmem_columns > 0 ? crosses : by_register);
      if (needed && depth_[v] == 0) Fail("ring", fmt::format("{} has no channel", Name(v)), {v});
      if (op.smem_bytes > 0)
        report_.smem_bytes += depth_[v] * (op.smem_bytes + g_.machine.barrier_bytes);
    }
    if (report_.smem_bytes > g_.machine.smem_bytes)
      Fail("smem", fmt::format("the rings take {} bytes of shared memory, more than {}",
                               report_.smem_bytes, g_.machine.smem_bytes));
  }

  void Pins() {
    for (const Graph::Pin& pin : g_.pins) {
      const int v = g_.FindOp(pin.op);
      if (v < 0) continue;
      if (pin.cycle >= 0 && t_[v] != pin.cycle)
        Fail("pin", fmt::format("{} is at cycle {}, pinned to {}", pin.op, t_[v], pin.cycle), {v});
      if (pin.stage >= 0 && Stage(v) != pin.stage)
        Fail("pin", fmt::format("{} is in stage {}, pinned to {}", pin.op, Stage(v), pin.stage),
             {v});
      const int other = g_.FindOp(pin.same_role_as);
      if (other >= 0 && role_[v] != role_[other])
        Fail("pin", fmt::format("{} is not in the role of {}", pin.op, pin.same_role_as),
             {v, other});
      if (pin.depth > 0 &&
          (life_[v] > pin.depth * ii_ || (g_.ops[v].smem_bytes > 0 && depth_[v] != pin.depth)))
        Fail("pin",
             fmt::format("{} lives {} cycles in a ring of {}, pinned to {} slots", pin.op, life_[v],
                         depth_[v], pin.depth),
             {v});
    }
  }

  int64_t Occupancy(int v, int unit) const {
    for (const UnitUse& use : g_.ops[v].uses)
      if (use.unit == unit) return use.cycles;
    return 0;
  }

  // The op that follows v on a unit of one instance.
  int NextOn(int v, int unit) const {
    int next = v;
    int64_t least = ii_;
    for (int u = 0; u < n_; ++u) {
      if (u == v || Occupancy(u, unit) == 0) continue;
      const int64_t gap = Slot(u) - Slot(v) + (Slot(u) < Slot(v) ? ii_ : 0);
      if (gap < least) least = gap, next = u;
    }
    return next;
  }

  void Order() {
    for (const ir::OrderEdge& edge : s_.order) {
      const int from = g_.FindOp(edge.from), to = g_.FindOp(edge.to);
      const int unit = g_.FindUnit(edge.unit);
      const std::string text = fmt::format("order {} -> {} on {}", edge.from, edge.to, edge.unit);
      if (from < 0 || to < 0 || unit < 0) {
        Fail("order", text + " names what the graph does not have");
        continue;
      }
      if (g_.units[unit].capacity != 1 || g_.units[unit].fluid || Occupancy(from, unit) == 0 ||
          Occupancy(to, unit) == 0) {
        Fail("order", text + ": both must use that unit, which must have one instance", {from, to});
        continue;
      }
      if (const int next = NextOn(from, unit); next != to)
        Fail("order", fmt::format("{}, but {} follows", text, Name(next)), {from, to});
    }
  }

  // The op order inside each slot: producers before consumers, readers before what overwrites.
  std::vector<int> ProgramOrder(const ir::EventGraph& events) const {
    std::vector<int> order(n_), waiting(n_, 0);
    for (int v = 0; v < n_; ++v) order[v] = v;
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
      return Slot(a) != Slot(b) ? Slot(a) < Slot(b) : t_[a] > t_[b];
    });
    std::vector<std::vector<int>> next(n_);
    for (const ir::EventEdge& e : events.edges)
      if (e.tokens <= 0 && e.from != e.to && Slot(e.from) == Slot(e.to)) {
        next[e.from].push_back(e.to);
        ++waiting[e.to];
      }
    std::vector<int> result;
    std::vector<bool> done(n_, false);
    for (size_t begin = 0; begin < order.size();) {
      size_t end = begin;
      while (end < order.size() && Slot(order[end]) == Slot(order[begin])) ++end;
      const size_t goal = result.size() + (end - begin);
      while (result.size() < goal) {
        int pick = -1, any = -1;
        for (size_t i = begin; i < end; ++i) {
          if (done[order[i]]) continue;
          if (any < 0) any = order[i];
          if (waiting[order[i]] == 0 && pick < 0) pick = order[i];
        }
        if (pick < 0) pick = any;  // a circle: reported by the liveness law
        done[pick] = true;
        result.push_back(pick);
        for (int to : next[pick]) --waiting[to];
      }
      begin = end;
    }
    return result;
  }

  void Events() {
    if (n_ == 0) return;
    ir::EventGraph events;
    events.nodes = n_;
    std::vector<std::string> why;
    // An edge between iterations, as firings count periods.
    auto add = [&](int from, int to, int64_t delay, int64_t distance, const char* what) {
      events.edges.push_back({from, to, delay, distance + Stage(to) - Stage(from)});
      why.emplace_back(what);
    };
    for (const GraphEdge& e : g_.edges)
      add(e.from, e.to, e.delay + (Cross(e) ? e.transfer : 0), e.distance, "needs");
    for (const GraphEdge& e : g_.edges)
      // An op may overwrite in place what it read itself.
      if (e.kind != EdgeKind::kOrder && depth_[e.from] > 0 &&
          !(e.from == e.to && e.hold == 0 && e.distance == depth_[e.from]))
        add(e.to, e.from, e.hold, depth_[e.from] - e.distance, "frees a slot of");
    for (const ir::OrderEdge& edge : s_.order) {
      const int from = g_.FindOp(edge.from), to = g_.FindOp(edge.to);
      const int unit = g_.FindUnit(edge.unit);
      if (!edge.enforced || from < 0 || to < 0 || unit < 0) continue;
      events.edges.push_back({from, to, Occupancy(from, unit), Slot(from) < Slot(to) ? 0 : 1});
      why.emplace_back("gives the turn to");
    }
    std::map<int, std::vector<int>> programs;
    for (int v : ProgramOrder(events)) programs[role_[v]].push_back(v);
    // The next op waits for the issue of the one before it; ops that take no issue time slip in
    // between without holding anything up.
    auto chain = [&](const std::vector<int>& ops, bool with_issue) {
      for (size_t i = 0; i < ops.size(); ++i) {
        const bool last = i + 1 == ops.size();
        events.edges.push_back(
            {ops[i], ops[last ? 0 : i + 1], with_issue ? g_.ops[ops[i]].issue : 0, last ? 1 : 0});
        why.emplace_back("issues before");
      }
    };
    for (const auto& [role, ops] : programs) {
      std::vector<int> busy;
      for (int v : ops)
        if (g_.ops[v].issue > 0) busy.push_back(v);
      chain(busy, true);
      if (busy.size() < ops.size()) chain(ops, false);
    }
    const std::vector<int> dead = ir::DeadCircle(events);
    auto describe = [&](const std::vector<int>& circle, std::vector<int>* ops) {
      std::string text;
      for (int i : circle) {
        ops->push_back(events.edges[i].from);
        text += fmt::format("{} {} ", Name(events.edges[i].from), why[i]);
      }
      return text + Name(events.edges[circle.front()].from);
    };
    std::vector<int> ops;
    if (!dead.empty()) {
      const std::string text = describe(dead, &ops);
      Fail("liveness", "nothing starts: " + text, ops);
      return;
    }
    const ir::Period period = ir::ExactPeriod(events);
    report_.event_period = period.Ceil();
    if (report_.event_period <= ii_) return;
    const std::string text = describe(period.circle, &ops);
    Fail("period",
         fmt::format("{} takes {} cycles for {} iteration{}: {} each, more than {}", text,
                     period.delay, period.tokens, period.tokens == 1 ? "" : "s",
                     report_.event_period, ii_),
         ops);
  }

  const Graph& g_;
  const Graph& whole_;
  const ir::Schedule& s_;
  const int n_;
  const int64_t ii_;
  CheckReport report_;
  std::vector<int64_t> t_, life_, depth_;
  std::vector<int> role_;
};

}  // namespace

CheckReport Check(const Graph& graph, const ir::Schedule& schedule) {
  if (std::none_of(graph.ops.begin(), graph.ops.end(), [](const GraphOp& op) { return op.routed; }))
    return Checker(graph, graph, schedule).Run();
  const Spelled spelled = SpellOut(graph, schedule);
  CheckReport report = Checker(spelled.graph, graph, schedule).Run();
  for (Violation& violation : report.violations)
    for (int& op : violation.ops) op = spelled.origin[op];
  return report;
}

}  // namespace tilec::scheduler
