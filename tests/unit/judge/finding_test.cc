// The report: folding, text, JSON, and faults of a launch as findings.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/emulator/judge/finding.h"

#include "tests/unit/emulator/harness.h"

namespace tilec::runtime::judge {
namespace {

Finding Race(int line) {
  Finding f;
  f.rule = Rule::kM1;
  f.entry = "k";
  f.message = "bytes [16, 20) are written and read";
  f.accesses = {
      {"warp 1", "reads", "shared [16, 20)", {"k.ptx", line, "ld.shared.b32", "a.tile:3:1"}},
      {"warp 0", "writes", "shared [16, 20)", {"k.ptx", 9, "st.shared.b32", ""}}};
  f.missing = "a barrier";
  f.fix = "add `bar.sync 0`";
  f.seed = 7;
  return f;
}

TEST(Finding, EqualPlacesAreFolded) {
  Report report;
  report.SetReplay("tilec check k.tile --seed=7");
  report.Add(Race(12));
  report.Add(Race(12));
  report.Add(Race(13));
  ASSERT_EQ(report.findings().size(), 2u);
  EXPECT_EQ(report.findings()[0].count, 2u);
  EXPECT_EQ(report.findings()[0].replay, "tilec check k.tile --seed=7");
  EXPECT_EQ(report.Count(Severity::kError), 2u);
  EXPECT_EQ(report.Count(Severity::kHint), 0u);
  EXPECT_TRUE(report.Has(Rule::kM1));
  EXPECT_FALSE(report.Has(Rule::kM2));
}

TEST(Finding, TextNamesBothSidesAndTheMissingEdge) {
  EXPECT_EQ(ToText(Race(12)),
            "error[M1] data race in shared memory: bytes [16, 20) are written and read\n"
            "  here: `ld.shared.b32` at a.tile:3:1 (k.ptx:12)\n"
            "        warp 1 reads shared [16, 20)\n"
            "  and: `st.shared.b32` at k.ptx:9\n"
            "        warp 0 writes shared [16, 20)\n"
            "  missing: a barrier\n"
            "  help: add `bar.sync 0`\n"
            "  entry `k`, seed 7\n");
}

TEST(Finding, NamesRoleObjectAndTurnWhereTheyAreKnown) {
  Finding f = Race(12);
  f.accesses[0].role = "load";
  f.accesses[0].object = "slot 2 of 7 of A";
  f.accesses[0].turn = 3;
  EXPECT_NE(ToText(f).find("warp 1 reads shared [16, 20) (slot 2 of 7 of A), turn 3\n"),
            std::string::npos)
      << ToText(f);
  const std::string json = ToJson(f);
  for (const char* part : {R"("role":"load")", R"("object":"slot 2 of 7 of A")", R"("turn":3)"})
    EXPECT_NE(json.find(part), std::string::npos) << json;
}

TEST(Finding, TheTitleIsSaidOnce) {
  Finding f;
  f.rule = Rule::kS1;
  f.message = "deadlock: 1 of 1 live warps wait and none can run";
  EXPECT_EQ(ToText(f).substr(0, 45), "error[S1] deadlock: 1 of 1 live warps wait an");
}

TEST(Finding, JsonSurvivesAnyText) {
  Finding f = Race(12);
  f.entry = "k\xff\"\n";
  std::string json = ToJson(f);
  EXPECT_NE(json.find("\"check\":\"M1\""), std::string::npos) << json;
  EXPECT_NE(json.find("\"line\":12"), std::string::npos) << json;
  EXPECT_EQ(json.find('\n'), std::string::npos);
}

TEST(Finding, EveryRuleIsFoundByItsId) {
  for (Rule r : AllRules()) EXPECT_EQ(RuleFromId(Def(r).id), r);
  EXPECT_FALSE(RuleFromId("M0"));
  EXPECT_EQ(AllRules().size(), 54u);
}

// A launch that stops gives its fault to the report, under the check it belongs to.
struct FaultCase {
  const char* rule;
  const char* body;
  int threads = 32;
};

TEST(Finding, FaultsOfALaunchAreFindings) {
  EMULATOR_ONLY();
  const FaultCase cases[] = {
      {"M4", "shl.b32 %t, %t, 2; st.shared.b32 [%t+8], %t;"},
      {"M5", "add.u64 %pout, %pout, 1; st.global.b32 [%pout], %t;"},
      {"S9", "mbarrier.arrive.shared.b64 _, [s];"},
      {"S2", "mbarrier.init.shared.b64 [s], 1; mbarrier.arrive.shared.b64 _, [s], 5;", 1},
      {"S1", "bar.sync 1, 64;"},
      {"S5", "bar.sync 1, 33;"},
      {"S6", "setp.eq.u32 %p, %t, 0; @%p bar.sync 0;"},
      {"S7", "barrier.cluster.wait.aligned;"},
      {"X1", "trap;"},
  };
  for (const FaultCase& c : cases) {
    EmulatorOptions options;
    options.check = EmulatorOptions::Check::kOn;
    options.report = std::make_shared<Report>();
    Emu emu(options);
    std::string text = Body(".reg .pred %p; .shared .align 8 .b64 s;", c.body);
    ASSERT_TRUE(emu.Load(text)) << emu.Text();
    uint64_t a = emu.Upload(std::vector<uint64_t>(64));
    LaunchConfig config;
    config.block[0] = static_cast<uint32_t>(c.threads);
    EXPECT_FALSE(emu.Launch("k", config, {KernelArg::Of(a), KernelArg::Of(a)})) << c.body;
    auto findings = options.report->findings();
    bool found = false;
    for (const Finding& f : findings) {
      if (Def(f.rule).id != std::string_view(c.rule)) continue;
      found = true;
      EXPECT_EQ(f.line(), 15) << c.body;  // the line of the body
      EXPECT_EQ(f.entry, "k");
    }
    EXPECT_TRUE(found) << c.body << "\n" << ToText(findings);
  }
}

TEST(Finding, ALaunchBeyondTheMachineIsOne) {
  EMULATOR_ONLY();
  EmulatorOptions options;
  options.check = EmulatorOptions::Check::kOn;
  options.report = std::make_shared<Report>();
  Emu emu(options);
  ASSERT_TRUE(emu.Load(Body("", "")));
  LaunchConfig config;
  config.block[0] = 2048;
  EXPECT_FALSE(emu.Launch("k", config, {KernelArg::Of(uint64_t{0}), KernelArg::Of(uint64_t{0})}));
  EXPECT_TRUE(options.report->Has(Rule::kR2));
}

}  // namespace
}  // namespace tilec::runtime::judge
