// M and P: races, scopes, bounds, initialisation, proxies.
//
// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/judge/cases.h"

#include "tests/unit/judge/mbarrier_texts.h"

namespace tilec::runtime::judge {

namespace {

// Barrier 0 of `bar`, waited for by every thread; thread 0 has initialised it with a count of 1.
const Case kRaces[] = {
    {"M1", "two warps, no barrier",
     R"( st.shared.b32 [%r1], %t;
+bar.sync 0;
 xor.b32 %r2, %r1, 128;
!ld.shared.b32 %r3, [%r2];
)"},
    {"M1", "lanes of a warp that are not synchronised",
     R"( st.shared.b32 [%r1], %t;
+bar.warp.sync 0xffffffff;
 xor.b32 %r2, %r1, 4;
!ld.shared.b32 %r3, [%r2];
)",
     32},
    {"M1", "halves of words a whole row wrote: another lane's, and its own",
     R"( mov.u32 %r4, 0;
 st.shared.b32 [%r1], %r4;
 mov.u32 %r5, %r1;
-xor.b32 %r5, %r1, 4;
 cvt.u16.u32 %h0, %t;
 setp.eq.u32 %p, %t, 4;
-@%p st.shared.b32 [%r1], %t;
+@%p st.shared.b16 [%r1], %h0;
 setp.eq.u32 %p, %t, 7;
!@%p st.shared.b16 [%r5], %h0;
)",
     32},
    {"M1", "warp-synchronous code of older days",
     R"( st.volatile.shared.b32 [%r1], %t;
 bar.sync 0;
 xor.b32 %r2, %r1, 64;
 ld.volatile.shared.b32 %r3, [%r2];
+bar.warp.sync 0xffffffff;
!st.volatile.shared.b32 [%r1], %r3;
)",
     32},
    {"M1", "two warps write the same halves of words; of other halves it is none",
     R"( shl.b32 %r4, %t, 2;
 and.b32 %r4, %r4, 124;
+shl.b32 %r5, %w, 1;
+add.u32 %r4, %r4, %r5;
 add.u32 %r4, %r4, %r0;
 cvt.u16.u32 %h0, %t;
!st.shared.b16 [%r4], %h0;
)"},
    {"M1", "overwritten while another warp may still read",
     R"( st.shared.b32 [%r1], %t;
 bar.sync 0;
 xor.b32 %r2, %r1, 128;
 ld.shared.b32 %r3, [%r2];
+bar.sync 0;
!st.shared.b32 [%r1], %r3;
)"},
    {"M1", "a flag without a fence",
     R"( @%l0 st.shared.b32 [flag], 0;
 bar.sync 0;
 @%l0 st.shared.b32 [buf], 7;
+@%l0 fence.acq_rel.cta;
 @%l0 st.relaxed.cta.shared.b32 [flag], 1;
 setp.ne.u32 %p, %t, 32;
 @%p bra DONE;
 AGAIN:
 ld.relaxed.cta.shared.b32 %r2, [flag];
 setp.eq.u32 %q, %r2, 0;
 @%q bra AGAIN;
 fence.acq_rel.cta;
!ld.shared.b32 %r3, [buf];
 DONE:
)"},
    {"M1", "an atomic and an ordinary store",
     R"( st.shared.b32 [%r1], 0;
 bar.sync 0;
+@%w0 atom.shared.add.u32 %r3, [buf], 1;
-@%w0 st.shared.b32 [buf], 1;
!@%w1 atom.shared.add.u32 %r3, [buf], 1;
)"},
    {"M1", "an arrival of one lane does not speak for the others",
     " @%l0 mbarrier.init.shared.b64 [bar], 1;\n bar.sync 0;\n"
     R"( @%w1 bra OTHER;
 st.shared.b32 [%r1], %t;
+bar.warp.sync 0xffffffff;
 @%l0 mbarrier.arrive.shared.b64 _, [bar];
 bra DONE;
 OTHER:
)" WAIT("0") R"( xor.b32 %r2, %r1, 128;
!ld.shared.b32 %r3, [%r2];
 DONE:
)"},
    {"M2", "two CTAs write one word",
     R"(+mul.wide.u32 %d0, %cta, 4;
+add.u64 %out, %out, %d0;
!@%l0 st.global.b32 [%out], %cta;
)",
     32, 2},
    {"M2", "two warps exchange through global memory",
     R"( add.u64 %d0, %out, %tt;
 st.global.b32 [%d0], %t;
+bar.sync 0;
 xor.b64 %d1, %tt, 128;
 add.u64 %d1, %out, %d1;
!ld.global.b32 %r2, [%d1];
)"},
    {"M2", "a flag between CTAs that releases nothing",
     R"( setp.ne.u32 %p, %cta, 0;
 @%p bra READER;
 @%l0 st.global.b32 [%out], 5;
-@%l0 st.relaxed.gpu.global.b32 [%scratch], 1;
+@%l0 st.release.gpu.global.b32 [%scratch], 1;
 bra DONE;
 READER:
 ld.acquire.gpu.global.b32 %r2, [%scratch];
 setp.eq.u32 %q, %r2, 0;
 @%q bra READER;
!@%l0 ld.global.b32 %r3, [%out];
 DONE:
)",
     32, 2},
    {"M2", "a fence at the scope of the CTA does not reach another CTA's atomic",
     R"( setp.ne.u32 %p, %cta, 0;
 @%p bra READER;
 @%l0 st.global.b32 [%out], 5;
-@%l0 st.release.cta.global.b32 [%scratch], 1;
+@%l0 st.release.gpu.global.b32 [%scratch], 1;
 bra DONE;
 READER:
 ld.acquire.gpu.global.b32 %r2, [%scratch];
 setp.eq.u32 %q, %r2, 0;
 @%q bra READER;
!@%l0 ld.global.b32 %r3, [%out];
 DONE:
)",
     32, 2},
    {"M3", "an arrival at CTA scope on a barrier of another CTA",
     " @%l0 mbarrier.init.shared.b64 [bar], 1;\n"
     R"( @%l0 fence.mbarrier_init.release.cluster;
 barrier.cluster.arrive.aligned;
 barrier.cluster.wait.aligned;
 setp.eq.u32 %p, %rank, 0;
 mov.u32 %r5, bar;
 mapa.shared::cluster.u32 %r6, %r5, 0;
 mapa.shared::cluster.u32 %r7, %r0, 1;
 @%p bra READER;
 @%l0 st.shared.b32 [buf], 3;
-@%l0 mbarrier.arrive.shared::cluster.b64 _, [%r6];
+@%l0 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r6];
 bra DONE;
 READER:
 {
 .reg .pred done;
 again:
 mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [bar], 0;
 @!done bra again;
 }
!ld.shared::cluster.b32 %r3, [%r7];
 DONE:
 barrier.cluster.arrive.aligned;
 barrier.cluster.wait.aligned;
)",
     32, 2, 2},
};

const Case kPlaces[] = {
    {"M4", "beyond shared memory",
     R"(-add.u32 %r1, %r1, 1048576;
!st.shared.b32 [%r1], %t;
)"},
    {"M4", "beyond an allocation",
     R"( add.u64 %d0, %out, %tt;
-add.u64 %d0, %d0, 16384;
!st.global.b32 [%d0], %t;
)"},
    {"M4", "a prefetch of the parameter space by a generic address",
     R"( mov.b64 %d0, map;
-cvta.param.u64 %d0, %d0;
!prefetch.param.tensormap [%d0];
)"},
    {"M5", "a word at an odd address",
     R"(-add.u32 %r1, %r1, 2;
!st.shared.b32 [%r1], %t;
)"},
    {"M6", "shared memory nobody wrote",
     R"(+st.shared.b32 [%r1], %t;
!ld.shared.b32 %r2, [%r1];
)"},
    {"M6", "global memory nobody wrote",
     R"( add.u64 %d0, %out, %tt;
+st.global.b32 [%d0], %t;
!ld.global.b32 %r2, [%d0];
)"},
    {"M6", "one byte of a word",
     R"( cvt.u16.u32 %h0, %t;
 st.shared.b16 [%r1], %h0;
-st.shared.b8 [%r1+2], %h0;
+st.shared.b16 [%r1+2], %h0;
!ld.shared.b32 %r2, [%r1];
)"},
    {"M7", "a store over a live mbarrier",
     " @%l0 mbarrier.init.shared.b64 [bar], 1;\n bar.sync 0;\n"
     R"(+@%l0 mbarrier.inval.shared.b64 [bar];
!@%l0 st.shared.b32 [bar+4], 1;
)"},
    {"M8", "another CTA's memory before it is known to run",
     R"( mapa.shared::cluster.u32 %r7, %r1, 1;
 setp.eq.u32 %p, %rank, 0;
+barrier.cluster.arrive.aligned;
+barrier.cluster.wait.aligned;
!@%p st.shared::cluster.b32 [%r7], %t;
 barrier.cluster.arrive.aligned;
 barrier.cluster.wait.aligned;
)",
     32, 2, 2},
    {"M8", "the other CTA may be gone",
     R"( mapa.shared::cluster.u32 %r7, %r1, 1;
 setp.eq.u32 %p, %rank, 0;
 barrier.cluster.arrive.aligned;
 barrier.cluster.wait.aligned;
!@%p st.shared::cluster.b32 [%r7], %t;
+barrier.cluster.arrive.aligned;
+barrier.cluster.wait.aligned;
)",
     32, 2, 2},
    {"M9", "a loop on a relaxed load, and nothing after it",
     R"( setp.ne.u32 %p, %cta, 0;
 @%p bra READER;
 @%l0 st.release.gpu.global.b32 [%scratch], 1;
 bra DONE;
 READER:
!ld.relaxed.gpu.global.b32 %r2, [%scratch];
 setp.eq.u32 %q, %r2, 0;
 @%q bra READER;
+fence.acq_rel.gpu;
 @%l0 ld.global.b32 %r3, [%in];
 DONE:
)",
     32, 2},
};

TEST(Memory, Races) {
  EMULATOR_ONLY();
  for (const Case& c : kRaces) Expect(c);
}
TEST(Memory, Places) {
  EMULATOR_ONLY();
  for (const Case& c : kPlaces) Expect(c);
}

}  // namespace

}  // namespace tilec::runtime::judge
