// Which stores of a CTA may write what one of them has written.
//
// SPDX-License-Identifier: Apache-2.0
#include "ir/lower/stored_over.h"

#include <gtest/gtest.h>

#include "tests/unit/lower/helper.h"

namespace tilec::ir {
namespace {

// Two stores of 64 x 64 in a loop: the first at row `first`, the second at row `second`.
StoresOver Over(const std::string& first, const std::string& second, const std::string& loop) {
  const Function fn = Parsed(R"(func @f tile {
  param tensor %O: tensor<f32, 2> out [M, N] align=16 stride_align=16 contiguous=1 last_align=16
  param dim %M: i64
  param dim %N: i64
  body {
    %0 = constant {value = 0} : i64
    %1 = constant {value = 1} : i64
    %32 = constant {value = 32} : i64
    %64 = constant {value = 64} : i64
    %x = constant {value = 1} : f32[64, 64]
    parallel %0, %1 {steps = [1]} do (%cta: i64) {
      for %0, %M {)" + loop + R"(} do (%t: i64) {
        %u = add %t, %64 : i64
        %w = sub %t, %64 : i64
        store %O, %x, %)" + first +
                             R"(, %M, %0, %N {modes = "rr", sizes = [64, 64]}
        store %O, %x, %)" + second +
                             R"(, %M, %0, %N {modes = "rr", sizes = [64, 64]}
        yield
      }
      yield
    }
  }
}
)");
  return StoredOver(fn);
}

TEST(StoredOver, ALoopThatDoesNotCarryAStoreOnWritesItAgain) {
  const StoresOver over = Over("0", "64", "step = 64");
  ASSERT_EQ(over.size(), 2u);  // each meets itself, and not the other: rows 0 to 64 and 64 to 128
  for (const auto& [store, met] : over) EXPECT_EQ(met, std::vector<OpId>{store});
}

TEST(StoredOver, StoresThatOverlapMeet) {
  for (const auto& [store, met] : Over("0", "32", "step = 64")) EXPECT_EQ(met.size(), 2u);
}

// A pipelined store is that of an earlier iteration.
TEST(StoredOver, ADifferenceFollowsThePosition) {
  for (const auto& [store, met] : Over("w", "w", "step = 64"))
    EXPECT_EQ(std::count(met.begin(), met.end(), store), 0);
  for (const auto& [store, met] : Over("w", "w", "step = 32"))
    EXPECT_EQ(std::count(met.begin(), met.end(), store), 1);
}

TEST(StoredOver, ALoopThatCarriesAStoreOnDoesNot) {
  // rows t and t + 64, by steps of 128 all apart within an iteration, but not known across two
  const StoresOver over = Over("t", "u", "step = 128");
  for (const auto& [store, met] : over) EXPECT_EQ(std::count(met.begin(), met.end(), store), 0);
  // by 32 of 64 rows each store meets itself
  for (const auto& [store, met] : Over("t", "t", "step = 32"))
    EXPECT_EQ(std::count(met.begin(), met.end(), store), 1);
}

TEST(StoredOver, TilesOfAGridAreApart) {
  EXPECT_TRUE(Over("0", "64", "step = 64, narrow = 1").empty());
}

}  // namespace
}  // namespace tilec::ir
