// The lexicographic objective: fewest wide roles, fewest warps, fewest bytes across roles, fewest
// waits, fewest stages, least shared memory. Each is minimised by bisection with bounds as
// assumptions, then held while the next is minimised; the solver keeps what it learned.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <tuple>

#include "scheduler/first_answer.h"
#include "scheduler/goal_values.h"
#include "scheduler/least_stages.h"
#include "scheduler/objective.h"
#include "scheduler/search.h"

namespace tilec::scheduler {

namespace {

// Of one question of the descent.
constexpr int64_t kStepLimit = 3'000'000;
constexpr int kWide = 4;                   // warps of a role that computes
constexpr int64_t kTmemColumnBytes = 512;  // 128 lanes of 4 bytes

int64_t ValueBytes(const GraphOp& op) {
  return op.regs * 4 * 32 * op.warps + op.smem_bytes + op.tmem_columns * kTmemColumnBytes;
}

bool Crosses(const Placement& p, const GraphEdge& edge) {
  return p.group[edge.from] != p.group[edge.to];
}

// An edge that a route replaces where it would cross never does.
bool MayCross(const RoutedEdge& e) { return e.first < 0 || e.apart; }

// Reader's side of distinct (producer, reader) pairs between roles.
std::vector<std::pair<int, int>> WaitPairs(const Graph& graph) {
  std::set<std::pair<int, int>> pairs;
  for (const RoutedEdge& e : AllEdges(graph))
    if (const GraphEdge& edge = e.edge; MayCross(e) && edge.from != edge.to &&
                                        graph.ops[edge.to].warps >= kWide &&
                                        !graph.ops[edge.to].variable_latency)
      pairs.emplace(edge.from, edge.to);
  return {pairs.begin(), pairs.end()};
}

}  // namespace

Objective ObjectiveOf(const Graph& graph, const SolveOptions& options, const Search::Found& found) {
  const Placement& p = found.placement;
  if (HasRoutes(graph)) return ObjectiveOf(Routed(graph, p.group), options, found);
  const Needs needs = Measure(graph, found.ii, found.offer, options.warp_constraints, p);
  Objective o;
  o.compute_groups = needs.compute_groups;
  o.warps = needs.warps;
  std::set<int> crossing;
  for (const GraphEdge& edge : graph.edges)
    if (edge.kind != EdgeKind::kOrder && Crosses(p, edge)) crossing.insert(edge.from);
  for (int v : crossing) o.cross_bytes += ValueBytes(graph.ops[v]);
  for (const auto& [u, v] : WaitPairs(graph)) o.waits += p.group[u] != p.group[v] ? 1 : 0;
  o.stages = FewestStages(graph, found.ii, p).stages;
  o.smem_bytes = needs.smem_bytes;
  return o;
}

namespace {

// One component of the objective: its value, and a literal that bounds it.
struct Goal {
  int64_t Objective::*field;
  std::optional<int64_t> SettledQuestion::*question;
  int64_t floor;
  std::function<Lit(int64_t bound)> at_most;
  GoalValues values = {};
};

class Descent {
 public:
  Descent(Search& search, Session& session, Optimum* best)
      : search_(&search), session_(session), graph_(search.graph()), best_(best) {
    asked_.ii = session.model.ii();
  }
  Descent(Session& session, const Graph& graph) : session_(session), graph_(graph) {}

  // `last`: nobody asks this session for anything else afterwards.
  void Run(bool last) {
    const std::vector<Goal> goals = {CrossBytes(), Waits(), Stages(), Smem()};
    if (last && Settled(goals)) return;
    for (const Goal& goal : goals) Minimize(goal);
  }
  std::vector<Lit> Bounds(const Objective& objective) {
    std::vector<Lit> bounds;
    for (const Goal& goal : {CrossBytes(), Waits(), Stages(), Smem()})
      bounds.push_back(goal.at_most(objective.*goal.field));
    return bounds;
  }

 private:
  // Nothing can be better, and sums say so. Where something can, the solver is asked everything:
  // its answer to a question hangs on what it was asked before.
  bool Settled(const std::vector<Goal>& goals) const {
    const Objective& known = best_->objective;
    for (const Goal& goal : goals)
      if (goal.field != &Objective::stages && known.*goal.field > goal.floor) return false;
    if (SlackOf(graph_, best_->found) < best_->found.ii) return false;
    const Model& model = session_.model;
    return search_->options().warp_constraints && known.stages > 1 &&
           known.stages <= LeastStages(graph_, model.ii(), model.offer());
  }

  void Minimize(const Goal& goal) {
    int64_t low = goal.floor;
    bool first = true;
    while (low < best_->objective.*goal.field) {
      const int64_t high = best_->objective.*goal.field;
      // The floor first (often reached), then halves. Where questions are hard, fewer stages are
      // no harder than more, and one that stays open is not to hide those below.
      const bool upwards = search_->hard() && goal.field == &Objective::stages;
      const int64_t cut = first || upwards ? low : low + (high - low) / 2;
      const int64_t middle = goal.values.AtMost(cut);
      first = false;
      if (middle < low) {  // there is no such value
        low = cut + 1;
        continue;
      }
      const Lit bound = goal.at_most(middle);
      std::vector<Lit> extra = held_;
      extra.push_back(bound);
      SettledQuestion question = asked_;
      question.*goal.question = middle;
      const Session::Outcome outcome =
          search_->Ask(session_, extra, question, search_->Limit(kStepLimit));
      if (outcome.answer == Answer::kSat) {
        best_->found = {outcome.placement, session_.model.offer(), session_.model.ii()};
        best_->objective = ObjectiveOf(graph_, search_->options(), best_->found);
        if (best_->objective.*goal.field > cut) {  // rings deeper than their levels
          best_->proved = false;
          break;
        }
      } else {
        if (outcome.answer == Answer::kUnknown) best_->proved = false;
        low = cut + 1;
      }
    }
    held_.push_back(goal.at_most(best_->objective.*goal.field));
    asked_.*goal.question = best_->objective.*goal.field;
  }

  Lit Weighted(const std::vector<std::pair<Lit, int64_t>>& terms, int64_t bound) {
    const Lit lit = f().NewBool();
    f().AddWeighted(lit, terms, bound);
    return lit;
  }

  int64_t Forced(const std::vector<std::pair<Lit, int64_t>>& terms) {
    int64_t sum = 0;
    for (const auto& [lit, weight] : terms) sum += lit == f().True() ? weight : 0;
    return sum;
  }

  GoalValues Values(int64_t least, const std::vector<std::pair<Lit, int64_t>>& terms) {
    std::map<int64_t, int> parts;
    for (const auto& [lit, weight] : terms) {
      if (lit == f().True())
        least += weight;
      else if (weight > 0 && lit != f().False())
        ++parts[weight];
    }
    return {least, {parts.begin(), parts.end()}};
  }

  Goal CrossBytes() {
    std::vector<std::pair<Lit, int64_t>> terms;
    for (int v = 0; v < static_cast<int>(graph_.ops.size()); ++v) {
      const int64_t bytes = ValueBytes(graph_.ops[v]);
      if (bytes == 0) continue;
      std::set<Lit> crossing;
      for (const RoutedEdge& e : session_.model.edges())
        if (e.edge.from == v && e.edge.kind != EdgeKind::kOrder && MayCross(e))
          crossing.insert(~session_.model.Same(v, e.edge.to));
      crossing.erase(f().False());
      if (crossing.empty()) continue;
      Lit any = *crossing.begin();
      if (crossing.count(f().True()) > 0) {
        any = f().True();
      } else if (crossing.size() > 1) {
        any = f().NewBool();
        for (Lit lit : crossing) f().Add({~lit, any});
      }
      terms.emplace_back(any, bytes);
    }
    return {&Objective::cross_bytes, &SettledQuestion::cross_bytes, Forced(terms),
            [this, terms](int64_t bound) { return Weighted(terms, bound); }, Values(0, terms)};
  }

  Goal Waits() {
    std::vector<std::pair<Lit, int64_t>> terms;
    for (const auto& [u, v] : WaitPairs(graph_)) terms.emplace_back(~session_.model.Same(u, v), 1);
    return {&Objective::waits, &SettledQuestion::waits, Forced(terms),
            [this, terms](int64_t bound) { return Weighted(terms, bound); }};
  }

  Goal Stages() {
    return {&Objective::stages, &SettledQuestion::stages, 1,
            [this](int64_t bound) { return session_.model.StagesAtMost(bound); }};
  }

  Goal Smem() {
    std::vector<std::pair<Lit, int64_t>> terms;
    int64_t least = 0;
    for (int v = 0; v < static_cast<int>(graph_.ops.size()); ++v) {
      const std::vector<Lit>& within = session_.model.ring_within(v);
      if (graph_.ops[v].smem_bytes == 0) continue;
      const int64_t slot = graph_.ops[v].smem_bytes + graph_.machine.barrier_bytes;
      if (graph_.ops[v].routed)
        terms.emplace_back(~session_.model.absent(v), slot);
      else
        least += slot * std::max<int64_t>(1, session_.model.PinnedDepth(v));
      for (Lit lit : within) terms.emplace_back(~lit, slot);
    }
    return {&Objective::smem_bytes, &SettledQuestion::smem_bytes, least,
            [this, terms, least](int64_t bound) { return Weighted(terms, bound - least); },
            Values(least, terms)};
  }

  Formulas& f() { return session_.model.formulas(); }

  Search* search_ = nullptr;
  Session& session_;
  const Graph& graph_;
  Optimum* best_ = nullptr;
  std::vector<Lit> held_;
  SettledQuestion asked_;  // the same for those who ask no solver
};

}  // namespace

std::vector<Lit> ObjectiveBounds(Session& session, const Graph& graph, const Objective& objective) {
  return Descent(session, graph).Bounds(objective);
}

void Improve(Search& search, Session& session, Optimum* best, bool last) {
  Descent(search, session, best).Run(last);
}

Optimum Optimize(Search& search, const Search::Found& start, int64_t ii) {
  const Graph& graph = search.graph();
  const SolveOptions& options = search.options();
  Optimum best;
  best.found = start;
  best.objective = ObjectiveOf(graph, options, start);
  best.proved = true;
  if (options.modulo_scheduling)
    if (std::optional<Search::Found> found =
            BetterAnswer(graph, options, ii, best.objective, false)) {
      best.found = *std::move(found);
      best.objective = ObjectiveOf(graph, options, best.found);
    }
  // Fewest roles: offers in ascending order, as long as they are better than what is known.
  const int load_warps = LoadWarps(graph);
  auto size = [&](const RoleOffer& offer) {
    return std::pair<int64_t, int64_t>(Offers::WideRoles(offer), Offers::Warps(offer, load_warps));
  };
  std::pair known(best.objective.compute_groups, best.objective.warps);
  // Roles of several widths: different ones may be of one size.
  std::vector<RoleOffer> smallest;
  for (const RoleOffer& offer : search.offers().Ascending()) {
    if (size(offer) > known) break;
    if (!search.IssueFits(offer, ii)) continue;
    if (size(offer) == known && (options.modulo_scheduling || !smallest.empty())) {
      smallest.push_back(offer);
      continue;
    }
    const Session::Outcome outcome = search.Ask(*search.SessionFor(ii, offer), {},
                                                {ii, {}, {}, {}, {}, {}}, search.Limit(kStepLimit));
    if (outcome.answer == Answer::kSat) {
      best.found = {outcome.placement, offer, ii};
      best.objective = ObjectiveOf(graph, options, best.found);
      known = size(offer);
      smallest = {offer};
    }
    if (outcome.answer == Answer::kUnknown) best.proved = false;
  }
  if (smallest.empty()) smallest.push_back(best.found.offer);
  // Each asks only for what is better than the best so far.
  for (const RoleOffer& offer : smallest) {
    const std::shared_ptr<Session> session = search.SessionFor(ii, offer);
    // A longer period than need be is looked at again.
    Improve(search, *session, &best, best.found.ii == start.ii);
  }
  return best;
}

}  // namespace tilec::scheduler
