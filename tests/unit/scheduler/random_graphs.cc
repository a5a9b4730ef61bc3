// Small random graphs: what the solver and the search through all schedules are compared on.
//
// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/scheduler/exhaustive.h"

#include <algorithm>
#include <cstdlib>
#include <random>

namespace tilec::scheduler {

Graph WithRoutes(Graph g, uint64_t seed, int most) {
  std::mt19937_64 random(seed);
  auto pick = [&](int low, int high) {
    return low + static_cast<int>(random() % static_cast<uint64_t>(high - low + 1));
  };
  std::vector<int> store(g.ops.size(), -1);
  auto add = [&](const std::string& name, int warps, bool is_store) {
    GraphOp op;
    op.name = name;
    op.kind = is_store ? "smem_store" : "smem_load";
    op.issue = pick(0, 2);
    op.latency = pick(0, 3);
    if (pick(0, 2) == 0)
      op.uses.push_back({pick(0, static_cast<int>(g.units.size()) - 1), pick(1, 3)});
    op.warps = warps;
    if (is_store) op.smem_bytes = 100 * pick(1, 2);
    if (!is_store) op.regs = pick(0, 1) * 8;
    op.routed = true;
    g.ops.push_back(op);
    return static_cast<int>(g.ops.size()) - 1;
  };
  int routes = 0;
  for (GraphEdge& e : g.edges) {
    if (routes == most || e.kind == EdgeKind::kOrder || e.distance > 0 || e.from == e.to ||
        g.ops[e.from].variable_latency || g.ops[e.to].variable_latency || pick(0, 5) == 0)
      continue;
    e.kind = EdgeKind::kRegister;
    e.crossable = true;
    const int from_warps = g.ops[e.from].warps, to_warps = g.ops[e.to].warps;
    if (store[e.from] < 0) store[e.from] = add("s" + std::to_string(e.from), from_warps, true);
    e.store = store[e.from];
    e.load = add("l" + std::to_string(routes++), to_warps, false);
  }
  return g;
}

uint64_t SeedShift() {
  const char* value = std::getenv("TILEC_SEED");
  return value ? std::strtoull(value, nullptr, 10) : 0;
}

Graph RandomGraph(uint64_t seed, int max_ops, bool memory) {
  std::mt19937_64 random(seed);
  auto pick = [&](int low, int high) {
    return low + static_cast<int>(random() % static_cast<uint64_t>(high - low + 1));
  };
  Graph g;
  g.name = "random";
  g.machine.name = "random";
  g.machine.max_warps = pick(0, 3) == 0 ? 5 : 16;
  const int units = pick(1, 3);
  for (int f = 0; f < units; ++f)
    g.units.push_back({std::string(1, static_cast<char>('a' + f)), pick(0, 3) == 0 ? 2 : 1});
  const int n = pick(2, max_ops);
  const bool load = pick(0, 2) == 0, narrow = pick(0, 3) == 0;
  for (int v = 0; v < n; ++v) {
    GraphOp op;
    op.name = "v" + std::to_string(v);
    op.kind = "op";
    op.issue = pick(0, 2);
    op.latency = pick(0, 4);
    if (pick(0, 3) > 0) op.uses.push_back({pick(0, units - 1), pick(1, 3)});
    if (load && v == 0) {
      op.variable_latency = op.streaming = op.async = true;
      op.warps = 1;
      if (memory) op.smem_bytes = 100;
    } else if (narrow && v == n - 1) {
      op.warps = 1;
    }
    if (memory && !op.variable_latency) {
      op.regs = pick(0, 2) * 8;
      op.tmem_columns = pick(0, 3) == 0 ? 32 : 0;
    }
    g.ops.push_back(op);
  }
  if (memory) {
    g.machine.max_regs_per_thread = pick(1, 5) * 8;
    g.machine.registers = pick(0, 2) == 0 ? 128 * 8 * pick(6, 12) : 65536;
    g.machine.tmem_columns = 32 * pick(1, 3);
    g.machine.smem_bytes = pick(1, 4) * 116;
  }
  const int edges = pick(n - 1, 2 * n);
  for (int i = 0; i < edges; ++i) {
    GraphEdge e;
    e.from = pick(0, n - 1);
    e.to = pick(0, n - 1);
    e.distance = e.from < e.to ? (pick(0, 5) == 0 ? 1 : 0) : pick(1, 2);
    if (g.ops[e.to].variable_latency && e.distance == 0) continue;
    e.delay = pick(0, 5) == 0 ? pick(0, 4) : g.ops[e.from].latency;
    e.transfer = pick(0, 2);
    e.hold = pick(0, 2) == 0 ? pick(0, 3) : 0;
    const bool apart = g.ops[e.from].warps != g.ops[e.to].warps ||
                       g.ops[e.from].variable_latency != g.ops[e.to].variable_latency;
    const int kind = pick(0, 4);
    e.kind = kind == 0            ? EdgeKind::kOrder
             : kind == 1 || apart ? EdgeKind::kSmem
                                  : EdgeKind::kRegister;
    e.crossable = apart || pick(0, 6) > 0;
    g.edges.push_back(e);
  }
  return g;
}

Graph RandomPoolGraph(uint64_t seed) {
  std::mt19937_64 random(seed);
  auto pick = [&](int low, int high) {
    return low + static_cast<int>(random() % static_cast<uint64_t>(high - low + 1));
  };
  Graph g;
  g.name = g.machine.name = "pool";
  g.machine.max_warps = pick(0, 4) == 0 ? pick(8, 16) : 40;
  const int widths[] = {16, 8, 4, 4, 4, 3, 1};
  const int n = pick(0, 3) == 0 ? 4 : 3;
  int64_t warpgroups = 0;
  for (int v = 0; v < n; ++v) {
    GraphOp op;
    op.name = std::string(1, static_cast<char>('a' + v));
    op.kind = "op";
    op.issue = pick(0, 2);
    op.latency = pick(0, 2);
    op.warps = v > 0 && pick(0, 1) == 0 ? g.ops[v - 1].warps : widths[pick(0, 6)];
    op.warps = std::min<int>(op.warps, static_cast<int>(g.machine.max_warps) / n);
    op.regs = pick(0, 6) * 8;
    warpgroups += (op.warps + 3) / 4;
    g.ops.push_back(op);
  }
  // About as many registers as quotas of 24 to 48 ask for.
  g.machine.registers = 128 * (warpgroups * pick(20, 48) + pick(0, 7));
  const int edges = pick(1, n + 1);
  for (int i = 0; i < edges; ++i) {
    GraphEdge e;
    e.from = pick(0, n - 1);
    e.to = pick(0, n - 1);
    e.distance = e.from < e.to ? 0 : 1;
    e.delay = g.ops[e.from].latency;
    e.transfer = pick(0, 2);
    e.hold = pick(0, 1);
    const bool apart = g.ops[e.from].warps != g.ops[e.to].warps;
    e.kind = apart && e.distance > 0 ? EdgeKind::kSmem : EdgeKind::kRegister;
    g.edges.push_back(e);
  }
  return g;
}

}  // namespace tilec::scheduler
