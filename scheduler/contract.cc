// SPDX-License-Identifier: Apache-2.0
#include "scheduler/contract.h"

#include <algorithm>

namespace tilec::scheduler {

namespace {

constexpr int64_t kSmall = 32;

bool IsPlain(const GraphOp& op) {
  return !op.async && !op.variable_latency && op.smem_bytes == 0 && op.tmem_columns == 0;
}

// The only reader of v, or −1.
int OnlyReader(const Graph& g, int v) {
  int reader = -1;
  for (const GraphEdge& e : g.edges) {
    if (e.from != v) continue;
    if (e.kind != EdgeKind::kRegister || e.distance != 0 || (reader >= 0 && reader != e.to))
      return -1;
    reader = e.to;
  }
  return reader;
}

void MergeInto(Extraction* loop, int v, int reader) {
  Graph* g = &loop->graph;
  OpOrigin& origin = loop->origins[reader];
  const std::vector<OriginStep>& first = loop->origins[v].steps;
  origin.steps.insert(origin.steps.begin(), first.begin(), first.end());
  origin.main += static_cast<int>(first.size());
  loop->origins.erase(loop->origins.begin() + v);
  const GraphOp small = g->ops[v];
  GraphOp& op = g->ops[reader];
  op.issue += small.issue;
  op.latency += small.latency;
  for (const UnitUse& use : small.uses) {
    auto same = std::find_if(op.uses.begin(), op.uses.end(),
                             [&](const UnitUse& u) { return u.unit == use.unit; });
    if (same != op.uses.end())
      same->cycles += use.cycles;
    else
      op.uses.push_back(use);
  }
  std::vector<GraphEdge> edges;
  for (GraphEdge e : g->edges) {
    if (e.from == v) continue;
    if (e.from == reader && e.delay > 0) e.delay += small.latency;
    if (e.to == reader && e.hold > 0) e.hold += small.issue;  // reads that much later
    if (e.to == v) e.to = reader;
    // Two edges between the same ops: the stricter numbers of both.
    auto twin = std::find_if(edges.begin(), edges.end(), [&](const GraphEdge& o) {
      return o.from == e.from && o.to == e.to && o.kind == e.kind && o.distance == e.distance &&
             o.crossable == e.crossable;
    });
    if (twin == edges.end()) {
      edges.push_back(e);
    } else {
      twin->delay = std::max(twin->delay, e.delay);
      twin->transfer = std::max(twin->transfer, e.transfer);
      twin->hold = std::max(twin->hold, e.hold);
    }
  }
  for (GraphEdge& e : edges) {
    e.from -= e.from > v ? 1 : 0;
    e.to -= e.to > v ? 1 : 0;
  }
  g->edges = std::move(edges);
  g->ops.erase(g->ops.begin() + v);
}

}  // namespace

void ContractSmallOps(Extraction* loop) {
  Graph* graph = &loop->graph;
  int64_t largest = 0;
  for (const GraphOp& op : graph->ops) largest = std::max(largest, op.issue);
  for (int v = 0; v < static_cast<int>(graph->ops.size());) {
    const GraphOp& op = graph->ops[v];
    const int reader = IsPlain(op) && op.issue * kSmall <= largest ? OnlyReader(*graph, v) : -1;
    if (reader >= 0 && reader != v && IsPlain(graph->ops[reader]) &&
        graph->ops[reader].slice == op.slice && graph->ops[reader].warps == op.warps) {
      MergeInto(loop, v, reader);
      v = 0;  // what read v may now be small and single itself
    } else {
      ++v;
    }
  }
}

}  // namespace tilec::scheduler
