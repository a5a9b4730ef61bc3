// Products of few rows whose weights threads decode: two CTAs share an SM, and what an iteration
// reads comes by one ring.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "support/expr.h"
#include "tests/unit/api/loaded.h"
#include "tests/unit/h200.h"
#include "tests/unit/temp_folder.h"

namespace tilec {
namespace {

// Two numbers in a byte, 128 of K in an iteration, and scales of rows.
constexpr const char* kWords = R"(
kernel words(X: bf16[M, KB, 128], W: u8[N, KB, 64], scale: bf16[KB, N], zero: u8[KB, N],
             Y: out bf16[M, N]) {
  parallel m in tiles(M, 16), n in tiles(N, 128) {
    var acc: f32[128, 16] = 0
    for b in 0..KB {
      let both = shr(W[n, b, :][:, None, :], (iota(2) * 4)[None, :, None] as u8)
      let z = bit_and(zero[b, n], 127) as i32
      let q = (bit_and(reshape(both, 128, 128), 15) as i32 - z[:, None]) as bf16
      acc += (q * scale[b, n][:, None]) @ X[m, b, :].T
    }
    Y[m, n] = acc.T as bf16
  }
}
)";

class Decoded : public LoweringTest {
 protected:
  Decoded() : LoweringTest("words") {}
  void SetUp() override {
    LoadText(loaded_, kWords);
    for (const char* name : {"X", "W", "scale", "zero", "Y"})
      call_.facts[name] = {.base_align_bytes = 256,
                           .stride_align_bytes = 512,
                           .last_dim_align = 128,
                           .last_contiguous = true};
  }
  static int64_t Count(const ir::Function& fn, ir::OpKind kind) {
    return std::count_if(fn.ops.begin(), fn.ops.end(),
                         [&](const ir::Op& op) { return op.kind == kind; });
  }
};

TEST_F(Decoded, TwoCtasShareAnSmAndOneRingBringsAnIteration) {
  api::Lowered lowered;
  const ir::Function warps = Lowered(&lowered);
  EXPECT_TRUE(lowered.by_schedule) << RenderAll(diags_, loaded_.sources);
  EXPECT_EQ(warps.launch.ctas_per_sm, 2);
  EXPECT_EQ(Count(warps, ir::OpKind::kMbarAlloc), 2) << "one is awaited, one gives the slot back";
}

// Each has its share of the registers and of shared memory, and its launch is told so: a role that
// wants more than a thread's share asks for it.
TEST_F(Decoded, TwoCtasHaveAShareEach) {
  const ir::TargetLimits& limits = ir::H200().limits;
  const ir::Function warps = Lowered(nullptr);
  int64_t registers = 0;
  for (const ir::Op& op : warps.ops)
    if (op.kind == ir::OpKind::kRole)
      registers += op.i("regs") * 32 * RoundUp(op.i("warps"), int64_t{4});
  EXPECT_GT(registers, 0);
  EXPECT_LE(2 * registers, limits.registers);
  EXPECT_LE(2 * (warps.launch.smem_bytes + limits.smem_reserved_bytes), limits.smem_bytes_per_sm);
  const auto image = api::MakeImage(loaded_, warps, {}, nullptr, diags_);
  ASSERT_TRUE(image.ok()) << RenderAll(diags_, loaded_.sources);
  EXPECT_NE(image->ptx.find(".minnctapersm 2"), std::string::npos);
  EXPECT_NE(image->ptx.find("setmaxnreg.inc.sync.aligned.u32"), std::string::npos);
}

// With half of the registers one CTA has the SM to itself, and rings as deep as that allows.
TEST_F(Decoded, OneHasAnSmWhereTwoFindNoRoom) {
  const int64_t smem = Lowered(nullptr).launch.smem_bytes;
  TempFolder folder;
  folder.Write("few.toml", fmt::format(R"(name = "few"
title = "an H200 with half of the registers"
extends = "h200"
features = ["tma", "setmaxnreg", "clusters"]
[[limit]]
name = "registers"
value = {}
tag = "assumed"
source = "invented"
)",
                                       ir::H200().limits.registers / 2));
  target_ = folder.path() + "few.toml";
  const ir::Function warps = Lowered(nullptr);
  EXPECT_EQ(warps.launch.ctas_per_sm, 1);
  EXPECT_GT(warps.launch.smem_bytes, smem);
  EXPECT_GT(Count(warps, ir::OpKind::kMbarAlloc), 2) << "a ring for each of its loads";
}

}  // namespace
}  // namespace tilec
