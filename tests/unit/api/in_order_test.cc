// One role that does all of a CTA's ops in program order, several CTAs of it on an SM: what names
// ask for it, which sizes the model takes it for, and what the program is.
//
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "api/schedule_names.h"
#include "api/split.h"
#include "tests/unit/api/loaded.h"

namespace tilec::api {
namespace {

TEST(InOrderNames, PartsAndPacksOfSequential) {
  EXPECT_EQ(SplitOf("sequential:split=4"), 4);
  EXPECT_EQ(SplitOf("sequential:split=16"), 16);
  EXPECT_EQ(PackOf("sequential:pack=2"), 2);
  EXPECT_EQ(PackOf("sequential:pack=8:split=5"), 8);
  EXPECT_EQ(SplitOf("sequential:pack=8:split=5"), 5);
  EXPECT_EQ(SplitOf("solve:pack=8:split=5"), 5);
  EXPECT_EQ(SplitOf("sequential"), std::nullopt);
  EXPECT_EQ(SplitOf("sequential:pack=2"), std::nullopt);
  EXPECT_EQ(PackOf("sequential:split=2"), std::nullopt);
  EXPECT_EQ(PackOf("sequential:pack=3"), std::nullopt);
  EXPECT_EQ(SlicesOf("sequential:slices=2"), std::nullopt);
  EXPECT_EQ(SlicesOf("solve:slices=2"), 2);
  EXPECT_TRUE(IsSequential("sequential:pack=2"));
  EXPECT_FALSE(IsSequential("solve:pack=2"));
  EXPECT_TRUE(ChoosesForm("sequential"));
  EXPECT_FALSE(ChoosesForm("sequential:pack=2"));
  DiagSink diags;
  EXPECT_TRUE(CheckSchedule("sequential:pack=2:split=4", diags).ok());
  EXPECT_FALSE(CheckSchedule("sequential:once", diags).ok());
}

class InOrderTest : public LibraryTest {
 protected:
  static PipelineOptions ByModel() {
    PipelineOptions options;
    options.tune = "model";
    return options;
  }
  Call Query(int64_t b, int64_t h, int64_t g, int64_t l, int64_t d, int64_t bkv) {
    return Of({{"B", b},
               {"H", h},
               {"G", g},
               {"S", int64_t{1}},
               {"L", l},
               {"D", d},
               {"BQ", int64_t{16}},
               {"BKV", bkv},
               {"scale", 0.1},
               {"causal", false}});
  }
  Call Gemm(int64_t m, int64_t n, int64_t k, int64_t bm, int64_t bn, int64_t bk) {
    Call call = Of({{"M", m}, {"N", n}, {"K", k}, {"BM", bm}, {"BN", bn}, {"BK", bk}});
    call.row_starts = RowStartsOf(signature_, call.all);
    return call;
  }
};

TEST_F(InOrderTest, LongLoopsKeepTheirRings) {
  Load("std/matmul.tile", "gemm");
  const auto in_order = [&](const Call& call) {
    return SplitFor(loaded_, signature_, ByModel(), call).in_order;
  };
  EXPECT_FALSE(in_order(Gemm(4096, 4096, 4096, 128, 256, 64)));
  EXPECT_FALSE(in_order(Gemm(16, 4096, 4096, 16, 64, 64)));
  EXPECT_FALSE(in_order(Gemm(1024, 256, 16384, 128, 256, 64)));
  Load("std/attention.tile", "attention");
  Call many = Of({{"B", int64_t{1}},
                  {"H", int64_t{64}},
                  {"G", int64_t{8}},
                  {"S", int64_t{4096}},
                  {"L", int64_t{4096}},
                  {"D", int64_t{128}},
                  {"BQ", int64_t{128}},
                  {"BKV", int64_t{128}},
                  {"scale", 0.1},
                  {"causal", false}});
  EXPECT_FALSE(in_order(many));
  // One program for all sizes, whose tiles nobody chose, is no other one for some.
  EXPECT_FALSE(SplitFor(loaded_, signature_, {}, Query(18, 30, 15, 8439, 64, 128)).in_order);
}

// 270 heads of keys on 132 SMs: three rounds of CTAs that stay, one of three side by side.
TEST_F(InOrderTest, ChainsOfOneQueryRunSideBySide) {
  Load("std/attention.tile", "attention");
  Call call = Query(18, 30, 15, 8439, 64, 128);
  const scheduler::SplitChoice choice = ChooseForm(loaded_, signature_, ByModel(), &call);
  EXPECT_TRUE(choice.in_order);
  EXPECT_EQ(choice.pack, 2);
  EXPECT_EQ(choice.ctas, 1);
  EXPECT_EQ(call.schedule, "sequential");
  EXPECT_NE(ImageKey(loaded_, "attention", call, ByModel()),
            ImageKey(loaded_, "attention", Query(18, 30, 15, 8439, 64, 128), ByModel()));
}

TEST_F(InOrderTest, CtasOfOneRoleShareATilesLoop) {
  Load("std/attention.tile", "attention");
  PipelineOptions options;
  options.schedule = "sequential:pack=2:split=4";
  DiagSink diags;
  auto tile = MakeTileIr(loaded_, signature_.kernel, Query(2, 4, 2, 1000, 64, 64), nullptr, diags);
  ASSERT_TRUE(tile.ok());
  const auto warps = LowerToWarps(loaded_, std::move(*tile), options, nullptr, diags);
  ASSERT_TRUE(warps.ok()) << RenderAll(diags, loaded_.sources);
  EXPECT_EQ(warps->launch.cluster, 4);
  EXPECT_EQ(std::count_if(warps->ops.begin(), warps->ops.end(),
                          [](const ir::Op& op) { return op.kind == ir::OpKind::kRole; }),
            1);
}

}  // namespace
}  // namespace tilec::api
