// A, S, R, N, B: asynchronous copies, barriers, registers, numbers, banks.
//
// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/judge/cases.h"

#include "tests/unit/judge/mbarrier_texts.h"

namespace tilec::runtime::judge {

namespace {

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
TEST(Sync, Barriers) {
  EMULATOR_ONLY();
  for (const Case& c : kBarriers) Expect(c);
}

}  // namespace

}  // namespace tilec::runtime::judge
