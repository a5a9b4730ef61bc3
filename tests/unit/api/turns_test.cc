// Turns of a role's warpgroups (ir/lower/turns.h): where they are planned, and that the proof
// refuses every way to place them wrong.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "ir/queries.h"
#include "ir/warp_check/check.h"
#include "tests/unit/api/loaded.h"
#include "tests/unit/h200.h"

namespace tilec {
namespace {

// Two products of an iteration, the second of what threads make of the first.
constexpr const char* kChain = R"(
kernel chain(Q: bf16[M, 64], K: bf16[L, 64], V: bf16[L, 64], O: out f32[M, 64]) {
  parallel m in tiles(M, 128) {
    let q = Q[m, :]
    var acc: f32[128, 64] = 0
    for k in tiles(L, 128) {
      let s = q @ K[k, :].T
      acc = acc + (exp2(min(s, 0.0)) as bf16) @ V[k, :]
    }
    O[m, :] = acc
  }
}
)";
// Two products of an iteration, neither made of the other.
constexpr const char* kTwo = R"(
kernel two(Q: bf16[M, 64], K: bf16[64, L], V: bf16[64, L], O: out f32[M, L]) {
  parallel m in tiles(M, 128), n in tiles(L, 64) {
    var a: f32[128, 64] = 0
    var b: f32[128, 64] = 0
    for k in tiles(64, 64) {
      a = a + Q[m, k] @ K[k, n]
      b = b + Q[m, k] @ V[k, n]
    }
    O[m, n] = a * b
  }
}
)";

// Products that are complete at once, of 64 and 128 columns: threads compute longer than they take,
// and not as long.
std::string Attention(int64_t depth, int64_t keys) {
  return fmt::format(R"(
kernel chain(Q: bf16[M, {0}], K: bf16[L, {0}], V: bf16[L, {0}], O: out f32[M, {0}]) {{
  parallel m in tiles(M, 256) {{
    let q = Q[m, :]
    var acc: f32[256, {0}] = 0
    var l: f32[256] = 0
    for k in tiles(L, {1}) {{
      let s = min(q @ K[k, :].T, 8.0)
      let p = exp2(s * 0.25 - max(s, axis = 1)[:, None])
      l = l + sum(p, axis = 1)
      acc = acc * 0.5 + (p as bf16) @ V[k, :]
    }}
    O[m, :] = acc / l[:, None]
  }}
}}
)",
                     depth, keys);
}

class TurnsTest : public LoweringTest {
 protected:
  explicit TurnsTest(const char* kernel = "chain", std::string text = kChain)
      : LoweringTest(kernel), text_(std::move(text)) {}
  void SetUp() override {
    LoadText(loaded_, text_);
    for (const char* name : {"Q", "K", "V", "O"})
      call_.facts[name] = {.base_align_bytes = 256,
                           .stride_align_bytes = 512,
                           .last_dim_align = 128,
                           .last_contiguous = true};
  }
  static std::vector<ir::OpId> Turns(const ir::Function& fn, const std::string& at) {
    std::vector<ir::OpId> found;
    for (ir::OpId id : ir::OpsInOrder(fn))
      if (fn.ops[id].kind == ir::OpKind::kTurn && fn.ops[id].s("at") == at) found.push_back(id);
    return found;
  }
  // What the proof says of the program, broken by `change`: the code, or "".
  std::string Broken(ir::Function fn, const std::function<void(ir::Function&)>& change) {
    change(fn);
    DiagSink diags;
    if (ir::CheckWarps(fn, ir::WarpCheckOptions(ir::H200()), diags)) return "";
    return diags.all().empty() ? "?" : diags.all()[0].def->code;
  }

 private:
  const std::string text_;
};

void Remove(ir::Function& fn, ir::OpId id) {
  std::vector<ir::OpId>& ops = fn.blocks[fn.ops[id].block].ops;
  ops.erase(std::find(ops.begin(), ops.end(), id));
}
// Behind the next op of that kind in its block.
void MoveBehind(ir::Function& fn, ir::OpId id, ir::OpKind kind) {
  std::vector<ir::OpId>& ops = fn.blocks[fn.ops[id].block].ops;
  auto at = std::find(ops.begin(), ops.end(), id);
  auto to = std::find_if(at, ops.end(), [&](ir::OpId o) { return fn.ops[o].kind == kind; });
  ASSERT_NE(to, ops.end());
  std::rotate(at, at + 1, to + 1);
}

TEST_F(TurnsTest, ProductsBackToBackAreATurn) {
  api::Lowered lowered;
  const ir::Function fn = Lowered(&lowered);
  ASSERT_EQ(Turns(fn, "start").size(), 1u) << RenderAll(diags_, loaded_.sources);
  const std::vector<ir::OpId> begins = Turns(fn, "begin"), ends = Turns(fn, "end");
  ASSERT_FALSE(begins.empty());
  EXPECT_EQ(begins.size(), ends.size());
  for (size_t i = 0; i < begins.size(); ++i) {
    ASSERT_EQ(fn.ops[begins[i]].block, fn.ops[ends[i]].block);
    EXPECT_TRUE(ir::InLoop(fn, begins[i]));
    const std::vector<ir::OpId>& ops = fn.blocks[fn.ops[begins[i]].block].ops;
    const auto from = std::find(ops.begin(), ops.end(), begins[i]);
    EXPECT_EQ(std::count_if(from, std::find(from, ops.end(), ends[i]),
                            [&](ir::OpId id) { return fn.ops[id].kind == ir::OpKind::kMmaCommit; }),
              2);
  }
}

// Two products of weights that threads make, in a loop over tiles: what the inner loop leaves for
// the products behind it is no product's result, though the loop carries one, too.
class WeightsTest : public TurnsTest {
 protected:
  WeightsTest()
      : TurnsTest("weights", R"(
kernel weights(Q: bf16[M, 2, L], W: u8[N, L], O: out bf16[M, N]) {
  parallel m in tiles(M, 16), n in tiles(N, 128) {
    var acc: f32[128, 16] = 0
    for k in tiles(L, 64) {
      let w = W[n, k]
      acc += (bit_and(w, 15) as bf16) @ Q[m, 0, k].T
      acc += (shr(w, 4) as bf16) @ Q[m, 1, k].T
    }
    O[m, n] = acc.T as bf16
  }
}
)") {
    call_.facts["W"] = {.base_align_bytes = 256,
                        .stride_align_bytes = 512,
                        .last_dim_align = 128,
                        .last_contiguous = true};
  }
};

TEST_F(WeightsTest, WhatThreadsMakeOfLoadsIsNoTurn) {
  api::Lowered lowered;
  const ir::Function fn = Lowered(&lowered);
  EXPECT_TRUE(Turns(fn, "start").empty()) << RenderAll(diags_, loaded_.sources);
  EXPECT_TRUE(lowered.by_schedule);
}

TEST_F(TurnsTest, TheProofRefusesTurnsThatMayHang) {
  api::Lowered lowered;
  const ir::Function fn = Lowered(&lowered);
  const std::vector<ir::OpId> start = Turns(fn, "start"), begin = Turns(fn, "begin"),
                              end = Turns(fn, "end");
  ASSERT_FALSE(begin.empty()) << RenderAll(diags_, loaded_.sources);
  using ir::Function;
  EXPECT_EQ(Broken(fn, [](Function&) {}), "");
  EXPECT_EQ(Broken(fn, [&](Function& f) { Remove(f, start[0]); }), "I311");
  EXPECT_EQ(Broken(fn, [&](Function& f) { Remove(f, begin[0]); }), "I311");
  EXPECT_EQ(Broken(fn, [&](Function& f) { Remove(f, end[0]); }), "I311");
  EXPECT_EQ(Broken(fn, [&](Function& f) { MoveBehind(f, end[0], ir::OpKind::kMmaWait); }), "I311");
  EXPECT_EQ(Broken(fn, [&](Function& f) { f.ops[start[0]].set("at", "begin"); }), "I311");
  EXPECT_EQ(Broken(fn, [&](Function& f) { f.ops[end[0]].set("at", "start"); }), "I311");
  // The barrier of the whole CTA orders nothing else.
  EXPECT_EQ(Broken(fn,
                   [&](Function& f) {
                     for (const auto& turns : {start, begin, end})
                       for (ir::OpId id : turns) f.ops[id].set("id", int64_t{0});
                   }),
            "I319");
}

class IndependentTest : public TurnsTest {
 protected:
  IndependentTest() : TurnsTest("two", kTwo) {}
};
TEST_F(IndependentTest, ProductsThatNeedNoThreadsTakeNone) {
  api::Lowered lowered;
  const ir::Function fn = Lowered(&lowered);
  EXPECT_TRUE(Turns(fn, "start").empty());
  EXPECT_TRUE(Turns(fn, "begin").empty());
}

class AtOnceTest : public TurnsTest {
 protected:
  explicit AtOnceTest(std::string text = Attention(64, 96)) : TurnsTest("chain", std::move(text)) {
    target_ = std::string(TILEC_SOURCE_DIR) + "/tests/machines/h200_mma_sync.toml";
  }
};
TEST_F(AtOnceTest, EachProductOfALoopIsATurn) {
  api::Lowered lowered;
  const ir::Function fn = Lowered(&lowered);
  ASSERT_EQ(Turns(fn, "start").size(), 1u) << RenderAll(diags_, loaded_.sources);
  const std::vector<ir::OpId> begins = Turns(fn, "begin"), ends = Turns(fn, "end");
  ASSERT_GE(begins.size(), 2u);
  ASSERT_EQ(begins.size(), ends.size());
  for (size_t i = 0; i < begins.size(); ++i) {
    const std::vector<ir::OpId>& ops = fn.blocks[fn.ops[begins[i]].block].ops;
    const auto from = std::find(ops.begin(), ops.end(), begins[i]);
    ASSERT_LT(from + 2, ops.end());
    EXPECT_EQ(fn.ops[from[1]].kind, ir::OpKind::kMma);
    EXPECT_EQ(from[2], ends[i]);
  }
  EXPECT_EQ(Broken(fn, [](ir::Function&) {}), "");
  EXPECT_EQ(Broken(fn, [&](ir::Function& f) { Remove(f, begins[0]); }), "I311");
  EXPECT_EQ(Broken(fn, [&](ir::Function& f) { Remove(f, ends[0]); }), "I311");
  // A slot that is released inside of a turn in front of a wait.
  EXPECT_EQ(Broken(fn, [&](ir::Function& f) { MoveBehind(f, ends[0], ir::OpKind::kMbarWait); }),
            "I311");
}

class LongProductsTest : public AtOnceTest {
 protected:
  LongProductsTest() : AtOnceTest(Attention(128, 64)) {}
};
TEST_F(LongProductsTest, WhereProductsTakeLongestThereAreNone) {
  api::Lowered lowered;
  const ir::Function fn = Lowered(&lowered);
  EXPECT_TRUE(Turns(fn, "start").empty());
}

}  // namespace
}  // namespace tilec
