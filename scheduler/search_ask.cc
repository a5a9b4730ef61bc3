// How a question about one offer is answered: at once by a few decisions about settled roles, by
// the solver where it is quick, by settled roles at length, and by the solver again with what is
// left.
//
// SPDX-License-Identifier: Apache-2.0
#include "scheduler/search.h"

#include <algorithm>
#include <map>
#include <string>

namespace tilec::scheduler {

namespace {

constexpr size_t kSessionsKept = 12;
// Of so many periods that stay open without the solver it is asked, where it may spend this much on
// each: with less it hardly ever knew an answer. And so many questions about better schedules.
constexpr int kOpen = 2;
constexpr int64_t kWorthAsking = 1'000'000;
constexpr int64_t kQuick = 200'000;  // of a question that the solver need not be spared
// What is tried of settled roles before the solver is asked (some milliseconds), and where a better
// schedule would be welcome but nobody waits for a proof.
constexpr int64_t kAtOnce = 100'000, kDare = 1'000'000;

}  // namespace

std::shared_ptr<Session> Search::Known(int64_t ii, const RoleOffer& offer, bool scout) const {
  for (const auto& session : sessions_)
    if (session->model.ii() == ii && session->scout == scout &&
        session->model.offer().widths == offer.widths)
      return session;
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
      AskSettled({graph_, graph_, options_, Occupied(offer)}, question, &work, !place);
  if (place && reply.answer == Answer::kSat) Renumber(offer, &reply.placement);
  if (!reply.asked || (!place && reply.answer == Answer::kSat)) reply.answer = Answer::kUnknown;
  return reply;
}

Search::Verdict Search::AtOnceAt(int64_t ii) const {
  Verdict verdict;
  verdict.ii = ii;
  if (!settled_) return verdict;
  for (const RoleOffer& offer : offers_.Largest()) {
    const SettledReply reply = AtOnce(offer, {ii, {}, {}, {}, {}, {}}, true);
    if (reply.answer != Answer::kUnsat) return verdict;
    verdict.refutations.push_back({nullptr, {}, offer, offer});
  }
  if (!verdict.refutations.empty()) verdict.answer = Answer::kUnsat;
  return verdict;
}

std::optional<Placement> Search::Dare(const RoleOffer& offer, const SettledQuestion& question) {
  int64_t work = std::min(kDare, settled_work_);
  settled_work_ -= work;
  SettledReply reply = AskSettled({graph_, graph_, options_, Occupied(offer)}, question, &work);
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
  reply = AskSettled({graph_, graph_, options_, Occupied(offer)}, question, &settled_work_);
  if (reply.answer == Answer::kSat) Renumber(offer, &reply.placement);
  if (reply.answer != Answer::kUnknown) return {reply.answer, std::move(reply.placement), {}};
  if (solver_knows_ || in_vain_ >= kOpen) return {};
  Session::Outcome outcome =
      session.Query(extra, reply.asked ? std::min(limit, last_limit_) : limit);
  solver_knows_ = reply.asked && outcome.answer != Answer::kUnknown;
  if (outcome.answer == Answer::kUnknown) ++in_vain_;
  return outcome;
}

// What a search of the same graph gave up counts as if it had been asked again: the answer would be
// the same, and so is what is left for other questions.
Search::Reply Search::AskAny(int64_t ii, const RoleOffer& offer, int64_t resource_limit) {
  Reply reply;
  const bool anew = !Known(ii, offer, false) && !Known(ii, offer, true);
  const auto ask = [&](int64_t limit) {
    reply.session = ScoutFor(ii, offer);
    reply.outcome = reply.session->Query({}, limit);
    reply.at_once = settled_ && reply.session->scout;
    Learn(*reply.session, reply.outcome.answer);
    // Whoever goes on from a schedule, or from nothing, asks a plain one.
    if (reply.session->scout && reply.outcome.answer != Answer::kUnsat) reply.session->Rest();
  };
  const bool quick = settled_ && anew;
  bool short_of_work = true;
  if (quick) {
    SettledReply settled = AtOnce(offer, {ii, {}, {}, {}, {}, {}}, true);
    short_of_work = settled.short_of_work || !settled.asked;
    if (settled.answer != Answer::kUnknown)
      return {nullptr, {settled.answer, std::move(settled.placement), {}}, !hard_};
  }
  if (quick && !hard_) {
    ask(std::min(resource_limit, kQuick));
    // What a scout knows of capacities is in its way where none is needed for a refutation.
    if (reply.outcome.answer == Answer::kUnknown && reply.session->scout) {
      const std::shared_ptr<Session> plain = SessionFor(ii, offer);
      reply = {plain, plain->Query({}, std::min(resource_limit, kQuick))};
      Learn(*plain, reply.outcome.answer);
    }
    if (reply.outcome.answer != Answer::kUnknown) return reply;
    hard_ = true;
  }
  if (quick) {
    SettledReply settled = PlaceSettled({graph_, graph_, options_, Occupied(offer)}, ii, unplaced_,
                                        !short_of_work, &placing_work_);
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
  const int64_t before = ScoutFor(ii, offer)->resources();
  ask(resource_limit);
  if (reply.outcome.answer == Answer::kUnknown) ++open_;
  if (anew && reply.outcome.answer == Answer::kUnknown)
    given_up_->push_back({ii, offer.widths, resource_limit, reply.session->resources() - before});
  return reply;
}

std::shared_ptr<Session> Search::Keep(std::shared_ptr<Session> session) {
  if (sessions_.size() >= kSessionsKept) {
    spent_ += sessions_.front()->resources();
    sessions_.erase(sessions_.begin());
  }
  sessions_.push_back(std::move(session));
  return sessions_.back();
}

std::shared_ptr<Session> Search::SessionFor(int64_t ii, const RoleOffer& offer) {
  if (std::shared_ptr<Session> known = Known(ii, offer, false)) return known;
  return Keep(std::make_shared<Session>(graph_, ii, offer, options_));
}

std::shared_ptr<Session> Search::ScoutFor(int64_t ii, const RoleOffer& offer) {
  if (std::shared_ptr<Session> known = Known(ii, offer, false)) return known;
  if (std::shared_ptr<Session> known = Known(ii, offer, true)) return known;
  if (met_->empty() || without_capacities_) return SessionFor(ii, offer);
  auto scout = std::make_shared<Session>(graph_, ii, offer, options_);
  scout->scout = true;
  scout->model.Exclude({met_->begin(), met_->end()});
  return Keep(std::move(scout));
}

void Search::Learn(const Session& session, Answer answer) {
  if (answer == Answer::kUnsat) without_capacities_ = session.model.overflows().empty();
  met_->insert(session.model.overflows().begin(), session.model.overflows().end());
}

}  // namespace tilec::scheduler
