// SPDX-License-Identifier: Apache-2.0
#include "scheduler/kernel_time.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "ir/isa.h"
#include "ir/lower/plan.h"
#include "ir/lower/slides.h"
#include "ir/passes/row_threads.h"
#include "ir/warp_check/rate.h"
#include "scheduler/body_facts.h"
#include "scheduler/bounds.h"
#include "scheduler/extract.h"
#include "scheduler/held_slots.h"
#include "scheduler/op_work.h"
#include "scheduler/program_cut.h"
#include "scheduler/row_bytes.h"

namespace tilec::scheduler {

namespace {

using ir::Function;
using ir::Op;
using ir::OpId;
using ir::OpKind;

// The unit that the clock depends on most; −1: none.
int HotUnit(const ir::Target& target) {
  int hot = -1;
  for (size_t u = 0; u < target.units.size(); ++u)
    if (target.units[u].full_clock_percent <
        (hot < 0 ? 100 : target.units[static_cast<size_t>(hot)].full_clock_percent))
      hot = static_cast<int>(u);
  return hot;
}

// The longest chain of one iteration.
int64_t Length(const Graph& graph) {
  std::vector<int64_t> start(graph.ops.size(), 0);
  int64_t length = 0;
  for (size_t round = 0; round < graph.ops.size(); ++round) {
    bool changed = false;
    for (const GraphEdge& e : graph.edges) {
      const int64_t at = start[static_cast<size_t>(e.from)] + e.delay;
      if (e.distance > 0 || at <= start[static_cast<size_t>(e.to)]) continue;
      start[static_cast<size_t>(e.to)] = at;
      changed = true;
    }
    if (!changed) break;
  }
  for (size_t v = 0; v < graph.ops.size(); ++v)
    length = std::max(length, start[v] + graph.ops[v].latency);
  return length;
}

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
int64_t LeastBrought(const CutProgram& cut, const Extraction& extraction, const ir::Target& target,
                     std::optional<ir::LayoutPlan>* plan) {
  for (const OpOrigin& origin : extraction.origins)
    for (const OriginStep& step : origin.steps) {
      if (step.kind != StepKind::kOp || cut.by_threads.count(step.op) == 0) continue;
      if (!*plan) *plan = ir::MakePlan(cut.fn, target, 0, /*runs_ahead=*/true);
      const auto load = (*plan)->loads.find(step.op);
      if (load != (*plan)->loads.end() && load->second.threads)
        return target.model.slot_cycles / target.model.brought_turns;
    }
  return 0;
}

constexpr int64_t kWholeRows = 64;  // of an instruction of a warpgroup

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

// Are the rows of all products one warpgroup's? Several would share the columns and the waits.
bool OfOneWarpgroup(const ir::Function& fn, const std::vector<OpOrigin>& origins) {
  for (const OpOrigin& origin : origins)
    for (const OriginStep& step : origin.steps)
      if (step.kind == StepKind::kOp && fn.ops[step.op].kind == OpKind::kDot &&
          fn.type(fn.ops[step.op].results[0]).shape[0] > kWholeRows)
        return false;
  return true;
}

// Does a product wait for what comes of another one of its iteration? A warpgroup alone has nothing
// else to do meanwhile: whatever order it takes, an iteration takes about as long as its chain.
bool Chained(const Graph& graph, int tensor) {
  const auto multiplies = [&](size_t v) {
    return std::any_of(graph.ops[v].uses.begin(), graph.ops[v].uses.end(),
                       [&](const UnitUse& use) { return use.unit == tensor; });
  };
  std::vector<bool> behind(graph.ops.size());  // a product
  for (bool changed = true; changed;) {
    changed = false;
    for (const GraphEdge& e : graph.edges) {
      const auto from = static_cast<size_t>(e.from), to = static_cast<size_t>(e.to);
      if (e.distance > 0 || behind[to] || (!behind[from] && !multiplies(from))) continue;
      if (multiplies(to)) return true;
      behind[to] = changed = true;
    }
  }
  return false;
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
  return Length(graph) + std::max<int64_t>(0, waits - 1) * latency +
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

// Threads meet to exchange what they hold.
bool Meets(OpKind kind) {
  return kind == OpKind::kReduce || kind == OpKind::kArgReduce || kind == OpKind::kScan ||
         kind == OpKind::kRearrange;
}

// What stands outside the innermost loops.
class Outside {
 public:
  Outside(const Function& fn, const ir::Target& target, const ir::WorkCount& work,
          const LaunchShape& shape)
      : fn_(fn),
        target_(target),
        work_(work),
        warpgroups_(shape.warpgroups > 0 ? shape.warpgroups : CutWarpgroups(fn, target)) {
    for (OpId loop : InnermostLoops(fn)) inner_.insert(loop);
    for (OpId id : fn.blocks[fn.body].ops)
      if (fn.ops[id].kind == OpKind::kParallel) cluster_ = fn.ops[id].i("cluster", 1);
    hot_unit_ = HotUnit(target);
    used_.resize(target.units.size());
    Walk(fn.body, 1);
    // CTAs side by side: what one of them does on one unit does not keep others from another one.
    if (work.products.empty()) busy = *std::max_element(used_.begin(), used_.end());
  }
  double cycles = 0, busy = 0, hot = 0;  // per instance
  bool combines = false;                 // CTAs of a cluster put together what they have
  std::map<OpId, double> turns;          // without products: what a turn takes one after the other
  std::map<OpId, double> entries;        // of innermost loops, per instance

 private:
  void Walk(ir::BlockId block, double times) {
    for (OpId id : fn_.blocks[block].ops) {
      const Op& op = fn_.ops[id];
      if (inner_.count(id) > 0) {
        entries[id] = times;
        if (work_.products.empty()) turns[id] = Turn(op);
        continue;
      }
      double inside = times;
      if (op.kind == OpKind::kFor) {
        const auto trips = work_.trips.find(id);
        if (trips != work_.trips.end() && work_.instances > 0)
          inside = static_cast<double>(trips->second) / static_cast<double>(work_.instances);
      }
      if (!op.regions.empty() || Meets(op.kind)) waiting_ = false;
      for (ir::BlockId region : op.regions)
        if (region == op.regions[0] || !StoresInstead(fn_, op)) Walk(region, inside);
      if (op.regions.empty()) Add(op, times);
    }
  }

  // A turn's threads load, meet and store as those of straight code do: nothing runs ahead of the
  // loop but loads of few elements (ir/passes/read_ahead.cc).
  double Turn(const Op& loop) {
    constexpr int64_t kAhead = 8;  // elements of a thread
    int64_t largest = 0;
    for (OpId id : fn_.blocks[loop.regions[0]].ops)
      for (ir::ValueId v : fn_.ops[id].results)
        if (fn_.type(v).is_tile()) largest = std::max(largest, fn_.type(v).elements());
    const Outside before = *this;
    const bool ahead = largest <= kAhead * ir::ThreadsFor(largest, target_.lowering);
    waiting_ = ahead;
    cycles = 0;
    in_turn_ = true;
    for (OpId id : fn_.blocks[loop.regions[0]].ops)
      if (fn_.ops[id].regions.empty()) Add(fn_.ops[id], 1);
    const double turn = cycles;
    cycles = before.cycles, busy = before.busy, hot = before.hot;
    used_ = before.used_, waiting_ = before.waiting_, combines = before.combines;
    in_turn_ = false;
    return turn;
  }

  // Threads meet before each of several stores to a tensor (Emitter::MeetsBefore).
  bool MeetsBefore(const Op& store) const {
    if (store.kind != OpKind::kStore || in_turn_) return false;
    return std::count_if(fn_.ops.begin(), fn_.ops.end(), [&](const Op& op) {
             return op.kind == OpKind::kStore && op.operands[0] == store.operands[0];
           }) > 1;
  }

  void Add(const Op& op, double times) {
    if (IsFree(op.kind) || op.kind == OpKind::kYield) return;
    if (op.kind == OpKind::kClusterReduce) {
      combines = true;
      // One number for all is sent: one way, and nobody waits until it has been read.
      if (op.i("all", 0) != 0 && fn_.type(op.results[0]).elements() == 1) {
        cycles += times * target_.model.meeting_cycles;
        return;
      }
      // Written once; then each CTA reads its part of all, and the first collects the sums. Of
      // slices nobody collects anything, and the meeting that says that it is written is the only
      // one beside that at the end of all clusters.
      const ir::Type& tile = fn_.type(op.operands[0]);
      const auto bytes = static_cast<double>(tile.elements() * ir::ByteSize(tile.dtype));
      const auto ctas = static_cast<double>(cluster_);
      const bool slices = op.attr("slices") != nullptr;
      const double own = slices ? static_cast<double>(fn_.type(op.results[0]).elements()) /
                                      static_cast<double>(tile.elements())
                                : 2 / ctas;
      const double crossings = (ctas - 1) * own;
      cycles += times * ((slices ? 1 : target_.model.meetings) * target_.model.meeting_cycles +
                         bytes / target_.model.own_bytes_per_cycle +
                         crossings * bytes / target_.model.remote_bytes_per_cycle);
      return;
    }
    const ir::Work work = WorkOf(target_, fn_, op, [](ir::ValueId) { return 1; });
    if (work.elements <= 1) return;
    const bool kept = op.kind == OpKind::kLoad && op.i("kept") > 0;
    const ir::OpCost* cost = target_.CostOf(kept ? "smem_load" : CostName(fn_, op));
    if (cost == nullptr) return;
    double unit = 0;
    for (const ir::TargetUse& use : cost->uses) {
      const auto used = static_cast<double>(use.cycles.At(work));
      if (use.unit == hot_unit_) hot += times * used;
      used_[static_cast<size_t>(use.unit)] += times * used;
      if (!target_.units[static_cast<size_t>(use.unit)].fluid) unit = std::max(unit, used);
    }
    const double issue = static_cast<double>(cost->issue.At(work)) / warpgroups_;
    busy += times * std::max(unit, issue);
    // Without products nothing keeps loads between two barriers from being in flight together.
    // All warps of a CTA meet where rows are reduced.
    const bool rows = work_.products.empty(), load = op.kind == OpKind::kLoad && !kept;
    const bool meets = rows && Meets(op.kind);
    const bool waits = op.kind == OpKind::kDot || (load && !waiting_) || meets;
    waiting_ = (waiting_ || (load && rows)) && !(rows && MeetsBefore(op));
    double latency = waits ? static_cast<double>(cost->latency.At(work)) : 0;
    // A turn whose vectors are put together of two aligned ones waits for them three times as long
    // (H200: softmax_bf16 7634x33033 in 48 turns a row 909 us where 421 were said, 427x20613 in 24
    // 30.0 and 16.7); one that slides twice: its ends go element by element, in a branch. (A turn
    // of 1856 columns takes 4283 cycles, of 8192 2800 to 3600.)
    const bool amid = in_turn_ && load && ir::BeginsAnywhere(fn_, op);
    const int64_t times_waited = !amid ? 1 : slides_ ? 2 : 3;
    if (rows && load && waits) latency += times_waited * target_.model.memory_cycles;
    if (meets) latency += static_cast<double>(target_.Transfer("smem", 0));
    // CTAs of a cluster are as late as the last of them where they meet, which is not in each turn
    // of a loop.
    if (meets && cluster_ > 1 && !in_turn_) latency *= target_.model.cluster_meeting_times;
    cycles += times * std::max({unit, issue, latency});
  }

  const Function& fn_;
  const ir::Target& target_;
  const ir::WorkCount& work_;
  const bool slides_ = ir::SlideOf(fn_).has_value();
  std::set<OpId> inner_;
  const double warpgroups_;
  int hot_unit_ = -1;
  std::vector<double> used_;  // cycles of each unit
  bool waiting_ = false;      // for loads, in the order of the program
  int64_t cluster_ = 1;
  bool in_turn_ = false;      // of a loop
};

}  // namespace

double CutWarpgroups(const Function& fn, const ir::Target& target) {
  return static_cast<double>(ir::MakePlan(fn, target, 0).warpgroups);
}

int64_t SmsOfClusters(const ir::Target& target, int64_t ctas) {
  const int64_t part = target.model.part_sms;  // which clusters do not cross
  const int64_t sms = target.limits.sms, beside = target.model.sms_beside_clusters;
  if (ctas <= 2 || sms <= 2 * beside) return sms;
  return (sms - beside) * (part / ctas) / part * ctas;
}

Sharing SharingOf(const ir::Target& target, int64_t ctas, double times) {
  // Multiprocessors come in pairs that share a port, and CTAs go to idle pairs first: of 108 CTAs
  // on 132 each copied as much per cycle as of 128, while up to 64 had 1.8 times as much (H200).
  // Where it is lines that they ask for, the L2 is what more of them wait for: of rows amid sectors
  // 32 CTAs took 1.6 cycles a line and 64 2.3 (64x8192x8200), 132 2.9 (4096x4096x4104).
  const double sms = static_cast<double>(target.limits.sms);
  const bool paired = 2 * ctas > target.limits.sms;
  const double beside =
      times > 1 ? std::clamp((static_cast<double>(ctas) - sms / 4) / (sms / 2), 0.0, 1.0)
                : double(paired);
  return {beside, times};
}

ir::Target SharedBy(const ir::Target& target, const Sharing& sharing) {
  ir::Target out = target;
  ShareCosts(target, sharing, &out);
  return out;
}

void ShareCosts(const ir::Target& target, const Sharing& sharing, ir::Target* out) {
  out->ops = target.ops;
  for (size_t u = 0; u < target.units.size(); ++u) {
    const double alone = static_cast<double>(target.units[u].alone_percent) / 100;
    // What neighbours ask for comes in by the same port: no CTA gets more than one alone.
    const double shared = (alone + (1 - alone) * sharing.beside) * sharing.times;
    const double scale = alone < 1 ? std::max(alone, shared) : 1;
    if (scale == 1) continue;
    for (ir::OpCost& op : out->ops)
      for (ir::TargetUse& use : op.uses)
        if (use.unit == static_cast<int>(u)) use.cycles = use.cycles.Times(scale);
  }
}

std::optional<std::vector<LoopPeriod>> BoundPeriods(const Function& fn, const ir::Target& target,
                                                    double* warpgroups) {
  const std::optional<CutProgram> cut = CutRows(fn, 1, target);
  std::vector<LoopPeriod> periods;
  if (!cut) return periods;
  if (warpgroups != nullptr) *warpgroups = cut->schedule.warpgroups;
  const int hot = HotUnit(target);
  std::optional<ir::LayoutPlan> plan;
  for (const LoopReport& loop : cut->schedule.loops) {
    LoopPeriod period;
    period.at = loop.at;
    if (loop.extracted()) {
      const Graph graph = Padded(cut->fn, target, loop.extraction);
      if (!Fits(graph)) return std::nullopt;
      period.cycles = period.busy = BestBound(graph).ii;
      const int tensor = graph.FindUnit("tensor");
      const bool products = std::any_of(graph.ops.begin(), graph.ops.end(), [&](const GraphOp& op) {
        return std::any_of(op.uses.begin(), op.uses.end(),
                           [&](const UnitUse& use) { return use.unit == tensor; });
      });
      if (!products) period.busy = UnitsBusy(graph);
      if (products)
        period.least =
            std::max({LeastTurn(graph, target), HeldBySlots(cut->fn, target, graph, &plan),
                      LeastBrought(*cut, loop.extraction, target, &plan)});
      const bool chained = !cut->at_once && Chained(graph, tensor);
      const bool alone = OfOneWarpgroup(fn, loop.extraction.origins);
      if (chained && alone)
        period.least = std::max(period.least, Length(graph) * target.model.chain_percent / 100);
      period.chained = chained && !alone;
      period.hangs = chained && alone;
      period.units = UnitsBusy(graph);
      period.in_order = InOrder(graph, target);
      if (chained) period.in_order = period.in_order * target.model.chain_percent / 100;
      if (cut->at_once)
        period.cycles =
            std::max(period.cycles, AtOnce(graph, target, cut->schedule.warpgroups, cut->turns));
      for (const OpOrigin& origin : loop.extraction.origins)
        for (const OriginStep& step : origin.steps)
          period.cycles += LostInMeetings(fn, step, target);
      period.cycles += LostInDecoding(cut->fn, target, loop.extraction, period.cycles);
      period.cycles = std::max(period.cycles, period.least);
      // A turn as long as its chain has nothing of a pipeline to fill.
      period.fill = std::max<int64_t>(0, Length(graph) - period.cycles);
      const int unit = hot < 0 ? -1 : graph.FindUnit(target.units[static_cast<size_t>(hot)].name);
      for (const GraphOp& op : graph.ops)
        for (const UnitUse& use : op.uses)
          if (use.unit == unit) period.hot += use.cycles;
    }
    periods.push_back(period);
  }
  return periods;
}

KernelTime EstimateTime(const Function& fn, const ir::Target& target, const ir::WorkCount& work,
                        const std::vector<LoopPeriod>& loops, const LaunchShape& shape) {
  KernelTime time;
  const ir::TargetModel& model = target.model;
  const Outside outside(fn, target, work, shape);
  const double instances = static_cast<double>(std::max<int64_t>(1, work.instances));
  const int64_t each = shape.in_order ? CeilDiv(shape.cluster, shape.per_sm) : shape.cluster;
  const int64_t sms = SmsOfClusters(target, each);
  const double khz = 1e3 * static_cast<double>(target.limits.clock_mhz);
  time.ctas = shape.ctas > 0 ? shape.ctas : std::max<int64_t>(1, work.instances);
  time.per_sm = std::clamp<int64_t>(shape.per_sm, 1, CeilDiv(time.ctas, sms));
  time.waves = CeilDiv(time.ctas, sms * time.per_sm);

  double steady = 0, longest = 0, fill = 0, busy = outside.busy, hot = outside.hot;
  for (const auto& [loop, entries] : outside.entries) {
    const auto trips = work.trips.find(loop);
    const Span at = fn.ops[loop].at;
    for (const LoopPeriod& period : loops) {
      if (period.at.file != at.file || period.at.begin != at.begin || trips == work.trips.end())
        continue;
      const double turns = static_cast<double>(trips->second) / instances;
      double cycles = static_cast<double>(period.cycles) *
                      (period.chained ? static_cast<double>(model.chained_percent) / 100 : 1);
      if (shape.in_order) {
        // CTAs side by side meet as warpgroups of one do.
        const bool meets = (period.chained || period.hangs) && time.per_sm > 1;
        cycles = static_cast<double>(period.in_order) *
                 (meets ? static_cast<double>(model.chained_percent) / 100 : 1);
      }
      if (const auto turn = outside.turns.find(loop); turn != outside.turns.end())
        cycles = std::max(cycles, turn->second);
      steady += turns * cycles;
      const double most = entries * static_cast<double>(work.most.at(loop));
      longest += std::max(turns, most) * cycles;
      busy += turns * static_cast<double>(shape.in_order ? period.units : period.busy);
      hot += turns * static_cast<double>(period.hot);
      if (!shape.in_order) fill += entries * static_cast<double>(period.fill);
    }
  }
  // CTAs that share a tile are as slow as that of them which has the most turns.
  if (shape.cluster > 1 && (work.products.empty() || outside.combines)) steady = longest;
  // Tiles of one CTA; while it works on one, copies for the next are in flight.
  const double tiles = std::ceil(instances / static_cast<double>(time.ctas));
  // What leaves keeps the next tile waiting; where there is none, nobody waits.
  const double leaves = tiles > 1 ? shape.leaves : 0;
  const double own = outside.cycles + steady + leaves;
  const bool rows = work.products.empty();
  // A cluster that starts where others end waits until all of its CTAs find room. (H200, eight CTAs
  // a row in 24 to 252 waves: each 2000 to 3300 cycles longer than said, softmax and norms alike.)
  constexpr double kAmongOthers = 4;
  const double of_rows = model.rows_cluster_start_cycles * (time.waves > 1 ? 1 + kAmongOthers : 1);
  const double start = (rows ? model.rows_start_cycles : model.start_cycles) +
                       (shape.cluster > 1 ? (rows ? of_rows : model.cluster_start_cycles) : 0);
  time.cycles_per_cta = start + fill + tiles * own;
  time.loop_share = tiles * steady / time.cycles_per_cta;
  const auto beside = static_cast<double>(time.per_sm);
  const double wave = std::max(time.cycles_per_cta, beside * tiles * busy);
  // Waves, or iterations of persistent CTAs, in which every SM has work, and the rest of them.
  const double rounds = static_cast<double>(time.waves) * tiles;
  const double full = instances / (static_cast<double>(sms) * beside);
  const double per_round = wave / tiles;
  const double heat = std::min(1.0, beside * hot / std::max(1.0, per_round));
  const int hot_unit = HotUnit(target);
  const double cool =
      hot_unit < 0
          ? 1
          : static_cast<double>(target.units[static_cast<size_t>(hot_unit)].full_clock_percent) /
                100;
  const auto slower = [&](double active) { return std::max(1.0, active * heat / cool); };
  const double whole = std::min(rounds, std::floor(full)), rest = full - std::floor(full);
  // CTAs side by side share an SM's units: the last of them have more of those for themselves.
  const double beside_last = std::ceil(rest * beside - 1e-9);
  const double last_round =
      shape.in_order ? std::max(time.cycles_per_cta, beside_last * tiles * busy) / tiles
                     : per_round;
  time.compute_ms = (per_round * whole * slower(1) + last_round * (rounds - whole) * slower(rest)) /
                    khz;
  // Where tiles take unequally long they come longest first: no SM waits for a last wave, and none
  // is done before the longest is.
  time.uneven = longest > 1.05 * steady;
  if (time.uneven) {
    const double share = full > 1 ? per_round / khz * full * slower(1) : 0;
    const double most = (start + fill + outside.cycles + longest) / khz * slower(rest);
    time.longest_binds = most > share;
    time.compute_ms = std::max(most, share);
  }
  // CTAs that run together share operands of products in L2; rows that a CTA reads again are gone.
  const double again =
      (shape.lines - 1) * std::max(0.0, work.loaded_bytes * shape.share - work.least_bytes);
  double ms_of_byte = 0;  // while every SM has work
  if (const double gbs = static_cast<double>(target.limits.memory_gbs); gbs > 0)
    ms_of_byte = 1e-6 / (model.memory_share * gbs);
  const double awake = shape.in_order ? std::min(1.0, rest * beside) : rest;  // of the SMs
  const double fewer = rest / (1 - model.fewer_share * (1 - awake));  // of a round of all SMs
  const double bytes = work.least_bytes + (shape.written - 1) * work.stored_bytes;
  const double far = FarBytes(work, target, sms * time.per_sm);
  const double moved = ms_of_byte * (rows ? far : bytes);
  const double near = rows ? ms_of_byte * NearBytes(fn, work, far) : 0;
  const double asked = std::max(near, moved + (rows ? 0 : ms_of_byte * model.asked_share * again));
  time.memory_ms = asked * (whole + fewer) / full;
  // The last few CTAs have the memory for themselves, and each still computes and copies its tile.
  const double all = std::max(per_round / khz * slower(1), asked / full);
  const double few = std::max(last_round / khz * slower(rest), asked * fewer / full);
  double binding = time.uneven ? std::max(time.compute_ms, time.memory_ms)
                               : whole * all + (rounds - whole) * few;
  // CTAs that share a tile's loop end and begin together, and nobody copies between their waves, if
  // no others are on their SMs.
  if (outside.combines && rounds > 1 && time.per_sm == 1)
    binding =
        std::max(binding, time.memory_ms + (rounds - 1) * (start + fill + outside.cycles) / khz);
  const auto first =
      static_cast<double>(std::min(time.ctas, sms * (shape.in_order ? time.per_sm : 1)));
  time.ms = model.launch_ms + first * model.cta_ms + binding +
            (shape.awaits && !shape.in_order ? 1 / beside : model.uncovered_share) *
                std::min(time.compute_ms, moved * (whole + fewer) / full);
  return time;
}

}  // namespace tilec::scheduler
