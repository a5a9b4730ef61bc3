// Products of few rows whose weights threads decode: two CTAs share an SM, and what an iteration
// reads comes by one ring.
//
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/api/loaded.h"

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

}  // namespace
}  // namespace tilec
