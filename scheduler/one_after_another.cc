// Warpgroups that take turns at the tensor core hide what each of them does beside it, but not all
// of it. What is left follows from what the turn is made of: its products, its exponentials, and
// what a product waits for across lanes (the largest number of a row), one after the other. A bound
// by units knows nothing of it, and takes the kernel that has no such number to be bound by its
// issue slots.
//
// SPDX-License-Identifier: Apache-2.0
#include "scheduler/one_after_another.h"

#include <algorithm>

#include "ir/op_info.h"

namespace tilec::scheduler {
namespace {

bool UsesUnit(const GraphOp& op, int unit) {
  return std::any_of(op.uses.begin(), op.uses.end(),
                     [&](const UnitUse& use) { return use.unit == unit; });
}

// Ops that a product of the same turn waits for.
std::vector<bool> Awaited(const Graph& graph, int tensor) {
  std::vector<bool> awaited(graph.ops.size());
  for (bool changed = true; changed;) {
    changed = false;
    for (const GraphEdge& e : graph.edges) {
      const auto from = static_cast<size_t>(e.from), to = static_cast<size_t>(e.to);
      if (e.distance > 0 || awaited[from]) continue;
      if (!awaited[to] && !UsesUnit(graph.ops[to], tensor)) continue;
      awaited[from] = changed = true;
    }
  }
  return awaited;
}

}  // namespace

int64_t OneAfterAnother(const ir::Function& fn, const ir::Target& target, const Graph& graph,
                        const std::vector<OpOrigin>& origins) {
  const int tensor = graph.FindUnit("tensor"), exponentials = graph.FindUnit("mufu");
  const std::vector<bool> awaited = Awaited(graph, tensor);
  int64_t sum = 0;
  for (size_t v = 0; v < graph.ops.size(); ++v) {
    for (const UnitUse& use : graph.ops[v].uses)
      if (use.unit == tensor || use.unit == exponentials) sum += use.cycles;
    const bool across =
        std::any_of(origins[v].steps.begin(), origins[v].steps.end(), [&](const OriginStep& step) {
          return step.kind == StepKind::kOp && step.op.valid() &&
                 fn.ops[step.op].kind == ir::OpKind::kReduce;
        });
    if (awaited[v] && across) sum += graph.ops[v].latency;
  }
  return static_cast<int64_t>(target.model.turns_apart_share * static_cast<double>(sum));
}

}  // namespace tilec::scheduler
