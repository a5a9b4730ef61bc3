// W: wgmma's registers, descriptors and groups.
//
// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/judge/cases.h"

namespace tilec::runtime::judge {
namespace {

// A of 64 × 16 and B of 8 × 16 f16 at the start of `buf`, written by all threads and fenced;
// %d1 describes it without a swizzle.
#define OPERANDS                                                  \
  " mov.u32 %r4, 0;\n FILL:\n shl.b32 %r5, %r4, 9;\n"             \
  " add.u32 %r5, %r5, %r1;\n st.shared.b32 [%r5], 0;\n"           \
  " add.u32 %r4, %r4, 1;\n setp.lt.u32 %p, %r4, 32;\n"            \
  " @%p bra FILL;\n fence.proxy.async.shared::cta;\n"             \
  " bar.sync 0;\n shr.u32 %r5, %r0, 4;\n cvt.u64.u32 %d1, %r5;\n" \
  " or.b64 %d1, %d1, 0x0000001000080000;\n"
#define WGMMA                                                                \
  "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, " \
  "%d1, %d1, 1, 1, 1, 0, 0;\n"
// The same, written by the threads with %q alone.
#define PARTS                                                \
  " FILL:\n shl.b32 %r5, %r4, 9;\n add.u32 %r5, %r5, %r1;\n" \
  " @%q st.shared.b32 [%r5], 0;\n add.u32 %r4, %r4, 1;\n"    \
  " setp.lt.u32 %p, %r4, 32;\n @%p bra FILL;\n"              \
  " fence.proxy.async.shared::cta;\n bar.sync 0;\n"          \
  " shr.u32 %r5, %r0, 4;\n cvt.u64.u32 %d1, %r5;\n"          \
  " or.b64 %d1, %d1, 0x0000001000080000;\n"
#define ZERO                                                                          \
  " mov.f32 %f0, 0f00000000;\n mov.f32 %f1, 0f00000000;\n mov.f32 %f2, 0f00000000;\n" \
  " mov.f32 %f3, 0f00000000;\n"
#define END " wgmma.commit_group.sync.aligned;\n wgmma.wait_group.sync.aligned 0;\n"

const Case kCases[] = {
    {"W1", "no fence before the first", OPERANDS ZERO "+wgmma.fence.sync.aligned;\n!" WGMMA END,
     128},
    {"W1", "an accumulator is changed after the fence",
     OPERANDS ZERO " wgmma.fence.sync.aligned;\n " WGMMA END
                   " add.f32 %f0, %f0, %f1;\n+wgmma.fence.sync.aligned;\n!" WGMMA END,
     128},
    {"W2", "an accumulator is read in flight",
     OPERANDS ZERO " wgmma.fence.sync.aligned;\n " WGMMA " wgmma.commit_group.sync.aligned;\n"
                   "+wgmma.wait_group.sync.aligned 0;\n"
                   "!add.f32 %f5, %f0, %f1;\n"
                   "-wgmma.wait_group.sync.aligned 0;\n",
     128},
    {"W2", "the group read is the one still allowed to be pending",
     OPERANDS ZERO " wgmma.fence.sync.aligned;\n " WGMMA " wgmma.commit_group.sync.aligned;\n"
                   "-wgmma.wait_group.sync.aligned 1;\n"
                   "+wgmma.wait_group.sync.aligned 0;\n"
                   "!add.f32 %f5, %f0, %f1;\n"
                   " wgmma.wait_group.sync.aligned 0;\n",
     128},
    {"W2", "a fragment of A is overwritten in flight", OPERANDS ZERO R"( mov.b32 %r10, 0;
 mov.b32 %r11, 0;
 mov.b32 %r12, 0;
 mov.b32 %r13, 0;
 wgmma.fence.sync.aligned;
 wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16
 {%f0, %f1, %f2, %f3}, {%r10, %r11, %r12, %r13}, %d1, 1, 1, 1, 0;
 wgmma.commit_group.sync.aligned;
+wgmma.wait_group.sync.aligned 0;
!add.u32 %r10, %t, 1;
-wgmma.wait_group.sync.aligned 0;
)",
     128},
    {"W3", "a reserved bit of a descriptor",
     OPERANDS ZERO " wgmma.fence.sync.aligned;\n-or.b64 %d1, %d1, 0x4000;\n!" WGMMA END, 128},
    {"W3", "warps give different descriptors",
     OPERANDS ZERO
     " wgmma.fence.sync.aligned;\n cvt.u64.u32 %d2, %w;\n-add.u64 %d1, %d1, %d2;\n!" WGMMA END,
     128},
    {"W4", "exit without a wait",
     OPERANDS ZERO " wgmma.fence.sync.aligned;\n!" WGMMA
                   " wgmma.commit_group.sync.aligned;\n+wgmma.wait_group.sync.aligned 0;\n",
     128},
    {"P1", "operands are stored without a fence",
     OPERANDS ZERO " st.shared.b32 [%r1], %t;\n+fence.proxy.async.shared::cta;\n bar.sync 0;\n"
                   " wgmma.fence.sync.aligned;\n!" WGMMA END,
     128},
    {"P1", "half of the lanes of each warp store without a fence; the others have theirs",
     OPERANDS ZERO " and.b32 %r6, %t, 31;\n setp.lt.u32 %q, %r6, 16;\n @%q bra LOW;\n"
                   " st.shared.b32 [%r1], %t;\n fence.proxy.async.shared::cta;\n bra MET;\n"
                   " LOW:\n st.shared.b32 [%r1], %t;\n+fence.proxy.async.shared::cta;\n"
                   " MET:\n bar.warp.sync 0xffffffff;\n bar.sync 0;\n"
                   " wgmma.fence.sync.aligned;\n!" WGMMA END,
     128},
    {"A1", "operands are overwritten while wgmma may read them",
     OPERANDS ZERO " wgmma.fence.sync.aligned;\n " WGMMA " wgmma.commit_group.sync.aligned;\n"
                   "+wgmma.wait_group.sync.aligned 0;\n+bar.sync 0;\n"
                   "!st.shared.b32 [%r1], %t;\n-wgmma.wait_group.sync.aligned 0;\n",
     128},
    {"M6", "operands nobody wrote",
     "+mov.u32 %r4, 0;\n+FILL:\n+shl.b32 %r5, %r4, 9;\n+add.u32 %r5, %r5, %r1;\n"
     "+st.shared.b32 [%r5], 0;\n+add.u32 %r4, %r4, 1;\n+setp.lt.u32 %p, %r4, 32;\n"
     "+@%p bra FILL;\n fence.proxy.async.shared::cta;\n bar.sync 0;\n shr.u32 %r5, %r0, 4;\n"
     " cvt.u64.u32 %d1, %r5;\n or.b64 %d1, %d1, 0x0000001000080000;\n" ZERO
     " wgmma.fence.sync.aligned;\n!" WGMMA END,
     128},
    {"M6", "a part of a row nobody wrote",
     " mov.u32 %r4, 0;\n and.b32 %r6, %t, 31;\n setp.ne.u32 %q, %r6, 28;\n"
     "+setp.eq.u32 %q, %t, %t;\n" PARTS ZERO " wgmma.fence.sync.aligned;\n!" WGMMA END,
     128},
    {"M6", "of a column nobody wrote one element",  // columns without any are padding
     " mov.u32 %r4, 0;\n and.b32 %r6, %t, 3;\n setp.ne.u32 %q, %r6, 3;\n"
     "-setp.ne.and.u32 %q, %t, 0, %q;\n" PARTS ZERO " wgmma.fence.sync.aligned;\n!"
     "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, "
     "%d1, %d1, 1, 1, 1, 1, 1;\n" END,
     128},
    {"S6", "not all lanes of the warp fence",
     OPERANDS ZERO " setp.lt.u32 %p, %t, 200;\n-setp.lt.u32 %p, %t, 100;\n"
                   "!@%p wgmma.fence.sync.aligned;\n " WGMMA END,
     128},
};

TEST(Wgmma, Rules) {
  EMULATOR_ONLY();
  for (const Case& c : kCases) Expect(c);
}

// A swizzle that differs between producer and consumer is a hint of its own.
TEST(Wgmma, SwizzleOfTheProducer) {
  EMULATOR_ONLY();
  Case c = {"W3", "read without the swizzle it was written with",
            OPERANDS ZERO R"( @%l0 mbarrier.init.shared.b64 [bar], 1;
 fence.proxy.async.shared::cta;
 bar.sync 0;
 mov.b64 %d3, map;
 cvta.param.u64 %d3, %d3;
 @%l0 mbarrier.arrive.expect_tx.shared.b64 _, [bar], 1024;
 @%l0 cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes
 [buf], [%d3, {0, 0}], [bar];
 {
 .reg .pred done;
 again:
 mbarrier.try_wait.parity.shared.b64 done, [bar], 0;
 @!done bra again;
 }
 wgmma.fence.sync.aligned;
+or.b64 %d1, %d1, 0x4000000000000000;
!)" WGMMA END,
            128};
  Expect(c);
}

// A copy between registers while a group is in flight is what leaving SSA form puts there.
TEST(Wgmma, PlainCopiesAreExempt) {
  EMULATOR_ONLY();
  Case c = {"W2", "a copy is not an access, its use is",
            OPERANDS ZERO " wgmma.fence.sync.aligned;\n " WGMMA
                          " wgmma.commit_group.sync.aligned;\n mov.f32 %f6, %f0;\n"
                          "+wgmma.wait_group.sync.aligned 0;\n"
                          "!add.f32 %f5, %f6, %f6;\n-wgmma.wait_group.sync.aligned 0;\n",
            128};
  Expect(c);
}

}  // namespace
}  // namespace tilec::runtime::judge
