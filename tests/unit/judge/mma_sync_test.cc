// The broken twins of programs for mma.sync: what is copied by cp.async or by a tensor copy, read
// by ldmatrix and multiplied, with one line wrong. docs/checking.md lists them.
//
// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/judge/cases.h"

namespace tilec::runtime::judge {
namespace {

// %r4: where a thread's 16 bytes of a slot of 1 KB go, %r5: the row that it gives ldmatrix, of the
// other warp's half; %d0: its 16 bytes in memory.
#define PLACES                                                               \
  " shl.b32 %r3, %t, 4;\n add.u32 %r4, %r0, %r3;\n xor.b32 %r5, %r3, 512;\n" \
  " add.u32 %r5, %r0, %r5;\n cvt.u64.u32 %d0, %r3;\n add.u64 %d0, %in, %d0;\n"
#define COPY(slot)                                        \
  " cp.async.cg.shared.global [%r4+" slot "], [%d0+" slot \
  "], 16;\n"                                              \
  " cp.async.commit_group;\n"
#define MULTIPLY                                                                 \
  " mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f0, %f1, %f2, %f3},\n" \
  "   {%r10, %r11, %r12, %r13}, {%r10, %r11}, {%f0, %f1, %f2, %f3};\n"
#define READ(slot) \
  "!ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r10, %r11, %r12, %r13}, [%r5+" slot "];\n" MULTIPLY
#define WAIT(parity)                                                                          \
  " {\n .reg .pred done;\n again:\n mbarrier.try_wait.parity.shared.b64 done, [bar], " parity \
  ";\n @!done bra again;\n }\n"
#define FILL                                                                                     \
  " @%l0 mbarrier.arrive.expect_tx.shared.b64 _, [bar], 1024;\n"                                 \
  " @%l0 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [buf], [%in], 1024, " \
  "[bar];\n"
#define FILL_AGAIN                                                                               \
  " @%l0 mbarrier.arrive.expect_tx.shared.b64 _, [bar], 1024;\n"                                 \
  "!@%l0 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [buf], [%in], 1024, " \
  "[bar];\n"
#define INIT " @%l0 mbarrier.init.shared.b64 [bar], 1;\n bar.sync 0;\n"

const Case kTwins[] = {
    {"A2", "no wait for the group",
     PLACES COPY("0") "+cp.async.wait_group 0;\n bar.sync 0;\n" READ("0")},
    {"A2", "one group too many is left pending",
     PLACES COPY("0") COPY(
         "1024") "-cp.async.wait_group 1;\n+cp.async.wait_group 0;\n bar.sync 0;\n" READ("1024")},
    {"A2", "an empty group is not committed, and what is pending is one too many",
     PLACES COPY("0") "+cp.async.commit_group;\n cp.async.wait_group 1;\n bar.sync 0;\n" READ("0")},
    {"A2", "no barrier: the wait is for a thread's own copies",
     PLACES COPY("0") " cp.async.wait_group 0;\n+bar.sync 0;\n" READ("0")},
    {"A2", "no barrier in front of the copy that fills the slot again",
     PLACES COPY("0") " cp.async.wait_group 0;\n bar.sync 0;\n"
                      " ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r10, %r11, %r12, %r13}, "
                      "[%r5];\n" MULTIPLY
                      "+bar.sync 0;\n!cp.async.cg.shared.global [%r4], [%d0+1024], 16;\n"
                      " cp.async.commit_group;\n cp.async.wait_group 0;\n"},
    {"M1", "a slot is released before it is read",
     INIT PLACES FILL WAIT("0") "-bar.sync 0;\n"
                                " ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r10, %r11, %r12, "
                                "%r13}, [%r5];\n" MULTIPLY
                                " fence.proxy.async.shared::cta;\n+bar.sync 0;\n" FILL_AGAIN WAIT(
                                    "1")},
    {"P2", "a slot is released without a proxy fence",
     INIT PLACES FILL WAIT("0") " ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r10, %r11, %r12, "
                                "%r13}, [%r5];\n" MULTIPLY
                                "+fence.proxy.async.shared::cta;\n bar.sync 0;\n" FILL_AGAIN WAIT(
                                    "1")},
    {"P1", "a bulk copy reads what cp.async wrote, without a proxy fence",
     PLACES COPY("0") " cp.async.wait_group 0;\n+fence.proxy.async.shared::cta;\n bar.sync 0;\n"
                      " @!%l0 bra DONE;\n"
                      "!cp.async.bulk.global.shared::cta.bulk_group [%out], [buf], 1024;\n"
                      " cp.async.bulk.commit_group;\n cp.async.bulk.wait_group 0;\n DONE:\n"},
};

TEST(MmaSync, BrokenTwins) {
  EMULATOR_ONLY();
  for (const Case& c : kTwins) Expect(c);
}

}  // namespace
}  // namespace tilec::runtime::judge
