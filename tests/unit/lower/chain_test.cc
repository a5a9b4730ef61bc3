// Products that stay under way across turns: what they read comes back, whoever else reads it.
//
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <set>

#include "ir/lower/sequential.h"
#include "ir/warp_check/check.h"
#include "tests/unit/lower/helper.h"

namespace tilec::ir {
namespace {

// O = Σ_k A[k]·B[k], and R = Σ_k of A[k]'s rows: threads read a tile that the product reads, too.
constexpr const char* kBoth = R"(func @both tile {
  param tensor %A: tensor<bf16, 2> in [M, L] align=16 stride_align=16 contiguous=1 last_align=16
  param tensor %B: tensor<bf16, 2> in [L, 64] align=16 stride_align=16 contiguous=1 last_align=16
  param tensor %O: tensor<f32, 2> out [M, 64] align=16 stride_align=16 contiguous=1 last_align=16
  param tensor %R: tensor<f32, 1> out [M] align=16 stride_align=16 contiguous=1 last_align=16
  param dim %M: i64
  param dim %L: i64
  body {
    %0 = constant {value = 0} : i64
    parallel %0, %M {steps = [64]} do (%m: i64) {
      %z = constant {value = 0} : f32[64, 64]
      %r0 = constant {value = 0} : f32[64]
      %acc, %row = for %0, %L, %z, %r0 {step = 32} : f32[64, 64], f32[64]
          do (%k: i64, %c: f32[64, 64], %r: f32[64]) {
        %a = load %A, %m, %k {modes = "rr", sizes = [64, 32]} : bf16[64, 32]
        %b = load %B, %k, %0 {modes = "rr", sizes = [32, 64]} : bf16[32, 64]
        BODY
        yield %n, %r1
      }
      %w = constant {value = 64} : i64
      %me = add %m, %w : i64
      %end = min %me, %M : i64
      store %O, %acc, %m, %end, %0, %w {modes = "rr", sizes = [64, 64]}
      store %R, %row, %m, %end {modes = "r", sizes = [64]}
      yield
    }
  }
}
)";
constexpr const char* kProduct = "%n = dot %a, %b, %c : f32[64, 64]\n";
constexpr const char* kThreads = R"(%f = cast %a : f32[64, 32]
        %s = reduce %f {kind = "sum", axis = 1} : f32[64]
        %r1 = add %r, %s : f32[64]
)";

// The product stays under way over the turn's end; every barrier that somebody awaits has arrivals,
// and the verifier, which finds the hang where one has none, accepts the program.
void ExpectChainGivesBack(const std::string& body) {
  const Function tile = Parsed(With(kBoth, "BODY", body));
  DiagSink diags;
  SourceMap sources;
  bool specialized = false;
  Result<Function> warp = Specialize(tile, {}, &specialized, diags);
  ASSERT_TRUE(warp.ok()) << RenderAll(diags, sources);
  ASSERT_TRUE(specialized);
  std::set<ValueId> awaited, arrived;
  int with_one_pending = 0;
  for (const Op& op : warp->ops) {
    if (op.kind == OpKind::kMbarWait) awaited.insert(op.operands[0]);
    if (op.kind == OpKind::kMbarArrive || op.kind == OpKind::kMbarExpect)
      arrived.insert(op.operands[0]);
    with_one_pending += op.kind == OpKind::kMmaWait && op.i("pending") == 1;
  }
  EXPECT_EQ(awaited, arrived);
  EXPECT_EQ(with_one_pending, 1);
  EXPECT_TRUE(CheckWarps(*warp, {}, diags).ok()) << RenderAll(diags, sources) << Print(*warp);
}

TEST(Chains, SlotsComeBackWhereThreadsReadThemLast) {
  ExpectChainGivesBack(std::string(kProduct) + kThreads);
}

TEST(Chains, SlotsComeBackWhereTheProductReadsThemLast) {
  ExpectChainGivesBack(std::string(kThreads) + kProduct);
}

}  // namespace
}  // namespace tilec::ir
