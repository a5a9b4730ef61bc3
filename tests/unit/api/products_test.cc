// The model of whole kernels against times that were measured once (products_h200.txt): which form
// a tile's CTAs take, and which tile of those that were tried.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include "api/split.h"
#include "tests/unit/api/loaded.h"

namespace tilec::api {
namespace {

struct MeasuredRow {
  int64_t bm = 0, bn = 0;
  double clusters = 0, persistent = 0, once = 0;  // us
};
using Sizes = std::tuple<int64_t, int64_t, int64_t>;

std::string Text(const Sizes& size) {
  const auto& [m, n, k] = size;
  return fmt::format("{}x{}x{}", m, n, k);
}
std::string Text(const MeasuredRow& row) { return fmt::format("{}x{}", row.bm, row.bn); }

std::map<Sizes, std::vector<MeasuredRow>> MeasuredRows() {
  std::map<Sizes, std::vector<MeasuredRow>> out;
  std::ifstream file(std::string(TILEC_SOURCE_DIR) + "/tests/unit/api/products_h200.txt");
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream words(line);
    int64_t m = 0, n = 0, k = 0;
    MeasuredRow row;
    words >> m >> n >> k >> row.bm >> row.bn >> row.clusters >> row.persistent >> row.once;
    EXPECT_FALSE(words.fail()) << line;
    out[{m, n, k}].push_back(row);
  }
  return out;
}

class ProductsTest : public LibraryTest {
 protected:
  scheduler::SplitChoice Choose(const Sizes& size, const MeasuredRow& row) {
    const auto& [m, n, k] = size;
    Call call = Of({{"M", m}, {"N", n}, {"K", k}, {"BM", row.bm}, {"BN", row.bn}});
    call.row_starts = RowStartsOf(signature_, call.all);
    return SplitFor(loaded_, signature_, {}, call);
  }
};

// Taken: clusters or CTAs that stay, whichever the model says; lost: against the better of both.
TEST_F(ProductsTest, TheFormOfATileIsTheFasterOne) {
  Load("std/matmul.tile", "gemm");
  std::vector<double> lost;
  for (const auto& [size, rows] : MeasuredRows())
    for (const MeasuredRow& row : rows) {
      const scheduler::SplitChoice choice = Choose(size, row);
      if (choice.ctas > 1) continue;  // was not measured
      const double taken = choice.share_copies ? row.clusters : row.persistent;
      lost.push_back(taken / std::min(row.clusters, row.persistent) - 1);
      if (lost.back() > 0.1)
        std::printf("%s in %s: %s, %.0f %% lost\n", Text(size).c_str(), Text(row).c_str(),
                    choice.share_copies ? "clusters" : "persistent", 100 * lost.back());
    }
  std::sort(lost.begin(), lost.end());
  double sum = 0;
  for (const double l : lost) sum += l;
  std::printf("%zu tiles, %.1f %% lost on average, %.1f %% at the worst\n", lost.size(),
              100 * sum / static_cast<double>(lost.size()), 100 * lost.back());
  ASSERT_GE(lost.size(), 200u);
  EXPECT_LE(sum / static_cast<double>(lost.size()), 0.02);
}

TEST_F(ProductsTest, TheTileOfASizeIsNearTheFastest) {
  Load("std/matmul.tile", "gemm");
  double sum = 0, worst = 0;
  size_t sizes = 0;
  for (const auto& [size, rows] : MeasuredRows()) {
    double least = 0, taken = 0, best = 0;
    const MeasuredRow* tile = nullptr;
    for (const MeasuredRow& row : rows) {
      const scheduler::SplitChoice choice = Choose(size, row);
      const double fastest = std::min({row.clusters, row.persistent, row.once});
      if (best == 0 || fastest < best) best = fastest;
      if (choice.ctas > 1 || (least > 0 && choice.ms >= least)) continue;
      least = choice.ms;
      taken = choice.share_copies ? row.clusters : row.persistent;
      tile = &row;
    }
    ASSERT_NE(tile, nullptr);
    const double lost = taken / best - 1;
    std::printf("%s: %s, predicted %.1f us, took %.1f, the fastest %.1f\n", Text(size).c_str(),
                Text(*tile).c_str(), 1e3 * least, taken, best);
    sum += lost;
    worst = std::max(worst, lost);
    ++sizes;
  }
  std::printf("%zu sizes, %.1f %% lost on average, %.1f %% at the worst\n", sizes,
              100 * sum / static_cast<double>(sizes), 100 * worst);
  ASSERT_GE(sizes, 11u);
  EXPECT_LE(sum / static_cast<double>(sizes), 0.05);
}

// Beside a tile that leaves as a whole rings have two slots: H200, pairs that stay, 1360 us in
// 176x256 and 1168 in 192x192; of [K, M] and [K, N] 2016 in 256x168 and 1750 in 128x224.
TEST_F(ProductsTest, TwoSlotsTakeLonger) {
  Load("std/matmul.tile", "gemm");
  const auto ms = [&](const Sizes& size, int64_t bm, int64_t bn) {
    return Choose(size, {bm, bn}).ms;
  };
  const Sizes wide = {688, 30768, 18472}, tall = {45936, 664, 19072};
  EXPECT_GT(ms(wide, 176, 256), ms(wide, 192, 192));
  EXPECT_NEAR(ms(wide, 192, 192), 1.168, 0.12);
  Load("std/matmul.tile", "gemm_tn");
  EXPECT_GT(ms(tall, 256, 168), ms(tall, 128, 224));
  EXPECT_NEAR(ms(tall, 128, 224), 1.75, 0.18);
}

}  // namespace
}  // namespace tilec::api
