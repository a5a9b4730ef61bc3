// The model of whole kernels against times of long rows that were measured once (rows_h200.txt):
// how many CTAs share a row, in parts of which length.
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
#include "api/tune.h"
#include "api/tune_facts.h"
#include "backend/cache_hints.h"
#include "ir/count_work.h"
#include "scheduler/copy_lines.h"
#include "scheduler/kernel_time.h"
#include "scheduler/split_choice.h"
#include "tests/unit/api/loaded.h"

namespace tilec::api {
namespace {

using Size = std::tuple<std::string, int64_t, int64_t>;  // kernel, rows, columns

struct Point {
  int64_t shares = 1, ctas = 1;
  double us = 0;
  double bound = 0, lowered = 0;  // predicted before it is lowered and after; 0: it is none now
};

class RowsTest : public LibraryTest {
 protected:
  static std::map<Size, std::vector<Point>> Measured() {
    std::map<Size, std::vector<Point>> out;
    std::ifstream file(std::string(TILEC_SOURCE_DIR) + "/tests/unit/api/rows_h200.txt");
    for (std::string line; std::getline(file, line);) {
      if (line.empty() || line[0] == '#') continue;
      std::istringstream words(line);
      std::string kernel;
      int64_t rows = 0, columns = 0;
      Point point;
      words >> kernel >> rows >> columns >> point.shares >> point.ctas >> point.us;
      EXPECT_FALSE(words.fail()) << line;
      out[{kernel, rows, columns}].push_back(point);
    }
    return out;
  }

  // SHARES as it is chosen: 0.
  Call CallOf(const Size& size, int64_t shares) {
    const auto& [kernel, rows, columns] = size;
    const bool softmax = kernel.rfind("softmax", 0) == 0;
    Load(softmax ? "std/softmax.tile" : "std/norm.tile", kernel);
    Given given = {{"R", rows}, {"C", columns}};
    if (shares > 0) given["SHARES"] = shares;
    if (!softmax) given["eps"] = 1e-5;
    Call call = Of(given);
    const int64_t align = columns % 8 == 0 ? 8 : columns % 2 == 0 ? 2 : 1;
    for (const char* name : {"X", "Y"}) {
      call.facts[name].stride_align_bytes = align * (kernel == "softmax" ? 4 : 2);
      call.facts[name].last_dim_align = align;
    }
    call.row_starts = RowStartsOf(signature_, call.all);
    return call;
  }

  void Predict(const Size& size, Point* point) {
    Call call = CallOf(size, point->shares);
    DiagSink diags;
    const Result<Machine> machine = MachineOf(PipelineOptions(), diags);
    ASSERT_TRUE(machine.ok());
    const ir::Target& target = **machine;
    auto tile = MakeTileIr(loaded_, signature_.kernel, call, nullptr, diags);
    if (!tile.ok()) return;  // odd rows in tiles that are not allowed any more
    auto clean = Clean(*tile, PipelineOptions(), diags);
    ASSERT_TRUE(clean.ok());
    scheduler::Forms forms(std::move(clean->fn), target, std::move(clean->loops));
    const ir::Function* const fn = forms.InParts(point->ctas);
    if (fn == nullptr) return;
    const Bindings names = NamesOf(call);
    const ir::WorkCount work = ir::CountWork(*fn, names, target, {.edges = false});
    const scheduler::Asked copies = scheduler::AskedByCopies(*fn, target, call.row_starts, names);
    const auto periods = scheduler::BoundPeriods(*fn, target);
    ASSERT_TRUE(periods.has_value());
    const auto ms = [&](const scheduler::LaunchShape& shape) {
      return scheduler::EstimateTime(*fn, target, work, *periods, shape).ms;
    };
    scheduler::LaunchShape likely = LikelyShape(*fn, work, target);
    likely.cluster = point->ctas;
    point->bound = 1e3 * ms(likely);
    PipelineOptions options;
    options.split = call.split = point->ctas;
    options.first_schedules = true;
    options.prove = false;
    const auto warps = LowerToWarps(loaded_, *std::move(tile), options.For(call), nullptr, diags);
    ASSERT_TRUE(warps.ok()) << RenderAll(diags, loaded_.sources);
    point->lowered = 1e3 * ms(ShapeOf(*warps, target, names, copies, likely));
  }

  // By one CTA a row.
  ir::Function WarpsOf(const Size& size) {
    const Call call = CallOf(size, 1);
    DiagSink diags;
    auto tile = MakeTileIr(loaded_, signature_.kernel, call, nullptr, diags);
    EXPECT_TRUE(tile.ok());
    PipelineOptions options;
    options.first_schedules = true;
    options.prove = false;
    auto warps = LowerToWarps(loaded_, *std::move(tile), options.For(call), nullptr, diags);
    EXPECT_TRUE(warps.ok()) << RenderAll(diags, loaded_.sources);
    return *std::move(warps);
  }

  // SHARES that are chosen, and the CTAs that share a row.
  std::pair<int64_t, int64_t> Chosen(const Size& size) {
    const TuneChoice choice =
        ChooseTunes(loaded_, signature_, CallOf(size, 0), PipelineOptions(), nullptr);
    EXPECT_EQ(choice.why_not, "");
    const auto shares = [](const frontend::Values& values) {
      const auto at = values.find("SHARES");
      return at == values.end() ? int64_t{1} : std::get<int64_t>(at->second);
    };
    for (const TunePoint& point : choice.lowered)
      if (shares(point.values) == shares(choice.values))
        return {shares(choice.values), point.split};
    return {shares(choice.values), 1};
  }
};

TEST_F(RowsTest, TheFastestIsNearTheFirst) {
  std::vector<double> off;
  double sum = 0, worst = 0, by_bounds = 0;
  auto measured = Measured();
  for (auto& [size, points] : measured) {
    const auto& [kernel, rows, columns] = size;
    const Point *taken = nullptr, *best = nullptr, *bound = nullptr;
    for (Point& point : points) {
      Predict(size, &point);
      if (point.lowered <= 0) continue;
      off.push_back(std::abs(std::log(point.lowered / point.us)));
      if (taken == nullptr || point.lowered < taken->lowered) taken = &point;
      if (bound == nullptr || point.bound < bound->bound) bound = &point;
      if (best == nullptr || point.us < best->us) best = &point;
    }
    ASSERT_NE(taken, nullptr);
    const double lost = taken->us / best->us - 1;
    std::printf("%s: SHARES %d in %d, predicted %.1f us, took %.1f, the fastest %.1f\n",
                fmt::format("{} {}x{}", kernel, rows, columns).c_str(), int(taken->shares),
                int(taken->ctas), taken->lowered, taken->us, best->us);
    sum += lost;
    worst = std::max(worst, lost);
    by_bounds += bound->us / best->us - 1;
  }
  std::sort(off.begin(), off.end());
  const auto of = [&](double share) {
    return std::expm1(off[static_cast<size_t>(share * static_cast<double>(off.size()))]);
  };
  const auto sizes = static_cast<double>(measured.size());
  std::printf(
      "%zu sizes: %.1f %% lost on average (%.1f by bounds), %.1f at the worst; half of %zu "
      "times within %.0f %%, nine of ten within %.0f %%\n",
      measured.size(), 100 * sum / sizes, 100 * by_bounds / sizes, 100 * worst, off.size(),
      100 * of(0.5), 100 * of(0.9));
  ASSERT_GE(measured.size(), 110u);
  EXPECT_LE(sum / sizes, 0.035);
  EXPECT_LE(by_bounds / sizes, 0.045);
  EXPECT_LE(worst, 0.3);
  EXPECT_LE(of(0.5), 0.18);
  EXPECT_LE(of(0.9), 0.6);
}

// What is chosen in the end: forms that were not measured count as nothing lost.
TEST_F(RowsTest, TheChoiceIsNearTheFastest) {
  double sum = 0, worst = 0;
  int sizes = 0;
  for (const auto& [size, points] : Measured()) {
    const auto [shares, ctas] = Chosen(size);
    const auto of = std::find_if(points.begin(), points.end(), [&](const Point& p) {
      return p.shares == shares && p.ctas == ctas;
    });
    const auto best = std::min_element(points.begin(), points.end(),
                                       [](const Point& a, const Point& b) { return a.us < b.us; });
    if (of == points.end()) continue;
    const double lost = of->us / best->us - 1;
    const auto& [kernel, rows, columns] = size;
    std::printf("%s: SHARES %d in %d, %.1f us, lost %.0f %% (SHARES %d in %d)\n",
                fmt::format("{} {}x{}", kernel, rows, columns).c_str(), int(shares), int(ctas),
                of->us, 100 * lost, int(best->shares), int(best->ctas));
    sum += lost;
    worst = std::max(worst, lost);
    ++sizes;
  }
  std::printf("%d sizes: %.1f %% lost on average, %.1f at the worst\n", sizes, 100 * sum / sizes,
              100 * worst);
  ASSERT_GE(sizes, 95);
  EXPECT_LE(sum / sizes, 0.025);
  EXPECT_LE(worst, 0.32);  // softmax 409x184112: bounds know nothing of eight CTAs side by side
}

// Rows of 16 bits at odd places that are one tile have half as many threads as their elements ask
// for, and rows that slide without weights.
TEST_F(RowsTest, OddRowsHaveFewerThreads) {
  const auto threads = [&](const Size& size) { return 32 * WarpsOf(size).launch.warps; };
  EXPECT_EQ(threads({"layernorm", 12582, 3653}), 128);  // 67.1 us by 256, 56.3 by 128
  EXPECT_EQ(threads({"layernorm", 12582, 3656}), 256);
  EXPECT_EQ(threads({"layernorm", 4000, 28001}), 256);  // 252, 202
  EXPECT_EQ(threads({"softmax", 2836, 3009}), 256);     // of f32: 18.0, by 128 19.3
  EXPECT_EQ(threads({"rmsnorm", 4431, 81607}), 512);    // in turns: 567, by 256 672
}

// Where rows are read again, what is read for the last time and what is written pass by.
TEST_F(RowsTest, WhatIsReadForTheLastTimePassesBy) {
  const auto passing = [&](const Size& size) {
    const ir::Function warps = WarpsOf(size);
    std::pair<int, int> loads_stores = {0, 0};
    for (ir::OpId id : ir::OpsInOrder(warps)) {
      const ir::Op& op = warps.ops[id];
      if (op.kind != ir::OpKind::kGLoad && op.kind != ir::OpKind::kGStore) continue;
      const bool passes = backend::PassesBy(warps, op);
      (op.kind == ir::OpKind::kGLoad ? loads_stores.first : loads_stores.second) += passes;
    }
    return loads_stores;
  };
  EXPECT_EQ(passing({"softmax_bf16", 4096, 65536}), std::pair(1, 1));
  EXPECT_EQ(passing({"rmsnorm", 4431, 81607}), std::pair(1, 1));    // not the weights
  EXPECT_EQ(passing({"layernorm", 2761, 66455}), std::pair(1, 1));  // of three loops the last
  EXPECT_EQ(passing({"softmax_bf16", 4096, 8192}), std::pair(0, 0));
  EXPECT_EQ(passing({"rmsnorm", 4096, 8192}), std::pair(0, 0));
}

// Of the forms that columns choose: long rows of layernorm are read twice; whole rows in long tiles
// are read again, not kept (65.7 us, kept 81.0); softmax of bf16 has few turns, or full ones.
TEST_F(RowsTest, LoopsByColumns) {
  const auto loops = [&](const Size& size) {
    std::vector<int64_t> steps;
    const ir::Function warps = WarpsOf(size);
    for (ir::OpId id : ir::OpsInOrder(warps))
      if (warps.ops[id].kind == ir::OpKind::kFor) steps.push_back(warps.ops[id].i("step"));
    return steps;
  };
  using Steps = std::vector<int64_t>;
  EXPECT_EQ(loops({"layernorm", 2761, 66455}), Steps(2, 8192));
  EXPECT_EQ(loops({"layernorm", 1000, 49152}), Steps(3, 16384));
  EXPECT_EQ(loops({"layernorm", 707, 45951}), Steps());  // kept by threads: 68.5, read again 115
  EXPECT_EQ(loops({"rmsnorm", 3301, 35960}), Steps(2, 16384));       // 131, kept 143
  EXPECT_EQ(loops({"softmax_bf16", 1000, 49032}), Steps(2, 16384));  // 56.0, kept 87.9
  EXPECT_EQ(loops({"softmax_bf16", 4822, 26545}), Steps(2, 16384));  // 174, in 12288 196
  EXPECT_EQ(loops({"softmax_bf16", 3830, 51933}), Steps(2, 12288));
}

// What a CTA of a cluster reduces in its loops is its own, what is kept in shared memory leaves
// registers for more CTAs, and clusters of rows begin sooner than those of products.
TEST_F(RowsTest, RowsThatOneCtaHadAreShared) {
  using Form = std::pair<int64_t, int64_t>;
  EXPECT_EQ(Chosen({"rmsnorm", 20, 12000}), Form(8, 8));        // 2.2, 2.9
  EXPECT_GT(Chosen({"layernorm", 64, 33000}).second, 1);        // 8.8, 13.2
  EXPECT_EQ(Chosen({"softmax_bf16", 210, 62080}), Form(1, 1));  // 17.7, (16, 2) 25.1
  EXPECT_EQ(Chosen({"rmsnorm", 4096, 16384}), Form(1, 1));      // 67.8, in two 78
  EXPECT_EQ(Chosen({"layernorm", 300, 20001}), Form(1, 1));     // 16.1, in eight 18.5
  // Parts of eight or sixteen that one CTA walks over are slower than the row's own tiles.
  EXPECT_EQ(Chosen({"softmax_bf16", 427, 20613}), Form(1, 1));  // 21.6, (8, 1) 30.0
  EXPECT_EQ(Chosen({"rmsnorm", 719, 11280}), Form(1, 1));       // 11.2, (8, 1) 14.6
  EXPECT_EQ(Chosen({"rmsnorm", 25587, 12511}), Form(1, 1));     // 457, (8, 1) 516
  // Where the row's own tiles slide, too: shorter turns, of one CTA or of few, take longer.
  EXPECT_EQ(Chosen({"softmax_bf16", 7634, 33033}), Form(1, 1));   // 367, (16, 1) 1582, a copy 239
  EXPECT_EQ(Chosen({"softmax_bf16", 3319, 37137}), Form(1, 1));   // 214, (8, 8) 279
  EXPECT_EQ(Chosen({"softmax_bf16", 3830, 51933}), Form(1, 1));   // 316, (16, 2) 459
  EXPECT_EQ(Chosen({"softmax_bf16", 10493, 21341}), Form(1, 1));  // 345, (16, 1) 571, (8, 8) 423
  EXPECT_EQ(Chosen({"rmsnorm", 194, 61067}).first, 1);            // 28.5, (16, 2) 36.3
  // Rows of which two CTAs read again what the L2 still has, though there are rows for all SMs.
  EXPECT_GT(Chosen({"layernorm", 807, 192277}).second, 1);   // 400 in two, alone 432
  EXPECT_EQ(Chosen({"rmsnorm", 1057, 109869}), Form(1, 2));  // 202, alone 242
  EXPECT_EQ(Chosen({"rmsnorm", 7532, 55337}), Form(1, 1));   // 654, in two 750
  // In two walks, back on the second, one CTA is as fast as two, or faster.
  EXPECT_EQ(Chosen({"layernorm", 2010, 128607}), Form(1, 1));  // 600, in two 601
  EXPECT_EQ(Chosen({"layernorm", 1297, 120743}), Form(1, 1));  // 364, 423
  EXPECT_EQ(Chosen({"layernorm", 692, 84712}), Form(1, 1));    // 94.5; in three walks 110, 144
  // Nobody waits in a turn of softmax.
  EXPECT_EQ(Chosen({"softmax_bf16", 313, 24309}), Form(1, 1));  // 14.7, (8, 8) 16.4
  EXPECT_EQ(Chosen({"softmax", 200, 60001}), Form(1, 2));       // 36.6, alone 39.7
  // Eighths by four CTAs, of which each has two; sixteenths 29.3, as one tile 17.5 (512 threads).
  EXPECT_EQ(Chosen({"layernorm", 140, 28733}), Form(8, 4));  // 14.1
}

}  // namespace
}  // namespace tilec::api
