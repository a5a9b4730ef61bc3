// SPDX-License-Identifier: Apache-2.0
#include "tools/schedule_kernel.h"

#include <algorithm>

#include "api/diagnostics.h"
#include "api/solution_cache.h"
#include "explain/diagnostics.h"
#include "explain/problem.h"
#include "ir/pass.h"
#include "scheduler/rank.h"
#include "tools/diagnostics.h"
#include "tools/graph_files.h"
#include "tools/prepare.h"

namespace tilec::tools {

namespace {

constexpr size_t kKept = 10;          // rows of the table that are solved for sure
constexpr size_t kMostPoints = 4096;  // of the space of tunes

using Words = std::vector<std::string>;

// The kernel with these values, as the scheduler meets it.
Result<ir::Function> Clean(Session& session, const Words& words) {
  DiagSink& diags = session.diags();
  TRY(const Prepared prepared, Prepare(session, "schedule", words));
  TRY(ir::Function fn,
      api::MakeTileIr(session.loaded(), prepared.kernel, prepared.call, &session.look(), diags));
  std::vector<ir::PassStep> steps;
  for (ir::PassId id : ir::kCleanUp) steps.push_back(ir::StepOf(id));
  return api::RunSteps(session.loaded(), std::move(fn), steps, session.pipeline(), &session.look(),
                       diags);
}

// The loops of the kernel with these values.
Result<std::vector<explain::LoopProblem>> Loops(Session& session, const Words& words) {
  DiagSink& diags = session.diags();
  TRY(const ir::Target target, ir::LoadBuiltinTarget(session.options().target, diags));
  TRY(ir::Function fn, Clean(session, words));
  std::vector<explain::Reason> notes;
  return explain::ProblemsOf(fn, target, &notes, diags);
}

const explain::LoopProblem& Largest(const std::vector<explain::LoopProblem>& loops) {
  return *std::max_element(loops.begin(), loops.end(),
                           [](const auto& a, const auto& b) { return a.work < b.work; });
}

// All combinations of the tunes that the words leave open.
Result<std::vector<Words>> Points(Session& session, const Words& words) {
  TRY(const std::string kernel, session.LoadKernel(session.options().file));
  TRY(const frontend::Signature signature,
      frontend::SignatureOf(*session.loaded().program, kernel, session.diags()));
  std::vector<Words> points = {words};
  for (const frontend::TuneInfo& tune : signature.tunes) {
    const bool given = std::any_of(words.begin(), words.end(), [&](const std::string& word) {
      return word.substr(0, word.find('=')) == tune.name;
    });
    if (given || tune.candidates.empty()) continue;
    std::vector<Words> next;
    for (const Words& point : points)
      for (const frontend::ConstValue& value : tune.candidates) {
        next.push_back(point);
        next.back().push_back(tune.name + "=" + frontend::ToText(value));
      }
    if (next.size() > kMostPoints)
      return session.diags()
          .Report(
              kUsage, Span{},
              fmt::format("the tunes of `{}` have more than {} combinations", kernel, kMostPoints))
          .Place("command line")
          .Help("give some of them as NAME=VALUE");
    points = std::move(next);
  }
  return points;
}

std::string Name(const Words& point, size_t given, int slices) {
  std::string name;
  for (size_t i = given; i < point.size(); ++i) name += (name.empty() ? "" : " ") + point[i];
  if (name.empty()) name = "as given";
  return fmt::format("{}, {} slice{}", name, slices, slices == 1 ? "" : "s");
}

}  // namespace

Result<scheduler::ProgramSchedule> ScheduleOfKernel(Session& session,
                                                    const scheduler::SolveOptions& solve) {
  DiagSink& diags = session.diags();
  const Options& o = session.options();
  TRY(const ir::Target target, ir::LoadBuiltinTarget(o.target, diags));
  TRY(ir::Function fn, Clean(session, o.assignments));
  scheduler::ProgramOptions options;
  options.target = &target;
  options.solve = solve;
  scheduler::ProgramSchedule schedule;
  if (o.schedule_file.empty()) {
    schedule = scheduler::ScheduleProgram(fn, options);
  } else {
    TRY(const int32_t file, AddSource(session, o.schedule_file));
    TRY(schedule,
        scheduler::LoadSchedules(fn, options, {session.loaded().sources.text(file), file}, diags));
  }
  bool any = false;
  for (const scheduler::LoopReport& loop : schedule.loops) any = any || loop.applied;
  if (!any) {
    const bool said = !schedule.loops.empty() && !schedule.loops.front().notes.empty();
    return diags.Report(explain::kNoLoop, Span{}, fn.name,
                        said ? schedule.loops.front().notes.back() : "no loop");
  }
  for (const scheduler::LoopReport& loop : schedule.loops)
    if (!loop.applied)
      diags.Report(api::kLoopKeepsItsOrder, loop.at,
                   loop.notes.empty() ? "no schedule was found" : loop.notes.back());
  return schedule;
}

Result<> RankTunes(Session& session) {
  const Words& words = session.options().assignments;
  TRY(const std::vector<Words> points, Points(session, words));
  std::vector<scheduler::RankCandidate> candidates;
  std::string work_name;
  size_t refused = 0;
  for (const Words& point : points) {
    // A combination that the kernel's facts exclude is none; where nothing is left, say why.
    Result<std::vector<explain::LoopProblem>> loops = Loops(session, point);
    if (!loops.ok()) {
      if (++refused == points.size()) return DiagSink::Propagate();
      DiagSink excluded;
      session.diags().MoveTo(excluded);
      continue;
    }
    const explain::LoopProblem& loop = Largest(*loops);
    work_name = loop.work_name;
    for (const explain::Candidate& c : loop.candidates)
      candidates.push_back(
          {Name(point, words.size(), c.slices), c.graph, std::max(1.0, loop.work / 1000)});
  }
  scheduler::SolveOptions options = scheduler::SolveOptions::ForCompilation();
  options.optimize_secondary = false;
  std::optional<api::SolutionCache> store;
  if (session.cache() != nullptr) store.emplace(*session.cache(), session.diags());
  const std::vector<scheduler::Ranked> ranking =
      scheduler::RankByModel(candidates, kKept, options, store ? &*store : nullptr);

  std::string out = fmt::format("{:<44} {:>8} {:>8} {:>8} {:>12}\n", "candidate", "bound", "II",
                                "proved", "cycles/1000");
  size_t pruned = 0, refuted = 0, open = 0;
  for (const scheduler::Ranked& r : ranking) {
    switch (r.kind) {
      case scheduler::Ranked::Kind::kSolved:
        out += fmt::format("{:<44} {:>8} {:>8} {:>8} {:>12.4f}\n", candidates[r.candidate].name,
                           r.bound, r.ii, r.lower_bound, r.cost);
        break;
      case scheduler::Ranked::Kind::kPruned: ++pruned; break;
      case scheduler::Ranked::Kind::kRefuted: ++refuted; break;
      case scheduler::Ranked::Kind::kOpen: ++open; break;
    }
  }
  out += fmt::format(
      "{} candidates in cycles per 1000 {}; {} cannot be among the best {} by their bound, {} have "
      "no schedule, {} stayed open\n",
      candidates.size(), work_name, pruned, kKept, refuted, open);
  return WriteResult(session, session.options().output, out);
}

}  // namespace tilec::tools
