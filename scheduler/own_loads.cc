// SPDX-License-Identifier: Apache-2.0
#include "scheduler/own_loads.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "ir/loop_plan.h"
#include "scheduler/contract.h"

namespace tilec::scheduler {

namespace {

using ir::OpId;
using ir::OpKind;

class Loads {
 public:
  Loads(const ir::Function& fn, const std::function<bool(OpId)>& ring, Extraction* loop)
      : fn_(fn), ring_(ring), loop_(loop), graph_(loop->graph) {}

  void Run() {
    for (int v = 0; v < Size();) {
      const OpId load = LoadOf(v);
      if (!load.valid() || !graph_.ops[Index(v)].variable_latency || ring_(load) || !TakeRing(v))
        ++v;
    }
    for (int v = 0; v < Size();)
      if (!IntoReader(v)) ++v;
  }

 private:
  static size_t Index(int v) { return static_cast<size_t>(v); }
  int Size() const { return static_cast<int>(graph_.ops.size()); }
  const OriginStep& Main(int v) const {
    const OpOrigin& origin = loop_->origins[Index(v)];
    return origin.steps[Index(origin.main)];
  }
  // Of an op that is a load and nothing else.
  OpId LoadOf(int v) const {
    const OriginStep& main = Main(v);
    return main.kind == StepKind::kOp && main.op.valid() && fn_.ops[main.op].kind == OpKind::kLoad
               ? main.op
               : OpId();
  }

  // The threads that read the ring load. False: somebody reads the tile where a copy would put it.
  bool TakeRing(int load) {
    std::vector<int> readers;
    for (const GraphEdge& e : graph_.edges)
      if (e.from == load && e.kind != EdgeKind::kOrder) readers.push_back(e.to);
    const OriginStep& main = Main(load);
    for (int r : readers) {
      const std::vector<OriginStep>& steps = loop_->origins[Index(r)].steps;
      const bool in_registers =
          std::any_of(steps.begin(), steps.end(), [&](const OriginStep& step) {
            return step.kind == StepKind::kSmemLoad && step.value == main.value;
          });
      if (!in_registers) return false;
    }
    if (readers.empty()) return false;
    for (int r : readers)
      for (OriginStep& step : loop_->origins[Index(r)].steps)
        if (step.kind == StepKind::kSmemLoad && step.value == main.value) step = main;
    const int first = readers.front();
    for (const UnitUse& use : graph_.ops[Index(load)].uses) AddUse(&graph_.ops[Index(first)], use);
    for (GraphEdge& e : graph_.edges) {
      if (e.to == load) e.to = first;
      if (e.from == load && e.kind == EdgeKind::kOrder) e.from = first;
    }
    std::erase_if(graph_.edges, [&](const GraphEdge& e) {
      return e.from == load || (e.from == e.to && e.distance == 0);
    });
    for (GraphEdge& e : graph_.edges) {
      e.from -= e.from > load ? 1 : 0;
      e.to -= e.to > load ? 1 : 0;
    }
    const std::string name = graph_.ops[Index(load)].name;
    std::erase_if(graph_.pins, [&](const Graph::Pin& pin) { return pin.op == name; });
    graph_.ops.erase(graph_.ops.begin() + load);
    loop_->origins.erase(loop_->origins.begin() + load);
    return true;
  }

  // A load of the threads' becomes a part of the first op that reads it in its iteration.
  bool IntoReader(int v) {
    const OpId load = LoadOf(v);
    GraphOp& op = graph_.ops[Index(v)];
    if (!load.valid() || op.variable_latency || ring_(load)) return false;
    op.latency = op.issue;  // other CTAs hide the rest
    for (GraphEdge& e : graph_.edges)
      if (e.from == v) e.delay = std::min(e.delay, op.latency);
    if (!ir::IsReplicated(fn_, fn_.ops[load])) return false;
    std::set<int> readers;
    for (const GraphEdge& e : graph_.edges)
      if (e.from == v && e.kind == EdgeKind::kRegister && e.distance == 0) readers.insert(e.to);
    for (int reader : readers) {
      const bool last = std::any_of(readers.begin(), readers.end(), [&](int other) {
        return other != reader && Leads(other, reader);
      });
      const GraphOp& to = graph_.ops[Index(reader)];
      if (last || to.async || to.variable_latency || to.slice != op.slice) continue;
      MergeOps(loop_, v, reader, reader);
      return true;
    }
    return false;
  }
  // Does `to` wait for `from` of the same iteration?
  bool Leads(int from, int to) const {
    std::vector<bool> seen(graph_.ops.size(), false);
    std::vector<int> open = {from};
    while (!open.empty()) {
      const int v = open.back();
      open.pop_back();
      if (v == to) return true;
      for (const GraphEdge& e : graph_.edges)
        if (e.from == v && e.distance == 0 && !seen[Index(e.to)]) {
          seen[Index(e.to)] = true;
          open.push_back(e.to);
        }
    }
    return false;
  }

  const ir::Function& fn_;
  const std::function<bool(OpId)>& ring_;
  Extraction* loop_;
  Graph& graph_;
};

}  // namespace

std::function<bool(OpId)> RingsOf(const ir::Function& fn, const ir::LayoutPlan& tiles) {
  const bool multiplies = std::any_of(tiles.dots.begin(), tiles.dots.end(), [](const auto& dot) {
    return dot.second.unit != ir::MatrixUnit::kNone;
  });
  return [&fn, multiplies](OpId load) { return multiplies || fn.ops[load].i("pin_depth") > 0; };
}

void LoadWhereRead(const ir::Function& fn, const std::function<bool(OpId)>& ring,
                   Extraction* loop) {
  Loads(fn, ring, loop).Run();
}

}  // namespace tilec::scheduler
