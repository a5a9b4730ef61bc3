// Certificates as text, and their re-check, which believes nothing that is written in them.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <map>

#include "scheduler/diagnostics.h"
#include "scheduler/scheduler.h"
#include "scheduler/search.h"

namespace tilec::scheduler {

namespace {

constexpr std::pair<Bound::Kind, std::string_view> kBoundNames[] = {
    {Bound::Kind::kUnit, "unit"},
    {Bound::Kind::kRecurrence, "recurrence"},
    {Bound::Kind::kIssue, "issue"},
    {Bound::Kind::kResidency, "residency"},
};
constexpr std::pair<Proof, std::string_view> kProofNames[] = {
    {Proof::kNone, "none"}, {Proof::kBound, "bound"}, {Proof::kRefuted, "refuted"}};
constexpr std::pair<int64_t Objective::*, std::string_view> kObjectiveNames[] = {
    {&Objective::compute_groups, "wide_roles"},
    {&Objective::warps, "warps"},
    {&Objective::cross_bytes, "cross_bytes"},
    {&Objective::waits, "waits"},
    {&Objective::stages, "stages"},
    {&Objective::smem_bytes, "smem_bytes"},
    {&Objective::slack, "slack"}};

std::string List(const std::vector<int>& items) {
  std::string text;
  for (int item : items) text += fmt::format("{}{}", text.empty() ? "" : ",", item);
  return text.empty() ? "-" : text;
}

// Splits off the first word.
std::string_view Word(std::string_view* rest) {
  while (!rest->empty() && rest->front() == ' ') rest->remove_prefix(1);
  const size_t end = std::min(rest->find(' '), rest->size());
  const std::string_view word = rest->substr(0, end);
  rest->remove_prefix(std::min(end + 1, rest->size()));
  return word;
}

template <typename T>
bool Number(std::string_view text, T* value, int base = 10) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value, base);
  return error == std::errc() && end == text.data() + text.size();
}

bool Numbers(std::string_view text, std::vector<int>* values) {
  values->clear();
  if (text == "-") return true;
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    int value = 0;
    if (!Number(text.substr(0, comma), &value) || value < 0) return false;
    values->push_back(value);
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return true;
}

bool ParseBound(std::string_view rest, Bound* bound) {
  const std::string_view kind = Word(&rest);
  const auto* row = std::find_if(std::begin(kBoundNames), std::end(kBoundNames),
                                 [&](const auto& entry) { return entry.second == kind; });
  if (row == std::end(kBoundNames)) return false;
  bound->kind = row->first;
  if (!Number(Word(&rest), &bound->ii) || !Number(Word(&rest), &bound->unit)) return false;
  if (!Numbers(Word(&rest), &bound->ops) || !Numbers(Word(&rest), &bound->edges)) return false;
  bound->text = rest;
  return true;
}

bool ParseObjective(std::string_view rest, Certificate* c) {
  for (const auto& [field, name] : kObjectiveNames) {
    const std::string_view word = Word(&rest);
    const size_t equals = word.find('=');
    if (equals == std::string_view::npos || word.substr(0, equals) != name) return false;
    if (!Number(word.substr(equals + 1), &(c->objective.*field))) return false;
  }
  const std::string_view proved = Word(&rest);
  c->objective_proved = proved == "proved";
  return proved == "proved" || proved == "unproved";
}

bool ParseLine(std::string_view key, std::string_view rest, Certificate* c) {
  if (key == "certificate") return c->graph = rest, !rest.empty();
  if (key == "machine") return c->machine = rest, true;
  if (key == "hash") return Number(rest, &c->graph_hash, 16);
  if (key == "ii") return Number(rest, &c->ii) && c->ii >= 1;
  if (key == "schedule_ii") return Number(rest, &c->schedule_ii) && c->schedule_ii >= 1;
  if (key == "bound") return ParseBound(rest, &c->bound);
  if (key == "objective") return ParseObjective(rest, c);
  if (key == "proof") {
    for (const auto& [proof, name] : kProofNames)
      if (name == rest) return c->proof = proof, true;
    return false;
  }
  if (key == "epsilon") {
    int64_t parts = 0;  // per million: exact in text
    if (!Number(rest, &parts) || parts < 0) return false;
    c->epsilon = static_cast<double>(parts) / 1e6;
    return true;
  }
  if (key == "core") {
    CoreItem item;
    item.law = Word(&rest);
    if (item.law.empty() || !Numbers(Word(&rest), &item.ops)) return false;
    item.text = rest;
    c->core.push_back(std::move(item));
    return true;
  }
  return false;
}

}  // namespace

std::string ToText(const Certificate& c) {
  std::string out = fmt::format("certificate {}\nmachine {}\nhash {:016x}\nii {}\n", c.graph,
                                c.machine, c.graph_hash, c.ii);
  for (const auto& [kind, name] : kBoundNames)
    if (kind == c.bound.kind)
      out += fmt::format("bound {} {} {} {} {} {}\n", name, c.bound.ii, c.bound.unit,
                         List(c.bound.ops), List(c.bound.edges), c.bound.text);
  for (const auto& [proof, name] : kProofNames)
    if (proof == c.proof) out += fmt::format("proof {}\n", name);
  for (const CoreItem& item : c.core)
    out += fmt::format("core {} {} {}\n", item.law, List(item.ops), item.text);
  out += fmt::format("epsilon {}\nschedule_ii {}\nobjective",
                     static_cast<int64_t>(c.epsilon * 1e6 + 0.5), c.schedule_ii);
  for (const auto& [field, name] : kObjectiveNames)
    out += fmt::format(" {}={}", name, c.objective.*field);
  out += c.objective_proved ? " proved\n" : " unproved\n";
  return out;
}

Result<Certificate> ParseCertificate(std::string_view text, int32_t file, DiagSink& diags) {
  Certificate c;
  constexpr std::string_view kNeeded[] = {"certificate", "machine", "hash",        "ii",
                                          "bound",       "proof",   "schedule_ii", "objective"};
  std::map<std::string, int, std::less<>> seen;
  uint32_t offset = 0;
  while (offset < text.size()) {
    const size_t end = std::min(text.find('\n', offset), text.size());
    std::string_view line = text.substr(offset, end - offset);
    const Span span{file, offset, static_cast<uint32_t>(end)};
    offset = static_cast<uint32_t>(end + 1);
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    if (line.empty() || line.front() == '#') continue;
    std::string_view rest = line;
    const std::string key(Word(&rest));
    if (!ParseLine(key, rest, &c))
      return diags.Report(kCertificateSyntax, span,
                          fmt::format("this line of a certificate cannot be read: `{}`", line));
    if (++seen[key] > 1 && key != "core")
      return diags.Report(kCertificateSyntax, span, fmt::format("a second line `{}`", key));
  }
  for (std::string_view key : kNeeded)
    if (seen.find(key) == seen.end())
      return diags.Report(kCertificateSyntax, Span{file, 0, 0},
                          fmt::format("the certificate has no line `{}`", key));
  return c;
}

Result<> VerifyCertificate(const Graph& graph, const ir::Schedule& schedule, const Certificate& c,
                           DiagSink& diags, int64_t refuted_ii) {
  auto refuted = [&](const std::string& why) {
    return diags.Report(kCertificateRefuted, Span{}, why).Place("certificate of " + c.graph);
  };
  const uint64_t hash = Hash(graph);
  if (c.graph_hash != hash)
    return diags
        .Report(kCertificateMismatch, Span{}, fmt::format("graph {:016x}", c.graph_hash),
                fmt::format("{:016x}", hash))
        .Place("certificate of " + c.graph);
  if (schedule.graph_hash != hash)
    return refuted(fmt::format("its schedule is for graph {:016x}", schedule.graph_hash));
  if (schedule.ii != c.schedule_ii)
    return refuted(fmt::format("its schedule has II {}, not {}", schedule.ii, c.schedule_ii));
  if (static_cast<double>(c.schedule_ii) > static_cast<double>(c.ii) * (1 + c.epsilon) + 1e-6)
    return refuted(fmt::format("II {} is more than epsilon above {}", c.schedule_ii, c.ii));
  if (c.schedule_ii < c.ii)
    return refuted(fmt::format("its schedule is faster than the claimed best {}", c.ii));
  for (const CheckReport& report : {Check(graph, schedule), Simulate(graph, schedule)})
    if (!report.violations.empty())
      return refuted("its schedule breaks the law `" + report.violations.front().law +
                     "`: " + report.violations.front().text);
  // Slack stays 0 where nobody asked for it.
  const Search::Found found = FoundOf(graph, schedule);
  const Objective seen = ObjectiveOf(graph, {}, found);
  for (const auto& [field, name] : kObjectiveNames)
    if (field != &Objective::slack && seen.*field != c.objective.*field)
      return refuted(
          fmt::format("the schedule's {} is {}, not {}", name, seen.*field, c.objective.*field));
  if (const int64_t slack = SlackOf(graph, found); c.objective.slack > slack)
    return refuted(fmt::format("the schedule's slack is {}, not {}", slack, c.objective.slack));
  // The claimed best is reached: by the schedule itself, or by another one found now.
  const SolveOptions options;
  if (c.schedule_ii != c.ii) {
    const Feasibility reached = FeasibleAt(graph, c.ii, options);
    if (reached.kind != Feasibility::Kind::kFeasible ||
        !Check(graph, reached.schedule).violations.empty())
      return refuted(fmt::format("no schedule with II {} was found", c.ii));
  }
  if (refuted_ii >= c.ii) return refuted(fmt::format("II {} is refuted by the proof", refuted_ii));
  switch (c.proof) {
    case Proof::kNone: break;
    case Proof::kBound: {
      const Bound bound = BestBound(graph);
      if (bound.ii != c.ii)
        return refuted(fmt::format("the bound is {}, not {}: {}", bound.ii, c.ii, bound.text));
      break;
    }
    case Proof::kRefuted: {
      if (c.ii <= 1 || refuted_ii == c.ii - 1) break;
      const Feasibility below = FeasibleAt(graph, c.ii - 1, options);
      if (below.kind == Feasibility::Kind::kFeasible)
        return refuted(fmt::format("II {} is feasible", c.ii - 1));
      if (below.kind == Feasibility::Kind::kUnknown)
        return refuted(fmt::format("II {} could not be refuted within the budget", c.ii - 1));
      break;
    }
  }
  return Done();
}

}  // namespace tilec::scheduler
