// Which cut of a kernel is best: each choice of row slices is solved (in front of that:
// cut_rows.cc), the nests around its loops too, and the first is taken that has most loops with a
// schedule and the smallest sum of their IIs (behind that: apply_schedules.cc).
//
// SPDX-License-Identifier: Apache-2.0
#include "scheduler/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "ir/loop_plan.h"
#include "ir/row_classes.h"
#include "scheduler/as_loop.h"
#include "scheduler/chain_alone.h"
#include "scheduler/departures.h"
#include "scheduler/free_run.h"
#include "scheduler/nest.h"
#include "scheduler/program_cut.h"
#include "scheduler/role_sets.h"
#include "scheduler/top.h"

namespace tilec::scheduler {

namespace {

using ir::Function;
using ir::Op;
using ir::OpId;
using ir::OpKind;

// Chains of a slice that share nothing but loads have no edge that keeps them in one role.
void TieSlices(Graph* graph, int slices) {
  RoleSets sets(*graph);
  std::map<int, int> first;  // compute op of a slice
  for (int v = 0; v < static_cast<int>(graph->ops.size()); ++v) {
    const GraphOp& op = graph->ops[static_cast<size_t>(v)];
    const int slice = slices == 1 ? 0 : op.slice;
    if (op.variable_latency || slice < 0) continue;
    const int u = first.try_emplace(slice, v).first->second;
    if (sets.Find(u) == sets.Find(v)) continue;
    sets.Join(u, v);
    Graph::Pin tie;
    tie.op = op.name;
    tie.same_role_as = graph->ops[static_cast<size_t>(u)].name;
    graph->pins.push_back(std::move(tie));
  }
}

// More loops with a schedule, or a sum of IIs that is smaller by more than what is tolerated.
bool IsBetter(const CutProgram& c, const CutProgram& than, double epsilon) {
  const int solved = SolvedLoops(c), known = SolvedLoops(than);
  if (solved != known) return solved > known;
  return static_cast<double>(c.ii) <= static_cast<double>(than.ii) * (1 - epsilon);
}

// Does a loop become the same program by both of its schedules?
bool SamePlan(const CutProgram& c, const LoopReport& a, const LoopReport& b, OpId loop) {
  const auto plan = [&](const LoopReport& report) -> std::optional<ir::LoopPlan> {
    const auto compute = ComputeRoles(report.extraction.graph, report.solution.schedule, 1);
    if (!compute) return std::nullopt;
    std::string why;
    return PlanLoop(c.fn, loop, LoopScheduleOf(c, report, *compute), &why);
  };
  const std::optional<ir::LoopPlan> x = plan(a), y = plan(b);
  return x && y && x->stages == y->stages &&
         std::equal(x->order.begin(), x->order.end(), y->order.begin(), y->order.end(),
                    [](const ir::PlannedOp& p, const ir::PlannedOp& q) {
                      return p.op == q.op && p.role == q.role && p.stage == q.stage;
                    }) &&
         x->tokens.empty() && y->tokens.empty();
}

// A kernel that multiplies nothing has no rings, whatever its loops were solved with. Where they
// are solved without, and become the program that they were, that is what is said of it. (Another
// program is not taken: which of two orders of a row kernel is faster nothing here knows.)
void ForgetRings(const ProgramOptions& options, CutProgram* c) {
  if (c->at_once || !c->in_flight.empty() || options.alternative > 0) return;
  std::optional<CutProgram> own =
      CutRows(c->fn, 1, *options.target, false, c->schedule.warpgroups, true);
  if (!own) return;
  std::vector<LoopReport> reports;
  const std::vector<OpId> loops = InnermostLoops(c->fn);
  for (size_t i = 0; i < loops.size(); ++i) {
    const LoopReport& rings = c->schedule.loops[i];
    reports.push_back(rings);
    if (!rings.applied) continue;
    LoopReport& report = reports.back();
    report.extraction = std::move(own->schedule.loops[i].extraction);
    report.outliving = std::move(own->schedule.loops[i].outliving);
    Graph graph = report.extraction.graph;
    graph.machine.max_regs_per_thread =
        std::max<int64_t>(0, graph.machine.max_regs_per_thread - options.withheld_registers);
    DiagSink attempt;
    Result<Solution> solution = SolveStored(graph, options.solve, options.store, attempt);
    if (!solution.ok()) return;
    report.solution = std::move(*solution);
    report.solution.schedule.graph_hash = Hash(report.extraction.graph);
    if (!SamePlan(*c, rings, report, loops[i])) return;
  }
  c->schedule.loops = std::move(reports);
}

}  // namespace

std::optional<CutProgram> SolveCut(const Function& fn, int slices, const ProgramOptions& options,
                                   bool tied) {
  std::optional<CutProgram> c = CutRows(fn, slices, *options.target, false, options.warpgroups);
  if (!c) return std::nullopt;
  c->close = options.close;
  const std::vector<OpId> loops = InnermostLoops(c->fn);
  for (size_t i = 0; i < loops.size(); ++i) {
    LoopReport& report = c->schedule.loops[i];
    if (!report.extracted()) continue;
    DiagSink attempt;
    Graph graph = report.extraction.graph;
    graph.machine.max_regs_per_thread =
        std::max<int64_t>(0, graph.machine.max_regs_per_thread - options.withheld_registers);
    if (tied) TieSlices(&graph, slices);
    const auto solve = [&]() -> Result<Solution> {
      TRY_VOID(CheckGraph(graph, attempt));  // it has changed since it was extracted
      return SolveStored(graph, options.solve, options.store, attempt);
    };
    Result<Solution> solution = solve();
    if (!solution.ok()) {
      report.notes.push_back("no schedule was found");
      if (!attempt.all().empty()) {  // with the laws that exclude one another
        const Diagnostic& said = attempt.all().front();
        report.notes.back() = fmt::format("{}{}{}", said.message, said.notes.empty() ? "" : "; ",
                                          fmt::join(said.notes, "; "));
      }
      if (slices > 1) return std::nullopt;
      continue;
    }
    report.solution = std::move(*solution);
    c->ii += report.solution.schedule.ii;
    if (options.alternative > 0) {
      const std::vector<Alternative> answers =
          TopSolutions(graph, report.solution, options.alternative + 1, options.solve);
      // A loop that has only one answer keeps it: another loop of the kernel may have more.
      report.solution.schedule = answers.back().schedule;
    }
    report.solution.schedule.graph_hash = Hash(report.extraction.graph);
    if (c->in_place) LeaveOutTurns(graph, &report.solution.schedule);
    report.applied = true;
    // (Estimates keep to what tile sizes were measured by.)
    if (!options.solve.first_answer && StaysInOrder(*c, report, *options.target))
      c->in_order.insert(i);
  }
  if (slices == 1 && !tied) ForgetRings(options, &*c);
  return c;
}

ProgramSchedule ScheduleProgram(Function& fn, const ProgramOptions& options) {
  std::optional<CutProgram> best;
  const auto offer = [&](std::optional<CutProgram> c) {
    if (!c || (best && !IsBetter(*c, *best, options.solve.epsilon))) return;
    SolveNests(*c, options);
    if (ApplySchedules(*c)) best = std::move(c);
  };
  const ir::RowClasses rows(fn);
  for (int slices : rows.Choices()) {
    if (slices > 3 || (options.slices > 0 && slices != options.slices)) continue;
    std::optional<CutProgram> c = SolveCut(fn, slices, options);
    if (!c) continue;
    if (HasRoleForEachSlice(*c)) {
      offer(std::move(c));
      continue;
    }
    offer(SolveCut(fn, slices, options, true));
    c->schedule.apart = true;
    if (options.divide_slices && slices == 1) offer(std::move(c));
  }
  if (!best) return ProgramSchedule{};
  fn = std::move(best->fn);
  return std::move(best->schedule);
}

}  // namespace tilec::scheduler
