// Overlaps and hazards on a loop written by hand: a product of two instructions, exponentials under
// it, a wait. The SASS keeps them there, in part, or not at all; it is turned, doubled, serialised.
//
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "sass/sass.h"

namespace tilec::sass {
namespace {

const std::string kPtx = R"(
.entry k() {
  mov.u32 %r1, 0;
$L1:
  .loc 1 5 3
  wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {%f1}, {%r1,%r2,%r3,%r4}, %rd5, p, 1, 1, 0;
  wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {%f1}, {%r5,%r6,%r7,%r8}, %rd6, p, 1, 1, 0;
  wgmma.commit_group.sync.aligned;
  ex2.approx.ftz.f32 %f3, %f4;
  ex2.approx.ftz.f32 %f5, %f6;
  wgmma.wait_group.sync.aligned 0;
  shfl.sync.bfly.b32 %r9, %r10, 1, 31, -1;
  @%p1 bra $L1;
  ret;
})";

// Numbers the lines as nvdisasm does; labels end with `:`.
std::string Code(const std::vector<std::string>& lines) {
  std::string text;
  int address = 0;
  for (const std::string& line : lines) {
    if (line.back() == ':') {
      text += line + "\n";
      continue;
    }
    char head[16];
    std::snprintf(head, sizeof head, "  /*%04x*/ ", address);
    text += head + line + " ;\n";
    address += 16;
  }
  return text;
}

const std::string kFirst = "HGMMA.64x64x16.F32.BF16 R24, R4, gdesc[UR8], R24",
                  kSecond = "HGMMA.64x64x16.F32.BF16 R24, R8, gdesc[UR8], R24, gsb0",
                  kWait = "WARPGROUP.DEPBAR.LE gsb0, 0x0", kEx2 = "MUFU.EX2 R100, R101",
                  kShuffle = "SHFL.BFLY PT, R102, R103, 0x1, 0x1f", kBack = "@P0 BRA `(.L_x_0)";

Report Beside(const std::vector<std::string>& sass, const std::string& ptx = kPtx) {
  DiagSink diags;
  const auto in_ptx = ReadPtx(ptx, diags), in_sass = ReadSass(Code(sass), "", diags);
  EXPECT_TRUE(in_ptx.ok() && in_sass.ok());
  return in_ptx.ok() && in_sass.ok() ? Compare(*in_ptx, *in_sass) : Report{};
}

std::string Lines(const std::vector<std::string>& sass) { return ToLines(Beside(sass)); }

TEST(Compare, Stands) {
  const Report r =
      Beside({"NOP", ".L_x_0:", kFirst, kSecond, kEx2, kEx2, kWait, kShuffle, kBack, "EXIT"});
  ASSERT_EQ(r.loops.size(), 1u);
  EXPECT_TRUE(r.from_registers);
  EXPECT_EQ(r.loops[0].sass_instructions, 7);
  EXPECT_EQ(r.loops[0].idle, 2);  // shuffle, branch
  EXPECT_EQ(r.loops[0].groups[0].source, 5);
  EXPECT_EQ(ToLines(r), "loop 1, 2 x 64x64x16 RS: ex2 2 of 2\n");
  EXPECT_EQ(r.free, 1);
  EXPECT_EQ(r.moved, 0);
  EXPECT_EQ(r.claims, 0);  // arithmetic is counted and not claimed
  EXPECT_TRUE(r.hazards.empty());
}

TEST(Compare, ArithmeticMoves) {
  EXPECT_EQ(Lines({"NOP", ".L_x_0:", kFirst, kSecond, kEx2, kWait, kEx2, kShuffle, kBack, "EXIT"}),
            "loop 1, 2 x 64x64x16 RS: ex2 1 of 2\n");
  const Report r =
      Beside({"NOP", ".L_x_0:", kFirst, kSecond, kWait, kEx2, kEx2, kShuffle, kBack, "EXIT"});
  EXPECT_EQ(r.moved, 1);
  EXPECT_EQ(r.lost, 0);
  EXPECT_NE(ToText(r, {"13.0.88", 168, 0, {}}).find("0 of 2     moved (0 stay)"), std::string::npos)
      << ToText(r, {"13.0.88", 168, 0, {}});
}

TEST(Compare, UnderTheFirstInstructionOfAGroup) {
  EXPECT_EQ(Lines({"NOP", ".L_x_0:", kFirst, kEx2, kEx2, kSecond, kWait, kShuffle, kBack, "EXIT"}),
            "loop 1, 2 x 64x64x16 RS: ex2 2 of 2\n");
}

// Products of one shape are told apart by what of their operands lies transposed: by what stands
// between them, ptxas having moved it, the first of these would be the second.
TEST(Compare, TransposedOperands) {
  const std::string ptx = R"(
.entry k() {
$L1:
  wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {%f1}, %rd5, %rd6, p, 1, 1, 0, 0;
  wgmma.commit_group.sync.aligned;
  wgmma.wait_group.sync.aligned 0;
  ex2.approx.ftz.f32 %f3, %f4;
  ex2.approx.ftz.f32 %f5, %f6;
  wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {%f2}, %rd5, %rd6, p, 1, 1, 1, 1;
  wgmma.commit_group.sync.aligned;
  shfl.sync.bfly.b32 %r9, %r10, 1, 31, -1;
  wgmma.wait_group.sync.aligned 0;
  @%p1 bra $L1;
  ret;
})";
  const Report r = Beside({"NOP", ".L_x_0:", "HGMMA.64x64x16.F32.BF16 R24, gdesc[UR8], R24, gsb0",
                           kWait, "HGMMA.64x64x16.F32.BF16 R56, gdesc[UR8].tnspA.tnspB, R56, gsb0",
                           kEx2, kEx2, kShuffle, kWait, kBack, "EXIT"},
                          ptx);
  EXPECT_EQ(ToLines(r), "loop 1, 1 x 64x64x16, 2 of 2: shuffles 1 of 1\n");
}

// Two loops with the same products, which ptxas has put the other way round.
TEST(Compare, LoopsInAnotherOrder) {
  const std::string product =
      "  wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {%f1}, %rd5, %rd6, p, 1, 1, 0, 0;\n"
      "  wgmma.commit_group.sync.aligned;\n";
  const std::string read = "  ld.shared.u32 %r3, [%r4];\n",
                    wait = "  wgmma.wait_group.sync.aligned 0;\n";
  const std::string ptx = ".entry k() {\n$L1:\n" + product + read + wait +
                          "  @%p1 bra $L1;\n$L2:\n" + read + product + wait +
                          "  @%p2 bra $L2;\n  ret;\n}";
  const std::string alone = "HGMMA.64x64x16.F32.BF16 R24, gdesc[UR8], R24, gsb0",
                    lds = "LDS R100, [R101]";
  const Report r = Beside({"NOP", ".L_x_0:", lds, alone, kWait, "@P0 BRA `(.L_x_0)",
                           ".L_x_1:", alone, lds, kWait, "@P1 BRA `(.L_x_1)", "EXIT"},
                          ptx);
  EXPECT_EQ(ToLines(r), "loop 1, 1 x 64x64x16: shared reads 1 of 1\n");
  EXPECT_EQ(r.lost, 0);
}

// The loop begins behind the products; its first turn is peeled.
TEST(Compare, Turned) {
  EXPECT_EQ(Lines({kFirst, kSecond, ".L_x_0:", kEx2, kEx2, kWait, kShuffle, kFirst, kSecond, kBack,
                   kWait, "EXIT"}),
            "loop 1, 2 x 64x64x16 RS: ex2 2 of 2\n");
}

TEST(Compare, WrittenTwice) {
  const Report r = Beside({"NOP", ".L_x_0:", kFirst, kSecond, kEx2, kEx2, kWait, kShuffle, kFirst,
                           kSecond, kWait, kEx2, kEx2, kShuffle, kBack, "EXIT"});
  EXPECT_EQ(ToLines(r), "loop 1, 2 x 64x64x16 RS: ex2 2 of 4\n");
  EXPECT_EQ(r.moved, 1);
}

// What C7510 and its like make of it: each instruction is awaited at once.
TEST(Compare, Serialised) {
  const Report r = Beside({"NOP", ".L_x_0:", kFirst + ", gsb0", kWait, kSecond, kWait, kEx2, kEx2,
                           kShuffle, kBack, "EXIT"});
  EXPECT_EQ(ToLines(r), "loop 1, 2 x 64x64x16 RS: ex2 0 of 2\n");
  EXPECT_EQ(r.loops[0].sass_waits, 2);
}

// Half of a calculation may fold away: what is left must stand.
TEST(Compare, FewerThanInThePtx) {
  EXPECT_EQ(Lines({"NOP", ".L_x_0:", kFirst, kSecond, kEx2, kWait, kShuffle, kBack, "EXIT"}),
            "loop 1, 2 x 64x64x16 RS: ex2 1 of 1\n");
}

// Two versions of an iteration, whose blocks stand in another order than they run.
TEST(Compare, WaysApart) {
  const std::string product =
      "wgmma.mma_async.sync.aligned.m64n{}k16.f32.bf16.bf16 {%f1}, %rd5, %rd6, p, 1, 1, 0, 0;\n";
  const auto product_of = [&](const std::string& n) {
    std::string text = product;
    return text.replace(text.find("{}"), 2, n);
  };
  const std::string commit = "wgmma.commit_group.sync.aligned;\n",
                    wait = "wgmma.wait_group.sync.aligned 0;\n", ex2 = "ex2.approx.ftz.f32 a, b;\n";
  // L1 → L2 → L4 or L1 → L3 → L5, then back
  const std::string ptx =
      ".entry k() {\n mov.u32 %r1, 0;\n$L1: @%p1 bra $L3; bra.uni $L2;\n$L2:" + product_of("16") +
      commit + "bra.uni $L4;\n$L3:" + product_of("16") + commit +
      "bra.uni $L5;\n$L4:" + product_of("32") + commit + ex2 + wait +
      "bra.uni $L6;\n$L5:" + product_of("32") + commit + wait + ex2 + "$L6: @%p2 bra $L1; ret;\n}";
  const std::string small = "HGMMA.64x16x16.F32.BF16 R24, gdesc[UR8], R24, gsb0",
                    large = "HGMMA.64x32x16.F32.BF16 R40, gdesc[UR8], R40, gsb0";
  const Report r =
      Beside({"NOP", ".L_x_0:", "@P0 BRA `(.L_x_1)", small, large, kEx2, kWait, "BRA `(.L_x_2)",
              ".L_x_1:", small, large, kWait, kEx2, ".L_x_2:", kBack, "EXIT"},
             ptx);
  EXPECT_EQ(ToLines(r),
            "loop 1, 1 x 64x16x16, 1 of 2: other products 1 of 1\n"
            "loop 1, 1 x 64x16x16, 1 of 2: ex2 1 of 1\n"
            "loop 1, 1 x 64x32x16, 1 of 2: ex2 1 of 1\n"
            "loop 1, 1 x 64x16x16, 2 of 2: other products 1 of 1\n");
}

// The version with a mask stands first in the PTX, last in the SASS.
TEST(Compare, VersionsChangePlaces) {
  const std::string product =
      "wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 {%f1}, %rd5, %rd6, p, 1, 1, 0, 0;\n"
      "wgmma.commit_group.sync.aligned;\n";
  const std::string wait = "wgmma.wait_group.sync.aligned 0;\n", ex2 = "ex2.approx.ftz.f32 a, b;\n",
                    mask = "selp.f32 a, b, c, p;\n";
  const std::string ptx = ".entry k() {\n mov.u32 %r1, 0;\n$L1: @%p1 bra $L3;\n" + product + mask +
                          mask + ex2 + wait + "bra.uni $L6;\n$L3:" + product + ex2 + wait +
                          "$L6: @%p2 bra $L1; ret;\n}";
  const std::string one = "HGMMA.64x16x16.F32.BF16 R24, gdesc[UR8], R24, gsb0",
                    select = "FSEL R90, R91, -INF, P1";
  const Report r = Beside({"NOP", ".L_x_0:", "@P0 BRA `(.L_x_1)", one, kEx2, kWait, "BRA `(.L_x_2)",
                           ".L_x_1:", one, kWait, select, select, kEx2, ".L_x_2:", kBack, "EXIT"},
                          ptx);
  EXPECT_EQ(ToLines(r),
            "loop 1, 1 x 64x16x16, 1 of 2: ex2 0 of 1\n"
            "loop 1, 1 x 64x16x16, 2 of 2: ex2 1 of 1\n");
}

// Reads that go up are earlier, those that go down a claim that is lost. Arithmetic that goes up
// has moved, and a read of global memory that goes down.
TEST(Compare, EarlierReads) {
  std::string ptx = kPtx;
  ptx.insert(ptx.find("ex2"), "ld.shared.f32 %f9, [%rd9];\n  ");
  const auto verdict = [&](const std::vector<std::string>& sass, size_t which) {
    return Beside(sass, ptx).loops[0].groups[0].overlaps[which].verdict;
  };
  const std::string load = "LDS R90, [R150]";
  EXPECT_EQ(verdict({"NOP", ".L_x_0:", load, kFirst, kSecond, kEx2, kEx2, kWait, kBack, "EXIT"}, 1),
            Verdict::kEarlier);
  EXPECT_EQ(verdict({"NOP", ".L_x_0:", kFirst, kSecond, kEx2, kEx2, kWait, load, kBack, "EXIT"}, 1),
            Verdict::kLost);
  EXPECT_EQ(verdict({"NOP", ".L_x_0:", kEx2, kEx2, kFirst, kSecond, load, kWait, kBack, "EXIT"}, 0),
            Verdict::kMoved);
  const std::vector<std::string> down = {"NOP", ".L_x_0:", kFirst, kSecond, kEx2,
                                         kEx2,  kWait,     load,   kBack,   "EXIT"};
  const Report r = Beside(down, ptx);
  EXPECT_EQ(r.claims, 1);
  EXPECT_EQ(r.lost, 1);
  EXPECT_NE(ToText(r, {"13.0.88", 168, 0, {}}).find("1 claims: 0 stand"), std::string::npos)
      << ToText(r, {"13.0.88", 168, 0, {}});
  std::string global = kPtx;
  global.insert(global.find("ex2"), "ld.global.f32 %f9, [%rd9];\n  ");
  const Report free = Beside(
      {"NOP", ".L_x_0:", kFirst, kSecond, kEx2, kEx2, kWait, "LDG.E R90, [R150.64]", kBack, "EXIT"},
      global);
  EXPECT_EQ(free.claims, 0);
  EXPECT_EQ(free.moved, 1);
}

TEST(Compare, OtherLoops) {
  const std::string other = "HGMMA.64x32x16.F32.BF16 R24, gdesc[UR8], R24, gsb0";
  const Report r = Beside({"NOP", ".L_x_0:", other, kEx2, kEx2, kWait, kBack, "EXIT"});
  EXPECT_FALSE(r.loops[0].found);
  EXPECT_EQ(r.loops_besides, 1);
  EXPECT_EQ(ToLines(r), "loop 1: not in the SASS\n");
}

TEST(Compare, Spills) {
  const Report r = Beside({"NOP", ".L_x_0:", kFirst, kSecond, kEx2, kEx2, "STL [R1], R3", kWait,
                           kShuffle, "LDL R3, [R1]", kBack, "EXIT"});
  EXPECT_EQ(r.loops[0].spills, 2);
}

// Two groups, the older awaited first: what stands behind its wait is under the younger alone.
TEST(Compare, GroupsEndInOrder) {
  std::string ptx = kPtx;
  const std::string group = "commit_group.sync.aligned;";
  ptx.insert(ptx.find(group) + group.size(), R"(
  wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {%f9}, %rd4, %rd6, p, 1, 1, 0, 0;
  wgmma.commit_group.sync.aligned;
  max.f32 %f7, %f7, %f8;
  wgmma.wait_group.sync.aligned 1;)");
  const std::string other = "HGMMA.64x32x16.F32.BF16 R200, gdesc[UR8], R200, gsb0";
  const Report r =
      Beside({"NOP", ".L_x_0:", kFirst, kSecond, other, "FMNMX R90, R91, R92, !PT",
              "WARPGROUP.DEPBAR.LE gsb0, 0x1", kEx2, kEx2, kWait, kShuffle, kBack, "EXIT"},
             ptx);
  EXPECT_EQ(ToLines(r),
            "loop 1, 2 x 64x64x16 RS: other products 1 of 1\n"
            "loop 1, 2 x 64x64x16 RS: max, min 1 of 1\n"
            "loop 1, 1 x 64x32x16: ex2 2 of 2\n"
            "loop 1, 1 x 64x32x16: max, min 1 of 1\n");
}

TEST(Hazards, RegistersOfAInFlight) {
  const auto what = [](const std::string& text) {
    const Report r =
        Beside({"NOP", ".L_x_0:", kFirst, kSecond, text, kWait, "MOV R4, R150", kBack, "EXIT"});
    return r.hazards;
  };
  EXPECT_TRUE(what("MOV R12, R150").empty());
  EXPECT_TRUE(what("FADD R100, R4, R5").empty());  // A may be read
  ASSERT_EQ(what("MOV R7, R150").size(), 1u);
  EXPECT_EQ(what("MOV R7, R150")[0].what, Hazard::What::kOverwritesA);
  EXPECT_EQ(what("@P1 LDS.64 R2, [R150]").size(), 0u);
  EXPECT_EQ(what("@P1 LDS.128 R2, [R150]").size(), 1u);  // R2 to R5
  EXPECT_EQ(what("FADD R100, R24, R5")[0].what, Hazard::What::kReadsD);
  EXPECT_EQ(what("MOV R55, RZ")[0].what, Hazard::What::kOverwritesD);
}

// As it is reported: the loop's copies of A are made for the next turn while the product of this
// one still reads them, since the wait leaves one group in flight.
TEST(Hazards, OverTheBackEdge) {
  const std::string one = "WARPGROUP.DEPBAR.LE gsb0, 0x1";
  const std::vector<std::string> bad = {
      "NOP", ".L_x_0:", "MOV R4, R150", "WARPGROUP.ARRIVE", kFirst + ", gsb0", one,
      kBack, kWait,     "EXIT"};
  const Report r = Beside(bad);
  ASSERT_EQ(r.hazards.size(), 1u);
  EXPECT_EQ(r.hazards[0].text, "MOV R4, R150");
  const std::string text = ToText(r, {"13.0.88", 168, 0, {}});
  EXPECT_NE(text.find("ptxas before 13.1.80 is reported to do that"), std::string::npos) << text;
  EXPECT_EQ(ToText(r, {"13.3.33", 168, 0, {}}).find("is reported"), std::string::npos);
  // Staggered: each set is written behind the wait for its product.
  const std::string other = "HGMMA.64x64x16.F32.BF16 R24, R8, gdesc[UR8], R24, gsb0";
  EXPECT_TRUE(Beside({"NOP", ".L_x_0:", "MOV R4, R150", "WARPGROUP.ARRIVE", kFirst + ", gsb0", one,
                      "MOV R8, R151", "WARPGROUP.ARRIVE", other, one, kBack, kWait, "EXIT"})
                  .hazards.empty());
}

// Of two products of one shape in different lines.
TEST(Report, LinesTellGroupsApart) {
  std::string ptx = kPtx;
  const std::string wait = "wait_group.sync.aligned 0;";
  ptx.insert(ptx.find(wait) + wait.size(), R"(
  .loc 1 6 3
  wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {%f1}, {%r1,%r2,%r3,%r4}, %rd5, p, 1, 1, 0;
  wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {%f1}, {%r5,%r6,%r7,%r8}, %rd6, p, 1, 1, 0;
  wgmma.commit_group.sync.aligned;
  ex2.approx.ftz.f32 %f3, %f4;
  wgmma.wait_group.sync.aligned 0;)");
  const Report r = Beside({"NOP", ".L_x_0:", kFirst, kSecond, kEx2, kEx2, kWait, kFirst, kSecond,
                           kWait, kEx2, kBack, "EXIT"},
                          ptx);
  EXPECT_EQ(ToLines(r),
            "loop 1, 2 x 64x64x16 RS, 1 of 2: ex2 2 of 2\n"
            "loop 1, 2 x 64x64x16 RS, 2 of 2: ex2 0 of 1\n");
  EXPECT_EQ(r.loops[0].groups[1].versions, 1);  // their lines tell them apart in the table
}

TEST(Report, Versions) {
  EXPECT_TRUE(OlderThan("13.0.88", "13.1.80"));
  EXPECT_TRUE(OlderThan("12.9.86", "13.1.80"));
  EXPECT_TRUE(OlderThan("", "13.1.80"));
  EXPECT_FALSE(OlderThan("13.1.80", "13.1.80"));
  EXPECT_FALSE(OlderThan("13.10.1", "13.1.80"));
}

TEST(Report, Json) {
  const Report r =
      Beside({"NOP", ".L_x_0:", kFirst, kSecond, kEx2, kWait, kEx2, kShuffle, kBack, "EXIT"});
  const auto j = nlohmann::json::parse(ToJson(r, {"13.0.88", 168, 8, {"(C7510) x"}}));
  EXPECT_EQ(j["spilled_bytes"], 8);
  const auto& overlap = j["loops"][0]["groups"][0]["overlaps"][0];
  EXPECT_EQ(overlap["kind"], "ex2");
  EXPECT_EQ(overlap["found"], 1);
  EXPECT_EQ(overlap["expected"], 2);
  EXPECT_EQ(overlap["claim"], false);
  EXPECT_EQ(overlap["verdict"], "moved");
  EXPECT_EQ(j["may_pass"]["moved"], 1);
  EXPECT_EQ(j["claims"]["all"], 0);
}

}  // namespace
}  // namespace tilec::sass
