// Near the largest finite number orders of arithmetic differ: one overflows where another does not.
// What depends on the order is undecided, and what every order makes is not. And how far sums taken
// in parts may stray, term by term.
//
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "ir/interpret_parts.h"
#include "tests/unit/ir/execute.h"

namespace tilec::ir {
namespace {

using interpret_internal::PartsOfSum;
using interpret_internal::SumInParts;
using interpret_internal::Tile;

// One result of four numbers, by the op.
struct Result4 {
  double value;
  bool undecided;
};
Result4 Of(const std::string& op, std::vector<double> numbers) {
  TensorValue a = TensorValue::Zeros(DType::kF32, {1, 4});
  a.v = std::move(numbers);
  Ran run = Execute(R"(func @f tile {
  param tensor %A: tensor<f32, 2> in [1, 4] align=1 stride_align=1 contiguous=1
  param tensor %R: tensor<f32, 1> out [1] align=1 stride_align=1 contiguous=1
  body {
    %z = constant {value = 0} : i64
    %n = constant {value = 1} : i64
    %a = load %A, %z, %z {modes = "rr", sizes = [1, 4]} : f32[1, 4]
    %one = constant {value = 1.0} : f32[4, 1]
    %start = constant {value = 0.0} : f32[1, 1]
    %two = constant {value = 2.0} : f32[1]
    %four = constant {value = 4.0} : f32[1]
)" + op + R"(
    store %R, %r, %z, %n {modes = "r", sizes = [1]}
  }
}
)",
                    {{"A", a}});
  EXPECT_TRUE(run.ok) << Messages(run.diags);
  const TensorValue& r = run["R"];
  return {r.v[0], !r.undecided.empty() && r.undecided[0]};
}

const char* kSum = R"(%r = reduce %a {kind = "sum", axis = 1} : f32[1])";
const char* kProduct = R"(%r = reduce %a {kind = "prod", axis = 1} : f32[1])";
const char* kDot = R"(%d = dot %a, %one, %start : f32[1, 1]
    %r = reshape %d : f32[1])";

TEST(Overflow, SumsThatSomeOrdersOverflow) {
  for (const char* sum : {kSum, kDot}) {
    EXPECT_TRUE(Of(sum, {2e38, 2e38, -2e38, -1e38}).undecided) << sum;
    EXPECT_TRUE(Of(sum, {2e38, 1.5e38, -1e38, 0}).undecided) << sum;
    EXPECT_TRUE(Of(sum, {2e38, 2e38, -2e38, -2e38}).undecided) << sum;
    EXPECT_FALSE(Of(sum, {1e38, 1e38, -1e38, -0.3e38}).undecided) << sum;
  }
  EXPECT_FALSE(Of(kSum, {2e38, 1e38, -1e38, -0.5e38}).undecided);
  const Result4 always = Of(kSum, {2e38, 2e38, 2e38, -1e38});  // infinite in every order
  EXPECT_FALSE(always.undecided);
  EXPECT_TRUE(std::isinf(always.value));
}

TEST(Overflow, ProductsThatSomeOrdersOverflow) {
  EXPECT_TRUE(Of(kProduct, {1e30, 1e30, 1e-30, 1e-30}).undecided);
  EXPECT_TRUE(Of(kProduct, {1e25, 1e10, 1e-25, 1e-25}).undecided);  // zero on the way
  EXPECT_FALSE(Of(kProduct, {1e10, 1e20, 1e-10, 2}).undecided);
  const Result4 always = Of(kProduct, {1e20, 1e20, 2, 4});
  EXPECT_FALSE(always.undecided);
  EXPECT_TRUE(std::isinf(always.value));
}

// A product that overflows, until a multiply-add takes it back.
TEST(Overflow, ProductsThatMayBeContracted) {
  const std::string mul = R"(%s = reduce %a {kind = "max", axis = 1} : f32[1]
    %r = mul %s, %two : f32[1])";
  EXPECT_TRUE(Of(mul, {2e38, 0, 0, 0}).undecided);
  EXPECT_FALSE(Of(mul, {1e38, 0, 0, 0}).undecided);
}

// Narrowed to f16, where a number that is known within some bound may overflow.
const char* kNarrow = R"(%d = dot %a, %one, %start : f32[1, 1]
    %f = reshape %d : f32[1]
    %h = cast %f : f16[1]
    %w = cast %h : f32[1]
    %r = mul %w, %two : f32[1])";

TEST(Overflow, WhatMayBeInfiniteEitherWayIsUndecided) {
  // 1e5 within 2e6: no executor's sign is known.
  EXPECT_TRUE(Of(kNarrow, {1e12, -1e12, 1e5, 0}).undecided);
  const Result4 always = Of(kNarrow, {1e5, 1e5, 0, 0});
  EXPECT_FALSE(always.undecided);
  EXPECT_TRUE(std::isinf(always.value));
}

// 62000 within 3700 may be above 65520, and none of four perturbed runs is: sampling says nothing.
TEST(Overflow, SamplingSeesWhatNarrowingMayOverflow) {
  EXPECT_TRUE(Of(kNarrow, {1.9e9, -1.9e9, 62000, 0}).undecided);
  EXPECT_FALSE(Of(kNarrow, {1.9e9, -1.9e9, 28000, 0}).undecided);
  const std::string twice = R"(%d = dot %a, %one, %start : f32[1, 1]
    %f = reshape %d : f32[1]
    %h = cast %f : f16[1]
    %s = add %h, %h : f16[1]
    %r = cast %s : f32[1])";
  EXPECT_TRUE(Of(twice, {1e9, -1e9, 31000, 0}).undecided);
  EXPECT_FALSE(Of(twice, {1e9, -1e9, 14000, 0}).undecided);
}

Tile Number(double v, float e = 0) {
  Tile t;
  t.shape = {1};
  t.v = {v};
  if (e > 0) t.e = {e};
  return t;
}

// How far a sum strays that a loop of one turn carries in two parts.
double Strays(double sum, const Tile* factor, const SumInParts& of) {
  PartsOfSum parts(Number(0));
  Tile t = Number(sum);
  parts.Turn(t, factor);
  parts.End(t, of, 2, nullptr);
  return t.error(0);
}

TEST(SumsInParts, EveryPartIsBroughtToTheLargestByAFactorMore) {
  SumInParts of;
  of.factor = ValueId(0);
  const double all = 2 * 2 * 0.7;  // 2·p·H
  const Tile exact = Number(0.5), vague = Number(0.5, 0.01F);
  const double without = Strays(0.7, &exact, of), with = Strays(0.7, &vague, of);
  EXPECT_NEAR(with - without, 0.02 * all, 1e-6);  // φ = 0.01 / 0.5
  EXPECT_LT(without, 1e-6);
}

TEST(SumsInParts, PartsMayOverflowBeforeTheyAreCombined) {
  PartsOfSum parts(Number(0));
  Tile t = Number(1e38);
  parts.Turn(t, nullptr);
  parts.End(t, {}, 2, nullptr);  // a part is a difference of sums: up to 4e38
  EXPECT_TRUE(t.undecided(0));
  Tile small = Number(1e37);
  PartsOfSum of_small(Number(0));
  of_small.Turn(small, nullptr);
  of_small.End(small, {}, 2, nullptr);
  EXPECT_FALSE(small.undecided(0));
}

}  // namespace
}  // namespace tilec::ir
