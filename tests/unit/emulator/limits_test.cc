// Hostile programs end with a message: they can take neither more memory than the device has nor
// more instructions than the launch may execute.
//
// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/emulator/harness.h"

namespace tilec::runtime {
namespace {

constexpr uint64_t kMemory = 64 << 20;

// What the emulator says; "" if it ran.
std::string Says(const std::string& ptx, LaunchConfig config = {}, uint64_t args = 0) {
  EmulatorOptions options;
  options.memory_limit_bytes = kMemory;
  options.instruction_limit = 1'000'000;
  Emu emu(options);
  if (!emu.Load(ptx)) return emu.Text();
  std::vector<KernelArg> list(args, KernelArg::Of(uint64_t{0}));
  return emu.Launch("k", config, list) ? "" : emu.Text();
}

std::string Entry(const std::string& body) {
  return ".version 8.3\n.target sm_90a\n.address_size 64\n.visible .entry k()\n{\n" + body + "}\n";
}

LaunchConfig Wide(uint32_t block, uint32_t grid = 1, uint32_t cluster = 1) {
  LaunchConfig config;
  config.block[0] = block;
  config.grid[0] = grid;
  config.cluster[0] = cluster;
  return config;
}

TEST(Limits, LoopsWithoutEnd) {
  EMULATOR_ONLY();
  EXPECT_NE(Says(Entry("L:\nbra L;\n")).find("E645"), std::string::npos);
  EXPECT_NE(Says(Entry(".reg .pred %p;\n.reg .b32 %r;\nmov.u32 %r, %tid.x;\n"
                       "setp.lt.u32 %p, %r, 7;\nL:\n@%p bra L;\nM:\nbra M;\n"),
                 Wide(1024))
                .find("E645"),
            std::string::npos);
  EXPECT_NE(Says(Entry("L:\nnanosleep.u32 1;\nbra L;\n"), Wide(64)).find("E645"),
            std::string::npos);
  EXPECT_NE(Says(Entry("L:\nbar.sync 0;\nbra L;\n"), Wide(64)).find("E645"), std::string::npos);
}

TEST(Limits, GridsWithoutEnd) {
  EMULATOR_ONLY();
  LaunchConfig config = Wide(32, 0x7fffffff);
  config.grid[1] = config.grid[2] = 65535;
  EXPECT_NE(Says(Entry("ret;\n"), config).find("E645"), std::string::npos);
}

TEST(Limits, RegistersAndLocalMemory) {
  EMULATOR_ONLY();
  const std::string local = Entry(
      ".local .align 16 .b8 depot[65536];\n.reg .b32 %a;\n"
      "mov.u32 %a, depot;\nst.local.b32 [%a], %a;\nret;\n");
  EXPECT_EQ(Says(local, Wide(32)), "");
  const std::string text = Says(local, Wide(1024, 16, 16));
  EXPECT_NE(text.find("E620"), std::string::npos) << text;
  // Thousands of live values: each keeps a row.
  std::string body = ".reg .b64 %r<20000>;\n.reg .b64 %s;\nmov.u64 %r0, 1;\nmov.u64 %s, 0;\n";
  for (int k = 1; k < 20000; ++k) body += fmt::format("add.u64 %r{}, %r{}, {};\n", k, k - 1, k);
  for (int k = 0; k < 20000; ++k) body += fmt::format("xor.b64 %s, %s, %r{};\n", k);
  EXPECT_NE(Says(Entry(body + "ret;\n"), Wide(1024)).find("E620"), std::string::npos);
}

TEST(Limits, VariablesAndText) {
  EMULATOR_ONLY();
  const std::string head = ".version 8.3\n.target sm_90a\n.address_size 64\n";
  EXPECT_NE(Says(head + ".global .b8 a[100000000];\n").find("E6"), std::string::npos);
  EXPECT_NE(Says(head + ".global .b8 a[4000000000][4000000000];\n").find("E6"), std::string::npos);
  EXPECT_NE(Says(Entry(std::string(200000, '{'))).find("E6"), std::string::npos);
  EXPECT_NE(Says(Entry(".reg .b32 %r<4000000000>;\nret;\n")).find("E6"), std::string::npos);
  EXPECT_NE(Says(Entry(".shared .b8 s[300000];\nret;\n")).find("E6"), std::string::npos);
  EXPECT_NE(Says(Entry("bra " + std::string(1 << 20, 'x') + ";\n")).find("E6"), std::string::npos);
}

// Every branch parts the lanes further: paths are at most 32.
TEST(Limits, PathsOfAWarp) {
  EMULATOR_ONLY();
  std::string body =
      ".reg .pred %p;\n.reg .b32 %r, %x;\nmov.u32 %r, %tid.x;\nmov.u32 %x, 0;\nTOP:\n";
  for (int k = 0; k < 300; ++k)
    body += fmt::format("setp.eq.u32 %p, %r, {};\n@%p bra L{};\nadd.u32 %x, %x, 1;\nL{}:\n", k % 32,
                        (k * 7) % 300, k);
  EXPECT_NE(Says(Entry(body + "bra TOP;\n"), Wide(128)).find("E645"), std::string::npos);
}

// An instruction that the module's `.target` lacks is refused where the module is loaded; which has
// what is as ptxas 13.0 says.
TEST(Limits, InstructionsOfTheTarget) {
  EMULATOR_ONLY();
  struct Row {
    const char* text;
    const char* since;  // the first of the targets below that takes it
  };
  constexpr const char* kTargets[] = {"sm_80", "sm_86", "sm_89", "sm_90", "sm_90a"};
  const Row rows[] = {{"cp.async.wait_all;", "sm_80"},
                      {"fma.rn.bf16x2 %r0, %r1, %r2, %r3;", "sm_80"},
                      {"cvt.rn.bf16x2.f32 %r0, %f0, %f1;", "sm_80"},
                      {"cvt.f32.bf16 %f0, %h1;", "sm_80"},
                      {"max.bf16x2 %r0, %r1, %r2;", "sm_80"},
                      {"cvt.rn.satfinite.e4m3x2.f32 %h0, %f0, %f1;", "sm_89"},
                      {"cvt.rn.f16x2.e5m2x2 %r0, %h0;", "sm_89"},
                      {"cvt.rn.bf16.s32 %h0, %r0;", "sm_90"},
                      {"cvt.rn.f16.bf16 %h0, %h1;", "sm_90"},
                      {"setp.lt.bf16 %p, %h0, %h1;", "sm_90"},
                      {"tanh.approx.bf16x2 %r0, %r1;", "sm_90"},
                      {"sub.rn.bf16x2 %r0, %r1, %r2;", "sm_90"},
                      {"red.global.add.noftz.bf16 [%l0], %h1;", "sm_90"},
                      {"stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r0], {%r1};", "sm_90"},
                      {"griddepcontrol.wait;", "sm_90"},
                      {"elect.sync %r0|%p, 0xffffffff;", "sm_90"},
                      {"fence.proxy.async;", "sm_90"},
                      {"mbarrier.try_wait.parity.shared.b64 %p, [%r0], %r1;", "sm_90"},
                      {"cp.async.bulk.commit_group;", "sm_90"},
                      {"setmaxnreg.inc.sync.aligned.u32 64;", "sm_90a"},
                      {"wgmma.fence.sync.aligned;", "sm_90a"}};
  for (const Row& row : rows) {
    bool there = false;
    for (const char* target : kTargets) {
      there = there || std::string_view(target) == row.since;
      const std::string says =
          Says(fmt::format(".version 8.3\n.target {}\n.address_size 64\n.visible .entry k()\n{{\n"
                           ".reg .b16 %h<2>;\n.reg .b32 %r<4>;\n.reg .b64 %l<1>;\n"
                           ".reg .f32 %f<2>;\n.reg .pred %p, %never;\n"
                           "setp.ne.b32 %never, 0, 0;\n@!%never bra END;\n{}\nEND:\nret;\n}}\n",
                           target, row.text),
               Wide(32));
      EXPECT_EQ(says.find("E609") == std::string::npos, there)
          << row.text << " on " << target << "\n"
          << says;
    }
  }
}

// mma with block scaling: which kinds, scales, selectors and targets there are, as ptxas 13.0 says
// (but for `.scale_vec::4X` of ue8m0, which PTX ISA 9.1 brought). Selectors in registers are looked
// at when they are used.
TEST(Limits, ScaledProducts) {
  EMULATOR_ONLY();
  struct Row {
    const char *target, *form, *selectors;
    const char* says;  // "": it runs
  };
  const char* const kMxf8 =
      "m16n8k32.row.col.kind::mxf8f6f4.block_scale.scale_vec::1X.f32.e4m3.e5m2.f32.ue8m0";
  const Row rows[] = {
      {"sm_120a", kMxf8, "{3, 1}, %r7, {2, 3}", ""},
      {"sm_121a", kMxf8, "{3, 1}, %r7, {2, 3}", ""},
      {"sm_120", kMxf8, "{3, 1}, %r7, {2, 3}", "E609"},
      {"sm_100a", kMxf8, "{3, 1}, %r7, {2, 3}", "E609"},
      {"sm_90a", kMxf8, "{3, 1}, %r7, {2, 3}", "E609"},
      {"sm_120a", "m16n8k32.row.col.kind::mxf8f6f4.block_scale.f32.e2m1.e3m2.f32.ue8m0",
       "{%h0, %h1}, %r7, {%h1, %h0}", ""},
      {"sm_120a", "m16n8k64.row.col.kind::mxf4.block_scale.f32.e2m1.e2m1.f32.ue8m0",
       "{2, 1}, %r7, {0, 3}", ""},
      {"sm_120a",
       "m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::2X.f32.e2m1.e2m1.f32.ue8m0",
       "{2, 1}, %r7, {0, 3}", ""},
      {"sm_120a",
       "m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3",
       "{0, 1}, %r7, {0, 3}", ""},
      {"sm_120a",
       "m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue8m0",
       "{0, 1}, %r7, {0, 3}", ""},
      {"sm_120a", "m16n8k64.row.col.kind::mxf4nvf4.block_scale.f32.e2m1.e2m1.f32.ue4m3",
       "{0, 1}, %r7, {0, 3}", "needs `.scale_vec::2X`"},
      {"sm_120a",
       "m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::2X.f32.e2m1.e2m1.f32.ue4m3",
       "{0, 1}, %r7, {0, 3}", ".ue4m3 with 4X"},
      {"sm_120a", "m16n8k64.row.col.kind::mxf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue8m0",
       "{0, 1}, %r7, {0, 3}", ".ue8m0 goes with"},
      {"sm_120a", kMxf8, "{4, 1}, %r7, {2, 3}", "bytes are 0 to 3"},
      {"sm_120a", kMxf8, "{3, 2}, %r7, {2, 3}", "thread-id-a is 0 or 1"},
      {"sm_120a", kMxf8, "{%h2, 1}, %r7, {2, 3}", "lane 1 gives another byte-id"},
      {"sm_120a", "m16n8k64.row.col.kind::mxf4.block_scale.f32.e2m1.e2m1.f32.ue8m0",
       "{1, 1}, %r7, {0, 3}", "bytes are 0 or 2"}};
  for (const Row& row : rows) {
    const std::string says =
        Says(fmt::format(".version 8.8\n.target {}\n.address_size 64\n.visible .entry k()\n{{\n"
                         ".reg .b16 %h<3>;\n.reg .b32 %r<9>;\n.reg .f32 %f<4>;\n"
                         "mov.u16 %h0, 0;\nmov.u16 %h1, 1;\nmov.u32 %r8, %tid.x;\n"
                         "cvt.u16.u32 %h2, %r8;\n"
                         "mma.sync.aligned.{} {{%f0, %f1, %f2, %f3}}, {{%r0, %r1, %r2, %r3}}, "
                         "{{%r4, %r5}}, {{%f0, %f1, %f2, %f3}}, %r6, {};\nret;\n}}\n",
                         row.target, row.form, row.selectors),
             Wide(32));
    if (*row.says == 0)
      EXPECT_EQ(says, "") << row.form << " on " << row.target;
    else
      EXPECT_NE(says.find(row.says), std::string::npos) << row.form << "\n" << says;
  }
}

}  // namespace
}  // namespace tilec::runtime
