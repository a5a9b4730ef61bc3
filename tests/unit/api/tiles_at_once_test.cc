// Tiles of products that are complete at once (mma.sync), chosen by the machine model for the test
// bed of that unit, against rates that were measured once.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "api/tune.h"
#include "tests/unit/api/loaded.h"

namespace tilec::api {
namespace {

struct Tile {
  std::map<std::string, int64_t> tunes;
  double measured;  // TF/s
};

class TilesAtOnceTest : public LibraryTest {
 protected:
  TilesAtOnceTest() {
    options_.target = std::string(TILEC_SOURCE_DIR) + "/tests/machines/h200_mma_sync.toml";
  }
  TuneChoice Choose(const Given& given) {
    return ChooseTunes(loaded_, signature_, Of(given), options_, nullptr);
  }
  // What the model takes by itself, and the defaults where it keeps them.
  std::map<std::string, int64_t> Taken(const Given& given) {
    std::map<std::string, int64_t> taken;
    const TuneChoice choice = Choose(given);
    EXPECT_EQ(choice.why_not, "");
    for (const auto& [name, value] : choice.values) taken[name] = std::get<int64_t>(value);
    return taken;
  }
  // Where one tile was faster than another by more than the margin, so it is by the model.
  void Ranked(const Given& given, const std::vector<Tile>& tiles, double margin) {
    std::vector<double> ms;
    for (const Tile& tile : tiles) {
      Given all = given;
      for (const auto& [name, value] : tile.tunes) all[name] = value;
      const TuneChoice choice = Choose(all);
      ASSERT_FALSE(choice.lowered.empty());
      ms.push_back(choice.lowered[0].time.ms);
      for (const auto& [name, value] : tile.tunes) std::printf("%s=%d ", name.c_str(), int(value));
      std::printf("%.1f us predicted, %.0f TF/s measured\n", 1e3 * ms.back(), tile.measured);
    }
    for (size_t i = 0; i < tiles.size(); ++i)
      for (size_t k = 0; k < tiles.size(); ++k)
        if (tiles[i].measured > (1 + margin) * tiles[k].measured) {
          EXPECT_LT(ms[i], ms[k]) << i << " and " << k;
        }
  }
  static Given Product(int64_t m, int64_t n, int64_t k) { return {{"M", m}, {"N", n}, {"K", k}}; }
  static Given Attention(int64_t d, int64_t s, bool causal) {
    const int64_t heads = s > 4096 ? 32 : 64;
    return {{"B", int64_t{1}}, {"H", heads}, {"G", heads},       {"S", s},
            {"L", s},          {"D", d},     {"causal", causal}, {"scale", 0.125}};
  }
  PipelineOptions options_;
};

// TF/s at load; products on an H100 (17d056e), which an H200 confirms (128 x 128 x 64, 192 x 128 x
// 64: 443 and 469, 445 and 418, 439 and 422).
TEST_F(TilesAtOnceTest, ProductsKeepTheFastestTiles) {
  Load("std/matmul.tile", "gemm");
  const auto tiles = [](double wide, double tall, double thin) {
    return std::vector<Tile>{{{{"BM", 128}, {"BN", 256}, {"BK", 64}}, wide},
                             {{{"BM", 256}, {"BN", 128}, {"BK", 64}}, tall},
                             {{{"BM", 128}, {"BN", 256}, {"BK", 32}}, thin}};
  };
  Ranked(Product(8192, 8192, 8192), tiles(509, 499, 459), 0.04);
  Ranked(Product(4096, 4096, 4096), tiles(481, 481, 441), 0.04);
  Ranked(Product(4096, 4096, 14336), tiles(491, 486, 440), 0.04);
  for (const Given& size :
       {Product(8192, 8192, 8192), Product(4096, 4096, 4096), Product(4096, 4096, 14336)})
    EXPECT_EQ(Taken(size), (std::map<std::string, int64_t>{}));  // 128 x 256 x 64
}

// The same H200, commit 17d056e; D = 64 with 256 queries in turns, as they are planned now.
TEST_F(TilesAtOnceTest, AttentionTakesTwoWarpgroupsOf128Rows) {
  Load("std/attention.tile", "attention");
  const auto tile = [](int64_t queries, int64_t keys, double measured) {
    return Tile{{{"BQ", queries}, {"BKV", keys}}, measured};
  };
  Ranked(Attention(128, 8192, false),
         {tile(256, 64, 377), tile(128, 128, 359), tile(192, 64, 342), tile(128, 64, 317)}, 0.05);
  Ranked(Attention(128, 2048, false),
         {tile(256, 64, 361), tile(128, 128, 335), tile(128, 64, 306), tile(192, 64, 299)}, 0.07);
  Ranked(Attention(64, 8192, false),
         {tile(256, 96, 345), tile(192, 128, 317), tile(128, 128, 284), tile(128, 64, 247)}, 0.05);
  Ranked(Attention(64, 2048, true), {tile(256, 96, 248), tile(192, 128, 221), tile(128, 64, 206)},
         0.05);
  for (const bool causal : {false, true}) {
    EXPECT_EQ(Taken(Attention(128, 8192, causal)),
              (std::map<std::string, int64_t>{{"BKV", 64}, {"BQ", 256}, {"ONCE", 0}}));
    EXPECT_EQ(Taken(Attention(64, 8192, causal)),
              (std::map<std::string, int64_t>{{"BKV", 96}, {"BQ", 256}, {"ONCE", 0}}));
  }
  EXPECT_EQ(Taken(Attention(64, 2048, false)).at("BQ"), 256);
}

}  // namespace
}  // namespace tilec::api
