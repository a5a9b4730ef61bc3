// --ptxas=refine with an assembler of our own, that says what a test wants: rounds go on until it
// is content, and what they end with is pinned.
//
// SPDX-License-Identifier: Apache-2.0
#include "api/refine.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

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
  void SetUp() override {
    dir_ = ::testing::TempDir() + "/tilec_refine/";
    std::filesystem::remove_all(dir_);
    std::filesystem::create_directories(dir_);
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }

  // An assembler that gives these answers one after the other, and the last again and again.
  void Answers(const std::vector<std::string>& answers) {
    for (size_t i = 0; i < answers.size(); ++i) Write(fmt::format("answer.{}", i + 1), answers[i]);
    Write("answer.last", answers.back());
    Write("ptxas", fmt::format(R"(#!/bin/sh
cd {}
n=$(($(cat count 2>/dev/null || echo 0) + 1))
echo $n >count
while [ $# -gt 0 ]; do
  if [ "$1" = -o ]; then echo code >"$2"; fi
  shift
done
cat answer.$n 2>/dev/null || cat answer.last
)",
                               dir_));
    std::filesystem::permissions(dir_ + "ptxas", std::filesystem::perms::owner_all);
  }
  int Asked() {
    int n = 0;
    std::ifstream(dir_ + "count") >> n;
    return n;
  }

  void Load(api::Loaded& loaded) {
    DiagSink diags;
    auto program = frontend::Program::LoadText(loaded.sources, "t.tile", kChain, nullptr, diags);
    ASSERT_TRUE(program.ok()) << RenderAll(diags, loaded.sources);
    loaded.program.emplace(std::move(*program));
  }
  static api::Call Call() {
    api::Call call;
    for (const char* name : {"A", "B", "C"})
      call.facts[name] = {.base_align_bytes = 256,
                          .stride_align_bytes = 512,
                          .last_dim_align = 128,
                          .last_contiguous = true};
    return call;
  }

  api::Refined Refined() {
    api::Loaded loaded;
    Load(loaded);
    Result<api::Refined> refined = api::Refine(loaded, "chain", Call(), {}, dir_ + "ptxas", diags_);
    EXPECT_TRUE(refined.ok()) << RenderAll(diags_, loaded.sources);
    return refined.ok() ? std::move(*refined) : api::Refined{};
  }

  // The PTX of the pinned file, without any ptxas.
  std::string Pinned(const std::string& schedule) {
    api::Loaded loaded;
    Load(loaded);
    loaded.schedule_file = loaded.sources.Add("chain.sched", schedule);
    DiagSink diags;
    const auto image =
        api::CompileCall(loaded, "chain", Call(), {}, nullptr, nullptr, nullptr, diags);
    EXPECT_TRUE(image.ok()) << RenderAll(diags, loaded.sources);
    return image.ok() ? image->ptx : "";
  }

  void Write(const std::string& name, const std::string& text) {
    std::ofstream(dir_ + name) << text;
  }

  std::string dir_;
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

TEST_F(RefineTest, SpillsLeaveTheSolverFewerRegisters) {
  Answers({kClean});
  const std::string first = Refined().image.ptx;
  std::filesystem::remove(dir_ + "count");
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
