// SPDX-License-Identifier: Apache-2.0
#include "scheduler/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "scheduler/role_sets.h"

namespace tilec::scheduler {

namespace {

// Resource units of one query: some twenty seconds of work, on any machine the same work.
constexpr int64_t kQueryLimit = 20'000'000;
constexpr int64_t kQueries = 4;  // full ones that all queries together may cost
// For one attempt to drop an item from a core, and for all of them together.
constexpr int64_t kCoreStep = 1'000'000;
constexpr int64_t kCoreTotal = 10'000'000;
constexpr int kSmallOffers = 2;  // asked before the largest ones
// What is settled without it costs work of another kind, by what the solver may spend in all, and
// what is not has this share of it.
constexpr int64_t kWorkByLimit = 4, kLastShare = 16;
// Of so many ops on, no question was quick (docs/perf_log.md, 2026-11-30): none is tried.
constexpr size_t kNeverQuick = 25;

}  // namespace

Search::Search(const Graph& graph, const SolveOptions& options)
    : graph_(graph),
      options_(options),
      offers_(graph, options),
      query_limit_(options.resource_limit > 0 ? options.resource_limit : kQueryLimit),
      total_limit_(options.total_limit > 0 ? options.total_limit : kQueries * query_limit_),
      given_up_(std::make_shared<std::vector<GivenUp>>()),
      met_(std::make_shared<std::set<Model::Overflow>>()),
      settled_(SettledApplies(graph, options)),
      nest_(std::any_of(graph.ops.begin(), graph.ops.end(),
                        [](const GraphOp& op) { return !op.part.empty(); })),
      hard_(settled_ && !nest_ && graph.ops.size() >= kNeverQuick),
      placing_work_(total_limit_ * kWorkByLimit),
      settled_work_(total_limit_ * kWorkByLimit),
      last_limit_(total_limit_ / kLastShare) {
  RoleSets sets(graph);
  std::set<std::pair<int, int>> together;
  for (int v = 0; v < static_cast<int>(graph.ops.size()); ++v)
    if (!graph.ops[v].variable_latency) together.emplace(graph.ops[v].warps, sets.Find(v));
  for (const auto& [width, set] : together) ++most_roles_[width];
}

Search::Search(const Search& wider, const SolveOptions& options) : Search(wider.graph_, options) {
  given_up_ = wider.given_up_;
  met_ = wider.met_;
}

void Search::Rest(int64_t first, int64_t end) {
  for (const auto& session : sessions_)
    if (session->model.ii() >= first && session->model.ii() < end) session->Rest();
}

int64_t Search::resources() const {
  int64_t sum = spent_;
  for (const auto& session : sessions_) sum += session->resources();
  return sum;
}

bool Search::hurried() const { return total_limit_ < kQueryLimit; }

bool Search::IssueFits(const RoleOffer& offer, int64_t ii) const {
  if (!options_.warp_constraints) return true;
  std::map<int, int64_t> busy, roles;
  int64_t load = 0;
  for (const GraphOp& op : graph_.ops)
    (op.variable_latency ? load : busy[op.warps]) += op.routed ? 0 : op.issue;
  for (int width : offer.widths) ++roles[width];
  for (const auto& [width, cycles] : busy)
    if (cycles > roles[width] * ii) return false;
  return load <= ii;
}

Bound Search::LowerBound() const {
  Bound best;
  best.text = "an initiation interval is at least one cycle";
  for (const Bound& bound : AllBounds(graph_)) {
    if (!options_.warp_constraints &&
        (bound.kind == Bound::Kind::kIssue || bound.kind == Bound::Kind::kResidency))
      continue;
    if (bound.ii > best.ii) best = bound;
  }
  return best;
}

int64_t Search::LargestUsefulIi() const {
  int64_t sum = 1;
  for (const GraphOp& op : graph_.ops) {
    int64_t longest = std::max(op.issue, op.latency);
    for (const UnitUse& use : op.uses) longest = std::max(longest, use.cycles);
    sum += longest + 1;
  }
  for (const GraphEdge& edge : graph_.edges) sum += edge.delay + edge.transfer + edge.hold;
  return sum;
}

std::vector<Lit> Search::Minimize(Session& session, std::vector<Lit> core) {
  const int64_t start = session.resources();
  for (size_t i = 0; i < core.size();) {
    if (session.resources() - start > std::min(kCoreTotal, total_limit_)) break;
    std::vector<Lit> without = core;
    without.erase(without.begin() + static_cast<int64_t>(i));
    // With all overflows that turn up on the way: a needed item is one without which a schedule is.
    Session::Outcome outcome = session.QueryWith(without, kCoreStep);
    if (outcome.answer == Answer::kUnsat)
      core = std::move(outcome.core);  // in order: what was tried before i stays needed
    else
      ++i;
  }
  return core;
}

Search::Verdict Search::At(int64_t ii, int64_t wanted, bool small_first) {
  Verdict verdict;
  verdict.ii = ii;
  const int64_t resource_limit = Limit(wanted);
  if (resource_limit == 0) return verdict;
  bool all_refuted = true;
  if (offers_.Largest().empty())
    verdict.arithmetic.push_back(
        {"warps",
         fmt::format("at most {} warps, and every width of op needs a role",
                     graph_.machine.max_warps),
         {}});
  // Refuted now, or given up, with these roles that are not empty: as good as asked of the others.
  std::map<std::vector<int>, std::optional<Refutation>> asked;
  const auto ask = [&](const RoleOffer& offer) {
    auto [session, outcome, at_once] = AskAny(ii, offer, resource_limit);
    if (outcome.answer == Answer::kSat) {
      verdict.answer = Answer::kSat;
      verdict.found = {std::move(outcome.placement), offer, ii, at_once};
      return true;
    }
    std::optional<Refutation>& refutation = asked[Occupied(offer).widths];
    if (outcome.answer == Answer::kUnsat)
      refutation = Refutation{session, std::move(outcome.core), offer};
    return false;
  };
  // Few roles leave little to choose: where they suffice, the answer comes sooner.
  int small = small_first ? kSmallOffers : 0;
  for (const RoleOffer& offer : offers_.Ascending()) {
    if (small == 0 || offer.widths == offers_.Largest().front().widths) break;
    if (!IssueFits(offer, ii) || asked.count(Occupied(offer).widths) > 0) continue;
    --small;
    if (ask(offer)) return verdict;
  }
  for (const RoleOffer& offer : offers_.Largest()) {
    if (!IssueFits(offer, ii)) {
      verdict.arithmetic.push_back(
          {"issue",
           fmt::format("{} cannot issue all their ops within {} cycles", RolesText(offer), ii),
           {}});
      continue;
    }
    const std::vector<int> occupied = Occupied(offer).widths;
    if (asked.count(occupied) == 0 && ask(offer)) return verdict;
    if (const std::optional<Refutation>& refutation = asked[occupied]) {
      verdict.refutations.push_back(*refutation);
      verdict.refutations.back().shown = offer;
    } else {
      all_refuted = false;
    }
  }
  verdict.answer = all_refuted ? Answer::kUnsat : Answer::kUnknown;
  return verdict;
}

std::vector<CoreItem> Search::Explain(const Verdict& verdict) {
  std::vector<CoreItem> items;
  std::set<std::pair<std::string, std::string>> seen;
  auto add = [&](const CoreItem& item) {
    if (seen.emplace(item.law, item.text).second) items.push_back(item);
  };
  for (const Refutation& refutation : verdict.refutations) {
    std::shared_ptr<Session> session = refutation.session;
    std::vector<Lit> core = refutation.core;
    if (session == nullptr || refutation.offer.widths != refutation.shown.widths) {
      // In the words of the largest offer, whose laws say why roles stay empty.
      const std::vector<CoreItem> laws =
          settled_ ? SettledCore(graph_, options_, refutation.shown, verdict.ii)
                   : std::vector<CoreItem>();
      for (const CoreItem& item : laws) add(item);
      if (!laws.empty()) continue;
      session = SessionFor(verdict.ii, refutation.shown);
      core = session->Query({}, query_limit_).core;
    }
    core = Minimize(*session, core);
    for (const Model::Guard& guard : session->model.guards())
      if (std::find(core.begin(), core.end(), guard.lit) != core.end())
        add({LawName(guard.law), guard.text, guard.ops, guard.at});
  }
  for (const CoreItem& item : verdict.arithmetic) add(item);
  if (options_.warp_constraints && !verdict.refutations.empty()) {
    std::string text;
    for (const RoleOffer& offer : offers_.Largest())
      text += (text.empty() ? "at most " : ", or ") + RolesText(offer);
    add({LawName(Law::kRoles), text, {}});
  }
  return items;
}

}  // namespace tilec::scheduler
