// Ranges of integers through loops: what is carried is what the loop begins with or an iteration
// leaves; what adds to itself may be anything. The back end converts by it (emit_cast.cc).
//
// SPDX-License-Identifier: Apache-2.0
#include "ir/integer_range.h"

#include "tests/unit/lower/helper.h"

namespace tilec::ir {
namespace {

Function Loop() {
  return Parsed(R"(func @f tile {
  param tensor %X: tensor<u8, 1> in [N] align=16 stride_align=16 contiguous=1 last_align=4
  param tensor %Y: tensor<i32, 1> out [N] align=16 stride_align=16 contiguous=1 last_align=4
  param dim %N: i64
  body {
    %0 = constant {value = 0} : i64
    %8 = constant {value = 8} : i64
    parallel %0, %N {steps = [8]} do (%t: i64) {
      %a = constant {value = -3} : i32[8]
      %last, %sum, %old = for %0, %N, %a, %a, %a {step = 8} : i32[8], i32[8], i32[8]
          do (%k: i64, %u: i32[8], %w: i32[8], %o: i32[8]) {
        %x = load %X, %k {modes = "r", sizes = [8], has_fill = 0} : u8[8]
        %xi = cast %x : i32[8]
        %s = add %w, %xi : i32[8]
        yield %xi, %s, %u
      }
      %less = sub %last, %a : i32[8]
      %all = add %less, %sum : i32[8]
      %more = add %all, %old : i32[8]
      %end = add %t, %8 : i64
      store %Y, %more, %t, %end {modes = "r", sizes = [8]}
      yield
    }
  }
}
)");
}

IntegerRange Range(const Function& fn, std::string_view name, IntegerRanges& ranges) {
  for (int32_t i = 0; i < fn.values.size(); ++i)
    if (fn.values[ValueId{i}].name == name) {
      const KnownRange range = ranges.Of(ValueId{i});
      EXPECT_TRUE(range) << name;
      return range ? *range : IntegerRange{};
    }
  ADD_FAILURE() << "nothing is called " << name;
  return {};
}

void ExpectRange(const IntegerRange& range, int64_t least, int64_t most) {
  EXPECT_EQ(range.least, least);
  EXPECT_EQ(range.most, most);
}

TEST(IntegerRange, CarriedThroughALoop) {
  const Function fn = Loop();
  IntegerRanges ranges(fn);
  ExpectRange(Range(fn, "u", ranges), -3, 255);
  ExpectRange(Range(fn, "last", ranges), -3, 255);  // of no iteration: what it began with
  ExpectRange(Range(fn, "less", ranges), 0, 258);
  ExpectRange(Range(fn, "o", ranges), -3, 255);  // an iteration later
}

TEST(IntegerRange, WhatAddsToItselfMayBeAnything) {
  const Function fn = Loop();
  IntegerRanges ranges(fn);
  ExpectRange(Range(fn, "w", ranges), INT32_MIN, INT32_MAX);
  ExpectRange(Range(fn, "sum", ranges), INT32_MIN, INT32_MAX);
  ExpectRange(Range(fn, "more", ranges), INT32_MIN, INT32_MAX);
}

// In whichever order one asks.
TEST(IntegerRange, ResultsFirst) {
  const Function fn = Loop();
  IntegerRanges ranges(fn);
  ExpectRange(Range(fn, "old", ranges), -3, 255);
  ExpectRange(Range(fn, "last", ranges), -3, 255);
}

TEST(IntegerRange, PositionsOfATile) {
  const Function fn = Parsed(R"(func @f tile {
  param tensor %Y: tensor<i32, 1> out [N] align=16 stride_align=16 contiguous=1 last_align=4
  param dim %N: i64
  body {
    %0 = constant {value = 0} : i64
    %3 = constant {value = 3} : i64
    parallel %0, %N {steps = [8]} do (%t: i64) {
      %at = iota %3 : i32[8]
      store %Y, %at, %t, %N {modes = "r", sizes = [8]}
      yield
    }
  }
}
)");
  IntegerRanges ranges(fn);
  ExpectRange(Range(fn, "at", ranges), 3, 10);
}

}  // namespace
}  // namespace tilec::ir
