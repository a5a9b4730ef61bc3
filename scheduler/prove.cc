// SPDX-License-Identifier: Apache-2.0
#include "scheduler/prove.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <utility>

#include "scheduler/diagnostics.h"
#include "scheduler/routes.h"
#include "scheduler/sat_solver.h"
#include "scheduler/search.h"

namespace tilec::scheduler {

namespace {

using certify::Cover;
using Kind = InfeasibilityProof::Kind;

constexpr int kMostCovers = 2000;
constexpr std::pair<Cover::Kind, certify::Law::Kind> kCounted[] = {
    {Cover::Kind::kRegisters, certify::Law::Kind::kRegisters},
    {Cover::Kind::kTmem, certify::Law::Kind::kTmem},
    {Cover::Kind::kPool, certify::Law::Kind::kRegisterPool}};

// A placement as the checker reads it: roles are numbered within their width.
certify::Placement AsRead(const Graph& graph, const Placement& p) {
  certify::Placement out;
  out.cycle = p.cycle;
  const std::vector<bool> absent = Absent(graph, p.group);
  std::map<int, std::map<int, int>> numbers;  // by width, by group
  const std::vector<int> owner = RoleOwners(graph);
  for (size_t v = 0; v < graph.ops.size(); ++v) {
    out.present.push_back(!absent[v]);
    if (graph.ops[owner[v]].variable_latency) {
      out.role.push_back(-1);
      continue;
    }
    std::map<int, int>& of = numbers[graph.ops[v].warps];
    const int next = static_cast<int>(of.size());
    out.role.push_back(of.try_emplace(p.group[v], next).first->second);
  }
  return out;
}

// The overflows that the search met on its way.
std::vector<Cover> CoversOf(const Graph& graph, int64_t ii, const Search::Verdict& verdict) {
  std::vector<Cover> covers;
  for (const Search::Refutation& refutation : verdict.refutations) {
    if (refutation.session == nullptr) continue;  // no capacity was needed
    for (const Placement& p : refutation.session->overflows)
      for (const auto& [kind, law] : kCounted)
        if (std::optional<Cover> cover = FindCover(graph, ii, AsRead(graph, p), kind))
          covers.push_back(*std::move(cover));
  }
  return covers;
}

// Adds an overflow of one of the laws asked about; false: there is none.
bool AddCover(const Graph& graph, int64_t ii, const certify::Placement& p,
              certify::Encoding* encoding, std::vector<Cover>* covers) {
  for (const auto& [kind, law] : kCounted) {
    if (!encoding->Has(law)) continue;
    std::optional<Cover> cover = FindCover(graph, ii, p, kind);
    if (!cover || !encoding->Add(*cover).empty()) continue;
    covers->push_back(*std::move(cover));
    return true;
  }
  return false;
}

}  // namespace

std::string ToText(const CoreItem& item) {
  return fmt::format("{} {} {}", item.law,
                     item.ops.empty() ? "-" : fmt::format("{}", fmt::join(item.ops, ",")),
                     item.text);
}

std::vector<CoreItem> InOrder(const Graph& graph, int64_t ii, std::vector<CoreItem> core) {
  std::map<std::string, size_t> place;
  for (const certify::Law& law : certify::Laws(graph, ii))
    place.try_emplace(ToText(law), place.size());
  std::stable_sort(core.begin(), core.end(), [&](const CoreItem& a, const CoreItem& b) {
    const auto x = place.find(ToText(a)), y = place.find(ToText(b));
    return (x == place.end() ? place.size() : x->second) <
           (y == place.end() ? place.size() : y->second);
  });
  return core;
}

InfeasibilityProof ProveCore(const Graph& graph, int64_t ii, const std::vector<CoreItem>& core,
                             std::vector<Cover> covers, int64_t conflict_limit) {
  InfeasibilityProof proof;
  certify::Refutation& r = proof.refutation;
  r.graph = graph.name;
  r.hash = Hash(graph);
  r.ii = ii;
  for (const CoreItem& item : core) r.core.push_back(ToText(item));
  const certify::Selection selection = Select(certify::Laws(graph, ii), r.core);
  proof.problem = selection.problem;
  if (!proof.problem.empty()) return proof;
  certify::Encoding encoding(graph, ii, selection.laws);
  for (Cover& cover : covers)
    if (encoding.Add(cover).empty()) r.covers.push_back(std::move(cover));
  while (true) {
    proof.problem = encoding.TooLarge();
    if (!proof.problem.empty()) return proof;
    SatResult result = SolveClauses(encoding.cnf(), conflict_limit);
    if (result.answer == SatAnswer::kUnknown || r.covers.size() > kMostCovers) {
      proof.problem = "the budget ended before a proof";
      return proof;
    }
    if (result.answer == SatAnswer::kUnsat) {
      r.drat = std::move(result.drat);
      proof.problem = CheckRefutation(graph, r);
      if (proof.problem.empty()) proof.kind = Kind::kRefuted;
      return proof;
    }
    if (AddCover(graph, ii, encoding.Decode(result.assignment), &encoding, &r.covers)) continue;
    proof.kind = Kind::kConsistent;
    proof.problem = fmt::format("its laws do not contradict each other at II {}", ii);
    return proof;
  }
}

InfeasibilityProof ProveInfeasible(const Graph& graph, int64_t ii, const SolveOptions& options,
                                   int64_t conflict_limit) {
  InfeasibilityProof proof;
  Search search(graph, options);
  const Search::Verdict verdict = search.At(ii, search.query_limit());
  if (verdict.answer != Answer::kUnsat) {
    if (verdict.answer == Answer::kSat) proof.kind = Kind::kConsistent;
    proof.problem = verdict.answer == Answer::kSat ? fmt::format("II {} is feasible", ii)
                                                   : "the budget ended before a refutation";
    return proof;
  }
  return ProveCore(graph, ii, InOrder(graph, ii, search.Explain(verdict)),
                   CoversOf(graph, ii, verdict), conflict_limit);
}

Result<certify::Refutation> VerifyProof(const Graph& graph, std::string_view text, int32_t file,
                                        DiagSink& diags) {
  certify::ParsedRefutation parsed = certify::ParseRefutation(text);
  if (!parsed.problem.empty()) {
    uint32_t begin = 0;
    for (int line = 1; line < parsed.line; ++line)
      begin = static_cast<uint32_t>(text.find('\n', begin)) + 1;
    const uint32_t end =
        parsed.line == 0 ? 0 : static_cast<uint32_t>(std::min(text.find('\n', begin), text.size()));
    return diags.Report(kCertificateSyntax, Span{file, begin, end}, parsed.problem);
  }
  const uint64_t hash = Hash(graph);
  if (parsed.refutation.hash != hash)
    return diags.Report(kCertificateMismatch, Span{file, 0, 0},
                        fmt::format("graph {:016x}", parsed.refutation.hash),
                        fmt::format("{:016x}", hash));
  const std::string problem = CheckRefutation(graph, parsed.refutation);
  if (!problem.empty())
    return diags.Report(
        kCertificateRefuted, Span{file, 0, 0},
        fmt::format("its proof does not refute II {}: {}", parsed.refutation.ii, problem));
  return std::move(parsed.refutation);
}

}  // namespace tilec::scheduler
