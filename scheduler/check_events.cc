// Who follows whom when the program runs: the order of ops on units that a schedule promises, and
// the timed event graph of dependences, rings, turns and instruction streams, in which nothing may
// wait for itself and no circle may take longer than II.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "ir/event_graph.h"
#include "scheduler/checker.h"

namespace tilec::scheduler {

int64_t ScheduleChecker::Occupancy(int v, int unit) const {
  for (const UnitUse& use : g_.ops[v].uses)
    if (use.unit == unit) return use.cycles;
  return 0;
}

// The op that follows v on a unit of one instance.
int ScheduleChecker::NextOn(int v, int unit) const {
  int next = v;
  int64_t least = ii_;
  for (int u = 0; u < n_; ++u) {
    if (u == v || Occupancy(u, unit) == 0) continue;
    const int64_t gap = Slot(u) - Slot(v) + (Slot(u) < Slot(v) ? ii_ : 0);
    if (gap < least) least = gap, next = u;
  }
  return next;
}

void ScheduleChecker::Order() {
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
std::vector<int> ScheduleChecker::ProgramOrder(const ir::EventGraph& events) const {
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

void ScheduleChecker::Events() {
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
                   period.delay, period.tokens, period.tokens == 1 ? "" : "s", report_.event_period,
                   ii_),
       ops);
}

}  // namespace tilec::scheduler
