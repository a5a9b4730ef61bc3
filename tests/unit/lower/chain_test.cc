// Products that stay under way across turns: what they read comes back, whoever else reads it.
//
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

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
constexpr const char* kOneDot = "%n = dot %a, %b, %c : f32[64, 64]\n";
constexpr const char* kThreads = R"(%f = cast %a : f32[64, 32]
        %s = reduce %f {kind = "sum", axis = 1} : f32[64]
        %r1 = add %r, %s : f32[64]
)";

// The product stays under way over the turn's end; every barrier that somebody awaits has arrivals,
// and the verifier, which finds the hang where one has none, accepts the program.
void ExpectChainGivesBack(const std::string& body) {
  const Function tile = Parsed(With(kBoth, "BODY", body));
  const Function warp = InRoles(tile);
  std::set<ValueId> awaited, arrived;
  int with_one_pending = 0;
  for (const Op& op : warp.ops) {
    if (op.kind == OpKind::kMbarWait) awaited.insert(op.operands[0]);
    if (op.kind == OpKind::kMbarArrive || op.kind == OpKind::kMbarExpect)
      arrived.insert(op.operands[0]);
    with_one_pending += op.kind == OpKind::kMmaWait && op.i("pending") == 1;
  }
  EXPECT_EQ(awaited, arrived);
  EXPECT_EQ(with_one_pending, 1);
  EXPECT_EQ(Said(warp), "") << Print(warp);
}

TEST(Chains, SlotsComeBackWhereThreadsReadThemLast) {
  ExpectChainGivesBack(std::string(kOneDot) + kThreads);
}

TEST(Chains, SlotsComeBackWhereTheProductReadsThemLast) {
  ExpectChainGivesBack(std::string(kThreads) + kOneDot);
}

// The copy engine cannot bring the rows of C: threads fill one buffer in every turn, and await all
// products before. Of two products only the one behind that is under way when the turn ends.
TEST(Chains, WhatThreadsFillEndsTheProductsBefore) {
  const Function tile = Parsed(R"(func @two tile {
  param tensor %A: tensor<bf16, 2> in [M, L] align=16 stride_align=16 contiguous=1 last_align=16
  param tensor %B: tensor<bf16, 2> in [L, 64] align=16 stride_align=16 contiguous=1 last_align=16
  param tensor %C: tensor<bf16, 2> in [M, L] align=16 stride_align=2 contiguous=1 last_align=16
  param tensor %O: tensor<f32, 2> out [M, 64] align=16 stride_align=16 contiguous=1 last_align=16
  param tensor %P: tensor<f32, 2> out [M, 64] align=16 stride_align=16 contiguous=1 last_align=16
  param dim %M: i64
  param dim %L: i64
  body {
    %0 = constant {value = 0} : i64
    parallel %0, %M {steps = [64]} do (%m: i64) {
      %z = constant {value = 0} : f32[64, 64]
      %o, %p = for %0, %L, %z, %z {step = 32} : f32[64, 64], f32[64, 64]
          do (%k: i64, %x: f32[64, 64], %y: f32[64, 64]) {
        %a = load %A, %m, %k {modes = "rr", sizes = [64, 32]} : bf16[64, 32]
        %b = load %B, %k, %0 {modes = "rr", sizes = [32, 64]} : bf16[32, 64]
        %x1 = dot %a, %b, %x : f32[64, 64]
        %c = load %C, %m, %k {modes = "rr", sizes = [64, 32]} : bf16[64, 32]
        %y1 = dot %c, %b, %y : f32[64, 64]
        yield %x1, %y1
      }
      %w = constant {value = 64} : i64
      %me = add %m, %w : i64
      %end = min %me, %M : i64
      store %O, %o, %m, %end, %0, %w {modes = "rr", sizes = [64, 64]}
      store %P, %p, %m, %end, %0, %w {modes = "rr", sizes = [64, 64]}
      yield
    }
  }
}
)");
  const Function warp = InRoles(tile);
  EXPECT_EQ(Said(warp), "");
}

// Weights of bytes are converted by threads, in two products of a turn that add to one accumulator:
// the copy engine brings them, there are two places more than products a turn, one barrier in front
// of each product, and the last product of a turn is all that is under way at its end.
TEST(Chains, ComputedOperandsHaveRings) {
  const Function tile = Parsed(R"(func @bytes tile {
  param tensor %A: tensor<bf16, 2> in [M, L] align=16 stride_align=16 contiguous=1 last_align=16
  param tensor %W: tensor<i8, 2> in [N, L] align=16 stride_align=16 contiguous=1 last_align=16
  param tensor %O: tensor<f32, 2> out [M, N] align=16 stride_align=16 contiguous=1 last_align=16
  param dim %M: i64
  param dim %N: i64
  param dim %L: i64
  body {
    %0 = constant {value = 0} : i64
    parallel %0, %M {steps = [64]} do (%m: i64) {
      %z = constant {value = 0} : f32[64, 64]
      %o = for %0, %L, %z {step = 64} : f32[64, 64] do (%k: i64, %x: f32[64, 64]) {
        %a = load %A, %m, %k {modes = "rr", sizes = [64, 64]} : bf16[64, 64]
        %w = load %W, %0, %k {modes = "rr", sizes = [64, 64]} : i8[64, 64]
        %f = cast %w : bf16[64, 64]
        %t = transpose %f {perm = [1, 0]} : bf16[64, 64]
        %x1 = dot %a, %t, %x : f32[64, 64]
        %g = neg %f : bf16[64, 64]
        %u = transpose %g {perm = [1, 0]} : bf16[64, 64]
        %x2 = dot %a, %u, %x1 : f32[64, 64]
        yield %x2
      }
      %s = constant {value = 64} : i64
      %me = add %m, %s : i64
      %end = min %me, %M : i64
      store %O, %o, %m, %end, %0, %s {modes = "rr", sizes = [64, 64]}
      yield
    }
  }
}
)");
  const Function warp = InRoles(tile);
  EXPECT_EQ(Said(warp), "") << Print(warp);
  std::set<ValueId> written;
  int loop_barriers = 0, byte_copies = 0;
  std::vector<int64_t> pending;
  for (const Op& op : warp.ops) {
    const OpId around = warp.blocks[op.block].parent;
    const bool turn = around.valid() && warp.ops[around].kind == OpKind::kFor;
    loop_barriers += turn && op.kind == OpKind::kCtaSync;
    if (turn && op.kind == OpKind::kMmaWait) pending.push_back(op.i("pending"));
    if (turn && op.kind == OpKind::kSmemStore) written.insert(op.operands[1]);
    byte_copies += op.kind == OpKind::kTmaLoad && warp.type(op.operands[0]).dtype == DType::kI8;
  }
  ASSERT_EQ(written.size(), 1u);
  EXPECT_EQ(warp.type(*written.begin()).depth, 4);
  EXPECT_EQ(loop_barriers, 2);
  EXPECT_EQ(pending, std::vector<int64_t>{1});
  EXPECT_GT(byte_copies, 0);
}

// O = A·B + V by CTAs that stay, tile after tile.
constexpr const char* kBias = R"(func @bias tile {
  param tensor %A: tensor<bf16, 2> in [M, L] align=16 stride_align=16 contiguous=1 last_align=16
  param tensor %B: tensor<bf16, 2> in [L, N] align=16 stride_align=16 contiguous=1 last_align=16
  param tensor %V: tensor<f32, 1> in [N] align=16 stride_align=16 contiguous=1 last_align=16
  param tensor %O: tensor<f32, 2> out [M, N] align=16 stride_align=16 contiguous=1 last_align=16
  param dim %M: i64
  param dim %N: i64
  param dim %L: i64
  param dim %T: i64
  param dim %W: i64
  body {
    %0 = constant {value = 0} : i64
    %1 = constant {value = 1} : i64
    %p = constant {value = 132} : i64
    %z = constant {value = 0} : f32[64, 64]
    %s = constant {value = 64} : i64
    parallel %0, %p {steps = [1]} do (%cta: i64) {
      for %cta, %T {step = 132} do (%t: i64) {
        %r = div %t, %W : i64
        %c = mod %t, %W : i64
        %m = mul %r, %s : i64
        %n = mul %c, %s : i64
        %o = for %0, %L, %z {step = 64} : f32[64, 64] do (%k: i64, %x: f32[64, 64]) {
          %a = load %A, %m, %k {modes = "rr", sizes = [64, 64]} : bf16[64, 64]
          %b = load %B, %k, %n {modes = "rr", sizes = [64, 64]} : bf16[64, 64]
          %x1 = dot %a, %b, %x : f32[64, 64]
          yield %x1
        }
        %v = load %V, %n {modes = "r", sizes = [64]} : f32[64]
        %w = reshape %v : f32[1, 64]
        %u = broadcast %w {axes = [0, 1]} : f32[64, 64]
        %y = add %o, %u : f32[64, 64]
        %me = add %m, %s : i64
        %mend = min %me, %M : i64
        %ne = add %n, %s : i64
        %nend = min %ne, %N : i64
        store %O, %y, %m, %mend, %n, %nend {modes = "rr", sizes = [64, 64]}
        yield
      }
      yield
    }
  }
}
)";

// CTAs that stay: what stands between two tiles' products is done under the last of them. The place
// of the tile (divisions) is computed again behind the turns and pinned there, and the bias is
// loaded, both in front of the wait; the first product of a tile makes its accumulator.
TEST(Chains, LittleIsLeftBetweenTiles) {
  const Function warp = InRoles(Parsed(kBias));
  EXPECT_EQ(Said(warp), "") << Print(warp);
  bool looked = false;
  for (const Block& block : warp.blocks) {
    const auto place = [&](auto&& is) {
      return std::find_if(block.ops.begin(), block.ops.end(),
                          [&](OpId id) { return is(warp.ops[id]); });
    };
    const auto wait = place([](const Op& op) {
      return op.kind == OpKind::kMmaWait && op.i("pending") == 0 && !op.results.empty();
    });
    if (wait == block.ops.end()) continue;
    looked = true;
    const auto kind = [](OpKind k) { return [k](const Op& op) { return op.kind == k; }; };
    const auto turns = place(kind(OpKind::kFor));
    ASSERT_LT(turns, wait);
    EXPECT_EQ(warp.ops[*turns].i("some", 0), 1);
    const auto load = place(kind(OpKind::kGLoad));
    ASSERT_LT(turns, load) << Print(warp);
    EXPECT_LT(load, wait) << Print(warp);
    int pins = 0, divisions = 0;
    for (auto at = turns; at != wait; ++at) {
      pins += warp.ops[*at].kind == OpKind::kPin;
      const Op& op = warp.ops[*at];
      divisions += (op.kind == OpKind::kDiv || op.kind == OpKind::kMod) &&
                   warp.type(op.results[0]).dtype == DType::kI64;
    }
    EXPECT_EQ(pins, 3) << Print(warp);  // the tile's number, its row and column
    EXPECT_EQ(divisions, 2);
  }
  EXPECT_TRUE(looked) << Print(warp);
  for (const Op& op : warp.ops)
    if (op.kind == OpKind::kMma) {
      ASSERT_EQ(op.operands.size(), 6u);
      EXPECT_EQ(warp.type(op.operands[5]).dtype, DType::kBool);
    }
}

// Computed panels: one is copied out while the next is computed. Each has one meeting, which says
// that the panel before is written and that the copy before that has been read; what is computed
// for a panel is not begun before the one before it is written.
TEST(Chains, PanelsLeaveUnderTheNextOnesArithmetic) {
  std::string text = With(kBias, "f32, 2> out", "bf16, 2> out");
  // the loop over tiles that a pass makes: no tile comes back, so no copy waits for one before it
  text = With(text, "{step = 132}", "{step = 132, narrow = 1}");
  text = With(text, "constant {value = 64} : i64", "constant {value = 256} : i64");
  text = With(text, "%m = mul %r, %s : i64",
              "%rows = constant {value = 128} : i64\n        %m = mul %r, %rows : i64");
  text = With(text, "f32[64, 64]", "f32[128, 256]");
  text = With(text, "load %A, %m, %k {modes = \"rr\", sizes = [64, 64]} : bf16[64, 64]",
              "load %A, %m, %k {modes = \"rr\", sizes = [128, 64]} : bf16[128, 64]");
  text = With(text, "load %B, %k, %n {modes = \"rr\", sizes = [64, 64]} : bf16[64, 64]",
              "load %B, %k, %n {modes = \"rr\", sizes = [64, 256]} : bf16[64, 256]");
  text = With(text, "sizes = [64]} : f32[64]", "sizes = [256]} : f32[256]");
  text = With(text, "f32[1, 64]", "f32[1, 256]");
  text =
      With(text, "%me = add %m, %s", "%q = cast %y : bf16[128, 256]\n        %me = add %m, %rows");
  text = With(text, "store %O, %y, %m, %mend, %n, %nend {modes = \"rr\", sizes = [64, 64]}",
              "store %O, %q, %m, %mend, %n, %nend {modes = \"rr\", sizes = [128, 256]}");
  SequentialOptions options;
  options.slice_epilogues = true;
  const Function warp = InRoles(Parsed(text), options);
  EXPECT_EQ(Said(warp), "") << Print(warp);
  std::string order;
  bool products = false;
  for (OpId id : OpsInOrder(warp)) {
    const OpKind kind = warp.ops[id].kind;
    products = products || kind == OpKind::kMma;
    if (!products) continue;
    if (kind == OpKind::kCodeFence) order += 'c';
    if (kind == OpKind::kFenceAsync) order += 'f';
    if (kind == OpKind::kCtaSync) order += 's';
    if (kind == OpKind::kTmaStore) order += 't';
    if (kind == OpKind::kSmemStore) order += 'w';
  }
  EXPECT_EQ(order, "swcfstwcfstwcfstwfst") << Print(warp);
}

}  // namespace
}  // namespace tilec::ir
