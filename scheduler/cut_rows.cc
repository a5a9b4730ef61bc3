// In front of the solver: a kernel cut into row slices, with the problem of each of its loops in
// the shape that the lowering gives it (several warpgroups, products that take turns, operands that
// warps read). What the solver then finds is for the program that will be made.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <set>

#include "ir/arms.h"
#include "ir/isa.h"
#include "ir/loop_plan.h"
#include "ir/lower/bring.h"
#include "ir/lower/plan.h"
#include "ir/lower/turns.h"
#include "ir/operand_reads.h"
#include "ir/queries.h"
#include "ir/slice_rows.h"
#include "ir/uses.h"
#include "scheduler/alternate.h"
#include "scheduler/contract.h"
#include "scheduler/diagnostics.h"
#include "scheduler/last_turn.h"
#include "scheduler/op_work.h"
#include "scheduler/own_loads.h"
#include "scheduler/program_cut.h"

namespace tilec::scheduler {

namespace {

using ir::Function;
using ir::Op;
using ir::OpId;
using ir::OpKind;

// Tiles that every role may compute for itself.
constexpr int64_t kCheapTile = 512;

struct CutOptions {  // of CutRows
  bool crossing = false;
  int warpgroups = 0;
  bool own_loads = false;
};

// Does the op compute a tile that belongs to no slice and is too large to compute twice?
bool IsShared(const Function& fn, const Op& op) {
  return op.attr("slice") == nullptr && !ir::IsReplicated(fn, op) && op.results.size() == 1 &&
         op.regions.empty() && fn.type(op.results[0]).elements() > kCheapTile;
}

// Slices may only share what the load role brings or what is cheap.
bool SlicesAreApart(const Function& fn, const ir::Target& target) {
  const ir::LayoutPlan plan = ir::MakePlan(fn, target, 1);
  for (OpId id : ir::OpsInOrder(fn)) {
    const Op& op = fn.ops[id];
    if (op.attr("slice") != nullptr) continue;
    if (IsShared(fn, op)) return false;
    if (auto it = plan.loads.find(id); it != plan.loads.end())
      if (it->second.buffer && !it->second.tma) return false;
  }
  for (const auto& [id, dot] : plan.dots)
    if (dot.b.how == ir::OperandPlan::How::kStore) {
      const Op* def = fn.def(dot.b.source);
      if (def == nullptr || def->attr("slice") == nullptr) return false;
    }
  return true;
}

// What warps read of shared memory for products that take operands from registers only: it depends
// on how they share the sum, which the plan of tiles says.
void AddOperandReads(const Function& fn, const ir::LayoutPlan& tiles, const ir::Target& target,
                     Extraction* loop) {
  for (size_t g = 0; g < loop->graph.ops.size(); ++g)
    for (const OriginStep& step : loop->origins[g].steps) {
      const auto dot = step.kind == StepKind::kOp ? tiles.dots.find(step.op) : tiles.dots.end();
      if (dot == tiles.dots.end()) continue;
      const Op& op = fn.ops[step.op];
      ir::Work work;
      work.bytes = static_cast<double>(ir::OperandReads(fn, op, dot->second, tiles.warpgroups));
      const ir::OpCost* cost = target.CostOf(CostName(fn, op));
      if (work.bytes == 0 || cost == nullptr) continue;
      for (const ir::TargetUse& use : cost->uses)
        if (use.cycles.per.bytes > 0) AddUse(&loop->graph.ops[g], {use.unit, use.cycles.At(work)});
    }
}

// The ops of the loop's graph that are these of the program.
std::set<int> OpsOf(const std::set<OpId>& wanted, const Extraction& loop) {
  std::set<int> ops;
  for (size_t g = 0; g < loop.graph.ops.size(); ++g) {
    const OpOrigin& origin = loop.origins[g];
    const OriginStep& step = origin.steps[static_cast<size_t>(origin.main)];
    if (step.kind == StepKind::kOp && wanted.count(step.op) > 0) ops.insert(static_cast<int>(g));
  }
  return ops;
}

// Multiplications that nobody but a sum reads, which are one instruction with it.
std::set<OpId> IntoSums(const Function& fn) {
  const ir::Uses uses(fn);
  std::set<OpId> found;
  for (OpId id : ir::OpsInOrder(fn)) {
    const Op& op = fn.ops[id];
    if ((op.kind != OpKind::kAdd && op.kind != OpKind::kSub) ||
        fn.type(op.results[0]).dtype != ir::DType::kF32)
      continue;
    for (ir::ValueId v : op.operands)
      if (const Op* def = fn.def(v); def && def->kind == OpKind::kMul && uses.count(v) == 1) {
        found.insert(fn.values[v].def);
        break;  // the other one is an instruction of its own
      }
  }
  return found;
}

// Would a schedule find nothing to do: no product, and no load that could run ahead in a ring?
// Threads walk over rows so, each for itself.
bool NothingRunsAhead(const Function& fn, OpId loop, const std::function<bool(OpId)>& has_ring) {
  const std::vector<OpId> inside = ir::OpsInside(fn, loop);
  return std::none_of(inside.begin(), inside.end(), [&](OpId id) {
    const OpKind kind = fn.ops[id].kind;
    return kind == OpKind::kDot || (kind == OpKind::kLoad && has_ring(id));
  });
}

// Of `fn`, which is cut, all but itself.
void CutLoops(const Function& fn, const ir::Target& target, const CutOptions& how,
              CutProgram* out) {
  CutProgram& c = *out;
  const int slices = c.schedule.slices;
  const ir::LayoutPlan tiles = ir::MakePlan(fn, target, how.warpgroups);
  for (const auto& [dot, plan] : tiles.dots)
    if (plan.flies())
      c.in_flight.insert(dot);
    else if (plan.unit != ir::MatrixUnit::kNone)
      c.at_once = true;
  // What engines bring as well, and in wide rows, threads do not.
  for (const auto& [load, plan] : tiles.loads) {
    const Op& op = fn.ops[load];
    const ir::Type& tile = fn.type(op.results[0]);
    const bool narrow = tile.rank() == 2 && tile.shape[1] * ir::ByteSize(tile.dtype) <=
                                                target.lowering.narrow_row_bytes;
    if ((narrow || (plan.buffer && !plan.tma)) && ir::MayBeBrought(fn, op, target))
      c.by_threads.insert(load);
  }
  c.schedule.warpgroups = slices > 1 ? 1 : tiles.warpgroups;
  c.turns = c.at_once && target.Has("setmaxnreg") &&
            ir::TurnsPay(fn, tiles, target, c.schedule.warpgroups);
  c.schedule.roles = slices;
  c.in_place = ir::InTensorMemory(target.matrix_unit.kind);
  const std::function<bool(OpId)> has_ring = RingsOf(fn, tiles);
  for (OpId loop : InnermostLoops(fn)) {
    LoopReport report;
    report.at = fn.ops[loop].at;
    if (ir::Fetches(fn)) {
      report.notes.push_back("what an atomic of this kernel finds hangs on when it is made");
      c.schedule.loops.push_back(std::move(report));
      continue;
    }
    DiagSink attempt;
    Result<Extraction> extraction =
        ExtractLoop(fn, loop, target, ExtractOptions{1, how.crossing}, attempt);
    if (extraction.ok()) {
      report.extraction = std::move(*extraction);
      report.idle = NothingRunsAhead(fn, loop, has_ring);
      if (how.own_loads) LoadWhereRead(fn, has_ring, &report.extraction);
      report.outliving = Outliving(fn, loop, report.extraction);
      Graph& graph = report.extraction.graph;
      AddOperandReads(fn, tiles, target, &report.extraction);
      ShapeForLowering(graph, c.schedule.warpgroups, how.crossing);
      if (!c.in_place)
        LetWarpgroupsAlternate(OpsOf(c.in_flight, report.extraction),
                               OpsOf(IntoSums(fn), report.extraction), c.schedule.warpgroups,
                               &graph);
      if (!c.schedule.loops.empty())
        graph.name += fmt::format(".loop{}", c.schedule.loops.size() + 1);
    } else {
      report.idle = !attempt.all().empty() && attempt.all().front().def == &kLoopEmpty;
      report.notes.push_back(attempt.all().empty() ? "it is no loop of tile ops"
                                                   : attempt.all().front().message);
    }
    c.schedule.loops.push_back(std::move(report));
  }
}

}  // namespace

std::optional<CutProgram> CutRows(const Function& fn, int slices, const ir::Target& target,
                                  bool crossing, int warpgroups, bool own_loads) {
  CutProgram c;
  c.fn = fn;
  c.schedule.slices = slices;
  ir::SliceRows(c.fn, slices);
  if (slices > 1 && !SlicesAreApart(c.fn, target)) return std::nullopt;
  CutLoops(c.fn, target, {crossing, warpgroups, own_loads}, &c);
  return c;
}

CutProgram CutWhole(const Function& fn, const ir::Target& target) {
  CutProgram c;
  c.schedule.slices = 1;
  CutLoops(fn, target, {}, &c);
  return c;
}

void ShapeForLowering(Graph& graph, int warpgroups, bool crossing) {
  for (GraphOp& op : graph.ops) {
    if (op.variable_latency) continue;
    const int64_t issue = CeilDiv(op.issue, warpgroups);
    if (!op.async) op.latency = std::max<int64_t>(0, op.latency - (op.issue - issue));
    op.issue = issue;
    // Where one thread can issue a product it is one of the compute role's: a warpgroup has it.
    op.warps = std::max(op.warps, ir::isa::kWarpgroupWarps) * warpgroups;
    op.regs = CeilDiv(op.regs, warpgroups);
  }
  for (GraphEdge& e : graph.edges) {
    const GraphOp &from = graph.ops[static_cast<size_t>(e.from)],
                  &to = graph.ops[static_cast<size_t>(e.to)];
    if (from.variable_latency || to.variable_latency) continue;
    if (!from.async) e.delay = std::min(e.delay, from.latency);
    if (!crossing && from.slice == to.slice) e.crossable = false;
  }
}

}  // namespace tilec::scheduler
