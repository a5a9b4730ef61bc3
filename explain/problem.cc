// SPDX-License-Identifier: Apache-2.0
#include "explain/problem.h"

#include <fmt/format.h>

#include <algorithm>

#include "explain/diagnostics.h"
#include "explain/internal.h"
#include "ir/lower/plan.h"
#include "ir/row_classes.h"
#include "scheduler/own_loads.h"

namespace tilec::explain {

namespace {

using scheduler::Extraction;

void Measure(const ir::Function& fn, ir::OpId loop, LoopProblem* problem) {
  double multiply_adds = 0, loaded = 0;
  for (ir::OpId id : fn.blocks[fn.ops[loop].regions[0]].ops) {
    const ir::Op& op = fn.ops[id];
    if (op.results.empty() || !fn.type(op.results[0]).is_tile()) continue;
    const double elements = static_cast<double>(fn.type(op.results[0]).elements());
    if (op.kind == ir::OpKind::kLoad) loaded += elements;
    if (op.kind != ir::OpKind::kDot) continue;
    const ir::Type& a = fn.type(op.operands[0]);
    multiply_adds += elements * static_cast<double>(a.shape.empty() ? 1 : a.shape.back());
  }
  problem->work = multiply_adds > 0 ? multiply_adds : loaded;
  problem->work_name = multiply_adds > 0 ? "multiply-adds" : "loaded elements";
}

std::vector<std::vector<Span>> MembersOf(const ir::Function& fn, const Extraction& extraction) {
  std::vector<std::vector<Span>> members;
  for (const scheduler::OpOrigin& origin : extraction.origins) {
    members.emplace_back();
    for (ir::OpId id : origin.members()) members.back().push_back(fn.ops[id].at);
  }
  return members;
}

}  // namespace

Result<std::vector<LoopProblem>> ProblemsOf(const ir::Function& fn, const ir::Target& target,
                                            std::vector<Reason>* notes, DiagSink& diags,
                                            scheduler::ExtractOptions options) {
  std::vector<LoopProblem> problems;
  DiagSink refused;
  const std::vector<ir::OpId> loops = scheduler::InnermostLoops(fn);
  const auto rings = scheduler::RingsOf(fn, ir::MakePlan(fn, target));
  for (ir::OpId loop : loops) {
    LoopProblem problem;
    problem.at = fn.ops[loop].at;
    Measure(fn, loop, &problem);
    DiagSink trial;
    for (int slices : ir::RowClasses(fn, loop).Choices()) {
      options.slices = slices;
      Result<Extraction> extraction = scheduler::ExtractLoop(fn, loop, target, options, trial);
      if (!extraction.ok()) break;
      scheduler::LoadWhereRead(fn, rings, &*extraction);
      problem.candidates.push_back({slices, extraction->graph, MembersOf(fn, *extraction)});
    }
    if (problem.candidates.empty()) {
      if (!trial.all().empty())
        notes->push_back({"a loop is not scheduled: " + trial.all().front().message, {}});
      trial.MoveTo(refused);
      continue;
    }
    std::stable_sort(problem.candidates.begin(), problem.candidates.end(),
                     [](const Candidate& a, const Candidate& b) {
                       return scheduler::BestBound(a.graph).ii < scheduler::BestBound(b.graph).ii;
                     });
    problems.push_back(std::move(problem));
  }
  if (!problems.empty()) return problems;
  refused.MoveTo(diags);
  if (diags.has_errors()) return DiagSink::Propagate();
  return diags.Report(kNoLoop, Span{}, fn.name, "no loop")
      .Help("`tilec build --emit=warp-ir` shows what it does in program order");
}

Result<Solved> SolveBest(const LoopProblem& problem, const scheduler::SolveOptions& options,
                         scheduler::SolutionStore* store, std::vector<Reason>* notes,
                         DiagSink& diags) {
  Solved best;
  DiagSink failures;
  for (const Candidate& candidate : problem.candidates) {
    const std::string name = candidate.slices == 1 ? "the rows in one piece"
                                                   : fmt::format("{} row slices", candidate.slices);
    const int64_t bound = scheduler::BestBound(candidate.graph).ii;
    if (best.candidate != nullptr && bound >= best.solution.certificate.ii) {
      notes->push_back({fmt::format("{}: II is at least {}, no better", name, bound), {}});
      continue;
    }
    DiagSink trial;
    Result<scheduler::Solution> solution =
        scheduler::SolveStored(candidate.graph, options, store, trial);
    if (!solution.ok()) {
      if (!trial.all().empty())
        notes->push_back({fmt::format("{}: {}", name, trial.all().front().message), {}});
      trial.MoveTo(failures);
      continue;
    }
    const int64_t found = solution->certificate.ii, proved = solution->lower_bound;
    if (problem.candidates.size() > 1)
      notes->push_back(
          {fmt::format(
               "{}: II {}{}", name, found,
               proved < found ? fmt::format(" found, {}…{} is open", proved, found - 1) : ""),
           {}});
    if (best.candidate != nullptr && solution->certificate.ii >= best.solution.certificate.ii)
      continue;
    best.candidate = &candidate;
    best.solution = std::move(*solution);
  }
  if (best.candidate != nullptr) return best;
  failures.MoveTo(diags);
  return DiagSink::Propagate();
}

}  // namespace tilec::explain
