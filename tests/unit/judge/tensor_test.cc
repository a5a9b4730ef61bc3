// T: tensor memory, its allocation, its order, and tcgen05's descriptors.
//
// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/judge/cases.h"

namespace tilec::runtime::judge {
namespace {

#define BEFORE " tcgen05.fence::before_thread_sync;\n"
#define AFTER " tcgen05.fence::after_thread_sync;\n"
#define MEET BEFORE " bar.sync 0;\n" AFTER
// Warp 0 allocates `columns` words, whose address is %r20 for everybody then.
#define ALLOC(columns)                                                        \
  " @%l0 mbarrier.init.shared::cta.b64 [bar], 1;\n @!%w0 bra A1;\n"           \
  " tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [flag], " columns \
  ";\n"                                                                       \
  " A1:\n" MEET " ld.shared.b32 %r20, [flag];\n"
#define FREE(columns) \
  MEET " @!%w0 bra A2;\n tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r20, " columns ";\n A2:\n"
// 16 KB of zeros: %d1 describes 128 rows of 16 bf16 in them, %r21 says 128 x 32 x 16, %r22 the
// address of the warp's own lanes, %r23 the same 32 columns on.
#define OPERANDS                                                                                \
  " mov.u32 %r4, 0;\n FILL:\n shl.b32 %r5, %r4, 9;\n add.u32 %r5, %r5, %r1;\n"                  \
  " st.shared.b32 [%r5], 0;\n add.u32 %r4, %r4, 1;\n setp.lt.u32 %p, %r4, 32;\n"                \
  " @%p bra FILL;\n fence.proxy.async.shared::cta;\n bar.sync 0;\n shr.u32 %r5, %r0, 4;\n"      \
  " cvt.u64.u32 %d1, %r5;\n or.b64 %d1, %d1, 0x0000400800800000;\n mov.u32 %r21, 0x08080490;\n" \
  " shl.b32 %r22, %w, 21;\n add.u32 %r22, %r22, %r20;\n add.u32 %r23, %r22, 32;\n"
#define MMA "@%l0 tcgen05.mma.cta_group::1.kind::f16 [%r20], %d1, %d1, %r21, 0;\n"
#define COMMIT "@%l0 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [bar];\n"
#define WAIT " W1:\n mbarrier.try_wait.parity.shared::cta.b64 %p, [bar], 0;\n @!%p bra W1;\n"
#define LD "tcgen05.ld.sync.aligned.32x32b.x2.b32 {%r24, %r25}, [%r22];\n"
#define WAIT_LD "tcgen05.wait::ld.sync.aligned;\n"
#define ST "tcgen05.st.sync.aligned.32x32b.x2.b32 [%r22], {%t, %t};\n"
#define WAIT_ST "tcgen05.wait::st.sync.aligned;\n"
// A product that is over, and known to be.
#define PRODUCT " " MMA " " COMMIT WAIT AFTER

const Case kCases[] = {
    {"T1", "no power of two", R"( @!%w0 bra A1;
-mov.u32 %r5, 48;
+mov.u32 %r5, 64;
!tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [flag], %r5;
 ld.shared.b32 %r20, [flag];
 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r20, %r5;
 A1:
)"},
    {"T1", "allocations grow", R"( @!%w0 bra A1;
 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [flag], 32;
 ld.shared.b32 %r20, [flag];
 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r20, 32;
-mov.u32 %r5, 64;
+mov.u32 %r5, 32;
!tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [flag], %r5;
 ld.shared.b32 %r20, [flag];
 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r20, %r5;
 A1:
)"},
    {"T1", "after the permit is given up", R"( @!%w0 bra A1;
-tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;
!tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [flag], 32;
+tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;
 ld.shared.b32 %r20, [flag];
 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r20, 32;
 A1:
)"},
    {"T2", "never given back", R"( @!%w0 bra A1;
!tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [flag], 32;
 ld.shared.b32 %r20, [flag];
+tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r20, 32;
 A1:
)"},
    {"T2", "given back in part", R"( @!%w0 bra A1;
 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [flag], 64;
 ld.shared.b32 %r20, [flag];
-mov.u32 %r5, 32;
+mov.u32 %r5, 64;
!tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r20, %r5;
 A1:
)"},
    {"T2", "given back while a product may be under way",
     ALLOC("32") OPERANDS
     " " MMA " " COMMIT
     "+W1:\n+mbarrier.try_wait.parity.shared::cta.b64 %p, [bar], 0;\n+@!%p bra W1;\n" MEET
     " @!%w0 bra A2;\n!tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r20, 32;\n A2:\n",
     128},
    {"T3", "beyond the allocation",
     ALLOC("32") OPERANDS PRODUCT "-add.u32 %r22, %r22, 31;\n!" LD " " WAIT_LD FREE("32"), 128},
    {"T3", "another warp's lanes",
     ALLOC("32") OPERANDS PRODUCT "-xor.b32 %r22, %r22, 0x600000;\n!" LD " " WAIT_LD FREE("32"),
     128},
    {"T3", "the quarter is left to the hardware",
     ALLOC("32") OPERANDS PRODUCT "-mov.u32 %r22, %r20;\n!" LD " " WAIT_LD FREE("32"), 128},
    {"T3", "lanes counted on in the second CTA of a pair",
     ALLOC("32") OPERANDS PRODUCT "-or.b32 %r22, %r22, 0x800000;\n!" LD " " WAIT_LD FREE("32"),
     128},
    {"T4", "a product's result before it is complete",
     ALLOC("32") OPERANDS
     " " MMA " " COMMIT
     "+W1:\n+mbarrier.try_wait.parity.shared::cta.b64 %p, [bar], 0;\n+@!%p bra W1;\n" AFTER "!" LD
     " " WAIT_LD
     "-W1:\n-mbarrier.try_wait.parity.shared::cta.b64 %p, [bar], 0;\n-@!%p bra W1;\n" FREE("32"),
     128},
    {"T4", "a load behind a store",
     ALLOC("32") OPERANDS " " ST "+" WAIT_ST "!" LD " " WAIT_LD "-" WAIT_ST FREE("32"), 128},
    {"T4", "a store behind a load",
     ALLOC("32") OPERANDS PRODUCT " " LD "+" WAIT_LD "!" ST " " WAIT_ST "-" WAIT_LD FREE("32"),
     128},
    {"T4", "a product over what may still be loaded",
     ALLOC("32") OPERANDS PRODUCT
     " " LD "+" WAIT_LD MEET "!" MMA " " COMMIT
     " W2:\n mbarrier.try_wait.parity.shared::cta.b64 %p, [bar], 1;\n @!%p bra W2;\n-" WAIT_LD FREE(
         "32"),
     128},
    {"T4", "a relaxed wait needs the fence",
     ALLOC("32") OPERANDS " " MMA " " COMMIT
                          " W1:\n mbarrier.try_wait.parity.relaxed.cluster.shared::cta.b64 %p, "
                          "[bar], 0;\n @!%p bra W1;\n"
                          "+tcgen05.fence::after_thread_sync;\n!" LD " " WAIT_LD FREE("32"),
     128},
    {"T4", "a relaxed flag needs the fence",
     " @%l0 st.shared.b32 [bar+16], 0;\n" ALLOC("32") OPERANDS PRODUCT
     " @!%w0 bra F1;\n " LD " " WAIT_LD
     "+tcgen05.fence::before_thread_sync;\n @%l0 st.relaxed.cta.shared.b32 [bar+16], 1;\n F1:\n"
     " setp.ne.u32 %q, %t, 32;\n @%q bra F2;\n"
     " F3:\n ld.relaxed.cta.shared.b32 %r26, [bar+16];\n setp.ne.u32 %p, %r26, 1;\n @%p bra F3;\n"
     " tcgen05.fence::after_thread_sync;\n"
     "!tcgen05.mma.cta_group::1.kind::f16 [%r20], %d1, %d1, %r21, 0;\n"
     " tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [bar];\n F2:\n"
     " W2:\n mbarrier.try_wait.parity.shared::cta.b64 %p, [bar], 1;\n @!%p bra W2;\n" FREE("32"),
     128},
    {"T5", "no fence behind the wait",
     ALLOC("32") OPERANDS " " MMA " " COMMIT WAIT "+tcgen05.fence::after_thread_sync;\n!" LD
                          " " WAIT_LD FREE("32"),
     128},
    {"T5", "no fence before the barrier",
     ALLOC("32") OPERANDS PRODUCT
     " " LD " " WAIT_LD "+tcgen05.fence::before_thread_sync;\n"
     " bar.sync 0;\n" AFTER "!" MMA " " COMMIT
     " W2:\n mbarrier.try_wait.parity.shared::cta.b64 %p, [bar], 1;\n @!%p bra W2;\n" FREE("32"),
     128},
    {"T6", "a product reads what the one before it writes",
     ALLOC("64") OPERANDS PRODUCT MEET
     "-" MMA " add.u32 %r26, %r20, 32;\n"
     "!@%l0 tcgen05.mma.cta_group::1.kind::f16 [%r26], [%r20], %d1, %r21, 0;\n " COMMIT
     " W2:\n mbarrier.try_wait.parity.shared::cta.b64 %p, [bar], 1;\n @!%p bra W2;\n" FREE("64"),
     128},
    {"T7", "nobody wrote it", ALLOC("32") OPERANDS "+" ST "+" WAIT_ST "!" LD " " WAIT_LD FREE("32"),
     128},
    {"T7", "the first product adds to D",
     ALLOC("32") OPERANDS
     "-setp.eq.u32 %q, %r0, %r0;\n+setp.ne.u32 %q, %r0, %r0;\n"
     "!@%l0 tcgen05.mma.cta_group::1.kind::f16 [%r20], %d1, %d1, %r21, %q;\n " COMMIT WAIT FREE(
         "32"),
     128},
    {"T8", "a reserved bit",
     ALLOC("32") OPERANDS "-or.b32 %r21, %r21, 64;\n!" MMA " " COMMIT WAIT FREE("32"), 128},
    {"T8", "no such M",
     ALLOC("32") OPERANDS "-xor.b32 %r21, %r21, 0x01000000;\n!" MMA " " COMMIT WAIT FREE("32"),
     128},
    {"T8", "a descriptor as wgmma has it",
     ALLOC("32") OPERANDS "-xor.b64 %d1, %d1, 0x400000000000;\n!" MMA " " COMMIT WAIT FREE("32"),
     128},
    {"T8", "no such swizzle",
     ALLOC("32") OPERANDS "-or.b64 %d1, %d1, 0x6000000000000000;\n!" MMA " " COMMIT WAIT FREE("32"),
     128},
    {"T9", "beyond shared memory",
     ALLOC("32") OPERANDS "-or.b64 %d1, %d1, 0x2000;\n!" MMA " " COMMIT WAIT FREE("32"), 128},
    {"T11", "a load by one lane",
     ALLOC("32") OPERANDS PRODUCT
     "*@%l0 tcgen05.ld.sync.aligned.32x32b.x2.b32 {%r24, %r25}, [%r22];\n+" LD
     " " WAIT_LD FREE("32"),
     128},
    {"T11", "lanes with other addresses",
     ALLOC("32") OPERANDS PRODUCT "-and.b32 %r5, %t, 1;\n-add.u32 %r22, %r22, %r5;\n!" LD
                                  " " WAIT_LD FREE("32"),
     128},
    {"T11", "a product by a whole warp",
     ALLOC("32") OPERANDS
     "*@%w0 tcgen05.mma.cta_group::1.kind::f16 [%r20], %d1, %d1, %r21, 0;\n+" MMA
     " " COMMIT WAIT FREE("32"),
     128},
    {"T12", "exit while a commit may arrive",
     ALLOC("32") OPERANDS PRODUCT MEET
     "!" COMMIT
     "+W2:\n+mbarrier.try_wait.parity.shared::cta.b64 %p, [bar], 1;\n+@!%p bra W2;\n" FREE("32"),
     128},
    {"T12", "exit while an arrival may come of a commit that another tells of",
     " @%l0 mbarrier.init.shared::cta.b64 [bar+8], 1;\n" ALLOC("32") OPERANDS
     " " MMA
     "!@%l0 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [bar+8];\n"
     " " COMMIT WAIT
     "+W2:\n+mbarrier.try_wait.parity.shared::cta.b64 %p, [bar+8], 0;\n+@!%p bra W2;\n" AFTER FREE(
         "32"),
     128},
    {"T13", "scale factors of one quarter",
     ALLOC("64") OPERANDS
     " mov.u32 %r24, 0x7f7f7f7f;\n-add.u32 %r24, %r24, %w;\n"
     " tcgen05.st.sync.aligned.32x32b.x4.b32 [%r23], {%r24, %r24, %r24, %r24};\n " WAIT_ST MEET
     " mov.u32 %r21, 0x08880000;\n add.u32 %r26, %r20, 32;\n"
     "!@%l0 tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale.scale_vec::1X "
     "[%r20], %d1, %d1, %r21, [%r26], [%r26], 0;\n " COMMIT WAIT FREE("64"),
     128},
    {"T14", "an mbarrier that is none",
     ALLOC("32") OPERANDS " " MMA
                          "-@%l0 mbarrier.inval.shared::cta.b64 [bar];\n!" COMMIT WAIT FREE("32"),
     128},
    {"T15", "a wait for nothing", ALLOC("32") OPERANDS PRODUCT "+" LD "!" WAIT_LD FREE("32"), 128},
    // One of two CTAs multiplies (the other's loop had no turn): the commit has an effect.
    {"T15", "a commit of nothing in every CTA",
     ALLOC("32") OPERANDS " setp.eq.and.u32 %p, %cta, 0, %l0;\n"
                          "+@%p tcgen05.mma.cta_group::1.kind::f16 [%r20], %d1, %d1, %r21, 0;\n"
                          "!" COMMIT WAIT AFTER FREE("32"),
     128, 2},
};

TEST(Tensor, EveryRuleHasAWrongAndARightProgram) {
  for (const Case& c : kCases) Expect(c);
}

// Pairs: 2 CTAs, operands of both.
const char* const kPair = R"( @!%w0 bra A1;
*tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [flag], 32;
+tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [flag], 32;
 ld.shared.b32 %r20, [flag];
-tcgen05.dealloc.cta_group::2.sync.aligned.b32 %r20, 32;
+tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r20, 32;
 A1:
)";
TEST(Tensor, APairNeedsACluster) { Expect({"T10", "no cluster", kPair, 64, 2, 1}); }

const char* const kPairMet = R"( barrier.cluster.arrive.aligned;
 barrier.cluster.wait.aligned;
 @!%w0 bra A1;
-setp.eq.u32 %p, %rank, 0;
-selp.b32 %r5, 32, 64, %p;
+mov.u32 %r5, 32;
!tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [flag], %r5;
 ld.shared.b32 %r20, [flag];
 tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned;
 A1:
 tcgen05.fence::before_thread_sync;
 barrier.cluster.arrive.aligned;
 barrier.cluster.wait.aligned;
 tcgen05.fence::after_thread_sync;
 @!%w0 bra A2;
 tcgen05.dealloc.cta_group::2.sync.aligned.b32 %r20, %r5;
 A2:
)";
TEST(Tensor, APairAllocatesTheSame) { Expect({"T1", "other columns", kPairMet, 64, 2, 2}); }

// Columns are given back behind a cluster barrier to which all come when they are done with them; a
// relaxed arrival promises nothing of that, and public programs rest on it.
const char* const kFreedMet =
    " @!%w0 bra A1;\n"
    " tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [flag], 32;\n A1:\n" MEET
    " ld.shared.b32 %r20, [flag];\n shl.b32 %r22, %w, 21;\n add.u32 %r22, %r22, %r20;\n " ST
    " " WAIT_ST
    "-barrier.cluster.arrive.relaxed.aligned;\n+barrier.cluster.arrive.aligned;\n"
    " barrier.cluster.wait.aligned;\n" AFTER
    " @!%w0 bra A2;\n!tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r20, 32;\n A2:\n";
TEST(Tensor, ColumnsGivenBackBehindARelaxedArrival) {
  const Case relaxed = {"T2", "a relaxed arrival", kFreedMet, 64, 2, 2};
  Expect(relaxed);
  const Judged judged = judge::Run(relaxed, true);
  for (const Finding& f : judged.findings) {
    EXPECT_TRUE(f.rule != Rule::kT2 || f.severity == Severity::kPortability) << judged.errors;
  }
}

// What the reader says, or a run that comes to an instruction the emulator lacks; "": nothing.
std::string Refused(const char* target, const std::string& body) {
  std::string text = kPreamble;
  text.replace(text.find("sm_90a"), 6, target);
  Emu emu;
  if (!emu.Load(text + body + "ret;\n}\n")) return emu.Text();
  const uint64_t a = emu.Upload(std::vector<uint32_t>(4096));
  LaunchConfig config;
  config.block[0] = 128;
  KernelArg map;
  map.bytes.resize(128);
  emu.Launch("k", config, {KernelArg::Of(a), KernelArg::Of(a), KernelArg::Of(a), map});
  const std::string said = emu.Text();
  const bool refused = said.find("E603") != said.npos || said.find("E607") != said.npos;
  return refused ? said : "";
}

TEST(Tensor, TargetsAndForms) {
  const std::string fence = "tcgen05.fence::before_thread_sync;\n";
  EXPECT_NE(Refused("sm_90a", fence).find("it needs sm_100a"), std::string::npos);
  EXPECT_NE(Refused("sm_100", fence).find("it needs sm_100a"), std::string::npos);
  for (const char* target : {"sm_100a", "sm_100f", "sm_103a", "sm_110a"})
    EXPECT_EQ(Refused(target, fence), "") << target;
  const std::string i8 = "tcgen05.mma.cta_group::1.kind::i8 [%r0], %d1, %d1, %r1, 0;\n";
  EXPECT_EQ(Refused("sm_100a", i8), "");
  EXPECT_NE(Refused("sm_100f", i8), "");
  EXPECT_NE(Refused("sm_103a", i8), "");
  const std::string scaled = "tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale";
  const std::string operands = " [%r0], %d1, %d1, %r1, [%r2], [%r3], 0;\n";
  EXPECT_EQ(Refused("sm_100f", scaled + ".block16" + operands), "");
  EXPECT_EQ(Refused("sm_100a", scaled + ".scale_vec::4X" + operands), "");
  EXPECT_NE(Refused("sm_100f", scaled + ".scale_vec::4X" + operands), "");
  EXPECT_NE(Refused("sm_100a", scaled + operands), "");
  EXPECT_NE(Refused("sm_100a",
                    "tcgen05.mma.sp.cta_group::1.kind::f16 [%r0], %d1, %d1, [%r2], %r1, "
                    "0;\n"),
            "");
  // One group for the whole kernel.
  EXPECT_NE(Refused("sm_100a",
                    "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;\n"
                    "tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned;\n"),
            "");
  // Registers of a load, and 16x256b has no x64.
  EXPECT_NE(Refused("sm_100a", "tcgen05.ld.sync.aligned.16x256b.x1.b32 {%r1, %r2}, [%r0];\n"), "");
  EXPECT_NE(Refused("sm_100a", "tcgen05.ld.sync.aligned.16x256b.x64.b32 {%r1}, [%r0];\n"), "");
  EXPECT_NE(Refused("sm_100a",
                    "wgmma.fence.sync.aligned;\nwgmma.mma_async.sync.aligned.m64n8k16.f32."
                    "f16.f16 {%f0, %f1, %f2, %f3}, %d1, %d1, 1, 1, 1, 0, 0;\n"),
            "");
}

}  // namespace
}  // namespace tilec::runtime::judge
