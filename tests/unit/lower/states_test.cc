// How states lie that a loop carries and reduces along rows (ir/lower/states.h).
//
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "ir/lower/sequential.h"
#include "tests/unit/lower/helper.h"

namespace tilec::ir {
namespace {

// h_t = x_t h_{t−1} + b_t, y_t = sum of h_t: a state [128, 16].
const char* const kState = R"(func @state tile {
  param tensor %X: tensor<f32, 2> in [T, C] align=16 stride_align=16 contiguous=1 last_align=4
  param tensor %B: tensor<f32, 2> in [T, 16] align=16 stride_align=16 contiguous=1 last_align=4
  param tensor %Y: tensor<f32, 2> out [T, C] align=16 stride_align=16 contiguous=1 last_align=4
  param dim %T: i64
  param dim %C: i64
  body {
    %0 = constant {value = 0} : i64
    parallel %0, %C {steps = [128]} do (%c: i64) {
      %start = constant {value = 0.0} : f32[128, 16]
      %h = for %0, %T, %start {step = 1} : f32[128, 16] do (%t: i64, %h.1: f32[128, 16]) {
        %x = load %X, %t, %c {modes = "sr", sizes = [1, 128]} : f32[128]
        %x1 = reshape %x : f32[128, 1]
        %x2 = broadcast %x1 {axes = [0, 1]} : f32[128, 16]
        %b = load %B, %t, %0 {modes = "sr", sizes = [1, 16]} : f32[16]
        %b1 = reshape %b : f32[1, 16]
        %b2 = broadcast %b1 {axes = [0, 1]} : f32[128, 16]
        %h.2 = mul %x2, %h.1 : f32[128, 16]
        %h.3 = add %h.2, %b2 : f32[128, 16]
        %y = reduce %h.3 {kind = "sum", axis = 1} : f32[128]
        %rows = constant {value = 128} : i64
        %e0 = add %c, %rows : i64
        %e = min %e0, %C : i64
        store %Y, %y, %t, %c, %e {modes = "sr", sizes = [1, 128]}
        yield %h.3
      }
      yield
    }
  }
}
)";

// Lanes among which the loop's reduction passes numbers.
int64_t LanesOfARow(const std::string& text) {
  DiagSink diags;
  const auto warp = Sequentialize(Parsed(text), H200(), {}, diags);
  EXPECT_TRUE(warp.ok());
  if (!warp.ok()) return -1;
  int64_t lanes = 1;
  for (const Op& op : warp->ops)
    if (op.kind == OpKind::kWarpReduce)
      for (const LayoutDigit& digit : warp->layout(op.operands[0]).thread)
        if (digit.dim == 1) lanes *= digit.extent;
  return lanes;
}

TEST(States, RowsOfFewColumnsAreOneThreads) {
  EXPECT_EQ(LanesOfARow(kState), 1);
  // Half as many rows as threads: two lanes a row.
  const std::string half = With(With(With(kState, "[128, 16]", "[64, 16]"), "f32[128", "f32[64"),
                                "steps = [128]", "steps = [64]");
  EXPECT_EQ(LanesOfARow(With(With(half, "[1, 128]", "[1, 64]"), "value = 128", "value = 64")), 2);
}

// Longer rows are laid out as they were: 64 columns have more lanes than two threads a row would.
TEST(States, LongerRowsAreNot) {
  const std::string wide =
      With(With(With(kState, "128, 16]", "128, 64]"), "[T, 16]", "[T, 64]"), "f32[16]", "f32[64]");
  EXPECT_GT(LanesOfARow(With(wide, "[1, 16]", "[1, 64]")), 2);
}

}  // namespace
}  // namespace tilec::ir
