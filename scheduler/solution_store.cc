// SPDX-License-Identifier: Apache-2.0
#include "scheduler/solution_store.h"

#include <fmt/format.h>

#include "scheduler/diagnostics.h"
#include "scheduler/solver.h"
#include "support/lines.h"

namespace tilec::scheduler {

namespace {

// Of everything between a graph and its solution; raised when an answer may change.
constexpr int kVersion = 9;
constexpr std::string_view kCut = "\n--- certificate\n";

std::string Maybe(const std::optional<int64_t>& value) {
  return value ? fmt::format("{}", *value) : "free";
}

}  // namespace

std::string SolutionKey(const Graph& graph, const SolveOptions& options) {
  const SolveOptions& o = options;
  return (o.first_answer ? "first answer " : "") +
         fmt::format(
             "version {} solver {}\nepsilon {} limits {} {} modulo {} secondary {} roles {} laws "
             "{} {} {} "
             "ii {} stages {} compute {}\n{}",
             kVersion, SolverVersion(), static_cast<int64_t>(o.epsilon * 1e9), o.resource_limit,
             o.total_limit, o.modulo_scheduling, o.optimize_secondary, o.max_roles,
             o.cross_role_transfers, o.register_limits, o.warp_constraints, Maybe(o.fixed_ii),
             Maybe(o.fixed_stages), Maybe(o.fixed_compute_roles), ToText(graph));
}

std::string ToText(const Solution& solution) {
  return fmt::format("solution {} {} {}\n", solution.lower_bound, solution.first_ii,
                     solution.resources) +
         ir::ToText(solution.schedule) + std::string(kCut) + ToText(solution.certificate);
}

std::optional<Solution> SolutionFromText(const Graph& graph, const SolveOptions& options,
                                         std::string_view text) {
  const size_t line = text.find('\n'), cut = text.find(kCut);
  if (line == text.npos || cut == text.npos || cut < line) return std::nullopt;
  Solution solution;
  const std::vector<TextLine> head = SplitLines(text.substr(0, line), -1);
  if (head.size() != 1 || head[0].words.size() != 4 || head[0].words[0].text != "solution")
    return std::nullopt;
  int64_t* const fields[] = {&solution.lower_bound, &solution.first_ii, &solution.resources};
  for (size_t i = 0; i < 3; ++i) {
    const std::optional<int64_t> value = ParseInteger(head[0].words[i + 1].text);
    if (!value || *value < 0) return std::nullopt;
    *fields[i] = *value;
  }
  DiagSink damage;
  Result<ir::Schedule> schedule = ir::ParseSchedule(text.substr(line + 1, cut - line), -1, damage);
  Result<Certificate> certificate = ParseCertificate(text.substr(cut + kCut.size()), -1, damage);
  if (!schedule.ok() || !certificate.ok()) return std::nullopt;
  solution.schedule = *std::move(schedule);
  solution.certificate = *std::move(certificate);
  const uint64_t hash = Hash(graph);
  if (solution.schedule.graph_hash != hash || solution.certificate.graph_hash != hash ||
      solution.schedule.ii != solution.certificate.schedule_ii ||
      solution.lower_bound > solution.certificate.ii)
    return std::nullopt;
  solution.report = Check(graph, solution.schedule);
  const bool judged = options.register_limits && options.warp_constraints;
  if (judged && !solution.report.violations.empty()) return std::nullopt;
  return solution;
}

namespace {

// A search that ran out of its budget would do so again: its message is kept.
constexpr std::string_view kGivenUp = "given up\n";

std::optional<std::string> GivenUpMessage(std::string_view text) {
  if (!text.starts_with(kGivenUp)) return std::nullopt;
  text.remove_prefix(kGivenUp.size());
  while (text.ends_with('\n')) text.remove_suffix(1);
  return std::string(text);
}

}  // namespace

Result<Solution> SolveStored(const Graph& graph, const SolveOptions& options, SolutionStore* store,
                             DiagSink& diags) {
  if (store == nullptr) return Solve(graph, options, diags);
  const std::string key = SolutionKey(graph, options);
  if (const std::optional<std::string> text = store->Get(key)) {
    if (std::optional<Solution> solution = SolutionFromText(graph, options, *text))
      return *std::move(solution);
    if (const std::optional<std::string> message = GivenUpMessage(*text))
      return diags.ReportText(kOutOfBudget, graph.ops.empty() ? Span{} : graph.ops.front().at,
                              *message);
  }
  const std::string label = fmt::format("schedule {} {}", graph.name, graph.machine.name);
  DiagSink said;
  Result<Solution> solution = Solve(graph, options, said);
  if (solution.ok())
    store->Put(key, label, ToText(*solution));
  else if (said.all().size() == 1 && said.all()[0].def == &kOutOfBudget)
    store->Put(key, label, std::string(kGivenUp) + said.all()[0].message + "\n");
  said.MoveTo(diags);
  return solution;
}

}  // namespace tilec::scheduler
