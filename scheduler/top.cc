// SPDX-License-Identifier: Apache-2.0
#include "scheduler/top.h"

#include <fmt/format.h>

#include "scheduler/objective.h"
#include "scheduler/search.h"
#include "scheduler/to_schedule.h"

namespace tilec::scheduler {

namespace {
constexpr int64_t kTopStepLimit = 3'000'000;  // of one question
}  // namespace

std::vector<Alternative> TopSolutions(const Graph& graph, const Solution& first, int k,
                                      const SolveOptions& options) {
  const Certificate& c = first.certificate;
  std::vector<Alternative> top = {{first.schedule, c.objective, c.objective_proved}};
  if (k <= 1 || graph.ops.empty() || !options.warp_constraints || !options.register_limits)
    return top;
  Search search(graph, options);
  Optimum last{FoundOf(graph, first.schedule), c.objective, true};
  const std::shared_ptr<Session> session = search.SessionFor(last.found.ii, last.found.offer);
  session->narrowed = true;
  // Unlawful ones count as attempts, so that it ends.
  for (int attempt = 0; static_cast<int>(top.size()) < k && attempt < 4 * k; ++attempt) {
    session->model.formulas().Add(session->model.Different(last.found.placement));
    Session::Outcome outcome = session->Query(ObjectiveBounds(*session, graph, last.objective),
                                              search.Limit(kTopStepLimit));
    const bool as_good = outcome.answer == Answer::kSat;
    if (!as_good) outcome = session->Query({}, search.Limit(kTopStepLimit));
    if (outcome.answer != Answer::kSat) break;
    last.found.placement = outcome.placement;
    last.objective = ObjectiveOf(graph, options, last.found);
    last.proved = true;
    Improve(search, *session, &last, false);
    const int64_t slack = SlackOf(graph, last.found);
    ir::Schedule schedule = ToSchedule(graph, options, last.found);
    if (!Check(graph, schedule).violations.empty()) continue;
    Alternative next{std::move(schedule), last.objective, last.proved};
    next.objective.slack = slack;
    top.push_back(std::move(next));
  }
  return top;
}

std::string Describe(const Alternative& a) {
  const Objective& o = a.objective;
  auto count = [](int64_t n, const char* what) {
    return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s");
  };
  return fmt::format("II {}, {}, {}, {} across roles, {}, {}, {} of shared memory, {} of slack",
                     a.schedule.ii, count(o.compute_groups, "wide role"), count(o.warps, "warp"),
                     count(o.cross_bytes, "byte"), count(o.waits, "wait"), count(o.stages, "stage"),
                     count(o.smem_bytes, "byte"), count(o.slack, "cycle"));
}

}  // namespace tilec::scheduler
