// A warp-specialised bf16 GEMM (TMA, mbarrier ring, wgmma, setmaxnreg) as a CUDA compiler emits it.
//
// SPDX-License-Identifier: Apache-2.0
#include <chrono>

#include "tests/unit/emulator/gemm.h"

namespace tilec::runtime {
namespace {

TEST(Gemm, Bf16) {
  Gemm g;
  LaunchStats stats;
  auto begin = std::chrono::steady_clock::now();
  ASSERT_TRUE(g.emu.Load(Ptx())) << g.emu.Text();
  std::chrono::duration<double, std::milli> load = std::chrono::steady_clock::now() - begin;
  ASSERT_TRUE(g.Run(Ptx(), &stats)) << g.emu.Text();
  g.Check();
  RecordProperty("load_ms", std::to_string(load.count()));
  RecordProperty("run_ms", std::to_string(stats.milliseconds));
  printf("load %.2f ms, run %.2f ms, %lu warp instructions\n", load.count(), stats.milliseconds,
         static_cast<unsigned long>(stats.warp_instructions));
}

TEST(Gemm, SchedulesAgree) {
  EMULATOR_ONLY();
  Gemm reference;
  ASSERT_TRUE(reference.Run(Ptx())) << reference.emu.Text();
  auto want = reference.emu.Download<uint16_t>(reference.dc, kSize * kSize);
  for (uint64_t seed : {1, 2, 3}) {
    EmulatorOptions options;
    options.seed = seed;
    options.policy = Policy::kRandom;
    options.spurious_try_wait = true;
    options.threads = 1 + static_cast<int>(seed);
    Gemm g(options);
    ASSERT_TRUE(g.Run(Ptx())) << g.emu.Text();
    EXPECT_EQ(g.emu.Download<uint16_t>(g.dc, kSize * kSize), want) << seed;
  }
}

TEST(Gemm, MissingArriveIsADeadlockThatNamesTheBarrier) {
  EMULATOR_ONLY();
  Gemm g;
  // The consumers never free a stage: the producer must wait for ever.
  EXPECT_FALSE(g.Run(Replace(Ptx(), "mbarrier.arrive.shared::cta.b64", "membar.cta; //")));
  std::string text = g.emu.Text();
  EXPECT_NE(text.find("E660"), std::string::npos) << text;
  EXPECT_NE(text.find("mbarrier at shared offset 131080"), std::string::npos) << text;
  EXPECT_NE(text.find("2 of 2 arrivals pending"), std::string::npos) << text;
  EXPECT_NE(text.find("kernel.ptx:"), std::string::npos) << text;
}

TEST(Gemm, MissingCopyShowsItsBytes) {
  EMULATOR_ONLY();
  Gemm g;
  EXPECT_FALSE(g.Run(Replace(Ptx(), "cp.async.bulk.tensor.2d.shared::cluster", "// cp", 1)));
  std::string text = g.emu.Text();
  EXPECT_NE(text.find("E660"), std::string::npos) << text;
  EXPECT_NE(text.find("tx 16384"), std::string::npos) << text;
}

TEST(Gemm, DescriptorOutsideSharedMemoryIsReported) {
  EMULATOR_ONLY();
  Gemm g;
  // 0x4000004000010000: the stride byte offset 1024 becomes 0x3fff0.
  std::string ptx = Replace(Ptx(), "4611686293305360384", "4611756382876663808");
  EXPECT_FALSE(g.Run(ptx));
  EXPECT_NE(g.emu.Text().find("E646"), std::string::npos) << g.emu.Text();
}

}  // namespace
}  // namespace tilec::runtime
