// SPDX-License-Identifier: Apache-2.0
#include "scheduler/alternate.h"

#include <algorithm>
#include <vector>

#include "support/expr.h"

namespace tilec::scheduler {

namespace {

// Ops that products' results reach, in whatever iteration; not the products.
std::set<int> MadeOf(const std::set<int>& products, const Graph& graph) {
  std::set<int> made;
  std::vector<int> work(products.begin(), products.end());
  while (!work.empty()) {
    const int from = work.back();
    work.pop_back();
    for (const GraphEdge& e : graph.edges)
      if (e.from == from && e.kind != EdgeKind::kOrder && products.count(e.to) == 0 &&
          made.insert(e.to).second)
        work.push_back(e.to);
  }
  return made;
}

// Cycles of the unit that multiplies.
int64_t Busy(const Graph& graph, const GraphOp& product) {
  int64_t busy = 0;
  for (const UnitUse& use : product.uses)
    if (!graph.units[static_cast<size_t>(use.unit)].fluid) busy = std::max(busy, use.cycles);
  return busy;
}

}  // namespace

void LetWarpgroupsAlternate(const std::set<int>& products, const std::set<int>& into_sums,
                            int warpgroups, Graph* graph) {
  if (warpgroups < 2 || products.empty()) return;
  const std::set<int> made = MadeOf(products, *graph);
  for (const GraphEdge& e : graph->edges)
    if (products.count(e.to) > 0 && made.count(e.from) > 0) return;
  int64_t of_products = 0, others = 0;
  for (int v = 0; v < static_cast<int>(graph->ops.size()); ++v) {
    const GraphOp& op = graph->ops[static_cast<size_t>(v)];
    if (op.variable_latency || products.count(v) > 0) continue;
    (made.count(v) > 0 ? of_products : others) += op.issue;
  }
  if (of_products <= others) return;
  for (int v : into_sums) {
    GraphOp& product = graph->ops[static_cast<size_t>(v)];
    if (made.count(v) == 0) continue;
    product.issue = product.latency = 0;
    product.uses.clear();
    for (GraphEdge& e : graph->edges)
      if (e.from == v) e.delay = 0;
  }
  for (int v : products) {
    GraphOp& product = graph->ops[static_cast<size_t>(v)];
    const int64_t busy = Busy(*graph, product);
    const int64_t own = CeilDiv(busy, warpgroups) + std::max<int64_t>(0, product.latency - busy);
    product.issue = std::max(product.issue, own);
    product.latency = product.issue;
    for (GraphEdge& e : graph->edges) {
      if (e.from == v) e.delay = std::min(e.delay, product.latency);
      if (e.to == v) e.hold = std::min(e.hold, product.latency);
    }
  }
}

}  // namespace tilec::scheduler
