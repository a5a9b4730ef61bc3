// Machine files: features that follow from the architecture, files that change another machine, and
// which machine a device is.
//
// SPDX-License-Identifier: Apache-2.0
#include "ir/target.h"

#include <gtest/gtest.h>

#include <string>

namespace tilec {
namespace {

ir::Target Machine(const std::string& name) {
  DiagSink diags;
  Result<ir::Target> target = ir::LoadBuiltinTarget(name, diags);
  EXPECT_TRUE(target.ok()) << name;
  return target.ok() ? *target : ir::Target();
}

// Features that every GPU of an architecture has follow from it; others are the file's.
TEST(Machines, FeaturesFollowFromTheArchitecture) {
  struct Row {
    const char* machine;
    bool tma, clusters, setmaxnreg, pdl, elect, stmatrix, fp8;
    const char* unit;
  };
  const Row rows[] = {{"a100", false, false, false, false, false, false, false, "mma.sync"},
                      {"rtx3090", false, false, false, false, false, false, false, "mma.sync"},
                      {"rtx4090", false, false, false, false, false, false, true, "mma.sync"},
                      {"h200", true, true, true, true, true, true, true, "wgmma"},
                      {"b200", true, true, true, true, true, true, true, "tcgen05"},
                      {"rtx5090", true, false, true, true, true, true, true, "mma.sync"},
                      {"spark", true, false, true, true, true, true, true, "mma.sync"}};
  for (const Row& row : rows) {
    const ir::Target t = Machine(row.machine);
    EXPECT_EQ(t.Has("tma"), row.tma) << row.machine;
    EXPECT_EQ(t.Has("clusters"), row.clusters) << row.machine;
    EXPECT_EQ(t.Has("setmaxnreg"), row.setmaxnreg) << row.machine;
    EXPECT_EQ(t.Has("pdl"), row.pdl) << row.machine;
    EXPECT_EQ(t.Has("elect"), row.elect) << row.machine;
    EXPECT_EQ(t.Has("stmatrix"), row.stmatrix) << row.machine;
    EXPECT_EQ(t.Has("fp8_conversions"), row.fp8) << row.machine;
    EXPECT_EQ(t.unit().name, std::string(row.unit)) << row.machine;
  }
}

// `changes`: an op or a unit of the file takes the place of the one of its name, the rest stays.
TEST(Machines, ChangesReplaceByName) {
  const std::string op =
      "[[op]]\nkind = \"mufu\"\nops = [\"exp2\"]\nwarps = 4\nissue = 7\nlatency = 9\n"
      "tag = \"assumed\"\nsource = \"x\"\n";
  const std::string head = "name = \"m\"\ntitle = \"t\"\nextends = \"h200\"\n";
  const ir::Target h200 = Machine("h200");
  DiagSink diags;
  const Result<ir::Target> changed = ir::ParseTarget(head + "changes = true\n" + op, -1, diags);
  ASSERT_TRUE(changed.ok());
  EXPECT_EQ(changed->ops.size(), h200.ops.size());
  EXPECT_EQ(changed->CostOf("exp2")->issue.base, 7);
  EXPECT_EQ(changed->CostOf("log2")->kind, "other");  // the row that had it is replaced
  EXPECT_EQ(changed->CostOf("dot.16")->issue.base, h200.CostOf("dot.16")->issue.base);
  EXPECT_EQ(changed->units.size(), h200.units.size());
  // Without the word a file that gives some gives all.
  EXPECT_FALSE(ir::ParseTarget(head + op, -1, diags).ok());
}

TEST(Machines, OfADevice) {
  struct Row {
    const char *arch, *name, *machine, *said;
  };
  const Row rows[] = {{"sm_90a", "NVIDIA H200 (sm_90a, 132 SMs)", "h200", ""},
                      {"sm_90a", "NVIDIA H100 80GB HBM3 (sm_90a)", "h100", ""},
                      {"sm_90a", "NVIDIA H20", "h200", ""},
                      {"sm_80", "NVIDIA A100-SXM4-80GB", "a100", ""},
                      {"sm_86", "NVIDIA GeForce RTX 3090", "rtx3090", ""},
                      {"sm_86", "NVIDIA GeForce RTX 3060", "a10", ""},
                      {"sm_89", "NVIDIA L40S", "l40s", ""},
                      {"sm_89", "NVIDIA GeForce RTX 4090", "rtx4090", ""},
                      {"sm_120a", "NVIDIA RTX PRO 6000 Blackwell", "rtxpro6000", ""},
                      {"sm_121a", "NVIDIA GB10", "spark", ""},
                      // Nobody's: the nearest older one whose code later GPUs run, and said.
                      {"sm_87", "Orin", "a10", "I264"},
                      {"sm_110a", "Thor", "rtx4090", "I264"},
                      {"sm_75", "NVIDIA T4", "", "I265"}};
  for (const Row& row : rows) {
    DiagSink diags;
    const Result<ir::Target> target = ir::TargetOfDevice(row.arch, row.name, diags);
    EXPECT_EQ(target.ok() ? target->name : "", row.machine) << row.name;
    EXPECT_EQ(diags.all().empty() ? "" : diags.all()[0].def->code, std::string(row.said));
  }
}

// A name that nobody gave to a machine: a typo is named, another GPU is not.
TEST(Machines, NamesThatAreMeant) {
  for (const auto& [said, help] :
       std::vector<std::pair<std::string, std::string>>{{"h20", "did you mean `h200`?"},
                                                        {"H200", "did you mean `h200`?"},
                                                        {"twill_h10", "did you mean `twill_h100`?"},
                                                        {"c200", "use a10, "},
                                                        {"h300", "use a10, "}}) {
    DiagSink diags;
    EXPECT_FALSE(ir::LoadBuiltinTarget(said, diags).ok());
    EXPECT_EQ(diags.all()[0].helps[0].substr(0, help.size()), help) << said;
  }
  SourceMap sources;
  DiagSink diags;
  const Result<ir::Target> by_arch = ir::ReadTarget(Machine("h200").arch, sources, diags);
  ASSERT_TRUE(by_arch.ok());
  EXPECT_EQ(by_arch->name, "h200");
  EXPECT_FALSE(ir::ReadTarget("./no_such.toml", sources, diags).ok());
}

}  // namespace
}  // namespace tilec
