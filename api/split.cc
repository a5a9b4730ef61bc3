// SPDX-License-Identifier: Apache-2.0
#include "api/split.h"

#include <algorithm>

#include "api/schedule_names.h"
#include "api/tune_memory.h"
#include "ir/clean_up.h"
#include "ir/isa.h"
#include "ir/lower/plan.h"
#include "ir/lower/pressure.h"
#include "ir/lower/slides.h"
#include "ir/passes/defer_unlikely.h"
#include "ir/verify.h"

namespace tilec::api {

Bindings NamesOf(const Call& call) {
  Bindings names;
  for (const auto& [name, value] : call.all)
    if (const auto* i = std::get_if<int64_t>(&value)) names[name] = *i;
  for (const auto& [name, value] : call.launch.scalars)
    if (const auto* i = std::get_if<int64_t>(&value)) names[name] = *i;
  return names;
}

namespace {

// Without a look at the program between passes: it is rated, and not made. What is made of it goes
// through all passes again, verified after each.
Result<> RunRated(ir::Function& fn, const std::vector<ir::PassStep>& steps,
                  const ir::Target& target, DiagSink& diags) {
  for (const ir::PassStep& step : steps) {
    ir::PassContext cx{diags, target};
    TRY_VOID(step.run(fn, cx));
  }
  return Done();
}

}  // namespace

Result<Cleaned> Clean(ir::Function fn, const PipelineOptions& options, DiagSink& diags) {
  TRY(const Machine machine, MachineOf(options, diags));
  fn = ir::Likely(std::move(fn));
  TRY_VOID(ir::Verify(fn, diags));
  TRY_VOID(RunRated(fn, ir::CleanUpUntilRows(), *machine, diags));
  std::optional<ir::Function> loops = ir::LoopsOfRows(fn);
  TRY_VOID(RunRated(fn, ir::CleanUpOfRows(), *machine, diags));
  TRY_VOID(ir::Verify(fn, diags));
  return Cleaned{std::move(fn), std::move(loops)};
}

scheduler::LaunchShape LikelyShape(const ir::Function& fn, const ir::WorkCount& work,
                                   const ir::Target& target) {
  const ir::TargetRegisters& likely = target.registers;
  scheduler::LaunchShape shape;
  if (!work.products.empty()) return shape;
  const int64_t threads = ir::isa::kWarpThreads * ir::isa::kWarpgroupWarps *
                          static_cast<int64_t>(ir::PlannedWarpgroups(fn, target));
  int64_t kept = 0, held = 0;
  for (ir::OpId id : ir::OpsInOrder(fn)) {
    const ir::Op& op = fn.ops[id];
    if (op.kind != ir::OpKind::kLoad || !fn.type(op.results[0]).is_tile()) continue;
    const ir::Type& tile = fn.type(op.results[0]);
    const ir::OpId parent = fn.blocks[op.block].parent;
    if (op.attr("kept") == nullptr) {
      const bool outside = fn.ops[parent].kind == ir::OpKind::kParallel;  // of loops
      if (outside && tile.rank() > 1) held += tile.elements();
    } else if (op.i("kept") == 0) {
      kept += tile.elements() * ir::ByteSize(tile.dtype);
    }
  }
  if (held > 0 && !ir::SlideOf(fn) &&
      std::any_of(fn.ops.begin(), fn.ops.end(),
                  [&](const ir::Op& op) { return ir::BeginsAnywhere(fn, op); }))
    held += likely.row_shifted * threads;
  // As the lowering says of large ones (ir/lower/row_pressure.cc).
  const int64_t nearly = threads >= ir::kLargeCta ? likely.row_nearly : 0;
  const int64_t all = likely.row_likely_beside + CeilDiv(held, threads) - nearly;
  const int64_t registers = std::min(ir::isa::kMostThreadRegisters, all);
  shape.per_sm = target.CtasPerSm(threads, std::max(likely.row_likely, registers), kept);
  return shape;
}

namespace {

std::unique_ptr<scheduler::Forms> FormsOf(const Loaded& loaded, const std::string& kernel,
                                          const PipelineOptions& options, const Call& call,
                                          const ir::Target& machine) {
  DiagSink quiet;  // who compiles it says what is wrong
  Result<ir::Function> fn = MakeTileIr(loaded, kernel, call, nullptr, quiet);
  if (!fn.ok()) return nullptr;
  Result<Cleaned> clean = Clean(std::move(*fn), options, quiet);
  if (!clean.ok()) return nullptr;
  return std::make_unique<scheduler::Forms>(std::move(clean->fn), machine, std::move(clean->loops));
}

}  // namespace

scheduler::SplitChoice SplitFor(const Loaded& loaded, const frontend::Signature& signature,
                                const PipelineOptions& options, const Call& call,
                                TuneMemory* memory) {
  if (options.For(call).schedule != "solve" || loaded.schedule_file >= 0) return {};
  DiagSink quiet;
  const Result<Machine> machine = MachineOf(options, quiet);
  if (!machine.ok()) return {};
  std::unique_ptr<scheduler::Forms> own;
  const auto make = [&](std::unique_ptr<scheduler::Forms>& forms) {
    forms = FormsOf(loaded, signature.kernel, options, call, **machine);
  };
  scheduler::Forms* forms = nullptr;
  if (memory != nullptr) {
    std::string statics;
    for (const auto& [name, value] : call.statics)
      statics += fmt::format("{}={} ", name, frontend::ToText(value));
    const TuneMemory::Known* const rated = memory->points.Find(statics);
    forms = rated && rated->forms ? rated->forms.get() : memory->chosen.At(statics, make).get();
  } else {
    make(own);
    forms = own.get();
  }
  if (forms == nullptr) return {};
  const auto shape = [&](const ir::Function& f, const ir::WorkCount& work) {
    return LikelyShape(f, work, **machine);
  };
  scheduler::SplitChoice choice =
      forms->Choose(NamesOf(call), call.row_starts, ir::isa::kPortableClusterCtas, shape,
                    options.tune != "default");
  choice.once = choice.once && options.tune != "default";
  return choice;
}

std::string ScheduleOf(const scheduler::SplitChoice& choice, const std::string& schedule) {
  if (choice.in_order) return std::string(kSequential);
  if (choice.apart && choice.share_copies)
    return SharedApartName(choice.neighbours, choice.along, choice.ctas);
  if (choice.apart) return ApartName(choice.pack, choice.ctas);
  if (choice.share_copies && choice.neighbours > 2)
    return ClustersName(choice.neighbours, choice.along);
  if (choice.share_copies)
    return WithAlong(choice.once ? std::string(kClusters) : schedule, choice.along + 1);
  return choice.once ? std::string(kOnce) : schedule;
}

scheduler::SplitChoice ChooseForm(const Loaded& loaded, const frontend::Signature& signature,
                                  const PipelineOptions& options, Call* call) {
  const scheduler::SplitChoice choice = SplitFor(loaded, signature, options, *call);
  call->split = choice.ctas;
  call->pack = choice.pack;
  call->share_copies = choice.share_copies;
  call->stays = choice.stays;
  call->schedule = ScheduleOf(choice, call->schedule);
  return choice;
}

}  // namespace tilec::api
