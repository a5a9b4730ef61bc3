// What the model of whole kernels takes units for that SMs share.
//
// SPDX-License-Identifier: Apache-2.0
#include "scheduler/sms_shared.h"

#include <gtest/gtest.h>

#include "tests/unit/h200.h"

namespace tilec::scheduler {
namespace {

// Two multiprocessors share a port to the L2: a CTA has one to itself only while there are no more
// CTAs than ports. 66 ports for 132; copies take 56 % of their time then.
TEST(KernelTime, PortsAreSharedByPairs) {
  const ir::Target& h200 = ir::H200();
  ir::Work copy;
  copy.bytes = 32768;
  const auto cycles = [&](int64_t ctas, double times) {
    const ir::Target shared = SharedBy(h200, ctas, times);
    for (const ir::TargetUse& use : shared.CostOf("load")->uses)
      if (h200.units[static_cast<size_t>(use.unit)].name == "tma") return use.cycles.At(copy);
    return int64_t{0};
  };
  EXPECT_EQ(cycles(132, 1), 656);  // 0.02 per byte, rounded up
  EXPECT_EQ(cycles(67, 1), 656);
  EXPECT_EQ(cycles(66, 1), 368);
  EXPECT_EQ(cycles(1, 1), 368);
  EXPECT_EQ(cycles(132, 2), 1311);
  // Of lines that rows cut: as of one CTA up to a quarter of the machine, then slower with each.
  EXPECT_EQ(cycles(33, 2), 735);
  EXPECT_GT(cycles(64, 2), cycles(48, 2));
  EXPECT_LT(cycles(64, 2), cycles(99, 2));
  EXPECT_EQ(cycles(99, 2), 1311);
  // CTAs that copy for each other ask for half; what the other half is comes in by the same port.
  EXPECT_EQ(cycles(132, 0.75), 492);
  EXPECT_EQ(cycles(132, 0.5), 368);
  EXPECT_EQ(cycles(66, 0.5), 368);
}

}  // namespace
}  // namespace tilec::scheduler
