// SPDX-License-Identifier: Apache-2.0
#include "explain/whynot.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "explain/diagnostics.h"
#include "explain/internal.h"

namespace tilec::explain {

namespace {

using scheduler::Feasibility;
using scheduler::Objective;
using scheduler::SolveOptions;

std::string Longer(int64_t ii, int64_t than) {
  if (ii == than) return fmt::format("II {} all the same", ii);
  return fmt::format("II {} ({:.1f} % {})", ii,
                     100.0 * static_cast<double>(std::abs(ii - than)) / static_cast<double>(than),
                     ii > than ? "longer" : "shorter");
}

// What differs between two answers, most important first.
std::string Costs(const Objective& here, const Objective& there) {
  struct Row {
    int64_t here, there;
    const char* word;
    const char* of;
  };
  const Row rows[] = {{here.compute_groups, there.compute_groups, "wide role", ""},
                      {here.warps, there.warps, "warp", ""},
                      {here.cross_bytes, there.cross_bytes, "byte", " across roles"},
                      {here.waits, there.waits, "wait", ""},
                      {here.stages, there.stages, "stage", ""},
                      {here.smem_bytes, there.smem_bytes, "byte", " of shared memory"},
                      {here.slack, there.slack, "cycle", " of slack"}};
  std::string text;
  for (const Row& row : rows)
    if (row.here != row.there)
      text += fmt::format("{}{}{} instead of {}", text.empty() ? "" : ", ",
                          Count(row.there, row.word), row.of, row.here);
  return text.empty() ? "nothing" : text;
}

// Lexicographically.
bool Better(const Objective& a, const Objective& b) {
  const auto key = [](const Objective& o) {
    return std::array<int64_t, 7>{o.compute_groups, o.warps,      o.cross_bytes, o.waits,
                                  o.stages,         o.smem_bytes, -o.slack};
  };
  return key(a) < key(b);
}

// Stages that compute roles span, and compute roles.
std::pair<int64_t, int64_t> Shape(const Explanation& e) {
  int64_t low = INT64_MAX, high = INT64_MIN, roles = 0;
  for (const RoleFacts& role : e.roles) {
    bool computes = false;
    for (int v : role.ops) {
      if (e.graph.ops[v].variable_latency) continue;
      computes = true;
      low = std::min(low, e.ops[v].stage);
      high = std::max(high, e.ops[v].stage);
    }
    roles += computes ? 1 : 0;
  }
  return {roles == 0 ? 0 : high - low + 1, roles};
}

class Asking {
 public:
  Asking(const Explanation& e, const Question& question, SolveOptions options)
      : e_(e), q_(question), options_(std::move(options)) {
    answer_.question = question.text;
    least_ = e.certificate ? e.certificate->ii : e.schedule.ii;
  }

  Answer Run() {
    if (q_.kind == Question::Kind::kIi)
      Period();
    else
      Shape_();
    return std::move(answer_);
  }

 private:
  void Say(Answer::Kind kind, std::string text) {
    answer_.kind = kind;
    answer_.text = std::move(text);
  }

  bool CyclesPinned() const {
    return std::any_of(e_.graph.pins.begin(), e_.graph.pins.end(),
                       [](const scheduler::Graph::Pin& pin) { return pin.cycle >= 0; });
  }

  void Period() {
    const int64_t ii = q_.value;
    if (ii >= e_.schedule.ii && e_.report.violations.empty() && !CyclesPinned()) {
      Say(Answer::Kind::kPossible,
          ii == e_.schedule.ii
              ? fmt::format("II {} is this schedule's", ii)
              : fmt::format(
                    "II {} is possible: this schedule stays one with {} at the end of "
                    "its period; it costs {:.1f} % of the speed",
                    ii, Count(ii - e_.schedule.ii, "idle cycle"),
                    100.0 * static_cast<double>(ii - e_.schedule.ii) / static_cast<double>(ii)));
      return;
    }
    for (const scheduler::Bound& bound : e_.bounds) {
      if (bound.ii <= ii) continue;
      answer_.reasons.push_back(
          {fmt::format("{}, so II is at least {}", BoundText(e_.graph, bound), bound.ii),
           bound.ops});
    }
    if (!answer_.reasons.empty()) {
      Say(Answer::Kind::kImpossible,
          fmt::format("II {} is impossible in any schedule of any length", ii));
      return;
    }
    SolveOptions options = options_;
    options.fixed_ii = ii;
    Ask(options, ii, fmt::format("II {}", ii));
  }

  // stages=N, roles=N: at the smallest II.
  void Shape_() {
    const bool stages = q_.kind == Question::Kind::kStages;
    const auto [span, roles] = Shape(e_);
    const std::string what = stages ? fmt::format("compute within {}", Count(q_.value, "stage"))
                                    : fmt::format("at most {}", Count(q_.value, "compute role"));
    if (q_.value >= (stages ? span : roles)) {
      Say(Answer::Kind::kPossible,
          fmt::format("this schedule has no more: its compute roles are {} and span {}", roles,
                      Count(span, "stage")));
      return;
    }
    SolveOptions options = options_;
    if (stages)
      options.fixed_stages = static_cast<int>(q_.value);
    else
      options.fixed_compute_roles = static_cast<int>(q_.value);
    Ask(options, least_, what);
    if (answer_.kind == Answer::Kind::kPossible) return;
    DiagSink diags;
    const Result<scheduler::Solution> solution = scheduler::Solve(e_.problem, options, diags);
    if (solution.ok()) {
      answer_.text +=
          fmt::format("; with it, {} is possible{}: {}", Longer(solution->certificate.ii, least_),
                      solution->lower_bound == solution->certificate.ii
                          ? " and no less"
                          : fmt::format(" and nothing below {}", solution->lower_bound),
                      Instead(*solution));
    } else if (!diags.all().empty()) {
      answer_.text += "; at any II: " + diags.all().front().message;
    }
  }

  std::string Instead(const scheduler::Solution& s) const {
    return e_.certified() ? Costs(e_.certificate->objective, s.certificate.objective)
                          : fmt::format("{}, {}", Count(s.certificate.objective.warps, "warp"),
                                        Count(s.certificate.objective.stages, "stage"));
  }

  // Is `what` possible at this II?
  void Ask(const SolveOptions& options, int64_t ii, const std::string& what) {
    SolveOptions at = options;
    at.fixed_ii = ii;
    const Feasibility feasible = scheduler::FeasibleAt(e_.problem, ii, at);
    const std::string with = what == fmt::format("II {}", ii) ? "" : fmt::format(" at II {}", ii);
    switch (feasible.kind) {
      case Feasibility::Kind::kInfeasible:
        Say(Answer::Kind::kImpossible, fmt::format("{} is impossible{}", what, with));
        answer_.reasons = Shown(e_, Sentences(e_.problem, feasible.core, ii));
        return;
      case Feasibility::Kind::kUnknown: Unknown(ii, what, with); return;
      case Feasibility::Kind::kFeasible: break;
    }
    DiagSink diags;
    const Result<scheduler::Solution> solution = scheduler::Solve(e_.problem, at, diags);
    std::string cost;
    if (solution.ok()) {
      const bool better =
          e_.certified() && Better(solution->certificate.objective, e_.certificate->objective);
      cost = (better ? "; it would even be better: " : "; it would cost ") + Instead(*solution);
    }
    Say(Answer::Kind::kPossible, fmt::format("{} is possible{}{}", what, with, cost));
  }

  // An exhausted budget says nothing; but what is refuted above holds below.
  void Unknown(int64_t ii, const std::string& what, const std::string& with) {
    const bool below = options_.fixed_stages == std::nullopt && ii < e_.verdict.lower_bound &&
                       q_.kind == Question::Kind::kIi;
    if (!below) {
      Say(Answer::Kind::kUnknown,
          fmt::format("{}{}: the solver's budget ran out before an answer", what, with));
      return;
    }
    Say(Answer::Kind::kImpossible,
        fmt::format("II {} is impossible: II {} is refuted already, and a schedule at {} would "
                    "stay one with idle cycles",
                    ii, e_.verdict.lower_bound - 1, ii));
    answer_.reasons = e_.verdict.reasons;
  }

  const Explanation& e_;
  const Question& q_;
  const SolveOptions options_;
  Answer answer_;
  int64_t least_ = 0;
};

}  // namespace

Result<Question> ParseQuestion(const std::string& text, bool tunes, DiagSink& diags) {
  Question q;
  q.text = text;
  const size_t equals = text.find('=');
  q.name = text.substr(0, equals);
  const auto bad = [&](const std::string& help) {
    return diags.Report(kBadQuestion, Span{}, text).Place("command line").Help(help);
  };
  const std::string kinds =
      tunes ? "II=2047, stages=1, roles=1, or a tune: BM=64" : "II=2047, stages=1, roles=1";
  if (equals == std::string::npos || q.name.empty()) return bad("ask " + kinds);
  const char* begin = text.data() + equals + 1;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(begin, end, q.value);
  if (error != std::errc() || stop != end || q.value < 1 || q.value > (int64_t{1} << 40))
    return bad(fmt::format("give a whole number: {}=1", q.name));
  if (q.name == "II" || q.name == "ii")
    q.kind = Question::Kind::kIi;
  else if (q.name == "stages")
    q.kind = Question::Kind::kStages;
  else if (q.name == "roles")
    q.kind = Question::Kind::kRoles;
  else if (tunes)
    q.kind = Question::Kind::kTune;
  else
    return bad("a graph has no tunes: ask " + kinds);
  if (q.kind != Question::Kind::kTune && q.kind != Question::Kind::kIi && q.value > 1 << 20)
    return bad(fmt::format("{} is a small number", q.name));
  return q;
}

Answer AnswerQuestion(const Explanation& e, const Question& question, const SolveOptions& options) {
  return Asking(e, question, options).Run();
}

Answer Compare(const Explanation& here, const LoopProblem& problem, const Question& question,
               const LoopProblem& other, const scheduler::Solution& solution) {
  Answer answer;
  answer.question = question.text;
  answer.kind = Answer::Kind::kPossible;
  const int64_t ii = here.schedule.ii, there = solution.certificate.schedule_ii;
  const auto cost = [](int64_t cycles, double work) {
    return work > 0 ? 1e6 * static_cast<double>(cycles) / work : 0;
  };
  const double mine = cost(ii, problem.work), its = cost(there, other.work);
  const double change = mine > 0 ? 100 * (its - mine) / mine : 0;
  answer.text = fmt::format(
      "{} is possible: II {} for {:.3g} of the work of an iteration here; {:.1f} cycles for a "
      "million {} instead of {:.1f}, {}",
      question.text, there, problem.work > 0 ? other.work / problem.work : 0, its,
      problem.work_name, mine,
      change > 0.05    ? fmt::format("{:.1f} % slower", change)
      : change < -0.05 ? fmt::format("{:.1f} % faster", -change)
                       : "as fast");
  if (here.certified())
    answer.reasons.push_back(
        {"it would take " + Costs(here.certificate->objective, solution.certificate.objective),
         {}});
  answer.reasons.push_back(
      {fmt::format("what binds there: {}", solution.certificate.bound.text), {}});
  return answer;
}

}  // namespace tilec::explain
