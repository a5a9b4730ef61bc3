// tune = "measure" in a host program, on the driver's stand-in with a clock (FAKE_TIMED of
// tests/unit/runtime/fake_driver.cc): how often it launches tells whether it measures.
//
// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <chrono>
#include <thread>

#include "tests/unit/api/stand_in.h"
#include "tests/unit/temp_folder.h"

namespace tilec {
namespace {

constexpr const char* kSource = R"(
kernel add(X: f32[N], Y: out f32[N]) {
  tune BN = 128 in {128, 256, 512}
  parallel n in tiles(N, BN) {
    Y[n] = X[n] + 1.0
  }
}
)";

// 120 CTAs of the tiles that the model takes at M = 130, N = 2560, and half as many larger ones.
constexpr const char* kProduct = R"(
kernel product(A: bf16[M, K], B: bf16[N, K], C: out bf16[M, N]) {
  tune BM = 64 in {64, 128}
  parallel m in tiles(M, BM), n in tiles(N, 128) {
    var acc: f32[BM, 128] = 0
    for k in tiles(K, 64) {
      acc += A[m, k] @ B[n, k].T
    }
    C[m, n] = acc as bf16
  }
}
)";

class MeasuredKernel : public OnStandIn {
 protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(OnStandIn::SetUp());
    const auto memory = device_->Alloc(2 << 20);
    ASSERT_TRUE(memory.ok());
    memory_ = *memory;
  }
  // As a process of its own would have it.
  Kernel Make(const std::string& tune = "measure=0.01", const char* source = kSource) {
    CompilerOptions options;
    options.ptxas = "off";  // the stand-in takes text
    options.cache_dir = folder_.path();
    options.tune = tune;
    return Compiled(options, source);
  }
  Args Of(int64_t n) {
    return Args()
        .Set("X", Tensor{DType::kF32, memory_, {n}, {}})
        .Set("Y", Tensor{DType::kF32, memory_ + (1 << 20), {n}, {}});
  }
  Args Product(int64_t m = 130) {
    return Args()
        .Set("A", Tensor{DType::kBF16, memory_, {m, 64}, {}})
        .Set("B", Tensor{DType::kBF16, memory_ + (1 << 18), {2560, 64}, {}})
        .Set("C", Tensor{DType::kBF16, memory_ + (1 << 20), {m, 2560}, {}});
  }
  // Launches until another program runs; what that launch said.
  static std::string UntilImproved(Kernel& kernel, Device& device, const Args& args) {
    for (int i = 0; i < 600; ++i) {
      const Status s = kernel.Launch(device, args);
      EXPECT_TRUE(s.ok()) << s.text();
      for (const Problem& p : s.problems())
        if (p.code == "R637") return p.message;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    return "";
  }
  uint64_t launches() const { return counts_->launched(); }

  TempFolder folder_;
  uint64_t memory_ = 0;
};

TEST_F(MeasuredKernel, TheFirstLaunchMeasuresAndTheNextProcessDoesNot) {
  Kernel first = Make();
  const uint64_t before = launches();
  ASSERT_TRUE(first.Launch(*device_, Of(4096)).ok());
  const uint64_t measured = launches();
  EXPECT_GT(measured - before, 20u);
  ASSERT_TRUE(first.Launch(*device_, Of(4096)).ok());
  EXPECT_EQ(launches(), measured + 1);
  const auto taken = first.Emit("ptx", Of(4096));
  ASSERT_TRUE(taken.ok()) << taken.status().text();
  EXPECT_EQ(taken.status().text(), "");
  // Eight CTAs are fewer than others have.
  const auto largest = first.Emit("ptx", Of(4096).Set("BN", 512));
  EXPECT_EQ(*taken, *largest);

  Kernel second = Make();
  const uint64_t again = launches();
  ASSERT_TRUE(second.Launch(*device_, Of(4096)).ok());
  EXPECT_EQ(launches(), again + 1);
  EXPECT_EQ(*second.Emit("ptx", Of(4096)), *taken);
}

TEST_F(MeasuredKernel, PrepareMeasuresWithoutTouchingAnything) {
  Kernel kernel = Make();
  const Args nowhere = Args()
                           .Set("X", Tensor{DType::kF32, 4096, {2048}, {}})
                           .Set("Y", Tensor{DType::kF32, 8192, {2048}, {}});
  const Status s = kernel.Prepare(*device_, nowhere);
  ASSERT_TRUE(s.ok()) << s.text();
  const uint64_t after = launches();
  ASSERT_TRUE(kernel.Launch(*device_, Of(2048)).ok());
  EXPECT_EQ(launches(), after + 1);
}

TEST_F(MeasuredKernel, ThreadsMeasureOnce) {
  Kernel kernel = Make();
  const uint64_t before = launches();
  ASSERT_TRUE(kernel.Launch(*device_, Of(8192)).ok());
  const uint64_t alone = launches() - before;
  Kernel shared = Make();
  TempFolder other;
  CompilerOptions options;
  options.ptxas = "off";  // the stand-in takes text
  options.cache_dir = other.path();
  options.tune = "measure=0.01";
  auto compiler = Compiler::Create(options);
  auto fresh = compiler->CompileText(kSource, "add.tile");
  ASSERT_TRUE(fresh.ok());
  const uint64_t start = launches();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] { EXPECT_TRUE(fresh->Launch(*device_, Of(8192)).ok()); });
  for (std::thread& t : threads) t.join();
  EXPECT_LT(launches() - start, 2 * alone);
}

TEST_F(MeasuredKernel, OnTheEmulatorItIsSaid) {
  auto emulator = Device::Open("emulator");
  ASSERT_TRUE(emulator.ok());
  const auto x = emulator->Alloc(4 * 256), y = emulator->Alloc(4 * 256);
  Kernel kernel = Make();
  const Status s = kernel.Launch(*emulator, Args()
                                                .Set("X", Tensor{DType::kF32, *x, {256}, {}})
                                                .Set("Y", Tensor{DType::kF32, *y, {256}, {}}));
  EXPECT_TRUE(s.ok()) << s.text();
  ASSERT_EQ(s.problems().size(), 1u) << s.text();
  EXPECT_EQ(s.problems()[0].code, "R630");
}

TEST_F(MeasuredKernel, WhatIsMeasuredBesideTakesItsPlaceAtALaterLaunch) {
  for (const char* tune : {"model:improve", "classes:improve"}) {
    Kernel kernel = Make(tune, kProduct);
    const auto model = Make("model", kProduct).Emit("ptx", Product());
    const auto larger = Make("model", kProduct).Emit("ptx", Product().Set("BM", 128));
    ASSERT_NE(*model, *larger);
    const auto bound = kernel.Bind(*device_, Product());
    ASSERT_TRUE(bound.ok());
    const std::string said = UntilImproved(kernel, *device_, Product());
    EXPECT_NE(said.find("`product` runs another program for"), std::string::npos) << said;
    EXPECT_NE(said.find("BM=128, measured "), std::string::npos) << said;
    EXPECT_EQ(*kernel.Emit("ptx", Product()), *larger);
    EXPECT_EQ(kernel.Launch(*device_, Product()).text(), "") << "it is said once";
    EXPECT_TRUE(bound->Launch().ok()) << "what was bound stays";
  }
}

TEST_F(MeasuredKernel, OnlyWhatIsLaunchedIsImproved) {
  Kernel kernel = Make("classes:improve", kProduct);
  const Status s = kernel.Prepare(*device_, Product(), {{{"M"}, 100, 140}});
  ASSERT_TRUE(s.ok()) << s.text();
  const uint64_t before = launches();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_EQ(launches(), before);
  EXPECT_NE(UntilImproved(kernel, *device_, Product(131)), "");
}

TEST_F(MeasuredKernel, AKernelMayGoWhileItIsImproved) {
  for (int i = 0; i < 8; ++i) {
    TempFolder fresh;
    CompilerOptions options;
    options.ptxas = "off";  // the stand-in takes text
    options.cache_dir = fresh.path();
    options.tune = "model:improve";
    auto compiler = Compiler::Create(options);
    auto kernel = compiler->CompileText(kProduct, "product.tile");
    ASSERT_TRUE(kernel.ok());
    ASSERT_TRUE(kernel->Launch(*device_, Product(130 + i)).ok());
    std::this_thread::sleep_for(std::chrono::milliseconds(i * 40));
  }
}

TEST_F(MeasuredKernel, ThreadsLaunchWhileItIsImproved) {
  Kernel kernel = Make("classes:improve", kProduct);
  std::atomic<bool> found{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 30000 && !(found && i > 200); ++i) {
        const Status s = kernel.Launch(*device_, Product(120 + (i + t) % 8));
        EXPECT_TRUE(s.ok()) << s.text();
        for (const Problem& p : s.problems()) found = found || p.code == "R637";
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_TRUE(found);
}

TEST_F(MeasuredKernel, WithoutAClockNothingIsImproved) {
  auto emulator = Device::Open("emulator");
  const auto x = emulator->Alloc(4 * 256), y = emulator->Alloc(4 * 256);
  Kernel kernel = Make("model:improve");
  const Args args = Args()
                        .Set("X", Tensor{DType::kF32, *x, {256}, {}})
                        .Set("Y", Tensor{DType::kF32, *y, {256}, {}});
  for (int i = 0; i < 3; ++i) EXPECT_EQ(kernel.Launch(*emulator, args).text(), "");
}

TEST_F(MeasuredKernel, OnlyWhatTheModelChoosesIsImproved) {
  CompilerOptions options;
  options.ptxas = "off";  // the stand-in takes text
  options.tune = "default:improve";
  const auto compiler = Compiler::Create(options);
  ASSERT_FALSE(compiler.ok());
  EXPECT_EQ(compiler.status().problems()[0].code, "R591");
}

TEST_F(MeasuredKernel, RangesNeedClasses) {
  Kernel kernel = Make();
  const Status s = kernel.Prepare(*device_, Of(64), {{{"N"}, 1, 64}});
  ASSERT_FALSE(s.ok());
  EXPECT_EQ(s.problems()[0].code, "R613");
}

}  // namespace
}  // namespace tilec
