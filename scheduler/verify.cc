// What a certificate says, derived again field by field. Nothing in it is believed, and nothing in
// it is left unread: a field that cannot be derived is refused.
//
// | field | from |
// |---|---|
// | names, hash | the graph |
// | schedule_ii, within | the schedule; ε and II* |
// | ii is reached | the schedule, or another one found now; judged by Check and Simulate |
// | bound | computed again: kind, number, ops, edges and words |
// | proof bound | the bound is II* |
// | proof refuted, core | a proof of those laws' contradiction, accepted by certify/ |
// | proof none | nothing is claimed, so the bound is less than II* and there is no core |
// | objective | computed from the schedule |
// | proved | the solver's descent, run again from this schedule |
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "scheduler/diagnostics.h"
#include "scheduler/objective.h"
#include "scheduler/prove.h"
#include "scheduler/scheduler.h"
#include "scheduler/search.h"
#include "scheduler/to_schedule.h"

namespace tilec::scheduler {

namespace {

constexpr int64_t kConflicts = 2'000'000;  // of each question to the SAT solver

// Empty, or what does not hold.
using Problem = std::string;

class Verifier {
 public:
  Verifier(const Graph& graph, const ir::Schedule& schedule, const Certificate& certificate,
           const certify::Refutation* proof)
      : graph_(graph), schedule_(schedule), c_(certificate), proof_(proof) {}

  Problem Run() {
    for (Problem (Verifier::*step)() :
         {&Verifier::Names, &Verifier::Periods, &Verifier::Judged, &Verifier::TheBound,
          &Verifier::TheObjective, &Verifier::Reached, &Verifier::Smallest, &Verifier::Proved})
      if (Problem problem = (this->*step)(); !problem.empty()) return problem;
    return "";
  }

 private:
  Problem Names() {
    const MachineLimits& machine = graph_.machine;
    if (c_.graph != graph_.name) return fmt::format("the graph is called `{}`", graph_.name);
    if (c_.machine != machine.name)
      return fmt::format("the machine is called `{}`, not `{}`", machine.name, c_.machine);
    if (schedule_.graph_hash != c_.graph_hash)
      return fmt::format("its schedule is for graph {:016x}", schedule_.graph_hash);
    if (schedule_.graph != graph_.name)
      return fmt::format("its schedule is for a graph `{}`", schedule_.graph);
    if (schedule_.machine != machine.name)
      return fmt::format("its schedule is for a machine `{}`", schedule_.machine);
    return "";
  }

  Problem Periods() {
    if (schedule_.ii != c_.schedule_ii)
      return fmt::format("its schedule has II {}, not {}", schedule_.ii, c_.schedule_ii);
    if (c_.ii < 1 || !(c_.epsilon >= 0 && c_.epsilon <= 1))
      return fmt::format("II {} with an epsilon of {} cannot be", c_.ii, c_.epsilon);
    if (c_.within != LargestWithin(c_.ii, c_.epsilon))
      return fmt::format("epsilon allows II up to {}, not {}", LargestWithin(c_.ii, c_.epsilon),
                         c_.within);
    if (c_.schedule_ii > c_.within)
      return fmt::format("II {} is more than epsilon above {}", c_.schedule_ii, c_.ii);
    if (c_.schedule_ii < c_.ii)
      return fmt::format("its schedule is faster than the claimed best {}", c_.ii);
    return "";
  }

  Problem Judged() {
    for (const CheckReport& report : {Check(graph_, schedule_), Simulate(graph_, schedule_)})
      if (!report.violations.empty())
        return "its schedule breaks the law `" + report.violations.front().law +
               "`: " + report.violations.front().text;
    return "";
  }

  Problem TheBound() {
    const Bound bound = Search(graph_, options_).LowerBound();
    const Bound& said = c_.bound;
    if (said.kind != bound.kind || said.ii != bound.ii || said.unit != bound.unit ||
        said.ops != bound.ops || said.edges != bound.edges || said.text != bound.text)
      return fmt::format("the bound is {}, not {}: {}", bound.ii, said.ii, bound.text);
    const bool meets = bound.ii == c_.ii;
    if (meets != (c_.proof == Proof::kBound))
      return meets ? "the bound proves II*, and the proof is said to be another"
                   : fmt::format("the bound is {}, not {}: {}", bound.ii, c_.ii, bound.text);
    if (bound.ii > c_.ii)
      return fmt::format("II {} is less than the bound {}: {}", c_.ii, bound.ii, bound.text);
    if (c_.core.empty() == (c_.proof == Proof::kRefuted))
      return c_.core.empty() ? "it names no laws that contradict each other"
                             : "it names a core of a refutation that it does not claim";
    return "";
  }

  Problem TheObjective() {
    found_ = FoundOf(graph_, schedule_);
    Objective seen = ObjectiveOf(graph_, {}, found_);
    seen.slack = SlackOf(graph_, found_);
    for (const auto& [field, name] : kObjectiveNames)
      if (seen.*field != c_.objective.*field)
        return fmt::format("the schedule's {} is {}, not {}", name, seen.*field,
                           c_.objective.*field);
    return "";
  }

  // Some schedule has the II that is said to be the smallest.
  Problem Reached() {
    if (c_.schedule_ii == c_.ii) return "";
    const Feasibility reached = FeasibleAt(graph_, c_.ii, options_);
    if (reached.kind == Feasibility::Kind::kFeasible &&
        Check(graph_, reached.schedule).violations.empty())
      return "";
    return fmt::format("no schedule with II {} was found", c_.ii);
  }

  Problem Smallest() {
    if (proof_ != nullptr && proof_->ii >= c_.ii && !certify::PinsCycle(graph_))
      return fmt::format("II {} is refuted by the proof", proof_->ii);
    if (c_.proof != Proof::kRefuted) return "";
    if (certify::PinsCycle(graph_))
      return "cycles are pinned, so a refutation says nothing of smaller periods";
    std::set<std::string> core;
    for (const CoreItem& item : c_.core)
      if (!core.insert(ToText(item)).second)
        return fmt::format("it names the law `{}` twice", ToText(item));
    if (proof_ == nullptr) {
      const InfeasibilityProof found = ProveCore(graph_, c_.ii - 1, c_.core, {}, kConflicts);
      return found.complete() ? ""
                              : fmt::format("II {} is not refuted: {}", c_.ii - 1, found.problem);
    }
    if (proof_->ii != c_.ii - 1)
      return fmt::format("the proof refutes II {}, not {}", proof_->ii, c_.ii - 1);
    if (core != std::set<std::string>(proof_->core.begin(), proof_->core.end()))
      return "the proof rests on other laws than the core names";
    return "";
  }

  Problem Proved() {
    if (!c_.objective_proved) return "";
    Search search(graph_, options_);
    Optimum best = Optimize(search, found_, c_.within);
    Objective objective = c_.objective;
    objective.slack = best.objective.slack;
    if (!(best.objective == objective)) return "a schedule with a better objective exists";
    best.found = found_;
    const bool descended = best.proved;
    MaximizeSlack(search, &best);
    if (best.objective.slack > c_.objective.slack) return "a schedule with more slack exists";
    return descended && best.proved
               ? ""
               : "that no better objective exists could not be shown within the budget";
  }

  const Graph& graph_;
  const ir::Schedule& schedule_;
  const Certificate& c_;
  const certify::Refutation* proof_;
  const SolveOptions options_;
  Search::Found found_;
};

}  // namespace

Result<> VerifyCertificate(const Graph& graph, const ir::Schedule& schedule, const Certificate& c,
                           DiagSink& diags, const certify::Refutation* proof) {
  const uint64_t hash = Hash(graph);
  if (c.graph_hash != hash)
    return diags
        .Report(kCertificateMismatch, Span{}, fmt::format("graph {:016x}", c.graph_hash),
                fmt::format("{:016x}", hash))
        .Place("certificate of " + c.graph);
  const Problem problem = Verifier(graph, schedule, c, proof).Run();
  if (problem.empty()) return Done();
  return diags.Report(kCertificateRefuted, Span{}, problem).Place("certificate of " + c.graph);
}

}  // namespace tilec::scheduler
