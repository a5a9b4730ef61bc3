// SPDX-License-Identifier: Apache-2.0
#include "scheduler/contract.h"

#include <algorithm>
#include <optional>
#include <set>

#include "scheduler/bounds.h"

namespace tilec::scheduler {

namespace {

constexpr int64_t kSmall = 32;  // the largest issue time over that of a small op
constexpr int64_t kFewRegisters = 4;

bool Computes(const GraphOp& op) { return !op.async && !op.variable_latency; }
bool InRegisters(const GraphOp& op) { return op.smem_bytes == 0 && op.tmem_columns == 0; }
bool Alike(const GraphOp& a, const GraphOp& b) { return a.slice == b.slice && a.warps == b.warps; }

// The only reader of v, by registers and in the same iteration; or −1.
int OnlyReader(const Graph& g, int v) {
  int reader = -1;
  for (const GraphEdge& e : g.edges) {
    if (e.from != v) continue;
    if (e.kind != EdgeKind::kRegister || e.distance != 0 || (reader >= 0 && reader != e.to))
      return -1;
    reader = e.to;
  }
  return reader == v ? -1 : reader;
}

// Whether `to` waits for `from` of the same iteration by a path other than the edge itself.
bool OtherPath(const Graph& g, int from, int to) {
  std::vector<bool> seen(g.ops.size(), false);
  std::vector<int> open;
  for (const GraphEdge& e : g.edges)
    if (e.from == from && e.distance == 0 && e.to != to && !seen[e.to]) {
      seen[e.to] = true;
      open.push_back(e.to);
    }
  while (!open.empty()) {
    const int v = open.back();
    open.pop_back();
    if (v == to) return true;
    for (const GraphEdge& e : g.edges)
      if (e.from == v && e.distance == 0 && !seen[e.to]) {
        seen[e.to] = true;
        open.push_back(e.to);
      }
  }
  return false;
}

int64_t LargestIssue(const Graph& g) {
  int64_t largest = 0;
  for (const GraphOp& op : g.ops) largest = std::max(largest, op.issue);
  return largest;
}

// Small ops into their only reader.
bool Swallow(Extraction* loop) {
  const Graph& g = loop->graph;
  const int64_t largest = LargestIssue(g);
  for (int v = 0; v < static_cast<int>(g.ops.size()); ++v) {
    const GraphOp& op = g.ops[v];
    if (!Computes(op) || !InRegisters(op) || op.issue * kSmall > largest) continue;
    const int y = OnlyReader(g, v);
    if (y < 0 || !Computes(g.ops[y]) || !Alike(op, g.ops[y])) continue;
    MergeOps(loop, v, y, y);
    return true;
  }
  return false;
}

class Chains {
 public:
  explicit Chains(Extraction* loop)
      : loop_(loop),
        bound_(LeastPeriod(loop->graph)),
        limit_(std::max(bound_ / 2, LargestIssue(loop->graph))) {}

  // An op into its only reader, if the two together stay short and nothing stalls in between for
  // long; a few rows into the op that makes what they are made of.
  bool Step() {
    const Graph& g = loop_->graph;
    for (int v = 0; v < static_cast<int>(g.ops.size()); ++v) {
      const GraphOp& op = g.ops[v];
      if (!Computes(op) || !InRegisters(op) ||
          op.latency - op.issue > std::max<int64_t>(16, op.issue / 4))
        continue;
      const int y = OnlyReader(g, v);
      if (y >= 0 && Fits(v, y) && Try(v, y, y)) return true;
    }
    const int64_t largest = LargestIssue(g);
    for (const GraphEdge& e : g.edges) {
      const GraphOp &v = g.ops[e.from], &y = g.ops[e.to];
      if (e.kind != EdgeKind::kRegister || e.distance != 0 || y.issue * kSmall > largest) continue;
      if (v.regs > kFewRegisters || y.regs > kFewRegisters || !Computes(v) || !InRegisters(v) ||
          !InRegisters(y))
        continue;
      if (Fits(e.from, e.to) && Try(e.from, e.to, e.from)) return true;
    }
    return false;
  }

 private:
  bool Fits(int v, int y) const {
    const Graph& g = loop_->graph;
    return Computes(g.ops[y]) && Alike(g.ops[v], g.ops[y]) &&
           g.ops[v].issue + g.ops[y].issue <= limit_ && !OtherPath(g, v, y);
  }
  // Keeps the merger if no bound on the initiation interval rises.
  bool Try(int first, int second, int named) {
    if (tried_.count({loop_->graph.ops[first].name, loop_->graph.ops[second].name}) > 0)
      return false;
    tried_.insert({loop_->graph.ops[first].name, loop_->graph.ops[second].name});
    Extraction merged = *loop_;
    MergeOps(&merged, first, second, named);
    if (LeastPeriod(merged.graph) > bound_) return false;
    *loop_ = std::move(merged);
    return true;
  }

  Extraction* loop_;
  const int64_t bound_, limit_;
  std::set<std::pair<std::string, std::string>> tried_;
};

}  // namespace

void MergeOps(Extraction* loop, int first, int second, int named) {
  Graph* g = &loop->graph;
  const GraphOp a = g->ops[first], b = g->ops[second];
  const int gone = named == first ? second : first;
  OpOrigin& origin = loop->origins[named];
  if (named == first) {
    const std::vector<OriginStep>& steps = loop->origins[second].steps;
    origin.steps.insert(origin.steps.end(), steps.begin(), steps.end());
  } else {
    const std::vector<OriginStep>& steps = loop->origins[first].steps;
    origin.steps.insert(origin.steps.begin(), steps.begin(), steps.end());
    origin.main += static_cast<int>(steps.size());
  }

  bool first_read = false;  // by anyone else
  for (const GraphEdge& e : g->edges)
    first_read = first_read || (e.from == first && e.kind != EdgeKind::kOrder &&
                                !(e.to == second && e.distance == 0));
  GraphOp& op = g->ops[named];
  op.issue = a.issue + b.issue;
  op.latency = a.latency + b.latency;
  op.regs = b.regs + (first_read ? a.regs : 0);
  op.smem_bytes = b.smem_bytes;
  op.tmem_columns = b.tmem_columns;
  op.uses = a.uses;
  for (const UnitUse& use : b.uses) AddUse(&op, use);

  // Pins move along; one that ties the two together has nothing left to say.
  const std::string kept = g->ops[named].name, lost = g->ops[gone].name;
  for (Graph::Pin& pin : g->pins) {
    if (pin.op == lost) pin.op = kept;
    if (pin.same_role_as == lost) pin.same_role_as = kept;
    if (pin.op == pin.same_role_as) pin.same_role_as.clear();
  }
  std::erase_if(g->pins, [](const Graph::Pin& pin) {
    return pin.cycle < 0 && pin.stage < 0 && pin.depth == 0 && pin.same_role_as.empty();
  });

  std::vector<GraphEdge> edges;
  for (GraphEdge e : g->edges) {
    if (e.from == first && e.to == second && e.distance == 0) continue;
    // What `second` reads it reads that much after the start, what it makes is ready that much
    // later.
    if (e.to == second) {
      e.delay = std::max<int64_t>(0, e.delay - a.issue);
      if (e.hold > 0) e.hold += a.issue;
    }
    if (e.from == second && e.delay > 0) e.delay += a.latency;
    if (e.from == gone) e.from = named;
    if (e.to == gone) e.to = named;
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
    e.from -= e.from > gone ? 1 : 0;
    e.to -= e.to > gone ? 1 : 0;
  }
  g->edges = std::move(edges);
  g->ops.erase(g->ops.begin() + gone);
  loop->origins.erase(loop->origins.begin() + gone);
}

void ContractSmallOps(Extraction* loop) {
  while (Swallow(loop)) {
  }
  Chains chains(loop);
  while (chains.Step()) {
  }
}

}  // namespace tilec::scheduler
