// Behind the solver: loops are rewritten so that the program says in its order and in the numbers
// of its roles what their schedules say in cycles, rings and quotas become the program's, and
// reports say what could not be obeyed. What the lowering then makes of rings, schedules take back
// (Adopt).
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "ir/arms.h"
#include "ir/loop_plan.h"
#include "ir/pass_tiles.h"
#include "ir/pipeline_loop.h"
#include "ir/queries.h"
#include "scheduler/as_loop.h"
#include "scheduler/departures.h"
#include "scheduler/issue_together.h"
#include "scheduler/most_turns.h"
#include "scheduler/program_cut.h"

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

bool IsWrite(const Op& op) { return ir::Info(op.kind).effect == ir::OpEffect::kWrite; }

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

void ForgetNests(ProgramSchedule* schedule) {
  schedule->nests.clear();
  schedule->resources.nests.clear();
  std::erase_if(schedule->resources.rings,
                [](const ir::ScheduledResources::Ring& ring) { return ring.around; });
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

bool Precedes(const Function& fn, OpId a, OpId b) {
  const std::vector<OpId>& ops = fn.blocks[fn.ops[a].block].ops;
  return std::find(ops.begin(), ops.end(), a) < std::find(ops.begin(), ops.end(), b);
}

// The op that issues for longest, where its role issues all the time; none: something else binds.
OpId LongestIfBound(const Function& fn, OpId loop, const LoopReport& report,
                    const ir::LoopSchedule& placed) {
  const ir::Schedule& schedule = report.solution.schedule;
  std::map<int, int64_t> issue;  // by role
  const ir::ScheduledOp* longest = nullptr;
  int64_t most = 0;
  for (const ir::ScheduledOp& op : schedule.ops) {
    const int v = report.extraction.graph.FindOp(op.name);
    if (v < 0) continue;
    const int64_t cycles = report.extraction.graph.ops[static_cast<size_t>(v)].issue;
    issue[op.role] += cycles;
    if (cycles > most) most = cycles, longest = &op;
  }
  constexpr double kSlack = 1.01;  // of II, beyond what the role issues
  if (!longest ||
      (static_cast<double>(schedule.ii) > kSlack * static_cast<double>(issue[longest->role]) &&
       !TurnsOverlap(fn, loop, placed)))
    return {};
  const auto v = static_cast<size_t>(report.extraction.graph.FindOp(longest->name));
  const std::vector<OpId> members = report.extraction.origins[v].members();
  OpId last;  // of its ops that have a place, in the program's order
  for (const auto& [id, time] : placed.ops)
    if (std::find(members.begin(), members.end(), id) != members.end() &&
        (!last.valid() || Precedes(fn, last, id)))
      last = id;
  return last;
}

bool SameOrder(const ir::LoopPlan& a, const ir::LoopPlan& b) {
  return std::equal(a.order.begin(), a.order.end(), b.order.begin(), b.order.end(),
                    [](const ir::PlannedOp& x, const ir::PlannedOp& y) {
                      return x.op == y.op && x.stage == y.stage;
                    });
}

// The plan with the products of a turn together, where it is another one and a schedule says it:
// then that schedule is the report's.
std::optional<ir::LoopPlan> Together(const CutProgram& c, OpId loop, const ir::LoopPlan& plan,
                                     const std::map<int, int>& compute, ir::LoopSchedule schedule,
                                     LoopReport* report) {
  const OpId longest = c.given ? OpId() : LongestIfBound(c.fn, loop, *report, schedule);
  std::string why;
  if (!longest.valid() || !IssueTogether(c.fn, loop, longest, &schedule)) return std::nullopt;
  std::optional<ir::LoopPlan> other = PlanLoop(c.fn, loop, schedule, &why);
  if (!other || SameOrder(plan, *other)) return std::nullopt;
  other->departures.push_back(
      "warpgroups multiply in turns, and a turn has no op that waits for it");
  LoopReport settled = *report;
  settled.notes.insert(settled.notes.end(), other->notes.begin(), other->notes.end());
  if (!SettleDepartures(c, loop, compute, *other, &settled)) return std::nullopt;
  *report = std::move(settled);
  return other;
}

// The order of the loop by its schedule; the report says what of it is not as solved.
std::optional<ir::LoopPlan> PlanOf(const CutProgram& c, OpId loop,
                                   const std::map<int, int>& compute, ir::LoopSchedule schedule,
                                   LoopReport* report, std::string* why) {
  std::optional<ir::LoopPlan> plan = PlanLoop(c.fn, loop, schedule, why);
  if (!plan) return plan;
  if (auto other = Together(c, loop, *plan, compute, std::move(schedule), report)) return other;
  report->notes.insert(report->notes.end(), plan->notes.begin(), plan->notes.end());
  SettleDepartures(c, loop, compute, *plan, report);
  return plan;
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

int SolvedLoops(const CutProgram& c) {
  return static_cast<int>(std::count_if(c.schedule.loops.begin(), c.schedule.loops.end(),
                                        [](const LoopReport& loop) { return loop.applied; }));
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
    std::optional<ir::LoopPlan> plan =
        PlanOf(c, loops[i], *compute, std::move(schedule), &report, &why);
    if (!plan) {
      if (refuse(why)) return false;
      continue;
    }
    report.going_on = plan->going_on;
    NoteNumbers(c.fn, &report);
    if (std::string few = TooFewTurns(c.fn, loops[i], plan->stages); !few.empty())
      report.notes.push_back(std::move(few));
    if (plan->stages > 0 && !c.schedule.apart && c.in_order.contains(i)) {
      for (const ir::PlannedOp& op : plan->order)
        if (op.role >= 0) ir::MarkRole(c.fn, op.op, op.role);
      report.in_order = true;
      report.going_on = 0;
      report.notes.push_back(
          "one warpgroup takes its chain for a turn in whatever order: the program's is kept");
      continue;
    }
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

}  // namespace tilec::scheduler
