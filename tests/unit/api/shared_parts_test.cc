// Parts of a tile's loop whose neighbours copy for each other, and pairs along the columns: which
// loops may be so divided, and which sizes the model takes them for.
//
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "api/machine.h"
#include "api/schedule_names.h"
#include "api/split.h"
#include "ir/passes/divide_reductions.h"
#include "ir/passes/even_parts.h"
#include "ir/passes/split_reductions.h"
#include "scheduler/form_times.h"
#include "scheduler/split_forms.h"
#include "tests/unit/api/loaded.h"

namespace tilec::api {
namespace {

// Sums of the first `Z` columns of operands of K, or of all of them where the loop says K.
std::string SumsUpTo(const std::string& end) {
  return "kernel gemm(A: bf16[M, K], B: bf16[N, K], Z: i32, C: out f32[M, N]) {\n"
         "  parallel m in tiles(M, 64), n in tiles(N, 64) {\n"
         "    var acc: f32[64, 64] = 0\n"
         "    for k in tiles(" +
         end +
         ", 64) { acc += A[m, k] @ B[n, k].T }\n"
         "    C[m, n] = acc\n"
         "  }\n"
         "}\n";
}

class EvenPartsTest : public LoweringTest {
 protected:
  EvenPartsTest() : LoweringTest("gemm") {}
  bool Even(const std::string& end) {
    LoadText(loaded_, SumsUpTo(end));
    call_ = AlignedCall();
    auto fn = api::MakeTileIr(loaded_, kernel_, call_, nullptr, diags_);
    EXPECT_TRUE(fn.ok()) << RenderAll(diags_, loaded_.sources);
    auto clean = Clean(std::move(*fn), PipelineOptions(), diags_);
    EXPECT_TRUE(clean.ok());
    ir::Function parts;
    EXPECT_FALSE(ir::PartsOfReductions(clean->fn, 3, &parts));
    EXPECT_FALSE(ir::GuardParts(parts));
    return ir::EvenParts(parts);
  }
};

TEST_F(EvenPartsTest, WhatEndsWithItsTensorsHasNothingBehind) { EXPECT_TRUE(Even("K")); }

// Behind a loop's end there may be numbers.
TEST_F(EvenPartsTest, WhatEndsBeforeHas) { EXPECT_FALSE(Even("Z as i64")); }

class SharedPartsTest : public LibraryTest {
 protected:
  std::string Chosen(Call call) {
    (void)ChooseForm(loaded_, signature_, ByModel(), &call);
    return call.schedule;
  }
};

// 206 us, and 257 by clusters of five that share loops and no copies.
TEST_F(SharedPartsTest, PartsOfPairs) {
  Load("std/matmul.tile", "gemm_nn");
  EXPECT_EQ(Chosen(ProductCall(311, 2744, 61720, 160, 256, 64)), "solve:clusters:split=5:apart");
}

// Of one tile's height columns' neighbours share rows: 91.7 us by four of them, 113 by pairs.
TEST_F(SharedPartsTest, FourAlongTheColumns) {
  Load("std/matmul_f16.tile", "gemm_f16");
  EXPECT_EQ(Chosen(ProductCall(126, 8592, 17064, 128, 72, 64)), "solve:clusters=4:along=2");
  // A second launch is not worth it.
  EXPECT_EQ(Chosen(ProductCall(126, 8592, 256, 128, 72, 64)).find("apart"), std::string::npos);
}

// Pairs along the rows share columns' operand, and of 197 rows in 208 there are none.
TEST_F(SharedPartsTest, NeighboursAlongTheColumnsShareRows) {
  Load("std/matmul_types.tile", "gemm_e4m3");
  EXPECT_EQ(Chosen(ProductCall(197, 65216, 144, 208, 128, 128)), "solve:along=2");
  // Who walks along the columns first goes four times through 460 MB.
  Load("std/matmul.tile", "gemm_tn");
  EXPECT_EQ(AlongOf(Chosen(ProductCall(864, 24584, 9320, 224, 160, 64))), 1);
}

// One turn: 1838 us by clusters that come and go, 1257 by CTAs that stay.
TEST_F(SharedPartsTest, NobodySharesOneTurn) {
  Load("std/matmul_fused.tile", "gemm_batched");
  const auto of = [&](int64_t bn) {
    Call call = Of({{"Z", int64_t{66}},
                    {"M", int64_t{34519}},
                    {"N", int64_t{736}},
                    {"K", int64_t{32}},
                    {"BM", int64_t{128}},
                    {"BN", bn},
                    {"BK", int64_t{32}}});
    call.row_starts = RowStartsOf(signature_, call.all);
    return SplitFor(loaded_, signature_, ByModel(), call);
  };
  EXPECT_FALSE(of(256).share_copies);
}

struct Shared {
  std::string text;
  double us = 0, predicted = 0;
};

class RecordedNeighbours : public LibraryTest {
 protected:
  double Predict(const Call& call, const scheduler::SharedCopies& how) {
    DiagSink diags;
    const Result<Machine> machine = MachineOf(PipelineOptions(), diags);
    auto fn = MakeTileIr(loaded_, signature_.kernel, call, nullptr, diags);
    if (!machine.ok() || !fn.ok()) return 0;
    auto clean = Clean(std::move(*fn), PipelineOptions(), diags);
    if (!clean.ok()) return 0;
    const ir::Target& target = **machine;
    scheduler::KeptForms forms(std::move(clean->fn), target, std::move(clean->loops));
    const Bindings names = NamesOf(call);
    const scheduler::ShapeOf none;
    scheduler::FormTimes model(
        target, names, scheduler::AskedByCopies(forms.fn(), target, call.row_starts, names), none);
    std::optional<scheduler::KernelTime> time;
    if (how.ctas == 1 && how.parts == 1) {
      time = model.TimeOf(forms.plain().form, 1, 1, true);
    } else if (how.ctas == 1) {
      time = model.TimeOf(*forms.plain().InParts(how.parts, target), 1, how.parts);
    } else if (scheduler::Neighbours& all = forms.Sharing(how); all.form && how.parts == 1) {
      time = model.TimeOf(*all.form, all.asked, how.ctas, true, 0, how.along > 0);
    } else if (all.form) {
      time = model.TimeOf(all, *forms.plain().InGroups(how.parts, 1, target), scheduler::kAnyTime);
    }
    return time ? 1e3 * time->ms : 0;
  }
  std::map<std::string, std::vector<Shared>> Read() {
    std::map<std::string, std::vector<Shared>> out;
    std::ifstream file(std::string(TILEC_SOURCE_DIR) + "/tests/unit/api/neighbours_h200.txt");
    std::string loaded;
    for (std::string line; std::getline(file, line);) {
      if (line.empty() || line[0] == '#') continue;
      std::istringstream words(line);
      std::string kernel;
      int64_t z = 0, m = 0, n = 0, k = 0, bm = 0, bn = 0, bk = 0;
      scheduler::SharedCopies how;
      Shared point{.text = line};
      words >> kernel >> z >> m >> n >> k >> bm >> bn >> bk >> how.ctas >> how.along >> how.parts >>
          point.us;
      EXPECT_FALSE(words.fail()) << line;
      --how.along;
      if (kernel != loaded)
        Load(kernel == "gemm_e4m3"      ? "std/matmul_types.tile"
             : kernel.ends_with("_f16") ? "std/matmul_f16.tile"
                                        : "std/matmul.tile",
             kernel);
      loaded = kernel;
      Call call = Of({{"M", m}, {"N", n}, {"K", k}, {"BM", bm}, {"BN", bn}, {"BK", bk}});
      call.row_starts = RowStartsOf(signature_, call.all);
      point.predicted = Predict(call, how);
      EXPECT_GT(point.predicted, 0) << line;
      out[kernel + " " + std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k)]
          .push_back(point);
    }
    return out;
  }
};

TEST_F(RecordedNeighbours, TheFirstIsNearTheFastest) {
  double sum = 0;
  const auto recorded = Read();
  for (const auto& [sizes, points] : recorded) {
    const auto taken = std::min_element(
        points.begin(), points.end(),
        [](const Shared& a, const Shared& b) { return a.predicted < b.predicted; });
    const auto best = std::min_element(
        points.begin(), points.end(), [](const Shared& a, const Shared& b) { return a.us < b.us; });
    const double lost = taken->us / best->us - 1;
    std::printf("%s: said %.1f us, %.0f %% lost; the fastest: %s, said %.1f\n", taken->text.c_str(),
                taken->predicted, 100 * lost, best->text.c_str(), best->predicted);
    sum += lost;
  }
  std::printf("%zu sizes, %.1f %% lost on average\n", recorded.size(),
              100 * sum / static_cast<double>(recorded.size()));
  ASSERT_GE(recorded.size(), 12u);
  EXPECT_LE(sum / static_cast<double>(recorded.size()), 0.06);
}

}  // namespace
}  // namespace tilec::api
