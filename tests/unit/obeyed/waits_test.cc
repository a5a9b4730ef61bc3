// A turn without a wait that somebody needs is noticed: a result that is read, a register operand
// that is written, products that pile up, a ring that is read before it is full, and copies that go
// to fewer slots than a ring has.
//
// SPDX-License-Identifier: Apache-2.0
#include "tests/obeyed/waits.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace tilec::obeyed {
namespace {

constexpr const char* kIssue =
    "  .loc 1 5 1\n  wgmma.fence.sync.aligned;\n"
    "  wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f1,%f2,%f3,%f4}, "
    "{%r1,%r2,%r3,%r4}, %rd2, %p1, 1, 1, 0;\n  wgmma.commit_group.sync.aligned;\n";
constexpr const char* kWait = "  .loc 1 6 1\n  wgmma.wait_group.sync.aligned {};\n";
constexpr const char* kRead = "  .loc 1 7 1\n  add.rn.f32 %f9, %f9, %f1;\n";
constexpr const char* kRemake = "  .loc 1 8 1\n  cvt.rn.bf16x2.f32 %r1, %f8, %f7;\n";
constexpr const char* kFull =
    "  .loc 1 4 1\n  add.s32 %r8, %r8, 1;\n$L_full:\n  mbarrier.try_wait.parity.shared::cta.b64 "
    "%p2, [%r6+1024], %r5;\n"
    "  @!%p2 bra $L_full;\n";

std::string Wait(int pending) { return fmt::format(fmt::runtime(kWait), pending); }

struct Program {
  explicit Program(const std::string& turn) {
    const std::string ptx =
        ".version 8.7\n.target sm_90a\n.address_size 64\n"
        ".visible .entry k()\n.reqntid 128, 1, 1\n{\n"
        "  .reg .pred %p<5>;\n  .reg .b32 %r<20>;\n  .reg .f32 %f<12>;\n  .reg .b64 %rd<8>;\n"
        "  mov.b32 %r6, 0;\n"
        "$L_loop:\n" +
        turn +
        "  add.s32 %r7, %r7, 1;\n  setp.lt.s32 %p4, %r7, 100;\n  @%p4 bra $L_loop;\n  ret;\n}\n";
    std::string why;
    code = Code::Read(ptx, &why);
    EXPECT_TRUE(code) << why << ptx;
    if (!code) return;
    for (const Loop& loop : code->loops())
      if (!loop.spin) turns = code->Turns(loop, 0);
    EXPECT_EQ(turns.size(), 1u);
  }
  Awaited Waits() const { return CheckWaits(*code, {}, turns.at(0)); }
  // Of a ring at 1024 with slots of 8 bytes that the product at 5:1 reads.
  Awaited Full() const {
    WantedLoop wanted;
    wanted.ops.resize(2);
    wanted.ops[0].load = true;
    wanted.ops[1].product = true;
    wanted.ops[1].at = {5, 1};
    wanted.ops[1].reads = {0};
    return CheckFullBarriers(*code, wanted, {{1024, {1040, {0}}}}, turns.at(0), -1);
  }
  std::unique_ptr<Code> code;
  std::vector<std::vector<Event>> turns;
};

TEST(Waits, WhatIsReadIsAwaited) {
  const Awaited good = Program(kIssue + Wait(0) + kRead).Waits();
  EXPECT_TRUE(good.faults.empty());
  EXPECT_EQ(good.waits, 1);
  EXPECT_EQ(good.needed.size(), 1u);
  // One may stay under way: a turn later its result is read behind the wait.
  EXPECT_FALSE(Program(std::string(kIssue) + kRead + Wait(0)).Waits().faults.empty());
  EXPECT_FALSE(Program(std::string(kIssue) + kRead).Waits().faults.empty());
  EXPECT_FALSE(Program(kIssue + Wait(1) + kRead).Waits().faults.empty());
}

TEST(Waits, ARegisterOperandIsWrittenBehindTheProductThatReadsIt) {
  EXPECT_TRUE(Program(kIssue + Wait(0) + kRemake).Waits().faults.empty());
  EXPECT_FALSE(Program(std::string(kIssue) + kRemake + Wait(0) + kRead).Waits().faults.empty());
}

TEST(Waits, ProductsDoNotPileUp) {
  const Awaited piled = Program(kIssue).Waits();
  ASSERT_EQ(piled.faults.size(), 1u);
  EXPECT_NE(piled.faults[0].find("pile up"), std::string::npos);
}

TEST(FullBarriers, AreAwaitedInTheTurnBeforeTheProduct) {
  const Awaited good = Program(std::string(kFull) + kIssue + Wait(0)).Full();
  EXPECT_TRUE(good.faults.empty());
  EXPECT_EQ(good.needed.size(), 1u);
  EXPECT_FALSE(Program(kIssue + Wait(0)).Full().faults.empty());
  EXPECT_FALSE(Program(kIssue + Wait(0) + kFull).Full().faults.empty());
}

TEST(Reach, IsThatOfTheSlotsThatAnAddressCanBe) {
  const auto reach = [](const std::string& slot) {
    const Program program(slot +
                          "  shl.b32 %r11, %r10, 3;\n  add.s32 %r12, %r6, %r11;\n"
                          "  mbarrier.arrive.shared::cta.b64 _, [%r12+1024];\n");
    for (const Instr& in : program.code->instrs())
      if (in.s->text.substr(0, 15) == "mbarrier.arrive")
        return program.code->ReachOf(in.s->operands[1]);
    return std::optional<int64_t>(-1);
  };
  EXPECT_EQ(reach("  and.b32 %r10, %r7, 3;\n"), 24);
  EXPECT_EQ(reach("  and.b32 %r10, %r7, 1;\n"), 8);
  EXPECT_EQ(reach("  bfe.u32 %r10, %r7, 1, 2;\n"), 24);
  EXPECT_EQ(reach("  mov.b32 %r10, %r7;\n"), std::nullopt);  // a counter
}

}  // namespace
}  // namespace tilec::obeyed
