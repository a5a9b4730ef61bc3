// More CTAs for a tile than a cluster has (api/divided.h): two launches with parts in memory
// between them give what one gives, the same bits each time, on every stream and at every place.
//
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "api/divided.h"
#include "api/split.h"
#include "include/tilec/tilec.h"
#include "tests/unit/api/loaded.h"

namespace tilec {
namespace {

constexpr int64_t kHeads = 4, kKeys = 700, kDim = 64;

class Problem {
 public:
  explicit Problem(Device& device) : device_(device) {
    Fill("Q", kHeads * kDim, 1);
    Fill("K", kKeys * kDim, 2);
    Fill("V", kKeys * kDim, 3);
  }
  Args For(uint64_t out) const {
    Args args;
    args.Set("Q", Tensor{DType::kBF16, q_, {1, kHeads, 1, kDim}});
    args.Set("K", Tensor{DType::kBF16, k_, {1, 1, kKeys, kDim}});
    args.Set("V", Tensor{DType::kBF16, v_, {1, 1, kKeys, kDim}});
    args.Set("O", Tensor{DType::kBF16, out, {1, kHeads, 1, kDim}});
    args.Set("scale", 0.125).Set("BQ", 16).Set("BKV", 32);
    return args;
  }
  uint64_t Out() {
    const uint64_t out = *device_.Alloc(kHeads * kDim * 2);
    EXPECT_TRUE(device_.Fill(out, 0xff, kHeads * kDim * 2).ok());
    return out;
  }
  std::vector<uint16_t> Read(uint64_t out) {
    std::vector<uint16_t> words(kHeads * kDim);
    EXPECT_TRUE(device_.CopyOut(words.data(), out, words.size() * 2).ok());
    return words;
  }

 private:
  void Fill(const std::string& name, int64_t count, uint32_t seed) {
    std::vector<uint16_t> words;
    for (int64_t i = 0; i < count; ++i) {
      seed = seed * 1664525 + 1013904223;
      const float x = static_cast<float>(static_cast<int32_t>(seed)) / 2147483648.0f;
      uint32_t bits = 0;
      std::memcpy(&bits, &x, 4);
      words.push_back(static_cast<uint16_t>(bits >> 16));
    }
    const uint64_t at = *device_.Alloc(words.size() * 2);
    EXPECT_TRUE(device_.CopyIn(at, words.data(), words.size() * 2).ok());
    (name == "Q" ? q_ : name == "K" ? k_ : v_) = at;
  }
  Device& device_;
  uint64_t q_ = 0, k_ = 0, v_ = 0;
};

Kernel Compiled(const char* schedule) {
  CompilerOptions options;
  options.schedule = schedule;
  options.disk_cache = false;
  auto compiler = Compiler::Create(options);
  EXPECT_TRUE(compiler.ok());
  auto kernel = compiler->Compile("std/attention.tile", "attention");
  EXPECT_TRUE(kernel.ok());
  return *kernel;
}

float Number(uint16_t word) {
  const uint32_t bits = uint32_t{word} << 16;
  float x = 0;
  std::memcpy(&x, &bits, 4);
  return x;
}

TEST(TwoLaunches, GiveWhatOneGives) {
  Device device = *Device::Open("emulator");
  Problem problem(device);
  Kernel alone = Compiled("solve:split=1"), divided = Compiled("solve:pack=4:split=32");
  const uint64_t expected = problem.Out(), first = problem.Out(), again = problem.Out(),
                 aside = problem.Out(), bound = problem.Out();
  ASSERT_TRUE(alone.Launch(device, problem.For(expected)).ok());
  const Status status = divided.Launch(device, problem.For(first));
  ASSERT_TRUE(status.ok()) << status.text();
  const std::vector<uint16_t> one = problem.Read(expected), two = problem.Read(first);
  for (size_t i = 0; i < one.size(); ++i) EXPECT_NEAR(Number(one[i]), Number(two[i]), 4e-3) << i;
  // Elsewhere, on another stream, which has other memory for the parts, and as a bound launch.
  ASSERT_TRUE(divided.Launch(device, problem.For(again)).ok());
  EXPECT_EQ(problem.Read(again), two);
  const Stream stream = *device.NewStream();
  ASSERT_TRUE(divided.Launch(device, problem.For(aside), stream).ok());
  ASSERT_TRUE(device.Synchronize(stream).ok());
  EXPECT_EQ(problem.Read(aside), two);
  auto kept = divided.Bind(device, problem.For(first));
  ASSERT_TRUE(kept.ok());
  EXPECT_EQ(kept->tensors().size(), 4u);  // the parts are nobody's business
  Graph graph = Graph::On(device);
  ASSERT_TRUE(graph.Add(*kept).ok());
  const Args moved = problem.For(bound);
  std::vector<uint64_t> addresses;
  for (const std::string& name : kept->tensors())
    addresses.push_back(moved.tensors().at(name).data);
  ASSERT_TRUE(graph.MoveTo(0, addresses.data(), addresses.size()).ok());
  ASSERT_TRUE(graph.Launch().ok());
  ASSERT_TRUE(device.Synchronize().ok());
  EXPECT_EQ(problem.Read(bound), two);
}

// 22 turns in 16 parts of two: five CTAs have none, and rows of theirs see nothing but −∞.
TEST(TwoLaunches, CtasThatAreNoClusterGiveWhatOneGives) {
  Device device = *Device::Open("emulator");
  Problem problem(device);
  Kernel alone = Compiled("solve:split=1");
  const uint64_t expected = problem.Out();
  ASSERT_TRUE(alone.Launch(device, problem.For(expected)).ok());
  const std::vector<uint16_t> one = problem.Read(expected);
  for (const char* schedule : {"solve:pack=4:split=16:apart", "solve:split=3:apart"}) {
    Kernel parts = Compiled(schedule);
    const uint64_t out = problem.Out();
    const Status status = parts.Launch(device, problem.For(out));
    ASSERT_TRUE(status.ok()) << schedule << status.text();
    const std::vector<uint16_t> got = problem.Read(out);
    for (size_t i = 0; i < one.size(); ++i)
      EXPECT_NEAR(Number(one[i]), Number(got[i]), 4e-3) << schedule << " " << i;
  }
}

class DividedImageTest : public LibraryTest {
 protected:
  std::optional<backend::KernelImage> Image(const api::Call& call, const char* schedule,
                                            int threads = 1) {
    api::PipelineOptions options;
    options.schedule = schedule;
    options.choosing_threads = threads;
    auto fn = api::MakeTileIr(loaded_, signature_.kernel, call, nullptr, diags_);
    EXPECT_TRUE(fn.ok());
    auto image = api::DividedImage(loaded_, *fn, options, nullptr, diags_);
    EXPECT_TRUE(image.ok()) << RenderAll(diags_, loaded_.sources);
    return image.ok() ? std::move(*image) : std::nullopt;
  }
  DiagSink diags_;
};

// The second launch asks for all parts before it waits for one: factors come behind the last load.
TEST_F(DividedImageTest, PartsAreLoadedTogether) {
  Load("std/attention.tile", "attention");
  const api::Call call = Of({{"D", int64_t{128}},
                             {"BQ", int64_t{16}},
                             {"BKV", int64_t{64}},
                             {"scale", 0.125},
                             {"causal", false}});
  const auto image = Image(call, "solve:pack=8:split=64");
  ASSERT_TRUE(image);
  const size_t last = image->ptx.rfind("ld.global"), factor = image->ptx.find("ex2.approx");
  ASSERT_NE(last, std::string::npos);
  ASSERT_NE(factor, std::string::npos);
  EXPECT_LT(last, factor);
}

// By threads of their own both are what they are one after another, and say the same.
TEST_F(DividedImageTest, SideBySideTheyAreTheSame) {
  const auto same = [&](const api::Call& call, const char* schedule) {
    const auto apart = Image(call, schedule);
    const std::string said = RenderAll(diags_, loaded_.sources);
    diags_.Clear();
    const auto beside = Image(call, schedule, 4);
    ASSERT_TRUE(apart && beside);
    EXPECT_EQ(backend::ToJson(*apart), backend::ToJson(*beside));
    EXPECT_EQ(apart->before.size(), 1u);
    EXPECT_EQ(said, RenderAll(diags_, loaded_.sources));
    diags_.Clear();
  };
  Load("std/matmul.tile", "gemm");
  same(Of({{"BM", int64_t{64}}, {"BN", int64_t{64}}, {"BK", int64_t{64}}}), "solve:split=16");
  Load("std/attention.tile", "attention");
  same(Of({{"D", int64_t{128}}, {"ONCE", int64_t{1}}, {"scale", 0.125}, {"causal", true}}),
       "solve");
}

TEST_F(DividedImageTest, HasBothLaunchesAndWhatIsBetweenThem) {
  Load("std/matmul.tile", "gemm");
  const api::Call call = Of({{"BM", int64_t{64}}, {"BN", int64_t{64}}, {"BK", int64_t{64}}});
  const auto image = Image(call, "solve:split=16");
  ASSERT_TRUE(image);
  ASSERT_EQ(image->before.size(), 1u);
  const backend::KernelImage& parts = image->before[0];
  EXPECT_EQ(parts.cluster[0], 8);
  EXPECT_EQ(image->cluster[0], 1);
  ASSERT_EQ(image->work.size(), 1u);  // the sum
  ASSERT_EQ(parts.work.size(), 1u);
  EXPECT_EQ(image->work[0].dims[0], Expr::Const(2));
  EXPECT_EQ(parts.work[0].direction, backend::Direction::kOut);
  EXPECT_EQ(image->work[0].direction, backend::Direction::kIn);
  EXPECT_EQ(image->tensors.size(), parts.tensors.size());
  EXPECT_EQ(std::count_if(image->tensors.begin(), image->tensors.end(),
                          [](const auto& t) { return t.name.rfind("part", 0) == 0; }),
            0);
  // As text and back.
  backend::KernelImage read;
  std::string why;
  ASSERT_TRUE(backend::FromJson(backend::ToJson(*image), &read, &why)) << why;
  EXPECT_EQ(backend::ToJson(read), backend::ToJson(*image));
  ASSERT_EQ(read.before.size(), 1u);
  EXPECT_EQ(read.before[0].ptx, parts.ptx);
}

// Parts of any number, each a CTA by itself.
TEST_F(DividedImageTest, PartsApartAreNoCluster) {
  Load("std/matmul.tile", "gemm");
  const api::Call call = Of({{"BM", int64_t{64}}, {"BN", int64_t{64}}, {"BK", int64_t{64}}});
  const auto image = Image(call, "solve:split=5:apart");
  ASSERT_TRUE(image);
  ASSERT_EQ(image->before.size(), 1u);
  EXPECT_EQ(image->before[0].cluster[0], 1);
  EXPECT_EQ(image->work[0].dims[0], Expr::Const(5));
}

// What cannot be dealt out stays one launch, and a note says why.
TEST_F(DividedImageTest, WhatHasNoLongLoopStaysAsItIs) {
  Load("std/transpose.tile", "transpose");
  EXPECT_FALSE(Image(Of({}), "solve:split=16"));
  ASSERT_FALSE(diags_.all().empty());
  EXPECT_EQ(diags_.all().back().def->code, "R603");
}

// Rows that cannot be packed are said beside it.
TEST_F(DividedImageTest, RowsThatCannotBePackedAreSaid) {
  Load("std/matmul.tile", "gemm");
  EXPECT_TRUE(Image(Of({}), "solve:pack=4:split=16"));
  const std::vector<Diagnostic>& said = diags_.all();
  EXPECT_EQ(std::count_if(said.begin(), said.end(),
                          [](const Diagnostic& d) { return d.def->code == std::string("R616"); }),
            1)
      << RenderAll(diags_, loaded_.sources);
}

// One query of one head has a tile: a cluster of eight leaves 124 multiprocessors idle.
TEST_F(DividedImageTest, TheModelTakesMoreThanAClusterForOneTile) {
  Load("std/attention.tile", "attention");
  const auto ctas = [&](int64_t keys) {
    const api::Call call = Of({{"B", int64_t{1}},
                               {"H", int64_t{8}},
                               {"G", int64_t{1}},
                               {"S", int64_t{1}},
                               {"L", keys},
                               {"D", int64_t{128}},
                               {"BQ", int64_t{16}},
                               {"BKV", int64_t{128}},
                               {"scale", 0.088}});
    return api::SplitFor(loaded_, signature_, {}, call).ctas;
  };
  EXPECT_EQ(ctas(65536), 120);  // fifteen clusters run at a time
  EXPECT_LE(ctas(2000), 8);
}

}  // namespace
}  // namespace tilec
