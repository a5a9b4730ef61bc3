// tilec explain: what a schedule does and why it cannot be faster, of a kernel's loops or of a
// graph.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "api/divided.h"
#include "api/solution_cache.h"
#include "compile/search.h"
#include "explain/explain.h"
#include "explain/problem.h"
#include "explain/program.h"
#include "explain/whynot.h"
#include "ir/target.h"
#include "sass/diagnostics.h"
#include "scheduler/program.h"
#include "scheduler/top.h"
#include "tools/commands.h"
#include "tools/diagnostics.h"
#include "tools/graph_files.h"
#include "tools/machine_code.h"
#include "tools/prepare.h"
#include "tools/schedule_kernel.h"
#include "tools/session.h"

namespace tilec::tools {

namespace {

using explain::Explanation;
using explain::LoopProblem;
using explain::Question;
using explain::Reason;

constexpr int kTraceIterations = 12;

class Command {
 public:
  explicit Command(Session& session)
      : session_(session), o_(session.options()), store_(session.cache(), session.diags()) {
    options_.epsilon = o_.epsilon;
  }

  Result<> Run() {
    TRY_VOID(CheckWords());
    if (!o_.measured.empty()) {
      TRY(const int32_t file, AddSource(session_, o_.measured));
      TRY(measured_, explain::ParseMeasured(session_.loaded().sources.text(file), o_.measured,
                                            session_.diags()));
    }
    if (o_.decisions) return Decide();
    if (o_.sass) return ReadMachineCode();
    const bool graph = !o_.graph.empty();
    for (const std::string& text : o_.why_not) {
      TRY(const Question question, explain::ParseQuestion(text, !graph, session_.diags()));
      questions_.push_back(question);
    }
    if (graph) {
      TRY(Explanation e, OfGraph());
      return Finish(std::move(e));
    }
    TRY(Explanation e, OfKernel());
    return Finish(std::move(e));
  }

 private:
  Result<> CheckWords() {
    DiagSink& diags = session_.diags();
    if (o_.graph.empty() == o_.file.empty())
      return diags
          .Report(kUsage, Span{},
                  "`tilec explain` takes a .tile file or --graph FILE, and one of them")
          .Place("command line")
          .Help("tilec explain FILE[:KERNEL] NAME=VALUE… --target=h200");
    if (!o_.measured.empty() && o_.trace.empty())
      return diags
          .Report(kUsage, Span{}, "what was measured is shown in the trace only: --trace=FILE")
          .Place("command line");
    if (!o_.graph.empty() && o_.decisions)
      return diags
          .Report(kUsage, Span{}, "a graph has one strategy: --decisions needs a .tile file")
          .Place("command line");
    if (!o_.graph.empty() && o_.sass)
      return diags.Report(kUsage, Span{}, "a graph has no machine code: --sass needs a .tile file")
          .Place("command line");
    if (!o_.graph.empty() && o_.program)
      return diags.Report(kUsage, Span{}, "a graph has no program: --program needs a .tile file")
          .Place("command line");
    if (!o_.graph.empty() && !o_.assignments.empty())
      return diags
          .Report(kUsage, Span{}, fmt::format("a graph has no `{}` to set", o_.assignments.front()))
          .Place("command line");
    if (o_.format != "text" && o_.format != "json")
      return diags.Report(kBadChoice, Span{}, "--format", o_.format)
          .Place("command line")
          .Help("use text or json");
    return Done();
  }

  // A schedule from a file, or the solver's.
  bool FromFile() const { return o_.schedule != "sequential" && o_.schedule != "solve"; }

  Result<Explanation> OfGraph() {
    TRY(const scheduler::Graph graph, LoadGraph(session_, o_.graph));
    if (!FromFile()) return Solve(graph);
    TRY(const ir::Schedule schedule, LoadSchedule(session_, o_.schedule));
    return explain::Explain(graph, schedule, {}, session_.loaded().sources, session_.diags());
  }

  // A file is about the loops as the lowering meets them.
  Result<Explanation> ReadFor(const std::vector<std::string>& words) {
    DiagSink& diags = session_.diags();
    TRY(const ir::Target target, LoadMachine(session_));
    TRY(ir::Function fn, CleanedUp(session_, "explain", words));
    scheduler::ProgramOptions options;
    options.target = &target;
    TRY(const int32_t file, AddSource(session_, o_.schedule));
    TRY(const scheduler::ProgramSchedule program,
        scheduler::LoadSchedules(fn, options, {session_.loaded().sources.text(file), file}, diags));
    std::vector<const scheduler::LoopReport*> loops;
    for (const scheduler::LoopReport& loop : program.loops)
      if (loop.applied) loops.push_back(&loop);
    TRY_VOID(CheckLoop(loops.size()));
    const scheduler::LoopReport& loop = *loops[static_cast<size_t>(std::max(1, o_.loop) - 1)];
    std::vector<std::vector<Span>> members;
    for (const scheduler::OpOrigin& origin : loop.extraction.origins) {
      members.emplace_back();
      for (ir::OpId id : origin.members()) members.back().push_back(fn.ops[id].at);
    }
    return explain::Explain(loop.extraction.graph, loop.solution.schedule,
                            {std::nullopt, 0, members}, session_.loaded().sources, diags);
  }

  Result<Explanation> Solve(const scheduler::Graph& graph) {
    TRY(const scheduler::Solution solution, SolveCached(session_, graph, options_));
    TRY(Explanation e,
        explain::Explain(graph, solution.schedule, {solution.certificate, solution.lower_bound},
                         session_.loaded().sources, session_.diags()));
    AddAnswers(graph, solution, &e);
    return e;
  }

  Result<> CheckLoop(size_t loops) {
    if (o_.loop <= static_cast<int>(loops)) return Done();
    return session_.diags()
        .Report(
            kUsage, Span{},
            fmt::format("--loop={}, but the kernel has {} that can be scheduled", o_.loop, loops))
        .Place("command line");
  }

  // The loops of the kernel, with these values.
  Result<std::vector<LoopProblem>> Loops(const std::vector<std::string>& words,
                                         std::vector<Reason>* notes) {
    DiagSink& diags = session_.diags();
    TRY(const ir::Target target, LoadMachine(session_));
    TRY(const ir::Function fn, CleanedUp(session_, "explain", words));
    scheduler::ExtractOptions options;
    options.role_crossing = o_.role_crossing;
    TRY(std::vector<LoopProblem> loops, explain::ProblemsOf(fn, target, notes, diags, options));
    TRY_VOID(CheckLoop(loops.size()));
    return loops;
  }

  // --loop, else the one with most to do.
  size_t Chosen(const std::vector<LoopProblem>& loops) const {
    if (o_.loop > 0) return static_cast<size_t>(o_.loop - 1);
    const auto most = std::max_element(
        loops.begin(), loops.end(),
        [](const LoopProblem& a, const LoopProblem& b) { return a.work < b.work; });
    return static_cast<size_t>(most - loops.begin());
  }

  Result<Explanation> OfNest() {
    TRY(const SolvedNest solved, NestOfKernel(session_, options_));
    const scheduler::Solution& s = solved.solution;
    TRY(Explanation e,
        explain::Explain(solved.nest.graph, s.schedule, {s.certificate, s.lower_bound},
                         session_.loaded().sources, session_.diags()));
    e.notes.push_back({scheduler::Gain(solved.nest, s), {}});
    e.notes.push_back(
        {"of this the program has the slots of rings around the loops; its roles take tiles in "
         "order",
         {}});
    AddAnswers(solved.nest.graph, s, &e);
    return e;
  }

  // The program that `tilec build` emits for these words, with its plan and the schedule that it
  // obeys; nothing for machines that no code is emitted for, or for questions beside it.
  Result<> Compile() {
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
      Result<ir::Function> lowered = api::LowerToWarps(session_.loaded(), std::move(program.fn),
                                                       program.options, &look, diags);
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
  Result<api::Launches> LaunchesOf(const Prepared& prepared, ir::Function fn) {
    DiagSink quiet;
    return api::LaunchesOf(session_.loaded(), std::move(fn), session_.pipeline().For(prepared.call),
                           quiet);
  }

  // The loops of the compiled programs that obey a schedule.
  struct ObeyedLoop {
    const scheduler::LoopReport* report;
    size_t launch;
  };
  std::vector<ObeyedLoop> Obeyed() const {
    std::vector<ObeyedLoop> loops;
    for (size_t i = 0; i < compiled_.size(); ++i)
      if (compiled_[i].lowered.by_schedule)
        for (const scheduler::LoopReport& loop : compiled_[i].lowered.schedule.loops)
          if (loop.applied && loop.extracted()) loops.push_back({&loop, i});
    return loops;
  }

  // What the compiled program obeys, as it was solved or read.
  Result<Explanation> OfCompiled(const std::vector<ObeyedLoop>& loops) {
    TRY_VOID(CheckLoop(loops.size()));
    const auto longest = std::max_element(loops.begin(), loops.end(), [](auto& a, auto& b) {
      return a.report->solution.schedule.ii < b.report->solution.schedule.ii;
    });
    const size_t chosen = o_.loop > 0 ? static_cast<size_t>(o_.loop - 1)
                                      : static_cast<size_t>(longest - loops.begin());
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
    TRY(Explanation e, explain::Explain(loop.extraction.graph, loop.solution.schedule,
                                        {certificate, loop.solution.lower_bound, members},
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

  Result<Explanation> OfKernel() {
    if (o_.nest > 0) return OfNest();
    TRY_VOID(Compile());
    if (const auto loops = Obeyed(); !loops.empty()) return OfCompiled(loops);
    if (FromFile()) return ReadFor(o_.assignments);
    std::vector<Reason> notes;
    TRY(loops_, Loops(o_.assignments, &notes));
    loop_ = Chosen(loops_);
    if (loops_.size() > 1)
      notes.push_back(
          {fmt::format("loop {} of {}: --loop=N explains another", loop_ + 1, loops_.size()), {}});
    const LoopProblem& problem = loops_[loop_];
    TRY(const explain::Solved best,
        explain::SolveBest(problem, options_, &store_, &notes, session_.diags()));
    TRY(Explanation e, explain::Explain(best.candidate->graph, best.solution.schedule,
                                        {best.solution.certificate, best.solution.lower_bound,
                                         best.candidate->members},
                                        session_.loaded().sources, session_.diags()));
    e.notes = std::move(notes);
    if (o_.role_crossing)
      e.notes.push_back(
          {"the solver crosses roles only when asked: what crosses here is emitted for a schedule "
           "from a file",
           {}});
    AddAnswers(best.candidate->graph, best.solution, &e);
    return e;
  }

  // --top: what else is as good, or nearly.
  void AddAnswers(const scheduler::Graph& graph, const scheduler::Solution& solution,
                  Explanation* e) const {
    if (o_.top <= 1) return;
    const std::vector<scheduler::Alternative> top =
        scheduler::TopSolutions(graph, solution, o_.top, options_);
    for (size_t i = 0; i < top.size(); ++i)
      e->notes.push_back({fmt::format("answer {}{}: {}", i + 1, i == 0 ? ", shown here" : "",
                                      scheduler::Describe(top[i])),
                          {}});
    if (top.size() == 1)
      e->notes.push_back(
          {"no other answer with its roles and period differs from it in the roles "
           "of ops or in their order on a unit",
           {}});
  }

  // The assignments with another value of one name.
  std::vector<std::string> With(const Question& question) const {
    std::vector<std::string> words;
    for (const std::string& word : o_.assignments)
      if (word.substr(0, word.find('=')) != question.name) words.push_back(word);
    words.push_back(question.text);
    return words;
  }

  Result<explain::Answer> Ask(const Explanation& e, const Question& question) {
    if (question.kind != Question::Kind::kTune)
      return explain::AnswerQuestion(e, question, options_);
    std::vector<Reason> notes;
    if (loops_.empty()) {
      TRY(loops_, Loops(o_.assignments, &notes));
      loop_ = Chosen(loops_);
    }
    TRY(const std::vector<LoopProblem> loops, Loops(With(question), &notes));
    const LoopProblem& other = loops[std::min(loop_, loops.size() - 1)];
    DiagSink refused;
    const Result<explain::Solved> best =
        explain::SolveBest(other, options_, &store_, &notes, refused);
    if (best.ok()) return explain::Compare(e, loops_[loop_], question, other, best->solution);
    explain::Answer answer;
    answer.question = question.text;
    const bool budget = std::any_of(
        refused.all().begin(), refused.all().end(),
        [](const Diagnostic& d) { return d.def->name == std::string_view("OutOfBudget"); });
    answer.kind = budget ? explain::Answer::Kind::kUnknown : explain::Answer::Kind::kImpossible;
    for (const Diagnostic& d : refused.all()) {
      if (answer.text.empty()) answer.text = d.message;
      for (const std::string& note : d.notes) answer.reasons.push_back({note, {}});
    }
    return answer;
  }

  // Which strategies were considered, what each would take, and why it was refused.
  Result<> Decide() {
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
      TRY(const ir::Function made, api::LowerToWarps(session_.loaded(), std::move(program.fn),
                                                     program.options, &look, diags));
      texts.push_back(compile::ToText(decisions));
    }
    return WriteResult(session_, o_.output, api::BehindTitles(launches, texts, "#"));
  }

  // Overlaps of the emitted program beside those of its machine code.
  Result<> ReadMachineCode() {
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
      TRY(const ir::Function made, api::LowerToWarps(session_.loaded(), std::move(program.fn),
                                                     program.options, &look, diags));
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
  Result<> Lower(Explanation* e) {
    if (compiled_.empty()) {
      TRY(const Prepared prepared, Prepare(session_, "explain", o_.assignments));
      api::Observation& look = session_.look();
      TRY(ir::Function fn, api::MakeTileIr(session_.loaded(), prepared.kernel, prepared.call, &look,
                                           session_.diags()));
      Compiled made;
      TRY(made.fn,
          api::LowerToWarps(session_.loaded(), std::move(fn),
                            session_.pipeline().For(prepared.call), &look, session_.diags()));
      compiled_.push_back(std::move(made));
    }
    TRY(const api::Machine machine, session_.Machine());
    TRY(e->program, explain::ReadProgram(compiled_[launch_].fn, *machine, session_.loaded().sources,
                                         session_.diags()));
    e->program_note = FromFile() ? "as this schedule is lowered" : "as --schedule=solve lowers it";
    return Done();
  }

  Result<> Finish(Explanation e) {
    for (const Question& question : questions_) {
      TRY(explain::Answer answer, Ask(e, question));
      e.answers.push_back(std::move(answer));
    }
    e.plan = plan_;
    if (o_.program) TRY_VOID(Lower(&e));
    if (!o_.trace.empty())
      TRY_VOID(
          WriteResult(session_, o_.trace,
                      explain::ToTrace(e, kTraceIterations, measured_ ? &*measured_ : nullptr)));
    if (!o_.svg.empty()) TRY_VOID(WriteResult(session_, o_.svg, explain::ToSvg(e)));
    if (!o_.html.empty()) TRY_VOID(WriteResult(session_, o_.html, explain::ToHtml(e)));
    broken_ = !e.report.violations.empty();
    return WriteResult(session_, o_.output,
                       o_.format == "json" ? explain::ToJson(e) : explain::ToText(e));
  }

 public:
  bool broken() const { return broken_; }

 private:
  Session& session_;
  const Options& o_;
  api::SolutionCache store_;
  scheduler::SolveOptions options_;
  std::optional<explain::Measured> measured_;
  std::vector<Question> questions_;
  std::vector<LoopProblem> loops_;
  size_t loop_ = 0;
  struct Compiled {
    ir::Function fn;
    api::Lowered lowered;
    std::string title;
  };
  std::vector<Compiled> compiled_;  // what the call launches
  size_t launch_ = 0;               // whose loop is explained
  std::string plan_;                // of the compiled programs
  bool broken_ = false;
};

}  // namespace

int CmdExplain(const Options& options) {
  Session session(options);
  Command command(session);
  const bool ok = command.Run().ok();
  const int code = session.Finish();
  return ok && code == kOk && command.broken() ? kMismatch : code;
}

}  // namespace tilec::tools
