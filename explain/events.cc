// The program behind a schedule as a timed event graph (docs/scheduler.md §4), to say in words
// which circle of ops takes its whole period.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "explain/internal.h"
#include "ir/event_graph.h"

namespace tilec::explain {

namespace {

using scheduler::EdgeKind;
using scheduler::GraphEdge;

struct Events {
  ir::EventGraph graph;
  std::vector<std::string> why;  // as graph.edges

  void Add(int from, int to, int64_t delay, int64_t tokens, std::string text) {
    graph.edges.push_back({from, to, delay, tokens});
    why.push_back(std::move(text));
  }
};

int64_t CyclesOn(const Explanation& e, int op, int unit) {
  for (const scheduler::UnitUse& use : e.graph.ops[op].uses)
    if (use.unit == unit) return use.cycles;
  return 0;
}

std::string EdgeText(EdgeKind kind, const EdgeFacts& facts) {
  const char* what = kind == EdgeKind::kOrder ? "must be done before it" : "makes its operand";
  return facts.transfer > 0
             ? fmt::format("{}, {} cycles of it to hand it over", what, facts.transfer)
             : what;
}

Events Needs(const Explanation& e) {
  Events events;
  events.graph.nodes = static_cast<int>(e.graph.ops.size());
  std::map<int, int> depth;
  for (const LifeFacts& life : e.lives)
    if (life.depth > 0) depth[life.op] = life.depth;
  for (size_t i = 0; i < e.graph.edges.size(); ++i) {
    const GraphEdge& edge = e.graph.edges[i];
    const int64_t stages = e.ops[edge.to].stage - e.ops[edge.from].stage;
    events.Add(edge.from, edge.to, edge.delay + e.edges[i].transfer, edge.distance + stages,
               EdgeText(edge.kind, e.edges[i]));
    const auto ring = depth.find(edge.from);
    if (edge.kind == EdgeKind::kOrder || ring == depth.end()) continue;
    // An op may overwrite in place what it read itself.
    if (edge.from == edge.to && edge.hold == 0 && edge.distance == ring->second) continue;
    events.Add(edge.to, edge.from, edge.hold, ring->second - edge.distance - stages,
               ring->second == 1 ? std::string("still reads the only slot")
                                 : fmt::format("still reads the oldest of {} slots", ring->second));
  }
  for (const ir::OrderEdge& order : e.schedule.order) {
    const int from = e.graph.FindOp(order.from), to = e.graph.FindOp(order.to);
    const int unit = e.graph.FindUnit(order.unit);
    if (!order.enforced || from < 0 || to < 0 || unit < 0) continue;
    events.Add(from, to, CyclesOn(e, from, unit), e.ops[from].slot < e.ops[to].slot ? 0 : 1,
               fmt::format("has the unit {} first", order.unit));
  }
  return events;
}

// Ops by slot; inside a slot producers before consumers, readers before what overwrites.
void OrderInSlots(const Explanation& e, const Events& events, std::vector<int>* ops) {
  for (size_t begin = 0; begin < ops->size();) {
    size_t end = begin;
    while (end < ops->size() && e.ops[(*ops)[end]].slot == e.ops[(*ops)[begin]].slot) ++end;
    std::vector<int> left(ops->begin() + static_cast<int64_t>(begin),
                          ops->begin() + static_cast<int64_t>(end));
    std::stable_sort(left.begin(), left.end(),
                     [&](int a, int b) { return e.ops[a].cycle > e.ops[b].cycle; });
    for (size_t at = begin; at < end; ++at) {
      const auto waits = [&](int v) {
        return std::any_of(events.graph.edges.begin(), events.graph.edges.end(),
                           [&](const ir::EventEdge& edge) {
                             return edge.to == v && edge.from != v && edge.tokens <= 0 &&
                                    std::find(left.begin(), left.end(), edge.from) != left.end();
                           });
      };
      auto pick = std::find_if_not(left.begin(), left.end(), waits);
      if (pick == left.end()) pick = left.begin();  // a circle: a broken schedule
      (*ops)[at] = *pick;
      left.erase(pick);
    }
    begin = end;
  }
}

}  // namespace

void ReadEvents(Explanation* e) {
  if (e->graph.ops.empty()) return;
  Events events = Needs(*e);
  const Events needs = events;
  for (size_t r = 0; r < e->roles.size(); ++r) {
    std::vector<int>& ops = e->roles[r].ops;
    OrderInSlots(*e, needs, &ops);
    std::vector<int> busy;
    for (int v : ops)
      if (e->graph.ops[v].issue > 0) busy.push_back(v);
    const auto chain = [&](const std::vector<int>& list, bool with_issue) {
      for (size_t i = 0; i < list.size(); ++i) {
        const bool last = i + 1 == list.size();
        events.Add(list[i], list[last ? 0 : i + 1], with_issue ? e->graph.ops[list[i]].issue : 0,
                   last ? 1 : 0, fmt::format("comes before it in {}", e->schedule.roles[r].name));
      }
    };
    chain(busy, true);
    if (busy.size() < ops.size()) chain(ops, false);
  }
  if (!ir::DeadCircle(events.graph).empty()) return;  // the report says so
  const ir::Period period = ir::ExactPeriod(events.graph);
  e->period = period.Ceil();
  for (int i : period.circle)
    e->circle.push_back({events.graph.edges[i].from, events.why[i], events.graph.edges[i].delay});
}

}  // namespace tilec::explain
