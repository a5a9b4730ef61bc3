// Tiles of loops over long rows, chosen by the machine model, against times that were measured once
// (H200, 2026-11-28, docs/perf_log.md): what it takes loses little of the best.
//
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "api/tune.h"
#include "tests/unit/api/loaded.h"

namespace tilec::api {
namespace {

struct RowTile {
  int64_t rows, columns;
  double us;
};

class RowLoopsTest : public LibraryTest {
 protected:
  void Takes(const std::string& file, const std::string& kernel, int64_t rows, int64_t columns,
             const std::vector<RowTile>& measured) {
    Load(std::string(TILEC_SOURCE_DIR) + "/tests/exec/" + file, kernel);
    const TuneChoice choice =
        ChooseTunes(loaded_, signature_, Of({{"R", rows}, {"C", columns}}), {}, nullptr);
    EXPECT_EQ(choice.why_not, "");
    RowTile taken{8, 128, 0};  // the defaults, where it keeps them
    for (const auto& [name, value] : choice.values)
      (name == "BR" ? taken.rows : taken.columns) = std::get<int64_t>(value);
    double best = measured[0].us;
    for (const RowTile& tile : measured) {
      best = std::min(best, tile.us);
      if (tile.rows == taken.rows && tile.columns == taken.columns) taken.us = tile.us;
    }
    ASSERT_GT(taken.us, 0) << kernel << ": " << taken.rows << " x " << taken.columns
                           << " was not measured";
    constexpr double kLost = 1.05;
    EXPECT_LE(taken.us, kLost * best) << kernel << ": " << taken.rows << " x " << taken.columns;
  }
};

TEST_F(RowLoopsTest, CrossEntropy) {
  Takes("cross_entropy.tile", "cross_entropy", 8192, 128256,
        {{8, 1024, 1396},
         {8, 512, 959},
         {8, 128, 676},
         {64, 128, 872},
         {32, 128, 1003},
         {16, 128, 1133},
         {16, 512, 1361},
         {32, 256, 898},
         {4, 1024, 977},
         {64, 64, 1852},
         {32, 512, 1051}});
}

TEST_F(RowLoopsTest, LogSumExp) {
  Takes("logsumexp.tile", "logsumexp_argmax", 8192, 32768,
        {{8, 1024, 600},
         {8, 512, 524},
         {8, 128, 319},
         {64, 128, 611},
         {32, 128, 499},
         {16, 128, 498},
         {16, 512, 478},
         {32, 256, 445},
         {4, 1024, 523},
         {64, 64, 1010},
         {32, 512, 519}});
}

// Few long rows are shared by CTAs in parts of one length, read once; many have a CTA each, and
// short ones no choice.
TEST_F(RowLoopsTest, SharesOfLongRows) {
  const auto shares = [&](int64_t rows, int64_t columns) {
    const TuneChoice choice = ChooseTunes(
        loaded_, signature_, Of({{"R", rows}, {"C", columns}, {"eps", 1e-5}}), {}, nullptr);
    EXPECT_EQ(choice.why_not, "");
    const auto value = choice.values.find("SHARES");
    const auto best =
        std::find_if(choice.lowered.begin(), choice.lowered.end(),
                     [&](const TunePoint& point) { return point.values == choice.values; });
    return std::pair(value == choice.values.end() ? 1 : std::get<int64_t>(value->second),
                     best == choice.lowered.end() ? 1 : best->split);
  };
  Load("std/norm.tile", "rmsnorm");
  EXPECT_EQ(shares(14, 101560), (std::pair<int64_t, int64_t>(8, 8)));
  EXPECT_EQ(shares(14, 200000), (std::pair<int64_t, int64_t>(8, 8)));  // 25000 columns each
  EXPECT_EQ(shares(14, 300000), (std::pair<int64_t, int64_t>(16, 8)));
  EXPECT_EQ(shares(4096, 16384).first, 1);
  EXPECT_EQ(shares(14, 1000).first, 1);
  Load("std/norm.tile", "layernorm");
  EXPECT_EQ(shares(47, 22568), (std::pair<int64_t, int64_t>(8, 8)));
  EXPECT_EQ(shares(16384, 4096).first, 1);
}

// Rows of less than a tile a CTA are nobody's to share: who asks for it is told which fact that is.
TEST_F(RowLoopsTest, SharesOfShortRowsAreRefused) {
  for (const std::string kernel : {"layernorm", "rmsnorm", "softmax", "softmax_bf16"}) {
    const bool norm = kernel.find("norm") != std::string::npos;
    Load(norm ? "std/norm.tile" : "std/softmax.tile", kernel);
    frontend::Values values = {{"R", int64_t{2}}, {"C", int64_t{8192}}, {"SHARES", int64_t{8}}};
    if (norm) values["eps"] = 1e-5;
    DiagSink diags;
    EXPECT_FALSE(MakeTileIr(loaded_, kernel, Of(values), nullptr, diags).ok()) << kernel;
    ASSERT_FALSE(diags.all().empty()) << kernel;
    const Diagnostic& said = diags.all()[0];
    EXPECT_EQ(said.def->code, std::string("F121"));
    EXPECT_NE(said.message.find("C > SHARES * 1024"), std::string::npos) << said.message;
    EXPECT_NE(said.message.find("SHARES = 8"), std::string::npos) << said.message;
    values["C"] = int64_t{8200};
    DiagSink quiet;
    EXPECT_TRUE(MakeTileIr(loaded_, kernel, Of(values), nullptr, quiet).ok()) << kernel;
  }
}

}  // namespace
}  // namespace tilec::api
