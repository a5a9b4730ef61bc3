// The model of whole kernels against times of attention that were measured once
// (decoding_h200.txt): keys divided among CTAs, heads as rows of a tile, tiles of a few keys more.
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
#include <vector>

#include "api/machine.h"
#include "api/split.h"
#include "ir/passes/pack_rows.h"
#include "scheduler/form_times.h"
#include "tests/unit/api/loaded.h"

namespace tilec::api {
namespace {

struct Point {
  std::string text;
  int64_t bq = 0, bkv = 0, pack = 1, parts = 1;
  double us = 0, predicted = 0;
};
using HeadSizes = std::vector<int64_t>;  // B, H, G, S, L, D

class DecodingTest : public LibraryTest {
 protected:
  void Predict(const HeadSizes& sizes, Point* point) {
    static const char* const kNames[] = {"B", "H", "G", "S", "L", "D"};
    Given given = {{"BQ", point->bq}, {"BKV", point->bkv}, {"causal", false}, {"scale", 0.1}};
    for (size_t i = 0; i < sizes.size(); ++i) given[kNames[i]] = sizes[i];
    Call call = Of(given);
    call.row_starts = RowStartsOf(signature_, call.all);
    DiagSink diags;
    const Result<Machine> machine = MachineOf(PipelineOptions(), diags);
    ASSERT_TRUE(machine.ok());
    auto fn = MakeTileIr(loaded_, signature_.kernel, call, nullptr, diags);
    ASSERT_TRUE(fn.ok()) << point->text;
    auto clean = Clean(std::move(*fn), PipelineOptions(), diags);
    ASSERT_TRUE(clean.ok()) << point->text;
    ir::Function tiles = std::move(clean->fn);
    if (point->pack > 1) {
      ASSERT_FALSE(ir::PackRows(tiles, point->pack)) << point->text;
    }
    point->predicted = 1e3 * scheduler::TimeInParts(tiles, **machine, NamesOf(call),
                                                    call.row_starts, point->parts);
  }

  std::map<HeadSizes, std::vector<Point>> Measured() {
    std::map<HeadSizes, std::vector<Point>> out;
    std::ifstream file(std::string(TILEC_SOURCE_DIR) + "/tests/unit/api/decoding_h200.txt");
    for (std::string line; std::getline(file, line);) {
      if (line.empty() || line[0] == '#') continue;
      std::istringstream words(line);
      HeadSizes sizes(6);
      Point point;
      for (int64_t& size : sizes) words >> size;
      words >> point.bq >> point.bkv >> point.pack >> point.parts >> point.us;
      EXPECT_FALSE(words.fail()) << line;
      point.text = line;
      Predict(sizes, &point);
      out[sizes].push_back(point);
    }
    return out;
  }
};

TEST_F(DecodingTest, TheFastestIsNearTheFirst) {
  Load("std/attention.tile", "attention");
  std::vector<double> off;
  double sum = 0, worst = 0;
  const auto measured = Measured();
  for (const auto& [sizes, points] : measured) {
    const Point *taken = nullptr, *best = nullptr;
    for (const Point& point : points) {
      if (point.predicted <= 0) continue;
      off.push_back(std::abs(std::log(point.predicted / point.us)));
      if (taken == nullptr || point.predicted < taken->predicted) taken = &point;
      if (best == nullptr || point.us < best->us) best = &point;
    }
    ASSERT_NE(taken, nullptr);
    const double lost = taken->us / best->us - 1;
    std::printf("%s: predicted %.1f us; the fastest: %s\n", taken->text.c_str(), taken->predicted,
                best->text.c_str());
    sum += lost;
    worst = std::max(worst, lost);
  }
  std::sort(off.begin(), off.end());
  const auto of = [&](double share) {
    return std::expm1(off[static_cast<size_t>(share * static_cast<double>(off.size()))]);
  };
  std::printf(
      "%zu sizes: %.1f %% lost on average, %.1f %% at the worst; half of %zu times within "
      "%.0f %%, nine of ten within %.0f %%\n",
      measured.size(), 100 * sum / static_cast<double>(measured.size()), 100 * worst, off.size(),
      100 * of(0.5), 100 * of(0.9));
  ASSERT_GE(measured.size(), 4u);
  EXPECT_LE(sum / static_cast<double>(measured.size()), 0.1);
  EXPECT_LE(of(0.5), 0.25);
}

}  // namespace
}  // namespace tilec::api
