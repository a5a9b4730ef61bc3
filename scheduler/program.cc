// SPDX-License-Identifier: Apache-2.0
#include "scheduler/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "ir/loop_plan.h"
#include "ir/lower/plan.h"
#include "ir/pipeline_loop.h"
#include "ir/row_classes.h"
#include "ir/slice_rows.h"
#include "scheduler/program_cut.h"
#include "scheduler/top.h"

namespace tilec::scheduler {

namespace {

using ir::Function;
using ir::Op;
using ir::OpId;
using ir::OpKind;

// Tiles that every role may compute for itself.
constexpr int64_t kCheapTile = 512;

bool IsWrite(const Op& op) { return ir::Info(op.kind).effect == ir::OpEffect::kWrite; }

// Does the op compute a tile that belongs to no slice and is too large to compute twice?
bool IsShared(const Function& fn, const Op& op) {
  return op.attr("slice") == nullptr && !ir::IsReplicated(fn, op) && op.results.size() == 1 &&
         op.regions.empty() && fn.type(op.results[0]).elements() > kCheapTile;
}

// Slices may only share what the load role brings or what is cheap.
bool SlicesAreApart(const Function& fn) {
  const ir::Plan plan = ir::MakePlan(fn, 1);
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

std::map<std::string, int> RolesByName(const ir::Schedule& schedule) {
  std::map<std::string, int> roles;
  for (const ir::ScheduledOp& op : schedule.ops) roles[op.name] = op.role;
  return roles;
}

// Compute role of each scheduled role: the slice whose ops it runs. nullopt: it mixes slices.
std::optional<std::map<int, int>> ComputeRoles(const Graph& graph, const ir::Schedule& schedule,
                                               int slices) {
  std::map<int, int> compute;
  const std::map<std::string, int> roles = RolesByName(schedule);
  for (const GraphOp& op : graph.ops) {
    if (op.variable_latency) continue;
    const int slice = slices == 1 ? 0 : op.slice;
    if (slice < 0) continue;
    const auto [it, fresh] = compute.try_emplace(roles.at(op.name), slice);
    if (it->second != slice) return std::nullopt;
  }
  return compute;
}

ir::LoopSchedule ToLoopSchedule(const Function& fn, const LoopReport& report,
                                const std::map<int, int>& compute, int slices) {
  ir::LoopSchedule out;
  const Graph& graph = report.extraction.graph;
  const ir::Schedule& schedule = report.solution.schedule;
  out.ii = schedule.ii;
  std::map<std::string, int64_t> cycles;
  for (const ir::ScheduledOp& op : schedule.ops) cycles[op.name] = op.cycle;
  const std::map<std::string, int> roles = RolesByName(schedule);
  for (size_t g = 0; g < graph.ops.size(); ++g) {
    const std::string& name = graph.ops[g].name;
    const auto role = compute.find(roles.at(name));
    for (OpId id : report.extraction.origins[g].members()) {
      if (ir::IsReplicated(fn, fn.ops[id])) continue;
      if (role == compute.end() || (slices > 1 && fn.ops[id].attr("slice") == nullptr))
        out.replicated.insert(id);
      else
        out.ops[id] = {role->second, cycles.at(name)};
    }
  }
  for (const ir::OrderEdge& edge : schedule.order) {
    const int from = graph.FindOp(edge.from), to = graph.FindOp(edge.to);
    if (!edge.enforced || from < 0 || to < 0) continue;
    const auto main = [&](int g) {
      const OpOrigin& origin = report.extraction.origins[static_cast<size_t>(g)];
      return origin.steps[static_cast<size_t>(origin.main)].op;
    };
    if (!main(from).valid() || !main(to).valid()) continue;
    out.tokens.push_back(
        {main(from), main(to), CeilDiv(cycles.at(edge.from) - cycles.at(edge.to), schedule.ii)});
  }
  return out;
}

}  // namespace

std::optional<CutProgram> CutRows(const Function& fn, int slices, const ir::Target& target) {
  CutProgram c;
  c.fn = fn;
  c.schedule.slices = slices;
  ir::SliceRows(c.fn, slices);
  if (slices > 1 && !SlicesAreApart(c.fn)) return std::nullopt;
  c.schedule.warpgroups = slices > 1 ? 1 : ir::MakePlan(c.fn).warpgroups;
  c.schedule.roles = slices;
  for (OpId loop : InnermostLoops(c.fn)) {
    LoopReport report;
    report.at = c.fn.ops[loop].at;
    DiagSink attempt;
    Result<Extraction> extraction = ExtractLoop(c.fn, loop, target, 1, attempt);
    if (extraction.ok()) {
      report.extraction = std::move(*extraction);
      Graph& graph = report.extraction.graph;
      ShapeForLowering(graph, c.schedule.warpgroups);
      if (!c.schedule.loops.empty())
        graph.name += fmt::format(".loop{}", c.schedule.loops.size() + 1);
    } else {
      report.notes.push_back(attempt.all().empty() ? "it is no loop of tile ops"
                                                   : attempt.all().front().message);
    }
    c.schedule.loops.push_back(std::move(report));
  }
  return c;
}

std::optional<CutProgram> SolveCut(const Function& fn, int slices, const ProgramOptions& options) {
  std::optional<CutProgram> c = CutRows(fn, slices, *options.target);
  if (!c) return std::nullopt;
  for (LoopReport& report : c->schedule.loops) {
    if (!report.extracted()) continue;
    DiagSink attempt;
    Graph graph = report.extraction.graph;
    graph.machine.max_regs_per_thread =
        std::max<int64_t>(0, graph.machine.max_regs_per_thread - options.withheld_registers);
    Result<Solution> solution = SolveStored(graph, options.solve, options.store, attempt);
    if (!solution.ok()) {
      report.notes.push_back(attempt.all().empty() ? "no schedule was found"
                                                   : attempt.all().front().message);
      if (slices > 1) return std::nullopt;
      continue;
    }
    report.solution = std::move(*solution);
    if (options.alternative > 0) {
      const std::vector<Alternative> answers =
          TopSolutions(graph, report.solution, options.alternative + 1, options.solve);
      // A loop that has only one answer keeps it: another loop of the kernel may have more.
      report.solution.schedule = answers.back().schedule;
    }
    report.solution.schedule.graph_hash = Hash(report.extraction.graph);
    report.applied = true;
    c->ii += report.solution.schedule.ii;
  }
  return c;
}

bool ApplySchedules(CutProgram& c) {
  const std::vector<OpId> loops = InnermostLoops(c.fn);
  const bool sliced = c.schedule.slices > 1;
  int64_t tokens = 0;
  for (size_t i = 0; i < loops.size(); ++i) {
    LoopReport& report = c.schedule.loops[i];
    if (!report.applied) continue;
    const auto refuse = [&](std::string why) {
      report.applied = false;
      report.notes.push_back(std::move(why));
      return sliced;
    };
    const auto compute =
        ComputeRoles(report.extraction.graph, report.solution.schedule, c.schedule.slices);
    if (!compute) {
      refuse("one role runs ops of several row slices");
      return false;
    }
    const ir::LoopSchedule schedule = ToLoopSchedule(c.fn, report, *compute, c.schedule.slices);
    std::string why;
    const std::optional<ir::LoopPlan> plan = PlanLoop(c.fn, loops[i], schedule, &why);
    if (!plan) {
      if (refuse(why)) return false;
      continue;
    }
    report.notes.insert(report.notes.end(), plan->notes.begin(), plan->notes.end());
    if (!PipelineLoop(c.fn, loops[i], *plan, &tokens) &&
        refuse("it reads across turns in a way the lowering does not know"))
      return false;
  }
  if (!sliced) return true;
  // What writes belongs to the role of its slice.
  for (OpId id : ir::OpsInOrder(c.fn)) {
    Op& op = c.fn.ops[id];
    if (IsWrite(op) && op.attr("role") == nullptr) op.set("role", op.i("slice", 0));
  }
  return true;
}

void ShapeForLowering(Graph& graph, int warpgroups) {
  for (GraphOp& op : graph.ops) {
    if (op.variable_latency) continue;
    const int64_t issue = CeilDiv(op.issue, warpgroups);
    if (!op.async) op.latency -= op.issue - issue;
    op.issue = issue;
    op.warps *= warpgroups;
    op.regs = CeilDiv(op.regs, warpgroups);
  }
  for (GraphEdge& e : graph.edges) {
    const GraphOp &from = graph.ops[static_cast<size_t>(e.from)],
                  &to = graph.ops[static_cast<size_t>(e.to)];
    if (from.variable_latency || to.variable_latency) continue;
    if (!from.async) e.delay = std::min(e.delay, std::max<int64_t>(from.latency, 0));
    if (from.slice == to.slice) e.crossable = false;
  }
}

ProgramSchedule ScheduleProgram(Function& fn, const ProgramOptions& options) {
  std::optional<CutProgram> best;
  const ir::RowClasses rows(fn);
  for (int slices : rows.Choices()) {
    if (slices > 3 || (options.slices > 0 && slices != options.slices)) continue;
    std::optional<CutProgram> c = SolveCut(fn, slices, options);
    if (!c) continue;
    if (best &&
        static_cast<double>(c->ii) > static_cast<double>(best->ii) * (1 - options.solve.epsilon))
      continue;
    if (!ApplySchedules(*c)) continue;
    best = std::move(c);
  }
  if (!best) return ProgramSchedule{};
  fn = std::move(best->fn);
  return std::move(best->schedule);
}

}  // namespace tilec::scheduler
