// A: asynchronous copies, how they are awaited and what they may touch.
//
// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/judge/cases.h"
#include "tests/unit/judge/mbarrier_texts.h"

namespace tilec::runtime::judge {

namespace {

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

TEST(Sync, Copies) {
  EMULATOR_ONLY();
  for (const Case& c : kCopies) Expect(c);
}

}  // namespace

}  // namespace tilec::runtime::judge
