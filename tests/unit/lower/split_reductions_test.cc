// split-reductions: the same results from turns that CTAs share, only where that may be, and a
// proof of what the CTAs do to each other.
//
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>

#include "ir/lower/sequential.h"
#include "ir/numerics.h"
#include "ir/passes/split_reductions.h"
#include "ir/warp_check/check.h"
#include "tests/unit/lower/helper.h"
#include "tests/unit/lower/product.h"

namespace tilec::ir {
namespace {

// Fewer turns than CTAs, as many, a last turn that hangs over, none at all.
TEST(SplitReductions, SameResultsForEveryLength) {
  const Function before = Product("%K");
  for (int64_t ctas : {2, 3, 4, 7, 8}) {
    const Function after = Split(before, ctas);
    for (int64_t k : {0, 1, 31, 32, 33, 64, 100, 256, 260, 300})
      EXPECT_EQ(Exact(before, 70, 40, k), Exact(after, 70, 40, k)) << ctas << " " << k;
  }
}

// Each turn once: together the CTAs multiply as often as one would.
TEST(SplitReductions, TurnsAreDealtOutAndEffectsAreOfTheFirst) {
  const Function fn = Split(Product("%K"), 4);
  const Op* grid = nullptr;
  for (OpId id : OpsInOrder(fn))
    if (fn.ops[id].kind == OpKind::kParallel) grid = &fn.ops[id];
  ASSERT_NE(grid, nullptr);
  EXPECT_EQ(grid->i("cluster"), 4);
  EXPECT_EQ(grid->ints("steps"), (std::vector<int64_t>{1, 64, 32}));
  EXPECT_EQ(Count(fn, OpKind::kClusterReduce), 1);
  for (OpId id : OpsInOrder(fn)) {
    if (fn.ops[id].kind != OpKind::kStore) continue;
    const OpId parent = fn.blocks[fn.ops[id].block].parent;
    EXPECT_EQ(fn.ops[parent].kind, OpKind::kIf);
  }
}

// What the sum starts from is added once, by whoever stores.
TEST(SplitReductions, AStartIsAddedOnce) {
  const std::string zero = "%z = constant {value = 0} : f32[64, 32]";
  const Function before = Product("%K", zero, "%z = constant {value = 3.0} : f32[64, 32]");
  EXPECT_EQ(Exact(before, 64, 32, 200), Exact(Split(before, 8), 64, 32, 200));
  const std::string text =
      With(ProductText("%K"), "%C: tensor<f32, 2> out", "%C: tensor<f32, 2> inout");
  const Function loads = Parsed(
      With(text, zero, "%z = load %C, %m, %n {modes = \"rr\", sizes = [64, 32]} : f32[64, 32]"));
  const Function after = Split(loads, 4);
  EXPECT_EQ(Exact(loads, 70, 40, 200), Exact(after, 70, 40, 200));
  // Nobody loads it but the one who stores: behind the loop.
  bool looped = false;
  for (OpId id : OpsInOrder(after)) {
    looped = looped || after.ops[id].kind == OpKind::kFor;
    const Op& op = after.ops[id];
    if (op.kind != OpKind::kLoad || after.param(op.operands[0])->name != "C") continue;
    EXPECT_TRUE(looped);
  }
}

// A largest value starts from the same in every CTA.
TEST(SplitReductions, LargestValues) {
  const std::string dot = "%d = dot %a, %bt, %s : f32[64, 32]";
  const std::string most =
      "%d0 = dot %a, %bt, %z : f32[64, 32]\n        %d = max %d0, %s : f32[64, 32]";
  const Function before = Product("%K", dot, most);
  const Function after = Split(before, 8);
  for (int64_t k : {0, 20, 100, 300})
    EXPECT_EQ(Exact(before, 64, 32, k), Exact(after, 64, 32, k)) << k;
}

// Rows that are added up, one a turn.
constexpr const char* kSums = R"(func @sums tile {
  param tensor %X: tensor<f32, 2> in [K, 64] align=16 stride_align=16 contiguous=1 last_align=16
  param tensor %Y: tensor<f32, 1> out [64] align=16 stride_align=16 contiguous=1 last_align=16
  param dim %K: i64
  body {
    %0 = constant {value = 0} : i64
    %n = constant {value = 64} : i64
    parallel %0, %n {steps = [64]} do (%c: i64) {
      %z = constant {value = 0} : f32[64]
      %y = for %0, %K, %z {step = 1} : f32[64] do (%k: i64, %s: f32[64]) {
        %x = load %X, %k, %c {modes = "sr", sizes = [1, 64]} : f32[64]
        %a = add %s, %x : f32[64]
        yield %a
      }
      store %Y, %y, %c, %n {modes = "r", sizes = [64]}
      yield
    }
  }
}
)";

// The first rows `scale` times as large. `parts`: what the bound is told.
TensorValue SumsOf(const Function& fn, double scale, bool whole, int64_t parts) {
  InterpretInputs in;
  TensorValue x =
      whole ? Numbers(DType::kF32, {130, 64}, 3) : TensorValue::Random(DType::kF32, {130, 64}, 7);
  for (size_t i = 0; i < x.v.size() / 2; ++i) x.v[i] = Round(DType::kF32, x.v[i] * scale);
  in.tensors["X"] = std::move(x);
  InterpretOptions options;
  options.parts = parts;
  DiagSink diags;
  EXPECT_TRUE(Interpret(fn, in, options, diags).ok());
  return in.tensors["Y"];
}

// Sums in parts round otherwise than in one: the bound has that where CTAs share, and little more.
TEST(SplitReductions, TheBoundHasWhatPartsRound) {
  const Function before = Parsed(kSums);
  for (double scale : {1.0, 1000.0}) {
    const TensorValue one = SumsOf(before, scale, false, 1);
    int64_t others = 0;
    for (int64_t ctas : {2, 3, 4, 5, 8}) {
      const TensorValue made = SumsOf(Split(before, ctas), scale, false, 1);
      const TensorValue bound = SumsOf(before, scale, false, ctas);
      EXPECT_EQ(bound.v, one.v);
      const CompareResult result = Compare(bound, made);
      EXPECT_TRUE(result.ok()) << ctas << ": " << result.max_ratio;
      others += Compare(one, made).failed;
      EXPECT_LT(*std::max_element(bound.e.begin(), bound.e.end()), 0.002 * scale);
    }
    EXPECT_GT(others, 0);
  }
  // Whole numbers are exact in every order.
  EXPECT_TRUE(SumsOf(before, 1, true, 8).e.empty());
}

std::string Why(const Function& fn) {
  Function out = fn;
  const std::string before = Print(fn);
  const std::optional<Obstacle> obstacle = SplitReductions(out, 4, H200());
  EXPECT_EQ(Print(out), before);
  return obstacle ? obstacle->why : "";
}

TEST(SplitReductions, Obstacles) {
  const std::string dot = "%d = dot %a, %bt, %s : f32[64, 32]";
  const auto with = [&](const std::string& text) { return Product("%K", dot, text); };
  // Scaled in every turn, looked at, or of two kinds.
  EXPECT_NE(Why(with("%h = constant {value = 0.5} : f32[64, 32]\n        %e = mul %s, %h : f32[64, "
                     "32]\n        %d = dot %a, %bt, %e : f32[64, 32]"))
                .find("does not only add up"),
            std::string::npos);
  EXPECT_NE(Why(with("%e = dot %a, %bt, %s : f32[64, 32]\n        %d = max %e, %z : f32[64, 32]"))
                .find("does not only add up"),
            std::string::npos);
  EXPECT_NE(Why(with("%e = dot %a, %bt, %s : f32[64, 32]\n        %d = add %e, %e : f32[64, 32]"))
                .find("does not only add up"),
            std::string::npos);
  EXPECT_NE(Why(with(dot + "\n        store %C, %d, %m, %M, %n, %N {modes = \"rr\", sizes = [64, "
                           "32]}"))
                .find("its loop writes"),
            std::string::npos);
  EXPECT_NE(Why(Product("%K", "parallel %0, %M, %0, %N {steps = [64, 32]}",
                        "parallel %0, %M, %0, %N {steps = [64, 32], cluster = 2}"))
                .find("in clusters already"),
            std::string::npos);
}

// Each of these is what a program of clusters is wrong without.
TEST(SplitReductions, CtasAreProvedTogether) {
  for (int64_t ctas : {2, 8}) {
    const Function warps = InRoles(Split(Product("%K"), ctas));
    ASSERT_EQ(warps.launch.cluster, ctas);
    EXPECT_EQ(Said(warps), "");
    const OpId reduce = Find(warps, OpKind::kWarpClusterReduce);
    const ValueId barriers = warps.ops[reduce].operands[2];
    int meetings = 0, inits = 0, syncs = 0;
    for (OpId id : OpsInOrder(warps)) {
      Function broken = warps;
      Op& op = broken.ops[id];
      if (op.kind == OpKind::kClusterSync) {
        ++meetings;
        std::erase(broken.blocks[op.block].ops, id);
      } else if (op.kind == OpKind::kMbarInit && op.operands[0] == barriers) {
        ++inits;
        Function few = warps;
        few.ops[id].set("count", op.i("count") / 2);
        EXPECT_NE(Said(few), "");
        op.set("cluster", int64_t{0});
      } else if (op.kind == OpKind::kCtaSync && op.block == warps.ops[reduce].block && !syncs) {
        ++syncs;  // the one in front of it: the buffer lies where the rings were
        std::erase(broken.blocks[op.block].ops, id);
      } else {
        continue;
      }
      EXPECT_NE(Said(broken), "") << Info(op.kind).mnemonic;
    }
    EXPECT_EQ(meetings, 2);
    EXPECT_EQ(inits, 1);
    EXPECT_EQ(syncs, 1);
  }
}

// Its barriers have one phase each, and nobody else arrives.
TEST(SplitReductions, BarriersAreOfOneReduction) {
  const Function warps = InRoles(Split(Product("%K"), 4));
  const OpId reduce = Find(warps, OpKind::kWarpClusterReduce);
  Function twice = warps;
  Builder b(twice, twice.ops[reduce].block);
  const Op op = twice.ops[reduce];
  const OpId again = b.Add(op.kind, {op.results[0], op.operands[1], op.operands[2]},
                           {twice.type(op.results[0])}, op.attrs);
  std::vector<OpId>& ops = twice.blocks[op.block].ops;
  ops.pop_back();
  ops.insert(std::find(ops.begin(), ops.end(), reduce) + 1, again);
  EXPECT_NE(Said(twice).find("barriers of a warp_cluster_reduce"), std::string::npos)
      << Said(twice);

  Function other = warps;
  for (OpId id : OpsInOrder(other))
    if (other.ops[id].kind == OpKind::kMbarArrive) other.ops[id].operands[0] = op.operands[2];
  EXPECT_NE(Said(other).find("barriers of a warp_cluster_reduce"), std::string::npos);
}

}  // namespace
}  // namespace tilec::ir
