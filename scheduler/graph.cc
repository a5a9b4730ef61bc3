// What any graph must satisfy before anything looks at it, and its identity.
//
// SPDX-License-Identifier: Apache-2.0
#include "scheduler/graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "scheduler/diagnostics.h"

namespace tilec::scheduler {

namespace {

// Sums over a graph stay far inside 64 bits.
constexpr int64_t kMostCost = 1'000'000'000;
constexpr int64_t kMostDistance = 10'000;
constexpr size_t kMostOps = 10'000;

bool IsName(std::string_view name) {
  if (name.empty() || name == "-" || name == "->") return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return static_cast<unsigned char>(c) > ' ' && c != '#' && c != '=' && c != ',' && c != ':';
  });
}

class Checker {
 public:
  Checker(const Graph& graph, DiagSink& diags) : g_(graph), diags_(diags) {}

  Result<> Run() {
    TRY_VOID(CheckMachine());
    TRY_VOID(CheckUnits());
    TRY_VOID(CheckOps());
    TRY_VOID(CheckEdges());
    TRY_VOID(CheckRoutes());
    TRY_VOID(CheckPins());
    return CheckCycles();
  }

 private:
  Result<> InRange(const std::string& what, Span at, int64_t value, int64_t low, int64_t high) {
    if (value >= low && value <= high) return Done();
    return diags_.Report(kGraphValue, at,
                         fmt::format("{} is {}, not in {}…{}", what, value, low, high));
  }

  Result<> CheckMachine() {
    const MachineLimits& m = g_.machine;
    if (!IsName(g_.name))
      return diags_.Report(kGraphName, {}, fmt::format("`{}` is no name of a graph", g_.name))
          .Place("graph");
    TRY_VOID(InRange("smem of the machine", {}, m.smem_bytes, 0, kMostCost));
    TRY_VOID(InRange("tmem of the machine", {}, m.tmem_columns, 0, kMostCost));
    TRY_VOID(InRange("regs of the machine", {}, m.max_regs_per_thread, 0, 1 << 16));
    TRY_VOID(InRange("registers of the machine", {}, m.registers, 0, kMostCost));
    TRY_VOID(InRange("warps of the machine", {}, m.max_warps, 1, 64));
    return InRange("barrier of the machine", {}, m.barrier_bytes, 0, kMostCost);
  }

  Result<> CheckUnits() {
    std::set<std::string> seen;
    for (const Unit& unit : g_.units) {
      if (!IsName(unit.name))
        return diags_.Report(kGraphName, {}, fmt::format("`{}` is no name of a unit", unit.name))
            .Place("graph");
      if (!seen.insert(unit.name).second)
        return diags_.Report(kGraphName, {}, fmt::format("two units are called `{}`", unit.name))
            .Place("graph");
      TRY_VOID(InRange("capacity of unit " + unit.name, {}, unit.capacity, 1, 1'000'000));
    }
    return Done();
  }

  Result<> CheckOps() {
    std::set<std::string> seen;
    if (g_.ops.size() > kMostOps)
      return diags_
          .Report(kGraphValue, {}, fmt::format("{} ops, more than {}", g_.ops.size(), kMostOps))
          .Place("graph");
    const GraphOp* first_load = nullptr;
    for (const GraphOp& op : g_.ops) {
      if (!IsName(op.name))
        return diags_.Report(kGraphName, op.at, fmt::format("`{}` is no name of an op", op.name));
      if (!seen.insert(op.name).second)
        return diags_.Report(kGraphName, op.at, fmt::format("two ops are called `{}`", op.name));
      if (!op.part.empty() && !IsName(op.part))
        return diags_.Report(kGraphName, op.at, fmt::format("`{}` is no name of a unit", op.part));
      const std::string of = " of op " + op.name;
      TRY_VOID(InRange("issue" + of, op.at, op.issue, 0, kMostCost));
      TRY_VOID(InRange("latency" + of, op.at, op.latency, 0, kMostCost));
      TRY_VOID(InRange("regs" + of, op.at, op.regs, 0, 1 << 16));
      TRY_VOID(InRange("smem" + of, op.at, op.smem_bytes, 0, kMostCost));
      TRY_VOID(InRange("tmem" + of, op.at, op.tmem_columns, 0, kMostCost));
      TRY_VOID(InRange("warps" + of, op.at, op.warps, 1, g_.machine.max_warps));
      TRY_VOID(InRange("slice" + of, op.at, op.slice, -1, 1'000'000));
      std::set<int> units;
      for (const UnitUse& use : op.uses) {
        TRY_VOID(InRange("a unit number" + of, op.at, use.unit, 0,
                         static_cast<int64_t>(g_.units.size()) - 1));
        TRY_VOID(
            InRange("cycles on " + g_.units[use.unit].name + of, op.at, use.cycles, 0, kMostCost));
        if (!units.insert(use.unit).second)
          return diags_.Report(
              kGraphOpShape, op.at,
              fmt::format("op `{}` uses unit `{}` twice", op.name, g_.units[use.unit].name));
      }
      if (op.smem_bytes > 0 && op.tmem_columns > 0)
        return diags_.Report(kGraphOpShape, op.at,
                             fmt::format("the value of op `{}` is in two memories", op.name));
      if (op.streaming && !op.variable_latency)
        return diags_
            .Report(kGraphOpShape, op.at,
                    fmt::format("op `{}` is streaming but not variable", op.name))
            .Help("only ops of the load role run ahead");
      if (!op.variable_latency) continue;
      if (first_load == nullptr) first_load = &op;
      if (op.warps != first_load->warps)
        return diags_
            .Report(kGraphOpShape, op.at,
                    fmt::format("op `{}` has {} warps, op `{}` has {}, and both are of the load "
                                "role",
                                op.name, op.warps, first_load->name, first_load->warps))
            .Label(first_load->at, "the other one");
    }
    return Done();
  }

  Result<> CheckEdges() {
    const int64_t n = static_cast<int64_t>(g_.ops.size());
    for (const GraphEdge& e : g_.edges) {
      TRY_VOID(InRange("an edge's source", {}, e.from, 0, n - 1));
      TRY_VOID(InRange("an edge's target", {}, e.to, 0, n - 1));
      const std::string of =
          fmt::format(" of edge {} -> {}", g_.ops[e.from].name, g_.ops[e.to].name);
      const Span at = g_.ops[e.to].at;
      TRY_VOID(InRange("delay" + of, at, e.delay, 0, kMostCost));
      TRY_VOID(InRange("distance" + of, at, e.distance, 0, kMostDistance));
      TRY_VOID(InRange("transfer" + of, at, e.transfer, 0, kMostCost));
      TRY_VOID(InRange("hold" + of, at, e.hold, 0, kMostCost));
      if (g_.ops[e.to].streaming && e.distance == 0)
        return diags_.Report(kGraphOpShape, at,
                             fmt::format("op `{}` is streaming but waits for `{}` of its iteration",
                                         g_.ops[e.to].name, g_.ops[e.from].name));
    }
    return Done();
  }

  // A store belongs to one producer, a load to one edge, and nothing else touches them.
  Result<> CheckRoutes() {
    std::vector<int> owner(g_.ops.size(), -1);
    auto wrong = [&](int v, const std::string& text) {
      return diags_.Report(kGraphOpShape, g_.ops[v].at, text)
          .Help(
              "a route is a store of its producer and a load of its own, both `routed`, of the "
              "widths of the edge's ends; only the store has a place in shared memory");
    };
    const int64_t n = static_cast<int64_t>(g_.ops.size());
    for (const GraphEdge& e : g_.edges) {
      if (e.store < 0 && e.load < 0) {
        for (int v : {e.from, e.to})
          if (g_.ops[v].routed)
            return wrong(v, fmt::format("edge {} -> {} names op `{}`, which is of a route",
                                        g_.ops[e.from].name, g_.ops[e.to].name, g_.ops[v].name));
        continue;
      }
      TRY_VOID(InRange("an edge's store", {}, e.store, 0, n - 1));
      TRY_VOID(InRange("an edge's load", {}, e.load, 0, n - 1));
      const GraphOp &from = g_.ops[e.from], &to = g_.ops[e.to];
      const GraphOp &store = g_.ops[e.store], &load = g_.ops[e.load];
      const std::string of = fmt::format("the route of edge {} -> {}", from.name, to.name);
      if (e.kind != EdgeKind::kRegister || e.distance != 0 || !e.crossable || e.from == e.to ||
          from.variable_latency || to.variable_latency || from.routed || to.routed)
        return wrong(e.to, of + " leads where none can: it is for registers between ops that may "
                                "be in two compute roles, within an iteration");
      if (!store.routed || !load.routed || store.warps != from.warps || load.warps != to.warps ||
          store.smem_bytes == 0 || store.regs > 0 || store.tmem_columns > 0 ||
          load.smem_bytes > 0 || load.tmem_columns > 0 || store.variable_latency ||
          load.variable_latency)
        return wrong(e.store, of + fmt::format(" cannot be `{}`, `{}`", store.name, load.name));
      if (owner[e.load] >= 0 || e.store == e.load ||
          (owner[e.store] >= 0 && owner[e.store] != e.from))
        return wrong(e.load, of + " shares an op with another edge's");
      owner[e.store] = e.from;
      owner[e.load] = static_cast<int>(n);  // of no producer
    }
    for (int v = 0; v < static_cast<int>(n); ++v)
      if (g_.ops[v].routed && owner[v] < 0)
        return wrong(
            v, fmt::format("op `{}` is `routed`, and no edge goes through it", g_.ops[v].name));
    for (const Graph::Pin& pin : g_.pins)
      for (const std::string* name : {&pin.op, &pin.same_role_as})
        if (const int v = g_.FindOp(*name); v >= 0 && g_.ops[v].routed)
          return wrong(v, fmt::format("a pin names op `{}`, which is of a route", *name));
    return Done();
  }

  Result<> CheckPins() {
    for (const Graph::Pin& pin : g_.pins) {
      for (const std::string* name : {&pin.op, &pin.same_role_as})
        if (g_.FindOp(*name) < 0 && (name == &pin.op || !name->empty()))
          return diags_.Report(kGraphName, pin.at,
                               fmt::format("a pin names op `{}`, which does not exist", *name));
      TRY_VOID(InRange("cycle of the pin of " + pin.op, pin.at, pin.cycle, -1, kMostCost));
      TRY_VOID(InRange("stage of the pin of " + pin.op, pin.at, pin.stage, -1, 1'000'000));
      TRY_VOID(InRange("depth of the pin of " + pin.op, pin.at, pin.depth, 0, 1'000'000));
    }
    return Done();
  }

  // Depth-first search over edges of distance 0.
  Result<> CheckCycles() {
    const int n = static_cast<int>(g_.ops.size());
    std::vector<std::vector<int>> next(n);
    for (const GraphEdge& e : g_.edges)
      if (e.distance == 0) next[e.from].push_back(e.to);
    std::vector<int> state(n, 0);  // 0 new, 1 on the path, 2 done
    std::vector<std::pair<int, size_t>> path;
    for (int root = 0; root < n; ++root) {
      if (state[root] != 0) continue;
      path.assign(1, {root, 0});
      state[root] = 1;
      while (!path.empty()) {
        const int v = path.back().first;
        if (path.back().second == next[v].size()) {
          state[v] = 2;
          path.pop_back();
          continue;
        }
        const int to = next[v][path.back().second++];
        if (state[to] == 0) {
          state[to] = 1;
          path.emplace_back(to, 0);
        } else if (state[to] == 1) {
          std::string text;
          bool on = false;
          for (const auto& step : path) {
            on = on || step.first == to;
            if (on) text += g_.ops[step.first].name + " -> ";
          }
          return diags_
              .Report(
                  kGraphCycle, g_.ops[to].at,
                  fmt::format("ops wait for each other in a circle: {}{}", text, g_.ops[to].name))
              .Help("an edge from the iteration before has `distance=1`");
        }
      }
    }
    return Done();
  }

  const Graph& g_;
  DiagSink& diags_;
};

}  // namespace

int Graph::FindOp(std::string_view op_name) const {
  for (size_t i = 0; i < ops.size(); ++i)
    if (ops[i].name == op_name) return static_cast<int>(i);
  return -1;
}

int Graph::FindUnit(std::string_view unit_name) const {
  for (size_t i = 0; i < units.size(); ++i)
    if (units[i].name == unit_name) return static_cast<int>(i);
  return -1;
}

void AddUse(GraphOp* op, const UnitUse& use) {
  const auto same = std::find_if(op->uses.begin(), op->uses.end(),
                                 [&](const UnitUse& u) { return u.unit == use.unit; });
  if (same != op->uses.end())
    same->cycles += use.cycles;
  else
    op->uses.push_back(use);
}

Result<> CheckGraph(const Graph& graph, DiagSink& diags) { return Checker(graph, diags).Run(); }

// FNV-1a, 64 bits.
uint64_t Hash(const Graph& graph) {
  uint64_t hash = 14695981039346656037u;
  for (const char c : ToText(graph)) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 1099511628211u;
  }
  return hash;
}

}  // namespace tilec::scheduler
