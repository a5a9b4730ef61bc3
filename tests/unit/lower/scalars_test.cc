// What is known of scalars: that a position is no less than zero, whatever the dims.
//
// SPDX-License-Identifier: Apache-2.0
#include "ir/lower/scalars.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/lower/helper.h"

namespace tilec::ir {
namespace {

// Is %x, of the ops in a loop of steps of 32 from `start` behind a branch, no less than zero?
bool Least(const std::string& cmp, const std::string& start, const std::string& ops) {
  const Function fn = Parsed(R"(func @f tile {
  param tensor %O: tensor<f32, 1> out [M] align=16 stride_align=16 contiguous=1 last_align=16
  param dim %M: i64
  param scalar %n: i64
  body {
    %0 = constant {value = 0} : i64
    %1 = constant {value = 1} : i64
    %8 = constant {value = 8} : i64
    %32 = constant {value = 32} : i64
    %64 = constant {value = 64} : i64
    parallel %0, %1 {steps = [1]} do (%cta: i64) {
      %some = cmp )" + cmp + R"( {pred = "lt"} : bool
      if %some do {
        for )" + start + R"(, %M {step = 32} do (%t: i64) {
          )" + ops + R"(
          %v = constant {value = 1} : f32
          store %O, %v, %x {modes = "s", sizes = [1]}
          yield
        }
        yield
      } do {
        yield
      }
      yield
    }
  }
}
)");
  for (const Op& op : fn.ops)
    if (op.kind == OpKind::kStore) return NonNegative(fn, op.operands[2]);
  return false;
}

TEST(LowerBound, AnEarlierPositionOfALoopIsNoLessThanItsStart) {
  EXPECT_TRUE(Least("%0, %M", "%32", "%x = sub %t, %32 : i64"));
  EXPECT_TRUE(Least("%0, %M", "%64", "%x = sub %t, %32 : i64"));
  EXPECT_FALSE(Least("%0, %M", "%32", "%x = sub %t, %64 : i64"));
  EXPECT_FALSE(Least("%0, %M", "%n", "%x = sub %t, %32 : i64"));
}

TEST(LowerBound, ABranchSaysWhatIsGreater) {
  // of M > 32: M − 33 is, M − 34 may not be
  const std::string one = "%c = constant {value = 33} : i64 %x = sub %M, %c : i64";
  const std::string two = "%c = constant {value = 34} : i64 %x = sub %M, %c : i64";
  EXPECT_TRUE(Least("%32, %M", "%0", one));
  EXPECT_FALSE(Least("%32, %M", "%0", two));
  EXPECT_FALSE(Least("%n, %M", "%0", one));
  EXPECT_FALSE(Least("%M, %32", "%0", one));  // the other way round
}

// The last iteration's position behind a loop: of at least two iterations the one before exists.
TEST(LowerBound, TheLastPositionFollowsFromTheBranch) {
  const std::string last = R"(%d = sub %M, %0 : i64
          %e = sub %d, %1 : i64
          %k = div %e, %32 : i64
          %p = mul %k, %32 : i64
          %x = sub %p, %32 : i64)";
  EXPECT_TRUE(Least("%32, %M", "%0", last));
  EXPECT_FALSE(Least("%8, %M", "%0", last));
  EXPECT_FALSE(Least("%0, %M", "%0", last));
}

TEST(LowerBound, SumsAndProductsNeedTheirParts) {
  EXPECT_TRUE(Least("%0, %M", "%0", "%x = mul %t, %M : i64"));
  EXPECT_FALSE(Least("%0, %M", "%0", "%x = mul %t, %n : i64"));
  EXPECT_FALSE(Least("%0, %M", "%0", "%x = sub %M, %t : i64"));
  EXPECT_TRUE(Least("%n, %M", "%0", "%x = sub %M, %n : i64"));  // n < M
}

// What %x, of the ops in a loop of steps of 32 from 64, is a multiple of.
int64_t Multiple(const std::string& ops) {
  const Function fn = Parsed(R"(func @f tile {
  param tensor %O: tensor<f32, 1> out [M] align=16 stride_align=16 contiguous=1 last_align=16
  param dim %M: i64
  body {
    %0 = constant {value = 0} : i64
    %1 = constant {value = 1} : i64
    %64 = constant {value = 64} : i64
    %c8 = constant {value = 8} : i64
    %c12 = constant {value = 12} : i64
    parallel %0, %1 {steps = [1]} do (%cta: i64) {
      for %64, %M {step = 32} do (%t: i64) {
        )" + ops + R"(
        %v = constant {value = 1} : f32
        store %O, %v, %x {modes = "s", sizes = [1]}
        yield
      }
      yield
    }
  }
}
)");
  for (const Op& op : fn.ops)
    if (op.kind == OpKind::kStore) return AlignOf(fn, op.operands[2]);
  return 0;
}

TEST(AlignOf, AQuotientHasWhatTheDivisorLeaves) {
  EXPECT_EQ(Multiple("%x = add %t, %0 : i64"), 32);
  EXPECT_EQ(Multiple("%x = div %t, %c8 : i64"), 4);
  EXPECT_EQ(Multiple("%x = div %t, %c12 : i64"), 1);
  EXPECT_EQ(Multiple("%x = div %t, %M : i64"), 1);
}

}  // namespace
}  // namespace tilec::ir
