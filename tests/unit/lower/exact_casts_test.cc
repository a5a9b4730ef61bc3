// exact-casts: integers of few bits become floats before something that a row shares is added or
// subtracted, where nothing is rounded; every other conversion stays where it is.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "ir/passes/passes.h"
#include "tests/unit/lower/helper.h"

namespace tilec::ir {
namespace {

// C = cast(bits(W) − z) for rows of 64.
Function Weights(const std::string& bits, const std::string& op = "sub",
                 const std::string& to = "bf16", const std::string& shared = "i32[32, 64]") {
  return Parsed(fmt::format(R"(func @weights tile {{
  param tensor %W: tensor<u8, 2> in [N, K] align=16 stride_align=16 contiguous=1 last_align=16
  param tensor %z: tensor<u8, 1> in [N] align=16 stride_align=16 contiguous=1 last_align=16
  param tensor %C: tensor<{2}, 2> out [N, K] align=16 stride_align=16 contiguous=1 last_align=16
  param dim %N: i64
  param dim %K: i64
  body {{
    %0 = constant {{value = 0}} : i64
    parallel %0, %N, %0, %K {{steps = [32, 64]}} do (%n: i64, %k: i64) {{
      %w = load %W, %n, %k {{modes = "rr", sizes = [32, 64]}} : u8[32, 64]
      {0}
      %wide = cast %few : i32[32, 64]
      %zero = load %z, %n {{modes = "r", sizes = [32]}} : u8[32]
      %zw = cast %zero : i32[32]
      %zb = broadcast %zw {{axes = [0]}} : {3}
      %d = {1} %wide, %zb : i32[32, 64]
      %f = cast %d : {2}[32, 64]
      %h = constant {{value = 32}} : i64
      %ne0 = add %n, %h : i64
      %ne = min %ne0, %N : i64
      %g = constant {{value = 64}} : i64
      %ke0 = add %k, %g : i64
      %ke = min %ke0, %K : i64
      store %C, %f, %n, %ne, %k, %ke {{modes = "rr", sizes = [32, 64]}}
      yield
    }}
  }}
}}
)",
                            bits, op, to, shared));
}

constexpr const char* kNibble = R"(%m = constant {value = 15} : u8[32, 64]
      %few = and %w, %m : u8[32, 64])";
constexpr const char* kByte = "%few = add %w, %w : u8[32, 64]";

std::vector<double> ResultOf(const Function& fn, DType to) {
  InterpretInputs in;
  in.tensors["W"] = TensorValue::Random(DType::kU8, {50, 70}, 1);
  in.tensors["z"] = TensorValue::Random(DType::kU8, {50}, 2);
  in.tensors["C"] = TensorValue::Zeros(to, {50, 70});
  in.dims = {{"N", 50}, {"K", 70}};
  return Interpreted(fn, std::move(in), "C");
}

TEST(ExactCasts, NibblesLessTheirZeros) {
  for (const auto& [to, dtype] : {std::pair("bf16", DType::kBF16), std::pair("f16", DType::kF16)}) {
    const Function before = Weights(kNibble, "sub", to);
    const Function after = Changed(ExactCasts, before, 1);
    EXPECT_NE(Print(after).find(fmt::format(": {}[32]", to)), std::string::npos);  // the zeros
    EXPECT_EQ(ResultOf(before, dtype), ResultOf(after, dtype));
  }
}

// 15 + 255 is 270, which bf16 does not hold; f16 does.
TEST(ExactCasts, NotWhatWouldBeRounded) {
  Changed(ExactCasts, Weights(kNibble, "add"), 0);
  const Function before = Weights(kNibble, "add", "f16");
  EXPECT_EQ(ResultOf(before, DType::kF16), ResultOf(Changed(ExactCasts, before, 1), DType::kF16));
}

TEST(ExactCasts, NotBytesThatLogicDoesNotMakeFloats) { Changed(ExactCasts, Weights(kByte), 0); }

TEST(ExactCasts, NotToFloatsOfAWord) { Changed(ExactCasts, Weights(kNibble, "sub", "f32"), 0); }

// What a loop hands on is asked for while its body is written anew, and has no end yet: the range
// of a carried tile was read from behind the last op that there was not (a crash).
TEST(ExactCasts, OfWhatALoopHandsOn) {
  const Function fn = Parsed(R"(func @handed tile {
  param tensor %C: tensor<i32, 1> out [N] align=16 stride_align=16 contiguous=1 last_align=16
  param dim %N: i64
  body {
    %0 = constant {value = 0} : i64
    parallel %0, %N {steps = [32]} do (%n: i64) {
      %two = constant {value = 2} : i32[32]
      %w = for %0, %N, %two {step = 8} : i32[32] do (%i: i64, %c: i32[32]) {
        %s = add %c, %two : i32[32]
        %f = cast %s : f16[32]
        %b = cast %f : i32[32]
        yield %b
      }
      %h = constant {value = 32} : i64
      %e0 = add %n, %h : i64
      %e = min %e0, %N : i64
      store %C, %w, %n, %e {modes = "r", sizes = [32]}
      yield
    }
  }
}
)");
  Changed(ExactCasts, fn, 0);
}

}  // namespace
}  // namespace tilec::ir
