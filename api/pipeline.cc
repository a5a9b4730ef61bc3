// SPDX-License-Identifier: Apache-2.0
#include "api/pipeline.h"

#include <algorithm>

#include "api/diagnostics.h"
#include "api/planning.h"
#include "api/schedule_names.h"
#include "api/solution_cache.h"
#include "api/stage.h"
#include "backend/backend.h"
#include "ir/lower/diagnostics.h"
#include "ir/lower/pressure.h"
#include "ir/lower/sequential.h"
#include "ir/pass.h"
#include "ir/passes/cluster_tiles.h"
#include "ir/passes/persist_tiles.h"
#include "ir/passes/split_reductions.h"
#include "ir/target.h"
#include "ir/verify.h"
#include "ir/warp_check/check.h"
#include "ir/warp_check/diagnostics.h"
#include "scheduler/program.h"
#include "support/check.h"
#include "support/nearest.h"

namespace tilec::api {

namespace {

constexpr const char* kSchedulePass = "schedule-loops";
constexpr const char* kPersistPass = "persist-tiles";
constexpr const char* kOrderPass = "order-tiles";
constexpr const char* kClusterPass = "cluster-tiles";
constexpr const char* kSplitPass = "split-reductions";

}  // namespace

Result<Machine> MachineOf(const PipelineOptions& options, DiagSink& diags) {
  if (options.machine != nullptr) return options.machine;
  SourceMap sources;
  return ReadMachine(options.target, sources, diags);
}

std::string CompilerVersion() {
  return fmt::format("{} ({})", TILEC_VERSION, backend::BackendVersion());
}

Result<ir::Function> MakeTileIr(const Loaded& loaded, const std::string& kernel, const Call& call,
                                Observation* look, DiagSink& diags) {
  Stage stage(look, "front end");
  frontend::SpecializeRequest request;
  request.kernel = kernel;
  request.values = call.statics;
  request.tensor_facts = call.facts;
  return frontend::Specialize(*loaded.program, request, diags);
}

Result<> CheckPassName(const std::string& name, DiagSink& diags) {
  if (name == kSchedulePass || name == kPersistPass || name == kOrderPass || name == kClusterPass ||
      name == kSplitPass)
    return Done();
  TRY(const ir::PassStep step, FindStep(name, diags));
  (void)step;
  return Done();
}

Result<ir::PassStep> FindStep(const std::string& name, DiagSink& diags) {
  if (const auto id = ir::PassFromName(name)) return ir::StepOf(*id);
  std::vector<std::string> names;
  for (const ir::PassInfo& p : ir::AllPasses()) names.push_back(p.name);
  names.insert(names.end(), {kPersistPass, kOrderPass, kClusterPass, kSplitPass, kSchedulePass});
  DiagBuilder d = diags.Report(kUnknownPass, Span{}, name);
  const std::string near = NearestName(name, names);
  d.Help(near.empty() ? "`tilec opt --list` names all passes"
                      : fmt::format("did you mean `{}`?", near));
  return d;
}

Result<ir::Function> RunSteps(const Loaded& loaded, ir::Function fn,
                              const std::vector<ir::PassStep>& steps,
                              const PipelineOptions& options, Observation* look, DiagSink& diags) {
  ir::PassOptions pass_options;
  pass_options.sources = &loaded.sources;
  pass_options.crash_dir = options.crash_dir;
  pass_options.version = CompilerVersion();
  if (look) {
    pass_options.print_after = look->print_after;
    pass_options.stop_after = look->stop_after;
    for (const std::string& name : look->print_after)
      if (name != "all") TRY_VOID(CheckPassName(name, diags));
    if (!look->stop_after.empty()) TRY_VOID(CheckPassName(look->stop_after, diags));
  }
  TRY(const Machine machine, MachineOf(options, diags));
  TRY(const ir::PassOutcome outcome, ir::RunSteps(fn, steps, *machine, pass_options, diags));
  if (look) {
    look->printed += outcome.printed;
    for (const ir::PassTime& t : outcome.times) look->times.push_back({t.name, t.milliseconds});
    look->stopped = outcome.stopped;
  }
  return fn;
}

// What the scheduler decided, made into tile IR; decided once for all ways to lower a kernel.
struct Scheduled {
  scheduler::SolutionStore* store = nullptr;
  int64_t withheld = 0;                   // registers of a thread that the solver may not use
  bool divide = true;                     // may roles divide a row slice?
  bool persist = false, cluster = false;  // wanted
  int64_t split = 1;                      // wanted: CTAs for each tile
  // What was decided, and tried last, is of CTAs that stay, that share what they load, or of which
  // several make a tile.
  bool persistent = false, clustered = false, parted = false;
  ir::Obstacle obstacle;        // to CTAs that stay or to clusters, seen last
  ir::Obstacle split_obstacle;  // likewise to a split
  DiagSink* refusal = nullptr;  // receives why the plan that was given is refused
  std::optional<scheduler::ProgramSchedule> of[4];
  ir::Function made[4];
  bool divided() const {
    return std::any_of(of, of + 4, [](const auto& d) { return d && d->apart; });
  }
  int shape() const { return persistent ? 1 : clustered ? 2 : parted ? 3 : 0; }
  std::optional<scheduler::ProgramSchedule>& decided() { return of[shape()]; }
  ir::Function& fn() { return made[shape()]; }
};

ir::PassStep ScheduleStep(const ir::Target& target, const PipelineOptions& from,
                          std::optional<scheduler::ScheduleFile> file, Scheduled* kept) {
  const int slices = SlicesOf(from.schedule).value_or(0);
  const bool first = from.first_schedules;
  ir::PassStep step;
  step.info = {kSchedulePass, "solves the loops and puts their ops in order", ir::kTileLevel,
               ir::kScheduled, ir::kNoFacts};
  step.run = [&target, slices, first, file, kept](ir::Function& fn,
                                                  ir::PassContext& cx) -> Result<> {
    scheduler::ProgramOptions options;
    options.target = &target;
    options.solve = scheduler::SolveOptions::ForCompilation();
    if (first) options.solve.total_limit = options.solve.resource_limit = 1;
    if (first) options.solve.optimize_secondary = false;
    options.slices = slices;
    options.store = kept->store;
    options.withheld_registers = kept->withheld;
    options.divide_slices = kept->divide;
    if (kept->decided()) {
      fn = kept->fn();
    } else if (file) {
      TRY(kept->decided(), scheduler::ScheduleProgramFrom(fn, options, *file, cx.diags));
      kept->fn() = fn;
    } else {
      kept->decided() = scheduler::ScheduleProgram(fn, options);
      kept->fn() = fn;
    }
    for (const scheduler::LoopReport& loop : kept->decided()->loops) {
      cx.changes += loop.applied;
      if (!loop.applied)
        cx.diags.Report(kLoopKeepsItsOrder, loop.at,
                        loop.notes.empty() ? "no schedule was found" : loop.notes.back());
      for (const std::string& note : loop.notes)  // of the solver's nobody expects more
        if (file && loop.applied) cx.diags.Report(kScheduleChanged, loop.at, note);
    }
    return Done();
  };
  return step;
}

namespace {

// One CTA for each multiprocessor: what runs ahead fills its shared memory.
ir::PassStep PersistStep(const ir::Target& target, Scheduled* scheduled) {
  ir::PassStep step;
  step.info = {kPersistPass, "the grid becomes CTAs that stay and loop over tiles", ir::kTileLevel,
               ir::kNoFacts, ir::kNoFacts};
  step.run = [ctas = target.limits.sms, scheduled](ir::Function& fn,
                                                   ir::PassContext& cx) -> Result<> {
    const std::optional<ir::Obstacle> obstacle = ir::PersistTiles(fn, ctas);
    if (obstacle) scheduled->obstacle = *obstacle;
    scheduled->persistent = !obstacle;
    cx.changes += !obstacle;
    return Done();
  };
  return step;
}

ir::PassStep OrderStep() {
  ir::PassStep step;
  step.info = {kOrderPass, "tiles that take unequally long go longest first", ir::kTileLevel,
               ir::kNoFacts, ir::kNoFacts};
  step.run = [](ir::Function& fn, ir::PassContext& cx) -> Result<> {
    cx.changes += ir::OrderTiles(fn);
    return Done();
  };
  return step;
}

ir::PassStep ClusterStep(const ir::Target& target, Scheduled* scheduled) {
  ir::PassStep step;
  step.info = {kClusterPass, "neighbours in the grid copy what they share once", ir::kTileLevel,
               ir::kNoFacts, ir::kNoFacts};
  step.run = [has = target.Has("clusters"), ctas = target.lowering.cluster_ctas, scheduled](
                 ir::Function& fn, ir::PassContext& cx) -> Result<> {
    const std::optional<ir::Obstacle> obstacle =
        has ? ir::ClusterTiles(fn, ctas) : ir::Obstacle{"the target has no clusters of CTAs", {}};
    if (obstacle) scheduled->obstacle = *obstacle;
    scheduled->clustered = !obstacle;
    cx.changes += !obstacle;
    return Done();
  };
  return step;
}

ir::PassStep SplitStep(const ir::Target& target, Scheduled* scheduled) {
  ir::PassStep step;
  step.info = {kSplitPass, "CTAs of a cluster share the terms of a long sum", ir::kTileLevel,
               ir::kNoFacts, ir::kNoFacts};
  step.run = [has = target.Has("clusters"), scheduled](ir::Function& fn,
                                                       ir::PassContext& cx) -> Result<> {
    const std::optional<ir::Obstacle> obstacle =
        has ? ir::SplitReductions(fn, scheduled->split)
            : ir::Obstacle{"the target has no clusters of CTAs", {}};
    if (obstacle) scheduled->split_obstacle = *obstacle;
    scheduled->parted = !obstacle;
    cx.changes += !obstacle;
    return Done();
  };
  return step;
}

// Ways to lower a kernel, best first. What the lowering or the proof of the warp program refuses
// is tried in the next way: the solver's schedule with masks only where they are needed, without
// that; if its roles divide a row slice, one that keeps slices whole, in both ways; then products
// moved a stage by rule, and last one role in program order.
// `beside`: the row of the machine's registers that tiles leave free; null: whatever is left.
struct Way {
  bool schedule, divide, by_rule, guard_masks, roles;
  int64_t ir::TargetRegisters::*beside;
};
constexpr auto kScheduled = &ir::TargetRegisters::beside_scheduled;
constexpr auto kByRule = &ir::TargetRegisters::beside_by_rule;
constexpr Way kWays[] = {
    {true, true, false, true, true, kScheduled},  {true, true, false, false, true, kScheduled},
    {true, false, false, true, true, kScheduled}, {true, false, false, false, true, kScheduled},
    {false, false, true, true, true, kByRule},    {false, false, true, false, true, nullptr},
    {false, false, false, false, false, nullptr}};

// What the verifier may walk for CTAs that stay. Causal attention of d = 64 takes 2029 states and
// would be proved; it was slower that way (2275 us in place of 2153, docs/perf_log.md), and until a
// predicted time decides, this keeps the choices that were measured.
constexpr int64_t kMostOps = 500'000, kMostMoments = 2000;

ir::PassStep RolesStep(const Way& way, const Scheduled* scheduled, bool from_file,
                       Planning planning, bool* specialized) {
  ir::PassStep step = ir::StepOf(ir::PassId::kLowerRoles);
  step.run = [&way, scheduled, from_file, planning, specialized](ir::Function& fn,
                                                                 ir::PassContext& cx) -> Result<> {
    ir::SequentialOptions options;
    options.spare_registers = way.beside != nullptr ? cx.target.registers.*way.beside : -1;
    options.spare_for_products = !from_file;
    const auto& decided = scheduled->of[scheduled->shape()];
    const scheduler::ProgramSchedule* wanted = way.schedule && decided ? &*decided : nullptr;
    if (wanted && wanted->apart) options.warpgroups = wanted->warpgroups;
    ir::ScheduledResources resources;
    if (wanted) {
      resources = wanted->resources;
      resources.binding = from_file;
      options.scheduled = &resources;
    }
    TRY_VOID(LowerBy(planning, true, options, specialized, fn, cx));
    cx.changes += *specialized ? 2 : 1;
    if (wanted && (from_file || wanted->apart) && !*specialized && wanted->roles > 1)
      return cx.diags.Report(kRolesNotMade, Span{}, fn.name, wanted->roles);
    // Where little runs ahead, CTAs that come and go hide more than one that stays.
    int64_t slots = 0, turn = 0;
    if (wanted)
      for (const scheduler::LoopReport& loop : wanted->loops)
        if (loop.applied) turn = std::max(turn, loop.solution.schedule.ii);
    for (const ir::Op& op : fn.ops)
      if (op.kind == ir::OpKind::kSmemAlloc && *specialized)
        slots = std::max(slots, fn.type(op.results[0]).depth);
    // Rings must reach across the end of a tile, or what is in flight there cover a copy.
    const ir::TargetLowering& pays = cx.target.lowering;
    if (scheduled->persistent && slots < pays.persistent_slots &&
        (slots - 1) * turn < pays.copy_cycles)
      return cx.diags.Report(kNothingRunsAhead, Span{}, fn.name, slots, pays.persistent_slots);
    return Done();
  };
  return step;
}

Result<ir::Function> LowerOnce(const Loaded& loaded, const ir::Function& tile,
                               const PipelineOptions& options, const Way& way, Scheduled* scheduled,
                               Observation* look, bool* met_plan, DiagSink& diags) {
  std::vector<ir::PassStep> steps;
  for (ir::PassId id : ir::kCleanUp) steps.push_back(ir::StepOf(id));
  TRY(const Machine machine, MachineOf(options, diags));
  const ir::Target& target = *machine;
  bool specialized = false;
  if (way.roles && scheduled->split > 1) steps.push_back(SplitStep(target, scheduled));
  if (way.roles && scheduled->cluster) steps.push_back(ClusterStep(target, scheduled));
  if (way.roles && scheduled->persist) steps.push_back(PersistStep(target, scheduled));
  if (way.roles && !scheduled->persist && !scheduled->cluster && scheduled->split == 1)
    steps.push_back(OrderStep());
  if (way.schedule) {
    std::optional<scheduler::ScheduleFile> file;
    if (loaded.schedule_file >= 0)
      file = {loaded.sources.text(loaded.schedule_file), loaded.schedule_file};
    steps.push_back(ScheduleStep(target, options, file, scheduled));
  }
  if (way.by_rule) steps.push_back(ir::StepOf(ir::PassId::kPipelineProducts));
  if (way.guard_masks) {
    steps.push_back(ir::StepOf(ir::PassId::kGuardMasks));
    steps.push_back(ir::StepOf(ir::PassId::kDce));
  }
  steps.push_back(ir::StepOf(ir::PassId::kRereadTiles));
  Planning planning;
  planning.text = look ? look->plan : nullptr;
  planning.met = met_plan;
  ir::ScheduledResources made;
  if (look && look->lowered) planning.made = &made;
  if (loaded.plan_file >= 0)
    planning.given = {loaded.sources.text(loaded.plan_file), loaded.plan_file};
  steps.push_back(way.roles
                      ? RolesStep(way, scheduled, loaded.schedule_file >= 0, planning, &specialized)
                      : OneRoleStep(planning));
  TRY(ir::Function fn, RunSteps(loaded, tile, steps, options, look, diags));
  if (fn.level == ir::Level::kWarp && options.prove) {  // what is not proved is not emitted
    Stage stage(look, "warp check");
    ir::WarpCheckOptions check(target);
    if (scheduled->persistent) {
      check.max_ops = kMostOps;
      check.max_states = kMostMoments;
      check.widen = false;
    }
    TRY(const ir::WarpCheckStats stats, ir::CheckWarps(fn, check, diags));
    (void)stats;
  }
  if (look && look->lowered) {
    *look->lowered = {way.schedule, {}};
    if (way.schedule && scheduled->decided()) {
      look->lowered->schedule = *scheduled->decided();
      scheduler::Adopt(made, &look->lowered->schedule);
    }
  }
  return fn;
}

// A plan that is given is obeyed or refused in the one way that makes the program it is of.
Result<ir::Function> Lower(const Loaded& loaded, const ir::Function& tile,
                           const PipelineOptions& options, const Way& way, Scheduled* scheduled,
                           Observation* look, DiagSink& diags) {
  bool met_plan = false;
  DiagSink said;
  Result<ir::Function> lowered =
      LowerOnce(loaded, tile, options, way, scheduled, look, &met_plan, said);
  if (!lowered.ok() && met_plan && scheduled->refusal->all().empty()) {
    said.MoveTo(*scheduled->refusal);
    return diags.Report(kPlanRefused, Span{}, tile.name);
  }
  said.MoveTo(diags);
  return lowered;
}

// CTAs that stay, or clusters of them, or, where that is refused, CTAs that come and go.
Result<ir::Function> Attempt(const Loaded& loaded, const ir::Function& tile,
                             const PipelineOptions& options, const Way& way, Scheduled* scheduled,
                             Observation* look, DiagSink& diags) {
  auto lower = [&](bool persist, bool cluster, DiagSink& said) {
    scheduled->persist = persist;
    scheduled->cluster = cluster;
    scheduled->persistent = scheduled->clustered = scheduled->parted = false;
    return Lower(loaded, tile, options, way, scheduled, look, said);
  };
  scheduled->split = SplitOf(options.schedule).value_or(options.split);
  if (way.roles && scheduled->split > 1) {
    DiagSink attempt;
    Result<ir::Function> lowered = lower(false, false, attempt);
    if (lowered.ok() && scheduled->parted) {
      attempt.MoveTo(diags);
      return lowered;
    }
    for (const Diagnostic& d : attempt.all())
      if (d.def->severity == Severity::kError && scheduled->split_obstacle.why.empty())
        scheduled->split_obstacle = {d.message, d.span};
  }
  scheduled->split = 1;
  if (options.share_copies && options.schedule == "solve") {
    DiagSink attempt;
    Result<ir::Function> lowered = lower(false, true, attempt);
    if (lowered.ok() && scheduled->clustered) {
      attempt.MoveTo(diags);
      return lowered;
    }
  }
  const bool share = options.schedule == kClusters, stay = !share && options.schedule != kOnce;
  if (stay || share) {
    DiagSink attempt;
    Result<ir::Function> lowered = lower(stay, share, attempt);
    if (lowered.ok() || !(scheduled->persistent || scheduled->clustered)) {
      attempt.MoveTo(diags);
      return lowered;
    }
    for (const Diagnostic& d : attempt.all())
      if (d.def->severity == Severity::kError)
        scheduled->obstacle = {
            d.def == &ir::warp_check::kWarpTooLarge ? "the proof takes too long" : d.message,
            d.span};
  }
  return lower(false, false, diags);
}

// Says which form the schedule's name asked for and the program has not.
void Missed(const PipelineOptions& options, const std::string& kernel, const ir::Function& lowered,
            const Scheduled& scheduled, DiagSink& diags) {
  if (options.schedule == kPersistent && !scheduled.persistent)
    diags.Report(kNotPersistent, scheduled.obstacle.at, kernel, scheduled.obstacle.why);
  if (SplitOf(options.schedule).value_or(options.split) > 1 && !scheduled.parted)
    diags.Report(kNotSplit, scheduled.split_obstacle.at, kernel, scheduled.split_obstacle.why);
  if (options.schedule == kClusters && lowered.launch.cluster <= 1)
    diags.Report(
        kNotClustered, scheduled.clustered ? Span{} : scheduled.obstacle.at, kernel,
        scheduled.clustered ? "what they share does not go through rings" : scheduled.obstacle.why);
}

int64_t Roles(const ir::Function& warps) {
  int64_t roles = 0;
  for (ir::OpId id : warps.blocks[warps.body].ops) roles += warps.ops[id].kind == ir::OpKind::kRole;
  return roles;
}

// The tiles of a schedule fit, but not with what many products need beside them: solved again with
// fewer registers, as --ptxas=refine would, as long as every loop has a schedule and a role runs
// ahead.
constexpr int64_t kWithheld[] = {16, 32, 48};

std::optional<ir::Function> SolveForFewer(const Loaded& loaded, const ir::Function& tile,
                                          const PipelineOptions& options,
                                          scheduler::SolutionStore* store, Scheduled* scheduled,
                                          Observation* look, DiagSink& diags) {
  CHECK(options.machine != nullptr, "LowerToWarps reads the machine");
  for (int64_t withheld : kWithheld) {
    *scheduled = {
        .store = store, .withheld = withheld, .divide = false, .refusal = scheduled->refusal};
    for (const Way& way : kWays) {
      if (!way.schedule || way.divide) continue;
      DiagSink attempt;
      Result<ir::Function> lowered = Attempt(loaded, tile, options, way, scheduled, look, attempt);
      const auto& decided = scheduled->decided();
      const bool solved = decided && std::all_of(decided->loops.begin(), decided->loops.end(),
                                                 [](const auto& loop) { return loop.applied; });
      if (!lowered.ok() || !solved || Roles(*lowered) == 1) continue;
      if (!ir::LeavesRegisters(*lowered, *options.machine)) continue;
      attempt.MoveTo(diags);
      return std::move(*lowered);
    }
  }
  return std::nullopt;
}

}  // namespace

namespace {

Result<ir::Function> LowerBest(const Loaded& loaded, ir::Function fn, const PipelineOptions& given,
                               Observation* look, DiagSink* refusal, DiagSink& diags) {
  PipelineOptions options = given;
  TRY(options.machine, MachineOf(given, diags));
  const Way& last = kWays[std::size(kWays) - 1];
  const bool from_file = loaded.schedule_file >= 0;
  SolutionCache memory(nullptr, diags);
  scheduler::SolutionStore* store = options.solutions ? options.solutions : &memory;
  Scheduled scheduled;
  scheduled.store = store;
  scheduled.refusal = refusal;
  std::string why;
  Span at;
  bool tight = false;
  for (const Way& way : kWays) {
    const bool final = &way == &last;
    if (tight && !way.schedule) {
      tight = false;
      DiagSink attempt;
      std::optional<ir::Function> fewer =
          SolveForFewer(loaded, fn, options, store, &scheduled, look, attempt);
      if (fewer) {
        attempt.MoveTo(diags);
        diags.Report(kSolvedForFewer, at, fn.name, scheduled.withheld, why);
        Missed(options, fn.name, *fewer, scheduled, diags);
        return std::move(*fewer);
      }
    }
    if (!final && options.schedule == "sequential") continue;
    if (from_file && !way.schedule)
      return diags.Report(kScheduleFileRefused, at, options.schedule, why)
          .Help(
              "move readers nearer to what they read, cut the rows into more slices, or leave "
              "--schedule out: the compiler then takes what it can lower");
    if (way.schedule && !way.divide && scheduled.divide) {
      if (from_file || !scheduled.divided()) continue;
      scheduled = {.store = store, .divide = false, .refusal = scheduled.refusal};
    }
    DiagSink attempt;
    Result<ir::Function> lowered = Attempt(loaded, fn, options, way, &scheduled, look, attempt);
    if (!lowered.ok() && !final) {
      for (const Diagnostic& d : attempt.all()) {
        if (d.def->severity != Severity::kError) continue;
        // The file is at fault in every way.
        if (from_file && (d.def->code[0] == 'S' || d.span.file == loaded.schedule_file)) {
          attempt.MoveTo(diags);
          return lowered;
        }
        why = d.message, at = d.span;
        tight = tight || (way.schedule && d.def == &ir::lower_diag::kRegistersTight);
      }
      continue;
    }
    attempt.MoveTo(diags);
    if (lowered.ok() && !why.empty() && !way.schedule)
      diags.Report(kScheduleNotLowered, at, fn.name, why,
                   way.by_rule ? "its products are overlapped by rule instead"
                               : "one role runs it in program order instead");
    if (lowered.ok()) Missed(options, fn.name, *lowered, scheduled, diags);
    return lowered;
  }
  UNREACHABLE("the last way returns");
}

}  // namespace

Result<ir::Function> LowerToWarps(const Loaded& loaded, ir::Function fn,
                                  const PipelineOptions& options, Observation* look,
                                  DiagSink& diags) {
  DiagSink refusal, said;
  Result<ir::Function> lowered = LowerBest(loaded, std::move(fn), options, look, &refusal, said);
  if (!lowered.ok() && !refusal.all().empty())
    refusal.MoveTo(diags);
  else
    said.MoveTo(diags);
  return lowered;
}

Result<backend::KernelImage> MakeImage(const Loaded& loaded, const ir::Function& fn,
                                       const PipelineOptions& options, Observation* look,
                                       DiagSink& diags) {
  Stage stage(look, "back end");
  TRY(const Machine machine, MachineOf(options, diags));
  backend::BackendOptions backend_options(*machine);
  if (look) backend_options.llvm_ir_optimized = look->llvm_ir;
  if (loaded.program) backend_options.file_names = loaded.program->FileNames();
  if (options.stamps > 0) {
    ir::Function stamped = fn;
    ir::StampTable table = ir::InsertStamps(stamped, options.stamps);
    if (look && look->stamps) *look->stamps = std::move(table);
    TRY_VOID(ir::Verify(stamped, diags));
    return backend::Compile(stamped, loaded.sources, backend_options, diags);
  }
  return backend::Compile(fn, loaded.sources, backend_options, diags);
}

}  // namespace tilec::api
