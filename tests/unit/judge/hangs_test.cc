// What is said of programs that hang, or that read too early: who should have arrived, who is not
// at the barrier, and where.
//
// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/judge/cases.h"
#include "tests/unit/judge/mbarrier_texts.h"

namespace tilec::runtime::judge {

namespace {

// A thread that has not looked at the first barrier's completion does not wait for the second.
TEST(Sync, ClusterBarriersInARow) {
  EMULATOR_ONLY();
  const Case c = {"S1",
                  "lanes a barrier apart",
                  R"( setp.eq.u32 %p, %t, 5;
 @%p bra ONE;
 barrier.cluster.arrive.release;
 barrier.cluster.wait.acquire;
 bra NEXT;
 ONE:
 barrier.cluster.arrive.release;
 barrier.cluster.wait.acquire;
 NEXT:
 barrier.cluster.arrive.release;
 barrier.cluster.wait.acquire;
 barrier.cluster.arrive.release;
 barrier.cluster.wait.acquire;
)",
                  32,
                  2,
                  2};
  const Judged r = judge::Run(c, false);
  EXPECT_TRUE(r.ran) << r.errors;
  EXPECT_EQ(ToText(r.findings), "");
}

// Who arrived and is gone does not stand for others.
TEST(Sync, ClusterBarrierAfterAnExit) {
  EMULATOR_ONLY();
  const Case c = {"M1",
                  "a lane that exits",
                  R"( barrier.cluster.arrive.release;
 setp.eq.u32 %p, %t, 5;
 @%p ret;
 barrier.cluster.wait.acquire;
 @%l0 st.shared.b32 [flag], %t;
 barrier.cluster.arrive.release;
 barrier.cluster.wait.acquire;
 ld.shared.b32 %r4, [flag];
)",
                  32,
                  2,
                  2};
  const Judged r = judge::Run(c, false);
  EXPECT_TRUE(r.ran) << r.errors;
  EXPECT_EQ(ToText(r.findings), "");
}

// Two warps arrive in the first phase, one in the second: the report says who did not come again.
TEST(Sync, AHangSaysWhoShouldHaveArrived) {
  EMULATOR_ONLY();
  const Case c = {"S1", "one of two arrivals",
                  " @%l0 mbarrier.init.shared.b64 [bar], 2;\n bar.sync 0;\n"
                  " and.b32 %r5, %t, 31;\n setp.eq.u32 %p, %r5, 0;\n"
                  " @%p mbarrier.arrive.shared.b64 _, [bar];\n" WAIT(
                      "0") " @%l0 mbarrier.arrive.shared.b64 _, [bar];\n" WAIT("1")};
  const Judged r = judge::Run(c, false);
  ASSERT_EQ(r.findings.size(), 1u) << ToText(r.findings) << r.errors;
  const std::string text = ToText(r.findings);
  for (const char* words : {"counts 2 arrivals, as initialised at",
                            "arrived in its phase 1: CTA (0,0,0), warp 0, 1 lane",
                            "arrived in its phase 0 and not in 1: CTA (0,0,0), warp 1, 1 lane"})
    EXPECT_NE(text.find(words), std::string::npos) << words << "\n" << text;
}

// A warp that has gone waits no more: it is told from those that stand elsewhere.
TEST(Sync, AHangSaysWhoIsNotAtTheBarrier) {
  EMULATOR_ONLY();
  const Case c = {"S1", "a warp at another barrier",
                  " @%w0 bar.sync 1, 64;\n @%w1 bar.sync 2, 64;\n"};
  const Judged r = judge::Run(c, false);
  const std::string text = ToText(r.findings);
  for (const char* words : {"not at barrier 1: CTA (0,0,0), warp 1, which is at",
                            "not at barrier 2: CTA (0,0,0), warp 0, which is at"})
    EXPECT_NE(text.find(words), std::string::npos) << words << "\n" << text;
}

// The bytes are read before their copy comes: the reader's wait is missing, not the copy's. A
// relaxed flag, which orders nothing, has the copy come second.
TEST(Sync, AReadThatCameTooEarly) {
  EMULATOR_ONLY();
  const Case c = {"M1", "no wait in front of the read",
                  INIT
                  " @!%w0 bra AGAIN;\n ld.shared.b32 %r4, [%r1];\n mov.u32 %r5, 1;\n"
                  " st.relaxed.gpu.global.b32 [%scratch], %r5;\n bra READ;\n"
                  " AGAIN:\n ld.relaxed.gpu.global.b32 %r5, [%scratch];\n"
                  " setp.eq.u32 %p, %r5, 0;\n @%p bra AGAIN;\n setp.eq.u32 %p, %t, 32;\n"
                  " @%p mbarrier.arrive.expect_tx.shared.b64 _, [bar], 256;\n"
                  " @%p cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
                  "[buf], [%in], 256, [bar];\n READ:\n" WAIT("0")};
  const Judged r = judge::Run(c, false);
  const std::string text = ToText(r.findings);
  EXPECT_NE(text.find("wait for the copy before the bytes are read"), std::string::npos) << text;
}

}  // namespace

}  // namespace tilec::runtime::judge
