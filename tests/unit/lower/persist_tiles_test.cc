// persist-tiles: every tile once, by whichever CTA and in whichever order.
//
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "ir/lower/sequential.h"
#include "ir/passes/persist_tiles.h"
#include "ir/warp_check/check.h"
#include "tests/unit/lower/helper.h"

namespace tilec::ir {
namespace {

// C = A · Bᵀ in tiles; %END is where a tile's loop over the contracted dim ends.
constexpr const char* kProduct = R"(func @product tile {
  param tensor %A: tensor<bf16, 2> in [M, K] align=16 stride_align=16 contiguous=1 last_align=16
  param tensor %B: tensor<bf16, 2> in [N, K] align=16 stride_align=16 contiguous=1 last_align=16
  param tensor %C: tensor<f32, 2> out [M, N] align=16 stride_align=16 contiguous=1 last_align=16
  param dim %M: i64
  param dim %N: i64
  param dim %K: i64
  body {
    %0 = constant {value = 0} : i64
    parallel %0, %M, %0, %N {steps = [64, 32]} do (%m: i64, %n: i64) {
      %w = constant {value = 64} : i64
      %me = add %m, %w : i64
      %low = min %me, %K : i64
      %z = constant {value = 0} : f32[64, 32]
      %c = for %0, %END, %z {step = 32} : f32[64, 32] do (%k: i64, %s: f32[64, 32]) {
        %a = load %A, %m, %k {modes = "rr", sizes = [64, 32]} : bf16[64, 32]
        %b = load %B, %n, %k {modes = "rr", sizes = [32, 32]} : bf16[32, 32]
        %bt = transpose %b {perm = [1, 0]} : bf16[32, 32]
        %d = dot %a, %bt, %s : f32[64, 32]
        yield %d
      }
      %mend = min %me, %M : i64
      %v = constant {value = 32} : i64
      %ne = add %n, %v : i64
      %nend = min %ne, %N : i64
      store %C, %c, %m, %mend, %n, %nend {modes = "rr", sizes = [64, 32]}
      yield
    }
  }
}
)";

std::vector<double> Results(const Function& fn, int64_t m, int64_t n, int64_t k) {
  InterpretInputs in;
  in.tensors["A"] = TensorValue::Random(DType::kBF16, {m, k}, 1);
  in.tensors["B"] = TensorValue::Random(DType::kBF16, {n, k}, 2);
  in.tensors["C"] = TensorValue::Zeros(DType::kF32, {m, n});
  in.dims = {{"M", m}, {"N", n}, {"K", k}};
  return Interpreted(fn, std::move(in), "C");
}

Function Persistent(const Function& fn, int64_t ctas) {
  Function out = fn;
  EXPECT_FALSE(PersistTiles(out, ctas));
  ExpectVerified(out);
  return out;
}

TEST(PersistTiles, EveryTileOnce) {
  const Function before = Parsed(With(kProduct, "%END", "%K"));
  for (int64_t ctas : {1, 7, 132}) {
    const Function after = Persistent(before, ctas);
    for (int64_t m : {1, 300, 700})
      for (int64_t n : {32, 100})
        EXPECT_EQ(Results(before, m, n, 64), Results(after, m, n, 64))
            << ctas << " " << m << " " << n;
  }
}

TEST(PersistTiles, NoTilesAtAll) {
  const Function before = Parsed(With(kProduct, "%END", "%K"));
  EXPECT_EQ(Results(Persistent(before, 4), 0, 64, 32), std::vector<double>());
}

TEST(PersistTiles, TilesOfUnequalLengthComeAndGo) {
  Function fn = Parsed(With(kProduct, "%END", "%low"));
  const std::string before = Print(fn);
  const std::optional<Obstacle> obstacle = PersistTiles(fn, 132);
  ASSERT_TRUE(obstacle);
  EXPECT_EQ(obstacle->why.substr(0, 11), "tiles take ");
  EXPECT_EQ(Print(fn), before);
}

TEST(PersistTiles, NothingToGainWithoutALoopOfProducts) {
  Function fn = Parsed(With(With(kProduct, "%END", "%K"), "dot %a, %bt, %s", "add %s, %s"));
  const std::string before = Print(fn);
  const std::optional<Obstacle> obstacle = PersistTiles(fn, 132);
  ASSERT_TRUE(obstacle);
  EXPECT_EQ(obstacle->why.substr(0, 10), "it has no ");
  EXPECT_EQ(Print(fn), before);
}

// The load role goes on to the next tile; the proof holds for all numbers of tiles and turns.
TEST(PersistTiles, RolesAcrossTilesAreProved) {
  const Function tile = Persistent(Parsed(With(kProduct, "%END", "%K")), 132);
  DiagSink diags;
  SourceMap sources;
  bool specialized = false;
  Result<Function> warps = Specialize(tile, {}, &specialized, diags);
  ASSERT_TRUE(warps.ok() && specialized) << RenderAll(diags, sources);
  const Result<WarpCheckStats> stats = CheckWarps(*warps, {}, diags);
  EXPECT_TRUE(stats.ok()) << RenderAll(diags, sources);
}

}  // namespace
}  // namespace tilec::ir
