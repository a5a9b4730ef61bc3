// The steps of line.h, as far as they make something; what must be gained is in worth.cc.
//
// SPDX-License-Identifier: Apache-2.0
#include "compile/line.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "compile/diagnostics.h"
#include "compile/passes.h"
#include "compile/planning.h"
#include "compile/proof_size.h"
#include "ir/clean_up.h"
#include "ir/isa.h"
#include "ir/lower/filled.h"
#include "ir/lower/pressure.h"
#include "ir/lower/sequential.h"
#include "ir/lower/waits.h"
#include "ir/passes/arrange_grid.h"
#include "ir/passes/pack_rows.h"
#include "ir/warp_check/check.h"
#include "support/check.h"

namespace tilec::compile {

namespace {

// What the proof may walk of persistent CTAs; where a predicted time says that they gain (or a
// person), more: causal attention of d = 64 takes 2029 to 9000 states.
// (Of 294 such programs that the tests compile none is proved in more than 1523 states and 420,203
// ops; what has more has no end in sight.)
constexpr int64_t kMostOps = 450'000, kMostStates = 1600;
constexpr int64_t kPatientOps = 5'000'000, kPatientStates = 20'000;
class Timer {
 public:
  Timer(Account* account, std::string step)
      : account_(account), step_(std::move(step)), start_(std::chrono::steady_clock::now()) {}
  ~Timer() {
    const std::chrono::duration<double, std::milli> ms = std::chrono::steady_clock::now() - start_;
    account_->times.push_back({step_, ms.count()});
  }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;
  void Rename(std::string step) { step_ = std::move(step); }

 private:
  Account* account_;
  std::string step_;
  std::chrono::steady_clock::time_point start_;
};

ir::PassStep StepOf(const ParameterPass& row, ir::PassFunction run,
                    ir::FactSet gives = ir::kNoFacts) {
  return {{row.name, row.summary, ir::kTileLevel, gives, ir::kNoFacts}, std::move(run)};
}

// Registers of a thread that tiles leave free; −1: whatever is left, where program order is behind.
int64_t Beside(const Strategy& strategy, const ir::Target& target) {
  if (strategy.scheduled()) return target.registers.beside_scheduled;
  // Where warps cannot trade registers, what does not fit a role fits one role in program order.
  const bool refused = strategy.guard_masks || !target.Has("setmaxnreg");
  return refused ? target.registers.beside_by_rule : -1;
}

// What became of the loops, said anew for every strategy that has the schedule.
int Report(const scheduler::ProgramSchedule& schedule, bool from_file, DiagSink& said) {
  int applied = 0;
  for (const scheduler::LoopReport& loop : schedule.loops) {
    applied += loop.applied;
    if (!loop.applied && !loop.idle)
      said.Report(kLoopKeepsItsOrder, loop.at,
                  loop.notes.empty() ? "no schedule was found" : loop.notes.back());
    for (const std::string& note : loop.notes)  // of the solver's nobody expects more
      if (from_file && loop.applied) said.Report(kScheduleChanged, loop.at, note);
  }
  return applied;
}

Resource ResourceOf(ir::LowerNeed::What what) {
  switch (what) {
    case ir::LowerNeed::What::kOther: return Resource::kForm;
    case ir::LowerNeed::What::kSharedMemory: return Resource::kSharedMemory;
    case ir::LowerNeed::What::kRegisters: return Resource::kRegisters;
    case ir::LowerNeed::What::kRegistersOfProducts: return Resource::kRegistersOfProducts;
  }
  return Resource::kForm;
}

}  // namespace

Refusal RefusalOf(Stage stage, Resource resource, const DiagSink& said) {
  Refusal refusal;
  refusal.stage = stage;
  refusal.resource = resource;
  for (const Diagnostic& d : said.all())
    if (d.def->severity == Severity::kError) refusal.why = d.message, refusal.op = d.span;
  return refusal;
}

Result<> Line::Run(ir::Function& fn, std::span<const ir::PassStep> steps, DiagSink& said) {
  ir::PassOptions options = request_.passes;
  const auto none_of_these = [&](const std::string& name) {
    return name != "all" && std::none_of(steps.begin(), steps.end(), [&](const ir::PassStep& s) {
             return name == s.info.name;
           });
  };
  std::erase_if(options.print_after, none_of_these);
  if (none_of_these(options.stop_after)) options.stop_after.clear();
  const auto start = std::chrono::steady_clock::now();
  Result<ir::PassOutcome> outcome = ir::RunSteps(fn, steps, *request_.target, options, said);
  if (!outcome.ok()) {
    const std::chrono::duration<double, std::milli> ms = std::chrono::steady_clock::now() - start;
    account_->times.push_back({std::string(steps.back().info.name) + ", refused", ms.count()});
    return DiagSink::Propagate();
  }
  for (const ir::PassTime& t : outcome->times) account_->times.push_back({t.name, t.milliseconds});
  printed_ += outcome->printed;
  stopped_ = stopped_ || outcome->stopped;
  return Done();
}

Result<> Line::CleanUp(DiagSink& diags) {
  TRY_VOID(Run(tile_, ir::CleanUpUntilRows(), diags));
  if (stopped_) return Done();
  if (request_.wish.split > 1) loops_ = ir::LoopsOfRows(tile_);
  std::vector<ir::PassStep> steps = ir::CleanUpOfRows();
  const int64_t heads = request_.wish.pack;
  if (heads > 1)
    steps.push_back(StepOf(PackPass(), [heads](ir::Function& fn, ir::PassContext& cx) {
      const std::optional<ir::Obstacle> why = ir::PackRows(fn, heads);
      cx.changes += !why;
      if (why) cx.diags.Report(kNotPacked, why->at, fn.name, heads, why->why);
      return Done();
    }));
  if (const int64_t along = request_.wish.along; along > 0)
    steps.push_back(StepOf(GridPass(), [along](ir::Function& fn, ir::PassContext& cx) {
      cx.changes += ir::ArrangeGrid(fn, along);
      return Done();
    }));
  if (!loops_) return Run(tile_, steps, diags);
  DiagSink unsaid;  // of rows that are kept as no CTA of several keeps them
  const Result<> ran = Run(tile_, steps, unsaid);
  if (!ran.ok()) unsaid.MoveTo(diags);
  return ran;
}

Step<const ir::Function*> Line::ShapeFor(const Strategy& strategy, DiagSink& said) {
  if (!strategy.roles() && strategy.shape == Shape::kOnce) return &tile_;
  auto at = shaped_.find(strategy.shape);
  if (at == shaped_.end()) {
    const bool rows = strategy.shape == Shape::kSplit && loops_;
    ir::Function fn = rows ? *loops_ : tile_;
    std::optional<ir::Obstacle> obstacle;
    const ir::PassStep step =
        StepOf(PassOf(strategy.shape), [&](ir::Function& f, ir::PassContext& cx) {
          const int64_t ctas = strategy.ctas > 1 ? strategy.ctas : 0;
          obstacle = rows ? ir::SplitLoopsOfRows(f, ctas, *request_.target)
                          : Reshape(f, strategy.shape, ctas, *request_.target);
          cx.changes += !obstacle;
          return Done();
        });
    const Result<> ran = Run(fn, std::span(&step, 1), said);
    Refusal refusal = RefusalOf(Stage::kShape, Resource::kForm, said);
    if (obstacle) refusal.why = obstacle->why, refusal.op = obstacle->at;
    at = shaped_
             .emplace(strategy.shape, ran.ok() && !obstacle ? Step<ir::Function>(std::move(fn))
                                                            : Step<ir::Function>(refusal))
             .first;
  }
  if (at->second.refusal) return *at->second.refusal;
  return &*at->second.product;
}

namespace {
// Warpgroups of the only compute role; 0: as many as its tiles ask for.
int WarpgroupsOf(const Strategy& strategy) { return strategy.order == Order::kSolvedTwo ? 2 : 0; }
}  // namespace

Result<> Line::Schedule(const Strategy& strategy, Solved* solved, DiagSink& said) {
  scheduler::ProgramOptions options;
  options.target = request_.target;
  options.solve = scheduler::SolveOptions::ForCompilation();
  if (request_.first_schedules) {
    options.solve.total_limit = options.solve.resource_limit = 1;
    options.solve.optimize_secondary = false;
    options.solve.first_answer = true;
  }
  const bool one_role = strategy.order == Order::kSolvedOne ||
                        strategy.order == Order::kSolvedTwo ||
                        strategy.order == Order::kSolvedClose;
  options.slices = one_role ? 1 : request_.wish.slices;
  options.close = strategy.order == Order::kSolvedClose;
  options.warpgroups = WarpgroupsOf(strategy);
  options.store = request_.store;
  options.withheld_registers = strategy.withheld_registers;
  options.divide_slices = strategy.order == Order::kSolved;
  const ir::PassStep step = StepOf(
      SchedulePass(),
      [&](ir::Function& fn, ir::PassContext& cx) -> Result<> {
        if (request_.file) {
          TRY(solved->schedule,
              scheduler::ScheduleProgramFrom(fn, options, *request_.file, cx.diags));
        } else {
          solved->schedule = scheduler::ScheduleProgram(fn, options);
        }
        for (const scheduler::LoopReport& loop : solved->schedule.loops) cx.changes += loop.applied;
        return Done();
      },
      ir::kScheduled);
  return Run(solved->fn, std::span(&step, 1), said);
}

Step<const Solved*> Line::SolveFor(const Strategy& strategy, const ir::Function& shaped,
                                   DiagSink& said) {
  if (!strategy.scheduled()) return static_cast<const Solved*>(nullptr);
  const Key key = {strategy.shape, {strategy.order, strategy.withheld_registers}};
  auto at = solved_.find(key);
  if (at == solved_.end()) {
    Solved solved{shaped, {}};
    DiagSink failure;
    const Result<> ran = Schedule(strategy, &solved, failure);
    const Resource at_fault = request_.file ? Resource::kSchedule : Resource::kForm;
    at = solved_
             .emplace(key, ran.ok() ? Step<Solved>(std::move(solved))
                                    : Step<Solved>(RefusalOf(Stage::kSchedule, at_fault, failure)))
             .first;
    failure.MoveTo(said);
  }
  if (at->second.refusal) return *at->second.refusal;
  Report(at->second.product->schedule, request_.file.has_value(), said);
  return &*at->second.product;
}

ir::PassStep Line::RolesStep(const Strategy& strategy, const Solved* solved,
                             const Planning& planning, Lowered* lowered, ir::LowerNeed* need,
                             ir::NoProducer* no_producer) const {
  ir::PassStep step = ir::StepOf(ir::PassId::kLowerRoles);
  step.run = [=, this](ir::Function& fn, ir::PassContext& cx) -> Result<> {
    ir::SequentialOptions options;
    options.spare_registers = Beside(strategy, cx.target);
    options.spare_for_products = !request_.file;
    options.need = need;
    options.no_producer = no_producer;
    if (solved && solved->schedule.apart) options.warpgroups = solved->schedule.warpgroups;
    options.share = WarpgroupsOf(strategy);
    ir::ScheduledResources resources;
    if (solved) {
      resources = solved->schedule.resources;
      resources.binding = request_.file.has_value();
      options.scheduled = &resources;
    }
    TRY_VOID(LowerBy(planning, true, options, &lowered->roles, fn, cx));
    cx.changes += lowered->roles ? 2 : 1;
    return Done();
  };
  return step;
}

Step<Lowered> Line::Lower(const Strategy& strategy, const ir::Function& from, const Solved* solved,
                          DiagSink& said) {
  Lowered lowered;
  lowered.fn = from;
  ir::LowerNeed need;
  ir::NoProducer no_producer;
  met_plan_ = false;
  std::vector<ir::PassStep> steps;
  if (strategy.order == Order::kRule) steps.push_back(ir::StepOf(ir::PassId::kPipelineProducts));
  if (strategy.guard_masks) {
    ir::PassStep guard = ir::StepOf(ir::PassId::kGuardMasks);
    guard.run = [this, &strategy, run = guard.run](ir::Function& fn,
                                                   ir::PassContext& cx) -> Result<> {
      TRY_VOID(run(fn, cx));
      if (cx.changes == 0) unguarded_.insert(KeyOf(strategy));
      return Done();
    };
    steps.push_back(std::move(guard));
    steps.push_back(ir::StepOf(ir::PassId::kDce));
  }
  steps.push_back(ir::StepOf(ir::PassId::kRereadTiles));
  steps.push_back(ir::StepOf(ir::PassId::kReadAhead));
  const Planning planning = {request_.plan, request_.wants_plan ? &lowered.plan : nullptr,
                             &met_plan_, &lowered.resources};
  steps.push_back(strategy.roles()
                      ? RolesStep(strategy, solved, planning, &lowered, &need, &no_producer)
                      : OneRoleStep(planning, &need));
  ++emissions_;
  if (!Run(lowered.fn, steps, said).ok()) {
    Refusal refusal = RefusalOf(Stage::kLower, ResourceOf(need.what), said);
    refusal.needed = need.needed, refusal.available = need.available;
    return refusal;
  }
  // CTAs that stay, as many as were to share SMs, and cannot: half of them would wait for others.
  if (strategy.shape == Shape::kPersistent && lowered.roles && !stopped_ &&
      ir::CtasWanted(from, *request_.target) > lowered.fn.launch.ctas_per_sm) {
    Refusal refusal;
    refusal.stage = Stage::kLower, refusal.resource = Resource::kForm;
    refusal.why = "its CTAs were to share SMs, and registers or shared memory do not suffice";
    return refusal;
  }
  if (solved && !stopped_) {
    const auto& loops = solved->schedule.loops;
    const bool applied =
        std::any_of(loops.begin(), loops.end(), [](const auto& loop) { return loop.applied; });
    if (applied && !lowered.roles && !request_.file && !request_.plan)
      MakeRoom(strategy, &lowered, said);
    if (lowered.own_order.empty())
      lowered.losses =
          LossesOf(solved->schedule, from, lowered.resources, no_producer, *request_.target);
  }
  return lowered;
}

// What will have no end is not begun. (A plan or a schedule of a person's is refused by the proof.)
std::optional<Refusal> Line::Endless(const Strategy& strategy, const Lowered& lowered) const {
  if (request_.wish.stays || strategy.shape != Shape::kPersistent) return std::nullopt;
  if (request_.plan || request_.file) return std::nullopt;
  const int64_t fillings = FillingsOfNest(lowered.fn);
  if (fillings <= kMostFillings) return std::nullopt;
  Refusal refusal;
  refusal.stage = Stage::kProve, refusal.resource = Resource::kProof;
  refusal.needed = fillings, refusal.available = kMostFillings;
  refusal.why = "the proof would take too long: the rings of its loops can be full in many ways";
  return refusal;
}

std::optional<Refusal> Line::Prove(const Strategy& strategy, const Lowered& lowered,
                                   DiagSink& said) {
  if (!request_.prove) return std::nullopt;
  if (std::optional<Refusal> endless = Endless(strategy, lowered)) return endless;
  Timer timer(account_, "warp check");
  ir::WarpCheckOptions check(*request_.target);
  if (strategy.shape == Shape::kPersistent || strategy.shape == Shape::kClustered) {
    const bool patient = request_.wish.stays && strategy.shape == Shape::kPersistent;
    check.max_ops = patient ? kPatientOps : kMostOps;
    check.max_states = patient ? kPatientStates : kMostStates;
    check.widen = false;
    if (!patient) check.agree_depth = 3;  // which of one loop in a CTA stay, was measured
  }
  const ir::WarpVerdict verdict = ir::ProveWarps(lowered.fn, check);
  if (verdict.proof == ir::WarpProof::kProved) return std::nullopt;
  timer.Rename("warp check, refused");
  const bool given_up = verdict.proof == ir::WarpProof::kGivenUp;
  const Result<ir::WarpCheckStats> reported = ir::ReportVerdict(lowered.fn, verdict, said);
  CHECK(!reported.ok(), "what is not proved is an error");
  Refusal refusal = RefusalOf(Stage::kProve, given_up ? Resource::kProof : Resource::kForm, said);
  if (!given_up) return refusal;
  // More than it came to is needed; how much more is not known.
  const bool ops = verdict.limit == ir::WarpLimit::kOps;
  refusal.needed = std::max(ops ? verdict.stats.ops : verdict.stats.states, verdict.available + 1);
  refusal.available = verdict.available;
  refusal.why = "the proof takes too long";
  return refusal;
}

bool Line::several() const {
  return std::any_of(solved_.begin(), solved_.end(), [](const auto& entry) {
    return entry.second.product && entry.second.product->schedule.roles > 1;
  });
}

bool Line::divided() const {
  return std::any_of(solved_.begin(), solved_.end(), [](const auto& entry) {
    return entry.second.product && entry.second.product->schedule.apart;
  });
}

}  // namespace tilec::compile
