// SPDX-License-Identifier: Apache-2.0
#include "compile/line.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "compile/diagnostics.h"
#include "compile/passes.h"
#include "compile/planning.h"
#include "ir/clean_up.h"
#include "ir/isa.h"
#include "ir/lower/filled.h"
#include "ir/lower/pressure.h"
#include "ir/lower/sequential.h"
#include "ir/lower/waits.h"
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

int64_t Roles(const ir::Function& warps) {
  int64_t roles = 0;
  for (ir::OpId id : warps.blocks[warps.body].ops) roles += warps.ops[id].kind == ir::OpKind::kRole;
  return roles;
}

// Slots of the deepest ring.
int64_t DeepestRing(const ir::Function& warps) {
  int64_t slots = 0;
  for (const ir::Op& op : warps.ops)
    if (op.kind == ir::OpKind::kSmemAlloc) slots = std::max(slots, warps.type(op.results[0]).depth);
  return slots;
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
          const int64_t ctas = strategy.shape == Shape::kSplit ? strategy.ctas : 0;
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
                      : OneRoleStep(planning));
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

// Without products nothing comes of stages but registers: one role loads where it reads, and what
// hides its waits are other CTAs. The program's own order is taken where it leaves more of them
// room. (KL divergence of rows of 32768: 96 registers and two CTAs, or 61 and four.) Or as many,
// where the solved one keeps more tiles than its threads are told of registers. (Group
// normalisation of 32 by 32 on a B200: 82 of 80, or 58.) And where nothing is told of a CTA that
// has an SM to itself: its threads have what its launch leaves them. (The gradient of the state
// space layer, 512 threads: 128 registers and 40 bytes spilled, or 127 and none.)
void Line::MakeRoom(const Strategy& strategy, Lowered* lowered, DiagSink& said) {
  const auto any = [](const ir::Function& fn, auto&& is) {
    return std::any_of(fn.ops.begin(), fn.ops.end(), is);
  };
  const auto shaped = shaped_.find(strategy.shape);
  if (shaped == shaped_.end() || !shaped->second.product) return;
  const ir::Function& from = *shaped->second.product;
  const ir::LaunchInfo& solved = lowered->fn.launch;
  const bool alone =
      solved.ctas_per_sm == 0 && ir::isa::kWarpThreads * solved.warps >= ir::kLargeCta;
  if (any(from, [](const ir::Op& op) { return op.kind == ir::OpKind::kDot; }) ||
      (solved.ctas_per_sm == 0 && !alone))
    return;
  Strategy own = strategy;
  own.order = Order::kRule;
  DiagSink unsaid;
  Step<Lowered> other = Lower(own, from, nullptr, unsaid);
  if (other.refusal || other.product->roles || stopped_) return;
  // How many there are is estimated. The assembler is told less than that: held to as many, three
  // programs of the tests spilled.
  int64_t& ctas = other.product->fn.launch.ctas_per_sm;
  const int64_t gained = ctas - solved.ctas_per_sm;
  const int64_t kept = ir::FullestRole(lowered->fn, *request_.target).kept;
  const int64_t given =
      request_.target->RegistersAtLaunch(solved.warps * std::max<int64_t>(1, solved.ctas_per_sm));
  std::string why;
  if (gained > 0 && !alone)
    why = fmt::format("{} more of its CTAs fit an SM than as solved", gained);
  else if (gained == 0 && alone)
    why = fmt::format("its {} threads have an SM to themselves, and nothing runs ahead",
                      ir::isa::kWarpThreads * solved.warps);
  else if (gained == 0 && kept > given &&
           ir::FullestRole(other.product->fn, *request_.target).kept < kept)
    why = fmt::format("as solved it keeps {} registers of tiles alive, its threads have {}", kept,
                      given);
  if (why.empty()) return;
  ctas = (ctas + solved.ctas_per_sm) / 2;
  unsaid.MoveTo(said);
  *lowered = *std::move(other.product);
  lowered->own_order = std::move(why);
}

// Tiles of several turns at a time, and no ring that would make something of them: where they fill
// the threads' registers, the order of the program keeps fewer. (The state space layer at N = P =
// 128: 208 of 255 kept and 336 bytes spilled, in its own order none.) And a CTA that stays keeps
// what it knows of its tiles, and where the tensors lie that threads access between its loops.
std::optional<Refusal> Line::Crowded(const Strategy& strategy, const Lowered& lowered) const {
  const bool stays = strategy.shape == Shape::kPersistent;
  const bool alone = !lowered.roles && strategy.roles();
  if (request_.file || request_.plan || (!stays && !alone)) return std::nullopt;
  const ir::Function& fn = lowered.fn;
  // Products that are complete at once and have places for all that is beside them: what the choice
  // of tiles takes to spill is left to the order of the program, too. (ptxas 13.0, rtx4090,
  // gradients of attention of D = 128 in BQ = 32: 168 kept, 36 bytes spilled as solved, in its own
  // order none.)
  if (const ir::Filling full = ir::FillingOf(fn, *request_.target, false);
      alone && full.lacks > 0 && full.at_once) {
    const ir::RolePressure fullest = ir::FullestRole(fn, *request_.target);
    Refusal refusal;
    refusal.stage = Stage::kWorth, refusal.resource = Resource::kRegisters;
    refusal.needed = fullest.most + full.lacks, refusal.available = fullest.most;
    refusal.why = fmt::format("role `{}` keeps {} registers of tiles alive, its threads have {}",
                              fullest.role, fullest.kept, fullest.most);
    return refusal;
  }
  const auto turns = [&](const ir::Op& op) {  // what no loop repeats has one order
    if (!ir::FliesFrom(op)) return false;
    for (ir::BlockId b = op.block; b.valid() && fn.blocks[b].parent.valid();
         b = fn.ops[fn.blocks[b].parent].block)
      if (ir::IsLoop(fn.ops[fn.blocks[b].parent].kind)) return true;
    return false;
  };
  if (std::none_of(fn.ops.begin(), fn.ops.end(), turns)) return std::nullopt;
  const ir::TargetRegisters& beside = request_.target->registers;
  const ir::RolePressure fullest = ir::FullestRole(fn, *request_.target);
  int64_t tensors = 0;
  for (ir::OpId id : fn.blocks[fn.body].ops)
    if (fn.ops[id].kind == ir::OpKind::kRole)
      tensors = std::max(tensors, ir::TensorsOfThreads(fn, id));
  // One role that loads what it reads has guards and pitches beside. (ptxas 13.0, 208 of 255 kept:
  // three tensors spilled 336 bytes, the state space layer at N = P = 128; none spilled nothing,
  // parts of RWKV-7.)
  int64_t spare = beside.beside_by_rule + 2 * beside.beside_access * tensors;
  if (!alone) spare = tensors == 0 ? 0 : beside.least_beside + beside.beside_access * tensors;
  if (fullest.kept + spare <= fullest.most) return std::nullopt;
  Refusal refusal;
  refusal.stage = Stage::kWorth, refusal.resource = Resource::kRegisters;
  refusal.needed = fullest.kept + spare, refusal.available = fullest.most;
  refusal.why = fmt::format("role `{}` keeps {} registers of tiles alive, its threads have {}",
                            fullest.role, fullest.kept, fullest.most);
  return refusal;
}

std::optional<Refusal> Line::Worth(const Strategy& strategy, const Lowered& lowered,
                                   const Solved* solved, DiagSink& said) const {
  const auto refuse = [&](Resource resource, int64_t needed, int64_t available,
                          const char* why = "") {
    Refusal refusal = RefusalOf(Stage::kWorth, resource, said);
    refusal.needed = needed, refusal.available = available;
    if (refusal.why.empty()) refusal.why = why;
    return refusal;
  };
  const scheduler::ProgramSchedule* wanted = solved ? &solved->schedule : nullptr;
  // Copies are shared through rings alone; and a CTA of a cluster hands no scalars to its load
  // role, which one that comes alone may do.
  const bool clustered =
      strategy.shape == Shape::kClustered || strategy.shape == Shape::kClusteredOnce;
  if (clustered && !lowered.roles)
    return refuse(Resource::kRoles, 0, 0, "what they share does not go through rings");
  if (wanted && (request_.file || wanted->apart) && !lowered.roles && wanted->roles > 1) {
    said.Report(kRolesNotMade, Span{}, lowered.fn.name, wanted->roles);
    return refuse(Resource::kRoles, wanted->roles, 1);
  }
  // Rings of a file are as deep as it says.
  if (request_.file && !lowered.losses.empty() && lowered.losses.front().made == 0) {
    said.Report(kScheduleLost, lowered.losses.front().load, lowered.fn.name,
                Describe(lowered.losses));
    return refuse(Resource::kRoles, 0, 0);
  }
  // Where little runs ahead, CTAs of one tile each hide more than one that stays.
  int64_t cycles = 0;
  if (wanted)
    for (const scheduler::LoopReport& loop : wanted->loops)
      if (loop.applied) cycles = std::max(cycles, loop.solution.schedule.ii);
  // Rings must reach across the end of a tile, or what is in flight there cover a copy.
  const ir::TargetLowering& pays = request_.target->lowering;
  const int64_t slots = lowered.roles ? DeepestRing(lowered.fn) : 0;
  if (strategy.withheld_registers > 0) {
    const bool solved_all = std::all_of(wanted->loops.begin(), wanted->loops.end(),
                                        [](const auto& loop) { return loop.applied; });
    if (!solved_all)
      return refuse(Resource::kForm, 0, 0, "a loop has no schedule with so few registers");
    if (Roles(lowered.fn) == 1)
      return refuse(Resource::kRoles, 2, 1, "with so few registers one role runs it all");
    if (!ir::LeavesRegisters(lowered.fn, *request_.target))
      return refuse(Resource::kRegistersOfProducts, 0, 0,
                    "its tiles leave its many products too few registers");
  }
  if (std::optional<Refusal> full = Crowded(strategy, lowered)) return full;
  if (strategy.shape == Shape::kPersistent && slots < pays.persistent_slots &&
      (slots - 1) * cycles < pays.copy_cycles) {
    said.Report(kNothingRunsAhead, Span{}, lowered.fn.name, slots, pays.persistent_slots);
    return refuse(Resource::kSlots, pays.persistent_slots, slots);
  }
  return std::nullopt;
}

std::optional<Refusal> Line::Prove(const Strategy& strategy, const Lowered& lowered,
                                   DiagSink& said) {
  if (!request_.prove) return std::nullopt;
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
