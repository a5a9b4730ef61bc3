// SPDX-License-Identifier: Apache-2.0
#include "api/spills.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "api/diagnostics.h"
#include "api/divided.h"

namespace tilec::api {

namespace {

int Spilled(const backend::PtxasReport& report) {
  return report.spill_store_bytes + report.spill_load_bytes;
}

bool Clean(const backend::PtxasReport& report) {
  return Spilled(report) == 0 && report.Serialized().empty();
}

// "C7514: … in the function": what ptxas says, without where it says it.
std::string Cause(const std::string& line) {
  const size_t code = line.find("(C75"), text = line.find("due to ");
  const size_t end = std::min(line.find(" in the function"), line.find(" for the function"));
  const std::string name = line.substr(code + 1, line.find(')', code) - code - 1);
  return text == std::string::npos ? name : name + ", " + line.substr(text, end - text);
}

std::string WhatToMakeSmaller(const frontend::Signature* signature) {
  std::vector<std::string> tunes;
  if (signature)
    for (const frontend::TuneInfo& tune : signature->tunes) tunes.push_back("`" + tune.name + "`");
  return tunes.empty() ? "smaller tiles" : fmt::format("smaller {}", fmt::join(tunes, ", "));
}

}  // namespace

void SaySpills(const Loaded& loaded, const std::string& kernel, const ir::RolePressure& fullest,
               const backend::PtxasReport& report, DiagSink& diags, const std::string& launch) {
  if (Clean(report)) return;
  const frontend::Signature* signature = loaded.program->FindSignature(kernel);
  const Span at = signature ? signature->at : Span{};
  const std::string smaller = WhatToMakeSmaller(signature);
  const auto note = [&](DiagBuilder said) {
    if (!launch.empty()) said.Note(launch);
  };
  // Without a quota a thread has what ptxas found for it, less where CTAs share an SM.
  if (Spilled(report) > 0)
    note(diags
             .Report(kSpills, at, kernel, Spilled(report), fullest.role, fullest.kept,
                     fullest.given > 0 ? fullest.given : report.registers)
             .Help(smaller + " or --ptxas=refine, which gives the solver fewer registers"));
  if (const std::vector<std::string> lines = report.Serialized(); !lines.empty())
    note(diags.Report(kSerialized, at, kernel, Cause(lines.front()))
             .Help(smaller + " or --ptxas=refine, which solves again until nothing is serialized"));
}

void SaySpillsOfCall(const Loaded& loaded, const std::string& kernel, const Call& call,
                     const PipelineOptions& options, const AssembledLaunch& assembled,
                     DiagSink& diags) {
  if (Clean(assembled.report)) return;
  DiagSink said_before;  // when the image was made
  ir::RolePressure fullest{"main", 0, 0};
  std::string title;
  const Result<Machine> machine = MachineOf(options, said_before);
  auto tile = MakeTileIr(loaded, kernel, call, nullptr, said_before);
  if (machine.ok() && tile.ok())
    if (auto launches = LaunchesOf(loaded, *std::move(tile), options.For(call), said_before);
        launches.ok() && assembled.number < launches->programs.size()) {
      LaunchProgram& program = launches->programs[assembled.number];
      title = program.title;
      if (const auto warps =
              LowerToWarps(loaded, std::move(program.fn), program.options, nullptr, said_before);
          warps.ok())
        fullest = ir::FullestRole(*warps, **machine);
    }
  said_before.Clear();
  SaySpills(loaded, kernel, fullest, assembled.report, diags, title);
}

}  // namespace tilec::api
