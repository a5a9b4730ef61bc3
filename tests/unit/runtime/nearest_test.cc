// SPDX-License-Identifier: Apache-2.0
#include "support/nearest.h"

#include <gtest/gtest.h>

namespace tilec {
namespace {

TEST(Nearest, FindsTyposOnly) {
  const std::vector<std::string> names = {"gemm", "attention", "softmax", "BM", "BN"};
  EXPECT_EQ(NearestName("gmem", names), "gemm");
  EXPECT_EQ(NearestName("atention", names), "attention");
  EXPECT_EQ(NearestName("GEMM", names), "gemm");
  EXPECT_EQ(NearestName("bm", names), "BM");
  EXPECT_EQ(NearestName("BK", names), "BM");
  EXPECT_EQ(NearestName("K", {"M"}), "");
  EXPECT_EQ(NearestName("zebra", names), "");
  EXPECT_EQ(NearestName("", names), "");
  EXPECT_EQ(NearestName(std::string(100000, 'x'), names), "");
}

}  // namespace
}  // namespace tilec
