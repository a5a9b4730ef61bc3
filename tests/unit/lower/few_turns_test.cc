// few-turns: loops of few known turns that load are written out; others stay.
//
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "ir/passes/passes.h"
#include "tests/unit/lower/helper.h"

namespace tilec::ir {
namespace {

// Y[r] = 3 + Σ_{k < 4} (X[r + k − 1] + Σ_{j < 2} X[r + j]): a loop in a loop, and a carried sum.
const char* const kWindow = R"(func @window tile {
  param tensor %X: tensor<i32, 1> in [R] align=16 stride_align=16 contiguous=1 last_align=4
  param tensor %Y: tensor<i32, 1> out [R] align=16 stride_align=16 contiguous=1 last_align=4
  param dim %R: i64
  param dim %K: i64
  body {
    %0 = constant {value = 0} : i64
    parallel %0, %R {steps = [64]} do (%r: i64) {
      %start = constant {value = 3} : i32[64]
      %lo = constant {value = -1} : i64
      %hi = constant {value = 3} : i64
      %two = constant {value = 2} : i64
      %s = for %lo, %hi, %start {step = 1} : i32[64] do (%k: i64, %a: i32[64]) {
        %at = add %r, %k : i64
        %x = load %X, %at {modes = "r", sizes = [64]} : i32[64]
        %b = add %a, %x : i32[64]
        %c = for %0, %two, %b {step = 1} : i32[64] do (%j: i64, %d: i32[64]) {
          %to = add %r, %j : i64
          %z = load %X, %to {modes = "r", sizes = [64]} : i32[64]
          %e = add %d, %z : i32[64]
          yield %e
        }
        yield %c
      }
      %rows = constant {value = 64} : i64
      %e0 = add %r, %rows : i64
      %end = min %e0, %R : i64
      store %Y, %s, %r, %end {modes = "r", sizes = [64]}
      yield
    }
  }
}
)";

std::vector<double> Results(const Function& fn) {
  InterpretInputs in;
  in.tensors["X"] = TensorValue::Random(DType::kI32, {150}, 5);
  in.tensors["Y"] = TensorValue::Zeros(DType::kI32, {150});
  in.dims = {{"R", 150}, {"K", 9}};
  return Interpreted(fn, std::move(in), "Y");
}

TEST(FewTurns, LoopsAreWrittenOutTheInnerFirst) {
  const Function before = Parsed(kWindow);
  const Function after = Changed(FewTurns, before, 2);
  EXPECT_EQ(Count(after, OpKind::kFor), 0);
  EXPECT_EQ(Count(after, OpKind::kLoad), 4 + 4 * 2);
  EXPECT_EQ(Results(before), Results(after));
}

// 24 turns load 24 tiles, and two that are the same in all of them.
TEST(FewTurns, WhatIsTheSameInAllTurnsCountsOnce) {
  const std::string some =
      With(kWindow, "%hi = constant {value = 3}", "%hi = constant {value = 23}");
  const Function before = Parsed(some), after = Changed(FewTurns, before, 2);
  EXPECT_EQ(Count(after, OpKind::kFor), 0);
  EXPECT_EQ(Results(before), Results(after));
  const std::string moving = With(some, "%to = add %r, %j", "%to = add %at, %j");
  EXPECT_EQ(Count(Changed(FewTurns, Parsed(moving), 1), OpKind::kFor), 1);
}

TEST(FewTurns, LoopsStay) {
  // Nobody knows how many turns there are.
  EXPECT_EQ(Count(Changed(FewTurns, Parsed(With(kWindow, "for %lo, %hi", "for %lo, %K")), 1),
                  OpKind::kFor),
            1);
  // There are many, or none.
  const std::string many =
      With(kWindow, "%hi = constant {value = 3}", "%hi = constant {value = 99}");
  EXPECT_EQ(Count(Changed(FewTurns, Parsed(many), 1), OpKind::kFor), 1);
  const std::string none =
      With(kWindow, "%hi = constant {value = 3}", "%hi = constant {value = -1}");
  EXPECT_EQ(Count(Changed(FewTurns, Parsed(none), 1), OpKind::kFor), 1);
  // Nothing is loaded.
  const std::string idle =
      With(kWindow, "%z = load %X, %to {modes = \"r\", sizes = [64]}", "%z = add %d, %d");
  EXPECT_EQ(Count(Changed(FewTurns, Parsed(idle), 0), OpKind::kFor), 2);
  // Threads meet.
  const std::string meet = With(kWindow, "%e = add %d, %z",
                                "%q = scan %z {kind = \"sum\", axis = 0} : i32[64]\n"
                                "          %e = add %d, %q");
  EXPECT_EQ(Count(Changed(FewTurns, Parsed(meet), 0), OpKind::kFor), 2);
}

}  // namespace
}  // namespace tilec::ir
