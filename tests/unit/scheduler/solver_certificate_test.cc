// Certificates: text, re-check, and what a forged one says.
//
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "scheduler/diagnostics.h"
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

}  // namespace
}  // namespace tilec::scheduler
