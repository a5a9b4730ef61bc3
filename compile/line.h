// The steps of the compiler for one kernel, and what they made so far. Each step returns its
// product or a Refusal; none knows which strategies there are besides the one it works for.
// Private to compile/.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "compile/losses.h"
#include "compile/planning.h"
#include "compile/search.h"

namespace tilec::compile {

// A product, or why there is none.
template <typename T>
struct Step {
  std::optional<T> product;
  std::optional<Refusal> refusal;
  Step(T made) : product(std::move(made)) {}      // NOLINT: implicit by design
  Step(Refusal why) : refusal(std::move(why)) {}  // NOLINT: implicit by design
};

struct Solved {
  ir::Function fn;  // what it says in order is what the schedules say in cycles
  scheduler::ProgramSchedule schedule;
};

struct Lowered {
  ir::Function fn;     // at the warp level
  bool roles = false;  // a role runs ahead
  ir::ScheduledResources resources;
  std::vector<Loss> losses;  // of its schedule
  std::string own_order;     // why the program's own order was taken; "": it was not
  std::string plan;
};

class Line {
 public:
  Line(const ir::Function& tile, const Request& request, Account* account)
      : tile_(tile), request_(request), account_(account) {}

  // Once; fails with diagnostics.
  Result<> CleanUp(DiagSink& diags);
  const ir::Function& clean() const { return tile_; }

  Step<const ir::Function*> ShapeFor(const Strategy& strategy, DiagSink& said);
  // Null: the strategy asks no scheduler.
  Step<const Solved*> SolveFor(const Strategy& strategy, const ir::Function& shaped,
                               DiagSink& said);
  Step<Lowered> Lower(const Strategy& strategy, const ir::Function& from, const Solved* solved,
                      DiagSink& said);
  // Where nothing runs ahead: the program of the unsolved loops, if more of its CTAs share an SM.
  void MakeRoom(const Strategy& strategy, Lowered* lowered, DiagSink& said);
  // Does the program gain by what its strategy costs?
  std::optional<Refusal> Worth(const Strategy& strategy, const Lowered& lowered,
                               const Solved* solved, DiagSink& said) const;
  // … or more registers than its threads have?
  std::optional<Refusal> Crowded(const Strategy& strategy, const Lowered& lowered) const;
  std::optional<Refusal> Prove(const Strategy& strategy, const Lowered& lowered, DiagSink& said);
  // … or a proof that is known to have no end?
  std::optional<Refusal> Endless(const Strategy& strategy, const Lowered& lowered) const;

  // Did guarding masks change nothing of this strategy's program? Without it the same is made.
  bool GuardsNothing(const Strategy& strategy) const { return unguarded_.count(KeyOf(strategy)); }
  // Has the solver's answer for any shape roles that divide a row slice?
  bool divided() const;
  // Has it several compute roles?
  bool several() const;
  bool stopped() const { return stopped_; }
  // Is the plan that is given of the program that was lowered last?
  bool met_plan() const { return met_plan_; }
  const std::string& printed() const { return printed_; }
  int emissions() const { return emissions_; }

 private:
  using Key = std::pair<Shape, std::pair<Order, int64_t>>;
  static Key KeyOf(const Strategy& strategy) {
    return {strategy.shape, {strategy.order, strategy.withheld_registers}};
  }
  Result<> Run(ir::Function& fn, std::span<const ir::PassStep> steps, DiagSink& said);
  ir::PassStep RolesStep(const Strategy& strategy, const Solved* solved, const Planning& planning,
                         Lowered* lowered, ir::LowerNeed* need, ir::NoProducer* no_producer) const;
  Result<> Schedule(const Strategy& strategy, Solved* solved, DiagSink& said);

  ir::Function tile_;
  std::optional<ir::Function> loops_;  // of rows (ir/clean_up.h), where CTAs are to share turns
  const Request& request_;
  Account* account_;
  std::map<Shape, Step<ir::Function>> shaped_;
  std::map<Key, Step<Solved>> solved_;
  std::set<Key> unguarded_;  // whose masks guard nothing
  std::string printed_;
  bool stopped_ = false, met_plan_ = false;
  int emissions_ = 0;
};

// The last error in `said`, as a refusal.
Refusal RefusalOf(Stage stage, Resource resource, const DiagSink& said);

}  // namespace tilec::compile
