// Whole elementwise kernels as LLVM writes them: loads, divergence, reconvergence, bounds.
//
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "tests/unit/emulator/harness.h"

namespace tilec::runtime {
namespace {

TEST(Elementwise, LlvmAxpyWithDivergence) {
  Emu emu;
  ASSERT_TRUE(emu.Load(ReadText("tests/unit/emulator/ptx/axpy.ptx"))) << emu.Text();
  constexpr int64_t n = 1000;
  std::vector<float> x(n), y(n), want(n);
  for (int64_t i = 0; i < n; ++i) {
    x[i] = static_cast<float>(i) * 0.37f - 100;
    y[i] = static_cast<float>(i % 17);
    float s = x[i] * 1.5f + y[i];
    want[i] = s > 10.0f ? s - 10.0f : -s;
  }
  uint64_t dx = emu.Upload(x), dy = emu.Upload(y);
  LaunchConfig config;
  config.grid[0] = 8;
  config.block[0] = 128;
  LaunchStats stats;
  ASSERT_TRUE(emu.Launch(
      "axpy", config, {KernelArg::Of(dx), KernelArg::Of(dy), KernelArg::Of(1.5f), KernelArg::Of(n)},
      &stats))
      << emu.Text();
  EXPECT_EQ(emu.Download<float>(dy, n), want);
  if (!OnCuda()) {
    EXPECT_GT(stats.warp_instructions, 32u * 10u);
  }
}

TEST(Elementwise, OutOfBoundsIsReportedWithPlaces) {
  EMULATOR_ONLY();
  Emu emu;
  LoadOptions options;
  options.name = "axpy.ptx";
  std::string ptx = ReadText("tests/unit/emulator/ptx/axpy.ptx");
  int line = 1;
  for (size_t p = 0; p < ptx.find("ld.global.f32"); ++p) line += ptx[p] == '\n';
  options.lines = {{line, "axpy.tile:3:7 (load)"}};
  ASSERT_TRUE(emu.Load(ptx, options)) << emu.Text();
  uint64_t dx = emu.Upload(std::vector<float>(100)), dy = emu.Upload(std::vector<float>(128));
  LaunchConfig config;
  config.block[0] = 128;
  EXPECT_FALSE(emu.Launch(
      "axpy", config,
      {KernelArg::Of(dx), KernelArg::Of(dy), KernelArg::Of(1.0f), KernelArg::Of(int64_t{128})}));
  std::string text = emu.Text();
  EXPECT_NE(text.find("E640"), std::string::npos) << text;
  EXPECT_NE(text.find("axpy.ptx:" + std::to_string(line)), std::string::npos) << text;
  EXPECT_NE(text.find("axpy.tile:3:7 (load)"), std::string::npos) << text;
  EXPECT_NE(text.find("warp 3, lane 4"), std::string::npos) << text;  // element 100
}

TEST(Elementwise, SameResultForAnyNumberOfThreads) {
  std::vector<float> first;
  for (int threads : {1, 2, 5}) {
    EmulatorOptions options;
    options.threads = threads;
    Emu emu(options);
    ASSERT_TRUE(emu.Load(ReadText("tests/unit/emulator/ptx/axpy.ptx"))) << emu.Text();
    std::vector<float> x(4096), y(4096, 1.0f);
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
    uint64_t dx = emu.Upload(x), dy = emu.Upload(y);
    LaunchConfig config;
    config.grid[0] = 128;
    config.block[0] = 32;
    ASSERT_TRUE(emu.Launch(
        "axpy", config,
        {KernelArg::Of(dx), KernelArg::Of(dy), KernelArg::Of(0.1f), KernelArg::Of(int64_t{4096})}));
    auto got = emu.Download<float>(dy, 4096);
    if (first.empty()) first = got;
    EXPECT_EQ(got, first);
  }
}

TEST(Elementwise, WrongArgumentsAreRefused) {
  EMULATOR_ONLY();
  Emu emu;
  ASSERT_TRUE(emu.Load(ReadText("tests/unit/emulator/ptx/axpy.ptx"))) << emu.Text();
  EXPECT_FALSE(emu.Launch("axpy", {}, {}));
  EXPECT_NE(emu.Text().find("0 arguments for 4 parameters"), std::string::npos) << emu.Text();
  emu.diags.Clear();
  EXPECT_FALSE(emu.Launch("axpi", {}, {}));
  EXPECT_NE(emu.Text().find("E622"), std::string::npos);
}

}  // namespace
}  // namespace tilec::runtime
