// persist-tiles: every tile once, by whichever CTA and in whichever order.
//
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "ir/lower/sequential.h"
#include "ir/passes/persist_tiles.h"
#include "ir/warp_check/check.h"
#include "tests/unit/lower/helper.h"
#include "tests/unit/lower/product.h"

namespace tilec::ir {
namespace {

Function Persistent(const Function& fn, int64_t ctas) {
  Function out = fn;
  EXPECT_FALSE(PersistTiles(out, ctas));
  ExpectVerified(out);
  return out;
}

TEST(PersistTiles, EveryTileOnce) {
  const Function before = Product("%K");
  for (int64_t ctas : {1, 7, 132}) {
    const Function after = Persistent(before, ctas);
    for (int64_t m : {1, 300, 700})
      for (int64_t n : {32, 100})
        EXPECT_EQ(ProductOf(before, m, n, 64), ProductOf(after, m, n, 64))
            << ctas << " " << m << " " << n;
  }
}

TEST(PersistTiles, NoTilesAtAll) {
  const Function before = Product("%K");
  EXPECT_EQ(ProductOf(Persistent(before, 4), 0, 64, 32), std::vector<double>());
}

TEST(PersistTiles, TilesOfUnequalLengthComeAndGo) {
  Function fn = Product("%low");
  const std::string before = Print(fn);
  const std::optional<Obstacle> obstacle = PersistTiles(fn, 132);
  ASSERT_TRUE(obstacle);
  EXPECT_EQ(obstacle->why.substr(0, 11), "tiles take ");
  EXPECT_EQ(Print(fn), before);
}

TEST(PersistTiles, NothingToGainWithoutALoopOfProducts) {
  Function fn = Product("%K", "dot %a, %bt, %s", "add %s, %s");
  const std::string before = Print(fn);
  const std::optional<Obstacle> obstacle = PersistTiles(fn, 132);
  ASSERT_TRUE(obstacle);
  EXPECT_EQ(obstacle->why.substr(0, 10), "it has no ");
  EXPECT_EQ(Print(fn), before);
}

// The load role goes on to the next tile; the proof holds for all numbers of tiles and turns.
TEST(PersistTiles, RolesAcrossTilesAreProved) {
  const Function tile = Persistent(Product("%K"), 132);
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
