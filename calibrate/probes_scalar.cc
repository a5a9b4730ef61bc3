// Arithmetic pipes of one warpgroup: alone, beside a stream of products, and from one instruction
// to the next. 256 instructions a trip; two chains: what the code of a row of a tile looks like.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "calibrate/probes_internal.h"

namespace tilec::calibrate {

namespace {

struct Op {
  const char* name;
  const char* what;
  const char* text;  // {0}: the chain's register, {1}: a constant's
};
constexpr Op kOps[] = {
    {"fma", "fma.rn.f32", "fma.rn.f32 {0}, {0}, {1}, {1};\n"},
    {"max", "max.f32", "max.f32 {0}, {0}, {1};\nneg.f32 {0}, {0};\n"},
    {"cvt", "cvt.rn.bf16x2.f32", "cvt.rn.bf16x2.f32 %w, {0}, {1};\nmov.b32 {0}, %w;\n"},
    {"ex2", "ex2.approx.ftz.f32", "ex2.approx.ftz.f32 {0}, {0};\n"},
};
constexpr int kInstructions = 256;

Parts Chains(const Op& op, int chains) {
  Parts p;
  p.declare = ".reg .f32 %x<16>, %c<4>;\n.reg .b32 %w;\n";
  for (int i = 0; i < 16; ++i)
    p.setup += fmt::format("cvt.rn.f32.u32 %x{0}, %me;\nadd.f32 %x{0}, %x{0}, 0f{1:08x};\n", i,
                           0x3F000000 + 4096 * i);
  for (int i = 0; i < 4; ++i)
    p.setup += fmt::format("mov.b32 %c{0}, %trips;\nadd.f32 %c{0}, %c{0}, 0f{1:08x};\n", i,
                           0x3E000000 + 65536 * i);
  for (int i = 0; i < kInstructions; ++i)
    p.body += fmt::format(fmt::runtime(op.text), fmt::format("%x{}", i % chains),
                          fmt::format("%c{}", i % 4));
  for (int i = 1; i < chains; ++i) p.finish += fmt::format("add.f32 %x0, %x0, %x{};\n", i);
  p.finish += "st.global.f32 [%out_data], %x0;\n";
  return p;
}

}  // namespace

void AddScalarProbes(const ir::Target& machine, std::vector<Probe>& to) {
  constexpr int kCycles = 4096;  // longer than the slowest trip
  const std::optional<Stream> stream = StreamOf(machine, 0);
  for (const Op& op : kOps) {
    const std::string name = op.name, what = op.what;
    to.push_back(Make(name + ".latency", "one " + what + " after another it depends on",
                      Chains(op, 1), kInstructions));
    to.push_back(Make(name + ".alone", what + ", 16 chains, one warpgroup alone", Chains(op, 16),
                      kInstructions));
    to.push_back(Make(name + ".pair", what + ", two chains, one warpgroup alone", Chains(op, 2),
                      kInstructions));
    if (!stream) continue;
    to.push_back(Make(name + ".beside", what + ", two chains beside " + stream->what,
                      Beside(Chains(op, 2), *stream, kCycles), kInstructions, stream->bytes));
  }
  Parts shuffle;
  shuffle.declare = ".reg .b32 %x<8>;\n";
  for (int i = 0; i < 8; ++i) shuffle.setup += fmt::format("add.u32 %x{}, %me, {};\n", i, i);
  Parts chain = shuffle;
  for (int i = 0; i < 8; ++i) {
    chain.body += "shfl.sync.bfly.b32 %x0, %x0, 1, 31, 0xffffffff;\n";
    shuffle.body += fmt::format("shfl.sync.bfly.b32 %x{0}, %x{0}, 1, 31, 0xffffffff;\n", i);
  }
  for (int i = 1; i < 8; ++i) shuffle.finish += fmt::format("add.u32 %x0, %x0, %x{};\n", i);
  shuffle.finish += "st.global.u32 [%out_data], %x0;\n";
  chain.finish = shuffle.finish;
  to.push_back(Make("shuffle.latency", "one shuffle after another it depends on", chain, 8));
  to.push_back(
      Make("shuffle.alone", "shuffles of four warps, per warp instruction and SM", shuffle, 4 * 8));
}

}  // namespace tilec::calibrate
