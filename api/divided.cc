// SPDX-License-Identifier: Apache-2.0
#include "api/divided.h"

#include <algorithm>
#include <utility>

#include "api/diagnostics.h"
#include "api/schedule_names.h"
#include "compile/diagnostics.h"
#include "ir/isa.h"
#include "ir/pass.h"
#include "ir/passes/divide_reductions.h"
#include "ir/passes/pack_rows.h"

namespace tilec::api {

int64_t GroupsOf(const PipelineOptions& options) {
  const int64_t ctas = SplitOf(options.schedule).value_or(options.split);
  return std::max<int64_t>(1, ctas / ir::isa::kPortableClusterCtas);
}

Result<std::optional<backend::KernelImage>> DividedImage(const Loaded& loaded,
                                                         const ir::Function& fn,
                                                         const PipelineOptions& options,
                                                         Observation* look, DiagSink& diags) {
  std::vector<ir::PassStep> steps;
  for (ir::PassId id : ir::kCleanUp) steps.push_back(ir::StepOf(id));
  TRY(ir::Function clean, RunSteps(loaded, fn, steps, options, nullptr, diags));
  const int64_t pack =
      PackOf(options.schedule).value_or(options.schedule == "solve" ? options.pack : 1);
  if (pack > 1) (void)ir::PackRows(clean, pack);  // or it stays as it is
  ir::Division divided;
  if (const auto why = ir::DivideReductions(clean, GroupsOf(options), &divided)) {
    diags.Report(compile::kNotSplit, why->at, fn.name, why->why);
    return std::optional<backend::KernelImage>();
  }
  PipelineOptions of = options;
  of.split = of.pack = 1;
  of.share_copies = of.stays = false;
  const auto image = [&](ir::Function part) -> Result<backend::KernelImage> {
    TRY(part, LowerToWarps(loaded, std::move(part), of, look, diags));
    TRY(backend::KernelImage made, MakeImage(loaded, part, options, look, diags));
    const auto first = made.tensors.end() - static_cast<std::ptrdiff_t>(divided.tensors);
    made.work.assign(std::make_move_iterator(first), std::make_move_iterator(made.tensors.end()));
    made.tensors.erase(first, made.tensors.end());
    return made;
  };
  of.schedule = "solve:split=8";
  TRY(backend::KernelImage parts, image(std::move(divided.parts)));
  of.schedule = "solve";
  TRY(backend::KernelImage whole, image(std::move(divided.whole)));
  whole.before.push_back(std::move(parts));
  return std::optional<backend::KernelImage>(std::move(whole));
}

void SayOfLaunches(const Loaded& loaded, const ir::Function& fn, const PipelineOptions& options,
                   DiagSink& diags) {
  const int64_t groups = GroupsOf(options);
  if (groups == 1) return;
  DiagSink quiet;
  const auto divided = DividedImage(loaded, fn, options, nullptr, quiet);
  if (divided.ok() && *divided)
    diags.Report(kOneOfLaunches, Span{}, fn.name, groups * ir::isa::kPortableClusterCtas);
}

}  // namespace tilec::api
