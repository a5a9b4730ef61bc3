// The searches over initiation intervals and role offers, shared by Solve, FeasibleAt, TopSolutions
// and the re-check of certificates. Internal to this folder.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "scheduler/model.h"
#include "scheduler/scheduler.h"
#include "scheduler/settled.h"
#include "scheduler/solver.h"

namespace tilec::scheduler {

// One initiation interval and one offer of roles: formulas, the solver that has read them, and all
// cuts found so far.
class Session {
 public:
  Session(const Graph& graph, int64_t ii, const RoleOffer& offer, const SolveOptions& options)
      : model(graph, ii, offer, options) {}

  struct Outcome {
    Answer answer = Answer::kUnknown;
    Placement placement;    // kSat
    std::vector<Lit> core;  // kUnsat: guards and extras used
  };
  // All laws and `extra`; solutions that overflow a capacity are cut off until none does.
  Outcome Query(const std::vector<Lit>& extra, int64_t resource_limit);
  // The same with these guards only.
  Outcome QueryWith(const std::vector<Lit>& guards, int64_t resource_limit);

  int64_t resources() const { return spent_ + (solver_ ? solver_->resources() : 0); }
  // Nobody asks it again: what its solver holds is given back (17 MB and more of each), so that the
  // next one takes pages that are there. Should somebody ask all the same, a new one is made.
  void Rest() {
    spent_ = resources();
    solver_.reset();
  }

  Model model;
  bool narrowed = false;             // clauses were added that are no laws of the graph
  std::vector<Placement> overflows;  // that cuts were made from, in order: what a proof replays

 private:
  std::optional<Solver> solver_;  // from the first question on: most of what a session costs
  int64_t spent_ = 0;             // by solvers that rest
};

// "2 compute roles of 4 warps and 1 of 1"
std::string RolesText(const RoleOffer& offer);

// The roles worth offering. Largest(): offers that contain every legal one; refuting all of them
// refutes the graph. Ascending(): all offers, fewest wide roles first, then fewest warps.
class Offers {
 public:
  Offers(const Graph& graph, const SolveOptions& options);
  const std::vector<RoleOffer>& Largest() const { return largest_; }
  const std::vector<RoleOffer>& Ascending() const { return ascending_; }
  static int Warps(const RoleOffer& offer, int load_warps);
  static int WideRoles(const RoleOffer& offer);

 private:
  std::vector<RoleOffer> largest_, ascending_;
};

class Search {
 public:
  Search(const Graph& graph, const SolveOptions& options);
  // Of the same graph, with less on offer: what `wider` asked in vain is not asked again.
  Search(const Search& wider, const SolveOptions& options);

  struct Found {
    Placement placement;
    RoleOffer offer;
    int64_t ii = 0;
    bool at_once = false;  // without the solver, which may know a better one (Resolve)
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
  std::shared_ptr<Session> Known(int64_t ii, const RoleOffer& offer) const;

  const Graph& graph_;
  const SolveOptions options_;
  Offers offers_;
  std::map<int, int> most_roles_;  // by width: sets of ops that share a role in every schedule
  int64_t query_limit_, total_limit_;
  std::shared_ptr<std::vector<GivenUp>> given_up_;  // of all searches of one solution
  // The most recent sessions, newest last; what dropped ones had spent.
  std::vector<std::shared_ptr<Session>> sessions_;
  int64_t spent_ = 0;
  const bool settled_;                   // the graph is one for settled.h
  const bool nest_;                      // of whose schedule only the period and rings are read
  bool hard_ = false;                    // a question was not quick
  int64_t placing_work_, settled_work_;  // left for schedules of any kind, and for better ones
  bool solver_knows_ = false;            // a question that settled roles left open
  int open_ = 0;                         // periods that the solver left open, too
  int unplaced_ = 0;                     // periods that settled roles left open
  int64_t last_limit_;                   // of a question that stays open without the solver
};

// The best schedule at one II by the lexicographic objective, starting from any.
struct Optimum {
  Search::Found found;
  Objective objective;
  bool proved = false;
};
Optimum Optimize(Search& search, const Search::Found& start, int64_t ii);
// Lowers the criteria but the roles one after the other, within the session's offer and II. `last`:
// nothing else is asked of the session, so what sums answer need not be.
void Improve(Search& search, Session& session, Optimum* best, bool last);
// Where the descent ran out of budget: each op's period anew, at its role and slot. Taken only if
// the objective is better and Check finds no law broken.
void Compact(const Graph& graph, const SolveOptions& options, Optimum* best);
// Raises the slack of a schedule whose other criteria stay as good, at its II.
void MaximizeSlack(Search& search, Optimum* best);
int64_t SlackOf(const Graph& graph, const Search::Found& found);
// Literals that hold every component but the roles at these values or better.
std::vector<Lit> ObjectiveBounds(Session& session, const Graph& graph, const Objective& objective);
Objective ObjectiveOf(const Graph& graph, const SolveOptions& options, const Search::Found& found);

// Placement → schedule: names, quotas, channels, order edges.
ir::Schedule ToSchedule(const Graph& graph, const SolveOptions& options,
                        const Search::Found& found);
// And back. Every op of the graph has its place in the schedule.
Search::Found FoundOf(const Graph& graph, const ir::Schedule& schedule);

}  // namespace tilec::scheduler
