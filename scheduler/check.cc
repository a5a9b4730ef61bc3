// The laws of a schedule, one function each, as arithmetic modulo II: who sits where and when. Then
// come what values need (check_memory.cc) and the timed event graph of the program that the
// schedule stands for (check_events.cc). docs/scheduler.md proves that what passes here runs at II
// for any number of iterations.
//
// SPDX-License-Identifier: Apache-2.0
#include "scheduler/check.h"

#include <fmt/format.h>

#include <algorithm>

#include "scheduler/checker.h"
#include "scheduler/spell_out.h"

namespace tilec::scheduler {

CheckReport ScheduleChecker::Run() {
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

bool ScheduleChecker::Complete() {
  if (ii_ < 1) Fail("complete", fmt::format("the initiation interval is {}", ii_));
  t_.assign(n_, 0);
  role_.assign(n_, -1);
  for (const ir::ScheduledOp& op : s_.ops) {
    const int v = g_.FindOp(op.name);
    if (v < 0) {
      const bool idle = whole_.FindOp(op.name) >= 0;
      Fail("complete",
           fmt::format("op {} {}", op.name,
                       idle ? "is scheduled, and nothing goes through it" : "is not in the graph"));
    } else if (role_[v] >= 0) {
      Fail("complete", fmt::format("op {} is scheduled twice", op.name), {v});
    } else if (op.role < 0 || op.role >= static_cast<int>(s_.roles.size())) {
      Fail("complete", fmt::format("op {} is in role {} of {}", op.name, op.role, s_.roles.size()),
           {v});
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

void ScheduleChecker::Measure() {
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

void ScheduleChecker::Dependences() {
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
      Fail(
          "carried-role",
          fmt::format("{} is carried in registers to {} in another role", Name(e.from), Name(e.to)),
          {e.from, e.to});
    if (!e.crossable)
      Fail("same-role", fmt::format("{} and {} must share a role", Name(e.from), Name(e.to)),
           {e.from, e.to});
  }
}

ScheduleChecker::Overlap ScheduleChecker::LargestOverlap(const std::vector<Arc>& arcs, int64_t ii) {
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

std::vector<int> ScheduleChecker::OpsOf(const std::vector<Arc>& arcs) {
  std::vector<int> ops;
  for (const Arc& arc : arcs) ops.push_back(arc.op);
  return ops;
}

void ScheduleChecker::Units() {
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
        Fail(
            "unit",
            fmt::format("unit {} is used {} cycles in a period of {}", g_.units[f].name, busy, ii_),
            OpsOf(arcs));
      continue;
    }
    const Overlap most = LargestOverlap(arcs, ii_);
    if (most.count > g_.units[f].capacity)
      Fail("unit",
           fmt::format("unit {} serves {} ops at slot {}, and has {} instance{}", g_.units[f].name,
                       most.count, most.slot, g_.units[f].capacity,
                       g_.units[f].capacity == 1 ? "" : "s"),
           OpsOf(arcs));
  }
}

void ScheduleChecker::Issue() {
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

void ScheduleChecker::Roles() {
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

void ScheduleChecker::Pins() {
  for (const Graph::Pin& pin : g_.pins) {
    const int v = g_.FindOp(pin.op);
    if (v < 0) continue;
    if (pin.cycle >= 0 && t_[v] != pin.cycle)
      Fail("pin", fmt::format("{} is at cycle {}, pinned to {}", pin.op, t_[v], pin.cycle), {v});
    if (pin.stage >= 0 && Stage(v) != pin.stage)
      Fail("pin", fmt::format("{} is in stage {}, pinned to {}", pin.op, Stage(v), pin.stage), {v});
    const int other = g_.FindOp(pin.same_role_as);
    if (other >= 0 && role_[v] != role_[other])
      Fail("pin", fmt::format("{} is not in the role of {}", pin.op, pin.same_role_as), {v, other});
    if (pin.depth > 0 &&
        (life_[v] > pin.depth * ii_ || (g_.ops[v].smem_bytes > 0 && depth_[v] != pin.depth)))
      Fail("pin",
           fmt::format("{} lives {} cycles in a ring of {}, pinned to {} slots", pin.op, life_[v],
                       depth_[v], pin.depth),
           {v});
  }
}

CheckReport Check(const Graph& graph, const ir::Schedule& schedule) {
  if (std::none_of(graph.ops.begin(), graph.ops.end(), [](const GraphOp& op) { return op.routed; }))
    return ScheduleChecker(graph, graph, schedule).Run();
  const Spelled spelled = SpellOut(graph, schedule);
  CheckReport report = ScheduleChecker(spelled.graph, graph, schedule).Run();
  for (Violation& violation : report.violations)
    for (int& op : violation.ops) op = spelled.origin[op];
  return report;
}

}  // namespace tilec::scheduler
