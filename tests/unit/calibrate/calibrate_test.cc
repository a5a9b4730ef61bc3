// The probes are sound PTX (assembled where there is ptxas, executed by the emulator, which gives
// no times worth anything), and what they say lands in the right entries of a machine file.
//
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
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

// A machine of each matrix unit, and each architecture of mma.sync.
const char* const kMachines[] = {"h200", "b200", "b300", "a100", "rtx4090", "rtx5090"};

ir::Target Machine(const std::string& name) {
  DiagSink diags;
  auto machine = ir::LoadBuiltinTarget(name, diags);
  CHECK(machine.ok(), name);
  return *machine;
}

TEST(Probes, NamesAreDistinct) {
  for (const char* name : kMachines) {
    std::set<std::string> names;
    for (const Probe& p : ProbesOf(Machine(name)))
      EXPECT_TRUE(names.insert(p.name).second) << p.name;
    EXPECT_GE(names.size(), 25u) << name;
  }
}

// What is there by the machine's unit and features, and nothing that it lacks.
TEST(Probes, FollowTheMachine) {
  const auto has = [](const char* machine, const std::string& probe) {
    const std::vector<Probe> probes = ProbesOf(Machine(machine));
    return std::any_of(probes.begin(), probes.end(),
                       [&](const Probe& p) { return p.name == probe; });
  };
  EXPECT_TRUE(has("h200", "wgmma.bf16.ss.n256"));
  EXPECT_TRUE(has("b200", "tcgen05.i8.ss.n256"));
  EXPECT_FALSE(has("b300", "tcgen05.i8.ss.n256"));  // sm_103a has no kind::i8
  EXPECT_TRUE(has("b200", "tcgen05.bf16.pair.n256"));
  EXPECT_TRUE(has("b200", "tmem.ld.x128.latency"));
  EXPECT_FALSE(has("a100", "mma.e4m3"));
  EXPECT_TRUE(has("rtx4090", "mma.e4m3"));
  EXPECT_FALSE(has("rtx4090", "mbarrier.hop"));
  EXPECT_FALSE(has("a100", "tma.load.l2.8192"));
  EXPECT_TRUE(has("rtx5090", "tma.load.l2.8192"));
}

TEST(Probes, RunOnTheEmulator) {
  const auto device = runtime::OpenEmulator();
  DiagSink diags;
  std::set<std::string> seen;  // texts differ by machine in their first lines alone
  for (const char* machine : kMachines)
    for (Probe& p : ProbesOf(Machine(machine), 1 << 14)) {
      if (!seen.insert(p.ptx.substr(p.ptx.find(".extern"))).second) continue;
      const auto numbers = Measure(*device, {p}, {.sms = 2, .repeats = 1, .most_trips = 6}, diags);
      ASSERT_TRUE(numbers.ok()) << machine << ", " << p.name << "\n" << Say(diags);
      const double cycles = numbers->at(p.name);
      EXPECT_TRUE(cycles > -1e6 && cycles < 1e6) << p.name << ": " << cycles;
    }
}

TEST(Probes, AssembleWithoutSpills) {
  const std::string ptxas =
      backend::FindPtxas({"", "/usr/local/cuda", "/usr/local/cuda/bin:/usr/bin:/usr/local/bin"});
  if (ptxas.empty()) GTEST_SKIP() << "no ptxas on this machine";
  for (const char* name : kMachines) {
    if (std::string(name) == "b300") continue;  // the texts of b200
    const ir::Target machine = Machine(name);
    for (const Probe& p : ProbesOf(machine)) {
      DiagSink diags;
      const auto report = backend::Assemble(p.ptx, machine.arch, ptxas, diags);
      ASSERT_TRUE(report.ok()) << name << ", " << p.name << "\n" << Say(diags);
      EXPECT_TRUE(report->clean()) << name << ", " << p.name << "\n" << report->log;
    }
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

// What SemiAnalysis and others published of a B200, as probes would show it, leads back to the
// numbers of its file.
TEST(Machine, TensorMemoryLandsInItsEntries) {
  const ir::Target base = Machine("b200");
  const Numbers numbers = {{"tcgen05.bf16.ss.n256", 128.2},
                           {"tcgen05.bf16.ss.n128", 64},
                           {"tcgen05.bf16.ss.n128.chain4", 4 * 64 + 136},
                           {"tmem.ld.x32", 64},
                           {"tmem.ld.x32.latency", 164.2},
                           {"tmem.ld.x128.latency", 533.8},
                           {"mbarrier.hop", 92}};
  std::vector<Change> changes;
  const ir::Target t = Apply(base, numbers, "test", &changes);
  EXPECT_NEAR(t.CostOfKind("dot")->latency.per.flops, 1.0 / 8192, 1e-12);
  EXPECT_DOUBLE_EQ(t.CostOfKind("dot")->latency.base, 136);
  EXPECT_DOUBLE_EQ(t.CostOfKind("dot_fp8")->latency.base, 136);
  EXPECT_DOUBLE_EQ(t.CostOfKind("dot_fp8")->latency.per.flops,
                   base.CostOfKind("dot_fp8")->latency.per.flops);  // nothing said so
  EXPECT_DOUBLE_EQ(t.CostOfKind("tmem_load")->issue.per.bytes, 1.0 / 256);
  EXPECT_NEAR(t.CostOfKind("tmem_load")->latency.base, 41, 0.01);
  EXPECT_NEAR(t.CostOfKind("tmem_load")->latency.per.bytes, 0.00752, 1e-5);
  EXPECT_EQ(t.Transfer("tmem", 0), 92);
}

TEST(Machine, MmaSyncLandsInItsEntries) {
  std::vector<Change> changes;
  const ir::Target t =
      Apply(Machine("rtx4090"), {{"mma.bf16", 32}, {"mma.bf16.latency", 33.5}}, "test", &changes);
  EXPECT_DOUBLE_EQ(t.CostOfKind("dot")->issue.per.flops, 1.0 / 512);
  EXPECT_DOUBLE_EQ(t.CostOfKind("dot")->latency.base, 33.5);
  EXPECT_EQ(changes.size(), 4u);
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
