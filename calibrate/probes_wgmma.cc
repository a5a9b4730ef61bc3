// wgmma: operands K-major under the 128-byte swizzle, groups of 8 rows × 128 bytes. Contents
// do not matter to the cycle count.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "calibrate/probes_internal.h"

namespace tilec::calibrate {

namespace {

struct Type {
  const char* name;
  const char* operands;  // ".bf16.bf16"
  int k;
  const char* tail;  // after the descriptors
};
constexpr Type kTypes[] = {{"bf16", ".bf16.bf16", 16, "%yes, 1, 1, 0, 0"},
                           {"e4m3", ".e4m3.e4m3", 32, "%yes, 1, 1"},
                           {"tf32", ".tf32.tf32", 8, "%yes, 1, 1"}};
constexpr int kTileA = 64 * 128, kTileB = 256 * 128;
constexpr const char* kRegisterTail = "%yes, 1, 1, 0";

// start address / 16, strides of 1024 bytes between groups of 8 rows, swizzle 128.
std::string Descriptor(const std::string& to, int offset) {
  return fmt::format(
      "add.u32 %address, %smem, {1};\nand.b32 %address, %address, 0x3FFFF;\n"
      "shr.u32 %address, %address, 4;\ncvt.u64.u32 {0}, %address;\n"
      "or.b64 {0}, {0}, 0x4000004000010000;\n",
      to, offset);
}

std::string Wgmma(const Type& t, int n, const std::string& a, const std::string& b,
                  const char* tail) {
  return fmt::format("wgmma.mma_async.sync.aligned.m64n{}k{}.f32{} {{{}}}, {}, {}, {};\n", n, t.k,
                     t.operands, Registers("acc", n / 2), a, b, tail);
}

std::string Declare(int n) {
  return fmt::format(
      ".reg .f32 %acc<{}>;\n.reg .b64 %da, %db;\n.reg .u32 %address;\n"
      ".reg .b32 %a<4>;\n.reg .pred %yes;\n",
      n / 2);
}

std::string Zero(int n) {
  std::string s = "setp.eq.u32 %yes, 0, 0;\n";
  for (int i = 0; i < n / 2; ++i) s += fmt::format("mov.f32 %acc{}, 0f00000000;\n", i);
  return s;
}

std::string Keep(int n) {
  std::string s;
  for (int i = 1; i < n / 2; ++i) s += fmt::format("add.f32 %acc0, %acc0, %acc{};\n", i);
  return s + "st.global.f32 [%out_data], %acc0;\n";
}

std::string Operands() {
  return Descriptor("%da", 0) + Descriptor("%db", kTileA) +
         "mov.b32 %a0, 0x3F803F80;\nmov.b32 %a1, %a0;\nmov.b32 %a2, %a0;\nmov.b32 %a3, %a0;\n";
}

}  // namespace

Stream WgmmaStream(int offset) {
  Stream s;
  s.what = "wgmma n256";
  s.bytes = kTileA + kTileB;
  s.declare = Declare(256);
  s.setup = Descriptor("%da", offset) + Descriptor("%db", offset + kTileA) + Zero(256);
  s.beside = "wgmma.fence.sync.aligned;\n";
  for (int i = 0; i < 4; ++i) s.beside += Wgmma(kTypes[0], 256, "%da", "%db", kTypes[0].tail);
  s.beside += "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 1;\n";
  s.finish = "wgmma.wait_group.sync.aligned 0;\n" + Keep(256);
  return s;
}

void AddWgmmaProbes(std::vector<Probe>& to) {
  constexpr int kSmem = kTileA + kTileB;
  const auto shape = [](const Type& t, int n) {
    return fmt::format("m64n{}k{} {}", n, t.k, t.name);
  };
  for (const Type& t : kTypes)
    for (int n : {64, 128, 256}) {
      Parts stream;
      stream.declare = Declare(n);
      stream.setup = Operands() + Zero(n);
      stream.body = "wgmma.fence.sync.aligned;\n";
      for (int i = 0; i < 4; ++i) stream.body += Wgmma(t, n, "%da", "%db", t.tail);
      stream.body += "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 1;\n";
      stream.finish = "wgmma.wait_group.sync.aligned 0;\n" + Keep(n);
      to.push_back(Make(fmt::format("wgmma.{}.ss.n{}", t.name, n),
                        "occupancy of wgmma " + shape(t, n) + ", both operands in shared memory",
                        stream, 4, kSmem));
      if (t.name != std::string("bf16") || n == 64) continue;
      Parts from_registers = stream;
      from_registers.body = "wgmma.fence.sync.aligned;\n";
      for (int i = 0; i < 4; ++i)
        from_registers.body += Wgmma(t, n, "{%a0, %a1, %a2, %a3}", "%db", kRegisterTail);
      from_registers.body += "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 1;\n";
      to.push_back(Make(fmt::format("wgmma.{}.rs.n{}", t.name, n),
                        "occupancy of wgmma " + shape(t, n) + ", A in registers", from_registers, 4,
                        kSmem));
      for (int chain : {1, 4}) {
        Parts shot = stream;
        shot.shot = true;
        shot.body = kBegin + std::string("wgmma.fence.sync.aligned;\n");
        for (int i = 0; i < chain; ++i) shot.body += Wgmma(t, n, "%da", "%db", t.tail);
        shot.body += "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n";
        shot.body += kEnd;
        shot.finish = Keep(n);
        to.push_back(
            Make(fmt::format("wgmma.{}.ss.n{}.chain{}", t.name, n, chain),
                 fmt::format("latency of {} wgmma {} on one accumulator", chain, shape(t, n)), shot,
                 1, kSmem));
      }
      for (int count : {1, 5}) {  // how long issuing holds the warp: five against one
        Parts issue = stream;
        issue.shot = true;
        issue.body = std::string(kBegin) + "wgmma.fence.sync.aligned;\n";
        for (int i = 0; i < count; ++i) issue.body += Wgmma(t, n, "%da", "%db", t.tail);
        issue.body += "wgmma.commit_group.sync.aligned;\n" + std::string(kEnd) +
                      "wgmma.wait_group.sync.aligned 0;\n";
        issue.finish = Keep(n);
        to.push_back(Make(fmt::format("wgmma.{}.ss.n{}.issue{}", t.name, n, count),
                          fmt::format("issue of {} wgmma {}", count, shape(t, n)), issue, 1,
                          kSmem));
      }
    }
}

}  // namespace tilec::calibrate
