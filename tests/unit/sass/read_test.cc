// Both readers on small texts written by hand: what is counted, where branches lead, what is
// written; and texts that are no code.
//
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "sass/internal.h"

namespace tilec::sass {
namespace {

constexpr const char* kLoop = R"(
  .headerflags  @"EF_CUDA_SM90"
//--------------------- .text.loop --------------------------
  .section  .text.loop,"ax",@progbits
.text.loop:
        /*0000*/                   MOV R1, c[0x0][0x28] ;        /* 0x00000a00 */
                                                                  /* 0x000fe200 */
.L_x_0:
        /*0010*/                   WARPGROUP.ARRIVE ;
        /*0020*/                   HGMMA.64x128x16.F32.BF16 R24, R4, gdesc [UR8].tnspB, R24 ;
        /*0030*/                   HGMMA.64x128x16.F32.BF16 R24, gdesc[UR8], R24, !UPT, gsb0 ;
        /*0040*/                   MUFU.EX2 R100, R101.reuse ;
        /*0050*/                   LDS.U.128 R104, [R5+UR4+0x10] ;
        /*0060*/                   WARPGROUP.DEPBAR.LE gsb0, 0x1 ;
        /*0070*/              @!P0 BRA `(.L_x_0) ;
        /*0080*/               @P1 STL [R1+0x4], R100 ;
        /*0090*/                   EXIT ;
.L_x_1:
        /*00a0*/                   BRA `(.L_x_1);
)";

Listing Sass(const std::string& text, const std::string& code = "") {
  DiagSink diags;
  auto listing = ReadSass(text, code, diags);
  EXPECT_TRUE(listing.ok()) << (diags.all().empty() ? "" : diags.all()[0].message);
  return listing.ok() ? *listing : Listing{};
}

Listing Ptx(const std::string& text) {
  DiagSink diags;
  auto listing = ReadPtx(text, diags);
  EXPECT_TRUE(listing.ok()) << (diags.all().empty() ? "" : diags.all()[0].message);
  return listing.ok() ? *listing : Listing{};
}

std::string SassError(const std::string& text) {
  DiagSink diags;
  EXPECT_FALSE(ReadSass(text, "", diags).ok());
  return diags.all().empty() ? "" : diags.all()[0].def->code + (": " + diags.all()[0].message);
}

std::string PtxError(const std::string& text) {
  DiagSink diags;
  EXPECT_FALSE(ReadPtx(text, diags).ok());
  return diags.all().empty() ? "" : diags.all()[0].def->code + (": " + diags.all()[0].message);
}

TEST(ReadSass, InstructionsOfALoop) {
  const Listing l = Sass(kLoop);
  EXPECT_EQ(l.name, "loop");
  ASSERT_EQ(l.code.size(), 11u);
  const Instr &from_registers = l.code[2], &from_memory = l.code[3];
  EXPECT_EQ(from_registers.shape, "64x128x16 RS");
  EXPECT_EQ(from_registers.a.first, 4);
  EXPECT_EQ(from_registers.a.count, 4);
  EXPECT_EQ(from_registers.d.first, 24);
  EXPECT_EQ(from_registers.d.count, 64);
  EXPECT_FALSE(from_registers.commit);
  EXPECT_EQ(from_memory.shape, "64x128x16");
  EXPECT_EQ(from_memory.a.count, 0);
  EXPECT_TRUE(from_memory.commit);
  EXPECT_EQ(l.code[4].kind, static_cast<int>(Kind::kExp2));
  EXPECT_EQ(l.code[4].writes.first, 100);
  ASSERT_EQ(l.code[4].reads.size(), 1u);
  EXPECT_EQ(l.code[4].reads[0].first, 101);
  EXPECT_EQ(l.code[5].writes.count, 4);
  EXPECT_EQ(l.code[6].wait, 1);
  EXPECT_TRUE(l.code[7].falls_through);
  EXPECT_TRUE(l.code[8].spill);
  EXPECT_EQ(l.code[8].writes.count, 0);
  EXPECT_FALSE(l.code[10].falls_through);
  ASSERT_EQ(l.loops.size(), 1u);  // the other has no product
  EXPECT_EQ(l.blocks[size_t(l.loops[0].header)].begin, 1);
}

TEST(ReadSass, WhatIsWritten) {
  const Listing l = Sass(R"(
        /*0000*/                   ISETP.GE.AND P0, PT, R4, UR6, PT ;
        /*0010*/                   SHFL.BFLY PT, R7, R8, 0x1, 0x1f ;
        /*0020*/                   IMAD.WIDE.U32 R10, R2, R3, R4 ;
        /*0030*/                   STS.128 [R9], R12 ;
        /*0040*/                   R2UR UR4, R2 ;
        /*0050*/                   HFMA2.MMA R5, -RZ, RZ, 0, 0 ;
        /*0060*/                   LDSM.16.M88.4 R20, [R3] ;
        /*0070*/                   HGMMA.64x256x16.F16 R24, gdesc[UR8], R24, gsb0 ;
        /*0080*/                   FADD R6, -R16, |R17| ;)");
  EXPECT_EQ(l.code[0].writes.count, 0);
  EXPECT_EQ(l.code[1].writes.first, 7);
  EXPECT_EQ(l.code[2].writes.count, 2);
  EXPECT_EQ(l.code[3].writes.count, 0);
  EXPECT_EQ(l.code[3].reads[1].count, 4);
  EXPECT_EQ(l.code[4].writes.count, 0);
  EXPECT_EQ(l.code[5].kind, -1);  // a move
  EXPECT_EQ(l.code[6].writes.count, 4);
  EXPECT_EQ(l.code[7].d.count, 64);
  EXPECT_EQ(l.code[8].reads.size(), 2u);
}

TEST(ReadSass, WhatIsNoCode) {
  EXPECT_NE(SassError("").find("no instruction"), std::string::npos);
  EXPECT_NE(SassError("nvdisasm fatal : cannot open file\n").find("no instruction"),
            std::string::npos);
  EXPECT_EQ(SassError("\n        /*0010*/   EXIT \n"),
            "E441: line 2 of the disassembly cannot be read: `EXIT` has no `;`");
  EXPECT_NE(SassError("  /*0010 EXIT ;").find("a comment has no end"), std::string::npos);
  EXPECT_NE(SassError("  /*0010*/ @P0 ;").find("no instruction: `@P0`"), std::string::npos);
  EXPECT_NE(SassError("  /*0010*/ HGMMA.64x8x16.F32 gdesc[UR4] ;").find("without shape or result"),
            std::string::npos);
}

TEST(ReadPtx, InstructionsScopesAndPlaces) {
  const Listing l = Ptx(R"(
.version 8.0
.target sm_90a  // a comment
.address_size 64
.file 1 "a.tile"
.extern .shared .align 1024 .b8 smem[];
.visible .entry tile_k(
  .param .u64 tile_k_param_0
)
.reqntid 128, 1, 1
{
  .reg .pred   %p<3>;
$L__BB0_1:
  .loc  1 7 5
  { .reg .pred p; setp.ne.b32 p, 1, 0; wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16
    {%f1,%f2}, {%r1, %r2, %r3, %r4}, %rd5, p, 1, 1, 1; }
  wgmma.commit_group.sync.aligned;
  .loc  1 8 9
  ex2.approx.ftz.f32   %f3, %f4;
  { LOOP: mbarrier.try_wait.parity.shared::cta.b64 q, [%r3], %r4; @!q bra LOOP; }
  { LOOP: mbarrier.try_wait.parity.shared::cta.b64 q, [%r3], %r4; @!q bra LOOP; }
  wgmma.wait_group.sync.aligned   1;
  @%p1 bra   $L__BB0_1;
  bra.uni   $L__BB0_2;
$L__BB0_2:
  ret;
}
.section .debug_str { .b8 1 ; $L: }
)");
  EXPECT_EQ(l.name, "tile_k");
  ASSERT_EQ(l.code.size(), 12u);
  EXPECT_EQ(l.code[1].shape, "64x64x16 RS");
  EXPECT_EQ(l.code[1].source, 7);
  EXPECT_TRUE(l.code[2].commit);
  EXPECT_EQ(l.code[3].kind, static_cast<int>(Kind::kExp2));
  EXPECT_EQ(l.code[3].source, 8);
  EXPECT_NE(l.code[5].target, l.code[7].target);  // each its own label
  EXPECT_EQ(l.code[8].wait, 1);
  ASSERT_EQ(l.loops.size(), 1u);
  EXPECT_EQ(l.loops[0].blocks.size(), 4u);
}

TEST(ReadPtx, WhatIsNoCode) {
  EXPECT_NE(PtxError("").find("no instruction"), std::string::npos);
  EXPECT_EQ(PtxError(".entry k() {\n  ret;\n  @p ;\n}"),
            "E440: line 3 of the PTX cannot be read: no instruction: `@p`");
  EXPECT_NE(PtxError(".entry k() { ret; ").find("a `{` without its `}`"), std::string::npos);
  EXPECT_NE(PtxError(".entry k() { ret; } }").find("a `}` without its `{`"), std::string::npos);
  EXPECT_NE(PtxError(".entry k() { ret }").find("a statement has no `;`"), std::string::npos);
  EXPECT_NE(PtxError(".reg .b32 r").find("has no end"), std::string::npos);
  EXPECT_NE(PtxError(".entry k() { @p ; }").find("no instruction: `@p`"), std::string::npos);
}

TEST(Kinds, Patterns) {
  EXPECT_TRUE(Matches("cvt.rn.bf16x2.f32", "cvt.*x2.f32"));
  EXPECT_FALSE(Matches("cvt.rn.bf16x2.f32", "cvt.*x2"));
  EXPECT_TRUE(Matches("a", "*a*"));
  EXPECT_EQ(KindOfPtx("mul.rn.f32"), static_cast<int>(Kind::kFloat));
  EXPECT_EQ(KindOfPtx("mul.lo.s32"), -1);
  EXPECT_EQ(KindOfPtx("add.s32"), -1);
  EXPECT_EQ(KindOfPtx("max.f32"), static_cast<int>(Kind::kMaximum));
  EXPECT_EQ(KindOfPtx("max.s64"), -1);
  EXPECT_EQ(KindOfPtx("cvt.u64.u32"), -1);
  EXPECT_EQ(KindOfSass("F2FP.BF16.F32.PACK_AB"), static_cast<int>(Kind::kConvert));
  EXPECT_EQ(KindOfSass("STSM.16.M88.4"), static_cast<int>(Kind::kSharedWrite));
  EXPECT_EQ(KindOfSass("FMNMX"), static_cast<int>(Kind::kMaximum));
  EXPECT_EQ(KindOfSass("IMAD.MOV.U32"), -1);
}

// A word of code, as ptxas 13.0.88 wrote it.
std::string Word(uint64_t low, uint64_t high) {
  std::string bytes;
  for (uint64_t half : {low, high})
    for (int byte = 0; byte < 8; ++byte) bytes += static_cast<char>(half >> (8 * byte));
  return bytes;
}

TEST(ReadSass, WhatNvdisasmLeavesOut) {
  const std::string text = R"(
        /*0000*/                   NOP ;
        /*0030*/                   NOP ;
        /*0060*/                   BRA 0x10 ;)";
  const std::string nop = Word(0, 0);
  const std::string code = nop + Word(0x03e00000101879f3, 0x000fe20008700818) +
                           Word(0x03e00000101879f3, 0x000fe20008000818) + nop +
                           Word(0x0ffffffe00027836, 0x002fcc0000000000) + Word(0x123, 0) + nop +
                           Word(0x40e0001494587df3, 0x000fe60008001858);
  const Listing l = Sass(text, code);
  ASSERT_EQ(l.code.size(), 8u);
  EXPECT_EQ(l.unknown, 1);
  EXPECT_EQ(l.code[1].shape, "64x256x32");
  EXPECT_EQ(l.code[1].d.first, 24);
  EXPECT_EQ(l.code[1].d.count, 128);
  EXPECT_FALSE(l.code[1].commit);
  EXPECT_TRUE(l.code[2].commit);
  EXPECT_EQ(l.code[4].writes.first, 2);
  EXPECT_EQ(l.code[7].shape, "64x64x32 RS");
  EXPECT_EQ(l.code[7].a.first, 0x94);
  ASSERT_EQ(l.loops.size(), 1u);
  EXPECT_EQ(l.loops[0].blocks.size(), 1u);
  EXPECT_EQ(Sass(text).unknown, 4);  // nothing is known of them without the code
}

TEST(CodeOf, ElfFiles) {
  const auto put = [](std::string* bytes, size_t at, uint64_t value, int size) {
    for (int byte = 0; byte < size; ++byte)
      (*bytes)[at + static_cast<size_t>(byte)] = static_cast<char>(value >> (8 * byte));
  };
  const auto error = [](const std::string& cubin) {
    DiagSink diags;
    EXPECT_FALSE(CodeOf(cubin, diags).ok());
    return diags.all().empty() ? "" : diags.all()[0].message;
  };
  // A header, names, code, two headers of sections.
  std::string elf(64 + 16 + 16 + 2 * 64, '\0');
  elf.replace(0, 5, "\177ELF\2");
  put(&elf, 0x28, 96, 8);
  put(&elf, 0x3a, 64, 2);
  put(&elf, 0x3c, 2, 2);
  put(&elf, 0x3e, 0, 2);
  elf.replace(64, 9, std::string("\0.text.k\0", 9));
  elf.replace(80, 16, "0123456789abcdef");
  put(&elf, 96 + 0x18, 64, 8);
  put(&elf, 96 + 0x20, 16, 8);
  put(&elf, 160, 1, 4);
  put(&elf, 160 + 0x18, 80, 8);
  put(&elf, 160 + 0x20, 16, 8);
  DiagSink diags;
  const auto code = CodeOf(elf, diags);
  ASSERT_TRUE(code.ok());
  EXPECT_EQ(*code, "0123456789abcdef");
  EXPECT_NE(error("nothing").find("no ELF file"), std::string::npos);
  EXPECT_NE(error(elf.substr(0, 190)).find("outside"), std::string::npos);
  std::string far = elf;
  put(&far, 160 + 0x18, ~uint64_t{0}, 8);
  EXPECT_NE(error(far).find("outside"), std::string::npos);
  std::string other = elf;
  other[65] = 'd';
  EXPECT_NE(error(other).find("no section"), std::string::npos);
}

}  // namespace
}  // namespace tilec::sass
