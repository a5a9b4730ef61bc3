// Reading PTX: declarations, scopes, refusals with places.
//
// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/emulator/harness.h"

namespace tilec::runtime {
namespace {

std::string LoadError(const std::string& ptx) {
  Emu emu;
  EXPECT_FALSE(emu.Load(ptx)) << ptx;
  return emu.Text();
}
std::string BodyError(const std::string& declarations, const std::string& body) {
  return LoadError(Body(declarations, body));
}
bool Has(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
  return text.find(part) != std::string::npos;
}

TEST(Ptx, UnknownFormIsRefusedWithPlaces) {
  EMULATOR_ONLY();
  Emu emu;
  LoadOptions options;
  options.name = "k.ptx";
  options.lines = {{16, "k.tile:2:5 (dot)"}};
  ASSERT_TRUE(
      emu.Load(Body("", "\nadd.odd.u32 %t, %t, %t;\ntcgen05.wait::ld.sync.aligned;"), options));
  EXPECT_FALSE(emu.Launch("k", {}, {KernelArg::Of(uint64_t{0}), KernelArg::Of(uint64_t{0})}));
  Has(emu.Text(), "E603");
  Has(emu.Text(), "`add.odd.u32`");
  Has(emu.Text(), "forms of this opcode: add");
  Has(emu.Text(), "`tcgen05.wait::ld.sync.aligned`");  // all of them, not only the first
  Has(emu.Text(), "k.ptx:16");
  Has(emu.Text(), "k.tile:2:5 (dot)");
}

// What is not reached stops nobody: an assertion that holds, another kernel of the module.
TEST(Ptx, RefusedWhenReached) {
  EMULATOR_ONLY();
  std::string error;
  const std::string body =
      "setp.gt.u32 %p, %t, 31;\n@%p call.uni (%r), foo, (%t);\n"
      "@%p bra FAIL;\nbra FINE;\nFAIL:\ntex.1d.v4.f32.s32 {%f, %f, %f, %f}, [%in, {%t}];\nFINE:\n"
      "mov.u64 %tt, 5;\nst.global.u64 [%pout], %tt;";
  const std::string declarations = ".reg .pred %p; .reg .b32 %r; .reg .f32 %f;";
  EXPECT_EQ(RunBody(declarations, body, {}), std::vector<uint64_t>(32, 5));
  EXPECT_TRUE(RunBody(declarations, body, {}, 64, &error).empty());
  Has(error, "E607");
  Has(error, "`call.uni`");
  Has(error, "`tex.1d.v4.f32.s32` at line");
}

TEST(Ptx, SyntaxAndNames) {
  EMULATOR_ONLY();
  Has(LoadError(""), "E601");
  Has(LoadError("hello"), "E601");
  Has(BodyError("", "add.u32 %t, %t, %nope;"), "`%nope` is not defined");
  Has(BodyError("", "bra NOWHERE;"), "`NOWHERE` is not defined");
  Has(BodyError(".reg .b32 %t;", ""), "E606");
  Has(BodyError("", "add.u32 %t, %t"), "E601");
  Has(BodyError("", "add.u32 %t, %in, 1;"), "is a .b64 register, 32 bits are needed");
  Has(BodyError("", "add.u32 %t, %t;"), "missing");
  Has(BodyError("", "add.u32 %t, %t, 1, 2;"), "more operands");
  Has(BodyError("", "ld.global.v4.u32 {%t, %t}, [%in];"), "a vector of 4 registers");
  Has(BodyError("", "ld.param.u64 %in, [out+4];"), "E604");
  Has(BodyError("", "setmaxnreg.dec.sync.aligned.u32 25;"), "no multiple of 8");
  Has(BodyError("", "mov.u32 %t, %clock64;"), "another width");
  Has(BodyError(".shared .b8 x[300000];", ""), "E602");
}

TEST(Ptx, ScopesRangesAndBranchesForward) {
  auto out = RunBody(
      ".reg .b32 %r<10>; .reg .b64 %w;",
      "mov.u32 %r3, 1;\n{\n.reg .pred P1;\n.reg .b32 %r3;\nmov.u32 %r3, 50;\nLAB:\n"
      "setp.gt.u32 P1, %r3, 40;\nsub.u32 %r3, %r3, 1;\n@P1 bra LAB;\nadd.u32 %t, %t, %r3;\n}\n"
      "{\n.reg .pred P1;\nbra LAB;\nadd.u32 %r3, %r3, 1000;\nLAB:\n}\n"
      "add.u32 %t, %t, %r3;\nbra OUT;\nadd.u32 %t, %t, 5000;\nOUT:\n"
      "cvt.u64.u32 %w, %t;\nst.global.u64 [%pout], %w;",
      {}, 2);
  ASSERT_FALSE(out.empty());
  EXPECT_EQ(out[0], 40u);  // 39 + 1
  EXPECT_EQ(out[1], 41u);
}

TEST(Ptx, CommentsDirectivesAndMetadata) {
  EMULATOR_ONLY();
  std::string ptx =
      "// c\n.version 8.3 /* x\n y */\n.target sm_90a, debug\n.address_size 64\n"
      ".file 1 \"a/b.tile\"\n.extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 "
      "b);\n"
      ".visible .entry k()\n.reqntid 32, 1, 1\n.minnctapersm 1\n{\n.loc 1 5 3\n.pragma "
      "\"nounroll\";\n"
      ".loc 1 6 1, function_name $L__info0, inlined_at 1 2 3\nret;\n}\n"
      ".section .debug_loc { .b8 0 }\n";
  Emu emu;
  ASSERT_TRUE(emu.Load(ptx)) << emu.Text();
  EXPECT_EQ(emu.module->entries(), std::vector<std::string>{"k"});
  LaunchConfig config;
  config.block[0] = 64;
  EXPECT_FALSE(emu.Launch("k", config, {}));
  Has(emu.Text(), "the entry requires 32");
  config.block[0] = 32;
  config.smem_bytes = 1 << 20;
  EXPECT_FALSE(emu.Launch("k", config, {}));
  Has(emu.Text(), "the limit is 232448");
  config.smem_bytes = 0;
  EXPECT_TRUE(emu.Launch("k", config, {}));
}

TEST(Ptx, CodeOfHeadersIsShownWhereItIsCalled) {
  EMULATOR_ONLY();
  // A store at address 0, in a header, called from a header that the kernel calls.
  const std::string ptx =
      ".version 8.3\n.target sm_90a\n.address_size 64\n.visible .entry k()\n{\n"
      ".reg .b64 %d<2>;\n.loc 1 7 3\nmov.u64 %d1, 0;\n"
      ".loc 2 40 5, function_name $L__a, inlined_at 1 7 3\nmov.u64 %d1, 0;\n"
      ".loc 3 90 9, function_name $L__b + 12, inlined_at 2 40 5\nst.global.b64 [%d1], %d1;\n"
      "ret;\n}\n.file 1 \"own/gemm.cu\"\n.file 2 \"pipeline.hpp\"\n.file 3 \"barrier.h\"\n";
  Emu emu;
  ASSERT_TRUE(emu.Load(ptx)) << emu.Text();
  LaunchConfig config;
  config.block[0] = 32;
  EXPECT_FALSE(emu.Launch("k", config, {}));
  Has(emu.Text(), "own/gemm.cu:7:3 (in barrier.h:90:9)");
}

// A function of a header that calls another instance of itself, as templates do: the kernel's line
// is behind the outer one.
TEST(Ptx, CodeOfRecursiveTemplatesIsShownWhereItIsCalled) {
  EMULATOR_ONLY();
  // The kernel's own file is a source file, or a header like the others.
  for (const auto& [file, says] :
       {std::pair{"own/gemm.cu", "own/gemm.cu:7:3 (in tma.hpp:11:1)"},
        std::pair{"own/gemm.hpp",
                  "tma.hpp:11:1 (from apply.hpp:90:9, copy.hpp:40:5, gemm.hpp:7:3)"}}) {
    const std::string ptx =
        ".version 8.3\n.target sm_90a\n.address_size 64\n.visible .entry k()\n{\n"
        ".reg .b64 %d<2>;\n.loc 1 7 3\nmov.u64 %d1, 0;\n"
        ".loc 2 40 5, function_name $L__a, inlined_at 1 7 3\n"
        ".loc 3 90 9, function_name $L__b, inlined_at 2 40 5\n"
        ".loc 2 40 5, function_name $L__c, inlined_at 3 90 9\n"
        ".loc 4 11 1, function_name $L__d, inlined_at 2 40 5\nst.global.b64 [%d1], %d1;\n"
        "ret;\n}\n.file 2 \"x/copy.hpp\"\n.file 3 \"x/apply.hpp\"\n.file 4 \"tma.hpp\"\n"
        ".file 1 \"" +
        std::string(file) + "\"\n";
    Emu emu;
    ASSERT_TRUE(emu.Load(ptx)) << emu.Text();
    LaunchConfig config;
    config.block[0] = 32;
    EXPECT_FALSE(emu.Launch("k", config, {}));
    Has(emu.Text(), says);
  }
}

TEST(Ptx, ManyRegistersShareRows) {
  // 4000 registers, few alive: the kernel must still compute.
  std::string body = "mov.u32 %r0, %t;\n";
  for (int i = 1; i < 4000; ++i)
    body += "add.u32 %r" + std::to_string(i) + ", %r" + std::to_string(i - 1) + ", 1;\n";
  body += "cvt.u64.u32 %w, %r3999;\nst.global.u64 [%pout], %w;";
  auto out = RunBody(".reg .b32 %r<4000>; .reg .b64 %w;", body, {}, 32);
  ASSERT_FALSE(out.empty());
  EXPECT_EQ(out[5], 5u + 3999u);
}

}  // namespace
}  // namespace tilec::runtime
