// The model of whole kernels against times of products with few tiles and long K, which were
// measured once (parts_h200.txt): the tile, and how many CTAs share its loop.
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

#include "api/machine.h"
#include "api/split.h"
#include "scheduler/copy_lines.h"
#include "scheduler/form_times.h"
#include "tests/unit/api/loaded.h"

namespace tilec::api {
namespace {

using ProductSize = std::tuple<std::string, int64_t, int64_t, int64_t>;  // kernel, M, N, K
using Product = std::tuple<int64_t, int64_t, int64_t>;                   // BM, BN, BK
using ProductTimes = std::map<Product, std::map<int64_t, double>>;       // us, by parts

std::map<ProductSize, ProductTimes> Measured() {
  std::map<ProductSize, ProductTimes> out;
  std::ifstream file(std::string(TILEC_SOURCE_DIR) + "/tests/unit/api/parts_h200.txt");
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream words(line);
    std::string kernel;
    int64_t m = 0, n = 0, k = 0, bm = 0, bn = 0, bk = 0, parts = 0;
    double us = 0;
    words >> kernel >> m >> n >> k >> bm >> bn >> bk >> parts >> us;
    EXPECT_FALSE(words.fail()) << line;
    out[{kernel, m, n, k}][{bm, bn, bk}][parts] = us;
  }
  return out;
}

class PartsTest : public LibraryTest {
 protected:
  void LoadKernel(const std::string& kernel) {
    Load(kernel == "gemm_e4m3" ? "std/matmul_types.tile" : "std/matmul.tile", kernel);
  }
  Call CallOf(const ProductSize& size, const Product& tile) {
    const auto& [kernel, m, n, k] = size;
    const auto& [bm, bn, bk] = tile;
    Call call = Of({{"M", m}, {"N", n}, {"K", k}, {"BM", bm}, {"BN", bn}, {"BK", bk}});
    call.row_starts = RowStartsOf(signature_, call.all);
    return call;
  }
  ir::Function Clean(const Call& call) {
    DiagSink diags;
    auto fn = MakeTileIr(loaded_, signature_.kernel, call, nullptr, diags);
    if (!fn.ok()) return {};
    std::vector<ir::PassStep> steps;
    for (ir::PassId id : ir::kCleanUp) steps.push_back(ir::StepOf(id));
    auto clean = RunSteps(loaded_, std::move(*fn), steps, PipelineOptions(), nullptr, diags);
    return clean.ok() ? *std::move(clean) : ir::Function();
  }
};

TEST_F(PartsTest, TileAndPartsAreNearTheFastest) {
  double sum = 0, worst = 0;
  size_t sizes = 0;
  for (const auto& [size, tiles] : Measured()) {
    const auto& [kernel, m, n, k] = size;
    LoadKernel(kernel);
    double least = 0, taken = 0, best = 0;
    std::string what;
    for (const auto& [tile, times] : tiles) {
      const auto& [bm, bn, bk] = tile;
      for (const auto& [parts, us] : times) best = best == 0 ? us : std::min(best, us);
      const scheduler::SplitChoice choice = SplitFor(loaded_, signature_, {}, CallOf(size, tile));
      const auto at = times.find(choice.ctas);
      if (at == times.end() || (least > 0 && choice.ms >= least)) continue;
      least = choice.ms;
      taken = at->second;
      what = fmt::format("{}x{}x{} in {}", bm, bn, bk, choice.ctas);
    }
    ASSERT_GT(taken, 0) << kernel;
    const double lost = taken / best - 1;
    std::printf("%s of %s: %s, predicted %.1f us, took %.1f, the fastest %.1f\n", kernel.c_str(),
                fmt::format("{}x{}x{}", m, n, k).c_str(), what.c_str(), 1e3 * least, taken, best);
    sum += lost;
    worst = std::max(worst, lost);
    ++sizes;
  }
  std::printf("%zu sizes, %.1f %% lost on average, %.1f %% at the worst\n", sizes,
              100 * sum / static_cast<double>(sizes), 100 * worst);
  ASSERT_GE(sizes, 5u);
  EXPECT_LE(sum / static_cast<double>(sizes), 0.1);
}

// Rows of 3864 numbers begin at multiples of 16 bytes, of 36496 at those of 32. Boxes of 16 rows
// take longer than their bytes say, those of 128 do not.
TEST_F(PartsTest, StoresAmidSectorsAndSmallBoxesTakeLonger) {
  DiagSink diags;
  const Result<Machine> machine = MachineOf(PipelineOptions(), diags);
  ASSERT_TRUE(machine.ok());
  LoadKernel("gemm_tn");
  const auto asked = [&](const ProductSize& size, const Product& tile) {
    const Call call = CallOf(size, tile);
    return scheduler::AskedByCopies(Clean(call), **machine, call.row_starts, NamesOf(call));
  };
  const scheduler::Asked cut = asked({"gemm_tn", 8, 3864, 1184}, {16, 256, 64});
  EXPECT_DOUBLE_EQ(cut.written, (*machine)->model.cut_store_times);
  const scheduler::Asked whole = asked({"gemm_tn", 72, 36496, 8}, {16, 256, 32});
  // A quarter of a line beyond whole ones: each piece of a line is of two.
  EXPECT_DOUBLE_EQ(whole.written, 1 + 0.75 * (*machine)->model.whole_sector_share / 2);
  // Pieces of 64 bytes touch 1.47 times as many lines as those of 128.
  const scheduler::Asked narrow = asked({"gemm_tn", 8, 3864, 1184}, {16, 160, 64});
  EXPECT_NEAR(narrow.written, 1 + 2.75 / 1.875 * ((*machine)->model.cut_store_times - 1), 1e-9);
  EXPECT_DOUBLE_EQ(whole.leaves, 624);  // four boxes of 270 cycles, less 456 for 8 KB
  EXPECT_DOUBLE_EQ(asked({"gemm_tn", 72, 36496, 8}, {128, 256, 32}).leaves, 0);
}

// [K, 8] is asked for row by row, by all CTAs at once, where an engine copies it; threads bring it
// where wide tiles are copied beside it. Rows of [N, 8] are each CTA's own.
TEST_F(PartsTest, NarrowRowsThatAllCtasAskForAreDear) {
  DiagSink diags;
  const Result<Machine> machine = MachineOf(PipelineOptions(), diags);
  ASSERT_TRUE(machine.ok());
  const auto asked = [&](const ProductSize& size, const Product& tile) {
    LoadKernel(std::get<0>(size));
    const Call call = CallOf(size, tile);
    return scheduler::AskedByCopies(Clean(call), **machine, call.row_starts, NamesOf(call));
  };
  const scheduler::Asked copied = asked({"gemm_tn", 8, 3864, 1184}, {16, 64, 32});
  EXPECT_GT(copied.hot, 0);
  EXPECT_GT(copied.Times(61, **machine), copied.Times(8, **machine));
  EXPECT_EQ(asked({"gemm_tn", 8, 3864, 1184}, {16, 128, 64}).hot, 0);
  EXPECT_EQ(asked({"gemm_tn", 64, 3864, 1184}, {64, 128, 64}).hot, 0);
  EXPECT_EQ(asked({"gemm_tt", 1616, 25608, 8}, {128, 256, 32}).hot, 0);
  // Rows of [M, 8] are all CTAs' where one tile has them all.
  EXPECT_GT(asked({"gemm_nn", 90, 44280, 8}, {96, 168, 16}).hot, 0);
  EXPECT_EQ(asked({"gemm_nn", 1616, 25608, 8}, {96, 168, 16}).hot, 0);
}

// 267 tiles on 132 SMs: three CTAs are a round of their own, which computes while nobody else
// copies (an H200 took 1600 us, and the memory alone takes 1350).
TEST_F(PartsTest, TheLastRoundTakesAsLongAsItsTiles) {
  DiagSink diags;
  const Result<Machine> machine = MachineOf(PipelineOptions(), diags);
  ASSERT_TRUE(machine.ok());
  LoadKernel("gemm_tn");
  const Call call = CallOf({"gemm_tn", 8, 51160, 53784}, {16, 192, 64});
  const double ms =
      scheduler::TimeInParts(Clean(call), **machine, NamesOf(call), call.row_starts, 1);
  EXPECT_GT(ms, 1.45);
  EXPECT_LT(ms, 1.95);
}

// Of all that was tried, not only of what is fast: panels of 32 bytes and of 128, rows that begin
// at lines and amid sectors, one CTA for a tile or eight.
TEST_F(PartsTest, TimesAreNearWhatWasMeasured) {
  std::vector<double> off;
  for (const auto& [size, tiles] : Measured()) {
    LoadKernel(std::get<0>(size));
    for (const auto& [tile, times] : tiles) {
      const Call call = CallOf(size, tile);
      DiagSink diags;
      PipelineOptions options;
      const Result<Machine> machine = MachineOf(options, diags);
      ASSERT_TRUE(machine.ok());
      const ir::Function clean = Clean(call);
      ASSERT_FALSE(clean.ops.empty());
      for (const auto& [parts, us] : times) {
        const double ms =
            scheduler::TimeInParts(clean, **machine, NamesOf(call), call.row_starts, parts);
        if (ms > 0) off.push_back(std::abs(std::log(1e3 * ms / us)));
      }
    }
  }
  std::sort(off.begin(), off.end());
  ASSERT_GE(off.size(), 400u);
  const auto of = [&](double share) {
    return off[static_cast<size_t>(share * static_cast<double>(off.size()))];
  };
  std::printf("%zu times: half within %.0f %%, nine of ten within %.0f %%\n", off.size(),
              100 * std::expm1(of(0.5)), 100 * std::expm1(of(0.9)));
  EXPECT_LE(of(0.5), std::log(1.15));
  EXPECT_LE(of(0.9), std::log(1.5));
}

}  // namespace
}  // namespace tilec::api
