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
constexpr size_t kSessionsKept = 12;
// What is settled without it costs work of another kind, by what the solver may spend in all, and
// what is not has this share of it.
constexpr int64_t kWorkByLimit = 4, kLastShare = 16;
// Of so many periods that stay open without the solver it is asked, where it may spend this much on
// each: with less it hardly ever knew an answer.
constexpr int kOpen = 2;
constexpr int64_t kWorthAsking = 1'000'000;
constexpr int64_t kQuick = 200'000;  // of a question that the solver need not be spared
// What is tried of settled roles before the solver is asked (some milliseconds), and where a better
// schedule would be welcome but nobody waits for a proof.
constexpr int64_t kAtOnce = 100'000, kDare = 1'000'000;

}  // namespace

std::string RolesText(const RoleOffer& offer) {
  std::string text;
  for (size_t i = 0; i < offer.widths.size();) {
    size_t j = i;
    while (j < offer.widths.size() && offer.widths[j] == offer.widths[i]) ++j;
    if (text.empty())
      text = fmt::format("{} compute role{} of {} warp{}", j - i, j - i == 1 ? "" : "s",
                         offer.widths[i], offer.widths[i] == 1 ? "" : "s");
    else
      text += fmt::format(" and {} of {}", j - i, offer.widths[i]);
    i = j;
  }
  return text;
}

Session::Outcome Session::Query(const std::vector<Lit>& extra, int64_t resource_limit) {
  std::vector<Lit> given;
  for (const Model::Guard& guard : model.guards()) given.push_back(guard.lit);
  given.insert(given.end(), extra.begin(), extra.end());
  return QueryWith(given, resource_limit);
}

Session::Outcome Session::QueryWith(const std::vector<Lit>& given, int64_t resource_limit) {
  Outcome outcome;
  if (!solver_) solver_.emplace(model.formulas());
  Solver& solver = *solver_;
  const int64_t start = solver.resources();
  while (true) {
    const int64_t left = resource_limit - (solver.resources() - start);
    if (left <= 0) {
      outcome.answer = Answer::kUnknown;
      return outcome;
    }
    outcome.answer = solver.Check(given, left);
    if (outcome.answer == Answer::kUnsat) outcome.core = solver.core();
    if (outcome.answer != Answer::kSat) return outcome;
    outcome.placement = model.Read(solver);
    if (model.AddCuts(outcome.placement, given) == 0) return outcome;
    overflows.push_back(outcome.placement);
  }
}

int Offers::Warps(const RoleOffer& offer, int load_warps) {
  int warps = offer.load ? load_warps : 0;
  for (int width : offer.widths) warps += width;
  return warps;
}

int Offers::WideRoles(const RoleOffer& offer) {
  return static_cast<int>(
      std::count_if(offer.widths.begin(), offer.widths.end(), [](int w) { return w >= 4; }));
}

Offers::Offers(const Graph& graph, const SolveOptions& options) {
  std::map<int, int, std::greater<>> ops_of_width;  // widest first
  bool load = false;
  for (const GraphOp& op : graph.ops) {
    if (op.variable_latency)
      load = true;
    else if (!op.routed)
      ++ops_of_width[op.warps];
  }
  if (!options.warp_constraints) {
    RoleOffer one;
    one.widths = {4};
    largest_ = ascending_ = {one};
    return;
  }
  const int load_warps = LoadWarps(graph);
  std::vector<std::pair<int, int>> widths(ops_of_width.begin(), ops_of_width.end());
  std::vector<RoleOffer> all;
  std::vector<int> counts(widths.size(), 0);
  int most_roles = options.max_roles > 0 ? options.max_roles - (load ? 1 : 0) : 1 << 20;
  if (options.fixed_compute_roles) most_roles = std::min(most_roles, *options.fixed_compute_roles);
  std::function<void(size_t, int, int)> choose = [&](size_t i, int warps, int roles) {
    if (i == widths.size()) {
      RoleOffer offer;
      offer.load = load;
      for (size_t j = 0; j < widths.size(); ++j)
        offer.widths.insert(offer.widths.end(), counts[j], widths[j].first);
      all.push_back(std::move(offer));
      return;
    }
    for (int count = 1; count <= widths[i].second; ++count) {
      const int with = warps + count * widths[i].first;
      if (with > graph.machine.max_warps || roles + count > most_roles) break;
      counts[i] = count;
      choose(i + 1, with, roles + count);
    }
  };
  choose(0, load ? load_warps : 0, 0);
  ascending_ = all;
  std::stable_sort(ascending_.begin(), ascending_.end(),
                   [&](const RoleOffer& a, const RoleOffer& b) {
                     return std::pair(WideRoles(a), Warps(a, load_warps)) <
                            std::pair(WideRoles(b), Warps(b, load_warps));
                   });
  auto contains = [](const RoleOffer& big, const RoleOffer& small) {
    std::map<int, int> count;
    for (int w : big.widths) ++count[w];
    for (int w : small.widths)
      if (--count[w] < 0) return false;
    return true;
  };
  for (const RoleOffer& offer : all) {
    const bool inside = std::any_of(all.begin(), all.end(), [&](const RoleOffer& other) {
      return other.widths.size() > offer.widths.size() && contains(other, offer);
    });
    if (!inside) largest_.push_back(offer);
  }
}

Search::Search(const Graph& graph, const SolveOptions& options)
    : graph_(graph),
      options_(options),
      offers_(graph, options),
      query_limit_(options.resource_limit > 0 ? options.resource_limit : kQueryLimit),
      total_limit_(options.total_limit > 0 ? options.total_limit : kQueries * query_limit_),
      given_up_(std::make_shared<std::vector<GivenUp>>()),
      settled_(SettledApplies(graph, options)),
      nest_(std::any_of(graph.ops.begin(), graph.ops.end(),
                        [](const GraphOp& op) { return !op.part.empty(); })),
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
}

std::shared_ptr<Session> Search::Known(int64_t ii, const RoleOffer& offer) const {
  for (const auto& session : sessions_)
    if (session->model.ii() == ii && session->model.offer().widths == offer.widths) return session;
  return nullptr;
}

RoleOffer Search::Occupied(const RoleOffer& offer) const {
  if (!options_.warp_constraints) return offer;
  std::map<int, int> left = most_roles_;
  RoleOffer occupied{offer.load, {}};
  for (int width : offer.widths)
    if (left[width]-- > 0) occupied.widths.push_back(width);
  return occupied;
}

void Search::Renumber(const RoleOffer& offer, Placement* placement) const {
  const RoleOffer occupied = Occupied(offer);
  const int base = offer.load ? 1 : 0;
  std::vector<int> role(static_cast<size_t>(base), 0);  // that of the loads is the first
  size_t at = 0;
  for (const int width : occupied.widths) {
    while (offer.widths[at] != width) ++at;
    role.push_back(base + static_cast<int>(at++));
  }
  for (int& group : placement->group) group = role[static_cast<size_t>(group)];
}

SettledReply Search::AtOnce(const RoleOffer& offer, const SettledQuestion& question,
                            bool place) const {
  int64_t work = kAtOnce;
  SettledReply reply =
      AskSettled(graph_, graph_, options_, Occupied(offer), question, &work, !place);
  if (place && reply.answer == Answer::kSat) Renumber(offer, &reply.placement);
  if (!reply.asked || (!place && reply.answer == Answer::kSat)) reply.answer = Answer::kUnknown;
  return reply;
}

std::optional<Placement> Search::Dare(const RoleOffer& offer, const SettledQuestion& question) {
  int64_t work = std::min(kDare, settled_work_);
  settled_work_ -= work;
  SettledReply reply = AskSettled(graph_, graph_, options_, Occupied(offer), question, &work);
  settled_work_ += std::max<int64_t>(work, 0);
  if (reply.answer != Answer::kSat) return std::nullopt;
  Renumber(offer, &reply.placement);
  return std::move(reply.placement);
}

void Search::Resolve(Found* found) {
  if (!found->at_once || nest_) return;
  Session::Outcome outcome = SessionFor(found->ii, found->offer)->Query({}, Limit(kQuick));
  if (outcome.answer == Answer::kUnknown) hard_ = settled_;
  if (outcome.answer != Answer::kSat) return;
  found->placement = std::move(outcome.placement);
  found->at_once = false;
}

Session::Outcome Search::Ask(Session& session, const std::vector<Lit>& extra,
                             const SettledQuestion& question, int64_t limit) {
  const bool settled = settled_ && !session.narrowed;
  if (!settled) return session.Query(extra, limit);
  const RoleOffer& offer = session.model.offer();
  SettledReply reply = AtOnce(offer, question, hard_ || nest_);
  if (reply.answer != Answer::kUnknown) return {reply.answer, std::move(reply.placement), {}};
  if (!hard_) {
    Session::Outcome outcome = session.Query(extra, std::min(limit, kQuick));
    if (outcome.answer != Answer::kUnknown || limit <= kQuick) return outcome;
    hard_ = true;
  }
  if (solver_knows_) {
    Session::Outcome outcome = session.Query(extra, std::min(limit, last_limit_));
    if (outcome.answer != Answer::kUnknown) return outcome;
  }
  reply = AskSettled(graph_, graph_, options_, Occupied(offer), question, &settled_work_);
  if (reply.answer == Answer::kSat) Renumber(offer, &reply.placement);
  if (reply.answer != Answer::kUnknown) return {reply.answer, std::move(reply.placement), {}};
  if (solver_knows_) return {};
  Session::Outcome outcome =
      session.Query(extra, reply.asked ? std::min(limit, last_limit_) : limit);
  solver_knows_ = reply.asked && outcome.answer != Answer::kUnknown;
  return outcome;
}

// What a search of the same graph gave up counts as if it had been asked again: the answer would be
// the same, and so is what is left for other questions.
Search::Reply Search::AskAny(int64_t ii, const RoleOffer& offer, int64_t resource_limit) {
  Reply reply;
  const bool anew = Known(ii, offer) == nullptr;
  const auto ask = [&](int64_t limit) {
    reply.session = SessionFor(ii, offer);
    reply.outcome = reply.session->Query({}, limit);
  };
  const bool quick = settled_ && anew;
  if (quick) {
    SettledReply settled = AtOnce(offer, {ii, {}, {}, {}, {}, {}}, true);
    if (settled.answer != Answer::kUnknown)
      return {nullptr, {settled.answer, std::move(settled.placement), {}}, !hard_};
  }
  if (quick && !hard_) {
    ask(std::min(resource_limit, kQuick));
    if (reply.outcome.answer != Answer::kUnknown) return reply;
    hard_ = true;
  }
  if (quick) {
    SettledReply settled =
        PlaceSettled(graph_, options_, Occupied(offer), ii, unplaced_, &placing_work_);
    if (settled.answer == Answer::kSat) Renumber(offer, &settled.placement);
    if (settled.answer != Answer::kUnknown) {
      reply.session = nullptr;
      reply.outcome = {settled.answer, std::move(settled.placement), {}};
      return reply;
    }
    unplaced_ += settled.asked;
    if (settled.asked && (open_ >= kOpen || 2 * last_limit_ < kWorthAsking)) return reply;
    if (settled.asked) resource_limit = std::min(resource_limit, 2 * last_limit_);
  }
  if (anew)
    for (const GivenUp& question : *given_up_)
      if (question.ii == ii && question.widths == offer.widths &&
          question.limit == resource_limit) {
        spent_ += question.cost;
        return {};
      }
  const int64_t before = SessionFor(ii, offer)->resources();
  ask(resource_limit);
  if (reply.outcome.answer == Answer::kUnknown) ++open_;
  if (anew && reply.outcome.answer == Answer::kUnknown)
    given_up_->push_back({ii, offer.widths, resource_limit, reply.session->resources() - before});
  return reply;
}

std::shared_ptr<Session> Search::SessionFor(int64_t ii, const RoleOffer& offer) {
  if (std::shared_ptr<Session> known = Known(ii, offer)) return known;
  if (sessions_.size() >= kSessionsKept) {
    spent_ += sessions_.front()->resources();
    sessions_.erase(sessions_.begin());
  }
  sessions_.push_back(std::make_shared<Session>(graph_, ii, offer, options_));
  return sessions_.back();
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
