// SPDX-License-Identifier: Apache-2.0
#include "ir/event_graph.h"

#include <algorithm>

#include "support/check.h"

namespace tilec::ir {

namespace {

using Wide = __int128;

// A circle of positive weight (longest paths by Bellman–Ford), or nothing.
template <typename Weight>
std::vector<int> PositiveCircle(const EventGraph& g, const Weight& weight) {
  std::vector<Wide> distance(g.nodes, 0);
  std::vector<int> into(g.nodes, -1);  // last edge of the longest path
  int touched = -1;
  for (int round = 0; round < g.nodes; ++round) {
    touched = -1;
    for (size_t i = 0; i < g.edges.size(); ++i) {
      const EventEdge& e = g.edges[i];
      const Wide candidate = distance[e.from] + weight(e);
      if (candidate <= distance[e.to]) continue;
      distance[e.to] = candidate;
      into[e.to] = static_cast<int>(i);
      touched = e.to;
    }
    if (touched < 0) return {};
  }
  if (touched < 0) return {};
  // Going back n steps ends on the circle.
  int node = touched;
  for (int i = 0; i < g.nodes; ++i) node = g.edges[into[node]].from;
  std::vector<int> circle;
  const int start = node;
  do {
    circle.push_back(into[node]);
    node = g.edges[into[node]].from;
  } while (node != start);
  std::reverse(circle.begin(), circle.end());
  return circle;
}

}  // namespace

std::vector<int> DeadCircle(const EventGraph& graph) {
  // Σ tokens <= 0 on a simple circle of at most n edges, as Σ (1 − (n + 1)·tokens) > 0.
  const Wide scale = graph.nodes + 1;
  return PositiveCircle(graph, [&](const EventEdge& e) { return Wide{1} - scale * e.tokens; });
}

// From a circle to a better one until there is none: every step raises the ratio, and there are
// finitely many circles.
Period ExactPeriod(const EventGraph& graph) {
  Period best;
  while (true) {
    const std::vector<int> circle = PositiveCircle(graph, [&](const EventEdge& e) {
      return Wide{best.tokens} * e.delay - Wide{best.delay} * e.tokens;
    });
    if (circle.empty()) return best;
    best.delay = best.tokens = 0;
    for (int i : circle) {
      best.delay += graph.edges[i].delay;
      best.tokens += graph.edges[i].tokens;
    }
    CHECK(best.tokens > 0, "a period asked of a graph that is not live");
    best.circle = circle;
  }
}

}  // namespace tilec::ir
