// P: what one proxy wrote and another reads.
//
// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/judge/cases.h"
#include "tests/unit/judge/mbarrier_texts.h"

namespace tilec::runtime::judge {

namespace {

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
TEST(Memory, Proxies) {
  EMULATOR_ONLY();
  for (const Case& c : kProxies) Expect(c);
}

}  // namespace

}  // namespace tilec::runtime::judge
