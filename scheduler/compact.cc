// Fewer stages without a solver. A schedule that the solver found first may spread an iteration
// over many periods for no reason: every op at its slot of the period, but loads a dozen iterations
// ahead and products of three iterations in flight. When the budget ends before stages were
// minimised, that is what the lowering would get: prologues, registers and rings that buy nothing.
//
// Roles and slots (cycles modulo II) stay, so units and issue are as busy as before. What is left
// to choose is the period of each op: difference constraints, whose least solution is a longest
// path. Loads then move as late as their consumers allow, which is what shortens their lives; ops
// of compute roles do too, or come as early as they can, or stay, and the judge of schedules
// decides whether registers and memory still suffice.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <tuple>

#include "scheduler/objective.h"
#include "scheduler/routes.h"
#include "scheduler/search.h"
#include "scheduler/to_schedule.h"
#include "support/expr.h"

namespace tilec::scheduler {

namespace {

auto Rank(const Objective& o) {
  return std::tuple(o.compute_groups, o.warps, o.cross_bytes, o.waits, o.stages, o.smem_bytes);
}

// Periods by op, counted from `origin`; an op's slot is its cycle behind that, modulo II.
class Periods {
 public:
  Periods(const Graph& graph, const Search::Found& found, int64_t origin)
      : graph_(graph), found_(found), origin_(origin) {
    for (int64_t cycle : found.placement.cycle) slot_.push_back(FloorMod(cycle - origin, found.ii));
    for (const GraphEdge& edge : graph.edges)
      if (edge.from != edge.to) steps_.push_back({edge.from, edge.to, Least(edge)});
  }

  // Which ops of compute roles move: none, as early as producers allow, or as late as consumers do.
  // Loads always come as late as they may.
  enum class Mode { kLoadsOnly, kEarly, kLate };

  Search::Found Compact(Mode mode) const {
    const size_t n = graph_.ops.size();
    std::vector<int64_t> period(n, 0);
    if (mode == Mode::kLoadsOnly) {
      for (size_t v = 0; v < n; ++v)
        period[v] = FloorDiv(found_.placement.cycle[v] - origin_, found_.ii);
    } else {
      for (size_t round = 0; round <= n; ++round)
        for (const Step& s : steps_)
          period[s.to] = std::max(period[s.to], period[s.from] + s.least);
    }
    int64_t last = INT64_MIN;
    for (size_t v = 0; v < n; ++v)
      if (!Loads(v)) last = std::max(last, period[v]);
    for (size_t v = 0; v < n; ++v)
      if (Moves(v, mode)) period[v] = std::max(period[v], last);
    for (size_t round = 0; round <= n; ++round)
      for (const Step& s : steps_)
        if (Moves(s.from, mode)) period[s.from] = std::min(period[s.from], period[s.to] - s.least);
    Search::Found compact = found_;
    for (size_t v = 0; v < n; ++v)
      compact.placement.cycle[v] = origin_ + period[v] * found_.ii + slot_[v];
    return compact;
  }

 private:
  struct Step {
    int from, to;
    int64_t least;  // periods from `from` to `to`
  };
  int64_t Least(const GraphEdge& edge) const {
    const std::vector<int>& group = found_.placement.group;
    const int64_t delay =
        edge.delay + (group[edge.from] != group[edge.to] ? edge.transfer : int64_t{0});
    return CeilDiv(delay - (slot_[edge.to] - slot_[edge.from]), found_.ii) - edge.distance;
  }

  bool Loads(size_t op) const { return graph_.ops[op].variable_latency; }
  // As late as consumers allow; what does not move bounds what does.
  bool Moves(size_t op, Mode mode) const { return Loads(op) || mode == Mode::kLate; }

  const Graph& graph_;
  const Search::Found& found_;
  int64_t origin_;
  std::vector<int64_t> slot_;
  std::vector<Step> steps_;
};

}  // namespace

void Compact(const Graph& graph, const SolveOptions& options, Optimum* best) {
  if (PinsTime(graph) || options.fixed_stages) return;
  const Graph routed = HasRoutes(graph) ? Routed(graph, best->found.placement.group) : graph;
  std::vector<std::pair<Objective, Search::Found>> better;
  for (size_t v = 0; v < routed.ops.size(); ++v) {
    if (routed.ops[v].variable_latency) continue;
    const Periods periods(routed, best->found, best->found.placement.cycle[v]);
    for (Periods::Mode mode :
         {Periods::Mode::kLate, Periods::Mode::kEarly, Periods::Mode::kLoadsOnly}) {
      Search::Found found = periods.Compact(mode);
      if (HasRoutes(graph)) Settle(graph, &found.placement);
      const Objective objective = ObjectiveOf(graph, options, found);
      if (Rank(objective) < Rank(best->objective)) better.emplace_back(objective, std::move(found));
    }
  }
  std::stable_sort(better.begin(), better.end(),
                   [](const auto& a, const auto& b) { return Rank(a.first) < Rank(b.first); });
  for (auto& [objective, found] : better) {
    if (!Check(graph, ToSchedule(graph, options, found)).violations.empty()) continue;
    best->found = std::move(found);
    best->objective = objective;
    return;
  }
}

}  // namespace tilec::scheduler
