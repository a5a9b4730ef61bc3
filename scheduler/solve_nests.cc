// The nests of a kernel, inner ones first: what the rings around pipelined loops need, and what an
// iteration of the loops around them costs.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <deque>
#include <utility>
#include <vector>

#include "ir/queries.h"
#include "scheduler/nest.h"

namespace tilec::scheduler {

namespace {

using ir::OpId;

// Iterations of a loop whose bounds do not say. Of many, what is exposed between two tiles is a
// small part, and deeper rings around the loop gain less than the tolerance of the objective.
constexpr int64_t kUnknownTrips = 32;

// Loops around those of `inner`, innermost first.
std::vector<OpId> LoopsAround(const ir::Function& fn, const InnerLoops& inner) {
  std::vector<std::pair<int, OpId>> found;  // less its depth
  for (OpId id : ir::OpsInOrder(fn)) {
    if (fn.ops[id].kind != ir::OpKind::kFor || inner.count(id) > 0) continue;
    const bool holds = std::any_of(inner.begin(), inner.end(), [&](const auto& loop) {
      for (OpId at = ir::LoopAround(fn, loop.first); at.valid(); at = ir::LoopAround(fn, at))
        if (at == id) return true;
      return false;
    });
    if (!holds) continue;
    int depth = 0;
    for (OpId at = ir::LoopAround(fn, id); at.valid(); at = ir::LoopAround(fn, at)) ++depth;
    found.emplace_back(-depth, id);
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<OpId> loops;
  for (const auto& [depth, id] : found) loops.push_back(id);
  return loops;
}

}  // namespace

void SolveNests(CutProgram& cut, const ProgramOptions& options) {
  if (options.solve.first_answer) return;  // an estimate: rings around loops have one slot
  InnerLoops inner = InnerLoopsOf(cut);
  std::deque<NestReport> nests;  // in place: inner loops point at them
  for (OpId id : LoopsAround(cut.fn, inner)) {
    NestReport& report = nests.emplace_back();
    report.at = cut.fn.ops[id].at;
    DiagSink attempt;
    Result<Nest> nest = ExtractNest(cut, id, inner, *options.target, kUnknownTrips, attempt);
    if (!nest.ok()) {
      report.note = attempt.all().empty() ? "it has no form of a nest" : attempt.all()[0].message;
      continue;
    }
    report.graph = std::move(nest->graph);
    if (nests.size() > 1) report.graph.name += std::to_string(nests.size());
    report.alone = nest->alone;
    report.trips = nest->trips;
    Result<Solution> solution = SolveStored(report.graph, options.solve, options.store, attempt);
    if (!solution.ok()) {
      report.note = attempt.all().empty() ? "no schedule was found" : attempt.all()[0].message;
      continue;
    }
    report.solution = std::move(*solution);
    report.applied = true;
    inner[id] = {&report.graph, &report.solution.schedule, nest->inside};
    ir::ScheduledResources& resources = cut.schedule.resources;
    for (const ir::Channel& channel : report.solution.schedule.channels) {
      const int g = report.graph.FindOp(channel.value);
      const OpId op = nest->ops[static_cast<size_t>(g)];
      if (channel.medium == "smem" && cut.fn.ops[op].kind == ir::OpKind::kLoad)
        resources.rings.push_back({cut.fn.ops[op].at, channel.depth, true});
    }
    resources.nests.push_back({report.at, report.solution.schedule.ii, report.alone, report.trips});
  }
  cut.schedule.nests.assign(std::make_move_iterator(nests.begin()),
                            std::make_move_iterator(nests.end()));
}

}  // namespace tilec::scheduler
