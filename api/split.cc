// SPDX-License-Identifier: Apache-2.0
#include "api/split.h"

namespace tilec::api {

Bindings NamesOf(const Call& call) {
  Bindings names;
  for (const auto& [name, value] : call.all)
    if (const auto* i = std::get_if<int64_t>(&value)) names[name] = *i;
  for (const auto& [name, value] : call.launch.scalars)
    if (const auto* i = std::get_if<int64_t>(&value)) names[name] = *i;
  return names;
}

scheduler::SplitChoice SplitFor(const Loaded& loaded, const frontend::Signature& signature,
                                const PipelineOptions& options, const Call& call) {
  if (options.For(call).schedule != "solve" || loaded.schedule_file >= 0) return {};
  DiagSink quiet;  // who compiles it says what is wrong
  const Result<Machine> machine = MachineOf(options, quiet);
  if (!machine.ok()) return {};
  Result<ir::Function> fn = MakeTileIr(loaded, signature.kernel, call, nullptr, quiet);
  if (!fn.ok()) return {};
  std::vector<ir::PassStep> steps;
  for (ir::PassId id : ir::kCleanUp) steps.push_back(ir::StepOf(id));
  PipelineOptions plain = options;
  plain.crash_dir.clear();
  const Result<ir::Function> clean = RunSteps(loaded, std::move(*fn), steps, plain, nullptr, quiet);
  if (!clean.ok()) return {};
  return scheduler::ChooseSplit(*clean, **machine, NamesOf(call), call.row_starts);
}

scheduler::SplitChoice ChooseForm(const Loaded& loaded, const frontend::Signature& signature,
                                  const PipelineOptions& options, Call* call) {
  const scheduler::SplitChoice choice = SplitFor(loaded, signature, options, *call);
  call->split = choice.ctas;
  call->pack = choice.pack;
  call->share_copies = choice.share_copies;
  call->stays = choice.stays;
  return choice;
}

}  // namespace tilec::api
