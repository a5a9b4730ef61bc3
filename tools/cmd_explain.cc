// tilec explain: what a schedule does and why it cannot be faster, of a kernel's loops or of a
// graph.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "compile/search.h"
#include "explain/explain.h"
#include "explain/problem.h"
#include "explain/whynot.h"
#include "ir/target.h"
#include "sass/diagnostics.h"
#include "scheduler/program.h"
#include "scheduler/top.h"
#include "tools/commands.h"
#include "tools/diagnostics.h"
#include "tools/explain_command.h"
#include "tools/graph_files.h"
#include "tools/schedule_kernel.h"
#include "tools/session.h"

namespace tilec::tools {

namespace {

constexpr int kTraceIterations = 12;

}  // namespace

ExplainCommand::ExplainCommand(Session& session)
    : session_(session), o_(session.options()), store_(session.cache(), session.diags()) {
  options_.epsilon = o_.epsilon;
}

Result<> ExplainCommand::Run() {
  TRY_VOID(CheckWords());
  TRY_VOID(Settle());
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

Result<> ExplainCommand::CheckWords() {
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
    return diags.Report(kUsage, Span{}, "a graph has one strategy: --decisions needs a .tile file")
        .Place("command line");
  if (!o_.graph.empty() && o_.sass)
    return diags.Report(kUsage, Span{}, "a graph has no machine code: --sass needs a .tile file")
        .Place("command line");
  if (!o_.graph.empty() && o_.program)
    return diags.Report(kUsage, Span{}, "a graph has no program: --program needs a .tile file")
        .Place("command line");
  if (!o_.graph.empty() && o_.tune != "default")
    return diags.Report(kUsage, Span{}, "a graph has no tunes: --tune needs a .tile file")
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

// --tune: what it chooses holds for every question from here on, and is said.
Result<> ExplainCommand::Settle() {
  TRY_VOID(session_.CheckTuneWord());
  if (o_.file.empty() || o_.tune == "default") return Done();
  TRY(const Prepared prepared, Prepare(session_, "explain", o_.assignments));
  TRY(const frontend::Signature signature,
      frontend::SignatureOf(*session_.loaded().program, prepared.kernel, session_.diags()));
  std::vector<std::string> words = o_.assignments, chosen;
  for (const frontend::TuneInfo& tune : signature.tunes) {
    const bool given = std::any_of(words.begin(), words.end(), [&](const std::string& word) {
      return word.substr(0, word.find('=')) == tune.name;
    });
    const auto value = prepared.call.all.find(tune.name);
    if (given || value == prepared.call.all.end()) continue;
    chosen.push_back(tune.name + "=" + frontend::ToText(value->second));
  }
  settled_ = chosen.empty() ? fmt::format("--tune={} keeps the tunes as they are", o_.tune)
                            : fmt::format("--tune={} chooses {}", o_.tune, fmt::join(chosen, " "));
  words.insert(words.end(), chosen.begin(), chosen.end());
  session_.Assign(std::move(words));
  return Done();
}

Result<Explanation> ExplainCommand::OfGraph() {
  TRY(const scheduler::Graph graph, LoadGraph(session_, o_.graph));
  if (!FromFile()) return Solve(graph);
  TRY(const ir::Schedule schedule, LoadSchedule(session_, o_.schedule));
  return explain::Explain(graph, schedule, {}, session_.loaded().sources, session_.diags());
}

// A file is about the loops as the lowering meets them.
Result<Explanation> ExplainCommand::ReadFor(const std::vector<std::string>& words) {
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
  return explain::Explain(loop.extraction.graph, loop.solution.schedule, {std::nullopt, 0, members},
                          session_.loaded().sources, diags);
}

Result<Explanation> ExplainCommand::Solve(const scheduler::Graph& graph) {
  TRY(const scheduler::Solution solution, SolveCached(session_, graph, options_));
  TRY(Explanation e,
      explain::Explain(graph, solution.schedule, {solution.certificate, solution.lower_bound},
                       session_.loaded().sources, session_.diags()));
  AddAnswers(graph, solution, &e);
  return e;
}

Result<> ExplainCommand::CheckLoop(size_t loops) {
  if (o_.loop <= static_cast<int>(loops)) return Done();
  return session_.diags()
      .Report(kUsage, Span{},
              fmt::format("--loop={}, but the kernel has {} that can be scheduled", o_.loop, loops))
      .Place("command line");
}

// The loops of the kernel, with these values.
Result<std::vector<LoopProblem>> ExplainCommand::Loops(const std::vector<std::string>& words,
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
size_t ExplainCommand::Chosen(const std::vector<LoopProblem>& loops) const {
  if (o_.loop > 0) return static_cast<size_t>(o_.loop - 1);
  const auto most =
      std::max_element(loops.begin(), loops.end(),
                       [](const LoopProblem& a, const LoopProblem& b) { return a.work < b.work; });
  return static_cast<size_t>(most - loops.begin());
}

Result<Explanation> ExplainCommand::OfNest() {
  TRY(const SolvedNest solved, NestOfKernel(session_, options_));
  const scheduler::Solution& s = solved.solution;
  TRY(Explanation e, explain::Explain(solved.nest.graph, s.schedule, {s.certificate, s.lower_bound},
                                      session_.loaded().sources, session_.diags()));
  e.notes.push_back({scheduler::Gain(solved.nest, s), {}});
  e.notes.push_back(
      {"of this the program has the slots of rings around the loops; its roles take tiles in "
       "order",
       {}});
  AddAnswers(solved.nest.graph, s, &e);
  return e;
}

Result<Explanation> ExplainCommand::OfKernel() {
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
void ExplainCommand::AddAnswers(const scheduler::Graph& graph, const scheduler::Solution& solution,
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
std::vector<std::string> ExplainCommand::With(const Question& question) const {
  std::vector<std::string> words;
  for (const std::string& word : o_.assignments)
    if (word.substr(0, word.find('=')) != question.name) words.push_back(word);
  words.push_back(question.text);
  return words;
}

Result<explain::Answer> ExplainCommand::Ask(const Explanation& e, const Question& question) {
  if (question.kind != Question::Kind::kTune) return explain::AnswerQuestion(e, question, options_);
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

Result<> ExplainCommand::Finish(Explanation e) {
  for (const Question& question : questions_) {
    TRY(explain::Answer answer, Ask(e, question));
    e.answers.push_back(std::move(answer));
  }
  e.plan = plan_;
  if (!settled_.empty()) e.notes.insert(e.notes.begin(), {settled_, {}});
  if (o_.program) TRY_VOID(Lower(&e));
  if (!o_.trace.empty())
    TRY_VOID(WriteResult(session_, o_.trace,
                         explain::ToTrace(e, kTraceIterations, measured_ ? &*measured_ : nullptr)));
  if (!o_.svg.empty()) TRY_VOID(WriteResult(session_, o_.svg, explain::ToSvg(e)));
  if (!o_.html.empty()) TRY_VOID(WriteResult(session_, o_.html, explain::ToHtml(e)));
  broken_ = !e.report.violations.empty();
  return WriteResult(session_, o_.output,
                     o_.format == "json" ? explain::ToJson(e) : explain::ToText(e));
}

int CmdExplain(const Options& options) {
  Session session(options);
  ExplainCommand command(session);
  const bool ok = command.Run().ok();
  const int code = session.Finish();
  return ok && code == kOk && command.broken() ? kMismatch : code;
}

}  // namespace tilec::tools
