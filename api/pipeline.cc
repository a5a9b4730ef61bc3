// SPDX-License-Identifier: Apache-2.0
#include "api/pipeline.h"

#include <algorithm>

#include "api/diagnostics.h"
#include "api/plan_sections.h"
#include "api/schedule_names.h"
#include "api/solution_cache.h"
#include "api/split.h"
#include "api/stage.h"
#include "backend/backend.h"
#include "compile/diagnostics.h"
#include "compile/passes.h"
#include "compile/search.h"
#include "ir/isa.h"
#include "ir/pass.h"
#include "ir/target.h"
#include "ir/verify.h"
#include "support/nearest.h"

namespace tilec::api {

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
  const std::vector<std::string> names = compile::PassNames();
  if (std::find(names.begin(), names.end(), name) != names.end()) return Done();
  const std::string near = NearestName(name, names);
  return diags.Report(compile::kUnknownPass, Span{}, name)
      .Help(near.empty() ? "`tilec opt --list` names all passes"
                         : fmt::format("did you mean `{}`?", near));
}

namespace {

Result<ir::PassOptions> PassOptionsOf(const Loaded& loaded, const PipelineOptions& options,
                                      const Observation* look, DiagSink& diags) {
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
  return pass_options;
}

}  // namespace

Result<ir::Function> RunSteps(const Loaded& loaded, ir::Function fn,
                              const std::vector<ir::PassStep>& steps,
                              const PipelineOptions& options, Observation* look, DiagSink& diags) {
  TRY(const ir::PassOptions pass_options, PassOptionsOf(loaded, options, look, diags));
  TRY(const Machine machine, MachineOf(options, diags));
  TRY(const ir::PassOutcome outcome, ir::RunSteps(fn, steps, *machine, pass_options, diags));
  if (look) {
    look->printed += outcome.printed;
    for (const ir::PassTime& t : outcome.times) look->times.push_back({t.name, t.milliseconds});
    look->stopped = outcome.stopped;
  }
  return fn;
}

namespace {

compile::Wish WishOf(const Loaded& loaded, const PipelineOptions& options) {
  compile::Wish wish;
  const std::string schedule = WithoutAlong(options.schedule);
  wish.solve = !IsSequential(options.schedule);
  wish.from_file = loaded.schedule_file >= 0;
  wish.slices = SlicesOf(options.schedule).value_or(0);
  wish.persistent = schedule != kOnce;
  wish.wants_persistent = schedule == kPersistent;
  wish.clusters = schedule == kClusters;
  wish.share_copies = options.share_copies && schedule == kSolve;
  wish.stays = wish.wants_persistent || (options.stays && schedule == kSolve);
  wish.split = std::min(SplitOf(options.schedule).value_or(options.split),
                        ir::isa::kPortableClusterCtas);  // more: api/divided.h
  if (IsApart(options.schedule)) wish.split = 1;
  wish.neighbours = NeighboursOf(options.schedule);
  wish.along = AlongOf(options.schedule) - 1;
  wish.pack = PackOf(options.schedule).value_or(ChoosesForm(options.schedule) ? options.pack : 1);
  return wish;
}

// What came of the walk, for whoever looks: also where it failed.
void Show(const compile::Account& account, const Result<compile::Compiled>& compiled,
          const ir::Target& target, Observation* look) {
  for (const compile::StepTime& t : account.times) look->times.push_back({t.step, t.milliseconds});
  if (look->decisions) *look->decisions = account.decisions;
  if (!compiled.ok()) return;
  look->printed += compiled->printed;
  look->stopped = compiled->stopped;
  if (look->plan) *look->plan = compiled->plan;
  if (look->pressure && !compiled->stopped) *look->pressure = ir::FullestRole(compiled->fn, target);
  if (!look->lowered) return;
  *look->lowered = {compiled->schedule.has_value(), {}};
  if (compiled->schedule) look->lowered->schedule = *compiled->schedule;
}

}  // namespace

std::string TimesTable(const std::vector<StageTime>& times, double wall_ms) {
  std::string out;
  double other = wall_ms;
  for (const StageTime& t : times) {
    out += fmt::format("{:>9.2f} ms  {}\n", t.milliseconds, t.stage);
    other -= t.milliseconds;
  }
  return out + fmt::format("{:>9.2f} ms  other\n{:>9.2f} ms  total\n", other, wall_ms);
}

PipelineOptions PipelineOptions::For(const Call& call) const {
  PipelineOptions with = *this;
  if (!call.schedule.empty()) with.schedule = call.schedule;
  with.share_copies = call.share_copies;
  with.stays = call.stays;
  with.split = call.split;
  with.pack = call.pack;
  with.sizes = NamesOf(call);
  with.row_starts = call.row_starts;
  return with;
}

Result<ir::Function> LowerToWarps(const Loaded& loaded, ir::Function fn,
                                  const PipelineOptions& options, Observation* look,
                                  DiagSink& diags) {
  TRY(const Machine machine, MachineOf(options, diags));
  SolutionCache memory(nullptr, diags);
  compile::Request request;
  request.target = machine.get();
  request.wish = WishOf(loaded, options);
  request.schedule = options.schedule;
  if (loaded.schedule_file >= 0)
    request.file = {loaded.sources.text(loaded.schedule_file), loaded.schedule_file};
  std::string plan;
  if (loaded.plan_file >= 0 && options.launch.of > 0) {
    TRY(plan, PlanSection(loaded, fn.name, options.launch, diags));
    request.plan = {plan, loaded.plan_file};
  }
  request.wants_plan = look && look->plan;
  request.store = options.solutions ? options.solutions : &memory;
  request.first_schedules = options.first_schedules;
  request.prove = options.prove;
  request.foretell = options.ptxas.empty();
  TRY(request.passes, PassOptionsOf(loaded, options, look, diags));
  if (look && look->decisions) request.sizes = options.sizes;
  request.row_starts = options.row_starts;
  compile::Account account;
  Result<compile::Compiled> compiled = compile::Compile(fn, request, &account, diags);
  if (look) Show(account, compiled, *machine, look);
  if (!compiled.ok()) return DiagSink::Propagate();
  return std::move(compiled->fn);
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
