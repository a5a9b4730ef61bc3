// The thread that works beside the host's launches: whose work it is may go at any time.
//
// SPDX-License-Identifier: Apache-2.0
#include "api/improve.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

namespace tilec::api {
namespace {

TEST(Improver, OwnersMayGoWhileTheirWorkWaitsOrRuns) {
  for (int round = 0; round < 20; ++round) {
    Improver improver;
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&] {
        for (int i = 0; i < 20; ++i) {
          auto owner = std::make_unique<std::vector<int>>(100, 1);
          for (int j = 0; j < 3; ++j)
            improver.Add(owner.get(), [o = owner.get()](const std::atomic<bool>& stop) {
              for (int k = 0; k < 1000 && !stop; ++k)
                for (int& x : *o) ++x;
            });
          if (i % 3 != 0) std::this_thread::yield();
          improver.Finish(owner.get());
        }
      });
    for (std::thread& t : threads) t.join();
  }
}

TEST(Improver, WorksInOrderAndTakesNoMoreThanItSays) {
  Improver improver;
  std::atomic<bool> go{false};
  std::vector<int> order;
  const int owner = 0, other = 0;
  ASSERT_TRUE(improver.Add(&other, [&](const std::atomic<bool>&) {
    while (!go) std::this_thread::yield();
  }));
  int added = 0;
  while (
      improver.Add(&owner, [&order, added](const std::atomic<bool>&) { order.push_back(added); }))
    ++added;
  EXPECT_GE(added, static_cast<int>(Improver::kMostWaiting) - 1);
  EXPECT_LE(added, static_cast<int>(Improver::kMostWaiting));
  go = true;
  improver.Finish(&other);
  while (improver.Add(&other, [](const std::atomic<bool>&) {}) == false) std::this_thread::yield();
  improver.Finish(&owner);  // leaves out what waits
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
}

TEST(Improver, IsAskedForByWords) {
  std::string tune = "model:improve";
  EXPECT_TRUE(TakeImprove(&tune));
  EXPECT_EQ(tune, "model");
  tune = "classes:improve";
  EXPECT_TRUE(TakeImprove(&tune));
  EXPECT_EQ(tune, "classes");
  for (const char* no : {"model", "measure:improve", ":improve", "default:improve"}) {
    tune = no;
    EXPECT_FALSE(TakeImprove(&tune));
    EXPECT_EQ(tune, no);
  }
}

}  // namespace
}  // namespace tilec::api
