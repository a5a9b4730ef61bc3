// A, S, R, N, B: asynchronous copies, barriers, registers, numbers, banks.
//
// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/judge/cases.h"

namespace tilec::runtime::judge {
namespace {

#define INIT " @%l0 mbarrier.init.shared.b64 [bar], 1;\n bar.sync 0;\n"
#define WAIT(parity)                                                                          \
  " {\n .reg .pred done;\n again:\n mbarrier.try_wait.parity.shared.b64 done, [bar], " parity \
  ";\n @!done bra again;\n }\n"
#define COPY                                                                                    \
  " @%l0 mbarrier.arrive.expect_tx.shared.b64 _, [bar], 256;\n"                                 \
  " @%l0 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [buf], [%in], 256, " \
  "[bar];\n"

const Case kCopies[] = {
    {"A1", "the source of a bulk store is overwritten",
     R"( st.shared.b32 [%r1], %t;
 fence.proxy.async.shared::cta;
 bar.sync 0;
 @%l0 cp.async.bulk.global.shared::cta.bulk_group [%out], [buf], 256;
 @%l0 cp.async.bulk.commit_group;
+@%l0 cp.async.bulk.wait_group.read 0;
 bar.sync 0;
!st.shared.b32 [%r1], 0;
-@%l0 cp.async.bulk.wait_group.read 0;
)"},
    {"A1", "one group too many is left pending",
     R"( st.shared.b32 [%r1], %t;
 fence.proxy.async.shared::cta;
 bar.sync 0;
 @%l0 cp.async.bulk.global.shared::cta.bulk_group [%out], [buf], 256;
 @%l0 cp.async.bulk.commit_group;
-@%l0 cp.async.bulk.wait_group.read 1;
+@%l0 cp.async.bulk.wait_group.read 0;
 bar.sync 0;
!st.shared.b32 [%r1], 0;
 @%l0 cp.async.bulk.wait_group 0;
)"},
    {"A2", "a copy is read before it has arrived",
     INIT COPY
     R"(+{
+.reg .pred done;
+again:
+mbarrier.try_wait.parity.shared.b64 done, [bar], 0;
+@!done bra again;
+}
!ld.shared.b32 %r2, [%r1];
-{
-.reg .pred done;
-again:
-mbarrier.try_wait.parity.shared.b64 done, [bar], 0;
-@!done bra again;
-}
)"},
    {"A2", "only one lane waits", INIT COPY R"( @%w1 bra DONE;
-@!%l0 bra READ;
)" WAIT("0") R"(-READ:
!ld.shared.b32 %r2, [%r1];
 DONE:
)"},
    {"A2", "cp.async is read before its group is over",
     R"( add.u64 %d0, %in, %tt;
 cp.async.ca.shared.global [%r1], [%d0], 4;
 cp.async.commit_group;
+cp.async.wait_group 0;
!ld.shared.b32 %r2, [%r1];
-cp.async.wait_group 0;
)"},
    // All lanes of a warp make the same copy: allowed, as CUTLASS does it; shifted ones are a race.
    {"A2", "lanes store over each other",
     R"( st.shared.b32 [%r1], %t;
 fence.proxy.async.shared::cta;
 bar.sync 0;
 @!%w0 bra DONE;
-shl.b32 %r5, %t, 4;
-cvt.u64.u32 %d1, %r5;
-add.u64 %out, %out, %d1;
!cp.async.bulk.global.shared::cta.bulk_group [%out], [buf], 256;
 cp.async.bulk.commit_group;
 cp.async.bulk.wait_group 0;
 DONE:
)"},
    {"A2", "lanes store the same twice, the second before the first is done",
     R"( st.shared.b32 [%r1], %t;
 fence.proxy.async.shared::cta;
 bar.sync 0;
 @!%w0 bra DONE;
 mov.u32 %r5, 0;
 AGAIN:
!cp.async.bulk.global.shared::cta.bulk_group [%out], [buf], 256;
 cp.async.bulk.commit_group;
-cp.async.bulk.wait_group.read 0;
+cp.async.bulk.wait_group 0;
 bar.warp.sync -1;
 add.u32 %r5, %r5, 1;
 setp.lt.u32 %p, %r5, 2;
 @%p bra AGAIN;
 cp.async.bulk.wait_group 0;
 DONE:
)"},
    {"A3", "exit with a bulk store that may still read",
     R"( st.shared.b32 [%r1], %t;
 fence.proxy.async.shared::cta;
 bar.sync 0;
!@%l0 cp.async.bulk.global.shared::cta.bulk_group [%out], [buf], 256;
 @%l0 cp.async.bulk.commit_group;
+@%l0 cp.async.bulk.wait_group.read 0;
)"},
    {"A3", "exit with a copy nobody waited for",
     INIT R"( @%l0 mbarrier.arrive.expect_tx.shared.b64 _, [bar], 256;
!@%l0 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [buf], [%in], 256, [bar];
+{
+.reg .pred done;
+again:
+mbarrier.try_wait.parity.shared.b64 done, [bar], 0;
+@!done bra again;
+}
)"},
    {"A4", "more bytes expected than copied",
     INIT R"(-@%l0 mbarrier.arrive.expect_tx.shared.b64 _, [bar], 512;
+@%l0 mbarrier.arrive.expect_tx.shared.b64 _, [bar], 256;
!@%l0 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [buf], [%in], 256, [bar];
)" WAIT("0")},
    {"A5", "bytes are expected after the phase is over",
     INIT R"(-@%l0 mbarrier.arrive.shared.b64 _, [bar];
*@%l0 mbarrier.expect_tx.relaxed.cta.shared.b64 [bar], 256;
+@%l0 mbarrier.arrive.expect_tx.shared.b64 _, [bar], 256;
 @%l0 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [buf], [%in], 256, [bar];
)" WAIT("0")},
};

const Case kBarriers[] = {
    {"S6", "half a warp at a barrier, the others go past it; they may leave",
     R"( and.b32 %r2, %t, 31;
 setp.lt.u32 %p, %r2, 16;
 @!%p bra PAST;
!bar.sync 0;
 PAST:
-st.shared.b32 [%r1], %t;
)"},
    {"S1", "nobody arrives", INIT R"(+@%l0 mbarrier.arrive.shared.b64 _, [bar];
 {
 .reg .pred done;
 again:
!mbarrier.try_wait.parity.shared.b64 done, [bar], 0;
 @!done bra again;
 }
)"},
    {"S2", "more arrivals than expected", INIT R"(*@%l0 mbarrier.arrive.shared.b64 _, [bar], 2;
+@%l0 mbarrier.arrive.shared.b64 _, [bar], 1;
)"},
    {"S3", "the barrier goes on while a warp has not looked", INIT R"( @%w1 bra LATE;
 @%l0 mbarrier.arrive.shared.b64 _, [bar];
-@%l0 mbarrier.arrive.shared.b64 _, [bar];
-@%l0 mbarrier.arrive.shared.b64 _, [bar];
 bra DONE;
 LATE:
 {
 .reg .pred done;
 again:
!mbarrier.try_wait.parity.shared.b64 done, [bar], 0;
 @!done bra again;
 }
 DONE:
)"},
    {"S4", "an arrival in a phase after one that nobody saw",
     INIT R"( @%l0 mbarrier.arrive.shared.b64 _, [bar];
+{
+.reg .pred done;
+again:
+mbarrier.try_wait.parity.shared.b64 done, [bar], 0;
+@!done bra again;
+}
!@%l0 mbarrier.arrive.shared.b64 _, [bar];
)",
     32},
    {"S5", "an arrival that may fall into the generation before",
     R"( @%w1 bra OTHER;
 bar.arrive 1, 64;
+bar.sync 2, 64;
!bar.arrive 1, 64;
 bra DONE;
 OTHER:
 bar.sync 1, 64;
+bar.arrive 2, 64;
 bar.sync 1, 64;
 DONE:
)"},
    {"S5", "different counts",
     R"( @%w1 bra OTHER;
 bar.sync 1, 64;
 bra DONE;
 OTHER:
*bar.sync 1, 96;
+bar.sync 1, 64;
 DONE:
)"},
    {"M1", "lanes of a warp come to a barrier apart, and leave it apart",
     R"( setp.eq.u32 %p, %t, 32;
 @%p st.shared.b32 [flag], 1;
 @%l0 bra ONE;
+barrier.sync 0;
!ld.shared.b32 %r3, [flag];
 barrier.sync 0;
 bra DONE;
 ONE:
+barrier.sync 0;
 ld.shared.b32 %r3, [flag];
 barrier.sync 0;
 DONE:
)"},
    {"S6", "a barrier under a condition that not all lanes meet",
     R"( setp.lt.u32 %p, %t, 40;
+setp.lt.u32 %p, %t, 32;
!@%p bar.sync 1, 32;
)"},
    {"S6", "a member mask without the lane",
     R"( mov.u32 %r2, 0xffffffff;
-mov.u32 %r2, 0x0000ffff;
!shfl.sync.bfly.b32 %r3, %t, 1, 0x1f, %r2;
)"},
    {"S7", "a wait at the cluster barrier without arrival",
     R"(+barrier.cluster.arrive.aligned;
!barrier.cluster.wait.aligned;
)",
     32, 2, 2},
    {"S8", "the first CTA waits for the last of more than fit",
     R"( mov.u32 %r2, %nctaid.x;
 sub.u32 %r2, %r2, 1;
 @!%l0 bra DONE;
-setp.ne.u32 %p, %cta, %r2;
+setp.ne.u32 %p, %cta, 0;
 @%p bra WAIT;
 @%l0 st.release.gpu.global.b32 [%scratch], 1;
 bra DONE;
 WAIT:
!ld.acquire.gpu.global.b32 %r3, [%scratch];
 setp.eq.u32 %q, %r3, 0;
 @%q bra WAIT;
 DONE:
)",
     32, 140, 1, false, false, 200 << 10},
    {"S1", "two CTAs wait for each other through global memory",
     R"(-mov.u32 %r2, 2;
+mov.u32 %r2, 0;
 setp.ne.u32 %p, %cta, %r2;
 @%p bra WAIT;
 @%l0 st.release.gpu.global.b32 [%scratch], 1;
 bra DONE;
 WAIT:
!ld.acquire.gpu.global.b32 %r3, [%scratch];
 setp.eq.u32 %q, %r3, 0;
 @%q bra WAIT;
 DONE:
)",
     32, 2},
    {"S9", "a barrier is initialised twice", INIT R"(+@%l0 mbarrier.inval.shared.b64 [bar];
!@%l0 mbarrier.init.shared.b64 [bar], 2;
)"},
    {"R1", "more registers than the pool can give",
     R"( shr.u32 %r2, %t, 7;
 setp.eq.u32 %p, %r2, 0;
 setp.eq.u32 %q, %r2, 1;
+@%p setmaxnreg.dec.sync.aligned.u32 96;
!@%q setmaxnreg.inc.sync.aligned.u32 160;
)",
     512},
    {"R1", "not by all warps of a warpgroup",
     R"( setp.lt.u32 %p, %t, 128;
-setp.lt.u32 %p, %t, 96;
!@%p setmaxnreg.dec.sync.aligned.u32 96;
)",
     256},
    {"S6", "lanes of a warp at two barriers",
     R"( setp.lt.u32 %p, %t, 16;
-@%p bra OTHER;
*bar.sync 0;
-bra ON;
-OTHER:
-bar.sync 0;
-ON:
+bar.sync 0;
)",
     32},
    // The sum of a grid: everybody fences, one thread counts, the last CTA fences and reads. What
    // orders the other threads' writes is that fence.sc are in one order.
    {"M2", "the last CTA of a grid reads",
     R"( mul.wide.u32 %d0, %cta, 256;
 add.u64 %d0, %d0, %scratch;
 add.u64 %d1, %d0, %tt;
 st.global.b32 [%d1], %t;
+membar.gl;
 bar.sync 0;
 @%l0 atom.global.add.u32 %r4, [%scratch+8192], 1;
 @%l0 st.shared.b32 [flag], %r4;
 bar.sync 0;
 ld.shared.b32 %r5, [flag];
 setp.ne.u32 %p, %r5, 1;
 @%p ret;
 membar.gl;
 sub.u32 %r6, 1, %cta;
 mul.wide.u32 %d2, %r6, 256;
 add.u64 %d2, %d2, %scratch;
 add.u64 %d2, %d2, %tt;
!ld.global.b32 %r7, [%d2];
)",
     64, 2},
    {"N1", "zero by zero",
     R"( mov.f32 %f0, 0f00000000;
 mov.f32 %f1, 0f00000000;
+mov.f32 %f1, 0f3f800000;
!div.rn.f32 %f2, %f0, %f1;
 add.f32 %f3, %f2, %f0;
)",
     32, 1, 1, true},
    {"B1", "all lanes in one bank",
     R"( shl.b32 %r2, %t, 2;
-shl.b32 %r2, %t, 7;
 add.u32 %r2, %r0, %r2;
!st.shared.b32 [%r2], %t;
)",
     32, 1, 1, false, true},
};

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

TEST(Sync, Copies) {
  EMULATOR_ONLY();
  for (const Case& c : kCopies) Expect(c);
}
TEST(Sync, Barriers) {
  EMULATOR_ONLY();
  for (const Case& c : kBarriers) Expect(c);
}

}  // namespace
}  // namespace tilec::runtime::judge
