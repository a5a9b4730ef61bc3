// SPDX-License-Identifier: Apache-2.0
#include "scheduler/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "ir/isa.h"
#include "ir/loop_plan.h"
#include "ir/lower/plan.h"
#include "ir/lower/turns.h"
#include "ir/lower/waits.h"
#include "ir/operand_reads.h"
#include "ir/pass_tiles.h"
#include "ir/pipeline_loop.h"
#include "ir/queries.h"
#include "ir/row_classes.h"
#include "ir/slice_rows.h"
#include "ir/uses.h"
#include "scheduler/alternate.h"
#include "scheduler/as_loop.h"
#include "scheduler/contract.h"
#include "scheduler/departures.h"
#include "scheduler/diagnostics.h"
#include "scheduler/free_run.h"
#include "scheduler/last_turn.h"
#include "scheduler/most_turns.h"
#include "scheduler/nest.h"
#include "scheduler/op_work.h"
#include "scheduler/own_loads.h"
#include "scheduler/program_cut.h"
#include "scheduler/role_sets.h"
#include "scheduler/top.h"

namespace tilec::scheduler {

namespace {

using ir::Function;
using ir::Op;
using ir::OpId;
using ir::OpKind;

bool HasBranch(const Function& fn, OpId loop) {
  const std::vector<OpId>& ops = fn.blocks[fn.ops[loop].regions[0]].ops;
  return std::any_of(ops.begin(), ops.end(),
                     [&](OpId id) { return fn.ops[id].kind == OpKind::kIf; });
}

// Tiles that every role may compute for itself.
constexpr int64_t kCheapTile = 512;

bool IsWrite(const Op& op) { return ir::Info(op.kind).effect == ir::OpEffect::kWrite; }

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

// Roles of a loop that run no op of the program. What such a role would load and hand on, those who
// need it read where it was loaded to.
void NoteIdleRoles(const std::map<int, int>& compute, LoopReport* report) {
  const ir::Schedule& schedule = report->solution.schedule;
  const std::map<std::string, int> roles = RolesByName(schedule);
  std::set<int> busy;
  for (size_t g = 0; g < report->extraction.graph.ops.size(); ++g)
    if (const auto role = roles.find(report->extraction.graph.ops[g].name);
        role != roles.end() && !report->extraction.origins[g].members().empty())
      busy.insert(role->second);
  for (const auto& [role, number] : compute)
    if (busy.count(role) == 0)
      report->notes.push_back(
          fmt::format("role {} would only hand tiles on; others read them where they were loaded "
                      "to, and it has "
                      "no part in the loop",
                      schedule.roles[static_cast<size_t>(role)].name));
}

// When a value passes from role to role: its store and its first load in the schedule.
ir::PutAndTake TimeOfPass(const LoopReport& report, const std::map<int, int>& compute, OpId maker,
                          OpId reader, int role) {
  const Graph& graph = report.extraction.graph;
  std::map<std::string, const ir::ScheduledOp*> scheduled;
  for (const ir::ScheduledOp& op : report.solution.schedule.ops) scheduled[op.name] = &op;
  const auto place = [&](int g) -> const ir::ScheduledOp* {
    const auto it = scheduled.find(graph.ops[static_cast<size_t>(g)].name);
    return it == scheduled.end() ? nullptr : it->second;
  };
  const auto owner = [&](OpId id) {
    for (size_t g = 0; g < graph.ops.size(); ++g)
      for (OpId member : report.extraction.origins[g].members())
        if (member == id) return static_cast<int>(g);
    return -1;
  };
  const int from = owner(maker), to = owner(reader);
  ir::PutAndTake time;
  if (from >= 0 && place(from)) time.put = place(from)->cycle;
  time.take = to >= 0 && place(to) ? place(to)->cycle : time.put;
  bool priced = false;
  for (const GraphEdge& e : graph.edges) {
    if (e.from != from || !e.HasRoute()) continue;
    const ir::ScheduledOp *store = place(e.store), *load = place(e.load);
    const auto there = load ? compute.find(load->role) : compute.end();
    if (!store || there == compute.end() || there->second != role) continue;
    time.put = store->cycle;
    time.take = priced ? std::min(time.take, load->cycle) : load->cycle;
    priced = true;
  }
  return time;
}

// Of products that are complete at once the assembler orders instructions as it likes, and what a
// schedule moves over them it moves back: iterations of compute roles keep the program's order, and
// what a schedule decides is roles and rings. (H200, attention: the products of the next iteration
// first lost 7 to 12 %.)
void KeepProgramOrder(const Function& fn, OpId loop, ir::LoopSchedule* schedule) {
  int64_t rank = 0;
  for (OpId id : fn.blocks[fn.ops[loop].regions[0]].ops)
    if (const auto op = schedule->ops.find(id); op != schedule->ops.end())
      op->second.cycle = rank++;
  schedule->ii = rank + 1;
  schedule->tensor = 0;
  schedule->tokens.clear();
}

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

int SolvedLoops(const CutProgram& c) {
  return static_cast<int>(std::count_if(c.schedule.loops.begin(), c.schedule.loops.end(),
                                        [](const LoopReport& loop) { return loop.applied; }));
}

void ForgetNests(ProgramSchedule* schedule) {
  schedule->nests.clear();
  schedule->resources.nests.clear();
  std::erase_if(schedule->resources.rings,
                [](const ir::ScheduledResources::Ring& ring) { return ring.around; });
}

// More loops with a schedule, or a sum of IIs that is smaller by more than what is tolerated.
bool IsBetter(const CutProgram& c, const CutProgram& than, double epsilon) {
  const int solved = SolvedLoops(c), known = SolvedLoops(than);
  if (solved != known) return solved > known;
  return static_cast<double>(c.ii) <= static_cast<double>(than.ii) * (1 - epsilon);
}

// What the loop's schedule says of rings and quotas; `compute`: numbers of its compute roles.
void NoteResources(const Function& fn, const LoopReport& report, const std::map<int, int>& compute,
                   ir::ScheduledResources* out) {
  const ir::Schedule& schedule = report.solution.schedule;
  for (const ir::Channel& channel : schedule.channels) {
    const int op = report.extraction.graph.FindOp(channel.value);
    if (op < 0 || channel.medium != "smem") continue;
    for (OpId member : report.extraction.origins[static_cast<size_t>(op)].members())
      if (fn.ops[member].kind == OpKind::kLoad)
        out->rings.push_back({fn.ops[member].at, channel.depth});
  }
  for (size_t role = 0; role < schedule.roles.size(); ++role) {
    const int64_t regs = schedule.roles[role].regs;
    const auto number = compute.find(static_cast<int>(role));
    if (number == compute.end()) {
      out->load_registers = std::max(out->load_registers, regs);
      continue;
    }
    const auto index = static_cast<size_t>(number->second);
    out->registers.resize(std::max(out->registers.size(), index + 1));
    out->registers[index] = std::max(out->registers[index], regs);
  }
}

}  // namespace

void Adopt(const ir::ScheduledResources& made, ProgramSchedule* schedule) {
  for (LoopReport& report : schedule->loops) {
    if (!report.applied) continue;
    for (ir::Channel& channel : report.solution.schedule.channels) {
      const int op = report.extraction.graph.FindOp(channel.value);
      if (op < 0 || channel.medium != "smem") continue;
      for (const OriginStep& step : report.extraction.origins[static_cast<size_t>(op)].steps)
        for (const ir::ScheduledResources::Ring& ring : made.rings)
          if (step.kind == StepKind::kOp && step.at.file == ring.load.file &&
              step.at.begin == ring.load.begin && step.at.end == ring.load.end)
            channel.depth = std::max(channel.depth, static_cast<int>(ring.slots));
    }
  }
}

namespace {

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
        if (use.cycles.per.bytes > 0)
          AddUse(&loop->graph.ops[g], {use.unit, use.cycles.At(work)});
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

}  // namespace

std::optional<CutProgram> CutRows(const Function& fn, int slices, const ir::Target& target,
                                  bool crossing, int warpgroups, bool own_loads) {
  CutProgram c;
  c.fn = fn;
  c.schedule.slices = slices;
  ir::SliceRows(c.fn, slices);
  if (slices > 1 && !SlicesAreApart(c.fn, target)) return std::nullopt;
  const ir::LayoutPlan tiles = ir::MakePlan(c.fn, target, warpgroups);
  for (const auto& [dot, plan] : tiles.dots)
    if (plan.flies())
      c.in_flight.insert(dot);
    else if (plan.unit != ir::MatrixUnit::kNone)
      c.at_once = true;
  c.schedule.warpgroups = slices > 1 ? 1 : tiles.warpgroups;
  c.turns = c.at_once && target.Has("setmaxnreg") &&
            ir::TurnsPay(c.fn, tiles, target, c.schedule.warpgroups);
  c.schedule.roles = slices;
  c.in_place = ir::InTensorMemory(target.matrix_unit.kind);
  c.unpack = ir::CtasWanted(c.fn, target) > 1;
  const std::function<bool(OpId)> has_ring = RingsOf(c.fn, tiles);
  for (OpId loop : InnermostLoops(c.fn)) {
    LoopReport report;
    report.at = c.fn.ops[loop].at;
    if (ir::Fetches(c.fn)) {
      report.notes.push_back("what an atomic of this kernel finds hangs on when it is made");
      c.schedule.loops.push_back(std::move(report));
      continue;
    }
    DiagSink attempt;
    Result<Extraction> extraction =
        ExtractLoop(c.fn, loop, target, ExtractOptions{1, crossing}, attempt);
    if (extraction.ok()) {
      report.extraction = std::move(*extraction);
      if (own_loads) LoadWhereRead(c.fn, has_ring, &report.extraction);
      report.outliving = Outliving(c.fn, loop, report.extraction);
      Graph& graph = report.extraction.graph;
      AddOperandReads(c.fn, tiles, target, &report.extraction);
      ShapeForLowering(graph, c.schedule.warpgroups, crossing);
      if (!c.in_place)
        LetWarpgroupsAlternate(OpsOf(c.in_flight, report.extraction),
                               OpsOf(IntoSums(c.fn), report.extraction), c.schedule.warpgroups,
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
  return c;
}

namespace {

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
  }
  if (slices == 1 && !tied) ForgetRings(options, &*c);
  return c;
}

// One number of a whole tile has no place in the program, as scalars have none (ir/loop_plan.h).
void NoteNumbers(const Function& fn, LoopReport* report) {
  for (size_t g = 0; g < report->extraction.graph.ops.size(); ++g) {
    const OriginStep& main = report->extraction.origins[g]
                                 .steps[static_cast<size_t>(report->extraction.origins[g].main)];
    if (main.kind != StepKind::kOp || !main.op.valid()) continue;
    const ir::OpKind kind = fn.ops[main.op].kind;
    if ((kind == OpKind::kReduce || kind == OpKind::kArgReduce) &&
        ir::IsReplicated(fn, fn.ops[main.op]))
      report->notes.push_back(fmt::format("`{}` makes one number, and runs where that is read",
                                          report->extraction.graph.ops[g].name));
  }
}

bool ApplySchedules(CutProgram& c) {
  const std::vector<OpId> loops = InnermostLoops(c.fn);
  const bool sliced = c.schedule.slices > 1;
  const int solved = SolvedLoops(c);
  int64_t tokens = 0;
  std::map<std::string, int> numbers;  // of roles that are as scheduled
  for (size_t i = 0; i < loops.size(); ++i) {
    LoopReport& report = c.schedule.loops[i];
    if (!report.applied) continue;
    const auto refuse = [&](std::string why) {
      report.applied = false;
      report.notes.push_back(std::move(why));
      return sliced;
    };
    const auto compute =
        c.schedule.apart
            ? NamedRoles(report.extraction.graph, report.solution.schedule, &numbers)
            : ComputeRoles(report.extraction.graph, report.solution.schedule, c.schedule.slices);
    if (!compute) {
      refuse("one role runs ops of several row slices");
      return false;
    }
    if (c.schedule.apart && HasBranch(c.fn, loops[i])) {
      refuse("tiles do not pass between compute roles in a loop with a branch");
      return false;
    }
    NoteResources(c.fn, report, *compute, &c.schedule.resources);
    ir::LoopSchedule schedule = LoopScheduleOf(c, report, *compute);
    if (c.schedule.apart) NoteIdleRoles(*compute, &report);
    if (c.schedule.apart)
      ir::PassInLoop(
          c.fn, loops[i], schedule,
          [&](OpId maker, OpId reader, int role) {
            return TimeOfPass(report, *compute, maker, reader, role);
          },
          &tokens);
    if (c.at_once) KeepProgramOrder(c.fn, loops[i], &schedule);
    std::string why;
    const std::optional<ir::LoopPlan> plan = PlanLoop(c.fn, loops[i], schedule, &why);
    if (!plan) {
      if (refuse(why)) return false;
      continue;
    }
    report.notes.insert(report.notes.end(), plan->notes.begin(), plan->notes.end());
    SettleDepartures(c, loops[i], *compute, *plan, &report);
    report.going_on = plan->going_on;
    NoteNumbers(c.fn, &report);
    if (std::string few = TooFewTurns(c.fn, loops[i], plan->stages); !few.empty())
      report.notes.push_back(std::move(few));
    if (!PipelineLoop(c.fn, loops[i], *plan, &tokens) &&
        refuse("it reads across turns in a way the lowering does not know"))
      return false;
  }
  // A nest is of loops that obey their schedules.
  if (SolvedLoops(c) < solved) ForgetNests(&c.schedule);
  if (c.schedule.apart) {
    c.schedule.roles = std::max(1, static_cast<int>(numbers.size()));
    std::string why;
    if (ir::PassTiles(c.fn, &tokens, &why)) return true;
    for (LoopReport& report : c.schedule.loops) {
      report.applied = false;
      report.notes.push_back(why);
    }
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

bool HasRoleForEachSlice(const CutProgram& c) {
  for (const LoopReport& report : c.schedule.loops) {
    if (!report.applied) continue;
    const auto compute =
        ComputeRoles(report.extraction.graph, report.solution.schedule, c.schedule.slices);
    std::set<int> seen;
    if (!compute) return false;
    for (const auto& [role, slice] : *compute)
      if (!seen.insert(slice).second) return false;
  }
  return true;
}

void ShapeForLowering(Graph& graph, int warpgroups, bool crossing) {
  for (GraphOp& op : graph.ops) {
    if (op.variable_latency) continue;
    const int64_t issue = CeilDiv(op.issue, warpgroups);
    if (!op.async) op.latency -= op.issue - issue;
    op.issue = issue;
    // Where one thread can issue a product it is one of the compute role's: a warpgroup has it.
    op.warps = std::max(op.warps, ir::isa::kWarpgroupWarps) * warpgroups;
    op.regs = CeilDiv(op.regs, warpgroups);
  }
  for (GraphEdge& e : graph.edges) {
    const GraphOp &from = graph.ops[static_cast<size_t>(e.from)],
                  &to = graph.ops[static_cast<size_t>(e.to)];
    if (from.variable_latency || to.variable_latency) continue;
    if (!from.async) e.delay = std::min(e.delay, std::max<int64_t>(from.latency, 0));
    if (!crossing && from.slice == to.slice) e.crossable = false;
  }
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
