// The graph of a nest: what stands around the inner loops op by op, each inner loop as a unit
// (unit_profile.cc says what one takes), and the order that roles keep among them.
//
// SPDX-License-Identifier: Apache-2.0
#include "scheduler/nest.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "ir/isa.h"
#include "ir/queries.h"
#include "scheduler/body_facts.h"
#include "scheduler/diagnostics.h"
#include "scheduler/op_work.h"
#include "support/expr.h"

namespace tilec::scheduler {

using ir::isa::kWarpThreads;

namespace {

using ir::Op;
using ir::OpId;
using ir::OpKind;
using ir::ValueId;

// What one loop of a nest is taken to run, where its bounds do not say.
std::optional<int64_t> TripsOf(const ir::Function& fn, OpId id) {
  const Op& loop = fn.ops[id];
  if (loop.kind != OpKind::kFor) return std::nullopt;
  const int64_t *from = ir::IntConstantOf(fn, loop.operands[0]),
                *to = ir::IntConstantOf(fn, loop.operands[1]);
  if (!from || !to) return std::nullopt;
  return std::max<int64_t>(1, CeilDiv(*to - *from, std::max<int64_t>(1, loop.i("step", 1))));
}

class NestExtractor {
 public:
  NestExtractor(const CutProgram& cut, OpId loop, const InnerLoops& inner, const ir::Target& target,
                int64_t trips, DiagSink& diags)
      : cut_(cut), fn_(cut.fn), loop_(loop), inner_(inner), target_(target), diags_(diags) {
    nest_.trips = trips;
  }

  Result<Nest> Run() {
    Machine();
    TRY_VOID(AddBlock(fn_.ops[loop_].regions[0]));
    if (units_ == 0) return Refuse("none of its loops has a schedule");
    KeepOrder();
    TRY_VOID(CheckGraph(nest_.graph, diags_));
    nest_.alone = Alone();
    return std::move(nest_);
  }

 private:
  Result<> AddBlock(ir::BlockId block) {
    for (OpId id : fn_.blocks[block].ops) {
      const Op& op = fn_.ops[id];
      if (op.kind == OpKind::kYield || IsFree(op.kind)) continue;
      if (inner_.count(id) > 0) {
        AddUnit(id);
        continue;
      }
      if (op.kind == OpKind::kIf) {
        for (ir::BlockId arm : op.regions) TRY_VOID(AddBlock(arm));
        continue;
      }
      if (!op.regions.empty()) {
        if (!HasTiles(op)) continue;
        return Refuse(fmt::format("`{}` inside has no schedule", ir::Info(op.kind).mnemonic));
      }
      if (op.kind == OpKind::kPrint || op.kind == OpKind::kAssert) continue;
      const ValueId shape = op.results.empty() ? op.operands[1] : op.results[0];
      if (fn_.type(shape).rank() > 0) AddOp(id);
    }
    return Done();
  }

  // Numbers alone have no part in a schedule.
  bool HasTiles(const Op& op) const {
    return std::any_of(op.regions.begin(), op.regions.end(), [&](ir::BlockId region) {
      const std::vector<OpId>& ops = fn_.blocks[region].ops;
      return std::any_of(ops.begin(), ops.end(), [&](OpId id) {
        const Op& inside = fn_.ops[id];
        const auto tile = [&](ValueId v) {
          return fn_.type(v).is_tile() && fn_.type(v).rank() > 0;
        };
        return std::any_of(inside.results.begin(), inside.results.end(), tile) ||
               std::any_of(inside.operands.begin(), inside.operands.end(), tile) ||
               HasTiles(inside);
      });
    });
  }

  // Each role takes its ops as the program has them, and an iteration after the one before.
  void KeepOrder() {
    Graph& g = nest_.graph;
    const int count = static_cast<int>(g.ops.size());
    const auto same = [&](int a, int b) {
      const GraphOp &x = g.ops[static_cast<size_t>(a)], &y = g.ops[static_cast<size_t>(b)];
      if (!x.part.empty() && x.part == y.part) return false;
      if (x.variable_latency || y.variable_latency) return x.variable_latency && y.variable_latency;
      return x.slice < 0 || y.slice < 0 || x.slice == y.slice;
    };
    for (int a = 0; a < count; ++a) {
      int next = -1, first = -1;
      for (int b = 0; b < count; ++b) {
        if (!same(a, b) || a == b) continue;
        if (b < a && first < 0) first = b;
        if (b > a && next < 0) next = b;
      }
      const int64_t busy = g.ops[static_cast<size_t>(a)].issue;
      if (next >= 0) Edge(a, next, EdgeKind::kOrder, busy);
      if (next < 0 && first >= 0) Edge(a, first, EdgeKind::kOrder, busy, 1);
    }
    // Their rings are as deep as the order asks, and no deeper.
    for (GraphOp& op : g.ops) op.streaming = false;
  }

  DiagBuilder Refuse(const std::string& why) {
    return diags_.Report(kNoNest, fn_.ops[loop_].at, fn_.name, why);
  }

  void Machine() {
    Graph& g = nest_.graph;
    g.name = (fn_.name.empty() ? "kernel" : fn_.name) + ".nest";
    g.machine = {target_.name,
                 target_.limits.smem_bytes,
                 target_.limits.tmem_columns,
                 target_.limits.max_regs_per_thread,
                 target_.limits.registers,
                 target_.limits.max_warps,
                 target_.limits.barrier_bytes};
    for (const ir::TargetUnit& unit : target_.units)
      g.units.push_back({unit.name, unit.capacity, true});
  }

  int Add(GraphOp op, OpId of, const std::string& base) {
    op.name = base;
    for (char& c : op.name)
      if (c == '#' || c == '=' || c == ',' || c == ':' || c <= ' ') c = '_';
    if (op.name.empty()) op.name = "op";
    for (int i = 2; nest_.graph.FindOp(op.name) >= 0; ++i) op.name = fmt::format("{}.{}", base, i);
    nest_.graph.ops.push_back(std::move(op));
    nest_.ops.push_back(of);
    return static_cast<int>(nest_.graph.ops.size()) - 1;
  }

  GraphEdge& Edge(int from, int to, EdgeKind kind, int64_t delay, int64_t distance = 0) {
    nest_.graph.edges.push_back({from, to, kind, delay, distance});
    GraphEdge& e = nest_.graph.edges.back();
    e.crossable = kind != EdgeKind::kRegister;
    return e;
  }

  int64_t Registers(ValueId v, int warps) const {
    const int64_t bytes = fn_.type(v).elements() * ir::Info(fn_.type(v).dtype).bits / 8;
    return std::max<int64_t>(1, CeilDiv(bytes, 4 * kWarpThreads * warps));
  }

  // Ops of the nest that make a value; through what only renames elements.
  void Sources(ValueId v, std::set<int>* out) const {
    if (const auto it = made_.find(v); it != made_.end()) {
      out->insert(it->second);
      return;
    }
    const Op* def = fn_.def(v);
    if (def == nullptr) return;
    if (def->kind == OpKind::kIf) {
      const auto at = std::find(def->results.begin(), def->results.end(), v);
      for (ir::BlockId arm : def->regions)
        Sources(fn_.ops[fn_.blocks[arm].ops.back()]
                    .operands[static_cast<size_t>(at - def->results.begin())],
                out);
      return;
    }
    if (!def->regions.empty()) return;
    for (ValueId operand : def->operands) Sources(operand, out);
  }

  // The values from outside that a region reads.
  void Captured(ir::BlockId block, std::set<ValueId>* out) const {
    for (OpId id : fn_.blocks[block].ops) {
      for (ValueId v : fn_.ops[id].operands) out->insert(v);
      for (ir::BlockId region : fn_.ops[id].regions) Captured(region, out);
    }
  }

  void Connect(int from, int to) {
    const GraphOp& producer = nest_.graph.ops[from];
    const bool shared = producer.smem_bytes > 0;
    GraphEdge& e = Edge(from, to, shared ? EdgeKind::kSmem : EdgeKind::kRegister, producer.latency);
    // A loop reads what it was given until its end.
    if (nest_.graph.ops[to].kind == "unit") e.hold = nest_.graph.ops[to].latency;
    if (nest_.graph.ops[to].variable_latency) nest_.graph.ops[to].streaming = false;
  }

  void AddOp(OpId id) {
    const Op& op = fn_.ops[id];
    const ir::OpCost& cost = *target_.CostOf(CostName(fn_, op));
    GraphOp g = CostedOp(cost, WorkOf(target_, fn_, op, [](ValueId) { return int64_t{1}; }), op.at);
    g.slice = static_cast<int>(op.i("slice", -1));
    const int groups = g.variable_latency ? 1 : cut_.schedule.warpgroups;
    int pinned = 0;  // by the author
    if (!g.variable_latency) {
      g.issue = CeilDiv(g.issue, groups);
      g.warps *= groups;
    }
    if (op.kind == OpKind::kLoad && g.variable_latency) {
      const ir::Type& type = fn_.type(op.results[0]);
      g.smem_bytes = type.elements() * ir::Info(type.dtype).bits / 8;
      pinned = static_cast<int>(op.i("pin_depth"));
    } else if (!op.results.empty()) {
      g.regs = Registers(op.results[0], g.warps);
    }
    std::string base = op.results.empty() ? "" : fn_.values[op.results[0]].name;
    if (base.empty()) base = ir::Info(op.kind).mnemonic;
    const int index = Add(std::move(g), id, base);
    if (pinned > 0) {
      Graph::Pin pin;
      pin.op = nest_.graph.ops[static_cast<size_t>(index)].name;
      pin.depth = pinned;
      pin.at = op.at;
      nest_.graph.pins.push_back(std::move(pin));
    }
    std::set<int> sources;
    for (ValueId v : op.operands) Sources(v, &sources);
    for (int from : sources) Connect(from, index);
    for (ValueId v : op.results) made_[v] = index;
  }

  void AddUnit(OpId id) {
    const Op& op = fn_.ops[id];
    const InnerLoop& inner = inner_.at(id);
    const UnitProfile unit =
        ProfileOf(*inner.graph, *inner.schedule, TripsOf(fn_, id).value_or(nest_.trips));
    ++units_;
    nest_.graph.machine.smem_bytes =
        std::max<int64_t>(0, nest_.graph.machine.smem_bytes - unit.ring_bytes - inner.inside);
    nest_.inside += unit.ring_bytes + inner.inside;
    std::string name = op.results.empty() ? "" : fn_.values[op.results[0]].name;
    if (name.empty()) name = "loop";
    std::vector<int> parts;
    std::set<int> sources;
    std::set<ValueId> read(op.operands.begin(), op.operands.end());
    Captured(op.regions[0], &read);
    for (ValueId v : read) Sources(v, &sources);
    for (const UnitPart& part : unit.parts) {
      GraphOp g;
      g.kind = "unit";
      g.part = name;
      g.issue = part.busy;
      g.latency = part.latency;
      g.uses = part.uses;
      g.warps = part.warps;
      g.slice = part.slice;
      g.variable_latency = part.load;
      g.at = op.at;
      parts.push_back(Add(std::move(g), id, name + "." + part.role));
    }
    int load = -1;
    for (size_t i = 0; i < parts.size(); ++i)
      if (unit.parts[i].load) load = parts[i];
    for (size_t i = 0; i < parts.size(); ++i) {
      if (parts[i] == load) continue;
      if (load >= 0) {
        Edge(load, parts[i], EdgeKind::kOrder, unit.parts[i].begin);
        Edge(parts[i], load, EdgeKind::kOrder, std::max<int64_t>(0, unit.length - unit.ahead), 1);
      }
      for (int from : sources) {
        const int slice = nest_.graph.ops[from].slice;
        if (slice < 0 || unit.parts[i].slice < 0 || slice == unit.parts[i].slice)
          Connect(from, parts[i]);
      }
    }
    // The part that yields a result: that of its slice, else the first.
    const Op& yield = fn_.ops[fn_.blocks[op.regions[0]].ops.back()];
    for (size_t r = 0; r < op.results.size(); ++r) {
      const Op* def = fn_.def(yield.operands[r]);
      const int slice = def == nullptr ? -1 : static_cast<int>(def->i("slice", -1));
      int made_by = -1;
      for (size_t i = 0; i < parts.size(); ++i) {
        if (parts[i] == load) continue;
        if (made_by < 0 || unit.parts[i].slice == slice) made_by = parts[i];
      }
      if (made_by < 0) continue;
      made_[op.results[r]] = made_by;
      GraphOp& g = nest_.graph.ops[made_by];
      if (fn_.type(op.results[r]).is_tile() && fn_.type(op.results[r]).rank() > 0)
        g.regs += Registers(op.results[r], g.warps);
    }
  }

  // The longest chain of one tile.
  int64_t Alone() const {
    const Graph& g = nest_.graph;
    std::vector<int64_t> start(g.ops.size(), 0);
    for (size_t round = 0; round < g.ops.size(); ++round)
      for (const GraphEdge& e : g.edges)
        if (e.distance == 0) start[e.to] = std::max(start[e.to], start[e.from] + e.delay);
    int64_t end = 0;
    for (size_t v = 0; v < g.ops.size(); ++v)
      end = std::max(end, start[v] + std::max(g.ops[v].latency, g.ops[v].issue));
    return end;
  }

  const CutProgram& cut_;
  const ir::Function& fn_;
  const OpId loop_;
  const InnerLoops& inner_;
  const ir::Target& target_;
  DiagSink& diags_;
  int units_ = 0;
  std::map<ValueId, int> made_;  // by which op of the nest
  Nest nest_;
};

}  // namespace

InnerLoops InnerLoopsOf(const CutProgram& cut) {
  InnerLoops inner;
  const std::vector<OpId> loops = InnermostLoops(cut.fn);
  for (size_t i = 0; i < loops.size(); ++i) {
    const LoopReport& report = cut.schedule.loops[i];
    if (report.applied) inner[loops[i]] = {&report.extraction.graph, &report.solution.schedule};
  }
  return inner;
}

Result<Nest> ExtractNest(const CutProgram& cut, OpId loop, const InnerLoops& inner,
                         const ir::Target& target, int64_t trips, DiagSink& diags) {
  return NestExtractor(cut, loop, inner, target, trips, diags).Run();
}

Result<Nest> ExtractNest(const CutProgram& cut, const ir::Target& target, int64_t trips,
                         DiagSink& diags) {
  const InnerLoops inner = InnerLoopsOf(cut);
  const auto refuse = [&](Span at, const char* why) {
    return diags.Report(kNoNest, at, cut.fn.name, why);
  };
  if (inner.empty()) return refuse(Span{}, "none of its loops has a schedule");
  const Op& first = cut.fn.ops[inner.begin()->first];
  OpId outer;
  for (OpId id : ir::OpsInOrder(cut.fn)) {
    const std::vector<ir::BlockId>& regions = cut.fn.ops[id].regions;
    if (std::find(regions.begin(), regions.end(), first.block) != regions.end()) outer = id;
  }
  if (!outer.valid() || cut.fn.ops[outer].kind != OpKind::kParallel)
    return refuse(first.at, "its loops stand in no `parallel`");
  return ExtractNest(cut, outer, inner, target, trips, diags);
}

}  // namespace tilec::scheduler
