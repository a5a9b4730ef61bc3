// Findings on their way out: what is suppressed, and what other programs are told.
//
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "support/source.h"
#include "tools/annotate.h"
#include "tools/suppressions.h"

namespace tilec::tools {
namespace {

namespace judge = runtime::judge;

judge::Finding Race(int line, const std::string& source) {
  judge::Finding f;
  f.rule = judge::Rule::kM1;
  f.severity = judge::Severity::kError;
  f.entry = "reduce";
  f.message = "a, b: 100%\nraces";
  for (int k = 0; k < 2; ++k) {
    judge::Access a;
    a.who = "warp 1";
    a.site = {"out/k.ptx", line + k, "st.shared.b32", source};
    f.accesses.push_back(a);
  }
  return f;
}

std::vector<Suppression> Rows(const std::string& text) {
  DiagSink diags;
  auto rows = ParseSuppressions("s.txt", text, diags);
  EXPECT_TRUE(rows.ok());
  return rows.ok() ? *rows : std::vector<Suppression>();
}

size_t Left(const std::string& row) {
  std::vector<judge::Finding> findings = {Race(12, "src/sum.cu:33:5 (a loop)"), Race(120, "")};
  std::vector<Suppression> rows = Rows(row);
  Suppress(rows, &findings);
  return findings.size();
}

TEST(Suppressions, MatchByCheckPlaceAndEntry) {
  EXPECT_EQ(Left("M1 # all of them"), 0u);
  EXPECT_EQ(Left("M2"), 2u);
  EXPECT_EQ(Left("M1 k.ptx:12"), 1u);   // not 120
  EXPECT_EQ(Left("M1 k.ptx:13"), 1u);   // the other access
  EXPECT_EQ(Left("M1 sum.cu:33"), 1u);  // the source
  EXPECT_EQ(Left("M1 um.cu:33"), 2u);   // no part of a name
  EXPECT_EQ(Left("M1 sum.cu:3"), 2u);
  EXPECT_EQ(Left("M1 k.ptx:12 reduce"), 1u);
  EXPECT_EQ(Left("M1 k.ptx:12 other"), 2u);
  EXPECT_EQ(Left("# nothing\n\n"), 2u);
}

TEST(Suppressions, BadRowsAreSaid) {
  for (const char* text : {"M99", "M1 here", "M1 a:1 b c"}) {
    DiagSink diags;
    SourceMap sources;
    EXPECT_FALSE(ParseSuppressions("s.txt", std::string("# one\n") + text, diags).ok()) << text;
    EXPECT_NE(RenderAll(diags, sources).find("s.txt:2"), std::string::npos);
  }
}

TEST(Annotations, Github) {
  const std::string text = ToGithub({Race(12, "src/sum.cu:33:5 (a loop)")});
  EXPECT_EQ(text,
            "::error file=src/sum.cu,line=33,col=5,title=M1 data race in shared memory::a, b: "
            "100%25%0Araces\n");
  EXPECT_EQ(ToGithub({Race(12, "")}).substr(0, 29), "::error file=out/k.ptx,line=1");
}

TEST(Annotations, Sarif) {
  // The second follows from the first: they share a line.
  const auto json = nlohmann::json::parse(
      ToSarif({Race(12, "src/sum.cu:33:5 (a loop)"), Race(13, "src/sum.cu:33:5 (a loop)")}));
  EXPECT_EQ(json["version"], "2.1.0");
  const auto& run = json["runs"][0];
  EXPECT_EQ(run["tool"]["driver"]["rules"].size(), judge::AllRules().size());
  ASSERT_EQ(run["results"].size(), 1u);
  const auto& result = run["results"][0];
  EXPECT_EQ(result["ruleId"], "M1");
  EXPECT_EQ(result["level"], "error");
  const auto& at = result["locations"][0]["physicalLocation"];
  EXPECT_EQ(at["artifactLocation"]["uri"], "src/sum.cu");
  EXPECT_EQ(at["region"]["startLine"], 33);
  EXPECT_EQ(at["region"]["startColumn"], 5);
  EXPECT_EQ(result["relatedLocations"].size(), 1u);
  EXPECT_NE(std::string(result["message"]["text"]).find("1 more findings follow"),
            std::string::npos);
}

}  // namespace
}  // namespace tilec::tools
