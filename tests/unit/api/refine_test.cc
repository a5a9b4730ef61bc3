// --ptxas=refine with an assembler of our own, that says what a test wants: rounds go on until it
// is content, and what they end with is pinned.
//
// SPDX-License-Identifier: Apache-2.0
#include "api/refine.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "api/spills.h"
#include "tests/unit/api/loaded.h"
#include "tests/unit/temp_folder.h"

namespace tilec {
namespace {

// Chained products that leave little room: fewer registers are another schedule.
constexpr const char* kChain = R"(
kernel chain(A: bf16[M, 128], B: bf16[K, 128], C: out f32[M, 128]) {
  parallel m in tiles(M, 128) {
    let a = A[m, :]
    var acc: f32[128, 128] = 0
    for k in tiles(K, 96) {
      acc += (exp2(a @ B[k, :].T) as bf16) @ B[k, :]
    }
    C[m, :] = acc
  }
}
)";

// Two launches where CTAs share a tile's iterations.
constexpr const char* kProduct = R"(
kernel product(A: bf16[M, K], B: bf16[N, K], C: out f32[M, N]) {
  parallel m in tiles(M, 64), n in tiles(N, 64) {
    var sum: f32[64, 64] = 0
    for k in tiles(K, 64) {
      sum += A[m, k] @ B[n, k].T
    }
    C[m, n] = sum
  }
}
)";

constexpr const char* kClean =
    "ptxas info    : Used 168 registers, used 2 barriers\n"
    "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n";
constexpr const char* kSpills =
    "    48 bytes stack frame, 44 bytes spill stores, 52 bytes spill loads\n";
constexpr const char* kSerialized =
    "ptxas info    : (C7514) Potential Performance Loss: wgmma.mma_async instructions are "
    "serialized due to non wgmma instructions defining accumulator registers\n";
constexpr const char* kOneMoreWait =
    "ptxas info    : (C7517) Potential Performance Loss: warpgroup.wait is injected\n";

class RefineTest : public ::testing::Test {
 protected:
  // An assembler that gives these answers one after the other, and the last again and again.
  void Answers(const std::vector<std::string>& answers) {
    for (size_t i = 0; i < answers.size(); ++i)
      folder_.Write(fmt::format("answer.{}", i + 1), answers[i]);
    folder_.Write("answer.last", answers.back());
    folder_.Write("ptxas", fmt::format(R"(#!/bin/sh
cd {}
n=$(($(cat count 2>/dev/null || echo 0) + 1))
echo $n >count
while [ $# -gt 0 ]; do
  if [ "$1" = -o ]; then echo code >"$2"; fi
  shift
done
cat answer.$n 2>/dev/null || cat answer.last
)",
                                       folder_.path()));
    std::filesystem::permissions(folder_.path() + "ptxas", std::filesystem::perms::owner_all);
  }
  int Asked() {
    int n = 0;
    std::ifstream(folder_.path() + "count") >> n;
    return n;
  }

  api::Refined Refined() {
    api::Loaded loaded;
    LoadText(loaded, kChain);
    Result<api::Refined> refined =
        api::Refine(loaded, "chain", AlignedCall(), {}, {folder_.path() + "ptxas"}, diags_);
    EXPECT_TRUE(refined.ok()) << RenderAll(diags_, loaded.sources);
    return refined.ok() ? std::move(*refined) : api::Refined{};
  }

  // The PTX of the pinned file, without any ptxas.
  std::string Pinned(const std::string& schedule) {
    api::Loaded loaded;
    LoadText(loaded, kChain);
    loaded.schedule_file = loaded.sources.Add("chain.sched", schedule);
    DiagSink diags;
    const auto image = api::CompileCall(loaded, "chain", AlignedCall(), {}, {}, diags);
    EXPECT_TRUE(image.ok()) << RenderAll(diags, loaded.sources);
    return image.ok() ? image->ptx : "";
  }

  TempFolder folder_;
  DiagSink diags_;
};

TEST_F(RefineTest, ContentAtOnce) {
  Answers({std::string(kClean) + kOneMoreWait});
  const api::Refined refined = Refined();
  EXPECT_EQ(Asked(), 1);
  EXPECT_EQ(refined.rounds.size(), 1u);
  EXPECT_TRUE(Pinned(refined.schedule) == refined.image.ptx);
  EXPECT_TRUE(diags_.all().empty());
}

// … at the kernel's name.
TEST_F(RefineTest, SerializedProductsAreSaidOfTheKernel) {
  api::Loaded loaded;
  LoadText(loaded, kChain);
  backend::PtxasReport report;
  backend::ParsePtxasLog(kSerialized, &report);
  DiagSink diags;
  api::SaySpills(loaded, "chain", ir::RolePressure{"compute", 120, 168}, report, diags);
  ASSERT_EQ(diags.all().size(), 1u);
  const Span at = diags.all()[0].span;
  const LineCol place = loaded.sources.Locate(at.file, at.begin);
  EXPECT_EQ(place.line, 2);
  EXPECT_EQ(place.column, 8);
}

// What is said of machine code, without solving again.
TEST_F(RefineTest, SerializedProductsAreSaid) {
  api::Loaded loaded;
  LoadText(loaded, kChain);
  const auto said = [&](const std::string& log) {
    backend::PtxasReport report;
    backend::ParsePtxasLog(log, &report);
    DiagSink diags;
    api::SaySpills(loaded, "chain", ir::RolePressure{"compute", 120, 168}, report, diags);
    std::string text;
    for (const Diagnostic& d : diags.all())
      text += std::string(d.def->code) + " " + d.message + ";";
    return text;
  };
  EXPECT_EQ(said(kClean), "");
  EXPECT_EQ(said(kOneMoreWait), "");
  const std::string one_by_one =
      "C739 ptxas awaits the products of `chain` one by one (C7514, due to non wgmma instructions "
      "defining accumulator registers), so nothing of its schedule runs beside them;";
  EXPECT_EQ(said(kSerialized), one_by_one);
  EXPECT_EQ(said(std::string(kSerialized) + kSpills),
            "C734 ptxas spills 96 bytes of `chain`: role `compute` keeps 120 registers of tiles "
            "alive, its threads have 168;" +
                one_by_one);
}

TEST_F(RefineTest, SpillsLeaveTheSolverFewerRegisters) {
  Answers({kClean});
  const std::string first = Refined().image.ptx;
  std::filesystem::remove(folder_.path() + "count");
  Answers({kSpills, kClean});
  const api::Refined refined = Refined();
  EXPECT_EQ(Asked(), 2);
  EXPECT_TRUE(refined.image.ptx != first);
  EXPECT_NE(refined.schedule.find("assume ptxas spills 96 bytes: "), std::string::npos)
      << refined.schedule;
  EXPECT_NE(refined.schedule.find(" registers of a thread withheld\n"), std::string::npos);
  EXPECT_TRUE(Pinned(refined.schedule) == refined.image.ptx);
  EXPECT_EQ(refined.report.spill_store_bytes, 0);
}

TEST_F(RefineTest, SerializedProductsGetAnotherSchedule) {
  Answers({std::string(kSerialized), kClean});
  const api::Refined refined = Refined();
  EXPECT_EQ(Asked(), 2);
  EXPECT_NE(refined.schedule.find("assume ptxas serializes the products: "), std::string::npos)
      << refined.schedule;
  EXPECT_TRUE(Pinned(refined.schedule) == refined.image.ptx);
  EXPECT_TRUE(refined.report.pipeline.empty());
}

// What is said of a launch is of its own program: of two, the parts have roles and their sum none.
TEST_F(RefineTest, SpillsAreSaidOfTheLaunchThatHasThem) {
  api::Loaded loaded;
  LoadText(loaded, kProduct);
  api::Call call = AlignedCall();
  call.split = 16;
  backend::PtxasReport report;
  backend::ParsePtxasLog(kSpills, &report);
  const char* const roles[] = {"role `compute`", "role `main`"};
  const char* const titles[] = {"launch 1 of 2: ", "launch 2 of 2: "};
  for (const size_t launch : {0, 1}) {
    DiagSink diags;
    api::SaySpillsOfCall(loaded, "product", call, {}, {report, launch}, diags);
    const std::string said = RenderAll(diags, loaded.sources);
    EXPECT_NE(said.find(roles[launch]), std::string::npos) << said;
    EXPECT_NE(said.find(titles[launch]), std::string::npos) << said;
    EXPECT_EQ(said.find("keeps 0 registers"), std::string::npos) << said;
  }
}

// The assembler is asked of both launches, and what the first one spills counts.
TEST_F(RefineTest, TwoLaunchesAreBothLookedAt) {
  Answers({kClean, kSpills});
  api::Loaded loaded;
  LoadText(loaded, kProduct);
  api::Call call = AlignedCall();
  call.split = 16;
  const Result<api::Refined> refined =
      api::Refine(loaded, "product", call, {}, {folder_.path() + "ptxas"}, diags_);
  ASSERT_TRUE(refined.ok()) << RenderAll(diags_, loaded.sources);
  EXPECT_EQ(Asked(), 2);
  ASSERT_EQ(refined->image.before.size(), 1u);
  ASSERT_EQ(refined->before.size(), 1u);
  EXPECT_EQ(refined->before[0].spill_store_bytes, 44);
  EXPECT_TRUE(refined->schedule.empty());
  ASSERT_EQ(refined->rounds.size(), 1u);
  EXPECT_EQ(refined->rounds[0], "as solved: ptxas spills 96 bytes");
  ASSERT_EQ(diags_.all().size(), 2u);
  EXPECT_EQ(diags_.all()[0].def->code, "R597");
  EXPECT_EQ(diags_.all()[1].def->code, "R615");
}

// What was tried last, and was no better or refused, is not what is asked about behind it.
TEST_F(RefineTest, WhatIsTriedInVainIsNotLeftBehind) {
  Answers({kSpills});
  api::Loaded loaded;
  LoadText(loaded, kChain);
  const auto refined =
      api::Refine(loaded, "chain", AlignedCall(), {}, {folder_.path() + "ptxas"}, diags_);
  ASSERT_TRUE(refined.ok());
  EXPECT_GE(refined->rounds.size(), 2u);
  const auto again = api::CompileCall(loaded, "chain", AlignedCall(), {}, {}, diags_);
  ASSERT_TRUE(again.ok());
  EXPECT_TRUE(again->ptx == refined->image.ptx);
}

TEST_F(RefineTest, TheBestIsKeptAndSaid) {
  Answers({std::string(kSerialized) + kSpills, kSpills, std::string(kSerialized)});
  const api::Refined refined = Refined();
  ASSERT_EQ(diags_.all().size(), 1u);
  EXPECT_EQ(std::string(diags_.all()[0].def->code), "R597");
  EXPECT_EQ(refined.report.spill_store_bytes, 44);
  EXPECT_TRUE(refined.report.pipeline.empty());
  EXPECT_GE(refined.rounds.size(), 3u);
  EXPECT_TRUE(Pinned(refined.schedule) == refined.image.ptx);
}

}  // namespace
}  // namespace tilec
