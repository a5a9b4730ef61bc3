// SPDX-License-Identifier: Apache-2.0
#include "scheduler/prove.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "scheduler/diagnostics.h"
#include "scheduler/search.h"
#include "support/lines.h"

namespace tilec::scheduler {

namespace {

// The laws of these guards, and the model's cuts, as clauses.
Cnf Encode(const Model& model, const std::vector<int>& core) {
  const Graph& graph = model.graph();
  const int64_t spread = StageSpread(graph, model.ii());
  std::vector<std::pair<int64_t, int64_t>> range(model.formulas().num_ints(), {0, 0});
  for (int v = 0; v < static_cast<int>(graph.ops.size()); ++v) {
    range[model.stage(v).index] = {-spread, spread};
    range[model.slot(v).index] = {0, model.ii() - 1};
  }
  std::vector<Lit> guards, assumed;
  for (const Model::Guard& guard : model.guards()) guards.push_back(guard.lit);
  for (int g : core) assumed.push_back(guards[g]);
  return OrderEncode(model.formulas(), guards, assumed, range);
}

}  // namespace

InfeasibilityProof ProveInfeasible(const Graph& graph, int64_t ii, const SolveOptions& options,
                                   int64_t conflict_limit) {
  InfeasibilityProof proof;
  proof.ii = ii;
  Search search(graph, options);
  const Search::Verdict verdict = search.At(ii, search.query_limit());
  if (verdict.answer != Answer::kUnsat) {
    proof.problem = verdict.answer == Answer::kSat ? fmt::format("II {} is feasible", ii)
                                                   : "the budget ended before a refutation";
    return proof;
  }
  for (const Search::Refutation& refutation : verdict.refutations) {
    Model& model = refutation.session->model;
    const std::vector<Lit> core = search.Minimize(*refutation.session, refutation.core);
    OfferProof offer;
    offer.roles = RolesText(model.offer());
    std::vector<Lit> guards;
    for (const Model::Guard& guard : model.guards()) {
      guards.push_back(guard.lit);
      if (std::find(core.begin(), core.end(), guard.lit) != core.end())
        offer.core.push_back({LawName(guard.law), guard.text, guard.ops});
    }
    offer.widths = model.offer().widths;
    offer.overflows = refutation.session->overflows;
    for (size_t g = 0; g < guards.size(); ++g)
      if (std::find(core.begin(), core.end(), guards[g]) != core.end())
        offer.guards.push_back(static_cast<int>(g));
    offer.cnf = Encode(model, offer.guards);
    const SatAnswer answer = SolveWithProof(offer.cnf, conflict_limit, &offer.drat);
    if (answer == SatAnswer::kUnsat) offer.check = CheckDrat(offer.cnf, offer.drat);
    const bool accepted = offer.check.accepted;
    if (!accepted && proof.problem.empty())
      proof.problem =
          answer == SatAnswer::kUnsat
              ? fmt::format("{}: {}", offer.roles, offer.check.problem)
              : fmt::format("{}: no propositional proof within the budget", offer.roles);
    proof.offers.push_back(std::move(offer));
  }
  proof.complete = proof.problem.empty();
  return proof;
}

std::string ToText(const Graph& graph, const InfeasibilityProof& proof) {
  std::string out =
      fmt::format("proof {}\nhash {:016x}\nii {}\n", graph.name, Hash(graph), proof.ii);
  for (const OfferProof& offer : proof.offers) {
    out += fmt::format("roles {}\nlaws {}\n", fmt::join(offer.widths, " "),
                       fmt::join(offer.guards, " "));
    for (const Placement& p : offer.overflows)
      out += fmt::format("cut {} {}\n", fmt::join(p.cycle, " "), fmt::join(p.group, " "));
    out += "drat\n" + offer.drat;
    if (!offer.drat.empty() && offer.drat.back() != '\n') out += '\n';
    out += "end\n";
  }
  return out;
}

namespace {

// What the text claims; nothing of it is believed.
struct Claim {
  uint64_t hash = 0;
  int64_t ii = 0;
  std::vector<OfferProof> offers;
};

std::optional<std::vector<int64_t>> Integers(const TextLine& line, size_t first) {
  std::vector<int64_t> out;
  for (size_t i = first; i < line.words.size(); ++i) {
    const std::optional<int64_t> value = ParseInteger(line.words[i].text);
    constexpr int64_t kMost = int64_t{1} << 40;
    if (!value || *value > kMost || *value < -kMost) return std::nullopt;
    out.push_back(*value);
  }
  return out;
}

class ProofReader {
 public:
  ProofReader(const Graph& graph, std::string_view text, int32_t file, DiagSink& diags)
      : graph_(graph), text_(text), file_(file), diags_(diags) {}

  Result<Claim> Run() {
    for (const TextLine& line : SplitLines(text_, file_)) {
      const std::string_view key = line.words[0].text;
      if (in_drat_) {
        if (key == "end") {
          in_drat_ = false;
          continue;
        }
        claim_.offers.back().drat += std::string(line.text) + "\n";
        continue;
      }
      if (!Line(key, line))
        return diags_.Report(
            kCertificateSyntax, line.span,
            fmt::format("this line of a proof cannot be read: `{}`", line.text.substr(0, 60)));
    }
    if (!seen_name_ || claim_.ii < 1 || in_drat_)
      return diags_.Report(
          kCertificateSyntax, Span{file_, 0, 0},
          "a proof has lines `proof`, `hash`, `ii`, and ends each `drat` by `end`");
    return std::move(claim_);
  }

 private:
  bool Line(std::string_view key, const TextLine& line) {
    const size_t n = graph_.ops.size();
    if (key == "proof") return seen_name_ = line.words.size() == 2;
    if (key == "hash") {
      if (line.words.size() != 2 || line.words[1].text.size() != 16) return false;
      const std::string_view word = line.words[1].text;
      const auto [end, error] =
          std::from_chars(word.data(), word.data() + word.size(), claim_.hash, 16);
      return error == std::errc() && end == word.data() + word.size();
    }
    const std::optional<std::vector<int64_t>> numbers = Integers(line, 1);
    if (!numbers) return false;
    if (key == "ii") {
      if (numbers->size() != 1) return false;
      claim_.ii = numbers->front();
      return claim_.ii >= 1;
    }
    if (key == "roles") {
      claim_.offers.emplace_back();
      for (int64_t width : *numbers) {
        if (width < 1 || width > 64 || numbers->size() > 64) return false;
        claim_.offers.back().widths.push_back(static_cast<int>(width));
      }
      return true;
    }
    if (claim_.offers.empty()) return false;
    OfferProof& offer = claim_.offers.back();
    if (key == "laws") {
      for (int64_t g : *numbers) offer.guards.push_back(static_cast<int>(g));
      return true;
    }
    if (key == "cut") {
      if (numbers->size() != 2 * n) return false;
      Placement p;
      p.cycle.assign(numbers->begin(), numbers->begin() + static_cast<int64_t>(n));
      for (size_t v = 0; v < n; ++v) p.group.push_back(static_cast<int>((*numbers)[n + v]));
      offer.overflows.push_back(std::move(p));
      return true;
    }
    return in_drat_ = key == "drat" && line.words.size() == 1;
  }

  const Graph& graph_;
  std::string_view text_;
  int32_t file_;
  DiagSink& diags_;
  Claim claim_;
  bool seen_name_ = false, in_drat_ = false;
};

// Empty: the offer is refuted.
std::string CheckOffer(const Graph& graph, int64_t ii, const RoleOffer& roles,
                       const OfferProof& claim) {
  const SolveOptions options;
  Model model(graph, ii, roles, options);
  for (const Placement& p : claim.overflows) {
    for (size_t v = 0; v < graph.ops.size(); ++v)
      if (p.group[v] < 0 || p.group[v] >= roles.Groups())
        return "a cut names a role that is not there";
    model.AddCuts(p);
  }
  for (int g : claim.guards)
    if (g < 0 || g >= static_cast<int>(model.guards().size()))
      return "it names a law that is not there";
  const DratCheck check = CheckDrat(Encode(model, claim.guards), claim.drat);
  return check.accepted ? std::string() : check.problem;
}

}  // namespace

Result<int64_t> VerifyProof(const Graph& graph, std::string_view text, int32_t file,
                            DiagSink& diags) {
  TRY(const Claim claim, ProofReader(graph, text, file, diags).Run());
  const uint64_t hash = Hash(graph);
  if (claim.hash != hash)
    return diags.Report(kCertificateMismatch, Span{file, 0, 0},
                        fmt::format("graph {:016x}", claim.hash), fmt::format("{:016x}", hash));
  // Cycles that are pinned move with the period, so one refutation says nothing of smaller ones.
  const SolveOptions options;
  const Search search(graph, options);
  for (const RoleOffer& roles : search.offers().Largest()) {
    if (!search.IssueFits(roles, claim.ii)) continue;
    std::string why = "it says nothing about them";
    for (const OfferProof& offer : claim.offers)
      if (offer.widths == roles.widths) why = CheckOffer(graph, claim.ii, roles, offer);
    if (!why.empty())
      return diags.Report(kCertificateRefuted, Span{file, 0, 0},
                          fmt::format("its proof does not refute II {} with {}: {}", claim.ii,
                                      RolesText(roles), why));
  }
  return claim.ii;
}

}  // namespace tilec::scheduler
