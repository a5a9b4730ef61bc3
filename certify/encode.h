// The laws of a graph at one initiation interval as clauses, and a check of refutations against
// them. Written from docs/scheduler.md §2 and §9; shares no line with the solver's encoder
// (scheduler/model.cc), so that an error there does not certify itself.
//
// Every schedule of the graph, rotated so that one op stands at cycle 0 and moved so that its
// stages are close (StageReach), satisfies the clauses. So a contradiction among them refutes the
// initiation interval; without pinned cycles it refutes all smaller ones too (§3).
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "certify/clauses.h"
#include "certify/cover.h"
#include "certify/laws.h"

namespace tilec::certify {

class Encoding {
 public:
  // Of the graph, at `ii`, these of its laws.
  Encoding(const scheduler::Graph& graph, int64_t ii, const std::vector<Law>& laws);

  // Forbids the overflow. Empty, or why the cover proves nothing.
  std::string Add(const Cover& cover);
  const Cnf& cnf() const { return clauses_.cnf(); }
  // Empty, or why the clauses are not all there.
  std::string TooLarge() const {
    return clauses_.too_large() ? "the laws take more clauses than can be checked" : "";
  }
  // The schedule that an assignment (by variable) stands for.
  Placement Decode(const std::vector<bool>& assignment) const;
  bool Has(Law::Kind kind) const;

 private:
  struct Member {  // of a role
    int role;
    Lit lit;
  };
  struct Exclusive {  // unless one of these
    std::vector<Lit> unless;
    int u, v;
    int64_t du, dv;
  };

  void AddRoles();
  void AddWarps();
  void AddIssueSums();
  void AddRoutes();
  void AddTimes();
  void AddLaw(const Law& law);
  void AddUnit(int unit);
  void CountAtIssues(int unit);
  void AddIssue();
  void AddAccumulators();
  void AddSmem();
  void AddPinTime(const Law& law);

  Lit Same(int u, int v);
  Lit Used(size_t width, int role);  // some op is in it
  // The literal under which an arc does not hold.
  Lit Off(const Arc& arc);
  Lit Before(int u, int v);  // by slots
  // t(x) − t(y) >= c unless one of `unless`.
  void Apart(std::vector<Lit> unless, int x, int y, int64_t c);
  void Exclude(const Exclusive& pair);
  // Implies that no more than n instances of v's value are live when e issues.
  Lit LiveAtMost(int v, int e, int64_t n);
  // Implies that a ring of d slots is deep enough for v.
  Lit RingWithin(int v, int64_t d);
  std::vector<Lit> CoverClause(const Peak& peak, bool registers);

  const scheduler::Graph& g_;
  const int64_t ii_;
  const int n_;
  const std::vector<Law> laws_;
  const std::vector<Arc> arcs_;
  const std::vector<int> owner_;
  const std::vector<Width> widths_;
  Clauses clauses_;
  std::vector<int> stage_, slot_;  // integers, by op
  std::vector<std::vector<Member>> in_;
  std::vector<Lit> absent_;
  std::map<std::pair<int, int>, Lit> same_, before_;
  std::map<std::pair<size_t, int>, Lit> used_;
  std::map<std::pair<int, int64_t>, Lit> ring_;
  std::map<std::tuple<int, int, int64_t>, Lit> live_;
};

}  // namespace tilec::certify
