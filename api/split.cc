// SPDX-License-Identifier: Apache-2.0
#include "api/split.h"

#include "ir/clean_up.h"
#include "ir/isa.h"

namespace tilec::api {

Bindings NamesOf(const Call& call) {
  Bindings names;
  for (const auto& [name, value] : call.all)
    if (const auto* i = std::get_if<int64_t>(&value)) names[name] = *i;
  for (const auto& [name, value] : call.launch.scalars)
    if (const auto* i = std::get_if<int64_t>(&value)) names[name] = *i;
  return names;
}

Result<Cleaned> Clean(const Loaded& loaded, ir::Function fn, const PipelineOptions& options,
                      DiagSink& diags) {
  const auto run = [&](ir::Function f, const std::vector<ir::PassStep>& steps) {
    return RunSteps(loaded, std::move(f), steps, options, nullptr, diags);
  };
  TRY(fn, run(std::move(fn), ir::CleanUpUntilRows()));
  std::optional<ir::Function> loops = ir::LoopsOfRows(fn);
  TRY(fn, run(std::move(fn), ir::CleanUpOfRows()));
  return Cleaned{std::move(fn), std::move(loops)};
}

scheduler::SplitChoice SplitFor(const Loaded& loaded, const frontend::Signature& signature,
                                const PipelineOptions& options, const Call& call) {
  if (options.schedule != "solve" || loaded.schedule_file >= 0) return {};
  DiagSink quiet;  // who compiles it says what is wrong
  const Result<Machine> machine = MachineOf(options, quiet);
  if (!machine.ok()) return {};
  Result<ir::Function> fn = MakeTileIr(loaded, signature.kernel, call, nullptr, quiet);
  if (!fn.ok()) return {};
  PipelineOptions plain = options;
  plain.crash_dir.clear();
  const Result<Cleaned> clean = Clean(loaded, std::move(*fn), plain, quiet);
  if (!clean.ok()) return {};
  return scheduler::ChooseSplit(clean->fn, **machine, NamesOf(call), call.row_starts,
                                ir::isa::kPortableClusterCtas, {}, clean->loops);
}

scheduler::SplitChoice ChooseForm(const Loaded& loaded, const frontend::Signature& signature,
                                  const PipelineOptions& options, Call* call) {
  const scheduler::SplitChoice choice = SplitFor(loaded, signature, options, *call);
  call->split = choice.ctas;
  call->pack = choice.pack;
  call->share_copies = choice.share_copies;
  return choice;
}

}  // namespace tilec::api
