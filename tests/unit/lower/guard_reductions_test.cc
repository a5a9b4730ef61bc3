// guard-reductions: a largest value that only counts above a guard, and factors that are one where
// it does not; whatever is read by others, or compared otherwise, stays as it is.
//
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "ir/passes/passes.h"
#include "ir/text.h"
#include "tests/unit/lower/helper.h"

namespace tilec::ir {
namespace {

// Sums relative to a reference that rests until something is above %bar.
const char* const kResting = R"(func @resting tile {
  param tensor %X: tensor<bf16, 2> in [64, R] align=16 stride_align=16 contiguous=1 last_align=16
  param tensor %Y: tensor<bf16, 2> in [R, 64] align=16 stride_align=16 contiguous=1 last_align=16
  param tensor %Z: tensor<f32, 2> out [64, 64] align=16 stride_align=16 contiguous=1 last_align=16
  param dim %R: i64
  body {
    %0 = constant {value = 0} : i64
    %64 = constant {value = 64} : i64
    parallel %0, %64 {steps = [64]} do (%r: i64) {
      %none = constant {value = 0} : f32[64, 64]
      %low = constant {value = -1000} : f32[64]
      %two = constant {value = 2} : f32[64]
      %acc, %m = for %0, %R, %none, %low {step = 64} : f32[64, 64], f32[64]
          do (%k: i64, %a: f32[64, 64], %old: f32[64]) {
        %x = load %X, %r, %k {modes = "rr", sizes = [64, 64]} : bf16[64, 64]
        %y = load %Y, %k, %0 {modes = "rr", sizes = [64, 64]} : bf16[64, 64]
        %s = cast %x : f32[64, 64]
        %bar = add %old, %two : f32[64]
        %top = reduce %s {kind = "max", axis = 1} : f32[64]
        %above = cmp %top, %bar {pred = "gt"} : bool[64]
        %new = select %above, %top, %old : f32[64]
        %by = sub %old, %new : f32[64]
        %f = exp2 %by : f32[64]
        %ff = broadcast %f {axes = [0]} : f32[64, 64]
        %scaled = mul %ff, %a : f32[64, 64]
        %next = dot %x, %y, %scaled : f32[64, 64]
        yield %next, %new
      }
      store %Z, %acc, %r, %64, %0, %64 {modes = "rr", sizes = [64, 64]}
      yield
    }
  }
}
)";

TEST(GuardReductions, AMaximumThatSeldomCountsAndItsFactor) {
  const std::string after = Print(Changed(GuardReductions, Parsed(kResting), 2));
  EXPECT_NE(after.find("reduce %s, %bar {kind = \"max\""), std::string::npos) << after;
  EXPECT_NE(after.find("mul %a, %ff {seldom = 1}"), std::string::npos) << after;
  Changed(GuardReductions, Parsed(after), 0);
}

TEST(GuardReductions, TheOtherWayRound) {
  Changed(
      GuardReductions,
      Parsed(With(kResting, "cmp %top, %bar {pred = \"gt\"}", "cmp %bar, %top {pred = \"lt\"}")),
      2);
}

TEST(GuardReductions, WhatIsComparedOrReadOtherwiseStays) {
  const std::pair<const char*, const char*> kOthers[] = {
      {"{pred = \"gt\"}", "{pred = \"ge\"}"},
      {"kind = \"max\"", "kind = \"sum\""},
      {"select %above, %top, %old", "select %above, %old, %top"},
      {"%by = sub %old, %new", "%by = sub %old, %top"},
      {"%next = dot %x, %y, %scaled : f32[64, 64]", "%next = add %scaled, %s : f32[64, 64]"}};
  for (const auto& [from, to] : kOthers) {
    SCOPED_TRACE(to);
    Changed(GuardReductions, Parsed(With(kResting, from, to)), 0);
  }
}

TEST(GuardReductions, AGuardThatStandsBehindIsNone) {
  const std::string bar = "        %bar = add %old, %two : f32[64]\n";
  std::string moved = With(kResting, bar.c_str(), "");
  const size_t at = moved.find("        %above");
  moved.insert(at, bar);
  Changed(GuardReductions, Parsed(moved), 0);
}

TEST(GuardReductions, FactorsOfOtherThingsAreMultiplied) {
  const std::string after =
      Print(Changed(GuardReductions, Parsed(With(kResting, "exp2 %by", "exp2 %two")), 1));
  EXPECT_EQ(after.find("seldom"), std::string::npos) << after;
}

}  // namespace
}  // namespace tilec::ir
