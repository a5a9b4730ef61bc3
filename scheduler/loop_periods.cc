// SPDX-License-Identifier: Apache-2.0
#include "scheduler/loop_periods.h"

#include <algorithm>
#include <set>

#include "ir/lower/plan.h"
#include "ir/warp_check/rate.h"
#include "scheduler/bounds.h"
#include "scheduler/chain_alone.h"
#include "scheduler/extract.h"
#include "scheduler/held_slots.h"
#include "scheduler/one_after_another.h"
#include "scheduler/op_work.h"
#include "scheduler/program_cut.h"

namespace tilec::scheduler {

namespace {

using ir::Function;
using ir::Op;
using ir::OpKind;

bool Fits(const Graph& graph) {
  int64_t smem = 0;
  for (const GraphOp& op : graph.ops) {
    if (op.regs > graph.machine.max_regs_per_thread) return false;
    smem += op.smem_bytes;
  }
  return smem <= graph.machine.smem_bytes;
}

// What the units have to do in an iteration, the busiest of them: so long CTAs side by side keep
// one another waiting. (A bound of the period is also what one CTA's threads take, one after
// another.)
int64_t UnitsBusy(const Graph& graph) {
  std::vector<int64_t> cycles(graph.units.size(), 0);
  for (const GraphOp& op : graph.ops)
    for (const UnitUse& use : op.uses) cycles[static_cast<size_t>(use.unit)] += use.cycles;
  int64_t most = 0;
  for (size_t u = 0; u < cycles.size(); ++u)
    most = std::max(most, CeilDiv(cycles[u], graph.units[u].capacity));
  return most;
}

// Of a turn whose tiles are small: it begins no sooner than its slot of the ring is free and
// filled.
int64_t LeastTurn(const Graph& graph, const ir::Target& target) {
  int64_t bytes = 0;
  for (const GraphOp& op : graph.ops)
    if (op.variable_latency) bytes += op.smem_bytes;
  if (bytes == 0) return 0;
  const int64_t slots =
      std::clamp<int64_t>(graph.machine.smem_bytes / bytes, 1, target.lowering.most_slots);
  return std::max(target.model.turn_cycles, target.model.slot_cycles / slots);
}

// Of a turn of which threads bring a part (ir/lower/bring.h): they have few turns on their way at a
// time, however many slots there are.
int64_t LeastBrought(const Function& fn, const CutProgram& cut, const Extraction& extraction,
                     const ir::Target& target, std::optional<ir::LayoutPlan>* plan) {
  for (const OpOrigin& origin : extraction.origins)
    for (const OriginStep& step : origin.steps) {
      if (step.kind != StepKind::kOp || cut.by_threads.count(step.op) == 0) continue;
      if (!*plan) *plan = ir::MakePlan(fn, target, 0, /*runs_ahead=*/true);
      const auto load = (*plan)->loads.find(step.op);
      if (load != (*plan)->loads.end() && load->second.threads)
        return target.model.slot_cycles / target.model.brought_turns;
    }
  return 0;
}

// Warpgroups hold whole instructions: of what products make, and of what is computed of it, 80 rows
// take threads as long as 128. (H200, 300 queries of 1500 keys, D 128: 22.8 us in 80x80, 25.7 in
// 96x80, 16.4 in 112x64.) What one warpgroup takes was measured with its own rows
// (`chain_percent`).
Graph Padded(const Function& fn, const ir::Target& target, const Extraction& extraction) {
  Graph graph = extraction.graph;
  if (target.unit().completion == ir::Completion::kAtOnce ||
      ir::InTensorMemory(target.matrix_unit.kind))
    return graph;
  std::set<int64_t> made;  // rows of products
  for (const Op& op : fn.ops)
    if (op.kind == OpKind::kDot) made.insert(fn.type(op.results[0]).shape[0]);
  for (size_t v = 0; v < graph.ops.size(); ++v) {
    const OpOrigin& origin = extraction.origins[v];
    if (origin.steps.empty()) continue;  // arms of branches
    const OriginStep& step = origin.steps[static_cast<size_t>(origin.main)];
    if (step.kind != StepKind::kOp || !step.op.valid()) continue;
    const Op& op = fn.ops[step.op];
    if (op.kind == OpKind::kDot || IsMemory(op.kind)) continue;
    int64_t rows = 0;
    for (const std::vector<ir::ValueId>* values : {&op.operands, &op.results})
      for (ir::ValueId value : *values)
        if (const ir::Type& type = fn.type(value); type.is_tile() && !type.shape.empty())
          rows = std::max(rows, type.shape[0]);
    if (rows <= kWholeRows || rows % kWholeRows == 0 || made.count(rows) == 0) continue;
    const int64_t whole = CeilDiv(rows, kWholeRows) * kWholeRows;
    GraphOp& g = graph.ops[v];
    g.issue = g.issue * whole / rows;
    g.latency = g.latency * whole / rows;
    for (UnitUse& use : g.uses) use.cycles = use.cycles * whole / rows;
  }
  return graph;
}

// A turn of one role in program order: each product waits for the copies that it reads, which come
// from memory, and nothing else runs meanwhile.
int64_t InOrder(const Graph& graph, const ir::Target& target) {
  int64_t waits = 0, latency = 0;
  for (size_t v = 0; v < graph.ops.size(); ++v) {
    if (graph.ops[v].variable_latency) {
      latency = std::max(latency, graph.ops[v].latency);
      continue;
    }
    waits += std::any_of(graph.edges.begin(), graph.edges.end(), [&](const GraphEdge& e) {
      return static_cast<size_t>(e.to) == v && e.distance == 0 &&
             graph.ops[static_cast<size_t>(e.from)].variable_latency;
    });
  }
  return ChainOf(graph) + std::max<int64_t>(0, waits - 1) * latency +
         waits * target.model.memory_cycles;
}

// An iteration of one compute role where products are complete at once. Warpgroups in step multiply
// together, and nothing else runs meanwhile; in turns each is held up as ir/warp_check/rate.h says.
int64_t AtOnce(const Graph& graph, const ir::Target& target, int64_t warpgroups, bool turns) {
  const int tensor = graph.FindUnit("tensor"), smem = graph.FindUnit("smem");
  int64_t sum = 0;
  for (const GraphOp& op : graph.ops) {
    if (op.variable_latency) continue;
    int64_t multiplies = 0, reads = 0;
    for (const UnitUse& use : op.uses) {
      if (use.unit == tensor) multiplies = use.cycles;
      if (use.unit == smem) reads = use.cycles;
    }
    if (multiplies == 0) {
      sum += op.issue;
      continue;
    }
    const int64_t product = std::max(multiplies, reads);
    sum += std::max<int64_t>(0, op.issue - multiplies / warpgroups) +
           (turns ? ir::HeldUpByTurns(product, target) : product);
  }
  return sum;
}

// What an iteration loses where its threads meet: for an operand that they hand over through shared
// memory, and for a tile that is combined with memory (its bytes have to be free, then written).
int64_t LostInMeetings(const ir::Function& fn, const OriginStep& step, const ir::Target& target) {
  if (step.kind == StepKind::kSmemStore) return target.model.hand_over_cycles;
  if (step.kind != StepKind::kOp) return 0;
  const ir::Op& op = fn.ops[step.op];
  const bool combined =
      op.kind == ir::OpKind::kAtomic && op.results.empty() && fn.type(op.operands[1]).rank() == 2;
  return combined ? target.model.combine_cycles : 0;
}

}  // namespace

// The unit that the clock depends on most; −1: none.
int HotUnit(const ir::Target& target) {
  int hot = -1;
  for (size_t u = 0; u < target.units.size(); ++u)
    if (target.units[u].full_clock_percent <
        (hot < 0 ? 100 : target.units[static_cast<size_t>(hot)].full_clock_percent))
      hot = static_cast<int>(u);
  return hot;
}

double CutWarpgroups(const Function& fn, const ir::Target& target) {
  return static_cast<double>(ir::PlannedWarpgroups(fn, target));
}

std::optional<std::vector<LoopPeriod>> BoundPeriods(const Function& fn, const ir::Target& target,
                                                    double* warpgroups) {
  const CutProgram cut = CutWhole(fn, target);
  std::vector<LoopPeriod> periods;
  if (warpgroups != nullptr) *warpgroups = cut.schedule.warpgroups;
  const int hot = HotUnit(target);
  std::optional<ir::LayoutPlan> plan;
  for (const LoopReport& loop : cut.schedule.loops) {
    LoopPeriod period;
    period.at = loop.at;
    if (loop.extracted()) {
      const Graph graph = Padded(fn, target, loop.extraction);
      if (!Fits(graph)) return std::nullopt;
      period.cycles = period.busy = LeastPeriod(graph);
      const int tensor = graph.FindUnit("tensor");
      period.products = std::count_if(graph.ops.begin(), graph.ops.end(), [&](const GraphOp& op) {
        return std::any_of(op.uses.begin(), op.uses.end(),
                           [&](const UnitUse& use) { return use.unit == tensor; });
      });
      const bool products = period.products > 0;
      if (!products) period.busy = UnitsBusy(graph);
      const bool chained = !cut.at_once && Chained(graph, tensor);
      // What two products of a chain read has rings of its own and comes at times of its own.
      const auto held = [&] { return HeldBySlots(fn, target, graph, &plan); };
      if (products)
        period.least = std::max({LeastTurn(graph, target), chained ? 0 : held(),
                                 LeastBrought(fn, cut, loop.extraction, target, &plan)});
      const bool alone = OfOneWarpgroup(fn, loop.extraction.origins);
      if (chained && alone) {
        period.chain = ChainOf(graph) * target.model.chain_percent / 100;
        const bool overlaps = IterationsOverlap(fn, cut, loop, target);
        const int64_t turn = overlaps ? LeastPeriod(graph) * target.model.chain_percent / 100 : 0;
        period.least =
            std::max(period.least, overlaps ? std::min(turn, period.chain) : period.chain);
      }
      period.chained = chained && !alone;
      if (period.chained)
        period.least =
            std::max(period.least, OneAfterAnother(fn, target, graph, loop.extraction.origins));
      period.hangs = chained && alone;
      period.units = UnitsBusy(graph);
      period.in_order = InOrder(graph, target);
      if (chained) period.in_order = period.in_order * target.model.chain_percent / 100;
      if (cut.at_once)
        period.cycles =
            std::max(period.cycles, AtOnce(graph, target, cut.schedule.warpgroups, cut.turns));
      for (const OpOrigin& origin : loop.extraction.origins)
        for (const OriginStep& step : origin.steps)
          period.cycles += LostInMeetings(fn, step, target);
      period.cycles += LostInDecoding(fn, target, loop.extraction, period.cycles);
      period.cycles = std::max(period.cycles, period.least);
      // A turn as long as its chain has nothing of a pipeline to fill.
      period.fill = std::max<int64_t>(0, ChainOf(graph) - period.cycles);
      const int unit = hot < 0 ? -1 : graph.FindUnit(target.units[static_cast<size_t>(hot)].name);
      for (const GraphOp& op : graph.ops)
        for (const UnitUse& use : op.uses)
          if (use.unit == unit) period.hot += use.cycles;
    }
    periods.push_back(period);
  }
  return periods;
}

}  // namespace tilec::scheduler
