// M and P: races, scopes, bounds, initialisation, proxies.
//
// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/judge/cases.h"

namespace tilec::runtime::judge {
namespace {

// Barrier 0 of `bar`, waited for by every thread; thread 0 has initialised it with a count of 1.
#define INIT " @%l0 mbarrier.init.shared.b64 [bar], 1;\n bar.sync 0;\n"
#define WAIT(parity)                                                                          \
  " {\n .reg .pred done;\n again:\n mbarrier.try_wait.parity.shared.b64 done, [bar], " parity \
  ";\n @!done bra again;\n }\n"

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

const Case kProxies[] = {
    {"P1", "a bulk store of what was just stored",
     R"( st.shared.b32 [%r1], %t;
+fence.proxy.async.shared::cta;
 bar.sync 0;
 @!%l0 bra DONE;
!cp.async.bulk.global.shared::cta.bulk_group [%out], [buf], 256;
 cp.async.bulk.commit_group;
 cp.async.bulk.wait_group 0;
 DONE:
)"},
    {"P1", "the fence may stand behind the barrier",
     R"( st.shared.b32 [%r1], %t;
 bar.sync 0;
 @!%l0 bra DONE;
+fence.proxy.async.shared::cta;
!cp.async.bulk.global.shared::cta.bulk_group [%out], [buf], 256;
 cp.async.bulk.commit_group;
 cp.async.bulk.wait_group 0;
 DONE:
)"},
    {"P1", "a fence for global memory does not help shared memory",
     R"( st.shared.b32 [%r1], %t;
-fence.proxy.async.global;
+fence.proxy.async;
 bar.sync 0;
 @!%l0 bra DONE;
!cp.async.bulk.global.shared::cta.bulk_group [%out], [buf], 256;
 cp.async.bulk.commit_group;
 cp.async.bulk.wait_group 0;
 DONE:
)"},
    {"P1", "global memory written by a store, read by a bulk copy", INIT R"( add.u64 %d0, %out, %tt;
 st.global.b32 [%d0], %t;
+fence.proxy.async.global;
 bar.sync 0;
 @%l0 mbarrier.arrive.expect_tx.shared.b64 _, [bar], 256;
!@%l0 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [buf], [%out], 256, [bar];
)" WAIT("0")},
    {"P2", "a copy over what was read",
     INIT R"( @%l0 mbarrier.arrive.expect_tx.shared.b64 _, [bar], 256;
 @%l0 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [buf], [%in], 256, [bar];
)" WAIT("0") R"( ld.shared.b32 %r2, [%r1];
+fence.proxy.async.shared::cta;
 bar.sync 0;
 @%l0 mbarrier.arrive.expect_tx.shared.b64 _, [bar], 256;
!@%l0 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [buf], [%in], 256, [bar];
)" WAIT("1")},
    {"P3", "a tensor map written by the kernel", INIT R"( mov.b64 %d1, map;
 cvta.param.u64 %d1, %d1;
 setp.lt.u32 %p, %t, 32;
 @!%l0 bra ISSUED;
 mov.u32 %r9, 0;
 COPY:
 cvt.u64.u32 %d3, %r9;
 add.u64 %d4, %d1, %d3;
 ld.b64 %d5, [%d4];
 add.u64 %d4, %out, %d3;
 st.global.b64 [%d4], %d5;
 add.u32 %r9, %r9, 8;
 setp.lt.u32 %q, %r9, 128;
 @%q bra COPY;
 fence.proxy.tensormap::generic.release.gpu;
+fence.proxy.tensormap::generic.acquire.gpu [%out], 128;
 mbarrier.arrive.expect_tx.shared.b64 _, [bar], 1024;
!cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes
 [buf], [%out, {0, 0}], [bar];
 ISSUED:
)" WAIT("0")},
    {"P3", "a tensor map written by the kernel and not released", INIT R"( mov.b64 %d1, map;
 cvta.param.u64 %d1, %d1;
 setp.lt.u32 %p, %t, 32;
 @!%l0 bra ISSUED;
 mov.u32 %r9, 0;
 COPY:
 cvt.u64.u32 %d3, %r9;
 add.u64 %d4, %d1, %d3;
 ld.b64 %d5, [%d4];
 add.u64 %d4, %out, %d3;
 st.global.b64 [%d4], %d5;
 add.u32 %r9, %r9, 8;
 setp.lt.u32 %q, %r9, 128;
 @%q bra COPY;
+fence.proxy.tensormap::generic.release.gpu;
 fence.proxy.tensormap::generic.acquire.gpu [%out], 128;
 mbarrier.arrive.expect_tx.shared.b64 _, [bar], 1024;
!cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes
 [buf], [%out, {0, 0}], [bar];
 ISSUED:
)" WAIT("0")},
    {"P3", "a release before the last word of the map", INIT R"( mov.b64 %d1, map;
 cvta.param.u64 %d1, %d1;
 setp.lt.u32 %p, %t, 32;
 @!%l0 bra ISSUED;
 mov.u32 %r9, 0;
 COPY:
 cvt.u64.u32 %d3, %r9;
 add.u64 %d4, %d1, %d3;
 ld.b64 %d5, [%d4];
 add.u64 %d4, %out, %d3;
 st.global.b64 [%d4], %d5;
 add.u32 %r9, %r9, 8;
 setp.lt.u32 %q, %r9, 128;
 @%q bra COPY;
-fence.proxy.tensormap::generic.release.gpu;
 st.global.b64 [%out+120], %d5;
+fence.proxy.tensormap::generic.release.gpu;
 fence.proxy.tensormap::generic.acquire.gpu [%out], 128;
 mbarrier.arrive.expect_tx.shared.b64 _, [bar], 1024;
!cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes
 [buf], [%out, {0, 0}], [bar];
 ISSUED:
)" WAIT("0")},
    {"P3", "a map with a field replaced in shared memory", INIT R"( @%w1 bra ISSUED;
 st.shared.b32 [%r1], 0;
 bar.warp.sync 0xffffffff;
 @!%l0 bra MADE;
 tensormap.replace.tile.global_address.shared::cta.b1024.b64 [buf], %in;
 tensormap.replace.tile.rank.shared::cta.b1024.b32 [buf], 0;
 tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [buf], 0, 64;
 tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [buf], 0, 256;
 tensormap.replace.tile.element_stride.shared::cta.b1024.b32 [buf], 0, 1;
 tensormap.replace.tile.elemtype.shared::cta.b1024.b32 [buf], 2;
 tensormap.replace.tile.interleave_layout.shared::cta.b1024.b32 [buf], 0;
 tensormap.replace.tile.swizzle_mode.shared::cta.b1024.b32 [buf], 0;
 tensormap.replace.tile.fill_mode.shared::cta.b1024.b32 [buf], 0;
 MADE:
 bar.warp.sync 0xffffffff;
 tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned
 [%out], [buf], 128;
+fence.proxy.tensormap::generic.acquire.gpu [%out], 128;
 @!%l0 bra ISSUED;
 mbarrier.arrive.expect_tx.shared.b64 _, [bar], 256;
!cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes
 [buf+1024], [%out, {0}], [bar];
 ISSUED:
)" WAIT("0")},
    {"M1", "a field replaced while another warp reads the map", R"( @%w0 st.shared.b32 [%r1], 0;
 bar.sync 0;
 @%l0 tensormap.replace.tile.rank.shared::cta.b1024.b32 [buf], 0;
+bar.sync 0;
!@%w1 ld.shared.b32 %r2, [buf+4];
)"},
    {"P4", "a barrier used by a warp that did not see it made",
     R"( @%l0 mbarrier.init.shared.b64 [bar], 1;
+bar.sync 0;
 setp.eq.u32 %p, %t, 32;
!@%p mbarrier.arrive.shared.b64 _, [bar];
)"},
    {"P4", "a barrier of another CTA",
     R"( @%l0 mbarrier.init.shared.b64 [bar], 1;
+@%l0 fence.mbarrier_init.release.cluster;
 barrier.cluster.arrive.relaxed.aligned;
 barrier.cluster.wait.acquire.aligned;
 mov.u32 %r5, bar;
 mapa.shared::cluster.u32 %r6, %r5, 0;
 setp.eq.u32 %p, %rank, 1;
 and.pred %p, %p, %l0;
!@%p mbarrier.arrive.shared::cluster.b64 _, [%r6];
 barrier.cluster.arrive.aligned;
 barrier.cluster.wait.aligned;
)",
     32, 2, 2},
};

TEST(Memory, Races) {
  EMULATOR_ONLY();
  for (const Case& c : kRaces) Expect(c);
}
TEST(Memory, Places) {
  EMULATOR_ONLY();
  for (const Case& c : kPlaces) Expect(c);
}
TEST(Memory, Proxies) {
  EMULATOR_ONLY();
  for (const Case& c : kProxies) Expect(c);
}

}  // namespace
}  // namespace tilec::runtime::judge
