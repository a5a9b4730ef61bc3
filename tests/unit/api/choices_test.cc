// What the model says of tiles and forms that were measured on an H200 (`tilec bench --search`,
// us): of two tiles the faster one is preferred, and CTAs walk over tiles only where there are more
// than SMs.
//
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>

#include "api/split.h"
#include "api/tune.h"
#include "scheduler/form_times.h"
#include "tests/unit/api/loaded.h"

namespace tilec::api {
namespace {

class ChoicesTest : public LibraryTest {
 protected:
  struct Heads {
    int64_t b, h, g, s, l, d;
    bool causal;
  };
  Call Attention(const Heads& of, int64_t bq, int64_t bkv) {
    return Of({{"B", of.b},
               {"H", of.h},
               {"G", of.g},
               {"S", of.s},
               {"L", of.l},
               {"D", of.d},
               {"BQ", bq},
               {"BKV", bkv},
               {"scale", 0.1},
               {"causal", of.causal}});
  }
  double Us(const Call& call) { return 1e3 * SplitFor(loaded_, signature_, {}, call).ms; }
};

// 17x16x16 took 1.92 us where CTAs walk, 1.64 where each has its tile; 320x744x32 2.45 and 2.11;
// 20x72x848 3.01 and 2.78.
TEST_F(ChoicesTest, TilesThatAllHaveAnSmAreNotWalkedOver) {
  Load("std/matmul.tile", "gemm");
  const auto once = [&](const Call& call, const PipelineOptions& options) {
    return SplitFor(loaded_, signature_, options, call).once;
  };
  EXPECT_TRUE(once(ProductCall(17, 16, 16, 32, 16, 32), ByModel()));
  EXPECT_TRUE(once(ProductCall(320, 744, 32, 64, 64, 32), ByModel()));
  EXPECT_TRUE(once(ProductCall(20, 72, 848, 32, 24, 128), ByModel()));
  EXPECT_FALSE(once(ProductCall(4096, 4096, 4096, 128, 256, 64), ByModel()));
  EXPECT_FALSE(
      once(ProductCall(1024, 256, 16384, 128, 256, 64), ByModel()));  // shared by several CTAs
  // Whose tunes nobody chose has one program for all sizes.
  EXPECT_FALSE(once(ProductCall(17, 16, 16, 32, 16, 32), {}));
}

// Of clusters of four 30 run at a time: 124x4328x57840 took 203 us in 31, 161 in 26.
TEST_F(ChoicesTest, ClustersOfFourLeaveTwelveSmsIdle) {
  Load("std/matmul_f16.tile", "gemm_f16");
  const auto choice = [&](int64_t bn) {
    return SplitFor(loaded_, signature_, {}, ProductCall(124, 4328, 57840, 128, bn, 64));
  };
  EXPECT_EQ(choice(168).ctas, 4);
  EXPECT_LT(choice(168).ms, choice(144).ms);
  EXPECT_NEAR(1e3 * choice(168).ms, 160.9, 16);
}

// 270 heads have 612 MB of keys and values: CTAs that stay go through all of them in each round.
TEST_F(ChoicesTest, CausalHeadsThatNoCacheHoldsAreNotWalkedOver) {
  Load("std/attention.tile", "attention");
  const auto choice = [&](const Heads& of) {
    return SplitFor(loaded_, signature_, ByModel(), Attention(of, 128, 128));
  };
  EXPECT_TRUE(choice({45, 6, 6, 4432, 4432, 128, true}).once);
  EXPECT_FALSE(choice({45, 6, 6, 4432, 4432, 128, false}).once);  // all are equally long
  for (const int64_t s : {2048, 4096, 8192, 16384})
    EXPECT_FALSE(choice({1, 64, 8, s, s, 128, true}).once) << s;
}

TEST_F(ChoicesTest, WhoHasATileForEachCtaIsCompiledSo) {
  Load("std/matmul.tile", "gemm");
  Call call = ProductCall(17, 16, 16, 32, 16, 32);
  const std::string key = ImageKey(loaded_, "gemm", call, ByModel());
  ChooseForm(loaded_, signature_, ByModel(), &call);
  EXPECT_EQ(call.schedule, "solve:once");
  EXPECT_NE(ImageKey(loaded_, "gemm", call, ByModel()), key);
  Call many = ProductCall(4096, 4096, 4096, 128, 256, 64);
  ChooseForm(loaded_, signature_, ByModel(), &many);
  EXPECT_EQ(many.schedule, "");
  // Rows that begin amid sectors: 28.3 us in clusters, 41.7 where CTAs walk alone.
  Load("std/matmul_f16.tile", "gemm_f16");
  Call cut = ProductCall(6118, 80, 5672, 48, 80, 64);
  ChooseForm(loaded_, signature_, ByModel(), &cut);
  EXPECT_EQ(cut.schedule, "solve:clusters");
}

// Tiles that meet amid sectors store slower: e4m3 23437x3312x32 66 us in 256x184, 48 in 128x256.
TEST_F(ChoicesTest, TilesThatMeetAmidSectorsStoreSlower) {
  Load("std/matmul_types.tile", "gemm_e4m3");
  EXPECT_GT(Us(ProductCall(23437, 3312, 32, 256, 184, 32)),
            Us(ProductCall(23437, 3312, 32, 192, 256, 32)));
}

// Sixteen clusters of eight are two waves: 78.7 us in 208x160, of 14 turns and 15; 49.0 in 240x160.
TEST_F(ChoicesTest, ClustersOfUnequalTurnsStillComeInWaves) {
  Load("std/matmul.tile", "gemm");
  DiagSink diags;
  const Result<Machine> machine = MachineOf(PipelineOptions(), diags);
  ASSERT_TRUE(machine.ok());
  const auto us = [&](int64_t bm, int64_t bk) {
    const Call call = ProductCall(1630, 312, 14376, bm, 160, bk);
    auto tile = MakeTileIr(loaded_, signature_.kernel, call, nullptr, diags);
    EXPECT_TRUE(tile.ok());
    auto clean = Clean(std::move(*tile), {}, diags);
    EXPECT_TRUE(clean.ok());
    return 1e3 * scheduler::TimeInParts(clean->fn, **machine, NamesOf(call), call.row_starts, 8);
  };
  EXPECT_GT(us(208, 128), 1.3 * us(240, 64));
  EXPECT_NEAR(us(208, 128), 78.7, 20);
}

// Threads store tiles of 128 rows of D = 256 themselves, by 16 bytes, as shared memory has no room
// for them: 960 heads of 292, causal, took 285 us in 128x80, 245 in 128x64, 180 in 112x64.
TEST_F(ChoicesTest, TilesThatThreadsStoreByPiecesAreLeft) {
  Load("std/attention.tile", "attention");
  const Call call = Of({{"B", int64_t{30}},
                        {"H", int64_t{32}},
                        {"G", int64_t{4}},
                        {"S", int64_t{292}},
                        {"L", int64_t{292}},
                        {"D", int64_t{256}},
                        {"scale", 0.0625},
                        {"causal", true}});
  const frontend::Values values = ChooseTunes(loaded_, signature_, call, {}, {}).values;
  ASSERT_EQ(values.count("BQ"), 1u);
  EXPECT_EQ(std::get<int64_t>(values.at("BQ")), 112);
  EXPECT_EQ(std::get<int64_t>(values.at("BKV")), 64);
}

// Warpgroups hold whole instructions of 64 rows: 80 rows take as long as 128.
TEST_F(ChoicesTest, RowsOfSeveralWarpgroupsArePadded) {
  Load("std/attention.tile", "attention");
  const Heads few = {1, 8, 2, 300, 1500, 128, false};  // 22.8 us in 80x80, then 16.4 in 112x64
  EXPECT_GT(Us(Attention(few, 80, 80)), Us(Attention(few, 112, 64)));
  EXPECT_GT(Us(Attention(few, 96, 80)), Us(Attention(few, 112, 64)));  // 25.7
  EXPECT_NEAR(Us(Attention(few, 112, 64)), 12.4, 1.2);  // in four parts that meet three times
}

// Of two rounds the second is nearly empty: 136 tiles of decoding took 92.3 us, shared by two CTAs
// each 74.5 (by four 83.6, by eight 115), by three that are no cluster 66.6; 171 tiles 1093, by
// four 974.
TEST_F(ChoicesTest, TilesOfAnEmptySecondRoundAreShared) {
  Load("std/attention.tile", "attention");
  const auto choice = [&](const Heads& of, int64_t bkv) {
    return SplitFor(loaded_, signature_, ByModel(), Attention(of, 16, bkv));
  };
  const auto few = choice({17, 64, 8, 1, 5701, 64, false}, 160);
  EXPECT_EQ(few.pack, 8);
  EXPECT_TRUE(few.apart);
  const auto more = choice({19, 72, 9, 1, 44711, 128, false}, 128);
  EXPECT_EQ(more.pack, 8);
  EXPECT_EQ(more.ctas, 4);
  EXPECT_EQ(choice({16, 64, 8, 1, 5701, 64, false}, 160).ctas, 1);  // 128 tiles: one round
  EXPECT_EQ(choice({32, 64, 8, 1, 5701, 64, false}, 160).ctas, 1);  // 256 tiles: two full ones
}

// A tile of 96 rows is turned round and leaves as a whole: its bytes are read while the next tile
// is made, and awaited before they are written again. (7x939x9792x8: 0.75 of cuBLAS where the
// copies were awaited at once.)
TEST_F(ChoicesTest, StoresThatLeaveAsAWholeDrainUnderTheNextTile) {
  Load("std/matmul_fused.tile", "gemm_batched");
  const auto plan = [&](int64_t bm, int64_t bn) {
    const Call call = Of({{"BM", bm}, {"BN", bn}, {"BK", int64_t{32}}});
    DiagSink diags;
    auto tile = MakeTileIr(loaded_, signature_.kernel, call, nullptr, diags);
    EXPECT_TRUE(tile.ok());
    std::string text;
    Observation look;
    look.plan = &text;
    const auto warps =
        LowerToWarps(loaded_, std::move(*tile), PipelineOptions().For(call), &look, diags);
    EXPECT_TRUE(warps.ok()) << RenderAll(diags, loaded_.sources);
    return text;
  };
  EXPECT_NE(plan(96, 256).find(" drains=yes"), std::string::npos);
  EXPECT_EQ(plan(128, 256).find(" drains=yes"), std::string::npos);  // by panels
}

}  // namespace
}  // namespace tilec::api
