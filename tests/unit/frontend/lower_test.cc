// Tile IR of small kernels, whole text: what a construct becomes.
//
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tests/unit/frontend/helper.h"

namespace tilec::frontend {
namespace {

// The body of the function, without parameters.
std::string Body(const std::string& text, const std::string& kernel, const Values& values = {}) {
  Loaded loaded(text);
  const std::string ir = loaded.Ir(kernel, values);
  const size_t at = ir.find("  body {");
  return at == std::string::npos ? ir : ir.substr(at);
}

TEST(Lower, Gemm) {
  Loaded loaded(*ReadWhole(TILEC_SOURCE_DIR "/stdlib/matmul.tile"), "matmul.tile");
  EXPECT_EQ(loaded.Ir("gemm", {{"BM", int64_t{64}}}), R"(func @gemm tile {
  param tensor %A: tensor<bf16, 2> in [M, K] align=1 stride_align=1 contiguous=1
  param tensor %B: tensor<bf16, 2> in [N, K] align=1 stride_align=1 contiguous=1
  param tensor %C: tensor<bf16, 2> out [M, N] align=1 stride_align=1 contiguous=1
  param dim %M: i64
  param dim %K: i64
  param dim %N: i64
  fact "BK > 16 or K <= 16" = (1 or (K <= 16))
  static BK = 64
  static BM = 64
  static BN = 256
  body {
    %0 = constant {value = 0} : i64
    parallel %0, %M, %0, %N {steps = [64, 256]} do (%m: i64, %n: i64) {
      %1 = constant {value = 0.0} : f32[64, 256]
      %acc = for %0, %K, %1 {step = 64} : f32[64, 256] do (%k: i64, %acc.1: f32[64, 256]) {
        %2 = load %A, %m, %k {modes = "rr", sizes = [64, 64]} : bf16[64, 64]
        %3 = load %B, %n, %k {modes = "rr", sizes = [256, 64]} : bf16[256, 64]
        %4 = transpose %3 {perm = [1, 0]} : bf16[64, 256]
        %acc.2 = dot %2, %4, %acc.1 : f32[64, 256]
        yield %acc.2
      }
      %5 = cast %acc : bf16[64, 256]
      %6 = constant {value = 64} : i64
      %7 = add %m, %6 : i64
      %8 = min %7, %M : i64
      %9 = constant {value = 256} : i64
      %10 = add %n, %9 : i64
      %11 = min %10, %N : i64
      store %C, %5, %m, %8, %n, %11 {modes = "rr", sizes = [64, 256]}
      yield
    }
  }
}
)");
}

TEST(Lower, StaticIfIsFolded) {
  const std::string text = R"(
kernel k(X: f32[N], Y: out f32[N], twice: const bool) {
  parallel n in tiles(N, 32) {
    var x = X[n]
    if twice { x = x * 2 } else { x = x + missing }
    Y[n] = x
  }
})";
  const std::string ir = Body(text, "k", {{"twice", true}});
  EXPECT_EQ(ir.find("if"), std::string::npos) << ir;
  EXPECT_NE(ir.find("mul"), std::string::npos) << ir;
  Loaded loaded(text);
  EXPECT_FALSE(loaded.Specialized("k", {{"twice", false}}));
  EXPECT_EQ(loaded.codes(), "F107");
}

TEST(Lower, RuntimeIfYieldsVars) {
  EXPECT_EQ(Body(R"(
kernel k(X: f32[N], Y: out f32[N], flag: bool) {
  parallel n in tiles(N, 32) {
    var x = X[n]
    if flag { x = x * 2 }
    Y[n] = x
  }
})",
                 "k"),
            R"(  body {
    %0 = constant {value = 0} : i64
    parallel %0, %N {steps = [32]} do (%n: i64) {
      %x = load %X, %n {modes = "r", sizes = [32]} : f32[32]
      %x.1 = if %flag : f32[32] do {
        %1 = constant {value = 2.0} : f32[32]
        %x.2 = mul %x, %1 : f32[32]
        yield %x.2
      } do {
        yield %x
      }
      %2 = constant {value = 32} : i64
      %3 = add %n, %2 : i64
      %4 = min %3, %N : i64
      store %Y, %x.1, %n, %4 {modes = "r", sizes = [32]}
      yield
    }
  }
}
)");
}

TEST(Lower, WhileCarriesVars) {
  const std::string ir = Body(R"(
kernel k(X: f32[N], Y: out f32[N]) {
  parallel n in 0..N {
    var x = X[n]
    while x > 1.0 { x = x * 0.5 }
    Y[n] = x
  }
})",
                              "k");
  EXPECT_NE(ir.find("while %x : f32"), std::string::npos) << ir;
}

TEST(Lower, AddAndProductAreOneOp) {
  const std::string text = R"(
kernel k(A: f16[M, K], B: f16[K, N], C: inout f32[M, N]) {
  parallel m in tiles(M, 64), n in tiles(N, 64) {
    for k in tiles(K, 32) {
      C[m, n] += A[m, k] @ B[k, n]
    }
    C[m, n] = A[m, 0..32] @ B[0..32, n] + C[m, n] * 0.5
  }
})";
  const std::string ir = Body(text, "k");
  EXPECT_EQ(ir.find(" add %5, "), std::string::npos) << ir;
  size_t dots = 0;
  for (size_t at = ir.find("= dot"); at != std::string::npos; at = ir.find("= dot", at + 1)) ++dots;
  EXPECT_EQ(dots, 2u) << ir;
}

TEST(Lower, IndexModes) {
  const std::string ir = Body(R"(
kernel k(T: f32[V, D], I: i32[N], O: out f32[N, D], row: i32) {
  parallel n in tiles(N, 16) {
    let i = I[n; fill = 3]
    O[n, :] = T[i, :] + T[row, :][None, :] + T[I[0], 0]
  }
})",
                              "k", {{"D", int64_t{8}}});
  EXPECT_NE(ir.find("has_fill = 1"), std::string::npos) << ir;
  EXPECT_NE(ir.find("modes = \"gr\", sizes = [16, 8]} : f32[16, 8]"), std::string::npos) << ir;
  EXPECT_NE(ir.find("modes = \"sr\", sizes = [1, 8]} : f32[8]"), std::string::npos) << ir;
  EXPECT_NE(ir.find("modes = \"ss\", sizes = [1, 1]} : f32"), std::string::npos) << ir;
}

TEST(Lower, ParamsDimsScalarsInOrder) {
  Loaded loaded(R"(
kernel k(s: f32, A: f32[B, 2 * N, N], n: i32, O: out f32[N / 2]) where N > 1, n in 0..4 step 2 {
  parallel i in 0..N / 2 {
    O[i] = A[0, 0, i] * s
  }
})");
  const std::optional<ir::Function> fn = loaded.Specialized("k");
  ASSERT_TRUE(fn) << loaded.errors();
  std::string names;
  for (const ir::Param& p : fn->params) names += p.name + " ";
  EXPECT_EQ(names, "A O B N s n ");
  ASSERT_EQ(fn->facts.size(), 3u);
  EXPECT_EQ(ToText(fn->facts[0].condition), "(N > 1)");
  EXPECT_EQ(fn->facts[1].text, "n in 0..4 step 2");
  EXPECT_EQ(fn->facts[2].text, "N % 2 == 0");
  EXPECT_EQ(ToText(fn->params[0].dims[1]), "(2 * N)");
}

TEST(Lower, EveryOpHasItsPlace) {
  Loaded loaded(*ReadWhole(TILEC_SOURCE_DIR "/stdlib/attention.tile"), "attention.tile");
  const auto fn = loaded.Specialized("attention", {{"D", int64_t{64}}, {"causal", true}});
  ASSERT_TRUE(fn) << loaded.errors();
  for (const ir::Op& op : fn->ops) EXPECT_TRUE(op.at.known());
}

}  // namespace
}  // namespace tilec::frontend
