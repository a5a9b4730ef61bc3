// The scheduling problem at one initiation interval as formulas of difference logic.
//
// Decision variables: the stage k and the slot r of every op (t = k·II + r, 0 <= r < II), and the
// role of every op. t itself is never a variable: t(x) − t(y) >= c, with c = m·II + ρ and
// 0 <= ρ < II, is
//
//   k(x) − k(y) >= m
//   k(x) − k(y) >= m + 1  or  r(x) − r(y) >= ρ
//   k(x) − k(y) >= m + 2  or  r(x) − r(y) >= ρ − II
//
// which is exact for any number of stages and keeps everything in difference logic: no product
// with II, no bound on the length, no copy of an op per iteration.
//
// Ops and edges of routes exist in some divisions among roles only: what they ask for carries the
// literal under which they do not. An op that does not exist has a stage and a slot all the same,
// which nothing looks at.
//
// Capacities of memories and registers are not written out. A solution is measured; where it
// overflows, a clause forbids that overflow in general (AddCuts). Cuts hold for every schedule at
// this II, so they stay.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "scheduler/formula.h"
#include "scheduler/graph.h"
#include "scheduler/needs.h"
#include "scheduler/routes.h"
#include "scheduler/scheduler.h"

namespace tilec::scheduler {

enum class Law {
#define LAW(name, id, sentence, source) k##name,
#include "scheduler/constraints.def"
#undef LAW
};
const char* LawName(Law law);
const char* LawSentence(Law law);

class Model {
 public:
  // An assumption that switches part of the laws on.
  struct Guard {
    Lit lit;
    Law law;
    std::string text;
    std::vector<int> ops;
    Span at;  // of a pin
  };

  Model(const Graph& graph, int64_t ii, const RoleOffer& offer, const SolveOptions& options);

  const Formulas& formulas() const { return formulas_; }
  Formulas& formulas() { return formulas_; }
  const std::vector<Guard>& guards() const { return guards_; }
  const Graph& graph() const { return graph_; }
  const RoleOffer& offer() const { return offer_; }
  int64_t ii() const { return ii_; }

  // The literal "u and v share a role".
  Lit Same(int u, int v);
  // The literal "op v does not exist".
  Lit absent(int v) const { return absent_[v]; }
  // Those of the graph and those of its routes, with the roles that decide which of them hold.
  const std::vector<RoutedEdge>& edges() const { return edges_; }
  // t(x) − t(y) >= c unless one of `unless` holds.
  void Separate(Lit guard, const Clause& unless, int x, int y, int64_t c);
  // The ops but loads span at most so many stages, wherever the loop begins.
  Lit StagesAtMost(int64_t bound);
  IntVar stage(int op) const { return k_[op]; }
  IntVar slot(int op) const { return r_[op]; }
  // ring_within(op)[d − 1]: the ring of op needs at most d slots. Empty: not in shared memory.
  int64_t PinnedDepth(int op) const { return scheduler::PinnedDepth(graph_, op); }
  const std::vector<Lit>& ring_within(int op) const { return ring_[op]; }

  // True in schedules whose roles, or whose cyclic order on a unit of one instance, are not these.
  Clause Different(const Placement& placement);
  // Reads a solution off a solver (any type with Value(Lit) and Value(IntVar)).
  template <typename S>
  Placement Read(const S& solver) const {
    Placement p;
    for (size_t v = 0; v < graph_.ops.size(); ++v) {
      p.cycle.push_back(solver.Value(k_[v]) * ii_ + solver.Value(r_[v]));
      int group = 0;  // one program for all, where there are no roles
      for (const auto& [g, lit] : in_[v])
        if (solver.Value(lit)) group = g;
      p.group.push_back(group);
    }
    Settle(graph_, &p);
    return p;
  }
  Needs Measure(const Placement& placement) const {
    return scheduler::Measure(graph_, ii_, offer_, options_.warp_constraints, placement);
  }
  // Clauses that exclude every overflow found in the placement, of laws whose guards are `given`;
  // how many. 0: it fits. (An overflow of a law that was not asked for is none: its clause would
  // exclude nothing, and the same placement would come again.)
  int AddCuts(const Placement& placement, const std::vector<Lit>& given);

  // An overflow that was cut off, without the period and the roles it was met with: so many
  // instances alive where another op is defined, or rings of such depths, are too much in any.
  struct Overflow {
    enum class Kind { kRegisters, kTmem, kRings, kPool };
    struct Peak {
      int role = -1;                                // kPool
      int at = -1;                                  // the op that is defined; kRings: none
      std::vector<std::pair<int, int64_t>> values;  // op, its instances or slots
      auto operator<=>(const Peak&) const = default;
    };
    Kind kind{};
    std::vector<int> widths;  // kPool: of the roles on offer, which it holds for
    std::vector<int> unused;  // kPool: roles of which one with an op may make room
    std::vector<Peak> peaks;  // one; kPool: of all roles that are used
    auto operator<=>(const Overflow&) const = default;
  };
  // Those met here, in order; of rings that are pinned, none.
  const std::vector<Overflow>& overflows() const { return overflows_; }
  // Excludes what was met at another period or with other roles, before any solution is looked at.
  void Exclude(const std::vector<Overflow>& overflows);

  bool IsLoad(int op) const { return offer_.load && graph_.ops[op].variable_latency; }
  int load_warps() const { return load_warps_; }
  // Ops interchanged by swapping slices a and b; empty: they are not alike.
  const std::vector<std::vector<int>>& slice_swaps() const { return swaps_; }

 private:
  Lit GuardFor(Law law, std::string text, std::vector<int> ops, Span at = {});
  void AddRoles();
  void AddRoutes();
  // `unless`, and where the edge does not hold.
  Clause Unless(const Clause& unless, int edge) const;
  void AddDependences();
  // Who takes one unit.
  struct UnitUser {  // so many instances for so many cycles, modulo II
    int op;
    int64_t cycles, instances;
  };
  struct UnitUsers {
    std::vector<UnitUser> users;
    std::vector<int> ops;    // all that take it, for whole periods only, too
    int64_t always = 0;      // instances that are taken all the time
    int64_t together = 0;    // of `users`
    bool sometimes = false;  // an op that may not exist takes it for a whole period
  };
  UnitUsers UsersOf(int unit) const;
  void AddUnits();
  void AddFluidUnit(int unit, const std::vector<int>& ops);
  void CountAtIssues(Lit guard, int unit, const UnitUsers& of);
  void AddIssue();
  void AddRings();
  void AddPins();
  void AddSymmetry();
  struct Time {  // k·II + r
    IntVar k, r;
  };
  void Separate(Lit guard, const Clause& unless, Time x, Time y, int64_t c);
  Lit OrderOf(int u, int v);
  void AddExclusion(Lit guard, const Clause& unless, int u, int v, int64_t du, int64_t dv);
  // n_v at the definition of e is at most n.
  Lit LiveAtMost(int v, int e, int64_t n);
  // Instances of v's value live at any time in any schedule: its own next iterations read it.
  int64_t AlwaysLive(int v) const;
  void AddAccumulators();
  int64_t Live(const Placement& p, int v, int64_t at) const;
  // Fewest values live at the definition of e that overflow `limit`, with their live counts.
  using Live1 = std::pair<int, int64_t>;  // op, instances
  std::vector<Live1> Cover(const Placement& p, int e, bool registers, int64_t limit) const;
  // The literals one of which any legal schedule makes true.
  Clause CoverClause(const std::vector<Live1>& cover, int e, bool registers);
  int AddCover(const std::vector<Live1>& cover, int e, bool registers);
  Lit Shallower(int op, int64_t depth);
  bool MoreRolesMayFit(const Needs& needs) const;
  Lit Empty(int group);
  int AddPoolCut(const Placement& p, const Needs& needs);
  Clause PoolClause(const Overflow& met);
  int AddRegisterCuts(const Placement& p, const Needs& needs, const std::vector<Lit>& given);
  int AddTmemCuts(const Placement& p, const Needs& needs);
  // Depth that a pin asks of the ring of op, if it is one of those given; else 0.
  int64_t PinnedBy(int op, const std::vector<Lit>& given) const;
  // What is needed where only these pins hold.
  Needs MeasureWith(const Placement& p, const std::vector<Lit>& given) const;
  int AddRingCut(const Needs& needs, const std::vector<Lit>& given);
  Lit RingWithin(int op, int64_t depth);

  const Graph& graph_;
  const int64_t ii_;
  const RoleOffer offer_;
  const SolveOptions& options_;
  int load_warps_ = 0;
  Formulas formulas_;
  std::vector<Guard> guards_;
  std::vector<IntVar> k_, r_;
  std::optional<Time> first_;                         // no later than any op but loads
  std::vector<std::vector<std::pair<int, Lit>>> in_;  // candidate groups of each op
  std::map<std::pair<int, int>, Lit> same_, order_;
  std::map<std::tuple<int, int, int64_t>, Lit> live_;
  std::map<std::pair<int, int64_t>, Lit> deeper_;
  std::map<int, Lit> empty_;
  std::map<int, Lit> depth_pins_;  // by op: the guard of its pinned depth
  std::vector<std::vector<Lit>> ring_;
  std::vector<std::vector<int>> swaps_;
  std::vector<RoutedEdge> edges_;
  std::vector<Lit> not_held_;  // by edge
  std::vector<Lit> absent_;    // by op
  std::vector<Overflow> overflows_;
  std::vector<int> owner_;                     // by op: whose role it has
  std::vector<std::vector<int>> value_edges_;  // by producer
  Lit registers_, pool_, smem_, tmem_;
};

// Slices whose interchange maps the graph onto itself: for each pair (first slice, other slice) the
// permutation of ops.
std::vector<std::vector<int>> SliceSwaps(const Graph& graph);

}  // namespace tilec::scheduler
