// tilec schedule --graph FILE: the scheduler for people without a .tile program; tilec verify CERT
// re-checks its answer. Text forms: docs/scheduler.md.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>
#include <optional>

#include "ir/schedule.h"
#include "scheduler/check.h"
#include "scheduler/diagnostics.h"
#include "scheduler/free_run.h"
#include "scheduler/graph.h"
#include "scheduler/prove.h"
#include "scheduler/scheduler.h"
#include "scheduler/top.h"
#include "tools/commands.h"
#include "tools/diagnostics.h"
#include "tools/graph_files.h"
#include "tools/schedule_kernel.h"
#include "tools/session.h"

namespace tilec::tools {
namespace {

void PrintSchedule(const scheduler::Graph& graph, const ir::Schedule& schedule,
                   const scheduler::CheckReport& report) {
  fmt::print(stderr, "II {} cycles, {} stages, length {}, running free {:.0f} cycles\n",
             schedule.ii, report.stages, report.length,
             scheduler::FreeRunningPeriod(graph, schedule));
  for (size_t u = 0; u < graph.units.size() && u < report.unit_busy.size(); ++u)
    fmt::print(stderr, "  {:<10} busy {} of {}\n", graph.units[u].name, report.unit_busy[u],
               graph.units[u].capacity * schedule.ii);
  for (size_t r = 0; r < schedule.roles.size(); ++r) {
    std::string ops;
    std::vector<const ir::ScheduledOp*> mine;
    for (const ir::ScheduledOp& op : schedule.ops)
      if (op.role == static_cast<int>(r)) mine.push_back(&op);
    std::sort(mine.begin(), mine.end(), [&](const auto* a, const auto* b) {
      return FloorMod(a->cycle, schedule.ii) < FloorMod(b->cycle, schedule.ii);
    });
    for (const ir::ScheduledOp* op : mine)
      ops += fmt::format(" {}@{}(s{})", op->name, FloorMod(op->cycle, schedule.ii),
                         FloorDiv(op->cycle, schedule.ii));
    fmt::print(stderr, "  {} ({} warps):{}\n", schedule.roles[r].name, schedule.roles[r].warps,
               ops);
  }
}

// What was proved, and its documents where they are asked for.
Result<> PrintProof(Session& session, const scheduler::Graph& graph,
                    const scheduler::Solution& solution) {
  const Options& o = session.options();
  const scheduler::Certificate& c = solution.certificate;
  const std::string proof = c.proof == scheduler::Proof::kBound ? "smallest: " + c.bound.text
                            : c.proof == scheduler::Proof::kRefuted
                                ? fmt::format("smallest: {} is refuted", c.ii - 1)
                                : "not proved smallest";
  fmt::print(stderr, "II* {} ({}); proved lower bound {}, gap {:.2f} %\n", c.ii, proof,
             solution.lower_bound, 100 * solution.gap());
  for (const scheduler::CoreItem& item : c.core) fmt::print(stderr, "  {}\n", item.text);
  if (!o.certificate.empty())
    TRY_VOID(WriteResult(session, o.certificate, scheduler::ToText(solution.certificate)));
  if (!o.proof.empty() && c.ii > 1) {
    const scheduler::InfeasibilityProof refutation =
        scheduler::ProveInfeasible(graph, c.ii - 1, {});
    if (!refutation.complete())
      return session.diags()
          .Report(scheduler::kNoProof, Span{}, c.ii - 1, refutation.problem)
          .Place("command line");
    TRY_VOID(WriteResult(session, o.proof, certify::ToText(refutation.refutation)));
  }
  return Done();
}

// --evidence: what somebody needs who believes nothing, in files that `tilec verify` takes. They
// are called as the graph is, that is as the kernel; from its second loop on with a number.
Result<> WriteEvidence(Session& session, const scheduler::Graph& graph,
                       const scheduler::Solution& solution, int loop = 1) {
  const std::string& folder = session.options().evidence;
  if (folder.empty()) return Done();
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);  // what failed is seen by who writes
  const std::string name =
      folder + "/" + graph.name + (loop > 1 ? fmt::format(".{}", loop) : std::string());
  TRY_VOID(WriteResult(session, name + ".graph", scheduler::ToText(graph)));
  ir::Schedule schedule = solution.schedule;
  schedule.graph_hash = scheduler::Hash(graph);  // with the law of turns
  TRY_VOID(WriteResult(session, name + ".sched", ir::ToText(schedule)));
  TRY_VOID(WriteResult(session, name + ".cert", scheduler::ToText(solution.certificate)));
  fmt::print(stderr, "tilec verify {0}.cert --graph {0}.graph --schedule {0}.sched\n", name);
  return Done();
}

// "gemm.sched" → "gemm.2.sched"
std::string Numbered(const std::string& path, size_t number) {
  if (path.empty() || path == "-") return path;
  const size_t slash = path.rfind('/'), dot = path.rfind('.');
  const bool has = dot != path.npos && (slash == path.npos || dot > slash);
  return fmt::format("{}.{}{}", path.substr(0, has ? dot : path.size()), number,
                     has ? path.substr(dot) : "");
}

// --top: the other answers, each in a file beside the first one's. `text` makes its contents.
template <typename Text>
Result<> MoreAnswers(Session& session, const scheduler::Graph& graph,
                     const scheduler::Solution& solution, const scheduler::SolveOptions& options,
                     Text text) {
  const Options& o = session.options();
  if (o.top <= 1) return Done();
  const std::vector<scheduler::Alternative> top =
      scheduler::TopSolutions(graph, solution, o.top, options);
  for (size_t i = 0; i < top.size(); ++i)
    fmt::print(stderr, "answer {}: {}\n", i + 1, scheduler::Describe(top[i]));
  for (size_t i = 1; i < top.size(); ++i) {
    fmt::print(stderr, "\nanswer {}\n", i + 1);
    PrintSchedule(graph, top[i].schedule, scheduler::Check(graph, top[i].schedule));
    TRY_VOID(WriteResult(session, Numbered(o.output, i + 1), text(top[i].schedule)));
  }
  return Done();
}

// All loops of a kernel, in one file that --schedule takes.
Result<> ScheduleKernel(Session& session, const scheduler::SolveOptions& options) {
  const Options& o = session.options();
  TRY(scheduler::ProgramSchedule program, ScheduleOfKernel(session, options));
  scheduler::LoopReport* most = nullptr;
  int scheduled = 0;
  for (scheduler::LoopReport& loop : program.loops) {
    if (!loop.applied) continue;
    ++scheduled;
    if (most == nullptr || loop.solution.schedule.ii > most->solution.schedule.ii) most = &loop;
  }
  for (const scheduler::LoopReport& loop : program.loops) {
    if (!loop.applied) continue;
    if (scheduled > 1) fmt::print(stderr, "{}\n", loop.extraction.graph.name);
    PrintSchedule(loop.extraction.graph, loop.solution.schedule, loop.solution.report);
    for (const std::string& note : loop.notes)
      fmt::print(stderr, "  the lowering departs from it: {}\n", note);
  }
  if (o.schedule_file.empty()) {
    TRY_VOID(PrintProof(session, most->extraction.graph, most->solution));
    int number = 0;
    for (const scheduler::LoopReport& loop : program.loops)
      if (loop.applied)
        TRY_VOID(WriteEvidence(session, loop.extraction.graph, loop.solution, ++number));
  }
  TRY_VOID(WriteResult(session, o.output, scheduler::ToText(program)));
  if (!o.schedule_file.empty()) return Done();
  const scheduler::Solution best = most->solution;
  return MoreAnswers(session, most->extraction.graph, best, options,
                     [&](const ir::Schedule& schedule) {
                       most->solution.schedule = schedule;
                       return scheduler::ToText(program);
                     });
}

Result<> Schedule_(Session& session) {
  const Options& o = session.options();
  if (o.graph.empty() == o.file.empty())
    return session.diags()
        .Report(kUsage, Span{},
                "`tilec schedule` takes a .tile file or --graph FILE, and one of them")
        .Place("command line")
        .Help("tilec schedule FILE[:KERNEL] NAME=VALUE… --target=h200");
  if (o.tune != "default" && o.tune != "model")
    return session.diags()
        .Report(kBadChoice, Span{}, "--tune", o.tune)
        .Place("command line")
        .Help("use default or model");
  if (o.tune == "model" && !o.file.empty()) return RankTunes(session);
  scheduler::SolveOptions options;
  // A kernel is solved as a compilation solves it, so that its file compiles to the same program.
  if (!o.file.empty()) options = scheduler::SolveOptions::ForCompilation();
  options.epsilon = o.epsilon;
  if (o.ii > 0) options.fixed_ii = o.ii;
  if (o.nest > 0 && !o.file.empty()) {
    TRY(const SolvedNest solved, NestOfKernel(session, options));
    const scheduler::Graph& graph = solved.nest.graph;
    PrintSchedule(graph, solved.solution.schedule, solved.solution.report);
    TRY_VOID(PrintProof(session, graph, solved.solution));
    TRY_VOID(WriteEvidence(session, graph, solved.solution));
    fmt::print(stderr, "{}\n", scheduler::Gain(solved.nest, solved.solution));
    return WriteResult(session, o.output, ir::ToText(solved.solution.schedule));
  }
  if (!o.file.empty()) return ScheduleKernel(session, options);
  TRY(const scheduler::Graph graph, LoadGraph(session, o.graph));
  if (!o.schedule_file.empty()) {
    TRY(const ir::Schedule schedule, LoadScheduleFor(session, graph, o.schedule_file));
    PrintSchedule(graph, schedule, scheduler::Check(graph, schedule));
    return WriteResult(session, o.output, ir::ToText(schedule));
  }
  TRY(const scheduler::Solution solution, SolveCached(session, graph, options));
  PrintSchedule(graph, solution.schedule, solution.report);
  TRY_VOID(PrintProof(session, graph, solution));
  TRY_VOID(WriteEvidence(session, graph, solution));
  TRY_VOID(WriteResult(session, o.output, ir::ToText(solution.schedule)));
  return MoreAnswers(session, graph, solution, options,
                     [](const ir::Schedule& schedule) { return ir::ToText(schedule); });
}

// The clauses and lemmas of a proof for a checker that is none of ours.
Result<> Export(Session& session, const scheduler::Graph& graph,
                const std::optional<certify::Refutation>& refutation) {
  const Options& o = session.options();
  if (o.export_cnf.empty() && o.export_proof.empty()) return Done();
  if (!refutation)
    return session.diags()
        .Report(kUsage, Span{},
                "--export-cnf and --export-proof write what --proof FILE is made of")
        .Place("command line");
  if (!o.export_cnf.empty())
    TRY_VOID(WriteResult(session, o.export_cnf,
                         certify::ToDimacs(certify::ClausesOf(graph, *refutation).cnf)));
  if (!o.export_proof.empty()) TRY_VOID(WriteResult(session, o.export_proof, refutation->drat));
  return Done();
}

Result<> Verify_(Session& session) {
  const Options& o = session.options();
  TRY(const scheduler::Graph graph, LoadGraph(session, o.graph));
  TRY(const ir::Schedule schedule, LoadSchedule(session, o.schedule));
  TRY(const int32_t file, AddSource(session, o.file));
  TRY(const scheduler::Certificate certificate,
      scheduler::ParseCertificate(session.loaded().sources.text(file), file, session.diags()));
  std::optional<certify::Refutation> refutation;
  if (!o.proof.empty()) {
    TRY(const int32_t proof, AddSource(session, o.proof));
    TRY(refutation, scheduler::VerifyProof(graph, session.loaded().sources.text(proof), proof,
                                           session.diags()));
  }
  TRY_VOID(scheduler::VerifyCertificate(graph, schedule, certificate, session.diags(),
                                        refutation ? &*refutation : nullptr));
  if (certificate.proof == scheduler::Proof::kNone)
    fmt::print(
        "{}: verified, II {} of `{}` is reached; nothing below {} exists, and the smallest is "
        "not proved\n",
        o.file, certificate.ii, certificate.graph, certificate.bound.ii);
  else
    fmt::print("{}: verified, II* {} of `{}`\n", o.file, certificate.ii, certificate.graph);
  TRY_VOID(Export(session, graph, refutation));
  if (refutation) fmt::print("{}: verified, II {} is refuted\n", o.proof, refutation->ii);
  return Done();
}

}  // namespace

int CmdSchedule(const Options& options) {
  Session session(options);
  (void)Schedule_(session);
  return session.Finish();
}

int CmdVerify(const Options& options) {
  Session session(options);
  (void)Verify_(session);
  return session.Finish();
}

}  // namespace tilec::tools
