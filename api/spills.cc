// SPDX-License-Identifier: Apache-2.0
#include "api/spills.h"

#include <fmt/format.h>

#include <vector>

#include "api/diagnostics.h"

namespace tilec::api {

namespace {

int Spilled(const backend::PtxasReport& report) {
  return report.spill_store_bytes + report.spill_load_bytes;
}

std::string WhatToMakeSmaller(const frontend::Signature* signature) {
  std::vector<std::string> tunes;
  if (signature)
    for (const frontend::TuneInfo& tune : signature->tunes) tunes.push_back("`" + tune.name + "`");
  return tunes.empty() ? "smaller tiles" : fmt::format("smaller {}", fmt::join(tunes, ", "));
}

}  // namespace

void SaySpills(const Loaded& loaded, const std::string& kernel, const ir::RolePressure& fullest,
               const backend::PtxasReport& report, DiagSink& diags) {
  if (Spilled(report) == 0) return;
  const frontend::Signature* signature = loaded.program->FindSignature(kernel);
  // Without a quota a thread has what ptxas found for it, less where CTAs share an SM.
  diags
      .Report(kSpills, signature ? signature->at : Span{}, kernel, Spilled(report), fullest.role,
              fullest.kept, fullest.given > 0 ? fullest.given : report.registers)
      .Help(WhatToMakeSmaller(signature) +
            " or --ptxas=refine, which gives the solver fewer registers");
}

void SaySpillsOfCall(const Loaded& loaded, const std::string& kernel, const Call& call,
                     const PipelineOptions& options, const backend::PtxasReport& report,
                     DiagSink& diags) {
  if (Spilled(report) == 0) return;
  DiagSink said_before;  // when the image was made
  ir::RolePressure fullest{"main", 0, 0};
  const Result<Machine> machine = MachineOf(options, said_before);
  if (auto tile = MakeTileIr(loaded, kernel, call, nullptr, said_before); machine.ok() && tile.ok())
    if (const auto warps =
            LowerToWarps(loaded, std::move(*tile), options.For(call), nullptr, said_before);
        warps.ok())
      fullest = ir::FullestRole(*warps, **machine);
  said_before.Clear();
  SaySpills(loaded, kernel, fullest, report, diags);
}

}  // namespace tilec::api
