// Which loops have the margin of plain products (api/tune_facts.h).
//
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>

#include "api/tune_facts.h"
#include "tests/unit/lower/helper.h"

namespace tilec::api {
namespace {

constexpr const char* kLoop = R"(func @scaled tile {
  param tensor %A: tensor<e4m3, 2> in [M, K] align=16 stride_align=16 contiguous=1 last_align=16
  param tensor %B: tensor<e4m3, 2> in [N, K] align=16 stride_align=16 contiguous=1 last_align=16
  param tensor %S: tensor<f32, 1> in [M] align=16 stride_align=16 contiguous=1 last_align=16
  param tensor %O: tensor<f32, 2> out [M, 64] align=16 stride_align=16 contiguous=1 last_align=16
  param dim %M: i64
  param dim %N: i64
  param dim %K: i64
  body {
    %0 = constant {value = 0} : i64
    %w = constant {value = 64} : i64
    parallel %0, %M {steps = [64]} do (%m: i64) {
      %z = constant {value = 0} : f32[64, 64]
      %me = add %m, %w : i64
      %end = min %me, %M : i64
      %acc = for %0, %K, %z {step = 128} : f32[64, 64] do (%k: i64, %c: f32[64, 64]) {
        %a = load %A, %m, %k {modes = "rr", sizes = [64, 128]} : e4m3[64, 128]
        %b = load %B, %0, %k {modes = "rr", sizes = [64, 128]} : e4m3[64, 128]
        %bt = transpose %b {perm = [1, 0]} : e4m3[128, 64]
        LEFT
        %p = dot %l, %bt, %z : f32[64, 64]
        %s = load %S, %m {modes = "r", sizes = [64]} : f32[64]
        %s1 = reshape %s : f32[64, 1]
        %st = broadcast %s1 {axes = [0, 1]} : f32[64, 64]
        %x = mul %p, %st : f32[64, 64]
        MORE
        %n = add %c, %y : f32[64, 64]
        yield %n
      }
      store %O, %acc, %m, %end, %0, %w {modes = "rr", sizes = [64, 64]}
      yield
    }
  }
}
)";

bool More(const std::string& left, const std::string& more) {
  return DoesMore(ir::Parsed(ir::With(ir::With(kLoop, "LEFT", left), "MORE", more)));
}
constexpr const char* kPlain = "%l = mul %a, %a : e4m3[64, 128]";

TEST(DoesMore, ScalingWhatWasMultipliedIsNotMore) {
  const std::string zero = "%l = transpose %a {perm = [0, 1]} : e4m3[64, 128]";
  EXPECT_FALSE(More(zero, "%y = mul %x, %x : f32[64, 64]"));
  EXPECT_TRUE(More(zero, "%y = exp2 %x : f32[64, 64]"));
  EXPECT_TRUE(More(kPlain, "%y = mul %x, %x : f32[64, 64]"));  // a product waits for it
}

// Where nothing is multiplied, all arithmetic is what such a loop does beside copying.
TEST(DoesMore, WithoutProductsArithmeticIsMore) {
  EXPECT_TRUE(DoesMore(ir::Parsed(R"(func @doubled tile {
  param tensor %A: tensor<f32, 1> in [K] align=16 stride_align=16 contiguous=1 last_align=16
  param tensor %O: tensor<f32, 1> out [64] align=16 stride_align=16 contiguous=1 last_align=16
  param dim %K: i64
  body {
    %0 = constant {value = 0} : i64
    %w = constant {value = 64} : i64
    parallel %0, %w {steps = [64]} do (%m: i64) {
      %z = constant {value = 0} : f32[64]
      %sum = for %0, %K, %z {step = 64} : f32[64] do (%k: i64, %c: f32[64]) {
        %a = load %A, %k {modes = "r", sizes = [64]} : f32[64]
        %x = mul %a, %a : f32[64]
        %n = add %c, %x : f32[64]
        yield %n
      }
      store %O, %sum, %m, %w {modes = "r", sizes = [64]}
      yield
    }
  }
}
)")));
}

}  // namespace
}  // namespace tilec::api
