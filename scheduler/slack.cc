// The last criterion of the objective: how much later than expected a result may come before
// another role waits for it. Costs are estimates, and roles meet at barriers; inside a role an op
// that is late only delays what follows it anyway.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "scheduler/objective.h"
#include "scheduler/search.h"

namespace tilec::scheduler {

namespace {

constexpr int64_t kSlackStepLimit = 1'000'000;  // of one question

// Loads that run ahead have the depth of their ring for slack.
bool Counts(const Graph& graph, const GraphEdge& edge) {
  return edge.from != edge.to && !graph.ops[edge.from].streaming;
}

}  // namespace

int64_t SlackOf(const Graph& graph, const Search::Found& found) {
  const Placement& p = found.placement;
  if (HasRoutes(graph)) return SlackOf(Routed(graph, p.group), found);
  int64_t slack = found.ii;
  for (const GraphEdge& edge : graph.edges)
    if (Counts(graph, edge) && p.group[edge.from] != p.group[edge.to])
      slack = std::min(slack, p.cycle[edge.to] + edge.distance * found.ii - p.cycle[edge.from] -
                                  edge.delay - edge.transfer);
  return slack;
}

void MaximizeSlack(Search& search, Optimum* best) {
  const Graph& graph = search.graph();
  const int64_t ii = best->found.ii;
  int64_t low = SlackOf(graph, best->found), high = ii;
  if (low < high) {
    const std::shared_ptr<Session> session = search.SessionFor(ii, best->found.offer);
    Model& model = session->model;
    std::vector<Lit> given = ObjectiveBounds(*session, graph, best->objective);
    given.emplace_back();
    while (low < high) {
      const int64_t middle = low + (high - low + 1) / 2;
      const Lit lit = model.formulas().NewBool();
      for (const RoutedEdge& e : model.edges()) {
        const GraphEdge& edge = e.edge;
        if (!Counts(graph, edge) || (e.first >= 0 && !e.apart)) continue;
        const Lit same = model.Same(edge.from, edge.to);
        if (!(same == model.formulas().True()))
          model.Separate(lit, {same}, edge.to, edge.from,
                         edge.delay + edge.transfer + middle - edge.distance * ii);
      }
      given.back() = lit;
      const Objective& o = best->objective;
      const SettledQuestion question{ii, o.cross_bytes, o.waits, o.stages, o.smem_bytes, middle};
      const Session::Outcome outcome =
          search.Ask(*session, given, question, search.Limit(kSlackStepLimit));
      if (outcome.answer == Answer::kSat) {
        best->found.placement = outcome.placement;
        low = std::max(low + 1, SlackOf(graph, best->found));
      } else {
        best->proved = best->proved && outcome.answer == Answer::kUnsat;
        high = middle - 1;
      }
    }
  }
  best->objective.slack = low;
}

}  // namespace tilec::scheduler
