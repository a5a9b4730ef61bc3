// SPDX-License-Identifier: Apache-2.0
#include "scheduler/crossing.h"

#include <fmt/format.h>

#include <map>

#include "ir/isa.h"
#include "scheduler/op_work.h"

namespace tilec::scheduler {

using ir::isa::kWarpThreads;

void AddRoutes(const ir::Target& target, Extraction* loop) {
  Graph& g = loop->graph;
  const ir::OpCost* store_cost = target.CostOf(Spelling(StepKind::kSmemStore));
  const ir::OpCost* load_cost = target.CostOf(Spelling(StepKind::kSmemLoad));
  if (store_cost == nullptr || load_cost == nullptr) return;
  // What the threads of the producer's role hold of its value; the reader's hold the same.
  auto add = [&](StepKind step, const ir::OpCost& cost, int from, int at, const std::string& name) {
    const int64_t bytes = g.ops[from].regs * 4 * kWarpThreads * g.ops[from].warps;
    ir::Work work;
    work.bytes = static_cast<double>(bytes);
    work.elements = work.bytes / 4;
    GraphOp op = CostedOp(cost, work, g.ops[at].at);
    op.name = name;
    op.slice = g.ops[at].slice;
    op.warps = g.ops[at].warps;
    op.routed = true;
    if (step == StepKind::kSmemStore)
      op.smem_bytes = bytes;
    else
      op.regs = g.ops[from].regs;
    const OpOrigin& source = loop->origins[from];
    loop->origins.push_back({{{step, ir::OpId(), source.steps[source.main].value}}, 0, op.slice});
    g.ops.push_back(std::move(op));
    return static_cast<int>(g.ops.size()) - 1;
  };
  std::map<int, int> stores;  // by producer
  for (GraphEdge& e : g.edges) {
    if (e.kind != EdgeKind::kRegister || e.distance != 0 || !e.crossable || e.from == e.to ||
        g.ops[e.from].variable_latency || g.ops[e.to].variable_latency || g.ops[e.from].regs == 0)
      continue;
    const auto [store, fresh] = stores.try_emplace(e.from, 0);
    const std::string from = g.ops[e.from].name;  // ops move
    if (fresh)
      store->second = add(StepKind::kSmemStore, *store_cost, e.from, e.from, from + ".out");
    e.store = store->second;
    e.load = add(StepKind::kSmemLoad, *load_cost, e.from, e.to,
                 fmt::format("{}.in.{}", from, g.ops[e.to].name));
    e.transfer = target.Transfer(
        "smem", static_cast<double>(g.ops[static_cast<size_t>(e.store)].smem_bytes));
  }
}

}  // namespace tilec::scheduler
