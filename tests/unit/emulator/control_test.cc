// Divergence, barriers, warp collectives, clusters.
//
// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/emulator/harness.h"

namespace tilec::runtime {
namespace {

using V = std::vector<uint64_t>;

const char kStore[] = "cvt.u64.u32 %w, %a;\nst.global.u64 [%pout], %w;";

V Lanes(const std::string& body, uint32_t threads = 32, std::string* error = nullptr) {
  V out = RunBody(".reg .b32 %a, %b, %c, %n; .reg .pred %p, %q; .reg .b64 %w;",
                  body + "\n" + kStore, {}, threads, error);
  out.resize(out.empty() ? 0 : threads);
  return out;
}

TEST(Divergence, LoopWithLaneDependentTripCount) {
  V out = Lanes(
      "mov.b32 %a, 0;\nmov.u32 %n, %t;\nL:\nsetp.eq.u32 %p, %n, 0;\n@%p bra E;\n"
      "add.u32 %a, %a, %n;\nsub.u32 %n, %n, 1;\nbra L;\nE:");
  for (uint64_t t = 0; t < 32; ++t) EXPECT_EQ(out[t], t * (t + 1) / 2);
}

TEST(Divergence, NestedBranchesReconverge) {
  // After the branches all lanes are together again: activemask is full.
  V out = Lanes(
      "and.b32 %b, %t, 1;\nsetp.eq.u32 %p, %b, 0;\n@%p bra X;\nand.b32 %b, %t, 2;\n"
      "setp.eq.u32 %q, %b, 0;\n@%q bra Y;\nmov.b32 %a, 3;\nbra Z;\nY:\nmov.b32 %a, 2;\nbra Z;\n"
      "X:\nmov.b32 %a, 1;\nZ:\nactivemask.b32 %c;\nsetp.ne.u32 %p, %c, -1;\n@%p mov.b32 %a, 99;");
  for (uint64_t t = 0; t < 32; ++t) EXPECT_EQ(out[t], t % 2 == 0 ? 1 : (t & 2) ? 3 : 2);
}

TEST(Divergence, EarlyExitLeavesTheOthersRunning) {
  V out = Lanes("setp.lt.u32 %p, %t, 8;\n@%p exit;\nmov.b32 %a, 5;\nbar.sync 0;", 64);
  EXPECT_EQ(out[7], 0u);
  EXPECT_EQ(out[8], 5u);
  EXPECT_EQ(out[63], 5u);
}

TEST(Divergence, LaneWaitsForAnotherLaneOfItsWarp) {
  // Lane 0 spins on a flag that lane 1 sets behind the loop: needs fair paths.
  V out = RunBody(
      ".shared .b32 flag; .reg .b32 %a; .reg .pred %p; .reg .b64 %w;",
      "mov.b32 %a, 7;\nsetp.ne.u32 %p, %t, 0;\n@%p bra SET;\n"
      "W:\nld.volatile.shared.u32 %a, [flag];\nsetp.ne.u32 %p, %a, 42;\n@%p bra W;\nbra E;\n"
      "SET:\nst.volatile.shared.u32 [flag], 42;\nE:\n" +
          std::string(kStore),
      {}, 2);
  ASSERT_FALSE(out.empty());
  EXPECT_EQ(out[0], 42u);
  EXPECT_EQ(out[1], 7u);
}

TEST(Warp, Shuffles) {
  V out = Lanes("shfl.sync.bfly.b32 %a, %t, 5, 31, -1;");
  for (uint64_t t = 0; t < 32; ++t) EXPECT_EQ(out[t], t ^ 5);
  out = Lanes("shfl.sync.up.b32 %a|%p, %t, 3, 0, -1;\n@!%p add.u32 %a, %a, 100;");
  for (uint64_t t = 0; t < 32; ++t) EXPECT_EQ(out[t], t < 3 ? t + 100 : t - 3);
  out = Lanes("shfl.sync.down.b32 %a, %t, 1, 0x181f, -1;");  // segments of 8
  for (uint64_t t = 0; t < 32; ++t) EXPECT_EQ(out[t], t % 8 == 7 ? t : t + 1);
  out = Lanes("shfl.sync.idx.b32 %a, %t, 2, 0x1c1f, -1;");  // segments of 4
  for (uint64_t t = 0; t < 32; ++t) EXPECT_EQ(out[t], t / 4 * 4 + 2);
}

TEST(Warp, VotesMatchesReductions) {
  EXPECT_EQ(Lanes("setp.lt.u32 %p, %t, 3;\nvote.sync.ballot.b32 %a, %p, -1;")[9], 7u);
  EXPECT_EQ(
      Lanes("setp.lt.u32 %p, %t, 3;\nvote.sync.all.pred %q, %p, -1;\nselp.b32 %a, 1, 2, %q;")[0],
      2u);
  EXPECT_EQ(
      Lanes("setp.lt.u32 %p, %t, 3;\nvote.sync.any.pred %q, !%p, -1;\nselp.b32 %a, 1, 2, %q;")[0],
      1u);
  EXPECT_EQ(Lanes("and.b32 %b, %t, 3;\nmatch.any.sync.b32 %a, %b, -1;")[5], 0x22222222u);
  EXPECT_EQ(Lanes("mov.b32 %b, 4;\nmatch.all.sync.b32 %a|%p, %b, -1;\n@!%p mov.b32 %a, 0;")[5],
            0xffffffffu);
  EXPECT_EQ(Lanes("redux.sync.add.u32 %a, %t, -1;")[31], 496u);
  EXPECT_EQ(Lanes("sub.u32 %b, %t, 5;\nredux.sync.min.s32 %a, %b, -1;")[0], 0xfffffffbu);
  EXPECT_EQ(Lanes("redux.sync.xor.b32 %a, %t, -1;")[3], 0u);
  V out = Lanes("mov.b32 %b, 0;\nelect.sync %a|%p, -1;\n@%p mov.b32 %a, 77;");
  EXPECT_EQ(out[0], 77u);
  EXPECT_EQ(out[1], 0u);
}

TEST(Warp, DivergedCollectiveWaitsForItsMembers) {
  EMULATOR_ONLY();
  V out = Lanes(
      "setp.lt.u32 %p, %t, 16;\nmov.u32 %b, %t;\n@%p bra A;\nadd.u32 %b, %b, 100;\nbra J;\n"
      "A:\nadd.u32 %b, %b, 200;\nJ:\nbar.warp.sync -1;\nshfl.sync.bfly.b32 %a, %b, 16, 31, -1;");
  EXPECT_EQ(out[0], 116u);
  EXPECT_EQ(out[31], 215u);
  std::string error;
  Lanes("setp.lt.u32 %p, %t, 16;\n@%p shfl.sync.bfly.b32 %a, %t, 1, 31, -1;", 32, &error);
  EXPECT_NE(error.find("E662"), std::string::npos) << error;
  Lanes("shfl.sync.bfly.b32 %a, %t, 1, 31, 1;", 32, &error);
  EXPECT_NE(error.find("E662"), std::string::npos) << error;
}

TEST(Barrier, ReduceAndArrive) {
  V out = Lanes("setp.lt.u32 %p, %t, 40;\nbarrier.cta.red.popc.aligned.u32 %a, 1, %p;", 96);
  EXPECT_EQ(out[95], 40u);
  out = Lanes("setp.lt.u32 %p, %t, 40;\nbar.red.or.pred %q, 1, %p;\nselp.b32 %a, 1, 0, %q;", 96);
  EXPECT_EQ(out[95], 1u);
  // Warp 0 arrives, warp 1 syncs: producer and consumer through barrier 3.
  out = RunBody(".shared .b32 x; .reg .b32 %a; .reg .pred %p; .reg .b64 %w;",
                "mov.b32 %a, 0;\nsetp.ge.u32 %p, %t, 32;\n@%p bra C;\nst.shared.u32 [x], "
                "9;\nbar.arrive 3, 64;\nbra E;\n"
                "C:\nbar.sync 3, 64;\nld.shared.u32 %a, [x];\nE:\n" +
                    std::string(kStore),
                {}, 64);
  EXPECT_EQ(out[40], 9u);
}

TEST(Barrier, DeadlockNamesEveryWaiter) {
  EMULATOR_ONLY();
  std::string error;
  Lanes("setp.ge.u32 %p, %t, 32;\n@%p bra E;\nbar.sync 2, 64;\nE:", 64, &error);
  EXPECT_NE(error.find("E660"), std::string::npos) << error;
  EXPECT_NE(error.find("all lanes wait at barrier 2, where 32 of 64 threads have arrived"),
            std::string::npos)
      << error;
  Lanes("bar.sync 1, 40;", 64, &error);
  EXPECT_NE(error.find("E646"), std::string::npos) << error;
}

TEST(Cluster, RanksBarrierAndRemoteMemory) {
  Emu emu;
  ASSERT_TRUE(emu.Load(
      Body(".shared .b32 x; .reg .b32 %r, %n, %a, %s, %v; .reg .b64 %w; .reg .b32 %c;",
           "mov.u32 %r, %cluster_ctarank;\nmov.u32 %n, %cluster_nctarank;\nmul.lo.u32 %v, %r, 11;\n"
           "st.shared.u32 [x], "
           "%v;\nbarrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;\n"
           "xor.b32 %a, %r, 1;\nmov.u32 %s, x;\nmapa.shared::cluster.u32 %s, %s, %a;\n"
           "ld.shared::cluster.u32 %v, [%s];\ngetctarank.shared::cluster.u32 %a, %s;\nmad.lo.u32 "
           "%v, %a, 100, %v;\n"
           "barrier.cluster.arrive;\nbarrier.cluster.wait;\n"
           "mov.u32 %c, %ctaid.x;\nmul.wide.u32 %w, %c, 8;\nadd.u64 %w, %w, %out;\nst.global.u32 "
           "[%w], %v;")))
      << emu.Text();
  uint64_t a = emu.Upload(V(32));
  LaunchConfig config;
  config.grid[0] = 4;
  config.cluster[0] = 2;
  config.block[0] = 32;
  ASSERT_TRUE(emu.Launch("k", config, {KernelArg::Of(a), KernelArg::Of(a)})) << emu.Text();
  V out = emu.Download<uint64_t>(a, 4);
  EXPECT_EQ(out, (V{111, 0, 111, 0}));
}

TEST(SetMaxNReg, WaitsForThePool) {
  // Warpgroup 1 wants registers that warpgroup 0 releases later.
  std::string error;
  std::string give = "setmaxnreg.dec.sync.aligned.u32 24;";
  std::string body = "setp.ge.u32 %p, %t, 128;\n@%p bra C;\n";
  std::string rest = "\nbra E;\nC:\nsetmaxnreg.inc.sync.aligned.u32 232;\nE:\nmov.b32 %a, 1;";
  V out = RunBody(".reg .b32 %a; .reg .pred %p; .reg .b64 %w;", body + give + rest + "\n" + kStore,
                  {}, 384);
  ASSERT_FALSE(out.empty());
  EXPECT_EQ(out[383], 1u);
  if (OnCuda()) return;
  RunBody(".reg .b32 %a; .reg .pred %p; .reg .b64 %w;", body + rest + "\n" + kStore, {}, 384,
          &error);
  EXPECT_NE(error.find("E660"), std::string::npos) << error;
  EXPECT_NE(error.find("registers of the CTA's pool"), std::string::npos) << error;
}

// A lane that runs ahead to the next meeting must not count lanes that were released from the last
// one but have not gone on: they would be left behind.
TEST(Control, MeetingsOfAWarpInARowStayApart) {
  EMULATOR_ONLY();
  const std::string step = "bar.warp.sync -1;\n@!%one bra S#;\nadd.u32 %b, %b, 1;\nS#:\n";
  std::string body = "setp.eq.u32 %one, %t, 25;\nmov.u32 %b, 0;\n";
  for (int k = 0; k < 6; ++k) {
    std::string text = step;
    for (size_t at; (at = text.find('#')) != std::string::npos;)
      text.replace(at, 1, std::to_string(k));
    body += text;
  }
  body += "bar.sync 0;\ncvt.u64.u32 %w, %b;\nst.global.u64 [%pout], %w;";
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    EmulatorOptions options;
    options.seed = seed;
    options.policy = Policy::kRandom;
    const auto out =
        RunBody(".reg .pred %one;\n.reg .b32 %b;\n.reg .b64 %w;", body, {}, 32, nullptr, options);
    ASSERT_EQ(out.size(), 32u) << "seed " << seed;
    for (size_t lane = 0; lane < 32; ++lane) ASSERT_EQ(out[lane], lane == 25 ? 6u : 0u);
  }
}

}  // namespace
}  // namespace tilec::runtime
