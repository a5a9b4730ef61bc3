// Certificates as text. One certificate has one text: what differs in a byte from what would be
// written is refused, so nothing in a file stands there unread. Its last line adds up the others:
// that finds damage, not lies; those are scheduler/verify.cc's.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <map>

#include "scheduler/diagnostics.h"
#include "scheduler/objective.h"
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

constexpr int64_t kMillion = 1'000'000;

// FNV-1a, 64 bits.
uint64_t SumOf(std::string_view text) {
  uint64_t sum = 14695981039346656037u;
  for (const char c : text) sum = (sum ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return sum;
}

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
    if (!Number(rest, &parts) || parts < 0 || parts > kMillion) return false;
    c->epsilon = static_cast<double>(parts) / kMillion;
    return true;
  }
  if (key == "within") return Number(rest, &c->within) && c->within >= 1;
  if (key == "sum") return rest.size() == 16;  // compared with all of the text
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

int64_t Millionths(double epsilon) {
  return static_cast<int64_t>(epsilon * static_cast<double>(kMillion) + 0.5);
}

int64_t LargestWithin(int64_t ii, double epsilon) {
  const int64_t parts = Millionths(epsilon);  // ii·(1 + parts/10⁶), without overflow
  return ii + ii / kMillion * parts + ii % kMillion * parts / kMillion;
}

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
  out += fmt::format("epsilon {}\nwithin {}\nschedule_ii {}\nobjective", Millionths(c.epsilon),
                     c.within, c.schedule_ii);
  for (const auto& [field, name] : kObjectiveNames)
    out += fmt::format(" {}={}", name, c.objective.*field);
  out += c.objective_proved ? " proved\n" : " unproved\n";
  return out + fmt::format("sum {:016x}\n", SumOf(out));
}

Result<Certificate> ParseCertificate(std::string_view text, int32_t file, DiagSink& diags) {
  Certificate c;
  constexpr std::string_view kNeeded[] = {"certificate", "machine",   "hash",    "ii",
                                          "bound",       "proof",     "epsilon", "within",
                                          "schedule_ii", "objective", "sum"};
  std::map<std::string, int, std::less<>> seen;
  uint32_t offset = 0;
  while (offset < text.size()) {
    const size_t end = std::min(text.find('\n', offset), text.size());
    std::string_view line = text.substr(offset, end - offset);
    const Span span{file, offset, static_cast<uint32_t>(end)};
    offset = static_cast<uint32_t>(end + 1);
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
  const std::string own = ToText(c);
  if (own == text) return c;
  const size_t at = static_cast<size_t>(
      std::mismatch(text.begin(), text.end(), own.begin(), own.end()).first - text.begin());
  const size_t begin = at == 0 ? 0 : text.rfind('\n', at - 1) + 1;
  const size_t end = std::min(text.find('\n', begin), text.size());
  const std::string line(text.substr(begin, end - begin));
  return diags.Report(
      kCertificateSyntax, Span{file, static_cast<uint32_t>(begin), static_cast<uint32_t>(end)},
      line.starts_with("sum ")
          ? "the certificate's lines do not add up to its `sum`: it was changed"
          : fmt::format("a certificate with this content has another text here: `{}`", line));
}

}  // namespace tilec::scheduler
