// SPDX-License-Identifier: Apache-2.0
#include "editor/schedules.h"

#include "api/pipeline.h"
#include "ir/passes/defer_unlikely.h"

namespace tilec::editor {

namespace {

// Tensors as a launch most likely brings them: dense and aligned.
std::map<std::string, ir::TensorFacts> LikelyFacts(const frontend::Signature& signature) {
  constexpr int64_t kAlign = 16;  // bytes: what TMA asks of addresses and strides (PTX ISA)
  std::map<std::string, ir::TensorFacts> out;
  for (const frontend::ParamInfo& p : signature.params)
    if (p.role == frontend::ParamRole::kTensor)
      out[p.name] = {.base_align_bytes = kAlign,
                     .stride_align_bytes = kAlign,
                     .last_dim_align = kAlign / ir::ByteSize(p.dtype),
                     .last_contiguous = !p.strided_any};
  return out;
}

}  // namespace

std::string Describe(const LoopSummary& loop) {
  if (!loop.pipelined)
    return "keeps its order" + (loop.why.empty() ? std::string() : ": " + loop.why);
  return fmt::format("II {} cycles{}, {} compute role{} of {} warps", loop.ii,
                     loop.proved ? " (proved smallest)" : "", loop.roles,
                     loop.roles == 1 ? "" : "s", loop.warps);
}

std::vector<LoopSummary> SchedulesOf(const Analysis& a, const TypedKernel& kernel,
                                     const std::string& target,
                                     const api::StandardLibrary& library) {
  DiagSink diags;
  api::Loaded loaded;
  Result<frontend::Program> program = frontend::Program::LoadText(
      loaded.sources, a.path, std::string(a.text()), library.Resolver(), diags);
  if (!program.ok()) return {};
  loaded.program.emplace(std::move(*program));
  const frontend::Signature* signature = loaded.program->FindSignature(kernel.name);
  if (!signature) return {};
  api::Call call;
  call.statics = call.all = kernel.values;
  call.facts = LikelyFacts(*signature);
  api::PipelineOptions options;
  options.target = target;
  api::Lowered lowered;
  api::Observation look;
  look.lowered = &lowered;
  Result<ir::Function> fn = api::MakeTileIr(loaded, kernel.name, call, &look, diags);
  if (!fn.ok()) return {};
  fn = api::LowerToWarps(loaded, ir::Likely(*std::move(fn)), options.For(call), &look, diags);
  if (!fn.ok()) return {};
  std::vector<LoopSummary> out;
  for (const scheduler::LoopReport& loop : lowered.schedule.loops) {
    if (loop.at.file < 0 || loaded.sources.path(loop.at.file) != a.path) continue;
    LoopSummary summary;
    summary.begin = loop.at.begin;
    summary.end = loop.at.end;
    summary.pipelined = lowered.by_schedule && loop.applied;
    if (summary.pipelined) {
      summary.ii = loop.solution.schedule.ii;
      summary.proved = loop.solution.lower_bound >= summary.ii;
      summary.roles = lowered.schedule.roles;
      summary.warps = 4 * lowered.schedule.warpgroups;
    } else if (!loop.notes.empty()) {
      summary.why = loop.notes.back();
    }
    out.push_back(summary);
  }
  return out;
}

}  // namespace tilec::editor
