// The runner of passes: what it prints, where it stops, what it refuses, and the bundle that it
// leaves where a pass breaks the program or crashes.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>

#include "ir/interpret.h"
#include "ir/pass.h"
#include "ir/passes/passes.h"
#include "support/file.h"
#include "tests/unit/h200.h"
#include "tests/unit/ir/pass_kernel.h"
#include "tests/unit/ir/test_util.h"

namespace tilec::ir {

namespace {

TEST(Runner, PrintsTimesAndStops) {
  Function fn = Parsed(Kernel("%b = neg %a : f32[8, 8]\n%r = neg %b : f32[8, 8]\n"));
  PassOptions options;
  options.print_after = {"canonicalize", "cse"};
  options.stop_after = "cse";
  DiagSink diags;
  Result<PassOutcome> outcome = RunPasses(fn, kCleanUp, H200(), options, diags);
  ASSERT_TRUE(outcome.ok()) << Messages(diags);
  EXPECT_TRUE(outcome->stopped);
  ASSERT_GE(outcome->times.size(), 2u);  // all passes up to this one
  EXPECT_EQ(outcome->times.front().name, "decode-scales");
  EXPECT_EQ(outcome->times.back().name, "cse");
  EXPECT_NE(outcome->printed.find("// after canonicalize: 1 changes\nfunc @f"), std::string::npos)
      << outcome->printed;
  EXPECT_NE(outcome->printed.find("// after cse: unchanged"), std::string::npos)
      << outcome->printed;
  EXPECT_NE(TimesTable(outcome->times).find("fold-transpose"), std::string::npos);
}

TEST(Runner, UnknownNamesAndNeeds) {
  Function fn = Parsed(Kernel("%r = neg %a : f32[8, 8]\n"));
  DiagSink diags;
  PassOptions options;
  options.stop_after = "frob";
  EXPECT_FALSE(RunPasses(fn, kCleanUp, H200(), options, diags).ok());
  EXPECT_EQ(FirstCode(diags), "I240");
  DiagSink needs;
  const std::string names[] = {"hoist-invariant"};
  EXPECT_FALSE(PipelineFromNames(names, kWarpLevel, needs).ok());
  EXPECT_EQ(FirstCode(needs), "I242");
}

Result<> Breaks(Function& fn, PassContext& cx) {
  for (Op& op : fn.ops)
    if (op.kind == OpKind::kNeg) op.operands.clear();
  ++cx.changes;
  return Done();
}
Result<> Crashes(Function&, PassContext&) { UNREACHABLE("a pass went wrong"); }

// The one bundle under `dir`: what its report says, and IR that still parses and verifies.
std::string ReportOfBundle(const std::filesystem::path& dir) {
  std::string report, before, why;
  int bundles = 0;
  for (const auto& entry : std::filesystem::directory_iterator(dir)) {
    ++bundles;
    EXPECT_TRUE(ReadFile((entry.path() / "report.txt").string(), &report, &why)) << why;
    EXPECT_TRUE(ReadFile((entry.path() / "before.ir").string(), &before, &why)) << why;
    EXPECT_EQ(Count(Parsed(before), OpKind::kNeg), 1);
  }
  EXPECT_EQ(bundles, 1);
  return report;
}

struct TempDir {
  std::filesystem::path path;
  explicit TempDir(const char* name)
      : path(std::filesystem::temp_directory_path() /
             fmt::format("tilec_{}_{}", name, ::getpid())) {
    std::filesystem::remove_all(path);
  }
  ~TempDir() { std::filesystem::remove_all(path); }
};

TEST(Runner, BrokenIrLeavesABundle) {
  const TempDir dir("broke");
  Function fn = Parsed(Kernel("%r = neg %a : f32[8, 8]\n"));
  const PassStep steps[] = {StepOf(PassId::kCse), {{"breaks", "for the test"}, Breaks}};
  PassOptions options;
  options.crash_dir = dir.path.string();
  options.version = "1.2.3";
  DiagSink diags;
  EXPECT_FALSE(RunSteps(fn, steps, H200(), options, diags).ok());
  ASSERT_EQ(diags.all().size(), 2u) << Messages(diags);
  EXPECT_STREQ(diags.all()[0].def->code, "I211");
  EXPECT_STREQ(diags.all()[1].def->code, "I241");
  const std::string report = ReportOfBundle(dir.path);
  EXPECT_NE(report.find("before.ir --passes=breaks"), std::string::npos) << report;
  EXPECT_NE(report.find("pipeline: cse,breaks"), std::string::npos) << report;
  EXPECT_NE(report.find("1.2.3"), std::string::npos) << report;
}

TEST(RunnerDeathTest, CrashLeavesABundle) {
  const TempDir dir("crash");
  const auto crash = [&] {
    Function fn = Parsed(Kernel("%r = neg %a : f32[8, 8]\n"));
    const PassStep steps[] = {{{"crashes", "for the test"}, Crashes}};
    PassOptions options;
    options.crash_dir = dir.path.string();
    DiagSink diags;
    (void)RunSteps(fn, steps, H200(), options, diags);
  };
  EXPECT_DEATH(crash(), "crash bundle: ");
  EXPECT_NE(ReportOfBundle(dir.path).find("a pass went wrong"), std::string::npos);
}

}  // namespace

}  // namespace tilec::ir
