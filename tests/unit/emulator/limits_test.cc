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

}  // namespace
}  // namespace tilec::runtime
