// Register layouts against the formulas they stand for.
//
// SPDX-License-Identifier: Apache-2.0
#include "ir/layout.h"
#include "ir/pushed_tile.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace tilec::ir {
namespace {

using Coord = std::vector<int64_t>;

// Each element inside `shape` is held by the same number of threads, and each thread that holds it
// holds it once.
void ExpectCovers(const Layout& layout, const Coord& shape) {
  std::map<Coord, int> owners;
  for (int64_t t = 0; t < layout.threads(); ++t) {
    std::map<Coord, int> mine;
    for (int64_t r = 0; r < layout.regs(); ++r) {
      const Coord c = layout.Coord(t, r);
      bool inside = true;
      for (size_t i = 0; i < c.size(); ++i) inside = inside && c[i] < shape[i];
      if (!inside) continue;
      EXPECT_EQ(++mine[c], 1) << ToText(layout);
    }
    for (const auto& [c, n] : mine) ++owners[c];
  }
  int64_t elements = 1;
  for (int64_t d : shape) elements *= d;
  EXPECT_EQ(static_cast<int64_t>(owners.size()), elements) << ToText(layout);
  if (owners.empty()) return;
  const int copies = owners.begin()->second;
  for (const auto& [c, n] : owners) ASSERT_EQ(n, copies) << ToText(layout);
}

TEST(Layout, AccumulatorIsTheInstructionsFragment) {
  // hopper.md §6.1 for one warpgroup, m64n64.
  const Layout layout = AccumulatorLayout(64, 64, 1, WgSplit::kM);
  ASSERT_EQ(layout.threads(), 128);
  ASSERT_EQ(layout.regs(), 32);
  for (int64_t t = 0; t < 128; ++t)
    for (int64_t i = 0; i < 32; ++i) {
      const int64_t w = t / 32, l = t % 32;
      const Coord want = {16 * w + l / 4 + 8 * ((i >> 1) & 1),
                          8 * (i >> 2) + 2 * (l & 3) + (i & 1)};
      ASSERT_EQ(layout.Coord(t, i), want) << t << " " << i;
    }
}

// 64 sums of a row in 128 threads, four in each of sixteen: eight threads hold the same, and send
// them to a CTA each. What does not fill its threads, or is large, is fetched.
TEST(Layout, SmallTilesAreSent) {
  Layout row;
  row.rank = 1;
  row.thread = {{16, 0, 4}, {8, -1, 0}};
  row.reg = {{4, 0, 1}};
  const std::optional<PushedTile> sent = PushedTileOf(row, {64});
  ASSERT_TRUE(sent);
  EXPECT_EQ(sent->holders, 16);
  EXPECT_EQ(sent->replicas, 8);
  EXPECT_EQ(sent->registers, 4);
  EXPECT_EQ(PushedTileOf(row, {60})->elements(), 64);
  EXPECT_FALSE(PushedTileOf(row, {65}));
  row.thread = {{128, 0, 4}};
  EXPECT_FALSE(PushedTileOf(row, {512}));
}

TEST(Layout, RowsThatRunsOfThreadsHaveForThemselves) {
  EXPECT_EQ(RowsOfParts(AccumulatorLayout(128, 40, 2, WgSplit::kM), 2), 64);
  EXPECT_EQ(RowsOfParts(AccumulatorLayout(256, 40, 2, WgSplit::kM), 2), 128);
  EXPECT_EQ(RowsOfParts(AccumulatorLayout(192, 8, 3, WgSplit::kM), 3), 64);
  EXPECT_EQ(RowsOfParts(AccumulatorLayout(64, 48, 2, WgSplit::kN), 2), 0);  // columns
  EXPECT_EQ(RowsOfParts(AccumulatorLayout(64, 24, 2, WgSplit::kNone), 2), 0);
  EXPECT_EQ(RowsOfParts(AccumulatorLayout(128, 40, 2, WgSplit::kM), 3), 0);
  // Rows of the two halves take turns.
  EXPECT_EQ(RowsOfParts(*ParseLayout("t(4:1*2 4:0*2 2:0*1) r(2:1*1)", 2), 2), 0);
  EXPECT_EQ(RowsOfParts(*ParseLayout("t(4:1*2 4:0*1 2:0*4) r(2:1*1)", 2), 2), 4);
  EXPECT_EQ(RowsOfParts(*ParseLayout("t(4:1*2 4:0*1 2:0*4) r(2:1*1 2:0*4)", 2), 2), 0);
}

TEST(Layout, AccumulatorSplits) {
  ExpectCovers(AccumulatorLayout(128, 40, 2, WgSplit::kM), {128, 40});
  ExpectCovers(AccumulatorLayout(64, 48, 2, WgSplit::kN), {64, 48});
  ExpectCovers(AccumulatorLayout(64, 24, 2, WgSplit::kNone), {64, 24});
  ExpectCovers(AccumulatorLayout(96, 20, 1, WgSplit::kM), {96, 20});
  // The second warpgroup owns the second 64 rows.
  EXPECT_EQ(AccumulatorLayout(128, 8, 2, WgSplit::kM).Coord(128, 0), (Coord{64, 0}));
  EXPECT_EQ(AccumulatorLayout(64, 32, 2, WgSplit::kN).Coord(128, 0), (Coord{0, 16}));
}

TEST(Layout, InterleavedColumnsAreFoursOfTheirThread) {
  for (int64_t n : {32, 64, 96, 224}) {
    const Layout pairs = AccumulatorLayout(128, n, 2, WgSplit::kM);
    const std::optional<Layout> other = InterleavedColumns(pairs), fours = FoursOf(pairs);
    ASSERT_TRUE(other && fours);
    ExpectCovers(*other, {128, n});
    EXPECT_TRUE(RegisterMap(*other, *fours, {128, n})) << n;
    EXPECT_FALSE(RegisterMap(pairs, *fours, {128, n})) << n;
    // Column c of the instruction's is 2c, or an odd one behind n / 2.
    for (int64_t t : {0, 1, 2, 3, 37})
      for (int64_t r = 0; r < pairs.regs(); ++r) {
        Coord want = pairs.Coord(t, r);
        want[1] = want[1] < n / 2 ? 2 * want[1] : 2 * (want[1] - n / 2) + 1;
        ASSERT_EQ(other->Coord(t, r), want) << t << " " << r;
      }
  }
  EXPECT_FALSE(InterleavedColumns(AccumulatorLayout(64, 40, 1, WgSplit::kM)));  // not sixteens
  EXPECT_FALSE(InterleavedColumns(BlockedLayout({64, 32}, 4, 128)));
}

TEST(Layout, BlockedCoversAnyShape) {
  std::mt19937 rng(7);
  for (int trial = 0; trial < 200; ++trial) {
    const int rank = 1 + static_cast<int>(rng() % 3);
    Coord shape;
    for (int d = 0; d < rank; ++d) shape.push_back(1 + static_cast<int64_t>(rng() % 40));
    const int64_t vector = int64_t{1} << (rng() % 4);
    const int64_t threads = 128 * (1 + static_cast<int64_t>(rng() % 4));
    const Layout layout = BlockedLayout(shape, vector, threads);
    ASSERT_EQ(layout.threads(), threads);
    ExpectCovers(layout, shape);
  }
}

TEST(Layout, CrossedCoversAnyShape) {
  std::mt19937 rng(11);
  for (int trial = 0; trial < 200; ++trial) {
    const int rank = 2 + static_cast<int>(rng() % 2);
    Coord shape;
    for (int d = 0; d < rank; ++d) shape.push_back(1 + static_cast<int64_t>(rng() % 40));
    const int first = static_cast<int>(rng() % static_cast<unsigned>(rank));
    const int second =
        (first + 1 + static_cast<int>(rng() % static_cast<unsigned>(rank - 1))) % rank;
    const int64_t a = int64_t{1} << (rng() % 4), b = int64_t{1} << (rng() % 4);
    const int64_t threads = 128 * (1 + static_cast<int64_t>(rng() % 4));
    const Layout layout = CrossedLayout(shape, {first, a, 64}, {second, b, 32}, threads);
    ASSERT_EQ(layout.threads(), threads);
    ExpectCovers(layout, shape);
    // Blocks of a x b elements.
    for (const auto& [dim, vector] : {std::pair(first, a), std::pair(second, b)}) {
      const RegisterRun run = RunAlong(layout, dim);
      if (vector == 1) continue;
      EXPECT_EQ(run.extent % vector, 0);
      size_t registers = 0;
      for (const std::vector<int>& group : RunGroups(layout, run, vector))
        for (size_t i = 0; i < group.size(); ++i, ++registers) {
          Coord at = layout.RegCoord(group[0]);
          at[static_cast<size_t>(dim)] += static_cast<int64_t>(i);
          EXPECT_EQ(layout.RegCoord(group[i]), at);
        }
      EXPECT_EQ(static_cast<int64_t>(registers), layout.regs());
    }
  }
}

TEST(Layout, SliceHoldsWhatTheReductionNeeds) {
  const Layout layout = AccumulatorLayout(128, 64, 2, WgSplit::kM);
  const Layout rows = SliceLayout(layout, 1);
  EXPECT_EQ(rows.rank, 1);
  EXPECT_EQ(rows.regs(), 2);
  ExpectCovers(rows, {128});
  for (int64_t t = 0; t < 256; ++t)
    for (int64_t r = 0; r < 2; ++r) EXPECT_EQ(rows.Coord(t, r)[0], layout.Coord(t, 2 * r)[0]);
  ExpectCovers(SliceLayout(layout, 0), {64});
}

TEST(Layout, PermuteRenamesDims) {
  const Layout layout = BlockedLayout({16, 32}, 4, 128);
  const Layout turned = PermuteLayout(layout, {1, 0});
  for (int64_t t = 0; t < 128; t += 7)
    for (int64_t r = 0; r < layout.regs(); ++r) {
      const Coord a = layout.Coord(t, r), b = turned.Coord(t, r);
      EXPECT_EQ(a[0], b[1]);
      EXPECT_EQ(a[1], b[0]);
    }
}

TEST(Layout, RegisterMapFindsRenamings) {
  const Layout acc = AccumulatorLayout(64, 32, 1, WgSplit::kM);
  const auto same = RegisterMap(acc, acc, {64, 32});
  ASSERT_TRUE(same);
  for (size_t r = 0; r < same->size(); ++r) EXPECT_EQ((*same)[r], static_cast<int>(r));
  EXPECT_FALSE(RegisterMap(acc, BlockedLayout({64, 32}, 4, 128), {64, 32}));
  // A replicated tile can become any layout without moving data.
  EXPECT_TRUE(
      RegisterMap(ReplicatedLayout({8}, 128), BlockedLayout({8}, 1, 128), {8}).has_value() ==
      false);  // … but not at one register index for all threads
}

TEST(Layout, TextRoundTrips) {
  for (const Layout& layout :
       {AccumulatorLayout(128, 80, 2, WgSplit::kM), AccumulatorLayout(64, 24, 2, WgSplit::kNone),
        BlockedLayout({4, 33, 7}, 2, 384), ReplicatedLayout({3, 5}, 256)}) {
    const auto parsed = ParseLayout(ToText(layout), layout.rank);
    ASSERT_TRUE(parsed) << ToText(layout);
    EXPECT_EQ(*parsed, layout);
  }
  for (const char* bad : {"", "t(", "t(4:0*1)", "t(4:9*1) r()", "t(0:0*1) r()", "t(4:0*1) r() x"})
    EXPECT_FALSE(ParseLayout(bad, 2)) << bad;
}

}  // namespace
}  // namespace tilec::ir
