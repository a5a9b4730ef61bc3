// cluster-tiles: the same results from a grid of clusters, loads shared only where they are equal,
// and a proof of what the CTAs do to each other.
//
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "ir/lower/sequential.h"
#include "ir/passes/arrange_grid.h"
#include "ir/passes/cluster_tiles.h"
#include "ir/passes/cluster_values.h"
#include "ir/warp_check/check.h"
#include "tests/unit/lower/helper.h"
#include "tests/unit/lower/product.h"

namespace tilec::ir {
namespace {

Function Clustered(const Function& fn) {
  Function out = fn;
  EXPECT_FALSE(ClusterTiles(out, 2));  // no obstacle
  ExpectVerified(out);
  return out;
}

std::vector<const Op*> LoadsOf(const Function& fn) {
  std::vector<const Op*> out;
  for (OpId id : OpsInOrder(fn))
    if (fn.ops[id].kind == OpKind::kLoad) out.push_back(&fn.ops[id]);
  return out;
}

TEST(ClusterTiles, SameResultsWithAndWithoutATile) {
  const Function before = Product("%K");
  const Function after = Clustered(before);
  for (int64_t m : {0, 1, 64, 128, 130, 300})
    for (int64_t n : {32, 100})
      EXPECT_EQ(ProductOf(before, m, n, 64), ProductOf(after, m, n, 64)) << m << " " << n;
}

TEST(ClusterTiles, OnlyWhatDoesNotDependOnTheFirstRangeIsShared) {
  const Function fn = Clustered(Product("%K"));
  const std::vector<const Op*> loads = LoadsOf(fn);
  ASSERT_EQ(loads.size(), 2u);
  EXPECT_EQ(loads[0]->i("shared", 0), 0);
  EXPECT_EQ(loads[1]->i("shared", 0), 1);
}

// Neighbours along the columns have rows of A in common.
TEST(ClusterTiles, AnotherRangeComesFirst) {
  const Function before = Product("%K");
  Function turned = before;
  ASSERT_TRUE(ArrangeGrid(turned, 1));
  const Function after = Clustered(turned);
  const std::vector<const Op*> loads = LoadsOf(after);
  ASSERT_EQ(loads.size(), 2u);
  EXPECT_EQ(loads[0]->i("shared", 0), 1);
  EXPECT_EQ(loads[1]->i("shared", 0), 0);
  for (int64_t m : {0, 1, 64, 130})
    for (int64_t n : {32, 100, 160, 300})
      EXPECT_EQ(ProductOf(before, m, n, 64), ProductOf(after, m, n, 64)) << m << " " << n;
}

TEST(ClusterTiles, ARangeThatIsNotThereChangesNothing) {
  Function fn = Product("%K");
  const std::string before = Print(fn);
  EXPECT_FALSE(ArrangeGrid(fn, 2));
  EXPECT_FALSE(ArrangeGrid(fn, 0));
  EXPECT_EQ(Print(fn), before);
}

// A loop as long as the tile's place says: neighbours do not make the same copies.
TEST(ClusterTiles, NothingIsSharedInLoopsOfUnequalLength) {
  Function fn = Product("%low");
  const std::string before = Print(fn);
  const std::optional<Obstacle> obstacle = ClusterTiles(fn, 2);
  ASSERT_TRUE(obstacle);
  EXPECT_NE(obstacle->why.find("no tile that a loop loads"), std::string::npos);
  EXPECT_EQ(Print(fn), before);
}

// A whole number of clusters needs no guard; otherwise stores have one.
TEST(ClusterTiles, StoresAreGuardedWhereATileMayBeMissing) {
  auto branches = [](const Function& fn) { return Count(fn, OpKind::kIf); };
  EXPECT_EQ(branches(Clustered(Product("%K"))), 1);
  const std::string grid = "parallel %0, %M, %0, %N";
  const Function whole =
      Product("%K", grid, "%e = constant {value = 256} : i64\n    parallel %0, %e, %0, %N");
  EXPECT_EQ(branches(Clustered(whole)), 0);
  const Function odd =
      Product("%K", grid, "%e = constant {value = 192} : i64\n    parallel %0, %e, %0, %N");
  EXPECT_EQ(branches(Clustered(odd)), 1);
}

// A store whose rows begin with the tile and end with the range writes nothing without a tile.
TEST(ClusterTiles, StoresThatClipNeedNoGuard) {
  Function fn = Product("%K");
  ASSERT_FALSE(ClusterTiles(fn, 2, true));
  ExpectVerified(fn);
  EXPECT_EQ(Count(fn, OpKind::kIf), 0);
  for (int64_t m : {0, 1, 64, 130, 300})
    EXPECT_EQ(ProductOf(Product("%K"), m, 100, 64), ProductOf(fn, m, 100, 64)) << m;
}

// Clusters that stay walk over tiles together: both CTAs of one have the same columns, and rows
// beside each other.
TEST(ClusterTiles, ThatStayAreNeighboursStill) {
  const Function before = Product("%K");
  for (const int64_t ctas : {2, 6, 148}) {
    Function fn = before;
    ASSERT_FALSE(ClusterTiles(fn, 2, true));
    ASSERT_FALSE(PersistTiles(fn, ctas));
    ExpectVerified(fn);
    for (int64_t m : {0, 1, 64, 130, 300})
      for (int64_t n : {32, 100})
        EXPECT_EQ(ProductOf(before, m, n, 64), ProductOf(fn, m, n, 64)) << m << " " << n;
    OpId grid;
    for (OpId id : OpsInOrder(fn))
      if (fn.ops[id].kind == OpKind::kParallel) grid = id;
    EXPECT_EQ(fn.ops[grid].i("cluster"), 2);
    const ClusterValues values(fn, grid);
    const std::vector<const Op*> loads = LoadsOf(fn);
    ASSERT_EQ(loads.size(), 2u);
    EXPECT_TRUE(values.Differs(loads[0]->operands[1]));
    EXPECT_FALSE(values.Differs(loads[1]->operands[1]));
  }
}

// Each of these is what a program of clusters is wrong without.
TEST(ClusterTiles, CtasAreProvedTogether) {
  const Function warps = InRoles(Clustered(Product("%K")));
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
