// What the states of a proof are kept in: maps in a row, clocks that share their counts, and texts
// that stand for states.
//
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "ir/warp_check/clock.h"
#include "ir/warp_check/flat_map.h"
#include "ir/warp_check/key_memory.h"

namespace tilec::ir::warp_check {
namespace {

TEST(FlatMap, ErasesWhatIsListedAndNothingElse) {
  std::mt19937 rng(7);
  for (int round = 0; round < 2000; ++round) {
    FlatMap<int32_t, int> map;
    std::map<int32_t, int> expected;
    std::set<int32_t> gone;
    const auto some = [&] { return static_cast<int32_t>(rng() % 24); };
    for (int i = 0; i < 8; ++i) {
      const int32_t key = some();
      map[key] = i, expected[key] = i;
    }
    for (int i = static_cast<int>(rng() % 9); i > 0; --i) gone.insert(some());
    map.EraseAll({gone.begin(), gone.end()});
    for (const int32_t key : gone) expected.erase(key);
    ASSERT_EQ((std::vector<std::pair<int32_t, int>>(map.begin(), map.end())),
              (std::vector<std::pair<int32_t, int>>(expected.begin(), expected.end())))
        << "round " << round;
  }
}

TEST(Clock, BeginsAtZeroThoughAnotherHadItsCounts) {
  for (const size_t size : {5, 300, 5}) {
    { Clock(size).Set(2, 7); }
    Clock clock(size);
    clock.Set(4, 1);
    for (size_t i = 0; i < 4; ++i) EXPECT_EQ(clock[i], 0) << size << ", " << i;
  }
}

TEST(Clock, IsItsOwnWhereItIsWritten) {
  Clock one(3);
  one.Set(1, 5);
  Clock other = one;
  other.Set(1, 6);
  EXPECT_EQ(one[1], 5);
  EXPECT_EQ(other[1], 6);
  one = other;
  other.Clear();
  EXPECT_EQ(one[1], 6);
  EXPECT_TRUE(other.zero());
}

TEST(KeyText, TellsNumbersApart) {
  std::set<std::string> texts;
  const std::vector<int64_t> numbers = {0,   1,    -1,   126,       127,       128,
                                        255, -128, -129, INT64_MAX, INT64_MIN, int64_t{1} << 40};
  for (const int64_t a : numbers)
    for (const int64_t b : numbers) {
      KeyText text;
      text(a), text(b);
      texts.insert(std::string(text.text()));
    }
  EXPECT_EQ(texts.size(), numbers.size() * numbers.size());
}

TEST(KeyText, SaysTheSameWhereItIsUsedAgain) {
  KeyText used;
  for (int i = 0; i < 1000; ++i) used(i);
  used.Clear();
  KeyText fresh;
  const uint64_t bits[] = {1, uint64_t{1} << 63};
  for (KeyText* text : {&used, &fresh}) (*text)(300), text->Bits(bits, 2), (*text)(3);
  EXPECT_EQ(used.text(), fresh.text());
  EXPECT_EQ(used.text().size(), 9u + 16u + 1u);
}

TEST(TextNumbers, AreTheSameForOneText) {
  TextNumbers numbers;
  EXPECT_EQ(numbers.Of("a"), 1);
  EXPECT_EQ(numbers.Of("b"), 2);
  EXPECT_EQ(numbers.Of(std::string("a")), 1);
}

}  // namespace
}  // namespace tilec::ir::warp_check
