// --tune=model: what it chooses for which sizes, and that it chooses the same again.
//
// SPDX-License-Identifier: Apache-2.0
#include "api/tune.h"

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "api/ahead.h"
#include "api/split.h"
#include "tests/unit/api/loaded.h"
#include "tests/unit/temp_folder.h"

namespace tilec::api {
namespace {

class TuneTest : public LibraryTest {
 protected:
  Call Gemm(int64_t m, int64_t n, int64_t k) { return Of({{"M", m}, {"N", n}, {"K", k}}); }

  TuneChoice Choose(const Call& call, scheduler::SolutionStore* store = nullptr,
                    const char* schedule = "solve") {
    PipelineOptions options;
    options.schedule = schedule;
    return ChooseTunes(loaded_, signature_, call, options, store);
  }

  static const TunePoint* Default(const TuneChoice& choice) {
    for (const TunePoint& p : choice.lowered)
      if (p.is_default) return &p;
    return nullptr;
  }
};

TEST_F(TuneTest, ALargeProductKeepsItsTiles) {
  Load("std/matmul.tile", "gemm");
  const TuneChoice choice = Choose(Gemm(8192, 8192, 8192));
  EXPECT_EQ(choice.why_not, "");
  EXPECT_TRUE(choice.values.empty());
  const TunePoint* standard = Default(choice);
  ASSERT_NE(standard, nullptr);
  // 64 x 32 tiles on 132 SMs that stay; for each a loop of 128 turns of at least 1024 cycles.
  EXPECT_EQ(standard->time.ctas, 132);
  EXPECT_EQ(standard->time.waves, 1);
  EXPECT_GT(standard->time.cycles_per_cta, 16 * 128 * 1024);
  EXPECT_GT(standard->time.loop_share, 0.9);
  EXPECT_GT(choice.rated, 100u);
}

TEST_F(TuneTest, AFewRowsGetTilesThatFillTheMachine) {
  Load("std/matmul.tile", "gemm");
  const TuneChoice choice = Choose(Gemm(16, 14336, 4096));
  const TunePoint* standard = Default(choice);
  ASSERT_NE(standard, nullptr);
  ASSERT_FALSE(choice.values.empty());
  const TunePoint& best = choice.lowered.front();
  EXPECT_LT(best.time.ms, 0.97 * standard->time.ms);
  EXPECT_EQ(standard->time.ctas, 112);  // 56 tiles, two CTAs for each
  EXPECT_GT(best.time.ctas, 100);
  EXPECT_GE(best.time.memory_ms, best.time.compute_ms);  // as it should be for 16 rows
  EXPECT_LE(std::get<int64_t>(choice.values.at("BM")), 64);
}

// What is lowered ahead of its turn is what its turn finds, and no more is looked at for it.
TEST_F(TuneTest, ThreadsChooseWhatOneWould) {
  const auto choose = [&](const Call& call, int threads) {
    PipelineOptions options;
    options.choosing_threads = threads;
    return ChooseTunes(loaded_, signature_, call, options, nullptr);
  };
  const auto same = [&](const Call& call) {
    const TuneChoice one = choose(call, 1), four = choose(call, 4);
    EXPECT_GT(one.lowered.size(), 1u);
    EXPECT_EQ(one.values, four.values);
    EXPECT_EQ(one.rated, four.rated);
    ASSERT_EQ(one.lowered.size(), four.lowered.size());
    for (size_t i = 0; i < one.lowered.size(); ++i) {
      EXPECT_EQ(one.lowered[i].values, four.lowered[i].values);
      EXPECT_EQ(one.lowered[i].time.ms, four.lowered[i].time.ms);
    }
  };
  Load("std/matmul.tile", "gemm");
  same(Gemm(992, 784, 8128));
  Load("std/attention.tile", "attention");
  same(Of({{"B", 2}, {"H", 8}, {"G", 2}, {"S", 1}, {"L", 3000}, {"D", 128}}));
}

TEST(Ahead, ThreadsTakeItemsInTheirOrderUntilTheAskerIsDone) {
  std::atomic<size_t> done{0};
  {
    Ahead none(1, 0, 100, [&](size_t) { ++done; });
  }
  EXPECT_EQ(done, 0u) << "nobody but the asker";
  std::mutex mutex;
  std::set<size_t> items;
  {
    Ahead three(4, 2, 50, [&](size_t i) {
      const std::lock_guard<std::mutex> lock(mutex);
      items.insert(i);
      ++done;
    });
    while (done < 10) std::this_thread::yield();
  }
  EXPECT_EQ(items.size(), done);
  EXPECT_EQ(*items.begin(), 2u);
  EXPECT_EQ(*items.rbegin(), 1 + items.size());
}

// An assembler that does this with the first `n` programs, and takes the others.
constexpr const char* kSpills =
    "echo '48 bytes stack frame, 44 bytes spill stores, 52 bytes spill loads'";
constexpr const char* kRefuses = "rm \"$out\"; echo 'ptxas error   : Too many registers'; exit 255";
std::string DoesWithFirst(TempFolder& folder, const char* what, int n) {
  folder.Write("ptxas", fmt::format(R"(#!/bin/sh
cd {}
n=$(($(cat count 2>/dev/null || echo 0) + 1))
echo $n >count
while [ $# -gt 0 ]; do
  if [ "$1" = -o ]; then out=$2; echo code >"$2"; fi
  shift
done
if [ $n -le {} ]; then {}; fi
)",
                                    folder.path(), n, what));
  std::filesystem::permissions(folder.path() + "ptxas", std::filesystem::perms::owner_all);
  return folder.path() + "ptxas";
}
TEST_F(TuneTest, WhatPtxasSpillsIsPassedOver) {
  Load("std/matmul.tile", "gemm");
  const Call call = Gemm(16, 14336, 4096);
  const frontend::Values first = Choose(call).values;
  ASSERT_FALSE(first.empty());
  const auto with = [&](int spilling) {
    TempFolder folder;
    PipelineOptions options;
    options.ptxas = DoesWithFirst(folder, kSpills, spilling);
    const frontend::Values values = ChooseTunes(loaded_, signature_, call, options, nullptr).values;
    int asked = 0;
    std::ifstream(folder.path() + "count") >> asked;
    EXPECT_EQ(asked, values.empty() ? asked : spilling + 1);
    EXPECT_GT(asked, 0);
    return values;
  };
  EXPECT_EQ(with(0), first);
  const frontend::Values second = with(1);
  EXPECT_FALSE(second.empty());
  EXPECT_NE(second, first);
  // Those that were asked, and the default: one that is smaller.
  const frontend::Values smaller = with(5);
  ASSERT_FALSE(smaller.empty());
  int less = 0, more = 0;
  for (const auto& [name, value] : Default(Choose(call))->values) {
    less += std::get<int64_t>(smaller.at(name)) < std::get<int64_t>(value);
    more += std::get<int64_t>(smaller.at(name)) > std::get<int64_t>(value);
  }
  EXPECT_EQ(less, 1);
  EXPECT_EQ(more, 0);
  EXPECT_TRUE(with(1000).empty());  // all spill: the defaults stand, and C734 says it
}

// What ptxas refuses to assemble is passed over as what spills is: the next points of the order are
// lowered in its place, and the best of those is asked about.
TEST_F(TuneTest, PointsAfterARefusalAreLookedAt) {
  Load("std/matmul.tile", "gemm");
  const Call call = Gemm(16, 14336, 4096);
  const TuneChoice first = Choose(call);
  ASSERT_FALSE(first.values.empty());
  const auto with = [&](int refused) {
    TempFolder folder;
    PipelineOptions options;
    options.ptxas = DoesWithFirst(folder, kRefuses, refused);
    return ChooseTunes(loaded_, signature_, call, options, nullptr);
  };
  // (Behind the first there is none that may be better than the second.)
  const TuneChoice one = with(1), three = with(3);
  EXPECT_FALSE(one.values.empty());
  EXPECT_NE(one.values, first.values);
  EXPECT_NE(three.values, first.values);
  EXPECT_NE(three.values, one.values);
  EXPECT_GT(three.lowered.size(), first.lowered.size()) << "nothing else was looked at";
}

TEST_F(TuneTest, ABarelyFilledSecondWaveIsAvoided) {
  Load("std/matmul.tile", "gemm");
  // 133 tiles of the default, each one CTA's: twice the time of 132.
  const Call second = Gemm(128, 133 * 256, 4096);
  const TuneChoice one = Choose(Gemm(128, 132 * 256, 4096)),
                   two = Choose(second, nullptr, "solve:split=1");
  ASSERT_NE(Default(one), nullptr);
  ASSERT_NE(Default(two), nullptr);
  EXPECT_EQ(Default(one)->split, 1);
  // The second turn is for one tile, while the clock is higher: 1 / 0.79 is what it falls by.
  const double ratio = Default(two)->time.compute_ms / Default(one)->time.compute_ms;
  EXPECT_GT(ratio, 1 + 0.79 - 0.05);
  EXPECT_LT(ratio, 2);
  EXPECT_FALSE(two.values.empty());
  // Pairs of CTAs have half of it each, in three rounds; other tiles need no second wave at all.
  const TuneChoice shared = Choose(second);
  ASSERT_NE(Default(shared), nullptr);
  EXPECT_EQ(Default(shared)->split, 2);
  EXPECT_LT(Default(shared)->time.ms, 0.95 * Default(two)->time.ms);
  EXPECT_FALSE(shared.values.empty());
  EXPECT_LT(shared.lowered.front().time.ms, 1.1 * Default(one)->time.ms);
}

TEST_F(TuneTest, GivenTunesStayAndOthersFollow) {
  Load("std/matmul.tile", "gemm");
  const TuneChoice choice = Choose(
      Of({{"M", int64_t{16}}, {"N", int64_t{14336}}, {"K", int64_t{4096}}, {"BN", int64_t{64}}}));
  EXPECT_EQ(choice.values.count("BN"), 0u);
  EXPECT_EQ(choice.values.count("BM"), 1u);
  const TuneChoice none = Choose(Of({{"M", int64_t{16}},
                                     {"N", int64_t{14336}},
                                     {"K", int64_t{64}},
                                     {"BM", int64_t{64}},
                                     {"BN", int64_t{64}},
                                     {"BK", int64_t{64}}}));
  EXPECT_TRUE(none.values.empty());
  EXPECT_EQ(none.rated, 1u);  // the point itself
}

TEST_F(TuneTest, WithoutSizesThereIsNothingToChooseBy) {
  Load("std/matmul.tile", "gemm");
  Call call = Of({{"M", int64_t{16}}, {"N", int64_t{128}}});
  EXPECT_EQ(Choose(call).why_not, "dim `K` has no value");
  PipelineOptions options;
  options.tune = "model";
  DiagSink diags;
  EXPECT_TRUE(TunesFor(loaded_, signature_, call, options, {}, diags).empty());
  ASSERT_EQ(diags.all().size(), 1u);
  EXPECT_STREQ(diags.all()[0].def->code, "R586");
}

// Copies that take twice as much of the L2 are shared by pairs of CTAs, unless told otherwise.
TEST_F(TuneTest, WhereRowsCutSectorsCopiesAreShared) {
  Load("std/matmul.tile", "gemm");
  Call call = Gemm(2048, 4096, 4104);
  const auto cluster = [&](bool cuts, const char* schedule) {
    if (cuts) call.row_starts = {{"A", 16}, {"B", 16}};
    if (!cuts) call.row_starts.clear();
    PipelineOptions options;
    options.schedule = schedule;
    ChooseForm(loaded_, signature_, options, &call);
    options = options.For(call);
    DiagSink diags;
    auto tile = MakeTileIr(loaded_, "gemm", call, nullptr, diags);
    EXPECT_TRUE(tile.ok());
    const auto warps = LowerToWarps(loaded_, std::move(*tile), options, nullptr, diags);
    EXPECT_TRUE(warps.ok());
    return warps.ok() ? warps->launch.cluster : 0;
  };
  EXPECT_EQ(cluster(false, "solve"), 1);
  EXPECT_EQ(cluster(true, "solve"), 2);
  EXPECT_EQ(cluster(true, "solve:once"), 1);
}

// Of 2208x13984x120 clusters that come and go took 49 us on an H200, CTAs that stay and share
// nothing 31 to 34, clusters that stay 29: thin products share, too.
TEST_F(TuneTest, ThinProductsWhoseRowsCutLinesShareCopies) {
  Load("std/matmul.tile", "gemm");
  for (const int64_t k : {120, 1528}) {
    Call call = Gemm(2208, 13984, k);
    call.row_starts = {{"A", 16}, {"B", 16}};
    EXPECT_TRUE(SplitFor(loaded_, signature_, {}, call).share_copies) << k;
    call.row_starts = {};
    EXPECT_FALSE(SplitFor(loaded_, signature_, {}, call).share_copies) << k;
  }
}

// Measured on an H200 (docs/perf_log.md, "late evening"): what is chosen is the faster one.
TEST_F(TuneTest, AttentionOfFewTilesOrTurns) {
  Load("std/attention.tile", "attention");
  struct Row {
    int64_t b, h, g, s, l, d;
    bool causal;
    int64_t rows, split;  // of the tile; CTAs for each
  };
  for (const Row& r :
       {Row{16, 16, 16, 512, 512, 64, true, 128, 1},      // 43.2 us, in 192 rows 49.1
        Row{8, 12, 12, 1024, 1024, 64, true, 128, 1},     // 49.7, 54.6
        Row{25, 2, 1, 1, 7778, 256, false, 16, 4},        // 60.2, in eight CTAs 69.0
        Row{1, 64, 8, 2048, 2048, 128, true, 128, 1},     // as its author wrote it
        Row{2, 64, 64, 4096, 4096, 64, true, 192, 1}}) {  // likewise, and CTAs come and go
    Call call = Of({{"B", r.b},
                    {"H", r.h},
                    {"G", r.g},
                    {"S", r.s},
                    {"L", r.l},
                    {"D", r.d},
                    {"scale", 0.125},
                    {"causal", r.causal}});
    const TuneChoice choice = Choose(call);
    for (const auto& [name, value] : choice.values) call.statics[name] = call.all[name] = value;
    const auto rows = choice.values.find("BQ");
    EXPECT_EQ(
        rows == choice.values.end() ? (r.d == 64 ? 192 : 128) : std::get<int64_t>(rows->second),
        r.rows)
        << r.s;
    EXPECT_EQ(SplitFor(loaded_, signature_, {}, call).ctas, r.split) << r.s;
  }
}

// 134 million elements: the default reads a row twice (10 bytes an element, and writes 4), from its
// end the second time, and a twelfth of that from the L2; tiles whose rows are kept move 9 bytes.
TEST_F(TuneTest, RowsThatAreReadAgainGetTilesThatKeepThem) {
  Load(std::string(TILEC_SOURCE_DIR) + "/tests/exec/masked_softmax.tile", "masked_softmax");
  const TuneChoice choice = Choose(Of({{"R", int64_t{16384}}, {"C", int64_t{8192}}}));
  const TunePoint* standard = Default(choice);
  ASSERT_NE(standard, nullptr);
  ASSERT_EQ(choice.values.count("BC"), 1u);
  const double gb = 16384.0 * 8192 * 1e-9, rate = 0.9 * 4800 * 1e-3;  // of which copies reach 0.9
  EXPECT_NEAR(standard->time.memory_ms, 13.6 * gb / rate, 0.02 * 14 * gb / rate);
  EXPECT_NEAR(choice.lowered.front().time.memory_ms, 9 * gb / rate, 0.02 * 9 * gb / rate);
  EXPECT_GE(choice.lowered.front().time.per_sm, 4);
}

class MapStore : public scheduler::SolutionStore {
 public:
  std::optional<std::string> Get(const std::string& key) override {
    const auto at = texts.find(key);
    return at == texts.end() ? std::nullopt : std::optional<std::string>(at->second);
  }
  void Put(const std::string& key, const std::string&, const std::string& text) override {
    texts[key] = text;
  }
  std::map<std::string, std::string> texts;
};

TEST_F(TuneTest, TheSameAgainAndFromTheStore) {
  Load("std/matmul.tile", "gemm");
  const Call call = Gemm(2304, 4352, 4096);
  MapStore store;
  const TuneChoice first = Choose(call, &store), again = Choose(call), kept = Choose(call, &store);
  ASSERT_EQ(store.texts.size(), 1u);
  EXPECT_EQ(first.values, again.values);
  EXPECT_EQ(first.rated, again.rated);
  EXPECT_EQ(first.values, kept.values);
  EXPECT_EQ(kept.rated, 0u);
  (void)Choose(Gemm(2304, 4352, 8192), &store);  // other sizes, another choice
  EXPECT_EQ(store.texts.size(), 2u);
  for (auto& [key, text] : store.texts) text = "BM";  // damaged: the defaults
  EXPECT_TRUE(Choose(call, &store).values.empty());
}

}  // namespace
}  // namespace tilec::api
