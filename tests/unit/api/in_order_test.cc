// One role that does all of a CTA's ops in program order, several CTAs of it on an SM: what names
// ask for it, which sizes the model takes it for, and what the program is.
//
// SPDX-License-Identifier: Apache-2.0
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
#include "api/schedule_names.h"
#include "api/split.h"
#include "ir/count_work.h"
#include "ir/passes/pack_rows.h"
#include "scheduler/form_times.h"
#include "scheduler/loop_periods.h"
#include "scheduler/one_role.h"
#include "scheduler/split_choice.h"
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

TEST(ApartNames, EndASplitOfTheSolver) {
  EXPECT_EQ(SplitOf("solve:split=11:apart"), 11);
  EXPECT_EQ(SplitOf("solve:split=11"), std::nullopt);
  EXPECT_EQ(SplitOf("solve:split=17:apart"), std::nullopt);
  EXPECT_EQ(SplitOf("solve:split=1:apart"), std::nullopt);
  EXPECT_EQ(SplitOf("solve:pack=4:split=3:apart"), 3);
  EXPECT_EQ(PackOf("solve:pack=4:split=3:apart"), 4);
  EXPECT_TRUE(IsApart("solve:pack=2:split=3:apart"));
  EXPECT_FALSE(IsApart("solve:pack=2:split=3"));
  EXPECT_EQ(ApartName(1, 3), "solve:split=3:apart");
  EXPECT_EQ(ApartName(4, 16), "solve:pack=4:split=16:apart");
  DiagSink diags;
  for (const char* name : {"solve:split=3:apart", "solve:pack=2:split=16:apart"})
    EXPECT_TRUE(CheckSchedule(name, diags).ok()) << name;
  for (const char* name : {"solve:apart", "solve:once:apart", "solve:pack=2:apart",
                           "solve:split=24:apart", "sequential:split=2:apart"})
    EXPECT_FALSE(CheckSchedule(name, diags).ok()) << name;
}

TEST(AlongNames, SayWhichNeighboursShare) {
  EXPECT_EQ(AlongOf("solve:clusters:along=2"), 2);
  EXPECT_EQ(AlongOf("solve:along=3"), 3);
  EXPECT_EQ(AlongOf("solve:clusters"), 1);
  EXPECT_EQ(WithoutAlong("solve:clusters:along=2"), "solve:clusters");
  EXPECT_EQ(WithoutAlong("solve:once"), "solve:once");
  EXPECT_EQ(WithAlong("", 2), "solve:along=2");
  EXPECT_EQ(WithAlong("", 1), "");
  EXPECT_TRUE(ChoosesForm("solve:along=2"));
  EXPECT_FALSE(ChoosesForm("solve:clusters:along=2"));
  DiagSink diags;
  EXPECT_TRUE(CheckSchedule("solve:clusters:along=2", diags).ok());
  for (const char* name : {"solve:once:along=2", "solve:clusters:along=4", "sequential:along=2"})
    EXPECT_FALSE(CheckSchedule(name, diags).ok()) << name;
}

TEST(SharedApartNames, AreOfClustersAndParts) {
  EXPECT_EQ(SharedApartName(2, 0, 6), "solve:clusters:split=6:apart");
  EXPECT_EQ(SharedApartName(4, 1, 16), "solve:clusters=4:along=2:split=16:apart");
  EXPECT_EQ(NeighboursOf("solve:clusters=4:along=2"), 4);
  EXPECT_EQ(NeighboursOf("solve:clusters"), 0);
  EXPECT_EQ(AlongOf("solve:clusters=4:along=2"), 2);
  EXPECT_EQ(WithoutAlong("solve:clusters=4:along=2"), "solve:clusters");
  EXPECT_EQ(WithoutAlong("solve:clusters=4"), "solve:clusters");
  EXPECT_EQ(SharedPartsOf("solve:clusters=4:along=2:split=6:apart"), "solve:clusters=4:along=3");
  EXPECT_EQ(SharedPartsOf("solve:clusters:split=6:apart"), "solve:clusters:along=2");
  EXPECT_EQ(SharedPartsOf("solve:clusters:along=2:split=6:apart"), "solve:clusters:along=3");
  DiagSink diags;
  EXPECT_TRUE(CheckSchedule("solve:clusters=4", diags).ok());
  EXPECT_TRUE(CheckSchedule("solve:clusters=4:along=2", diags).ok());
  EXPECT_FALSE(CheckSchedule("solve:clusters=3", diags).ok());
  for (const char* name : {"solve:clusters:split=6:apart", "solve:clusters:along=2:split=2:apart",
                           "solve:clusters=4:split=3:apart"}) {
    EXPECT_TRUE(SharesApart(name)) << name;
    EXPECT_TRUE(IsApart(name)) << name;
    EXPECT_TRUE(CheckSchedule(name, diags).ok()) << name;
  }
  EXPECT_EQ(SplitOf("solve:clusters:along=2:split=7:apart"), 7);
  EXPECT_FALSE(SharesApart("solve:split=6:apart"));
  for (const char* name :
       {"solve:clusters:apart", "solve:clusters:split=6", "solve:clusters:split=17:apart",
        "solve:clusters:along=3:split=2:apart", "solve:clusters:pack=2:split=2:apart"})
    EXPECT_FALSE(CheckSchedule(name, diags).ok()) << name;
}

class InOrderTest : public LibraryTest {
 protected:
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
};

TEST_F(InOrderTest, LongLoopsKeepTheirRings) {
  Load("std/matmul.tile", "gemm");
  const auto in_order = [&](const Call& call) {
    return SplitFor(loaded_, signature_, ByModel(), call).in_order;
  };
  EXPECT_FALSE(in_order(ProductCall(4096, 4096, 4096, 128, 256, 64)));
  EXPECT_FALSE(in_order(ProductCall(16, 4096, 4096, 16, 64, 64)));
  EXPECT_FALSE(in_order(ProductCall(1024, 256, 16384, 128, 256, 64)));
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

// 440 heads of keys on 132 SMs: four rounds of CTAs that stay, one of four side by side.
TEST_F(InOrderTest, ChainsOfOneQueryRunSideBySide) {
  Load("std/attention.tile", "attention");
  Call call = Query(44, 10, 10, 1214, 64, 96);
  const scheduler::SplitChoice choice = ChooseForm(loaded_, signature_, ByModel(), &call);
  EXPECT_TRUE(choice.in_order);
  EXPECT_EQ(call.schedule, "sequential");
  EXPECT_NE(ImageKey(loaded_, "attention", call, ByModel()),
            ImageKey(loaded_, "attention", Query(44, 10, 10, 1214, 64, 96), ByModel()));
}

// 86 tiles on 132 SMs: one CTA each leaves 46 idle, parts that are no cluster fill even rounds.
// 212 us and 180 were measured; 270 packed tiles of 18 x 30/15 192 and 160.
TEST_F(InOrderTest, PartsThatAreNoClusterFillRounds) {
  Load("std/attention.tile", "attention");
  Call call = Query(43, 2, 2, 16091, 128, 128);
  const scheduler::SplitChoice choice = ChooseForm(loaded_, signature_, ByModel(), &call);
  EXPECT_TRUE(choice.apart);
  EXPECT_EQ(call.schedule, "solve:split=3:apart");
  EXPECT_EQ(call.split, 3);
  const auto of = [&](const Call& c) { return SplitFor(loaded_, signature_, ByModel(), c); };
  EXPECT_TRUE(of(Query(18, 30, 15, 8439, 64, 128)).apart);
  // 33.7 us and 34.6 in a cluster, 13.1 and 10: what puts parts together takes that.
  EXPECT_FALSE(of(Query(9, 24, 6, 7252, 64, 128)).apart);
  EXPECT_FALSE(of(Query(33, 8, 1, 655, 128, 64)).apart);
}

// 112x256 of 197x65216x144: 17.2 us in turns of 128, 25.1 of 64, 25.6 of 32.
TEST_F(InOrderTest, RowsAmidSectorsInPiecesTakeLonger) {
  Load("std/matmul_types.tile", "gemm_e4m3");
  const auto ms = [&](int64_t bk) {
    return SplitFor(loaded_, signature_, ByModel(), ProductCall(197, 65216, 144, 112, 256, bk)).ms;
  };
  EXPECT_GT(ms(64), 1.2 * ms(128));
  EXPECT_GT(ms(32), 1.2 * ms(128));
}

// 5.4 us by several roles, 4.1 so.
TEST_F(InOrderTest, TilesOfOneTurnRunSideBySide) {
  Load("std/matmul.tile", "gemm_nn");
  EXPECT_TRUE(
      SplitFor(loaded_, signature_, ByModel(), ProductCall(9, 37560, 24, 16, 256, 32)).in_order);
  // Each has an SM: nothing is beside it.
  EXPECT_FALSE(
      SplitFor(loaded_, signature_, ByModel(), ProductCall(9, 16000, 24, 16, 256, 32)).in_order);
}

// Two CTAs of 256 columns find room on an SM: 85 us where several roles take 54.
TEST_F(InOrderTest, TwoChainsBesideEachOtherAreTooFew) {
  Load("std/attention.tile", "attention");
  EXPECT_FALSE(SplitFor(loaded_, signature_, ByModel(), Query(8, 8, 1, 17992, 256, 80)).in_order);
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

struct Form {
  std::string text, form;
  double us = 0, predicted = 0;
};
using Recorded = std::map<std::string, std::vector<Form>>;  // by kernel and sizes

// The times that were measured once (in_order_h200.txt), and what the model says of those forms.
class RecordedForms : public LibraryTest {
 protected:
  static std::string FileOf(const std::string& kernel) {
    if (kernel == "attention") return "std/attention.tile";
    if (kernel == "gemm_batched") return "std/matmul_fused.tile";
    if (kernel == "gemm_e4m3") return "std/matmul_types.tile";
    return kernel.ends_with("_f16") ? "std/matmul_f16.tile" : "std/matmul.tile";
  }
  // With the doubt that the choice has.
  double Predict(const Call& call, const std::string& form, int64_t pack, int64_t parts,
                 double us) {
    const bool one_role = form == "one", apart = form == "apart";
    DiagSink diags;
    const Result<Machine> machine = MachineOf(PipelineOptions(), diags);
    if (!machine.ok()) return 0;
    if (!one_role && pack == 1 && parts == 1)
      return 1e3 * SplitFor(loaded_, signature_, {}, call).ms;
    auto fn = MakeTileIr(loaded_, signature_.kernel, call, nullptr, diags);
    if (!fn.ok()) return 0;
    auto clean = Clean(std::move(*fn), PipelineOptions(), diags);
    if (!clean.ok()) return 0;
    ir::Function tiles = std::move(clean->fn);
    if (pack > 1 && ir::PackRows(tiles, pack)) return 0;
    if (apart) {
      const double ms =
          scheduler::TimeApart(tiles, **machine, NamesOf(call), call.row_starts, parts);
      if (ms > 0) off_apart_.push_back(std::abs(std::log(1e3 * ms / us)));
      return 1e3 * ms / (1 - (*machine)->model.split_margin);
    }
    if (!one_role)
      return 1e3 * scheduler::TimeInParts(tiles, **machine, NamesOf(call), call.row_starts, parts);
    const ir::WorkCount work = ir::CountWork(tiles, NamesOf(call), **machine, {.edges = false});
    const auto loops = scheduler::BoundPeriods(tiles, **machine);
    if (!loops) return 0;
    const std::optional<double> margin = scheduler::MarginOfOneRole(
        tiles, **machine, work, *loops, scheduler::CtasOfOneRole(tiles, **machine));
    const auto time =
        scheduler::TimeInOrder(tiles, **machine, NamesOf(call), call.row_starts, parts);
    if (!margin || !time) return 0;  // it is left out
    off_.push_back(std::abs(std::log(1e3 * time->ms / us)));
    return 1e3 * time->ms / (1 - *margin);
  }
  Recorded Read() {
    Recorded out;
    std::ifstream file(std::string(TILEC_SOURCE_DIR) + "/tests/unit/api/in_order_h200.txt");
    std::string loaded;
    for (std::string line; std::getline(file, line);) {
      if (line.empty() || line[0] == '#') continue;
      std::istringstream words(line);
      std::string kernel;
      words >> kernel;
      if (kernel != loaded) Load(FileOf(kernel).c_str(), kernel.c_str());
      loaded = kernel;
      const bool attention = kernel == "attention";
      std::vector<std::string> names = {"Z", "M", "N", "K", "BM", "BN", "BK"};
      if (attention) names = {"B", "H", "G", "S", "L", "D", "BQ", "BKV"};
      Given given;
      std::string sizes = kernel;
      for (const std::string& name : names) {
        int64_t value = 0;
        words >> value;
        if (value > 0) given[name] = value;
        if (name[0] != 'B' || name.size() == 1) sizes += " " + std::to_string(value);
      }
      if (attention) given["causal"] = false, given["scale"] = 0.1;
      int64_t pack = 1, parts = 1;
      Form point;
      words >> point.form >> pack >> parts >> point.us;
      EXPECT_FALSE(words.fail()) << line;
      Call call = Of(given);
      call.row_starts = RowStartsOf(signature_, call.all);
      point.text = line;
      point.predicted = Predict(call, point.form, pack, parts, point.us);
      out[sizes].push_back(point);
    }
    return out;
  }
  // Share of all differences within that of the `share`-th, in per cent.
  static double Within(std::vector<double> off, double share) {
    std::sort(off.begin(), off.end());
    return 100 * std::expm1(off[static_cast<size_t>(share * static_cast<double>(off.size()))]);
  }
  std::vector<double> off_, off_apart_;
};

TEST_F(RecordedForms, TheFormIsNearTheFastest) {
  double sum = 0, worst = 0;
  const Recorded recorded = Read();
  for (const auto& [sizes, forms] : recorded) {
    const Form *taken = nullptr, *best = nullptr;
    for (const Form& form : forms) {
      if (form.predicted <= 0) continue;
      if (taken == nullptr || form.predicted < taken->predicted) taken = &form;
      if (best == nullptr || form.us < best->us) best = &form;
    }
    ASSERT_NE(taken, nullptr) << sizes;
    const double lost = taken->us / best->us - 1;
    std::printf("%s: said %.1f us, %.0f %% lost; the fastest: %s, said %.1f\n", taken->text.c_str(),
                taken->predicted, 100 * lost, best->text.c_str(), best->predicted);
    sum += lost;
    worst = std::max(worst, lost);
  }
  std::printf(
      "%zu sizes, %.1f %% lost on average, %.1f %% at the worst; of %zu times in program "
      "order half within %.0f %%, nine of ten within %.0f %%\n",
      recorded.size(), 100 * sum / static_cast<double>(recorded.size()), 100 * worst, off_.size(),
      Within(off_, 0.5), Within(off_, 0.9));
  ASSERT_GE(off_apart_.size(), 30u);
  std::printf("%zu times of parts apart: half within %.0f %%, nine of ten within %.0f %%\n",
              off_apart_.size(), Within(off_apart_, 0.5), Within(off_apart_, 0.9));
  EXPECT_LE(Within(off_apart_, 0.5), 15);
  ASSERT_GE(recorded.size(), 40u);
  // (Tiles of 112, 144 and 176 columns of 16 bits left in boxes of 32 bytes when they were timed.)
  EXPECT_LE(sum / static_cast<double>(recorded.size()), 0.06);
}

}  // namespace
}  // namespace tilec::api
