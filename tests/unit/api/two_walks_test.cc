// Layernorm of long rows in two walks, by sums around the mean of the first piece: as exact as in
// three where the mean is large, the variance small, or the first piece unlike all others.
//
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "include/tilec/tilec.h"

namespace tilec {
namespace {

constexpr int64_t kColumns = 50001, kOfRows = 5, kPiece = 8192;
constexpr double kEps = 1e-5;

// Column c of row r; all of them are numbers of bf16.
float ElementOf(int64_t r, int64_t c) {
  const float rare = c % 97 == 0 ? 16512 : 16384;  // 260 thousand times 97 is mean² of variance
  switch (r) {
    case 0: return static_cast<float>(c * 7 % 11 - 5);
    case 1: return rare;
    case 2: return 3;  // no variance at all
    case 3: return c < kPiece ? 0 : rare;
    default: return c < kPiece ? rare : static_cast<float>(c % 3);
  }
}

std::vector<double> Reference(int64_t r) {
  double sum = 0, square = 0;
  for (int64_t c = 0; c < kColumns; ++c) sum += ElementOf(r, c);
  const double mean = sum / kColumns;
  for (int64_t c = 0; c < kColumns; ++c) square += std::pow(ElementOf(r, c) - mean, 2);
  std::vector<double> out;
  for (int64_t c = 0; c < kColumns; ++c)
    out.push_back((ElementOf(r, c) - mean) / std::sqrt(square / kColumns + kEps));
  return out;
}

uint16_t Bits(float x) { return static_cast<uint16_t>(std::bit_cast<uint32_t>(x) >> 16); }
double Value(uint16_t x) { return std::bit_cast<float>(static_cast<uint32_t>(x) << 16); }

class TwoWalks : public ::testing::TestWithParam<const char*> {
 protected:
  uint64_t Placed(const void* data, int64_t bytes) {
    const uint64_t at = *device_.Alloc(bytes);
    EXPECT_TRUE(device_.CopyIn(at, data, bytes).ok());
    return at;
  }
  std::vector<uint16_t> Layernorm(int64_t walks) {
    CompilerOptions options;
    options.disk_cache = false;
    options.schedule = GetParam();
    Compiler compiler = *Compiler::Create(options);
    auto kernel = compiler.Compile("std/norm.tile", "layernorm");
    std::vector<uint16_t> x, y(kOfRows * kColumns);
    for (int64_t i = 0; i < kOfRows * kColumns; ++i)
      x.push_back(Bits(ElementOf(i / kColumns, i % kColumns)));
    const std::vector<float> ones(kColumns, 1), none(kColumns, 0);
    const auto bytes = static_cast<int64_t>(2 * x.size());
    const uint64_t out = Placed(y.data(), bytes);
    Args args;
    args.Set("X", Tensor{DType::kBF16, Placed(x.data(), bytes), {kOfRows, kColumns}})
        .Set("Y", Tensor{DType::kBF16, out, {kOfRows, kColumns}})
        .Set("gamma", Tensor{DType::kF32, Placed(ones.data(), 4 * kColumns), {kColumns}})
        .Set("beta", Tensor{DType::kF32, Placed(none.data(), 4 * kColumns), {kColumns}})
        .Set("eps", kEps)
        .Set("SHARES", int64_t{1})
        .Set("WALKS", walks);
    const Status status = kernel->Launch(device_, args);
    EXPECT_TRUE(status.ok()) << status.text();
    EXPECT_TRUE(device_.CopyOut(y.data(), out, bytes).ok());
    return y;
  }
  Device device_ = *Device::Open("emulator");
};

TEST_P(TwoWalks, AreAsExactAsThree) {
  for (const int64_t walks : {2, 3}) {
    const std::vector<uint16_t> y = Layernorm(walks);
    for (int64_t r = 0; r < kOfRows; ++r) {
      const std::vector<double> want = Reference(r);
      double most = 0;
      for (int64_t c = 0; c < kColumns; ++c) {
        const double ref = want[static_cast<size_t>(c)];
        const double got = Value(y[static_cast<size_t>(r * kColumns + c)]);
        // Half a unit of bf16, and the mean's own rounding.
        most = std::max(most, std::abs(got - ref) - std::abs(ref) / 256);
      }
      EXPECT_LE(most, 3e-4) << "row " << r << " in " << walks << " walks";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(ByCtas, TwoWalks, ::testing::Values("sequential", "sequential:split=2"));

}  // namespace
}  // namespace tilec
