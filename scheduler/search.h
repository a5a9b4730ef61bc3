// The searches over initiation intervals and role offers, shared by Solve, FeasibleAt, TopSolutions
// and the re-check of certificates. Internal to this folder.
//
// search.cc: a period, which all offers are asked about, and why it is refuted. search_ask.cc: who
// answers a question about one offer, and with what it may spend.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "scheduler/offers.h"
#include "scheduler/scheduler.h"
#include "scheduler/session.h"
#include "scheduler/settled.h"

namespace tilec::scheduler {

class Search {
 public:
  Search(const Graph& graph, const SolveOptions& options);
  // Of the same graph, with less on offer: what `wider` asked in vain is not asked again.
  Search(const Search& wider, const SolveOptions& options);

  struct Found {
    Placement placement;
    RoleOffer offer;
    int64_t ii = 0;
    bool at_once = false;  // without the solver, or by a scout: Resolve asks a plain session
  };
  struct Refutation {
    std::shared_ptr<Session> session;  // null: by sums over settled roles (settled.h)
    std::vector<Lit> core;
    RoleOffer offer;
    RoleOffer shown;  // the largest offer that is refuted with it
  };
  struct Verdict {
    Answer answer = Answer::kUnknown;
    int64_t ii = 0;
    Found found;                          // kSat
    std::vector<Refutation> refutations;  // kUnsat: of each largest offer
    std::vector<CoreItem> arithmetic;     // kUnsat: offers refuted without a solver
  };
  // Any offer at this II; `small_first`: a schedule is expected, ask the smallest offers first.
  Verdict At(int64_t ii, int64_t resource_limit, bool small_first = false);
  // The same of few decisions about settled roles alone, which refute or say nothing.
  Verdict AtOnceAt(int64_t ii) const;
  // Leaves guards out of a core as long as it stays one, within a budget.
  std::vector<Lit> Minimize(Session& session, std::vector<Lit> core);
  // The union of the minimised cores of a refutation.
  std::vector<CoreItem> Explain(const Verdict& verdict);
  // Whether the offer's roles can issue all ops in a period at all: arithmetic that a solver would
  // have to find by counting pigeons.
  bool IssueFits(const RoleOffer& offer, int64_t ii) const;

  // What a session is asked with these literals, and what they mean. What a few decisions about
  // settled roles refute, the solver is not asked. Then the solver, as long as it is quick: then
  // questions of settled roles are settled without it, and it has the rest, or the first word
  // where it knew what they did not.
  Session::Outcome Ask(Session& session, const std::vector<Lit>& extra,
                       const SettledQuestion& question, int64_t resource_limit);

  // Where questions are hard: a schedule that some decisions about settled roles find, or nothing.
  std::optional<Placement> Dare(const RoleOffer& offer, const SettledQuestion& question);
  // The solver's schedule of the same period, where it is quick: what was found at once is any.
  void Resolve(Found* found);

  std::shared_ptr<Session> SessionFor(int64_t ii, const RoleOffer& offer);
  // Of periods that are not asked about any more, in [first, end), the solvers rest.
  void Rest(int64_t first, int64_t end);
  int64_t resources() const;
  bool hard() const { return hard_; }
  bool nest() const { return nest_; }
  // What may be spent is a compilation's, not a proof's.
  bool hurried() const;
  // Did a period ask for more than registers or memory bear?
  bool met_overflows() const { return !met_->empty(); }
  const Graph& graph() const { return graph_; }
  const SolveOptions& options() const { return options_; }
  const Offers& offers() const { return offers_; }
  int64_t query_limit() const { return query_limit_; }
  // What is left for a query that would like so much.
  int64_t Limit(int64_t wanted) const {
    return std::max<int64_t>(0, std::min(wanted, total_limit_ - resources()));
  }

  // An offer without the roles that no schedule can fill: ops that belong together are in one. What
  // stays empty has no registers and no warps, so both have the same schedules.
  RoleOffer Occupied(const RoleOffer& offer) const;

  // Elementary bounds that hold under the options.
  Bound LowerBound() const;
  // Beyond this II nothing becomes feasible that was not.
  int64_t LargestUsefulIi() const;

 private:
  // A question for any schedule of an offer that a new session had no answer to.
  struct GivenUp {
    int64_t ii;
    std::vector<int> widths;  // of the roles that have an op in some schedule
    int64_t limit, cost;
  };
  struct Reply {
    std::shared_ptr<Session> session;  // null: given up before, or not asked
    Session::Outcome outcome;
    bool at_once = false;
  };
  Reply AskAny(int64_t ii, const RoleOffer& offer, int64_t resource_limit);
  // What few decisions about settled roles say, before any solver is asked. `place`: schedules that
  // they find count, else only what they refute.
  SettledReply AtOnce(const RoleOffer& offer, const SettledQuestion& question, bool place) const;
  // Of Occupied(offer) → of the offer, whose empty roles may stand between those of two widths.
  void Renumber(const RoleOffer& offer, Placement* placement) const;
  std::shared_ptr<Session> Known(int64_t ii, const RoleOffer& offer, bool scout) const;
  // Of this question: a plain one, or a scout, which begins with what all others met on their way.
  std::shared_ptr<Session> ScoutFor(int64_t ii, const RoleOffer& offer);
  std::shared_ptr<Session> Keep(std::shared_ptr<Session> session);
  void Learn(const Session& session, Answer answer);

  const Graph& graph_;
  const SolveOptions options_;
  Offers offers_;
  std::map<int, int> most_roles_;  // by width: sets of ops that share a role in every schedule
  int64_t query_limit_, total_limit_;
  // Of all searches of one solution.
  std::shared_ptr<std::vector<GivenUp>> given_up_;
  std::shared_ptr<std::set<Model::Overflow>> met_;
  bool without_capacities_ = false;  // the last period was refuted without looking at any
  // The most recent sessions, newest last; what dropped ones had spent.
  std::vector<std::shared_ptr<Session>> sessions_;
  int64_t spent_ = 0;
  const bool settled_;                   // the graph is one for settled.h
  const bool nest_;                      // of whose schedule only the period and rings are read
  bool hard_;                            // a question was not quick, or none would be
  int64_t placing_work_, settled_work_;  // left for schedules of any kind, and for better ones
  bool solver_knows_ = false;            // a question that settled roles left open
  int open_ = 0;                         // periods that the solver left open, too
  int in_vain_ = 0;                      // questions about better ones that both left open
  int unplaced_ = 0;                     // periods that settled roles left open
  int64_t last_limit_;                   // of a question that stays open without the solver
};

}  // namespace tilec::scheduler
