// SPDX-License-Identifier: Apache-2.0
#include "tools/schedule_kernel.h"

#include <algorithm>

#include "api/diagnostics.h"
#include "api/solution_cache.h"
#include "api/tune.h"
#include "compile/diagnostics.h"
#include "explain/diagnostics.h"
#include "explain/problem.h"
#include "ir/lower/diagnostics.h"
#include "ir/pass.h"
#include "ir/passes/defer_unlikely.h"
#include "scheduler/diagnostics.h"
#include "scheduler/rank.h"
#include "scheduler/top.h"
#include "tools/diagnostics.h"
#include "tools/graph_files.h"
#include "tools/prepare.h"

namespace tilec::tools {

namespace {

constexpr size_t kKept = 10;          // rows of the table that are solved for sure
constexpr size_t kMostPoints = 4096;  // of the space of tunes

using Words = std::vector<std::string>;

// Says why what is written as loops is none any more.
DiagBuilder NoLoopLeft(DiagSink& diags, const std::string& kernel, const std::vector<Span>& loops) {
  const bool kept = std::any_of(diags.all().begin(), diags.all().end(), [](const Diagnostic& d) {
    return d.def == &ir::lower_diag::kRowsKept;
  });
  DiagBuilder d = diags.Report(explain::kNoLoopLeft, loops[0], kernel,
                               kept ? "the rows that they read again are kept, so they are unrolled"
                                    : "with these values each runs once at most");
  for (size_t i = 1; i < loops.size(); ++i) d.Label(loops[i], "and this one");
  d.Help(
      "leave out the NAME=VALUE of the dim that bounds them: where the length is not known they "
      "stay loops, and are scheduled");
  return d;
}

// The loops of the kernel with these values.
Result<std::vector<explain::LoopProblem>> Loops(Session& session, const Words& words) {
  DiagSink& diags = session.diags();
  TRY(const ir::Target target, LoadMachine(session));
  TRY(ir::Function fn, CleanedUp(session, "schedule", words));
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

// What the program that a compilation makes has not of the schedule that is printed, as `tilec
// build` says it. What cannot be compiled, loses nothing.
void SayLosses(Session& session, const Prepared& prepared, scheduler::SolutionStore* store) {
  DiagSink said;
  auto tile = api::MakeTileIr(session.loaded(), prepared.kernel, prepared.call, nullptr, said);
  if (!tile.ok()) return said.Clear();
  api::PipelineOptions options = session.pipeline().For(prepared.call);
  options.solutions = store;
  const auto made = api::LowerToWarps(session.loaded(), ir::Likely(*std::move(tile)), options,
                                      nullptr, said);
  if (!made.ok()) return said.Clear();
  for (const Diagnostic& d : said.all())
    if (d.def == &compile::kSolvedForFewer || d.def == &compile::kScheduleNotLowered ||
        d.def == &compile::kScheduleLostInPart || d.def == &compile::kOwnOrder)
      session.diags().ReportText(*d.def, d.span, d.message);
  said.Clear();
}

Result<ir::Function> CleanedUp(Session& session, const char* command, const Words& words,
                               Prepared* as) {
  DiagSink& diags = session.diags();
  TRY(Prepared prepared, Prepare(session, command, words));
  TRY(ir::Function fn,
      api::MakeTileIr(session.loaded(), prepared.kernel, prepared.call, &session.look(), diags));
  fn = ir::Likely(std::move(fn));
  std::vector<Span> loops;
  for (ir::OpId id : scheduler::InnermostLoops(fn)) loops.push_back(fn.ops[id].at);
  std::vector<ir::PassStep> steps;
  for (ir::PassId id : ir::kCleanUp) steps.push_back(ir::StepOf(id));
  TRY(fn, api::RunSteps(session.loaded(), std::move(fn), steps, session.pipeline(), &session.look(),
                        diags));
  if (!loops.empty() && !session.look().stopped && scheduler::InnermostLoops(fn).empty())
    return NoLoopLeft(diags, prepared.kernel, loops);
  if (as) *as = std::move(prepared);
  return fn;
}

}  // namespace

Result<ir::Function> CleanedUp(Session& session, const char* command, const Words& words) {
  return CleanedUp(session, command, words, nullptr);
}

Result<scheduler::ProgramSchedule> ScheduleOfKernel(Session& session,
                                                    const scheduler::SolveOptions& solve) {
  DiagSink& diags = session.diags();
  const Options& o = session.options();
  TRY(const ir::Target target, LoadMachine(session));
  Prepared prepared;
  TRY(ir::Function fn, CleanedUp(session, "schedule", o.assignments, &prepared));
  scheduler::ProgramOptions options;
  options.target = &target;
  options.solve = solve;
  api::SolutionCache store(session.cache(), diags);
  options.store = &store;
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
    if (!loop.applied && !loop.idle)
      diags.Report(compile::kLoopKeepsItsOrder, loop.at,
                   loop.notes.empty() ? "no schedule was found" : loop.notes.back());
  // Of another machine and of other orders than the compiler's own nothing is compiled.
  const bool own = o.schedule_file.empty() && o.machine.empty() && !solve.fixed_ii &&
                   solve.epsilon == scheduler::SolveOptions::ForCompilation().epsilon;
  if (own) SayLosses(session, prepared, &store);
  return schedule;
}

Result<SolvedNest> NestOfKernel(Session& session, const scheduler::SolveOptions& solve) {
  DiagSink& diags = session.diags();
  const Options& o = session.options();
  TRY(const ir::Target target, LoadMachine(session));
  TRY(const ir::Function fn, CleanedUp(session, "schedule", o.assignments));
  scheduler::ProgramOptions options;
  options.target = &target;
  options.solve = scheduler::SolveOptions::ForCompilation();
  api::SolutionCache store(session.cache(), diags);
  options.store = &store;
  ir::Function lowered = fn;
  const scheduler::ProgramSchedule chosen = scheduler::ScheduleProgram(lowered, options);
  const std::optional<scheduler::CutProgram> cut = scheduler::SolveCut(fn, chosen.slices, options);
  if (!cut) return diags.Report(scheduler::kNoNest, Span{}, fn.name, "its loops have no schedule");
  SolvedNest solved;
  TRY(solved.nest, scheduler::ExtractNest(*cut, target, o.nest, diags));
  TRY(solved.solution, scheduler::SolveStored(solved.nest.graph, solve, &store, diags));
  return solved;
}

namespace {

// --top: lines for a row of a table.
std::string Answers(const scheduler::Graph& graph, int top, scheduler::SolutionStore* store) {
  std::string out;
  if (top <= 1) return out;
  const scheduler::SolveOptions options = scheduler::SolveOptions::ForCompilation();
  DiagSink refused;
  const Result<scheduler::Solution> solution =
      scheduler::SolveStored(graph, options, store, refused);
  if (!solution.ok()) return out;
  const auto answers = scheduler::TopSolutions(graph, *solution, top, options);
  for (size_t i = 0; i < answers.size(); ++i)
    out += fmt::format("  answer {}: {}\n", i + 1, scheduler::Describe(answers[i]));
  return out;
}

// For the sizes of one problem: whole kernels, by predicted time.
Result<> RankTimes(Session& session, const Prepared& prepared,
                   const frontend::Signature& signature) {
  const api::TuneChoice choice =
      api::ChooseTunes(session.loaded(), signature, prepared.call, session.pipeline(), nullptr);
  if (!choice.why_not.empty())
    return session.diags()
        .Report(api::kTuneFallsBack, Span{}, choice.why_not)
        .Place("command line");
  std::string out =
      fmt::format("{:<36} {:>10} {:>10} {:>10} {:>6} {:>7} {:>6} {:>10} {:>6}\n", "tunes", "us",
                  "compute", "memory", "CTAs", "per SM", "waves", "cycles", "loops");
  api::SolutionCache store(session.cache(), session.diags());
  for (const api::TunePoint& p : choice.lowered) {
    std::string name;
    for (const auto& [tune, value] : p.values)
      name += fmt::format("{}{}={}", name.empty() ? "" : " ", tune, frontend::ToText(value));
    if (p.pack > 1) name += fmt::format(" pack={}", p.pack);
    if (p.split > 1) name += fmt::format(" split={}", p.split);
    if (p.is_default) name += " (default)";
    if (p.values == choice.values) name += " <-";
    out += fmt::format(
        "{:<36} {:>10.1f} {:>10.1f} {:>10.1f} {:>6} {:>7} {:>6} {:>10.0f} {:>5.0f}%\n", name,
        1e3 * p.time.ms, 1e3 * p.time.compute_ms, 1e3 * p.time.memory_ms, p.time.ctas,
        p.time.per_sm, p.time.waves, p.time.cycles_per_cta, 100 * p.time.loop_share);
    if (session.options().top <= 1) continue;
    Words words = session.options().assignments;
    for (const auto& [tune, value] : p.values)
      words.push_back(tune + "=" + frontend::ToText(value));
    TRY(const std::vector<explain::LoopProblem> loops, Loops(session, words));
    std::vector<explain::Reason> notes;
    DiagSink refused;
    const Result<explain::Solved> best = explain::SolveBest(
        Largest(loops), scheduler::SolveOptions::ForCompilation(), &store, &notes, refused);
    if (best.ok()) out += Answers(best->candidate->graph, session.options().top, &store);
  }
  out += fmt::format(
      "{} points rated by bounds, these lowered; cycles of one CTA and the share of "
      "its loops\n",
      choice.rated);
  return WriteResult(session, session.options().output, out);
}

}  // namespace

Result<> RankTunes(Session& session) {
  const Words& words = session.options().assignments;
  TRY(const std::string name, session.LoadKernel(session.options().file));
  TRY(const frontend::Signature signature,
      frontend::SignatureOf(*session.loaded().program, name, session.diags()));
  TRY(const Prepared prepared, Prepare(session, "schedule", words));
  // Whole kernels are compared on the machine that they are compiled for.
  if (session.options().machine.empty() &&
      std::all_of(signature.dims.begin(), signature.dims.end(), [&](const frontend::DimInfo& dim) {
        return prepared.call.all.count(dim.name) > 0;
      }))
    return RankTimes(session, prepared, signature);
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
  api::SolutionCache store(session.cache(), session.diags());
  const std::vector<scheduler::Ranked> ranking =
      scheduler::RankByModel(candidates, kKept, options, &store);

  std::string out = fmt::format("{:<44} {:>8} {:>8} {:>8} {:>12}\n", "candidate", "bound", "II",
                                "proved", "cycles/1000");
  size_t shown = 0, pruned = 0, refuted = 0, open = 0;
  for (const scheduler::Ranked& r : ranking) {
    switch (r.kind) {
      case scheduler::Ranked::Kind::kSolved:
        out += fmt::format("{:<44} {:>8} {:>8} {:>8} {:>12.4f}\n", candidates[r.candidate].name,
                           r.bound, r.ii, r.lower_bound, r.cost);
        if (shown++ < kKept)
          out += Answers(candidates[r.candidate].graph, session.options().top, &store);
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
