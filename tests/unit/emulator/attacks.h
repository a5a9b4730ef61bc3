// How an attack is run. Every attack runs four times: plainly, with copies that land late, and
// twice under the judge, whose shadow memory is as good a target as any. It must end with the code
// given, and a buffer of the host, whose address the program knows, must stay as it was. And tensor
// maps with fields that no encoder would write.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/emulator/judge/finding.h"
#include "tests/unit/emulator/harness.h"

namespace tilec::runtime {

constexpr uint64_t kBytes = 64 << 10;  // of each buffer

struct Attack {
  std::string name, body;
  std::string code;  // "": it may run to its end, as long as nothing is touched
  std::string says;
  uint32_t cluster = 1;
};

inline const char* const kDeclarations =
    ".reg .pred %p<8>;\n.reg .b16 %h<8>;\n.reg .b32 %r<40>;\n.reg .b64 %d<24>;\n"
    ".reg .f32 %f<140>;\n"
    ".shared .align 1024 .b8 tile[32768];\n.shared .align 8 .b64 bar[4];\n"
    ".local .align 16 .b8 depot[64];\n"
    // %d0 the buffer, %d1 memory of the host, %d2 a tensor map, %r0 tile, %r1 bar, %r2 the lane
    "ld.param.u64 %d0, [mem];\nld.param.u64 %d1, [host];\nld.param.u64 %d2, [map];\n"
    "mov.u32 %r0, tile;\nmov.u32 %r1, bar;\nmov.u32 %r2, %tid.x;\nmov.u32 %r3, 1;\n"
    "mov.u32 %r4, 0;\nsetp.eq.u32 %p0, %r2, 0;\n";

inline std::string AttackText(const std::string& body) {
  return std::string(".version 8.6\n.target sm_90a\n.address_size 64\n.const .b32 fixed[4];\n") +
         ".visible .entry k(.param .u64 mem, .param .u64 host, .param .u64 map)\n{\n" +
         kDeclarations + body + "ret;\n}\n";
}

// Runs it in one way; what the emulator said.
inline std::string Run(const Attack& a, const TensorMap& map, Landing landing, bool checked,
                       const std::vector<uint8_t>& host) {
  EmulatorOptions o;
  o.memory_limit_bytes = 64 << 20;
  o.instruction_limit = 60'000;
  o.landing = landing;
  o.threads = 1;
  if (checked) {
    o.check = EmulatorOptions::Check::kOn;
    o.report = std::make_shared<judge::Report>();
  }
  Emu emu(o);
  if (!emu.Load(AttackText(a.body))) return emu.Text();
  const uint64_t mem = emu.Upload(std::vector<uint8_t>(kBytes, 1));
  const uint64_t at = emu.Upload(std::vector<uint8_t>(map.bytes, map.bytes + sizeof map.bytes));
  LaunchConfig config;
  config.block[0] = 128;
  config.cluster[0] = config.grid[0] = a.cluster;
  const bool ok =
      emu.Launch("k", config,
                 {KernelArg::Of(mem), KernelArg::Of(reinterpret_cast<uint64_t>(host.data())),
                  KernelArg::Of(at)});
  return ok ? "" : emu.Text();
}

inline void Try(const Attack& a, const TensorMap& map = {}) {
  SCOPED_TRACE(a.name);
  std::vector<uint8_t> host(kBytes, 0x5a);
  for (const auto& [landing, checked] :
       {std::pair{Landing::kEarly, false}, std::pair{Landing::kLate, false},
        std::pair{Landing::kEarly, true}, std::pair{Landing::kPoison, true}}) {
    const std::string text = Run(a, map, landing, checked, host);
    EXPECT_NE(text.find(a.code), std::string::npos) << text;
    EXPECT_NE(text.find(a.says), std::string::npos) << text;
    EXPECT_EQ(text.empty(), a.code.empty()) << text;
    ASSERT_EQ(std::count(host.begin(), host.end(), 0x5a), static_cast<int64_t>(kBytes));
  }
}

// The 128 bytes as runtime/emulator/tensor_map.cc lays them out: a forger can read.
struct Forged {
  uint64_t magic = 0x70616d6520656c69ull, checksum = 0, base = 0, strides[4] = {}, small = 0;
  uint32_t dims_less_one[5] = {};
  uint16_t box[5] = {1, 1, 1, 1, 1};
  uint8_t element_strides[5] = {1, 1, 1, 1, 1};
  uint8_t pad[17] = {};
  uint64_t tail = 0;

  TensorMap Map() const {
    Forged f = *this;
    f.checksum = 0;
    uint8_t bytes[128];
    memcpy(bytes, &f, sizeof bytes);
    uint64_t h = 0xcbf29ce484222325ull;
    for (size_t k = 0; k < 120; ++k) h = (h ^ bytes[k]) * 0x100000001b3ull;
    f.checksum = h & ~(1ull << 21);
    TensorMap map;
    memcpy(map.bytes, &f, sizeof map.bytes);
    return map;
  }
};

}  // namespace tilec::runtime
