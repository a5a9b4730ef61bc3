// `tilec explain` of a program that was compiled: which launches it has, which of its loops obey
// which schedule, and what ptxas made of them.
//
// SPDX-License-Identifier: Apache-2.0
#include "tools/explain_command.h"

#include <algorithm>

#include "api/divided.h"
#include "compile/search.h"
#include "explain/explain.h"
#include "explain/program.h"
#include "ir/target.h"
#include "sass/diagnostics.h"
#include "scheduler/in_order.h"
#include "scheduler/program.h"
#include "tools/diagnostics.h"
#include "tools/graph_files.h"
#include "tools/machine_code.h"
#include "tools/prepare.h"
#include "tools/session.h"

namespace tilec::tools {

// The program that `tilec build` emits for these words, with its plan and the schedule that it
// obeys; nothing for machines that no code is emitted for, or for questions beside it.
Result<> ExplainCommand::Compile() {
  if (!o_.machine.empty() || o_.role_crossing) return Done();
  DiagSink& diags = session_.diags();
  TRY(const api::Machine machine, session_.Machine());
  DiagSink why;
  if (!api::CheckCompiles(*machine, why).ok()) return Done();
  TRY(const Prepared prepared, Prepare(session_, "explain", o_.assignments));
  api::Observation& look = session_.look();
  TRY(ir::Function fn,
      api::MakeTileIr(session_.loaded(), prepared.kernel, prepared.call, &look, diags));
  if (!compile::CheckProducts(fn, *machine, why).ok()) return Done();
  TRY(api::Launches launches, LaunchesOf(prepared, std::move(fn)));
  std::vector<std::string> plans;
  for (api::LaunchProgram& program : launches.programs) {
    Compiled made;
    std::string plan;
    look.lowered = &made.lowered;
    look.plan = &plan;
    Result<ir::Function> lowered =
        api::LowerToWarps(session_.loaded(), std::move(program.fn), program.options, &look, diags);
    look.lowered = nullptr;
    look.plan = nullptr;
    TRY(made.fn, std::move(lowered));
    made.title = program.title;
    plans.push_back(std::move(plan));
    compiled_.push_back(std::move(made));
  }
  plan_ = api::BehindTitles(launches, plans, "#");
  return Done();
}

// What the call launches. That nothing is dealt out the lowering says of itself.
Result<api::Launches> ExplainCommand::LaunchesOf(const Prepared& prepared, ir::Function fn) {
  DiagSink quiet;
  return api::LaunchesOf(session_.loaded(), std::move(fn), session_.pipeline().For(prepared.call),
                         quiet);
}

std::vector<ExplainCommand::ObeyedLoop> ExplainCommand::Obeyed() const {
  std::vector<ObeyedLoop> loops;
  for (size_t i = 0; i < compiled_.size(); ++i)
    if (compiled_[i].lowered.by_schedule)
      for (const scheduler::LoopReport& loop : compiled_[i].lowered.schedule.loops)
        if (loop.applied && loop.extracted()) loops.push_back({&loop, i});
  return loops;
}

// What the compiled program obeys, as it was solved or read.
Result<Explanation> ExplainCommand::OfCompiled(const std::vector<ObeyedLoop>& loops) {
  TRY_VOID(CheckLoop(loops.size()));
  const auto longest = std::max_element(loops.begin(), loops.end(), [](auto& a, auto& b) {
    return a.report->solution.schedule.ii < b.report->solution.schedule.ii;
  });
  const size_t chosen =
      o_.loop > 0 ? static_cast<size_t>(o_.loop - 1) : static_cast<size_t>(longest - loops.begin());
  const scheduler::LoopReport& loop = *loops[chosen].report;
  launch_ = loops[chosen].launch;
  std::vector<std::vector<Span>> members;
  for (const scheduler::OpOrigin& origin : loop.extraction.origins) {
    members.emplace_back();
    for (const scheduler::OriginStep& step : origin.steps)
      if (step.op.valid()) members.back().push_back(step.at);
  }
  std::optional<scheduler::Certificate> certificate;
  if (!FromFile()) certificate = loop.solution.certificate;
  // What is obeyed is shown, not what was solved in its place.
  ir::Schedule schedule = loop.solution.schedule;
  std::string unlike;
  if (loop.in_order)
    if (auto kept = scheduler::ScheduleInOrder(loop.extraction.graph, schedule)) {
      schedule = *std::move(kept);
      unlike = "as its turns keep the program's order";
    }
  TRY(Explanation e, explain::Explain(loop.extraction.graph, schedule,
                                      {certificate, loop.solution.lower_bound, members, unlike},
                                      session_.loaded().sources, session_.diags()));
  if (loops.size() > 1)
    e.notes.push_back(
        {fmt::format("loop {} of {}: --loop=N explains another", chosen + 1, loops.size()), {}});
  if (compiled_.size() > 1)
    for (size_t l = 0; l < loops.size(); ++l)
      e.notes.push_back(
          {fmt::format("loop {} is of {}", l + 1, compiled_[loops[l].launch].title), {}});
  for (const std::string& note : loop.notes) e.notes.push_back({note, {}});
  if (!FromFile()) AddAnswers(loop.extraction.graph, loop.solution, &e);
  return e;
}

// Which strategies were considered, what each would take, and why it was refused.
Result<> ExplainCommand::Decide() {
  DiagSink& diags = session_.diags();
  TRY(const Prepared prepared, Prepare(session_, "explain", o_.assignments));
  api::Observation look;
  TRY(ir::Function fn,
      api::MakeTileIr(session_.loaded(), prepared.kernel, prepared.call, &look, diags));
  TRY(api::Launches launches, LaunchesOf(prepared, std::move(fn)));
  std::vector<std::string> texts;
  for (api::LaunchProgram& program : launches.programs) {
    std::vector<compile::Decision> decisions;
    look.decisions = &decisions;
    TRY(const ir::Function made,
        api::LowerToWarps(session_.loaded(), std::move(program.fn), program.options, &look, diags));
    texts.push_back(compile::ToText(decisions));
  }
  return WriteResult(session_, o_.output, api::BehindTitles(launches, texts, "#"));
}

// Overlaps of the emitted program beside those of its machine code.
Result<> ExplainCommand::ReadMachineCode() {
  DiagSink& diags = session_.diags();
  TRY(const api::Machine machine, session_.Machine());
  if (machine->unit().completion != ir::Completion::kGroups)
    return diags.Report(kNoSass, Span{}, o_.target).Place("command line");
  const std::string ptxas = Ptxas();
  const std::string nvdisasm = Nvdisasm(o_, ptxas);
  if (nvdisasm.empty())
    return diags.Report(sass::kNvdisasmMissing, Span{})
        .Place("command line")
        .Help("it comes with the CUDA toolkit; --nvdisasm=PATH says where it is");
  if (ptxas.empty()) return diags.Report(kNeedsPtxas, Span{}).Place("command line");
  TRY(const Prepared prepared, Prepare(session_, "explain", o_.assignments));
  api::Observation look;
  TRY(ir::Function fn,
      api::MakeTileIr(session_.loaded(), prepared.kernel, prepared.call, &look, diags));
  TRY(api::Launches launches, LaunchesOf(prepared, std::move(fn)));
  const bool json = o_.format == "json";
  std::vector<std::string> texts;
  for (api::LaunchProgram& program : launches.programs) {
    TRY(const ir::Function made,
        api::LowerToWarps(session_.loaded(), std::move(program.fn), program.options, &look, diags));
    TRY(const backend::KernelImage image,
        api::MakeImage(session_.loaded(), made, session_.pipeline(), &look, diags));
    TRY(const backend::PtxasReport assembled,
        backend::Assemble(image.ptx, image.target, ptxas, diags));
    TRY(const MachineCode code, ReadBack(image, assembled, ptxas, nvdisasm, diags));
    texts.push_back(json ? sass::ToJson(code.report, code.assembly)
                         : sass::ToText(code.report, code.assembly));
  }
  if (json && launches.several())
    return WriteResult(session_, o_.output, fmt::format("[{}]\n", fmt::join(texts, ",")));
  return WriteResult(session_, o_.output, api::BehindTitles(launches, texts, "#"));
}

// What is emitted.
Result<> ExplainCommand::Lower(Explanation* e) {
  if (compiled_.empty()) {
    TRY(const Prepared prepared, Prepare(session_, "explain", o_.assignments));
    api::Observation& look = session_.look();
    TRY(ir::Function fn, api::MakeTileIr(session_.loaded(), prepared.kernel, prepared.call, &look,
                                         session_.diags()));
    Compiled made;
    TRY(made.fn,
        api::LowerToWarps(session_.loaded(), std::move(fn), session_.pipeline().For(prepared.call),
                          &look, session_.diags()));
    compiled_.push_back(std::move(made));
  }
  TRY(const api::Machine machine, session_.Machine());
  TRY(e->program, explain::ReadProgram(compiled_[launch_].fn, *machine, session_.loaded().sources,
                                       session_.diags()));
  e->program_note = FromFile() ? "as this schedule is lowered"
                               : fmt::format("as --schedule={} lowers it", o_.schedule);
  return Done();
}

}  // namespace tilec::tools
