// mma.sync of four warps: eight sums of each in turn (occupancy), or one after another on one sum
// (latency). Contents do not matter to the cycle count.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "calibrate/probes_internal.h"

namespace tilec::calibrate {

namespace {

constexpr int kSums = 8;

struct MmaType {
  ir::DType dtype;
  const char* name;
  const char* shape;
  const char* types;  // of D, A, B, C
};
constexpr MmaType kMmaTypes[] = {
    {ir::DType::kBF16, "bf16", "m16n8k16", ".f32.bf16.bf16.f32"},
    {ir::DType::kF16, "f16", "m16n8k16", ".f32.f16.f16.f32"},
    {ir::DType::kTF32, "tf32", "m16n8k8", ".f32.tf32.tf32.f32"},
    {ir::DType::kE4M3, "e4m3", "m16n8k32", ".f32.e4m3.e4m3.f32"},
    {ir::DType::kI8, "s8", "m16n8k32", ".s32.s8.s8.s32"},
};

// Every shape above has four registers of D and A, and two of B.
std::string MmaSyncText(const MmaType& t, int sum) {
  return fmt::format(
      "mma.sync.aligned.{0}.row.col{1} {{%d{2}, %d{3}, %d{4}, %d{5}}}, {{%ma0, %ma1, %ma2, %ma3}}, "
      "{{%mb0, %mb1}}, {{%d{2}, %d{3}, %d{4}, %d{5}}};\n",
      t.shape, t.types, 4 * sum, 4 * sum + 1, 4 * sum + 2, 4 * sum + 3);
}

Parts Frame() {
  Parts p;
  p.declare = fmt::format(".reg .b32 %d<{}>, %ma<4>, %mb<2>;\n", 4 * kSums);
  for (int i = 0; i < 4 * kSums; ++i) p.setup += fmt::format("mov.b32 %d{}, 0;\n", i);
  for (int i = 0; i < 4; ++i) p.setup += fmt::format("mov.b32 %ma{}, 0x3F803F80;\n", i);
  for (int i = 0; i < 2; ++i) p.setup += fmt::format("mov.b32 %mb{}, 0x3F803F80;\n", i);
  for (int i = 1; i < 4 * kSums; ++i) p.finish += fmt::format("xor.b32 %d0, %d0, %d{};\n", i);
  p.finish += "st.global.b32 [%out_data], %d0;\n";
  return p;
}

}  // namespace

Stream MmaSyncStream() {
  const Parts frame = Frame();
  Stream s;
  s.what = "mma.sync m16n8k16";
  s.declare = frame.declare;
  s.setup = frame.setup;
  for (int i = 0; i < kSums; ++i) s.beside += MmaSyncText(kMmaTypes[0], i);
  s.cycles = 64;  // at 2048 flops per clock and SM, the most that a machine file has
  s.finish = frame.finish;
  return s;
}

void AddMmaSyncProbes(const ir::Target& machine, std::vector<Probe>& to) {
  for (const MmaType& t : kMmaTypes) {
    if (machine.matrix_unit.dtypes.count(t.dtype) == 0) continue;
    Parts stream = Frame(), chain = Frame();
    for (int i = 0; i < kSums; ++i) {
      stream.body += MmaSyncText(t, i);
      chain.body += MmaSyncText(t, 0);
    }
    to.push_back(Make(fmt::format("mma.{}", t.name),
                      fmt::format("mma.sync {} {}, one in each of four warps", t.shape, t.name),
                      stream, kSums));
    to.push_back(Make(fmt::format("mma.{}.latency", t.name),
                      "one after another on one sum, of the same", chain, kSums));
  }
}

}  // namespace tilec::calibrate
