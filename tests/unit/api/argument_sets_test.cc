// 100,000 argument sets on a driver that counts what it is asked (fake_driver.cc of the runtime):
// (tests/unit/runtime/fake_driver.cc): no set costs more than the first of its kind. Work is
// counted, no clock is read. Runs with LD_LIBRARY_PATH at the stand-in.
//
// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/api/stand_in.h"

namespace tilec {
namespace {

constexpr const char* kSource = R"(
kernel product(X: bf16[M, 64], Y: bf16[N, 64], Z: out f32[M, N]) {
  parallel m in tiles(M, 64), n in tiles(N, 64) {
    Z[m, n] = X[m, 0..64] @ Y[n, 0..64].T
  }
}
)";
constexpr int kSets = 100000, kShapes = 20000;

class ArgumentSets : public OnStandIn {
 protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(OnStandIn::SetUp());
    CompilerOptions options;
    options.ptxas = "off";  // the stand-in takes text
    options.disk_cache = false;
    options.tune = "default";
    kernel_.emplace(Compiled(options, kSource));
  }

  static Args At(uint64_t x, uint64_t y, int64_t m) {
    return Args()
        .Set("X", Tensor{DType::kBF16, x, {m, 64}, {}})
        .Set("Y", Tensor{DType::kBF16, y, {128, 64}, {}})
        .Set("Z", Tensor{DType::kF32, Address(-1), {m, 128}, {}});
  }
  static uint64_t Address(int i) { return (uint64_t{1} << 32) + (static_cast<uint64_t>(i) << 16); }

  std::optional<Kernel> kernel_;
};

TEST_F(ArgumentSets, OfOtherAddressesAreMoved) {
  const Counts start = *counts_;
  ASSERT_TRUE(kernel_->Launch(*device_, At(Address(0), Address(1), 640)).ok());
  const Counts first = Since(start);
  ASSERT_GE(first.encoded, 1u) << "the kernel should have tensor maps";
  const Counts before = *counts_;
  for (int turn = 0; turn < 2; ++turn)
    for (int i = 1; i <= kSets; ++i) {
      const Status s = kernel_->Launch(*device_, At(Address(i), Address(i + 1), 640));
      ASSERT_TRUE(s.ok()) << s.text();
    }
  const Counts all = Since(before);
  EXPECT_EQ(all.launches, 2u * kSets);
  EXPECT_EQ(all.encoded, 0u);
  EXPECT_EQ(all.moved, all.launches * first.encoded) << "in the second turn as in the first";
}

TEST_F(ArgumentSets, OfOtherShapesAreKeptAll) {
  const auto turn = [&] {
    const Counts before = *counts_;
    for (int m = 1; m <= kShapes; ++m)
      EXPECT_TRUE(kernel_->Launch(*device_, At(Address(0), Address(9000), m)).ok()) << m;
    return Since(before);
  };
  const Counts first = turn();
  EXPECT_EQ(first.launches, static_cast<uint64_t>(kShapes));
  EXPECT_GE(first.encoded, static_cast<uint64_t>(kShapes));
  const Counts second = turn();
  EXPECT_EQ(second.launches, first.launches);
  EXPECT_EQ(second.encoded, 0u);
  EXPECT_EQ(second.moved, 0u);
}

TEST_F(ArgumentSets, OfLessAlignmentAreResolvedAnew) {
  ASSERT_TRUE(kernel_->Launch(*device_, At(Address(0), Address(1), 640)).ok());
  const Counts before = *counts_;
  const Status s = kernel_->Launch(*device_, At(Address(0) + 2, Address(1), 640));
  ASSERT_TRUE(s.ok()) << s.text();
  const Counts since = Since(before);
  EXPECT_EQ(since.launches, 1u);
  EXPECT_EQ(since.moved, 0u) << "it takes another program";
}

TEST_F(ArgumentSets, AGraphIsMadeOnceAndItsAddressesAreReplaced) {
  const auto bound = kernel_->Bind(*device_, At(Address(0), Address(1), 640));
  ASSERT_TRUE(bound.ok()) << bound.status().text();
  Graph graph = Graph::On(*device_);
  ASSERT_EQ(*graph.Add(*bound), 0u);
  ASSERT_EQ(*graph.Add(*bound), 1u);
  const Counts before = *counts_;
  for (int i = 0; i < 1000; ++i) {
    const uint64_t to[] = {Address(i), Address(i + 1), Address(-1)};
    ASSERT_TRUE(graph.MoveTo(1, to, 3).ok());
    ASSERT_TRUE(graph.Launch().ok());
  }
  const Counts since = Since(before);
  EXPECT_EQ(since.graphs, 1000u);
  EXPECT_EQ(since.instantiated, 1u);
  EXPECT_EQ(since.encoded, 0u);
  EXPECT_EQ(since.launches, 0u);
  EXPECT_EQ(since.replaced, 2u + 999u) << "two when it is made, then one a move";
}

}  // namespace
}  // namespace tilec
