// Certificates: text, re-check, and what a forged one says.
//
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "scheduler/diagnostics.h"
#include "scheduler/prove.h"
#include "scheduler/scheduler.h"
#include "tests/unit/scheduler/test_graphs.h"

namespace tilec::scheduler {
namespace {

class CertificateTest : public testing::Test {
 protected:
  void SetUp() override {
    // Two ops on a unit of one instance, and a recurrence with a role switch that costs a cycle
    // more than the bounds see.
    const int u = b.Unit("u");
    const int a = b.Op("a", 2, 2, u, 2), c = b.Op("c", 2, 2, u, 2), d = b.Op("d", 2, 3);
    b.Edge(a, c);
    b.Edge(c, d);
    b.Edge(d, a, EdgeKind::kRegister, 1);
    DiagSink diags;
    Result<Solution> solved = Solve(b.graph, {}, diags);
    ASSERT_TRUE(solved.ok());
    solution = *solved;
  }
  const DiagDef* Verify(const Certificate& certificate) {
    DiagSink diags;
    if (VerifyCertificate(b.graph, solution.schedule, certificate, diags).ok()) return nullptr;
    return diags.all().front().def;
  }
  GraphBuilder b;
  Solution solution;
};

TEST_F(CertificateTest, HoldsAndSurvivesText) {
  EXPECT_EQ(Verify(solution.certificate), nullptr);
  const std::string text = ToText(solution.certificate);
  DiagSink diags;
  const Result<Certificate> parsed = ParseCertificate(text, 0, diags);
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(ToText(*parsed), text);
  EXPECT_EQ(Verify(*parsed), nullptr);
}

TEST_F(CertificateTest, ForgeriesAreRefuted) {
  Certificate faster = solution.certificate;
  faster.ii -= 1;
  EXPECT_EQ(Verify(faster), &kCertificateRefuted);
  Certificate slower = solution.certificate;
  slower.ii += 1;
  slower.schedule_ii += 1;
  EXPECT_EQ(Verify(slower), &kCertificateRefuted);
  Certificate fewer = solution.certificate;
  fewer.objective.warps -= 1;
  EXPECT_EQ(Verify(fewer), &kCertificateRefuted);
  Certificate looser = solution.certificate;
  looser.objective.slack -= 1;
  EXPECT_EQ(Verify(looser), &kCertificateRefuted);
  Certificate other = solution.certificate;
  other.graph_hash ^= 1;
  EXPECT_EQ(Verify(other), &kCertificateMismatch);
}

TEST_F(CertificateTest, ARefutationThatDoesNotExistIsNoticed) {
  SolveOptions options;
  options.fixed_ii = solution.certificate.ii + 3;
  DiagSink diags;
  Result<Solution> slow = Solve(b.graph, options, diags);
  ASSERT_TRUE(slow.ok());
  EXPECT_EQ(slow->certificate.proof, Proof::kNone);
  slow->certificate.proof = Proof::kRefuted;
  EXPECT_FALSE(VerifyCertificate(b.graph, slow->schedule, slow->certificate, diags).ok());
  EXPECT_EQ(diags.all().back().def, &kCertificateRefuted);
}

TEST_F(CertificateTest, DamagedTextGivesADiagnosticWithThePlace) {
  const std::string text = ToText(solution.certificate);
  for (size_t cut = 0; cut < text.size(); cut += 7) {
    DiagSink diags;
    const Result<Certificate> parsed = ParseCertificate(text.substr(0, cut), 0, diags);
    if (!parsed.ok()) {
      ASSERT_EQ(diags.all().size(), 1u);
      EXPECT_EQ(diags.all()[0].def, &kCertificateSyntax);
      EXPECT_TRUE(diags.all()[0].span.known());
    }
  }
  for (const char* line : {"ii 0\n", "ii x\n", "nonsense 3\n", "proof maybe\n", "bound unit\n",
                           "core\n", "objective wide_roles=1\n", "hash zz\n"}) {
    DiagSink diags;
    EXPECT_FALSE(ParseCertificate(line + text, 0, diags).ok()) << line;
  }
}

// The refutations of attention forward as propositional proofs: written, read, checked without a
// solver; and what is wrong with them is noticed.
TEST(Proofs, AttentionForward) {
  const std::pair<const char*, int64_t> cases[] = {{"attention_forward_hopper", 2048},
                                                   {"attention_forward_blackwell", 2892},
                                                   {"attention_forward_h200", 2314}};
  for (const auto& [name, ii] : cases) {
    const Graph graph = LoadGraph(name);
    const InfeasibilityProof proof = ProveInfeasible(graph, ii - 1, {});
    ASSERT_TRUE(proof.complete()) << name << ": " << proof.problem;
    DiagSink diags;
    const Result<certify::Refutation> refuted =
        VerifyProof(graph, ToText(proof.refutation), -1, diags);
    ASSERT_TRUE(refuted.ok()) << diags.all()[0].message;
    EXPECT_EQ(refuted->ii, ii - 1);
  }
}

TEST(Proofs, ForgeriesAreRefused) {
  const Graph graph = LoadGraph("attention_forward_hopper");
  const std::string text = ToText(ProveInfeasible(graph, 2047, {}).refutation);
  auto replaced = [&](const std::string& from, const std::string& to) {
    std::string other = text;
    const size_t at = other.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return other.replace(at, from.size(), to);
  };
  auto code = [&](const std::string& forged) {
    DiagSink diags;
    if (VerifyProof(graph, forged, -1, diags).ok()) return std::string("accepted");
    return std::string(diags.all().front().def->code);
  };
  EXPECT_EQ(code(text), "accepted");
  EXPECT_EQ(code(replaced("ii 2047", "ii 2048")), "S332");           // 2048 is feasible
  EXPECT_EQ(code(replaced("ii 2047", "ii 1099511627776")), "S332");  // nor is it tried
  EXPECT_EQ(code(replaced("hash ", "hash 0")), "S330");
  EXPECT_EQ(code(replaced("core unit", "core until")), "S332");
  EXPECT_EQ(code(replaced("core roles - at most 2", "core roles - at most 1")), "S332");
  const size_t core = text.find("core "), drat = text.find("drat\n");
  EXPECT_EQ(code(text.substr(0, core) + text.substr(drat)), "S332");
  EXPECT_EQ(code(text.substr(0, drat)), "S330");
  EXPECT_EQ(code(text.substr(0, drat) + "drat\nend\n"), "S332");
  EXPECT_EQ(code(text.substr(0, text.size() - 4)), "S330");
  EXPECT_EQ(code(""), "S330");
  DiagSink diags;
  EXPECT_FALSE(VerifyProof(LoadGraph("gemm_hopper"), text, -1, diags).ok());
}

// A refutation that needs overflows: each is a sum that is added up again.
TEST(Proofs, CoversAreAddedUp) {
  // Two values of 200 registers, each with an op of its own at work for the whole period.
  GraphBuilder b;
  const int u = b.Unit("u");
  for (int i = 0; i < 2; ++i) {
    const int def = b.Op("def" + std::to_string(i), 4, 4),
              use = b.Op("use" + std::to_string(i), 4, 4, u, 4);
    b.Edge(def, use).crossable = false;
    b.graph.ops[def].regs = 200;
  }
  b.graph.machine.registers = 128 * 2 * 192;
  const Graph& graph = b.graph;
  const InfeasibilityProof proof = ProveInfeasible(graph, 8, {});
  ASSERT_TRUE(proof.complete()) << proof.problem;
  DiagSink diags;
  std::string text = ToText(proof.refutation);
  const Result<certify::Refutation> refuted = VerifyProof(graph, text, -1, diags);
  ASSERT_TRUE(refuted.ok()) << diags.all().back().message;
  EXPECT_GT(proof.refutation.covers.size(), 0u);
  const size_t cut = text.find("cover ");
  text.erase(cut, text.find('\n', cut) + 1 - cut);
  EXPECT_FALSE(VerifyProof(graph, text, -1, diags).ok());
}

}  // namespace
}  // namespace tilec::scheduler
