// The probes are sound PTX (assembled where there is ptxas, executed by the emulator, which gives
// no times worth anything), and what they say lands in the right entries of a machine file.
//
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <set>

#include "backend/ptxas.h"
#include "calibrate/machine.h"
#include "calibrate/measure.h"

namespace tilec::calibrate {
namespace {

std::string Say(const DiagSink& diags) {
  std::string out;
  for (const Diagnostic& d : diags.all()) out += Render(d, SourceMap());
  return out;
}

TEST(Probes, NamesAreDistinct) {
  std::set<std::string> names;
  for (const Probe& p : AllProbes()) EXPECT_TRUE(names.insert(p.name).second) << p.name;
  EXPECT_GE(names.size(), 45u);
}

TEST(Probes, RunOnTheEmulator) {
  const auto device = runtime::OpenEmulator();
  DiagSink diags;
  for (Probe& p : AllProbes(1 << 14)) {
    const auto numbers = Measure(*device, {p}, {.sms = 2, .repeats = 1, .most_trips = 6}, diags);
    ASSERT_TRUE(numbers.ok()) << p.name << "\n" << Say(diags);
    const double cycles = numbers->at(p.name);
    EXPECT_TRUE(cycles > -1e6 && cycles < 1e6) << p.name << ": " << cycles;
  }
}

TEST(Probes, AssembleWithoutSpills) {
  const std::string ptxas =
      backend::FindPtxas({"", "/usr/local/cuda", "/usr/local/cuda/bin:/usr/bin:/usr/local/bin"});
  if (ptxas.empty()) GTEST_SKIP() << "no ptxas on this machine";
  for (const Probe& p : AllProbes()) {
    DiagSink diags;
    const auto report = backend::Assemble(p.ptx, "sm_90a", ptxas, diags);
    ASSERT_TRUE(report.ok()) << p.name << "\n" << Say(diags);
    EXPECT_TRUE(report->clean()) << p.name << "\n" << report->log;
  }
}

// Round numbers, as an H200 gives them, lead to the entries that follow from them.
TEST(Machine, NumbersLandInTheirEntries) {
  DiagSink diags;
  auto base = ir::LoadBuiltinTarget("h200", diags);
  ASSERT_TRUE(base.ok());
  const Numbers numbers = {{"wgmma.bf16.ss.n256", 256.1},  // half the real rate
                           {"ex2.beside", 12.8},          {"mbarrier.hop", 80},
                           {"shared.round", 60},          {"tma.load.l2.8192", 400},
                           {"tma.load.l2.32768", 640},    {"tma.load.l2.32768.all", 976.32}};
  std::vector<Change> changes;
  const ir::Target t = Apply(*base, numbers, "test", &changes);
  const ir::OpCost* dot = t.CostOfKind("dot");
  EXPECT_DOUBLE_EQ(dot->latency.per.flops, 1.0 / 2048);
  EXPECT_EQ(dot->latency.base, base->CostOfKind("dot")->latency.base);  // nothing said so
  EXPECT_EQ(dot->origin.evidence, ir::Evidence::kMeasured);
  EXPECT_EQ(dot->origin.source, "test: wgmma.bf16.ss.n256 = 256.1");
  EXPECT_DOUBLE_EQ(t.CostOfKind("mufu")->issue.per.elements, 0.1);
  EXPECT_DOUBLE_EQ(t.CostOfKind("tma_load")->latency.base, 320);
  EXPECT_NEAR(t.CostOfKind("tma_load")->latency.per.bytes, 0.0200293, 1e-7);
  EXPECT_EQ(t.CostOfKind("fma")->origin.source, base->CostOfKind("fma")->origin.source);
  EXPECT_EQ(t.Transfer("register", 0), 140);
  EXPECT_EQ(t.Transfer("smem", 0), 80);
  EXPECT_EQ(changes.size(), 10u);
}

TEST(Machine, EveryFileIsWrittenAsItIsRead) {
  for (const std::string& name : ir::BuiltinMachines()) {
    DiagSink diags;
    const auto t = ir::LoadBuiltinTarget(name, diags);
    ASSERT_TRUE(t.ok()) << name;
    const std::string text = ir::ToToml(*t);
    const auto again = ir::ParseTarget(text, -1, diags);
    ASSERT_TRUE(again.ok()) << name << Say(diags) << text;
    EXPECT_EQ(ir::ToToml(*again), text) << name;
    ASSERT_EQ(again->ops.size(), t->ops.size());
    for (size_t i = 0; i < t->ops.size(); ++i) {
      const ir::Work work = {4e6, 16384, 32768, 4, 128};
      EXPECT_EQ(again->ops[i].issue.At(work), t->ops[i].issue.At(work)) << t->ops[i].kind;
      EXPECT_EQ(again->ops[i].latency.At(work), t->ops[i].latency.At(work)) << t->ops[i].kind;
      EXPECT_EQ(again->ops[i].variable, t->ops[i].variable);
      EXPECT_EQ(again->ops[i].async, t->ops[i].async);
      ASSERT_EQ(again->ops[i].uses.size(), t->ops[i].uses.size());
    }
    EXPECT_EQ(again->origins.size(), t->origins.size());
    EXPECT_EQ(again->features, t->features);
  }
}

}  // namespace
}  // namespace tilec::calibrate
