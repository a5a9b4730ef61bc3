// cluster-tiles: the same results from a grid of clusters, loads shared only where they are equal,
// and a proof of what the CTAs do to each other.
//
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "ir/interpret.h"
#include "ir/lower/sequential.h"
#include "ir/passes/cluster_tiles.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "ir/warp_check/check.h"

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

Function Parsed(const std::string& end, const std::string& from = "", const std::string& to = "") {
  std::string text = kProduct;
  text.replace(text.find("%END"), 4, end);
  if (!from.empty()) text.replace(text.find(from), from.size(), to);
  DiagSink diags;
  SourceMap sources;
  const int32_t file = sources.Add("product.ir", std::move(text));
  Result<Function> fn = ParseFunction(sources.text(file), diags, file);
  EXPECT_TRUE(fn.ok() && Verify(*fn, diags).ok()) << RenderAll(diags, sources);
  return std::move(*fn);
}

std::vector<double> Results(const Function& fn, int64_t m, int64_t n, int64_t k) {
  InterpretInputs in;
  in.tensors["A"] = TensorValue::Random(DType::kBF16, {m, k}, 1);
  in.tensors["B"] = TensorValue::Random(DType::kBF16, {n, k}, 2);
  in.tensors["C"] = TensorValue::Zeros(DType::kF32, {m, n});
  in.dims = {{"M", m}, {"N", n}, {"K", k}};
  DiagSink diags;
  EXPECT_TRUE(Interpret(fn, in, {}, diags).ok());
  return in.tensors["C"].v;
}

Function Clustered(const Function& fn) {
  Function out = fn;
  EXPECT_TRUE(ClusterTiles(out, 2));
  DiagSink diags;
  SourceMap sources;
  EXPECT_TRUE(Verify(out, diags).ok()) << RenderAll(diags, sources) << Print(out);
  return out;
}

std::vector<const Op*> LoadsOf(const Function& fn) {
  std::vector<const Op*> out;
  for (OpId id : OpsInOrder(fn))
    if (fn.ops[id].kind == OpKind::kLoad) out.push_back(&fn.ops[id]);
  return out;
}

Function Lowered(const Function& tile) {
  DiagSink diags;
  SourceMap sources;
  bool specialized = false;
  Result<Function> warps = Specialize(tile, {}, &specialized, diags);
  EXPECT_TRUE(warps.ok() && specialized) << RenderAll(diags, sources);
  EXPECT_TRUE(Verify(*warps, diags).ok()) << RenderAll(diags, sources);
  return std::move(*warps);
}

// What the verifier has to say; empty: it is proved.
std::string Said(const Function& warps) {
  DiagSink diags;
  return CheckWarps(warps, {}, diags).ok() ? "" : diags.all()[0].message;
}

TEST(ClusterTiles, SameResultsWithAndWithoutATile) {
  const Function before = Parsed("%K");
  const Function after = Clustered(before);
  for (int64_t m : {0, 1, 64, 128, 130, 300})
    for (int64_t n : {32, 100})
      EXPECT_EQ(Results(before, m, n, 64), Results(after, m, n, 64)) << m << " " << n;
}

TEST(ClusterTiles, OnlyWhatDoesNotDependOnTheFirstRangeIsShared) {
  const Function fn = Clustered(Parsed("%K"));
  const std::vector<const Op*> loads = LoadsOf(fn);
  ASSERT_EQ(loads.size(), 2u);
  EXPECT_EQ(loads[0]->i("shared", 0), 0);
  EXPECT_EQ(loads[1]->i("shared", 0), 1);
}

// A loop as long as the tile's place says: neighbours do not make the same copies.
TEST(ClusterTiles, NothingIsSharedInLoopsOfUnequalLength) {
  Function fn = Parsed("%low");
  const std::string before = Print(fn);
  EXPECT_FALSE(ClusterTiles(fn, 2));
  EXPECT_EQ(Print(fn), before);
}

// A whole number of clusters needs no guard; otherwise stores have one.
TEST(ClusterTiles, StoresAreGuardedWhereATileMayBeMissing) {
  auto branches = [](const Function& fn) {
    int count = 0;
    for (OpId id : OpsInOrder(fn)) count += fn.ops[id].kind == OpKind::kIf;
    return count;
  };
  EXPECT_EQ(branches(Clustered(Parsed("%K"))), 1);
  const std::string grid = "parallel %0, %M, %0, %N";
  const Function whole =
      Parsed("%K", grid, "%e = constant {value = 256} : i64\n    parallel %0, %e, %0, %N");
  EXPECT_EQ(branches(Clustered(whole)), 0);
  const Function odd =
      Parsed("%K", grid, "%e = constant {value = 192} : i64\n    parallel %0, %e, %0, %N");
  EXPECT_EQ(branches(Clustered(odd)), 1);
}

// Each of these is what a program of clusters is wrong without.
TEST(ClusterTiles, CtasAreProvedTogether) {
  const Function warps = Lowered(Clustered(Parsed("%K")));
  ASSERT_EQ(warps.launch.cluster, 2);
  EXPECT_EQ(Said(warps), "");
  int arrivals = 0, copies = 0, meetings = 0;
  for (OpId id : OpsInOrder(warps)) {
    Function broken = warps;
    Op& op = broken.ops[id];
    if (op.kind == OpKind::kMbarArrive && op.i("cluster", 0)) {
      ++arrivals;
      op.set("cluster", int64_t{0});
    } else if (op.kind == OpKind::kTmaLoad && op.attr("share")) {
      ++copies;
      op.set("share", op.i("share") / 2);
    } else if (op.kind == OpKind::kClusterSync) {
      ++meetings;
      std::erase(broken.blocks[op.block].ops, id);
    } else {
      continue;
    }
    EXPECT_NE(Said(broken), "") << Info(op.kind).mnemonic;
  }
  EXPECT_GT(arrivals, 0);
  EXPECT_GT(copies, 0);
  EXPECT_EQ(meetings, 2);
}

}  // namespace
}  // namespace tilec::ir
