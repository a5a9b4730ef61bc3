// Forged certificates and proofs. Every field, every line, truncations, doubled and swapped lines,
// lines of other certificates, numbers one off and huge: refused, whether or not the forger adds
// the lines up again. What is written as it was is accepted, with its proof and without.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "scheduler/diagnostics.h"
#include "scheduler/prove.h"
#include "scheduler/scheduler.h"
#include "tests/unit/scheduler/exhaustive.h"
#include "tests/unit/scheduler/test_graphs.h"

namespace tilec::scheduler {
namespace {

struct Genuine {
  Graph graph;
  Solution solution;
  std::string text;
};

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

std::string Joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

// What a forger who knows the format writes as the last line.
std::string AddedUp(std::vector<std::string> lines) {
  std::erase_if(lines, [](const std::string& line) { return line.starts_with("sum "); });
  std::string text = Joined(lines);
  uint64_t sum = 14695981039346656037u;
  for (const char c : text) sum = (sum ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return text + fmt::format("sum {:016x}\n", sum);
}

// The line with one of its numbers changed, in each of a few ways.
std::vector<std::string> Changed(const std::string& line) {
  std::vector<std::string> out;
  for (size_t at = 0; at < line.size();) {
    size_t end = at;
    while (end < line.size() && std::isdigit(static_cast<unsigned char>(line[end])) != 0) ++end;
    if (end == at) {
      ++at;
      continue;
    }
    const std::string digits = line.substr(at, end - at);
    const unsigned long long value = digits.size() < 18 ? std::stoull(digits) : 7;
    for (const std::string& other :
         {std::to_string(value + 1), std::to_string(value == 0 ? 2 : value - 1), std::string("0"),
          std::string("9223372036854775807"), std::string("99999999999999999999"), "-" + digits,
          digits + "0"})
      if (other != digits) out.push_back(line.substr(0, at) + other + line.substr(end));
    at = end;
  }
  return out;
}

std::vector<std::string> Forgeries(const std::string& text, const std::string& other) {
  const std::vector<std::string> lines = Lines(text), others = Lines(other);
  std::vector<std::vector<std::string>> edited;
  const std::map<std::string, std::vector<std::string>> words = {
      {" proved", {" unproved", ""}},
      {" unproved", {" proved", ""}},
      {"proof bound", {"proof none", "proof refuted"}},
      {"proof none", {"proof bound", "proof refuted"}},
      {"proof refuted", {"proof none", "proof bound"}},
      {"bound unit", {"bound recurrence", "bound issue", "bound residency"}},
      {"bound issue", {"bound unit", "bound recurrence"}},
      {"bound recurrence", {"bound unit", "bound issue"}}};
  for (size_t i = 0; i < lines.size(); ++i) {
    auto with = [&](std::vector<std::string> in_place) {
      std::vector<std::string> copy(lines.begin(), lines.begin() + static_cast<int64_t>(i));
      copy.insert(copy.end(), in_place.begin(), in_place.end());
      copy.insert(copy.end(), lines.begin() + static_cast<int64_t>(i) + 1, lines.end());
      if (copy != lines) edited.push_back(std::move(copy));
    };
    with({});
    with({lines[i], lines[i]});
    with({lines[i] + " "});
    with({lines[i] + "x"});
    with({lines[i] + "\r"});
    with({lines[i], "# a remark"});
    with({lines[i], "core unit - because"});
    with({lines[i], "core registers - at most 1 live registers per thread of a role"});
    if (lines[i].starts_with("core ")) with({"core unit - because"});
    if (i + 1 < lines.size()) {
      std::vector<std::string> swapped = lines;
      std::swap(swapped[i], swapped[i + 1]);
      if (swapped != lines) edited.push_back(std::move(swapped));
    }
    for (const std::string& changed : Changed(lines[i])) with({changed});
    for (const auto& [word, instead] : words)
      if (const size_t at = lines[i].find(word); at != std::string::npos)
        for (const std::string& other_word : instead)
          with({lines[i].substr(0, at) + other_word + lines[i].substr(at + word.size())});
    for (const std::string& foreign : others)
      if (foreign.substr(0, foreign.find(' ')) == lines[i].substr(0, lines[i].find(' ')))
        with({foreign});
  }
  std::vector<std::string> forged;
  for (const std::vector<std::string>& edit : edited) {
    forged.push_back(Joined(edit));
    forged.push_back(AddedUp(edit));
  }
  for (size_t cut = 0; cut < text.size(); cut += 1 + text.size() / 60)
    forged.push_back(text.substr(0, cut));
  forged.push_back(text.substr(0, text.size() - 1));
  forged.push_back(text + "\n");
  forged.push_back(text + text);
  forged.push_back(other);
  std::erase(forged, text);
  return forged;
}

// A forger who adds up again may claim less, and say another ε that means the same.
bool ClaimsNoMore(Certificate c, const Certificate& genuine) {
  c.epsilon = genuine.epsilon;
  if (!c.objective_proved) c.objective_proved = genuine.objective_proved;
  return ToText(c) == ToText(genuine);
}

bool Accepted(const Genuine& g, const std::string& text, bool* no_more) {
  DiagSink diags;
  const Result<Certificate> parsed = ParseCertificate(text, -1, diags);
  if (!parsed.ok()) return false;
  *no_more = ClaimsNoMore(*parsed, g.solution.certificate);
  if (*no_more) return true;
  return VerifyCertificate(g.graph, g.solution.schedule, *parsed, diags).ok();
}

// Or find other laws of the graph that contradict each other: a refutation as good, and verified.
bool OtherLaws(const Genuine& g, const std::string& text) {
  DiagSink diags;
  const Result<Certificate> parsed = ParseCertificate(text, -1, diags);
  if (!parsed.ok() || g.solution.certificate.proof != Proof::kRefuted) return false;
  Certificate c = *parsed;
  c.core = g.solution.certificate.core;
  return ClaimsNoMore(c, g.solution.certificate);
}

Genuine Solved(Graph graph) {
  Genuine g{std::move(graph), {}, ""};
  DiagSink diags;
  Result<Solution> solution = Solve(g.graph, {}, diags);
  EXPECT_TRUE(solution.ok()) << diags.all()[0].message;
  if (!solution.ok()) return g;
  g.solution = *std::move(solution);
  g.text = ToText(g.solution.certificate);
  const Result<Certificate> parsed = ParseCertificate(g.text, -1, diags);
  EXPECT_TRUE(parsed.ok() && VerifyCertificate(g.graph, g.solution.schedule, *parsed, diags).ok())
      << (diags.all().empty() ? "" : diags.all().back().message) << "\n"
      << g.text;
  return g;
}

void Forge(const std::vector<Genuine>& all, std::set<Proof> kinds) {
  std::set<Proof> seen;
  for (size_t i = 0; i < all.size(); ++i) {
    const Genuine& g = all[i];
    seen.insert(g.solution.certificate.proof);
    int refused = 0, less = 0;
    for (const std::string& text : Forgeries(g.text, all[(i + 1) % all.size()].text)) {
      bool no_more = false;
      if (!Accepted(g, text, &no_more)) {
        ++refused;
        continue;
      }
      ++less;
      EXPECT_TRUE(no_more || OtherLaws(g, text)) << g.graph.name << ": accepted\n"
                                                 << text << "in place of\n"
                                                 << g.text;
    }
    EXPECT_GT(refused, 100) << g.graph.name;
    fmt::print("{}: {} forgeries refused, {} claim no more than the certificate\n", g.graph.name,
               refused, less);
  }
  EXPECT_EQ(seen, kinds);
}

// Graphs whose smallest period no bound explains.
std::vector<Genuine> Refuted(size_t number, uint64_t seed) {
  std::vector<Genuine> all;
  for (seed += SeedShift(); all.size() < number; ++seed) {
    Graph graph = seed % 2 == 0 ? RandomPoolGraph(seed) : RandomGraph(seed, 5, seed % 4 == 1);
    graph.name = fmt::format("random{}", seed);
    SolveOptions options;
    options.optimize_secondary = false;
    DiagSink diags;
    const Result<Solution> solution = Solve(graph, options, diags);
    if (solution.ok() && solution->certificate.proof == Proof::kRefuted)
      all.push_back(Solved(graph));
  }
  return all;
}

TEST(Forgeries, OfRefutationsAreRefused) { Forge(Refuted(14, 300), {Proof::kRefuted}); }

TEST(Forgeries, OfBoundsAreRefused) {
  std::vector<Genuine> all;
  for (const char* name : {"gemm_hopper", "gemm_blackwell", "attention_forward_hopper"})
    all.push_back(Solved(LoadGraph(name)));
  for (uint64_t seed = 700 + SeedShift(); all.size() < 12; ++seed) {
    Graph graph = RandomGraph(seed, 6, seed % 2 == 0);
    graph.name = fmt::format("random{}", seed);
    DiagSink diags;
    const Result<Solution> solution = Solve(graph, {}, diags);
    if (solution.ok() && solution->certificate.proof == Proof::kBound) all.push_back(Solved(graph));
  }
  Forge(all, {Proof::kBound});
}

// The schedule of a longer period says that it is reached, and never that it is the smallest.
TEST(Forgeries, APeriodThatWasAskedForIsNotTheSmallest) {
  const Graph graph = LoadGraph("gemm_hopper");
  SolveOptions options;
  options.fixed_ii = 1100;
  DiagSink diags;
  const Result<Solution> solution = Solve(graph, options, diags);
  ASSERT_TRUE(solution.ok());
  Certificate c = solution->certificate;
  EXPECT_EQ(c.proof, Proof::kNone);
  EXPECT_TRUE(VerifyCertificate(graph, solution->schedule, c, diags).ok());
  for (const Proof proof : {Proof::kBound, Proof::kRefuted}) {
    c.proof = proof;
    EXPECT_FALSE(VerifyCertificate(graph, solution->schedule, c, diags).ok());
    c.core = {{"unit", "1 of unit tensor", {2, 3}, {}}};
    EXPECT_FALSE(VerifyCertificate(graph, solution->schedule, c, diags).ok());
    c.core.clear();
  }
}

// Proofs: a changed line refutes what it did before, or nothing.
TEST(Forgeries, OfProofsAreRefused) {
  std::mt19937 random(3);
  for (const Genuine& g : Refuted(4, 900)) {
    const int64_t ii = g.solution.certificate.ii - 1;
    const InfeasibilityProof proof = ProveCore(g.graph, ii, g.solution.certificate.core);
    ASSERT_TRUE(proof.complete()) << proof.problem;
    const std::string text = ToText(proof.refutation);
    DiagSink diags;
    const Result<certify::Refutation> read = VerifyProof(g.graph, text, -1, diags);
    ASSERT_TRUE(read.ok()) << diags.all()[0].message;
    EXPECT_TRUE(
        VerifyCertificate(g.graph, g.solution.schedule, g.solution.certificate, diags, &*read)
            .ok());
    const std::vector<std::string> lines = Lines(text);
    int refused = 0;
    auto attempt = [&](const std::string& forged) {
      const Result<certify::Refutation> r = VerifyProof(g.graph, forged, -1, diags);
      if (!r.ok()) return static_cast<void>(++refused);
      EXPECT_LE(r->ii, ii) << forged;  // smaller periods have no schedule either
      const Certificate& c = g.solution.certificate;
      const bool fits = VerifyCertificate(g.graph, g.solution.schedule, c, diags, &*r).ok();
      EXPECT_TRUE(!fits || r->core == read->core) << forged;
    };
    for (size_t i = 0; i < lines.size(); ++i) {
      if (i > 40 && random() % 32 != 0) continue;
      for (const std::string& changed : Changed(lines[i])) {
        std::vector<std::string> copy = lines;
        copy[i] = changed;
        attempt(Joined(copy));
      }
      std::vector<std::string> less = lines;
      less.erase(less.begin() + static_cast<int64_t>(i));
      attempt(Joined(less));
      attempt(Joined({lines.begin(), lines.begin() + static_cast<int64_t>(i)}));
    }
    EXPECT_GT(refused, 40) << g.graph.name;
    fmt::print("{}: {} forged proofs refused\n", g.graph.name, refused);
  }
}

}  // namespace
}  // namespace tilec::scheduler
